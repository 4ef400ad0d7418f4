"""In which line of a TOML text a key stands, for errors that name the key."""

from __future__ import annotations

import re

from hocket.errors import HocketError

KEY = re.compile(r"""[ \t]*(?:([A-Za-z0-9_-]+)|"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)')[ \t]*""")
HEADING = re.compile(r"[ \t]*\[\[?([^\n]*?)\]\]?[ \t]*(?:#.*)?$")
LONG_TEXT = re.compile(r'"""|\'\'\'')
NOT_TOML = re.compile(r"\(at line (\d+), column \d+\)")
END_OF_DOCUMENT = "(at end of document)"
ROW = re.compile(r"\(row (\d+), column \d+\)|line (\d+) has")  # of a map

Path = tuple[str, ...]


def line_of(error: HocketError, text: str) -> int | None:
    """Find the line, counted from 1, that an error is about; None where it names none."""
    message = str(error)
    if match := NOT_TOML.search(message):
        return int(match[1])
    if END_OF_DOCUMENT in message:
        return text.count("\n") + 1
    line = _nearest(message.partition(": ")[0], keys_of(text))
    if line is not None and message.startswith("map:") and (row := ROW.search(message)):
        line += int(row[1]) + 1 if row[1] else int(row[2])
    return line


def _nearest(key: str, keys: dict[str, int]) -> int | None:
    """Find the line of a key, or of the longest beginning of it that has one."""
    parts = [name for name in keys if key == name or key.startswith((f"{name}.", f"{name}["))]
    return keys[max(parts, key=len)] if parts else None


def keys_of(text: str) -> dict[str, int]:
    """List the keys of a TOML text that stand at the beginning of a line, in full, and their lines.

    >>> keys_of('slip = 0.1\\n[agents]\\nA1 = { start = "1" }')
    {'slip': 1, 'agents': 2, 'agents.A1': 3}
    """
    lines: dict[str, int] = {}
    table: Path = ()
    quotes = ""  # that a text of several lines ends with
    for number, line in enumerate(text.split("\n"), start=1):
        if quotes:
            quotes = open_quotes(line, quotes)
            continue
        heading = HEADING.match(line)
        if heading:
            table = path_of(heading[1])
            lines.setdefault(".".join(table), number)
            continue
        path = path_of(line)
        if path:
            lines.setdefault(".".join((*table, *path)), number)
        quotes = open_quotes(line)
    return lines


def open_quotes(line: str, quotes: str = "") -> str:
    """Find which quotes of a text of several lines are open at the end of a line."""
    for mark in LONG_TEXT.findall(line):
        quotes = "" if mark == quotes else quotes or mark
    return quotes


def path_of(line: str) -> Path:
    """Read a dotted key at the beginning of a line."""
    names: list[str] = []
    position = 0
    while match := KEY.match(line, position):
        names.append(next(part for part in match.groups() if part is not None))
        position = match.end()
        if line[position : position + 1] != ".":
            break
        position += 1
    return tuple(names)
