"""Names: which are allowed, and ordered sets of them; transitions in the forms that users give, and as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from itertools import count as counter
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from hocket.documents import is_one_line
from hocket.errors import MachineError, require_known
from hocket.graphs import Ints

IN_THIS_MACHINE = " in this machine"
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Listed = Iterable[str] | None  # names that are given; None: those that are used


class Names(Set[str], Hashable):
    """An immutable set of names that remembers their order."""

    __slots__ = ("_count", "_listed", "_make", "_table")

    def __init__(self, names: Iterable[str] = ()) -> None:
        listed = tuple(dict.fromkeys(names))
        self._count = len(listed)
        self._make: Callable[[int], str] = listed.__getitem__
        self._listed: tuple[str, ...] | None = listed
        self._table: dict[str, int] | None = None

    @classmethod
    def lazily(cls, count: int, make: Callable[[int], str]) -> Names:
        """Make `count` names when they are needed, by `make` from their positions; no two of them may be equal."""
        names = cls()
        names._count, names._make, names._listed = count, make, None
        return names

    @property
    def listed(self) -> tuple[str, ...]:
        """The names in their order."""
        if self._listed is None:
            self._listed = tuple(map(self._make, range(self._count)))
        return self._listed

    @property
    def _index(self) -> dict[str, int]:
        if self._table is None:
            self._table = {name: position for position, name in enumerate(self.listed)}
        return self._table

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed)

    def __len__(self) -> int:
        return self._count

    def __hash__(self) -> int:
        return hash(frozenset(self.listed))

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self)) + "}"

    def __reduce__(self) -> tuple[object, ...]:
        return Names, (list(self),)

    def index(self, name: str) -> int:
        """Return the position of a name."""
        return self._index[name]

    def at(self, position: int) -> str:
        """Return the name at a position, without making the others where they are not made yet."""
        return self._make(position)


Known = Mapping[str, Names]  # agent -> the events that it knows; event -> the agents that control or hear it


def check_name(name: object, what: str) -> str:
    """Require a name, which is text that is not blank and has no control characters; `what` is as "an event"."""
    if not isinstance(name, str):
        raise MachineError(f"the name of {what} must be text, got {name!r:.60}")
    if not name.strip():
        raise MachineError(f"the name of {what} must not be empty, got {name!r:.60}")
    if not is_one_line(name):
        raise MachineError(f"the name of {what} must have no control characters, got {name!r:.60}")
    return name


def make_distinct(names: Sequence[str]) -> Iterator[str]:
    """Add primes to repeated names until all are different."""
    taken, seen = set(names), set[str]()
    for name in names:
        if name in seen:
            while name in taken:
                name += "′"
            taken.add(name)
        seen.add(name)
        yield name


def in_order(names: Iterable[str], what: str) -> list[str]:
    """List names of `what` in the order in which they are given; those of a set alphabetically."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        kind = "the string " if isinstance(names, str) else ""
        raise MachineError(f"names must come as a collection, got {kind}{names!r:.60}")
    listed = [check_name(name, what) for name in names]
    return sorted(listed, key=str) if isinstance(names, set | frozenset) else listed


def require_member(name: str, names: Names, what: str) -> None:
    """Require that a machine has a state or an event."""
    require_known(name, names, what, MachineError, IN_THIS_MACHINE)


def invert(lists: Mapping[Key, Iterable[Value]], names: Iterable[Value]) -> Mapping[Value, tuple[Key, ...]]:
    """List for each name the keys whose lists contain it.

    >>> dict(invert({"A1": ["a"], "A2": ["a", "b"]}, ["a", "b", "c"]))
    {'a': ('A1', 'A2'), 'b': ('A2',), 'c': ()}
    """
    keys: dict[Value, list[Key]] = {name: [] for name in names}
    for key, members in lists.items():
        for name in members:
            keys[name].append(key)
    return MappingProxyType({name: tuple(listed) for name, listed in keys.items()})


