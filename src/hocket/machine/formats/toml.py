"""Documents in TOML, for writing by hand."""

from __future__ import annotations

import json
import re
import tomllib

from hocket.documents import Document
from hocket.errors import FormatError, parser_message

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
DEEPEST_KEY = 32  # parts; the time and memory of the standard library's parser grow with the square of this
STRING_OR_COMMENT = re.compile(
    r'''"""(?:[^\\"]|\\.|"(?!""))*+(?:"{3,5}|\Z)'''
    r"""|'{3}(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"""
    r"""|"(?:[^"\\\n]|\\[^\n])*+"?|'[^'\n]*+'?|(?P<comment>\#[^\n]*+)""",
    re.DOTALL,
)  # each reads on from where the last one ended, so that the time is linear
DEEP_KEY = re.compile(rf"(?:\.[ \t]*+[\w-]++[ \t]*+){{{DEEPEST_KEY},}}")


def parse(content: str) -> Document:
    """Read a TOML document."""
    bare = STRING_OR_COMMENT.sub(lambda match: "" if match["comment"] else "text", content)
    if DEEP_KEY.search(bare):
        raise FormatError(f"a key has more than {DEEPEST_KEY} parts; no task or machine needs that")
    try:
        return tomllib.loads(content)
    except ValueError as error:  # not TOML, or a number of thousands of digits
        raise FormatError(f"is not TOML: {parser_message(error)}") from None


def unparse(document: Document, at: str = "") -> str:
    """Write a TOML document with tables of tables under headings, and the innermost tables on one line each."""
    plain = {key: value for key, value in document.items() if not isinstance(value, dict)}
    blocks = [_lines(plain)]
    for key, value in document.items():
        if isinstance(value, dict):
            heading = f"{at}{_key(key)}"
            blocks.append(f"[{heading}]\n{unparse(value, f'{heading}.') if _depth(value) > 2 else _lines(value)}")
    return "\n".join(block for block in blocks if block)


def _lines(table: Document) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _depth(value: object) -> int:
    return 1 + max(map(_depth, value.values()), default=0) if isinstance(value, dict) else 0


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, dict):
        row: Document = value
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in row.items()) + " }" if row else "{}"
    if isinstance(value, str) and "\n" in value and value.replace("\n", "").isprintable() and not {*'"\\'} & {*value}:
        return f'"""\n{value}"""'
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # lists, texts and numbers are as in JSON
