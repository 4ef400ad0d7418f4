"""A TOML text in sections, one for each table: while it is edited, all but one stay as they are, and are read once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from hocket.documents import Document
from hocket.errors import FormatError
from hocket.machine.formats import toml
from hocket.studio.lines import HEADING, open_quotes, path_of

MOST_KEPT = 16  # sections
SMALL = 10_000  # characters of a text that is read as a whole


class TextSection(NamedTuple):
    """The lines of a table; those before all headings have no name."""

    name: str | None
    text: str

    def parse(self) -> Document:
        """Read it, once as long as it stays the same."""
        document = _parse(self.text)
        if self.name is not None and {*document} != {self.name}:
            raise FormatError("is not a section")
        return document


_parse = lru_cache(MOST_KEPT)(toml.parse)


def split(text: str) -> list[TextSection]:
    """Split a text into sections, or into one where it cannot be told which lines belong together."""
    sections = list(_split(text))
    names = [section.name for section in sections]
    try:
        documents = [section.parse() for section in sections]
    except FormatError:
        return [TextSection(None, text)]
    is_clear = len({*names}) == len(names) and not {*documents[0]} & {*names}
    return sections if is_clear else [TextSection(None, text)]


def _split(text: str) -> Iterator[TextSection]:
    name: str | None = None
    lines: list[str] = []
    quotes = ""  # that a text of several lines ends with
    for line in text.splitlines(keepends=True):
        heading = HEADING.match(line.rstrip("\r\n")) if not quotes and "[" in line else None
        if heading and (path := path_of(heading[1])) and path[0] != name:
            yield TextSection(name, "".join(lines))
            name, lines = path[0], []
        lines.append(line)
        if '"""' in line or "'''" in line:
            quotes = open_quotes(line, quotes)
    yield TextSection(name, "".join(lines))


def parse(text: str) -> Document:
    """Read a TOML document, of a long one only what has changed; an error names its line."""
    if len(text) < SMALL:
        return toml.parse(text)
    sections = split(text)
    if len(sections) == 1:
        return toml.parse(text)
    return {key: value for section in sections for key, value in section.parse().items()}
