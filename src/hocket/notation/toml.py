"""Designs in TOML, for writing by hand."""

from __future__ import annotations

import json
import re
import tomllib

from hocket.errors import FormatError
from hocket.notation.design import Design, Document, design_from, design_to

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read(content: str) -> Design:
    """Read a design."""
    return design_from(parse(content))


def write(design: Design) -> str:
    """Write a design, one state a line."""
    return unparse(design_to(design))


def parse(content: str) -> Document:
    """Read a TOML document."""
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"is not TOML: {error}") from None


def unparse(document: Document, at: str = "") -> str:
    """Write a TOML document: tables of tables under headings, the innermost ones on a line each."""
    plain = {key: value for key, value in document.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in document.items():
        if isinstance(value, dict):
            heading = f"{at}{_key(key)}"
            if _depth(value) > 2:
                lines += ["", f"[{heading}]", unparse(value, f"{heading}.").rstrip("\n")]
            else:
                lines += ["", f"[{heading}]", *(f"{_key(name)} = {_value(row)}" for name, row in value.items())]
    return "\n".join(lines).replace("\n\n\n", "\n\n").lstrip("\n") + "\n"


def _depth(value: object) -> int:
    return 1 + max(map(_depth, value.values()), default=0) if isinstance(value, dict) else 0


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, dict):
        row: Document = value
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in row.items()) + " }" if row else "{}"
    if isinstance(value, str) and "\n" in value and "\\" not in value and '"' not in value:
        return f'"""\n{value}"""'
    return json.dumps(value, ensure_ascii=False)  # lists, texts and finite numbers look the same in JSON
