"""The lines of a TOML text: the line of each key, for errors that name the key; and its sections, one for each table.

While a text is edited, most sections stay the same; they are parsed only once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from io import StringIO
from typing import NamedTuple

from hocket.documents import Document
from hocket.errors import FormatError, HocketError
from hocket.machine.formats import toml

KEY = re.compile(r"""[ \t]*(?:([A-Za-z0-9_-]+)|"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)')[ \t]*""")
HEADING = re.compile(r"[ \t]*\[\[?([^\n]*?)\]\]?[ \t]*(?:#.*)?$")
LONG_TEXT = re.compile(r'"""|\'\'\'')
NOT_TOML = re.compile(r"\(at line (\d+), column \d+\)")
ROW = re.compile(r"\(row (\d+), column \d+\)|line (\d+) has")  # of a map
MOST_KEPT = 16  # parsed sections in the cache
SMALL = 10_000  # characters of a text that is always parsed as a whole

Path = tuple[str, ...]


def line_of(error: HocketError, text: str) -> int | None:
    """Find the line, counted from 1, that an error is about; None if it names no key."""
    message = str(error)
    if match := NOT_TOML.search(message):
        return int(match[1])
    if "(at end of document)" in message:
        return text.count("\n") + 1
    key, keys = message.partition(": ")[0], keys_of(text)
    parts = [name for name in keys if key == name or key.startswith((f"{name}.", f"{name}["))]
    line = keys[max(parts, key=len)] if parts else None
    if line is not None and message.startswith("map:") and (row := ROW.search(message)):
        line += int(row[1]) + 1 if row[1] else int(row[2])
    return line


def keys_of(text: str) -> dict[str, int]:
    """List the full names of the keys at the beginnings of lines, with their lines.

    >>> keys_of('slip = 0.1\\n[agents]\\nA1 = { start = "1" }')
    {'slip': 1, 'agents': 2, 'agents.A1': 3}
    """
    lines: dict[str, int] = {}
    table: Path = ()
    for number, (line, heading, is_inside) in enumerate(_lines(text), start=1):
        path = () if is_inside or heading is not None else path_of(line)
        table = table if heading is None else heading
        if path or heading is not None:
            lines.setdefault(".".join((*table, *path)), number)
    return lines


def _lines(text: str) -> Iterator[tuple[str, Path | None, bool]]:
    """List the lines of a text, with the table that a heading begins, and whether they are in a multi-line string."""
    quotes = ""  # that end the current multi-line string
    for line in StringIO(text, newline="\n"):
        is_inside = bool(quotes)
        heading = HEADING.match(line.rstrip("\r\n")) if "[" in line and not is_inside else None
        for mark in LONG_TEXT.findall(line) if heading is None else ():
            quotes = "" if mark == quotes else quotes or mark
        yield line, path_of(heading[1]) if heading else None, is_inside


def path_of(line: str) -> Path:
    """Read a dotted key at the beginning of a line."""
    names: list[str] = []
    position = 0
    while match := KEY.match(line, position):
        names.append(next(part for part in match.groups() if part is not None))
        position = match.end() + 1
        if line[match.end() : position] != ".":
            break
    return tuple(names)


class TextSection(NamedTuple):
    """The lines of a table, or those before the first heading, which have no name."""

    name: str | None
    text: str

    def parse(self) -> Document:
        """Parse the section; an unchanged one only once."""
        document = _parse(self.text)
        if self.name is not None and {*document} != {self.name}:
            raise FormatError("is not a section")
        return document


_parse = lru_cache(MOST_KEPT)(toml.parse)


def split(text: str) -> list[TextSection]:
    """Split a text into sections; into a single one if the headings do not tell which lines belong together."""
    sections = list(_split(text))
    names = [section.name for section in sections]
    with suppress(FormatError):
        documents = [section.parse() for section in sections]
        if len({*names}) == len(names) and not {*documents[0]} & {*names}:
            return sections
    return [TextSection(None, text)]


def _split(text: str) -> Iterator[TextSection]:
    name: str | None = None
    lines: list[str] = []
    for line, heading, _ in _lines(text):
        if heading and heading[0] != name:
            yield TextSection(name, "".join(lines))
            name, lines = heading[0], []
        lines.append(line)
    yield TextSection(name, "".join(lines))


def parse(text: str) -> Document:
    """Parse a TOML document, of a long one only the sections that have changed; an error names its line."""
    sections = [] if len(text) < SMALL else split(text)
    if len(sections) < 2:
        return toml.parse(text)
    return {key: value for section in sections for key, value in section.parse().items()}
