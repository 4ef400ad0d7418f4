"""Letters and colours: for the places of a map, for agents, and for events."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from itertools import cycle
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
INITIALS = {"b": "blue", "r": "red", "g": "green", "y": "yellow"}  # what an event or a tag of one letter is taken for
LINES = ("solid", "dashed", "dotted")
AGENT_COLORS = tuple(LINE_COLORS.values())
INK, WHITE, DOT, FLOOR, WALL = "#111111", "#ffffff", "#bbbbb4", "#f4f4f0", "#555555"
PALE = "#dddddd"  # of places that are too many to be named

Style = tuple[str, str]  # colour and kind of line


def choose_letters(names: Iterable[str], regions: Collection[str] = ()) -> dict[str, str]:
    """Choose a letter for each place, if possible out of its name: upper case for a single cell, lower for a region.

    Where letters run out, the rest have none.

    >>> choose_letters(["red button", "red region", "roof"], regions=["red region"])
    {'red button': 'R', 'red region': 'r', 'roof': 'O'}
    """
    letters: dict[str, str] = {}
    taken = {""}
    for name in names:
        letters[name] = next((letter for letter in _candidates(name, name in regions) if letter not in taken), "")
        taken.add(letters[name])
    return letters


def _candidates(name: str, is_region: bool) -> Iterator[str]:
    """List letters for a place, best first: the initials of its words, their other letters, then any."""
    first, second = (ascii_lowercase, ascii_uppercase) if is_region else (ascii_uppercase, ascii_lowercase)
    letters = [
        letter for letter in (*(word[0] for word in name.split()), *name) if letter.isascii() and letter.isalpha()
    ]
    yield from (letter.lower() if is_region else letter.upper() for letter in letters)
    yield from first
    yield from second


def choose_colors(places: Mapping[str, Hashable], tags: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Choose a background for each place: the colour in its name, or else its tag, or else the next.

    It is paler where only a tag names it, and where it is taken. Names of the same place share one.
    """
    named = {name: named_color(name, PLACE_COLORS) for name in places}
    meant = {name: named_color(INITIALS.get(tag.lower(), ""), PLACE_COLORS) for name, tag in tags.items()}
    hints = {name: color for name, color in meant.items() if color and not named[name] and color not in named.values()}
    used = {*named.values(), *hints.values()}
    free = cycle(sorted(PLACE_COLORS.values(), key=lambda color: color in used))
    colors: dict[Hashable, str] = {}
    taken = {*hints.values()}
    for name, place in places.items():
        if place not in colors:
            color = named[name] or hints.get(name) or next(free)
            colors[place] = paler(color) if color in taken else color
            taken.add(color)
    return {name: colors[place] for name, place in places.items()}


def paler(color: str) -> str:
    """Mix a colour with that of the floor."""
    pairs = zip(bytes.fromhex(color[1:]), bytes.fromhex(FLOOR[1:]), strict=True)
    return "#" + "".join(f"{(channel + floor) // 2:02x}" for channel, floor in pairs)


def choose_styles(events: Iterable[str]) -> dict[str, Style]:
    """Choose a colour and a line for each event: the colour in its name, or else the next.

    >>> choose_styles(["go", "Y", "yellow"])
    {'go': ('#0072b2', 'solid'), 'Y': ('#966900', 'solid'), 'yellow': ('#966900', 'dashed')}
    """
    named = {name: named_color(INITIALS.get(name.lower(), name), LINE_COLORS) for name in events}
    styles: dict[str, Style] = {}
    for name, color in named.items():
        if color is not None:
            lines = [line for line in LINES if (color, line) not in styles.values()]
            styles[name] = color, (lines or LINES)[0]
    pairs = [(color, line) for line in LINES for color in AGENT_COLORS]
    free = cycle([pair for pair in pairs if pair not in styles.values()] or pairs)
    return {name: styles.get(name) or next(free) for name in named}


def named_color(name: str, colors: Mapping[str, str]) -> str | None:
    """Find the colour in a name."""
    return next((colors[word] for word in name.lower().split() if word in colors), None)


def agent_colors(agents: Iterable[str]) -> dict[str, str]:
    """Give every agent a colour; where there are many, they share."""
    return dict(zip(agents, cycle(AGENT_COLORS), strict=False))
