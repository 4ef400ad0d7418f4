"""HTML in which all text is escaped that is not markup already."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable

# Characters that HTML does not allow, or that are not shown; without line ends and tabs.
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
VOID = ("circle", "ellipse", "line", "path", "rect", "meta")  # elements without content


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *content: str, **attributes: str | float | bool | None) -> Html:
    """Make an element; attributes that are None or False are left out, and `class_` is `class`.

    >>> tag("p", "1 < 2", tag("b", "so"), class_="sum")
    '<p class="sum">1 &lt; 2<b>so</b></p>'
    """
    words = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in VOID and not content:
        return Html(f"<{name}{words}/>")
    return Html(f"<{name}{words}>{join(content)}</{name}>")


def join(content: Iterable[str], between: str = "") -> Html:
    """Join markup and text."""
    return Html(escape(between).join(map(escape, content)))


def escape(text: str) -> Html:
    """Escape text, unless it is markup; characters that HTML does not allow are replaced."""
    return text if isinstance(text, Html) else Html(html.escape(UNPRINTABLE.sub("\ufffd", text)))


def truncate(text: str, longest: int) -> str:
    """Cut off the end of a long text.

    >>> truncate("yellow", 4)
    'yel…'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _attribute(name: str, value: str | float | bool) -> str:
    key = name.rstrip("_").replace("_", "-")
    if isinstance(value, bool):
        return f" {key}" if value else ""
    return f' {key}="{escape(value if isinstance(value, str) else format(value, "g"))}"'


def data_block(name: str, value: object) -> Html:
    """Embed a value as JSON that scripts read by its id; nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    text = re.sub("[<>&]", lambda match: f"\\u{ord(match[0]):04x}", text)
    return Html(f'<script type="application/json" id="{html.escape(name)}">{text}</script>')
