"""Checks of documents, the nested tables and lists that TOML and JSON files hold: keys, tables, names, numbers."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from hocket.errors import FormatError, known_names, shown

Document = dict[str, object]
Read = Callable[[object, str], Any]  # makes a value of an entry of a document and its key


def is_one_line(text: str) -> bool:
    """Say whether a text has neither control characters, nor line breaks, nor halves of characters."""
    if text.isprintable():
        return True
    return not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)


def check_keys(table: Document, known: tuple[str, ...], at: str = "", rule: str = "") -> None:
    """Refuse unknown keys."""
    for key in table:
        if key not in known:
            raise FormatError(f"unknown key ({rule}{known_names(key, known)})", where=f"{at}{key}")


def as_table(value: object, where: str) -> Document:
    """Require a table."""
    if not isinstance(value, dict):
        raise FormatError(f"must be a table, got {shown(value)}", where=where)
    return dict(value)


def entries(table: Document, readers: Mapping[str, Read], at: str = "", rule: str = "") -> dict[str, Any]:
    """Read the entries of a table, each by the reader of its key; refuse unknown keys."""
    check_keys(table, (*readers,), at, rule)
    return {key: read(table[key], f"{at}{key}") for key, read in readers.items() if key in table}


def table_of(read: Read) -> Read:
    """Make a reader of tables whose values another one reads."""
    return lambda value, where: {name: read(entry, f"{where}.{name}") for name, entry in as_table(value, where).items()}


def as_any(value: object, _: str) -> object:
    """Accept any value, which the caller checks."""
    return value


def as_texts(value: object, where: str) -> tuple[str, ...]:
    """Require a list of names."""
    if not isinstance(value, list):
        raise FormatError(f"must be a list of names, got {shown(value)}", where=where)
    return tuple(as_text(item, f"{where}[{index}]") for index, item in enumerate(value))


def as_text(value: object, where: str) -> str:
    """Require a name or another text."""
    if not isinstance(value, str):
        raise FormatError(f"must be a name in quotes, got {shown(value)}", where=where)
    if not is_one_line(value.replace("\n", "").replace("\t", "")):
        raise FormatError(f"must have no control characters, got {shown(value)}", where=where)
    return value


def as_flag(value: object, where: str) -> bool:
    """Require true or false."""
    if not isinstance(value, bool):
        raise FormatError(f"must be true or false, got {value!r:.60}", where=where)
    return value


def as_number(value: object, where: str) -> float:
    """Require a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"must be a number, got {shown(value)}", where=where)
    try:
        return float(value)
    except OverflowError:
        raise FormatError("must be a number with absolute value below 1.8e308", where=where) from None


as_lists = table_of(as_texts)  # of names, in a table
