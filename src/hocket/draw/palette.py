"""Letters and colours for the places on a map, and colours for agents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from string import ascii_lowercase, ascii_uppercase

from hocket.task.grid import Grid

# Any two of either palette are 0.08 or more apart in Oklab, also with protanopia, deuteranopia or tritanopia; letters
# in INK have a contrast of at least 5.5:1 with places, white numbers one of at least 4.5:1 with agents.
PLACE_COLORS = {
    "blue": "#768def", "red": "#df6823", "yellow": "#ecbc0a", "green": "#affa8a", "purple": "#b276b2",
    "grey": "#99b6c4", "orange": "#f09062", "pink": "#e5cedb",
}  # fmt: skip
AGENT_COLORS = ("#0072b2", "#a50f00", "#0f5a3c", "#d21e78", "#966900", "#7800e1", "#5a1e00", "#002d5a")
INK, WHITE, DOT, FLOOR, WALL = "#111111", "#ffffff", "#bbbbb4", "#f4f4f0", "#555555"
UNLETTERED = "•"  # a place for which no letter is left


def choose_letters(grid: Grid) -> dict[str, str]:
    """Choose a letter for each place, if possible out of its name: upper case for a single cell, lower for a region.

    >>> choose_letters(Grid(1, 4, places={"red button": {0}, "red region": {1, 2}, "roof": {3}}))
    {'red button': 'R', 'red region': 'r', 'roof': 'O'}
    """
    letters: dict[frozenset[int], str] = {}  # names of the same cells share one
    taken: set[str] = set()
    for name, cells in grid.places.items():
        if cells not in letters:
            letters[cells] = next((own for own in _candidates(name, len(cells) > 1) if own not in taken), UNLETTERED)
            taken.add(letters[cells])
    return {name: letters[cells] for name, cells in grid.places.items()}


def choose_colors(grid: Grid) -> dict[str, str]:
    """Choose a background for each place: the colour that its name tells, or else the next; paler if it is taken."""
    told = {name: next(filter(None, map(PLACE_COLORS.get, name.lower().split())), None) for name in grid.places}
    free = cycle(sorted(PLACE_COLORS.values(), key=lambda color: color in told.values()))
    colors: dict[frozenset[int], str] = {}  # names of the same cells share one
    taken: set[str] = set()
    for name, cells in grid.places.items():
        if cells not in colors:
            color = told[name] or next(free)
            colors[cells] = _paler(color) if color in taken else color
            taken.add(color)
    return {name: colors[cells] for name, cells in grid.places.items()}


def _candidates(name: str, is_region: bool) -> Iterator[str]:
    """List letters for a place, best first: the initials of its words, their other letters, then any."""
    first, second = (ascii_lowercase, ascii_uppercase) if is_region else (ascii_uppercase, ascii_lowercase)
    own = [letter for letter in (*(word[0] for word in name.split()), *name) if letter.isascii() and letter.isalpha()]
    yield from (letter.lower() if is_region else letter.upper() for letter in own)
    yield from first
    yield from second


def _paler(color: str) -> str:
    """Mix a colour with that of the floor."""
    pairs = zip(bytes.fromhex(color[1:]), bytes.fromhex(FLOOR[1:]), strict=True)
    return "#" + "".join(f"{(own + floor) // 2:02x}" for own, floor in pairs)
