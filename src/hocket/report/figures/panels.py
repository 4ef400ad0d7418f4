"""Small maps side by side: the same ground on each, one scale of colours for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from hocket.draw.geometry import covered, outline
from hocket.draw.palette import FLOOR, WALL
from hocket.draw.scene import Scene
from hocket.report.figures.canvas import (
    COLUMN,
    INK,
    NOTE,
    PAGE,
    POINTS,
    SMALL,
    TEXT,
    TITLE,
    WHITE,
    counted,
    literal,
    shorten,
    spans,
    wrap,
)

# Lengths are in points.
CELL, SMALL_CELL, FEW = 12.0, 8.6, 3  # side of a cell where there is room; of plain cells on more than a few maps
WIDEST, HIGHEST = 200.0, 320.0  # of a map
NARROWEST = 80.0  # room for a map and its title
LEFT, RIGHT, ACROSS, DOWN = 28.0, 5.0, 10.0, 15.0  # beside and between maps; a map's title is in the space above it
UNDER = 24.0  # for the numbers and the name of the lowest axes
BAR, BESIDE = 7.0, 44.0  # width of the scale, and of the numbers and the name beside it
SHORTEST, LONGEST = 92.0, 150.0  # height of the scale; its name needs some
LINE = 1.4  # height of a line of text, to its size
EDGE = 5.0  # that text keeps free
LEAST_TAG, MOST_TAG = 4.0, 4.8  # sizes of an area's tag
MOST_NUMBERS = 4  # at the side of a map
MOST_NAMED = 24  # areas that are listed under a figure
MOST_SHAPES = 20_000  # cells that are drawn one by one; more are drawn as dots, or the file would be huge
FAR_APART = 300  # times: values that are further apart have a logarithmic scale

Numbers = NDArray[np.float64]


class Panels(NamedTuple):
    """A figure with empty maps, and room for a scale beside them."""

    figure: Figure
    maps: Sequence[Axes]
    bar: Axes
    scene: Scene
    cell: float  # side, in points

    def draw_ground(self, axes: Axes, values: Numbers, colors: Colormap, norm: Normalize) -> None:
        """Colour the cells of a map by their values, where they have one, and draw walls."""
        rows, columns = self.scene.rows, self.scene.columns
        mesh = axes.pcolormesh(
            np.arange(columns + 1), np.arange(rows + 1), np.ma.masked_invalid(values.reshape(rows, columns)),
            cmap=colors, norm=norm, edgecolors="face", linewidth=0.25,
        )  # fmt: skip
        mesh.set_rasterized(values.size * len(self.maps) > MOST_SHAPES)
        for wall in self.scene.walls:
            axes.add_patch(Rectangle((wall.left, wall.top), wall.width, wall.height, facecolor=WALL, linewidth=0))

    def draw_areas(self, axes: Axes) -> None:
        """Outline areas, and write their tags into their upper left corners."""
        size = min(MOST_TAG, max(LEAST_TAG, 0.45 * self.cell))
        cells = [covered(area.shapes, self.scene.rows, self.scene.columns) for area in self.scene.painted]
        edges = [edge for flags in cells for edge in outline(flags)]
        for color, width in ((WHITE, 1.5), (INK, 0.6)):  # seen on whatever lies below
            axes.add_collection(LineCollection(edges, colors=color, linewidths=width, capstyle="round", zorder=2))
        for area in self.scene.painted:
            if area.tag and area.shapes:
                axes.annotate(
                    literal(area.tag, 4), area.shapes[0][:2], (0.9, -0.9), textcoords="offset points", size=size,
                    va="top", zorder=2.5, path_effects=[withStroke(linewidth=1.2, foreground=WHITE)],
                )  # fmt: skip

    def draw_scale(self, colors: Colormap, norm: Normalize, name: str) -> None:
        """Draw the scale of colours beside the maps."""
        scale = self.figure.colorbar(ScalarMappable(norm, colors), cax=self.bar, format=FuncFormatter(counted))
        scale.ax.yaxis.set_minor_formatter(NullFormatter())
        scale.outline.set_linewidth(0.4)
        scale.set_label(name)


def arrange_panels(scene: Scene, titles: Sequence[str], title: str, notes: Iterable[str], cell: float = CELL) -> Panels:
    """Make a figure with a map for each title, not wider than a page, and notes below."""
    rows, columns = scene.rows, scene.columns
    cell = min(cell, WIDEST / columns, HIGHEST / rows)
    wide, high = columns * cell, rows * cell
    slot = max(wide, NARROWEST)
    most = max(1, int((PAGE * POINTS - LEFT - BAR - BESIDE - RIGHT) // (slot + ACROSS)))
    down = -(-len(titles) // most)
    across = -(-len(titles) // down)
    used = LEFT + across * (slot + ACROSS) + BAR + BESIDE + RIGHT
    width = max(used, COLUMN * POINTS)
    heading = wrap(title, TITLE, width - 2 * EDGE)
    below = [line for note in notes for line in wrap(note, SMALL, width - 2 * EDGE)]
    top = EDGE + len(heading) * LINE * TITLE
    bottom = UNDER + len(below) * LINE * SMALL + EDGE
    room = max(SHORTEST, down * (high + DOWN) - DOWN)
    height = top + DOWN + room + bottom
    figure = Figure(figsize=(width / POINTS, height / POINTS))
    figure.text(EDGE / width, 1 - EDGE / height, "\n".join(heading), size=TITLE, va="top")
    lines = "\n".join(below)
    figure.text(EDGE / width, EDGE / height, lines, size=SMALL, va="bottom", color=NOTE, linespacing=1.25)
    maps = []
    for number, name in enumerate(titles):
        row, column = divmod(number, across)
        left = LEFT + (width - used) / 2 + column * (slot + ACROSS) + (slot - wide) / 2
        floor = height - top - (row + 1) * (high + DOWN)
        axes = figure.add_axes((left / width, floor / height, wide / width, high / height))
        _prepare(axes, scene, shorten(name, TEXT, slot), column == 0, number + across >= len(titles))
        maps.append(axes)
    left = LEFT + (width - used) / 2 + across * (slot + ACROSS)
    long = min(LONGEST, room)
    bar = figure.add_axes((left / width, (height - top - DOWN - long) / height, BAR / width, long / height))
    return Panels(figure, maps, bar, scene, cell)


def _prepare(axes: Axes, scene: Scene, title: str, is_left: bool, is_lowest: bool) -> None:
    rows, columns = scene.rows, scene.columns
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    axes.set_facecolor(FLOOR)
    axes.set_title(title, size=TEXT, pad=3)
    axes.spines[:].set_visible(True)
    axes.spines[:].set_zorder(5)
    for axis, count, is_named, name in ((axes.xaxis, columns, is_lowest, "column"), (axes.yaxis, rows, is_left, "row")):
        numbers = range(0, count, -(-count // MOST_NUMBERS))
        axis.set_ticks([number + 0.5 for number in numbers], [str(number) if is_named else "" for number in numbers])
        axis.set_tick_params(length=2, labelsize=SMALL, pad=1.5)
        if is_named:
            axis.set_label_text(name, size=SMALL)
            axis.labelpad = 1.5


def list_areas(scene: Scene) -> str:
    """Say what the tags on a map mean."""
    entries = [f"{area.tag}: {area.name}" for area in scene.areas if area.tag]
    more = len(entries) - MOST_NAMED
    return literal("; ".join(entries[:MOST_NAMED]), 1_000) + (f"; and {more:,} more" if more > 0 else "")


def scale_for(values: NDArray[np.floating]) -> Normalize:
    """Make a linear scale that has zero on it."""
    least, most = float(values.min(initial=0)), float(values.max(initial=0))
    return Normalize(least, most if most > least else least + 1)


def wide_scale_for(values: Numbers) -> Normalize:
    """Make a scale for values of which none is negative: logarithmic where they are far apart."""
    positive = values[values > 0]
    if spans(positive.tolist(), FAR_APART):
        return LogNorm(float(positive.min()), float(positive.max()))
    return scale_for(values)
