"""Figures on maps: the policies of agents in each state of their machines, visits, and world models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

from hocket.draw.geometry import Flags, covered, outline, rectangles
from hocket.draw.palette import FLOOR, WALL
from hocket.draw.scene import Scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, HocketError, require_known
from hocket.learn.catalogue import find_learner, learners_with_input
from hocket.learn.learner import PolicyInput
from hocket.learn.policies import Policy
from hocket.learn.world import WorldModel
from hocket.report.figures import canvas
from hocket.report.figures.canvas import COLUMN, INK, NOTE, PAGE, POINTS, SMALL, TEXT, TITLE, WHITE
from hocket.report.summary import RunGroup, Section, spans
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS, STAY, STEPS
from hocket.task.memory import memory_of
from hocket.task.task import Task

PICTURED = (PolicyInput.MACHINE, PolicyInput.MEMORY)  # inputs of policies that can be drawn
MOST_AGENTS = 12  # that are drawn
LONGEST_NAME = 60  # characters of a task's or agent's name in a title
MOST_VIEWS = 16  # states of a machine, or values of memory, that are drawn
VALUES, VISITS = "viridis", "magma_r"  # perceptually uniform colour maps
DARK = 0.4  # luminance of a colour below which arrows on it are white
CLOSED = "#d8d8d8"

# Shapes in a cell of side 1, from its middle: along the action, and across it.
SHAFT, HEAD, BACK = 0.045, 0.16, 0.26  # half widths of an arrow's shaft and head, and length of its head
ALONE, SEVERAL = 0.68, 0.44  # lengths of an arrow
TURN = np.arange(16) * (2 * math.pi / 16)
DISC = 0.13 * np.stack([np.cos(TURN), np.sin(TURN)], axis=1)  # of an agent that stays


# Lengths are in points.
CELL, SMALL_CELL, FEW = 12.0, 8.6, 3  # side of a cell; on more than a few maps of visits
WIDEST, HIGHEST = 200.0, 320.0  # of a map
NARROWEST = 80.0  # width of a map and its title
LEFT, RIGHT, ACROSS, DOWN = 28.0, 5.0, 10.0, 15.0  # beside and between maps; a map's title is in the space above it
UNDER = 24.0  # for the numbers and the name of the lowest axes
BAR, BESIDE = 7.0, 44.0  # width of the scale, and of the numbers and the name beside it
SHORTEST, LONGEST = 92.0, 150.0  # height of the scale
LINE = 1.4  # height of a line of text, relative to its size
EDGE = 5.0  # between text and edges
LEAST_TAG, MOST_TAG = 4.0, 4.8  # sizes of an area's tag
MOST_NUMBERS = 4  # on an axis of a map
MOST_NAMED = 24  # areas that are listed under a figure
MOST_SHAPES = 20_000  # cells that are drawn as shapes; more are drawn as pixels, or the file would be huge
FAR_APART = 300  # times: values that differ by more have a logarithmic scale

Numbers = NDArray[np.float64]


class PolicyView(NamedTuple):
    """A map of an agent's policy: its action values in a state of its machine, or with a value of memory."""

    title: str
    q: Numbers  # [S, A]
    closed: frozenset[int]  # cells
    is_first: bool  # of the initial state


def draw_policy(task: Task | str | Path, policy: Policy, path: str | Path, *, agent: str) -> None:
    """Draw an agent's policy, a map for each state of its machine: best actions as arrows, their values as colours.

    A policy with memory has a map for each of its values. The suffix of the file is its format: .svg, .png or .pdf.
    """
    subject = as_task(task)
    canvas.write_figure(path, lambda: policy_figure(subject, policy, agent=agent))


