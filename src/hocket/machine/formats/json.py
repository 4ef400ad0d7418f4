"""Documents in JSON, for programs and for large machines."""

from __future__ import annotations

import json
from collections.abc import Collection

from hocket.documents import Document
from hocket.errors import FormatError, parser_message

NESTED = {dict, list}


def parse(content: str) -> object:
    """Read a JSON document, refusing repeated keys and numbers that are not finite."""
    try:
        document = json.loads(content, parse_constant=_refuse_constant)
        if content.count(":") > _count_keys(document):  # colons in names, or a key that was given twice
            json.loads(content, object_pairs_hook=_without_repetition)
        return document
    except json.JSONDecodeError as error:
        raise FormatError(f"is not JSON: {error.msg}", where=f"line {error.lineno}") from None
    except FormatError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise FormatError(f"is not JSON that can be read: {parser_message(error)}") from None


def unparse(document: Document) -> str:
    """Write a JSON document with a state of a machine on each line."""
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"    {_plain(name)}: {_plain(row)}" for name, row in value.items())
            lines.append(f"  {_plain(key)}: {{\n{rows}\n  }}" if rows else f"  {_plain(key)}: {{}}")
        else:
            lines.append(f"  {_plain(key)}: {_plain(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


_plain = json.JSONEncoder(ensure_ascii=False).encode  # made once, as a machine has as many rows as states


def _count_keys(document: object) -> int:
    keys, waiting = 0, [document]
    while waiting:
        value = waiting.pop()
        inner: Collection[object] = value if isinstance(value, list) else ()
        if isinstance(value, dict):
            inner, keys = value.values(), keys + len(value)
        if not NESTED.isdisjoint(map(type, inner)):  # most tables have only names in them
            waiting += [value for value in inner if type(value) in NESTED]
    return keys


def _without_repetition(pairs: list[tuple[str, object]]) -> Document:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise FormatError("is given twice in one table", where=key)
            seen.add(key)
    return table


def _refuse_constant(name: str) -> object:
    raise FormatError(f"numbers must be finite, got {name}")
