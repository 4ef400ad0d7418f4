"""Letters and colours of places, agents and events; colours of drawings on dark pages."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from string import ascii_lowercase, ascii_uppercase
from types import MappingProxyType

# Any two of either palette are 0.08 or more apart in Oklab, also with protanopia, deuteranopia or tritanopia; letters
# in INK have a contrast of at least 5.5:1 with places, and lines a contrast of at least 4.5:1 with white, so that they
# can be read on white, and white on them.
PLACE_COLORS = {
    "blue": "#768def", "red": "#df6823", "yellow": "#ecbc0a", "green": "#affa8a", "purple": "#b276b2",
    "grey": "#99b6c4", "orange": "#f09062", "pink": "#e5cedb",
}  # fmt: skip
LINE_COLORS = {
    "blue": "#0072b2", "red": "#a50f00", "green": "#0f5a3c", "pink": "#d21e78", "yellow": "#966900",
    "purple": "#7800e1", "brown": "#5a1e00", "navy": "#002d5a",
}  # fmt: skip
INITIALS = {"b": "blue", "r": "red", "g": "green", "y": "yellow"}  # colours of events with one letter
LINES = ("solid", "dashed", "dotted")
AGENT_COLORS = tuple(LINE_COLORS.values())
INK, WHITE, DOT, FLOOR, WALL = "#111111", "#ffffff", "#bbbbb4", "#f4f4f0", "#555555"
SALT = 93308  # makes names of built-in tasks share few colours
PALE = "#dddddd"  # of places beyond those that are named
DARK_PAPER, DARK_INK = "#1c1f23", "#e9e7e2"  # on dark pages
GREYS = {"#222222": DARK_INK, "#555555": "#b9b7b0", "#dddddd": "#3b4149", "#ffffff": DARK_PAPER}  # charts on dark pages
READABLE = 5.0  # contrast of lines and their names with dark paper
CLASS = "hocket-drawing"

Style = tuple[str, str]  # colour and kind of line


def choose_letters(
    names: Iterable[str], regions: Collection[str] = (), given: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Choose a letter for each place: the given one, or else, if possible, one of its name, in upper case for a single
    cell and in lower case for a region.

    If letters run out, the remaining places have none.

    >>> choose_letters(["red button", "red region", "roof"], regions=["red region"])
    {'red button': 'R', 'red region': 'r', 'roof': 'O'}
    """
    letters: dict[str, str] = {}
    taken = {"", *given.values()}
    for name in names:
        initials = "".join(word[0] for word in name.split())  # preferred to its other letters, and these to any
        best = "".join(letter for letter in initials + name if letter.isascii() and letter.isalpha()) + ascii_lowercase
        candidates = best.lower() + ascii_uppercase if name in regions else best.upper() + ascii_lowercase
        letters[name] = given.get(name) or next((letter for letter in candidates if letter not in taken), "")
        taken.add(letters[name])
    return letters


def color_number(name: str) -> int:
    """Choose one of the eight colours by a name; names that differ by a number have neighbouring ones."""
    numbers = sum(int(digits) for digits in re.findall("[0-9]{1,9}", name))
    return (hashlib.sha256(f"{SALT} {re.sub('[0-9]+', '', name)}".encode()).digest()[0] + numbers) % len(LINE_COLORS)


def choose_colors(places: Mapping[str, Hashable]) -> dict[str, str]:
    """Choose a background for each place by its first name: the colour in the name, or any; paler if it is taken."""
    colors: dict[Hashable, str] = {}
    taken: Counter[str] = Counter()
    for name, place in places.items():
        if place not in colors:
            color = named_color(name, PLACE_COLORS) or [*PLACE_COLORS.values()][color_number(name)]
            colors[place] = [color, paler(color), paler(paler(color))][min(taken[color], 2)]
            taken[color] += 1
    return {name: colors[place] for name, place in places.items()}


def paler(color: str) -> str:
    """Mix a colour with that of the floor."""
    pairs = zip(bytes.fromhex(color[1:]), bytes.fromhex(FLOOR[1:]), strict=True)
    return "#" + "".join(f"{(channel + floor) // 2:02x}" for channel, floor in pairs)


def choose_styles(events: Iterable[str]) -> dict[str, Style]:
    """Choose a colour for each event, the one in its name or else any, and another kind of line if it is taken.

    >>> choose_styles(["go", "Y", "yellow"])
    {'go': ('#d21e78', 'solid'), 'Y': ('#966900', 'solid'), 'yellow': ('#966900', 'dashed')}
    """
    styles: dict[str, Style] = {}
    taken: Counter[str] = Counter()
    for name in dict.fromkeys(events):
        color = named_color(INITIALS.get(name.lower(), name), LINE_COLORS) or AGENT_COLORS[color_number(name)]
        styles[name] = color, LINES[taken[color] % len(LINES)]
        taken[color] += 1
    return styles


def named_color(name: str, colors: Mapping[str, str]) -> str | None:
    """Find the first colour in a name."""
    return next((colors[word] for word in name.lower().split() if word in colors), None)


def agent_colors(agents: Iterable[str]) -> dict[str, str]:
    """Give every agent a colour by its name, or the next one that the fewest agents before it have.

    >>> agent_colors(["A2", "A1"])
    {'A2': '#a50f00', 'A1': '#0072b2'}
    """
    colors: dict[str, str] = {}
    for name in agents:
        first = color_number(name)
        turned = (*AGENT_COLORS[first:], *AGENT_COLORS[:first])
        used = Counter(colors.values())
        colors[name] = min(turned, key=lambda color: used[color])
    return colors


def adapt(svg: str) -> str:
    """Make a drawing follow the colour scheme of its page, or as an image the browser's; places keep their colours."""
    rules = {
        '[fill="white"]': ("fill", "white", DARK_PAPER),
        '[stroke="#d0d0d0"]': ("stroke", "#d0d0d0", "#4a5058"),
        '[stroke="#333333"]': ("stroke", "#333333", DARK_INK),
        'text[fill="#333333"]:not([font-weight])': ("fill", "#333333", DARK_INK),
        '.edge polygon[fill="#333333"]': ("fill", "#333333", DARK_INK),
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
    """Make a chart follow the colour scheme of its page."""
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
        if (_luminance(mixed) + 0.05) / (_luminance(bytes.fromhex(DARK_PAPER[1:])) + 0.05) >= READABLE:
            break
    return f"#{mixed.hex()}"


def _luminance(color: bytes) -> float:
    """Compute the relative luminance of a colour, as the Web Content Accessibility Guidelines define it."""
    shares = [channel / 255 for channel in color]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