def policy_figure(task: Task, policy: Policy, *, agent: str) -> Figure:
    """Make the figure of an agent's policy."""
    scene, floor = scene_of(task), task.grid.floor
    views = views_of(task, scene, policy, agent)
    few = views[:MOST_VIEWS]
    best = [np.where(floor & view.q.any(axis=1), view.q.max(axis=1), np.nan) for view in few]  # [S] each
    norm, colors = scale_for(policy.arrays["q"].max(axis=2)), matplotlib.colormaps[VALUES]
    note = "arrows: best actions; dot: stay; no mark: all actions equal; pale: value 0; ring: start"
    notes = [note + ("; hatched: closed" if any(view.closed for view in few) else "")]
    more = f"the first {len(few)} of {len(views):,} states" if len(views) > len(few) else ""
    task_name, name = canvas.literal(task.name, LONGEST_NAME), canvas.literal(agent, LONGEST_NAME)
    title = f"{task_name}: {name}, {policy.learner} (seed {policy.seed})"
    panels = Panels(scene, [view.title for view in few], title, [*notes, list_areas(scene), more])
    panels.draw_ground(best, colors, norm, "value of the best action\n(discounted reward)")
    starts = task.agents[agent].starts
    for axes, view, values in zip(panels.maps, few, best, strict=True):
        closed = view.closed if view.closed.isdisjoint(starts) else frozenset[int]()  # an agent inside moves inside
        has_arrows = floor.copy()
        has_arrows[list(closed)] = False
        look: dict[str, Any] = {"facecolor": CLOSED if closed else "none", "edgecolor": INK, "hatch": "/////"}
        for left, top, width, height, _ in rectangles(view.closed, scene.columns):
            axes.add_patch(Rectangle((left, top), width, height, linewidth=0.0, zorder=1.5, **look))
        _draw_arrows(axes, view.q, has_arrows, scene.columns, colors(norm(np.nan_to_num(values))))
        for row, column in map(task.grid.row_column, starts if view.is_first else ()):
            for color, width in ((WHITE, 1.4), (INK, 0.7)):
                ring = Circle((column + 0.5, row + 0.5), 0.46, fill=False, color=color, linewidth=width, zorder=3)
                axes.add_patch(ring)
    return panels.figure


def views_of(task: Task, scene: Scene, policy: Policy, agent: str) -> list[PolicyView]:
    """List the maps of an agent's policy, after checking that it fits the task."""
    learners = learners_with_input(*PICTURED)
    if policy.learner not in learners:
        raise HocketError(f"pictures of policies exist for {', '.join(learners)} only, got one of {policy.learner}")
    require_known(agent, task.agents, "agent")
    policy.require_task(task.digest)
    is_by_machine = find_learner(policy.learner).policy_input is PolicyInput.MACHINE
    sizes = [len(machine.states) for machine in task.machines.values()]
    memories = [1 << len(memory) for memory in memory_of(task).values()]
    shape = len(sizes), task.grid.cells, len(ACTIONS), max(sizes if is_by_machine else memories)
    q = policy.arrays.get("q")
    if q is None or q.shape != shape or not np.isfinite(q).all():
        raise FormatError(f"this is not what {policy.learner} learns on this task: its arrays do not fit")
    values = q[list(task.agents).index(agent)].astype(np.float64)
    return by_state(scene, agent, values) if is_by_machine else _by_memory(scene, agent, memory_of(task)[agent], values)


def by_state(scene: Scene, agent: str, q: Numbers) -> list[PolicyView]:  # [S, A, U]
    """List the maps of an agent's action values, one for each state of its machine that is not final."""
    machine, views = scene.machines[agent], []
    for number, state in enumerate(machine.states):
        if state not in machine.final:
            closed = [shape for area in scene.areas if scene.bars(area, agent, state) for shape in area.shapes]
            views.append(PolicyView(state, q[:, :, number], scene.cells_in(closed), state == machine.initial))
    return views


def _by_memory(scene: Scene, agent: str, memory: Sequence[str], q: Numbers) -> list[PolicyView]:  # [S, A, M]
    """List a map for each value of memory; a gate is closed if its event is in memory and has not happened."""
    views = []
    for value in range(1 << len(memory)):
        events = [name for bit, name in enumerate(memory) if value >> bit & 1]
        unopened = {(agent, event) for event in memory if event not in events}
        closed = scene.cells_in([shape for area in scene.areas if unopened & {*area.gates} for shape in area.shapes])
        title = f"after {', '.join(events)}" if events else "at the start"
        views.append(PolicyView(title, q[:, :, value], closed, value == 0))
    return views


def _draw_arrows(axes: Axes, q: Numbers, cells: Flags, columns: int, colors: Numbers) -> None:
    """Draw the best actions of cells; several start in the middle of the cell, and no arrows are drawn if all are."""
    best = (q == q.max(axis=1, keepdims=True)) & cells[:, None]
    count = best.sum(axis=1)
    best[count == len(ACTIONS)] = False
    ink = np.where(colors[:, :3] @ [0.2126, 0.7152, 0.0722] < DARK, WHITE, INK)
    shapes, inks = [], []
    for cell, action in zip(*(indices.tolist() for indices in np.nonzero(best)), strict=True):
        row, column = divmod(cell, columns)
        middle = np.array([column + 0.5, row + 0.5])
        shapes.append(middle + (DISC if action == STAY else _arrow(action, alone=count[cell] == 1)))
        inks.append(ink[cell])
    axes.add_collection(PolyCollection(shapes, facecolors=inks, linewidths=0, zorder=3))


