"""Designs in TOML, for writing by hand."""

from __future__ import annotations

import json
import re
import tomllib

from hocket.errors import FormatError
from hocket.notation.design import Design, Document, from_document, to_document

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read(content: str) -> Design:
    """Read a design."""
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"is not TOML: {error}") from None
    return from_document(document)


def write(design: Design) -> str:
    """Write a design, one state a line."""
    document = to_document(design)
    lines = [f"{_key(key)} = {_value(value)}" for key, value in document.items() if not isinstance(value, dict)]
    for key, value in document.items():
        if isinstance(value, dict):
            lines += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_value(row)}" for name, row in value.items())]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, dict):
        row: Document = value
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in row.items()) + " }" if row else "{}"
    return json.dumps(value, ensure_ascii=False)  # lists, texts without control characters, and finite numbers agree
