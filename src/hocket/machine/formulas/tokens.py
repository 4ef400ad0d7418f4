"""Reading text from left to right, with errors that point at a column and say what was expected there."""

from __future__ import annotations

import re
from typing import NamedTuple

from hocket.errors import FormulaError, printable
from hocket.machine.names import unquote

LONGEST = 1_000_000  # characters of a formula


class Token(NamedTuple):
    """A piece of text; `kind` is the group of the pattern that found it, or "end"."""

    kind: str
    text: str
    place: int  # of its first character, from 0


def tokens_of(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """Cut a text into tokens; every character but blanks must be in one."""
    if not isinstance(text, str):
        raise FormulaError(f"a formula must be text, got {text!r:.60}")
    if len(text) > LONGEST:
        raise FormulaError(f"a formula must have at most {LONGEST:,} characters, got {len(text):,}")
    tokens: list[Token] = []
    place = 0
    for match in pattern.finditer(text):
        if text[place : match.start()].strip():
            break
        tokens.append(Token(str(match.lastgroup), match[0], match.start()))
        place = match.end()
    rest = text[place:].lstrip()
    if rest:
        raise error_at(text, len(text) - len(rest), f"{printable(repr(rest[0]))} means nothing here", got=None)
    return [*tokens, Token("end", "", len(text.rstrip()))]


def error_at(text: str, place: int, message: str, got: str | None = "") -> FormulaError:
    """Make an error that names a column and, unless `got` is None, what stands there."""
    line = text.count("\n", 0, place)
    column = place - (text.rfind("\n", 0, place) + 1) + 1
    where = f"line {line + 1}, column {column}" if line else f"column {column}"
    if got is None:
        return FormulaError(f"{where}: {message}")
    return FormulaError(f"{where}: {message}, got {printable(repr(got), 60) if got else 'the end'}")


def unquoted(text: str) -> str:
    """Read a name that may be in quotes."""
    return unquote(text[1:-1]) if text.startswith('"') else text
