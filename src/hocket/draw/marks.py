"""Shapes for a panel of a drawing: boxes, lines, hatching and words; and cells as few rectangles.

Lengths are in points, right and down from the panel's upper left corner.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby

from hocket.draw.graphviz import INK, MAX_LINE, Mark, box, literal
from hocket.draw.layout import Frame, Pair
from hocket.task.grid import STEPS, Grid

HATCH = 6.0  # between hatching lines

Rectangle = tuple[int, int, int, int]  # row, column, rows, columns
Segment = tuple[Pair, Pair]


def filled(color: str) -> dict[str, str]:
    """Look filled; the thin line around it hides the seam between neighbours."""
    return {"style": "filled", "fillcolor": color, "color": color, "penwidth": "0.3"}


def label(text: str, size: float, color: str = INK) -> dict[str, str]:
    """Look labelled with literal text."""
    return {"label": literal(text, MAX_LINE), "fontsize": f"{size:.2f}", "fontcolor": color, "margin": "0"}


def words(name: str, text: str, frame: Frame, size: float, color: str = INK) -> Mark:
    """Write a line from the left of a frame on."""
    look = label(text, size, color)
    tooltip = text if len(text) > MAX_LINE else ""
    return box(name, frame, {**look, "label": look["label"] + "\\l", "shape": "none"}, tooltip)


def dot(name: str, middle: Pair, diameter: float, color: str) -> Mark:
    """Draw a dot."""
    frame = middle[0] - diameter / 2, diameter, middle[1] - diameter / 2, diameter
    return box(name, frame, {**filled(color), "shape": "circle"})


def lines(name: str, segments: Iterable[Segment], look: Mapping[str, str]) -> list[Mark]:
    """Draw straight lines, all as one edge from an unseen node to itself."""
    ends = [tuple(f"{x:.2f},{-y:.2f}" for x, y in segment) for segment in segments]
    if not ends:
        return []
    node = Mark(f"{name}end", {"label": "", "shape": "point", "style": "invis", "pos": ends[0][0]})
    route = ";".join(f"{start} {start} {end} {end}" for start, end in ends)
    return [node, Mark(name, {"pos": route, "dir": "none", **look}, (node.name, node.name))]


def hatching(frame: Frame) -> Iterator[Segment]:
    """List the slanted lines that hatch a frame; those of neighbouring frames meet."""
    left, width, top, height = frame
    right, bottom = left + width, top + height
    for place in range(math.ceil((left + top) / HATCH), math.ceil((right + bottom) / HATCH)):
        start, end = max(left, place * HATCH - bottom), min(right, place * HATCH - top)
        yield (start, place * HATCH - start), (end, place * HATCH - end)


def rectangles(cells: Collection[int], grid: Grid) -> list[Rectangle]:
    """Cover cells by rectangles: the runs of cells in a row, each joined to the same run in the row above.

    >>> rectangles({0, 1, 3, 4, 5, 6}, Grid(3, 3))
    [(0, 0, 1, 2), (1, 0, 1, 3), (2, 0, 1, 1)]
    """
    growing: dict[tuple[int, int], list[int]] = {}  # first and last column -> the latest rectangle there
    found: list[list[int]] = []
    where = [grid.row_column(cell) for cell in sorted(cells)]
    for (row, _), run in groupby(enumerate(where), lambda item: (item[1][0], item[1][1] - item[0])):
        columns = [column for _, (_, column) in run]
        latest = growing.get((columns[0], columns[-1]))
        if latest is not None and latest[0] + latest[2] == row:
            latest[2] += 1
        else:
            found.append([row, columns[0], 1, len(columns)])
            growing[columns[0], columns[-1]] = found[-1]
    return [(row, column, rows, columns) for row, column, rows, columns in found]


def parts(cells: Collection[int], grid: Grid) -> list[set[int]]:
    """Split cells into parts that hang together.

    >>> parts({0, 1, 5, 6}, Grid(3, 3))
    [{0, 1}, {5}, {6}]
    """
    left, found = set(cells), []
    for first in sorted(cells):
        queue = [first] if first in left else []
        left -= {*queue}
        for cell in queue:  # grows while it is read
            near = {grid.neighbor(cell, action) for action in range(len(STEPS))} & left
            left -= near
            queue += sorted(near)
        if queue:
            found.append({*queue})
    return found
