"""Shapes on a map, cells as shapes (few rectangles, connected parts, outlines), and panels on a page.

Positions are right and down from the map's upper left corner, in the map's unit: a cell's side, if it has cells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import distances_from, flags_at

Point = tuple[float, float]  # right, and down
Segment = tuple[Point, Point]
Flags = NDArray[np.bool_]  # [rows, columns]

WIDEST_RING = 1.55  # radii of an agent: the circle on which many agents at one point stand

# Panels on a page are in points, right and down from its upper left corner.
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
        """Return the shape as JSON."""
        return [*map(float, self[:4]), self.is_disc]


def rectangles(cells: Collection[int], columns: int) -> list[Shape]:
    """Cover cells with rectangles: runs of cells in a row, each joined with an equal run in the row above.

    >>> [tuple(shape[:4]) for shape in rectangles({0, 1, 3, 4, 5, 6}, columns=3)]
    [(0, 0, 2, 1), (0, 1, 3, 1), (0, 2, 1, 1)]
    """
    growing: dict[tuple[int, int], list[int]] = {}  # first column and end of a run -> the latest rectangle there
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
    """Split cells into connected parts.

    >>> parts({0, 1, 5, 6}, columns=3)
    [{0, 1}, {5}, {6}]
    """
    remaining, components = set(cells), []

    def neighbours(cell: int) -> set[int]:
        in_row = {cell - 1 if cell % columns else cell, cell + 1 if (cell + 1) % columns else cell}
        return {cell - columns, cell + columns, *in_row} & remaining

    for first in sorted(cells):
        if first in remaining:
            components.append({*distances_from([first], neighbours)})
            remaining -= components[-1]
    return components


def covered(shapes: Iterable[Shape], rows: int, columns: int) -> Flags:
    """Flag the cells of a map whose middles are inside of shapes."""
    inside = np.zeros((rows, columns), np.bool_)
    for shape in shapes:
        down, across = _middles(shape.top, shape.height, rows), _middles(shape.left, shape.width, columns)
        if shape.is_disc:
            y, x = (down + 0.5 - shape.middle[1])[:, None], across + 0.5 - shape.middle[0]
            in_disc = (x / (shape.width / 2 or 1)) ** 2 + (y / (shape.height / 2 or 1)) ** 2 <= 1
            inside[np.ix_(down, across)] |= in_disc
        else:
            inside[np.ix_(down, across)] = True
    return inside


def _middles(start: float, length: float, count: int) -> NDArray[np.int64]:
    """List the rows or columns whose middles are in an interval."""
    return np.arange(max(0, math.ceil(start - 0.5)), min(count - 1, math.floor(start + length - 0.5)) + 1)


def outline(cells: Flags) -> list[Segment]:
    """List the lines around cells, each as long as possible.

    >>> outline(np.array([[True, True]]))
    [((0, 0), (0, 1)), ((2, 0), (2, 1)), ((0, 0), (2, 0)), ((0, 1), (2, 1))]
    """
    around = np.pad(cells, 1)
    vertical = _runs((around[1:-1, 1:] != around[1:-1, :-1]).T)
    horizontal = _runs(around[1:, 1:-1] != around[:-1, 1:-1])
    lines: list[Segment] = [((x, top), (x, bottom)) for x, top, bottom in vertical]
    return lines + [((left, y), (right, y)) for y, left, right in horizontal]


def _runs(flags: Flags) -> list[tuple[int, int, int]]:
    """List the runs of set flags: row, first column and end."""
    change = np.diff(np.pad(flags, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (rows, starts), (_, ends) = np.nonzero(change == 1), np.nonzero(change == -1)
    return list(zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True))


def side_by_side(starts: Sequence[Point], radius: float) -> Iterator[tuple[float, float, float]]:
    """Put agents that are at one point on a circle around it, as web/elements.js does: right, down and size of each."""
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


def arrange(sizes: Sequence[Pair], leading: int) -> list[Frame]:
    """Choose the page that shows panels of some sizes large and wastes little; the first few may surround the others.

    >>> arrange([(300, 100), (140, 50), (140, 50)], leading=1)
    [(0, 300.0, 0, 100), (0, 144.0, 112.0, 50.0), (156.0, 144.0, 112.0, 50.0)]
    """

    def cost(page: Page) -> float:  # its reduction when it is fitted, times its size
        (width, height), _ = page
        return round(max(width / ASPECT, height) * math.sqrt(width * height))

    _, frames = min(_pages(sizes, range(leading), range(leading, len(sizes))), key=cost)
    return [frames[number] for number in range(len(sizes))]


def _pages(
    sizes: Sequence[Pair], leading: Sequence[int], others: Sequence[int], corner: Pair = (0, 0), least: Pair = (0, 0)
) -> Iterator[Page]:
    """List pages of at least a size from a corner on: the others on a grid, and leading panels around them, the first
    one above or left of them."""
    if not others or not leading:
        rest = [*leading, *others]
        yield from (_grid(sizes, rest, columns, corner, least) for columns in range(1, len(rest) + 1))
        return
    (left, top), (wide, high) = corner, least
    for panel in leading:
        rest = [other for other in leading if other != panel]
        width, height = sizes[panel]
        lower = max(width, wide), max(0, high - height - GAP)
        narrower = max(0, wide - width - GAP), max(height, high)
        is_first = panel == leading[0]
        start = (left, top + height + GAP) if is_first else corner
        for (right, bottom), frames in _pages(sizes, rest, others, start, lower):
            row = top if is_first else bottom + GAP
            yield (right, max(bottom, row + height)), {**frames, panel: (left, right - left, row, height)}
        start = (left + width + GAP, top) if is_first else corner
        for (right, bottom), frames in _pages(sizes, rest, others, start, narrower):
            column = left if is_first else right + GAP
            yield (max(right, column + width), bottom), {**frames, panel: (column, width, top, bottom - top)}


def _grid(sizes: Sequence[Pair], chosen: Sequence[int], columns: int, corner: Pair, least: Pair) -> Page:
    """Put panels into columns from a corner on, together stretched to at least a size."""
    widths = [max(sizes[panel][0] for panel in chosen[column::columns]) for column in range(columns)]
    heights = [max(sizes[panel][1] for panel in chosen[row : row + columns]) for row in range(0, len(chosen), columns)]
    across, down = _spans(widths, corner[0], least[0]), _spans(heights, corner[1], least[1])
    frames = {panel: (*across[rank % columns], *down[rank // columns]) for rank, panel in enumerate(chosen)}
    return (sum(across[-1]), sum(down[-1])), frames


def _spans(lengths: Sequence[float], start: float, least: float) -> list[Pair]:
    """Find the start of each length, and the length when all are stretched."""
    spare = max(0.0, least - sum(lengths) - GAP * (len(lengths) - 1)) / len(lengths)
    starts = accumulate(lengths[:-1], lambda at, length: at + length + spare + GAP, initial=start)
    return [(at, length + spare) for at, length in zip(starts, lengths, strict=True)]
