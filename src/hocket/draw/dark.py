"""Drawings on dark pages: paper that is dark, ink that is light, and lines that are lighter."""

from __future__ import annotations

import re

from hocket.draw.palette import FLOOR, LINE_COLORS, WALL

PAPER, INK = "#1c1f23", "#e9e7e2"  # on dark pages
GREYS = {"#222222": INK, "#555555": "#b9b7b0", "#dddddd": "#3b4149", "#ffffff": PAPER}  # of charts: light -> dark
READABLE = 5.0  # contrast of lines and their names with paper
CLASS = "hocket-drawing"


def adapt(svg: str) -> str:
    """Make a drawing of machines follow the colour scheme of its page or, as an image, of its reader.

    Letters that are bold stand on places, which keep their colours.
    """
    rules = {
        '[fill="white"]': ("fill", "white", PAPER),
        '[stroke="#d0d0d0"]': ("stroke", "#d0d0d0", "#4a5058"),
        '[stroke="#333333"]': ("stroke", "#333333", INK),
        'text[fill="#333333"]:not([font-weight])': ("fill", "#333333", INK),
        '.edge polygon[fill="#333333"]': ("fill", "#333333", INK),
        'text[fill="#666666"]': ("fill", "#666666", "#a8a69f"),
        f'[fill="{FLOOR}"]': ("fill", FLOOR, "#2a2e34"),
        f'[fill="{WALL}"]': ("fill", WALL, "#8d939c"),
    }
    for color in LINE_COLORS.values():
        for part in ("fill", "stroke"):
            rules[f'.edge [{part}="{color}"]'] = (part, color, lighten(color))
    sheet = " ".join(
        f".{CLASS} {selector} {{ {part}: light-dark({light}, {dark}) }}"
        for selector, (part, light, dark) in rules.items()
    )
    begin, graph, rest = svg.partition("<g id=")
    begin = begin.replace("<svg ", f'<svg class="{CLASS}" ', 1)
    return f"{begin}<style>:root.{CLASS} {{ color-scheme: light dark }} {sheet}</style>\n{graph}{rest}"


def adapt_chart(svg: str) -> str:
    """Make a chart follow the colour scheme of the page that it stands in."""
    dark = {**GREYS, **{color: lighten(color) for color in LINE_COLORS.values()}}
    return re.sub(r"#[0-9a-f]{6}", lambda match: f"light-dark({match[0]}, {dark.get(match[0], match[0])})", svg)


def lighten(color: str) -> str:
    """Mix a colour with white until it can be read on dark paper.

    >>> lighten("#002d5a"), lighten("#ffffff")
    ('#7f96ac', '#ffffff')
    """
    channels = bytes.fromhex(color[1:])
    for percent in range(0, 101, 5):
        mixed = bytes(channel + (255 - channel) * percent // 100 for channel in channels)
        if (_luminance(mixed) + 0.05) / (_luminance(bytes.fromhex(PAPER[1:])) + 0.05) >= READABLE:
            break
    return f"#{mixed.hex()}"


def _luminance(color: bytes) -> float:
    """Compute the relative luminance of a colour, as the Web Content Accessibility Guidelines define it."""
    shares = [channel / 255 for channel in color]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
