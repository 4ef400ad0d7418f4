"""Marks for a panel of a drawing: boxes, dots, lines, hatching and words.

Lengths are in points, right and down from the panel's upper left corner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from hocket.draw.geometry import Point, Segment
from hocket.draw.graphviz import INK, MAX_LINE, Mark, box, literal
from hocket.draw.layout import Frame

HATCH = 6.0  # between hatching lines


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


def dot(name: str, middle: Point, diameter: float, color: str) -> Mark:
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
    for number in range(math.ceil((left + top) / HATCH), math.ceil((right + bottom) / HATCH)):
        start, end = max(left, number * HATCH - bottom), min(right, number * HATCH - top)
        yield (start, number * HATCH - start), (end, number * HATCH - end)