def _arrow(action: int, *, alone: bool) -> Numbers:
    """Make the outline of an arrow; a single one has its middle in that of the cell."""
    start, end = (-ALONE / 2, ALONE / 2) if alone else (0.0, SEVERAL)
    neck = end - BACK
    upper = [(start, SHAFT), (neck, SHAFT), (neck, HEAD), (end, 0.0)]
    shape = np.array(upper + [(along, -across) for along, across in reversed(upper[:-1])])
    down, right = STEPS[action]
    return shape @ np.array([[right, down], [down, -right]], np.float64)


def visits_figure(section: Section, group: RunGroup) -> Figure:
    """Draw how often each agent was in each cell, in the test episodes of a group's runs."""
    scene = section.scene
    assert scene is not None and group.visits is not None
    agents = scene.agents[:MOST_AGENTS]
    episodes = group.bounds.episodes if group.bounds is not None else 0
    values = group.visits[: len(agents)] / (episodes or 1)
    of_episodes = f"{episodes:,} episodes of " if episodes else ""
    note = f"softmax policies, {of_episodes}{canvas.count_runs([group])}; pale: never there"
    more = f"the first {len(agents)} of {len(scene.agents):,} agents" if len(scene.agents) > len(agents) else ""
    title = f"{canvas.literal(section.title, LONGEST_NAME)}: visits, {canvas.literal(group.label)}"
    cell = CELL if len(agents) <= FEW else SMALL_CELL
    panels = Panels(scene, agents, title, [note, list_areas(scene), more], cell)
    norm, grounds = scale_for(values, wide=True), np.where(values > 0, values, np.nan)
    name = "visits per episode" if episodes else "visits"
    panels.draw_ground(grounds, matplotlib.colormaps[VISITS], norm, name)
    return panels.figure


def can_show_visits(section: Section, group: RunGroup) -> bool:
    """Tell whether a group has visits, and its scene is a map of the same cells."""
    scene = section.scene
    if scene is None or not scene.has_cells or group.visits is None:
        return False
    return scene.rows > 0 and group.visits.shape == (len(scene.agents), scene.rows * scene.columns)


def draw_world(world: WorldModel, path: str | Path) -> None:
    """Draw a world model: how often the least tried action of each cell was tried.

    Arrows are actions that were never tried there. The suffix of the file is its format: .svg, .png or .pdf.
    """
    canvas.write_figure(path, lambda: world_figure(world))


