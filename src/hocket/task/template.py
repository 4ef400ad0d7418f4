"""Task files for teams of like agents: what is said once of agent `{i}` holds for each of 1, 2, ... up to `team`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hocket.documents import Document
from hocket.errors import FormatError, shown
from hocket.files import MEGABYTE

NUMBER, SIZE = "{i}", "{n}"
MOST_AGENTS = 100_000  # in a family
MOST_GROUPS = 100
MOST_TEXT = 8 * MEGABYTE  # characters that a template may grow to, as little text may stand for much work


def expand_team(table: Document, size: int | None = None) -> Document:
    """Write a task out for its number of like agents, or for another `size`; a task without `team` is as it is.

    >>> expand_team({"team": {"miner": 2}, "agents": {"{miner}": {"knows": ["dig by {miner}", "all {n}"]}}})["agents"]
    {'miner1': {'knows': ['dig by miner1', 'all 2']}, 'miner2': {'knows': ['dig by miner2', 'all 2']}}
    """
    if "team" not in table:
        if size is not None:
            raise FormatError("a team size can be chosen only for a task with `team`")
        return table
    team = table["team"]
    if isinstance(team, dict):
        if size is not None:
            raise FormatError("a team size can be chosen only for a task whose `team` is a number")
        writer = _groups_of(team)
    else:
        count = _count(team if size is None else size, "team")
        writer = _Writer({NUMBER: [str(number) for number in range(1, count + 1)]}, {SIZE: str(count)})
    whole = {key: value for key, value in table.items() if key not in ("team", "map")}  # a map has letters, not words
    return {**({"map": table["map"]} if "map" in table else {}), **writer.table(whole, "", {})}


def _groups_of(team: Mapping[str, object]) -> _Writer:
    """Name the members of groups after them: {miner} stands for miner1, miner2, ..., {n.miner} for their number."""
    if not 1 <= len(team) <= MOST_GROUPS:
        raise FormatError(f"must have from 1 to {MOST_GROUPS} groups of like agents, got {len(team):,}", where="team")
    counts = {group: _count(count, f"team.{group}") for group, count in team.items()}
    for group in counts:
        if not group.isidentifier() or f"{{{group}}}" in (NUMBER, SIZE):
            raise FormatError(f"a group's name is a word other than i and n, got {shown(group)}", where="team")
    total = _count(sum(counts.values()), "team")
    return _Writer(
        {f"{{{group}}}": [f"{group}{number}" for number in range(1, counts[group] + 1)] for group in counts},
        {SIZE: str(total)} | {f"{{n.{group}}}": str(count) for group, count in counts.items()},
    )


def _count(count: object, where: str) -> int:
    if type(count) is not int or not 1 <= count <= MOST_AGENTS:
        raise FormatError(f"must be a whole number from 1 to {MOST_AGENTS:,}, got {count!r:.60}", where=where)
    return count


class _Writer:
    """Writes a template out, up to a length."""

    def __init__(self, members: Mapping[str, Sequence[str]], sizes: Mapping[str, str]) -> None:
        self.members = members  # placeholder -> what it stands for, one after the other
        self.sizes = sizes  # placeholder -> a number of agents
        self.left = MOST_TEXT

    def table(self, table: Mapping[str, object], at: str, chosen: Mapping[str, str]) -> Document:
        """Repeat keys with a placeholder for each of its members; `chosen` are those of the keys around it."""
        written: Document = {}
        for key, value in table.items():
            where = f"{at}{self.fill(key, chosen)}"
            for name, members in self.repeated(key, chosen):
                if name in written:
                    placeholder = next((placeholder for placeholder in self.members if placeholder in key), NUMBER)
                    raise FormatError(f"{name!r} is given twice: in full and by {placeholder}", where=where)
                written[name] = self.value(value, where, members)
        return written

    def repeated(self, text: str, chosen: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Fill a text in for each member of the groups that it names, and say which members these are."""
        for placeholder, members in self.members.items():
            if placeholder in text and placeholder not in chosen:
                for member in members:
                    yield from self.repeated(text, {**chosen, placeholder: member})
                return
        yield self.fill(text, chosen), chosen

    def value(self, value: object, where: str, chosen: Mapping[str, str]) -> object:
        """Write out a value; an element of a list is repeated for each member of the groups that it names."""
        if isinstance(value, dict):
            return self.table(value, f"{where}.", chosen)
        if isinstance(value, list):
            rows = (self.repeated(item, chosen) if isinstance(item, str) else [(item, chosen)] for item in value)
            return [self.value(item, where, members) for row in rows for item, members in row]
        if not isinstance(value, str):
            self.spend(1)
            return value
        text = self.fill(value, chosen)
        for placeholder in self.members:
            if placeholder in text:
                rule = f"{placeholder} belongs in a key that is repeated, or in an element of a list"
                raise FormatError(f"{rule}, got {text!r:.60}", where=where)
        return text

    def fill(self, text: str, chosen: Mapping[str, str]) -> str:
        """Fill in members that were chosen, and the numbers of agents."""
        self.spend(len(text))
        for placeholder, word in (*chosen.items(), *self.sizes.items()) if "{" in text else ():
            text = text.replace(placeholder, word)
        return text

    def spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            limit = MOST_TEXT // MEGABYTE
            team = f"a team of {int(self.sizes[SIZE]):,}"
            raise FormatError(f"{team} would make a task of more than {limit} MB", where="team")
