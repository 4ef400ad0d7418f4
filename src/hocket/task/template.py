"""Task files for teams of like agents: what is said once of agent `{i}` holds for each of 1, 2, ... up to `team`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hocket.documents import Document
from hocket.errors import FormatError
from hocket.files import MEGABYTE

NUMBER, SIZE = "{i}", "{n}"
MOST_AGENTS = 100_000  # in a family
MOST_TEXT = 128 * MEGABYTE  # characters that a template may grow to


def expand_team(table: Document, size: int | None = None) -> Document:
    """Write a task out for its number of like agents, or for another `size`; a task without `team` is as it is."""
    if "team" not in table:
        if size is not None:
            raise FormatError("a team size can be chosen only for a task with `team`")
        return table
    count = table["team"] if size is None else size
    if type(count) is not int or not 1 <= count <= MOST_AGENTS:
        raise FormatError(f"must be a whole number from 1 to {MOST_AGENTS:,}, got {count!r:.60}", where="team")
    writer = _Writer(count)
    whole = {key: value for key, value in table.items() if key not in ("team", "map")}  # a map has letters, not words
    written = {"map": table["map"]} if "map" in table else {}
    return {**written, **writer.table(whole, "")}


class _Writer:
    """Writes a template out, up to a length."""

    def __init__(self, count: int) -> None:
        self.count, self.left = count, MOST_TEXT

    def table(self, table: Mapping[str, object], at: str) -> Document:
        """Repeat the keys with a number, and write out the values of the others."""
        written: Document = {}
        for key, value in table.items():
            where = f"{at}{key}"
            for name, part in self.repeated(key, value) if NUMBER in key else [(self.fill(key), value)]:
                if name in written:
                    raise FormatError(f"{name!r} is given twice: in full and by {NUMBER}", where=where)
                written[name] = self.value(part, where)
        return written

    def repeated(self, key: str, value: object) -> Iterator[tuple[str, object]]:
        for number in range(1, self.count + 1):
            yield self.fill(key.replace(NUMBER, str(number))), self.numbered(value, number)

    def value(self, value: object, where: str) -> object:
        """Write out a value that belongs to no number, or whose number has been filled in."""
        if isinstance(value, dict):
            return self.table(value, f"{where}.")
        if isinstance(value, list):
            return [self.value(item, where) for element in value for item in self.elements(element)]
        if isinstance(value, str) and NUMBER in value:
            rule = f"{NUMBER} belongs in a key that is repeated, or in an element of a list"
            raise FormatError(f"{rule}, got {value!r:.60}", where=where)
        return self.fill(value) if isinstance(value, str) else value

    def elements(self, element: object) -> list[object]:
        """Repeat an element of a list if it has a number."""
        if isinstance(element, str) and NUMBER in element:
            return [self.numbered(element, number) for number in range(1, self.count + 1)]
        return [element]

    def numbered(self, value: object, number: int) -> object:
        """Fill a number in wherever it stands in a value."""
        if isinstance(value, dict):
            return {self.numbered(key, number): self.numbered(part, number) for key, part in value.items()}
        if isinstance(value, list):
            return [self.numbered(part, number) for part in value]
        self.spend(1)
        if not isinstance(value, str):
            return value
        self.spend(len(value))
        return value.replace(NUMBER, str(number))

    def fill(self, text: str) -> str:
        """Fill the number of agents in."""
        self.spend(len(text))
        return text.replace(SIZE, str(self.count))

    def spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            limit = MOST_TEXT // MEGABYTE
            raise FormatError(f"a team of {self.count:,} would make a task of more than {limit} MB", where="team")