def quote(name: str) -> str:
    """Put a name into quotes as in DOT, HOA and formulas."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unquote(quoted: str) -> str:
    r"""Undo what `quote` did inside the quotes.

    >>> print(unquote(r"a \"b\" \\ c"))
    a "b" \ c
    """
    return "\\".join(part.replace("\\", "") for part in quoted.split("\\\\"))


# Transitions.

Transitions = Mapping[tuple[str, str], str] | Iterable[tuple[str, str, str]]
Rows = Mapping[str, Mapping[str, Value]]  # state -> event -> value


class TransitionColumns(NamedTuple):
    """Transitions as columns of numbers."""

    states: Mapping[str, int]  # name -> number, in the order of first use
    events: Mapping[str, int]
    source: Ints
    label: Ints
    target: Ints

    @classmethod
    def of_table(cls, table: Mapping[tuple[str, str], str]) -> TransitionColumns:
        """Read (state, event) -> state."""
        ends = chain.from_iterable((state, target) for (state, _), target in table.items())
        states, numbers = _numbered(ends, 2 * len(table))
        events, label = _numbered((event for _, event in table), len(table))
        return cls(states, events, numbers[::2], label, numbers[1::2])

    @classmethod
    def of_rows(cls, rows: Rows[str]) -> TransitionColumns:
        """Read state -> event -> state; each source is looked up once."""
        full = {state: row for state, row in rows.items() if row}
        sizes = np.fromiter(map(len, full.values()), np.int64, len(full))
        total = int(sizes.sum())
        ends = chain.from_iterable(chain((state,), row.values()) for state, row in full.items())
        states, numbers = _numbered(ends, total + len(full))
        sources = np.cumsum(sizes + 1) - sizes - 1  # the position of each source, which its targets follow
        events, label = _numbered(chain.from_iterable(full.values()), total)
        return cls(states, events, np.repeat(numbers[sources], sizes), label, np.delete(numbers, sources))

    def states_from(self, initial: str) -> Iterable[str]:
        """List the states in use, the initial one first if it is in use or no state is."""
        return {initial: 0, **self.states} if initial in self.states or not self.states else self.states


def _numbered(names: Iterable[str], count: int) -> tuple[Mapping[str, int], Ints]:
    """Number `count` names in the order of first use; return the number of each name, and the row of all numbers."""
    number: defaultdict[str, int] = defaultdict(counter().__next__)
    numbers = np.fromiter(map(number.__getitem__, names), np.int32, count)
    number.default_factory = None
    return number, numbers


def as_pairs(rows: Rows[Value]) -> dict[tuple[str, str], Value]:
    """Turn state -> event -> value into (state, event) -> value."""
    return {(state, event): value for state, row in rows.items() for event, value in row.items()}


def as_rows(pairs: Mapping[tuple[str, str], Value]) -> dict[str, dict[str, Value]]:
    """Turn (state, event) -> value into state -> event -> value."""
    rows: dict[str, dict[str, Value]] = {}
    for (state, event), value in pairs.items():
        rows.setdefault(state, {})[event] = value
    return rows


def as_table(transitions: Transitions) -> dict[tuple[str, str], str]:
    """Check the shape of the transitions and that none is given twice."""
    if isinstance(transitions, Mapping):
        table = dict(transitions)
        for key, target in table.items():
            if not (isinstance(key, tuple) and len(key) == 2):
                raise MachineError(f"a transition's key must be a pair (state, event), got {key!r:.60}")
            if not isinstance(target, str):
                check_name(target, "a state")
        return table
    if not isinstance(transitions, Iterable):
        raise MachineError(f"transitions must map (state, event) to a state, got {transitions!r:.60}")
    table = {}
    for triple in transitions:
        if not (isinstance(triple, tuple | list) and len(triple) == 3):
            raise MachineError(f"a transition must be (state, event, target), got {triple!r}")
        state, event, target = map(check_name, triple, ("a state", "an event", "a state"))
        if (state, event) in table:
            ends = f"to {table[state, event]!r} and to {target!r}"
            raise MachineError(f"state {state!r} must have one transition on {event!r}, got two: {ends}")
        table[state, event] = target
    return table
