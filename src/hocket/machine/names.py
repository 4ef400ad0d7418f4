"""Names of states, events, agents and places: what they may be, and sets of them in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set

from hocket.documents import is_one_line
from hocket.errors import MachineError, require_known

IN_THIS_MACHINE = " in this machine"


class Names(Set[str], Hashable):
    """An immutable set of names that remembers their order."""

    __slots__ = ("_count", "_listed", "_make", "_table")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._table: dict[str, int] | None = {name: position for position, name in enumerate(dict.fromkeys(names))}
        self._count = len(self._table)
        self._make: Callable[[int], str] | None = None
        self._listed: tuple[str, ...] | None = None

    @classmethod
    def lazily(cls, count: int, make: Callable[[int], str]) -> Names:
        """Promise so many names, of which `make` gives the one at a position; no two of them may be equal."""
        names = cls()
        names._table, names._count, names._make = None, count, make
        return names

    @property
    def _index(self) -> dict[str, int]:
        if self._table is None:
            self._table = {name: position for position, name in enumerate(map(self._make or str, range(self._count)))}
        return self._table

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return self._count

    def __hash__(self) -> int:
        return hash(frozenset(self._index))

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self)) + "}"

    def __reduce__(self) -> tuple[object, ...]:
        return Names, (list(self),)

    def index(self, name: str) -> int:
        """Return the position of a name."""
        return self._index[name]

    def at(self, position: int) -> str:
        """Return the name at a position, without making the others where they are not made yet."""
        if self._table is None and self._make is not None:
            return self._make(position)
        if self._listed is None:
            self._listed = tuple(self)
        return self._listed[position]


def check_name(name: object, what: str) -> str:
    """Require a name: text that is not blank and has no control characters; `what` says with its article of what."""
    if not isinstance(name, str):
        raise MachineError(f"the name of {what} must be text, got {name!r:.60}")
    if not name.strip():
        raise MachineError(f"the name of {what} must not be empty, got {name!r:.60}")
    if not is_one_line(name):
        raise MachineError(f"the name of {what} must have no control characters, got {name!r:.60}")
    return name


def make_distinct(names: Sequence[str]) -> Iterator[str]:
    """Mark a name with as many primes as set it apart from all others."""
    if len(set(names)) == len(names):
        yield from names
        return
    taken = set(names)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            while name in taken:
                name += "′"
            taken.add(name)
        seen.add(name)
        yield name


def in_order(names: Iterable[str], what: str) -> list[str]:
    """List names of `what` in their own order, or alphabetically where they come without one."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        kind = "the string " if isinstance(names, str) else ""
        raise MachineError(f"names must come as a collection, got {kind}{names!r:.60}")
    listed = [check_name(name, what) for name in names]
    return sorted(listed, key=str) if isinstance(names, set | frozenset) else listed


def require_member(name: str, names: Names, what: str) -> None:
    """Refuse the name of a state or an event that a machine does not have."""
    require_known(name, names, what, MachineError, IN_THIS_MACHINE)


def quote(name: str) -> str:
    """Put a name into quotes, as DOT, HOA and formulas have them."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unquote(quoted: str) -> str:
    r"""Undo what `quote` did inside the quotes.

    >>> print(unquote(r"a \"b\" \\ c"))
    a "b" \ c
    """
    return "\\".join(part.replace("\\", "") for part in quoted.split("\\\\"))
