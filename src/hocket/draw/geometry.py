"""Shapes on a map, cells as shapes (few rectangles, parts that hang together, lines around them), panels on a page.

Lengths are right and down from the map's upper left corner, in the map's unit: a cell's side, where it has cells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import flags_at

Point = tuple[float, float]  # right, and down
Segment = tuple[Point, Point]
Flags = NDArray[np.bool_]  # [rows, columns]

WIDEST_RING = 1.55  # radii of an agent: the circle on which many agents at one point stand

# Of panels on a page lengths are in points, right and down from its upper left corner.
GAP = 12.0  # between panels
ASPECT = 1.6  # width to height of the page that a picture should fill

Pair = tuple[float, float]  # across the page, and down
Frame = tuple[float, float, float, float]  # left, width, top, height
Page = tuple[Pair, dict[int, Frame]]  # the lower right corner, and where each panel goes


class Shape(NamedTuple):
    """A rectangle, or the disc that fits into it."""

    left: float
    top: float
    width: float
    height: float
    is_disc: bool = False

    @property
    def middle(self) -> Point:
        """The point in its middle."""
        return self.left + self.width / 2, self.top + self.height / 2

    def document(self) -> list[object]:
        """Lay it out for JSON."""
        return [*map(float, self[:4]), self.is_disc]


def rectangles(cells: Collection[int], columns: int) -> list[Shape]:
    """Cover cells by rectangles: the runs of cells in a row, each joined to the same run in the row above.

    >>> [tuple(shape[:4]) for shape in rectangles({0, 1, 3, 4, 5, 6}, columns=3)]
    [(0, 0, 2, 1), (0, 1, 3, 1), (0, 2, 1, 1)]
    """
    growing: dict[tuple[int, int], list[int]] = {}  # where a run begins and ends -> the latest rectangle there
    shapes: list[list[int]] = []
    rows = max(cells, default=-1) // columns + 1
    for row, left, right in _runs(flags_at([*cells], rows * columns).reshape(rows, columns)):
        latest = growing.get((left, right))
        if latest is not None and latest[1] + latest[3] == row:
            latest[3] += 1
        else:
            shapes.append([left, row, right - left, 1])
            growing[left, right] = shapes[-1]
    return [Shape(left, top, width, height) for left, top, width, height in shapes]


def parts(cells: Collection[int], columns: int) -> list[set[int]]:
    """Split cells into parts that hang together.

    >>> parts({0, 1, 5, 6}, columns=3)
    [{0, 1}, {5}, {6}]
    """
    waiting, components = set(cells), []
    for first in sorted(cells):
        queue = [first] if first in waiting else []
        waiting -= {*queue}
        for cell in queue:  # grows while it is read
            beside = {cell - 1 if cell % columns else cell, cell + 1 if (cell + 1) % columns else cell}
            near = {cell - columns, cell + columns, *beside} & waiting
            waiting -= near
            queue += sorted(near)
        if queue:
            components.append({*queue})
    return components


def covered(shapes: Iterable[Shape], rows: int, columns: int) -> Flags:
    """Flag the cells of a map whose middles are inside of some shapes."""
    inside = np.zeros((rows, columns), np.bool_)
    for shape in shapes:
        down, across = _middles(shape.top, shape.height, rows), _middles(shape.left, shape.width, columns)
        if shape.is_disc:
            y, x = (down + 0.5 - shape.middle[1])[:, None], across + 0.5 - shape.middle[0]
            hit = (x / (shape.width / 2 or 1)) ** 2 + (y / (shape.height / 2 or 1)) ** 2 <= 1
            inside[np.ix_(down, across)] |= hit
        else:
            inside[np.ix_(down, across)] = True
    return inside


def _middles(start: float, length: float, count: int) -> NDArray[np.int64]:
    """List the rows or columns whose middles are on a stretch."""
    first, last = max(0, math.ceil(start - 0.5)), min(count - 1, math.floor(start + length - 0.5))
    return np.arange(first, max(first, last + 1))


def outline(cells: Flags) -> list[Segment]:
    """List the lines around cells, each as long as can be.

    >>> outline(np.array([[True, True]]))
    [((0, 0), (0, 1)), ((2, 0), (2, 1)), ((0, 0), (2, 0)), ((0, 1), (2, 1))]
    """
    around = np.pad(cells, 1)
    upright = _runs((around[1:-1, 1:] != around[1:-1, :-1]).T)
    level = _runs(around[1:, 1:-1] != around[:-1, 1:-1])
    return [
        *(((x, top), (x, bottom)) for x, top, bottom in upright),
        *(((left, y), (right, y)) for y, left, right in level),
    ]


def _runs(flags: Flags) -> list[tuple[int, int, int]]:
    """List for each row of flags where those that are set begin and end."""
    change = np.diff(np.pad(flags, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (rows, starts), (_, ends) = np.nonzero(change == 1), np.nonzero(change == -1)
    return list(zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True))


def side_by_side(starts: Sequence[Point], radius: float) -> Iterator[tuple[float, float, float]]:
    """Put agents at one point on a circle around it, as web/elements.js does; the third number is the size."""
    counts, earlier = Counter(starts), Counter[Point]()
    for across, down in starts:
        count, index = counts[across, down], earlier[across, down]
        earlier[across, down] += 1
        if count == 1:
            yield across, down, 1
            continue
        touching = math.sin(math.pi / count) / 1.06  # how large discs may be on a circle of radius 1
        wanted = min(max(0.7 - 0.05 * count, 0.44), 0.6)
        reach = min(wanted / touching, WIDEST_RING)
        angle = 2 * math.pi * index / count - math.pi * (1 if count == 2 else 0.5)
        size = max(min(wanted, reach * touching), 0.24)
        yield across + radius * reach * math.cos(angle), down + radius * reach * math.sin(angle), size


# Panels on a page.


def arrange(sizes: Sequence[Pair], leading: int) -> list[Frame]:
    """Choose the page that shows panels of some sizes large and wastes little; the first few may lead the others.

    >>> arrange([(300, 100), (140, 50), (140, 50)], leading=1)
    [(0, 300.0, 0, 100), (0, 144.0, 112.0, 50.0), (156.0, 144.0, 112.0, 50.0)]
    """

    def cost(page: Page) -> float:  # how much it has to be reduced to fit, weighed against how large it is
        (width, height), _ = page
        return round(max(width / ASPECT, height) * math.sqrt(width * height))

    _, frames = min(_pages(sizes, range(leading), range(leading, len(sizes))), key=cost)
    return [frames[number] for number in range(len(sizes))]


def _pages(
    sizes: Sequence[Pair], leading: Sequence[int], others: Sequence[int], corner: Pair = (0, 0), least: Pair = (0, 0)
) -> Iterator[Page]:
    """List pages of at least a size from a corner on: the others on a grid, and leading panels around them.

    The first that leads is above or left of what follows; a later one may also be below or right of all that is left.
    """
    if not others or not leading:
        rest = [*leading, *others]
        yield from (_grid(sizes, rest, columns, corner, least) for columns in range(1, len(rest) + 1))
        return
    (left, top), (wide, high) = corner, least
    for one in leading:
        rest = [other for other in leading if other != one]
        width, height = sizes[one]
        lower = max(width, wide), max(0, high - height - GAP)
        narrower = max(0, wide - width - GAP), max(height, high)
        is_first = one == leading[0]
        start = (left, top + height + GAP) if is_first else corner
        for (right, bottom), frames in _pages(sizes, rest, others, start, lower):
            row = top if is_first else bottom + GAP
            yield (right, max(bottom, row + height)), {**frames, one: (left, right - left, row, height)}
        start = (left + width + GAP, top) if is_first else corner
        for (right, bottom), frames in _pages(sizes, rest, others, start, narrower):
            column = left if is_first else right + GAP
            yield (max(right, column + width), bottom), {**frames, one: (column, width, top, bottom - top)}


def _grid(sizes: Sequence[Pair], chosen: Sequence[int], columns: int, corner: Pair, least: Pair) -> Page:
    """Put some panels into columns from a corner on, stretched to at least a size in all."""
    widths = [max(sizes[one][0] for one in chosen[column::columns]) for column in range(columns)]
    heights = [max(sizes[one][1] for one in chosen[row : row + columns]) for row in range(0, len(chosen), columns)]
    across, down = _spans(widths, corner[0], least[0]), _spans(heights, corner[1], least[1])
    frames = {one: (*across[rank % columns], *down[rank // columns]) for rank, one in enumerate(chosen)}
    return (sum(across[-1]), sum(down[-1])), frames


def _spans(lengths: Sequence[float], start: float, least: float) -> list[Pair]:
    """Find where each of some lengths starts, and how long it is when all are stretched."""
    spare = max(0.0, least - sum(lengths) - GAP * (len(lengths) - 1)) / len(lengths)
    starts = accumulate(lengths[:-1], lambda at, length: at + length + spare + GAP, initial=start)
    return [(at, length + spare) for at, length in zip(starts, lengths, strict=True)]
