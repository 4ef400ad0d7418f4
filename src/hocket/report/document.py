"""Self-contained HTML pages: styles, scripts and data are inline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from hocket.draw.markup import Html, join, tag

SHARED = ("shared.css", "elements.js")  # of hocket.draw
LINE = Html("\n")


def fill(folder: str, name: str, styles: Sequence[str], scripts: Sequence[str], parts: Mapping[str, Html]) -> str:
    """Fill the template `name` in a folder of this package, and add the head, styles and scripts."""
    style, script = (join((_asset(folder, asset) for asset in assets), LINE) for assets in (styles, scripts))
    body = fragment(folder, name, parts)
    return _filled(_asset("", "document.html"), {**parts, "body": body, "style": style, "script": script})


def fragment(folder: str, name: str, parts: Mapping[str, Html]) -> Html:
    """Fill a template of a part of a page, the file `name` in a folder of this package."""
    return _filled(_asset(folder, name).removesuffix("\n"), parts)


def note(*content: str) -> Html:
    """Make a paragraph in small print."""
    return tag("p", *content, class_="note")


def block(title: str, *content: str) -> Html:
    """Make a part of a section with a heading."""
    return tag("div", tag("h3", title), *content)


def _filled(template: str, parts: Mapping[str, Html]) -> Html:
    """Fill a template in one pass, so that nothing in a part is taken for a placeholder."""
    return Html(re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template))


@cache
def _asset(folder: str, name: str) -> Html:
    """Read a file of a folder, or one that is shared with the studio; inline scripts export nothing."""
    path = files("hocket.draw") / "web" / name if name in SHARED else files("hocket.report") / folder / name
    return Html(re.sub(r"^export ", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