def world_figure(world: WorldModel) -> Figure:
    """Make the figure of a world model."""
    columns, known = world.columns, world.known()
    cells = np.arange(len(known))
    walled = np.setdiff1d(cells, world.end[world.end != cells[:, None]])  # no move ends in these
    walls = tuple(rectangles(walled.tolist(), columns))
    scene = Scene("", columns, len(known) // columns, (), {}, {}, walls=walls, has_cells=True)
    visited = known.any(axis=1)
    least = np.where(visited, known.min(axis=1).astype(np.float64), np.nan)
    norm, colors = scale_for(np.nan_to_num(least), wide=True), matplotlib.colormaps[VISITS]
    tried = f"{len(world.move):,} moves tried in {world.steps:,} steps"
    notes = ["pale: not visited; arrows and dots: untried actions"]
    panels = Panels(scene, [tried], "What is known of the map", notes)
    panels.draw_ground([least], colors, norm, "tries of the least tried action")
    ground = colors(norm(np.nan_to_num(least)))
    _draw_arrows(panels.maps[0], -known.astype(np.float64), visited & (least == 0), columns, ground)
    return panels.figure


class Panels:
    """A figure with a small map for each title, at most as wide as a page, with one colour scale and notes below."""

    def __init__(
        self, scene: Scene, titles: Sequence[str], title: str, notes: Iterable[str], cell: float = CELL
    ) -> None:
        rows, columns = scene.rows, scene.columns
        cell = min(cell, WIDEST / columns, HIGHEST / rows)
        wide, high = columns * cell, rows * cell
        slot = max(wide, NARROWEST)
        most = max(1, int((PAGE * POINTS - LEFT - BAR - BESIDE - RIGHT) // (slot + ACROSS)))
        down = -(-len(titles) // most)
        across = -(-len(titles) // down)
        used = LEFT + across * (slot + ACROSS) + BAR + BESIDE + RIGHT
        width = max(used, COLUMN * POINTS)
        heading = canvas.wrap(title, TITLE, width - 2 * EDGE)
        below = [line for note in filter(None, notes) for line in canvas.wrap(note, SMALL, width - 2 * EDGE)]
        top = EDGE + len(heading) * LINE * TITLE
        bottom = UNDER + len(below) * LINE * SMALL + EDGE
        middle = max(SHORTEST, down * (high + DOWN) - DOWN)
        height = top + DOWN + middle + bottom
        figure, edge = Figure(figsize=(width / POINTS, height / POINTS)), EDGE / width
        figure.text(edge, 1 - EDGE / height, "\n".join(heading), size=TITLE, va="top")
        figure.text(edge, EDGE / height, "\n".join(below), size=SMALL, va="bottom", color=NOTE, linespacing=1.25)
        self.scene, self.cell, self.figure, self.maps = scene, cell, figure, list[Axes]()
        for number, name in enumerate(titles):
            row, column = divmod(number, across)
            left = LEFT + (width - used) / 2 + column * (slot + ACROSS) + (slot - wide) / 2
            floor = height - top - (row + 1) * (high + DOWN)
            axes = figure.add_axes((left / width, floor / height, wide / width, high / height))
            title = canvas.shorten(canvas.literal(name), TEXT, slot)
            _prepare(axes, scene, title, column == 0, number + across >= len(titles))
            self.maps.append(axes)
        left = LEFT + (width - used) / 2 + across * (slot + ACROSS)
        long = min(LONGEST, middle)
        self.bar = figure.add_axes((left / width, (height - top - DOWN - long) / height, BAR / width, long / height))

    def draw_ground(self, grounds: Iterable[Numbers], colors: Colormap, norm: Normalize, name: str) -> None:
        """Colour the cells with values of each map, draw walls and areas, and the scale."""
        rows, columns = self.scene.rows, self.scene.columns
        for axes, values in zip(self.maps, grounds, strict=True):
            mesh = axes.pcolormesh(
                np.arange(columns + 1), np.arange(rows + 1), np.ma.masked_invalid(values.reshape(rows, columns)),
                cmap=colors, norm=norm, edgecolors="face", linewidth=0.25,
            )  # fmt: skip
            mesh.set_rasterized(values.size * len(self.maps) > MOST_SHAPES)
            for wall in self.scene.walls:
                axes.add_patch(Rectangle((wall.left, wall.top), wall.width, wall.height, facecolor=WALL, linewidth=0))
            self.draw_areas(axes)
        scale = self.figure.colorbar(ScalarMappable(norm, colors), cax=self.bar)
        scale.ax.yaxis.set_major_formatter(canvas.counted)
        scale.ax.yaxis.set_minor_formatter(NullFormatter())
        scale.outline.set_linewidth(0.4)
        scale.set_label(name)

    def draw_areas(self, axes: Axes) -> None:
        """Outline areas, and write their tags into their upper left corners."""
        size = min(MOST_TAG, max(LEAST_TAG, 0.45 * self.cell))
        cells = [covered(area.shapes, self.scene.rows, self.scene.columns) for area in self.scene.painted]
        edges = [edge for flags in cells for edge in outline(flags)]
        for color, width in ((WHITE, 1.5), (INK, 0.6)) if edges else ():  # visible on any colour
            axes.add_collection(LineCollection(edges, colors=color, linewidths=width, capstyle="round", zorder=2))
        for area in self.scene.painted:
            if area.tag and area.shapes:
                axes.annotate(
                    canvas.literal(area.tag, 4), area.shapes[0][:2], (0.9, -0.9), textcoords="offset points", size=size,
                    va="top", zorder=2.5, path_effects=[withStroke(linewidth=1.2, foreground=WHITE)],
                )  # fmt: skip


def _prepare(axes: Axes, scene: Scene, title: str, is_left: bool, is_lowest: bool) -> None:
    rows, columns = scene.rows, scene.columns
    axes.set(xlim=(0, columns), ylim=(rows, 0), facecolor=FLOOR)
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
    """List the areas by their tags; empty if there are none."""
    entries = [f"{area.tag}: {area.name}" for area in scene.areas if area.tag]
    more = len(entries) - MOST_NAMED
    return canvas.literal("; ".join(entries[:MOST_NAMED]), 1_000) + (f"; and {more:,} more" if more > 0 else "")


def scale_for(values: NDArray[np.floating], *, wide: bool = False) -> Normalize:
    """Make a linear scale with zero, or, if allowed by `wide`, a logarithmic one for values that differ much."""
    positive = values[values > 0]
    if wide and spans(positive.tolist(), FAR_APART):
        return LogNorm(float(positive.min()), float(positive.max()))
    least, most = float(values.min(initial=0)), float(values.max(initial=0))
    return Normalize(least, most if most > least else least + 1)
