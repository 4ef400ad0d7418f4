"""Pages that need nothing else, with one head: styles, scripts and data are inside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from hocket.draw.markup import Html, join, tag

SHARED = ("shared.css", "elements.js")  # of hocket.draw
LINE = Html("\n")


def fill(folder: str, name: str, styles: Sequence[str], scripts: Sequence[str], parts: Mapping[str, Html]) -> str:
    """Fill the page `name` of a folder of this package, and put the head, styles and scripts around it."""
    around = {
        "body": fragment(folder, name, parts),
        "style": join((_asset(folder, style) for style in styles), LINE),
        "script": join((_asset(folder, script) for script in scripts), LINE),
    }
    return _filled(_asset("", "document.html"), {**parts, **around})


def fragment(folder: str, name: str, parts: Mapping[str, Html]) -> Html:
    """Fill a part of a page, a file `name` in a folder of this package."""
    return _filled(_asset(folder, name).removesuffix("\n"), parts)


def note(*content: str) -> Html:
    """Make a paragraph in small print."""
    return tag("p", *content, class_="note")


def block(title: str, *content: str) -> Html:
    """Make a part of a section, under its heading."""
    return tag("div", tag("h3", title), *content)


def _filled(template: str, parts: Mapping[str, Html]) -> Html:
    """Fill in one pass, so that nothing that a part says is taken for one to fill."""
    return Html(re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template))


@cache
def _asset(folder: str, name: str) -> Html:
    """Read a file of a folder, or one that is shared with the studio; scripts of a page export nothing."""
    path = files("hocket.draw") / "web" / name if name in SHARED else files("hocket.report") / folder / name
    return Html(re.sub(r"^export ", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
