"""Figures on a map: what agents have learnt to do in each state of their machines, where they were, what they know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from hocket.draw.geometry import Flags, rectangles
from hocket.draw.scene import Scene
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, HocketError, require_known
from hocket.learn.catalogue import find_learner, learners_with_input
from hocket.learn.learner import PolicyInput
from hocket.learn.policies import Policy
from hocket.learn.world import WorldModel
from hocket.report.figures.canvas import INK, WHITE, count_runs, literal, write_figure
from hocket.report.figures.panels import (
    CELL,
    FEW,
    SMALL_CELL,
    Numbers,
    arrange_panels,
    list_areas,
    scale_for,
    wide_scale_for,
)
from hocket.report.summary import RunGroup, Section
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS, STAY, STEPS
from hocket.task.memory import memory_of
from hocket.task.task import Task

PICTURED = (PolicyInput.MACHINE, PolicyInput.MEMORY)  # what policies may look at to be drawn
MOST_AGENTS = 12  # who are drawn
LONGEST = 60  # characters of a task's or agent's name in a title
MOST_VIEWS = 16  # states of a machine, or values of memory, that are drawn
VALUES, VISITS = "viridis", "magma_r"  # even to the eye, also without red or green, and in grey
DARK = 0.4  # luminance of a colour below which arrows on it are white
CLOSED = "#d8d8d8"

# Shapes in a cell of side 1, from its middle: along the action, and across it.
SHAFT, HEAD, BACK = 0.045, 0.16, 0.26  # half the widths of an arrow's shaft and head, and how long its head is
ALONE, SEVERAL = 0.68, 0.44  # lengths of an arrow
DOT = 0.13  # radius


class PolicyView(NamedTuple):
    """What a map of an agent's policy shows: what it does in a state of its machine, or with what it remembers."""

    title: str
    q: Numbers  # [S, A]
    closed: frozenset[int]  # cells
    is_first: bool  # the agent starts like this


def draw_policy(task: Task | str | Path, policy: Policy, path: str | Path, *, agent: str) -> None:
    """Draw what an agent does, a map for each state of its machine: best actions as arrows, their values as colours.

    Of a policy that looks at memory, there is a map for each of its values. The file's suffix says its format:
    .svg, .png or .pdf.
    """
    subject = as_task(task)
    write_figure(path, lambda: policy_figure(subject, policy, agent=agent))


def draw_visits(section: Section, path: str | Path, *, group: str | None = None) -> None:
    """Draw how often each agent was where, in reviews of a group's runs; without a label, of the first that has any."""
    write_figure(path, lambda: visits_figure(section, group=group))


# Policies.


def policy_figure(task: Task, policy: Policy, *, agent: str) -> Figure:
    """Make the picture of an agent's policy."""
    scene, floor = scene_of(task), task.grid.floor
    views = views_of(task, scene, policy, agent)
    few = views[:MOST_VIEWS]
    best = [np.where(floor & view.q.any(axis=1), view.q.max(axis=1), np.nan) for view in few]  # [S] each
    norm, colors = scale_for(policy.arrays["q"].max(axis=2)), matplotlib.colormaps[VALUES]
    words = [
        "arrows: best actions",
        "dot: stay",
        "no mark: all actions equal",
        "pale: value 0",
        "ring: start",
    ]
    words += ["hatched: closed"] if any(view.closed for view in few) else []
    notes = ["; ".join(words)]
    notes += [list_areas(scene)] if scene.areas else []
    notes += [f"the first {len(few)} of {len(views):,} states"] if len(views) > len(few) else []
    title = f"{literal(task.name, LONGEST)}: {literal(agent, LONGEST)}, {policy.learner} (seed {policy.seed})"
    panels = arrange_panels(scene, [literal(view.title) for view in few], title, notes)
    starts = task.agents[agent].starts
    for axes, view, values in zip(panels.maps, few, best, strict=True):
        closed = view.closed if view.closed.isdisjoint(starts) else frozenset[int]()  # who is inside moves inside
        seen = floor.copy()
        seen[list(closed)] = False
        panels.draw_ground(axes, values, colors, norm)
        _draw_closed(axes, scene, view.closed, CLOSED if closed else "none")
        panels.draw_areas(axes)
        _draw_arrows(axes, view.q, seen, scene.columns, colors(norm(np.nan_to_num(values))))
        if view.is_first:
            for row, column in map(task.grid.row_column, starts):
                for color, width in ((WHITE, 1.4), (INK, 0.7)):
                    spot = (column + 0.5, row + 0.5)
                    axes.add_patch(Circle(spot, 0.46, fill=False, color=color, linewidth=width, zorder=3))
    panels.draw_scale(colors, norm, "value of the best action\n(discounted reward)")
    return panels.figure


def views_of(task: Task, scene: Scene, policy: Policy, agent: str) -> list[PolicyView]:
    """List the maps of an agent's policy, after checking that it fits the task."""
    fitting = learners_with_input(*PICTURED)
    if policy.learner not in fitting:
        raise HocketError(f"pictures of policies exist for {', '.join(fitting)} only, got one of {policy.learner}")
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
    if is_by_machine:
        return by_state(scene, agent, values)
    return _by_memory(scene, agent, memory_of(task)[agent], values)


def by_state(scene: Scene, agent: str, q: Numbers) -> list[PolicyView]:  # [S, A, U]
    """List the maps of an agent's action values, one for each state of its machine that is not final."""
    machine = scene.machines[agent]
    return [
        PolicyView(state, q[:, :, number], _closed(scene, agent, state), state == machine.initial)
        for number, state in enumerate(machine.states)
        if state not in machine.final
    ]


def _closed(scene: Scene, agent: str, state: str) -> frozenset[int]:
    """Find the cells that are closed to an agent in a state of its machine."""
    areas = [area for area in scene.areas if scene.bars(area, agent, state)]
    return scene.cells_in([shape for area in areas for shape in area.shapes])


def _by_memory(scene: Scene, agent: str, memory: Sequence[str], q: Numbers) -> list[PolicyView]:  # [S, A, M]
    """List a map for each value of memory; a gate counts as closed if memory would show that it has opened."""
    views = []
    for value in range(1 << len(memory)):
        events = [name for bit, name in enumerate(memory) if value >> bit & 1]
        waiting = {(agent, event) for event in memory if event not in events}
        closed = scene.cells_in([shape for area in scene.areas if waiting & {*area.gates} for shape in area.shapes])
        title = f"after {', '.join(events)}" if events else "at the start"
        views.append(PolicyView(title, q[:, :, value], closed, value == 0))
    return views


def _draw_closed(axes: Axes, scene: Scene, closed: frozenset[int], color: str) -> None:
    for left, top, width, height, _ in rectangles(closed, scene.columns):
        look: dict[str, Any] = {"facecolor": color, "edgecolor": INK, "linewidth": 0.0, "hatch": "/////", "zorder": 1.5}
        axes.add_patch(Rectangle((left, top), width, height, **look))


def _draw_arrows(axes: Axes, q: Numbers, seen: Flags, columns: int, colors: Numbers) -> None:
    """Draw the best actions of each cell; where there are several, from its middle; where all are, none."""
    best = (q == q.max(axis=1, keepdims=True)) & seen[:, None]
    count = best.sum(axis=1)
    best[count == len(ACTIONS)] = False
    ink = np.where(colors[:, :3] @ [0.2126, 0.7152, 0.0722] < DARK, WHITE, INK)
    shapes, inks = [], []
    for cell, action in zip(*(indices.tolist() for indices in np.nonzero(best)), strict=True):
        row, column = divmod(cell, columns)
        middle = np.array([column + 0.5, row + 0.5])
        shapes.append(middle + (_disc() if action == STAY else _arrow(action, alone=count[cell] == 1)))
        inks.append(ink[cell])
    axes.add_collection(PolyCollection(shapes, facecolors=inks, linewidths=0, zorder=3))


def _arrow(action: int, *, alone: bool) -> Numbers:
    """Lay out an arrow; one that is alone has its middle in that of the cell."""
    start, end = (-ALONE / 2, ALONE / 2) if alone else (0.0, SEVERAL)
    neck = end - BACK
    upper = [(start, SHAFT), (neck, SHAFT), (neck, HEAD), (end, 0.0)]
    shape = np.array(upper + [(along, -across) for along, across in reversed(upper[:-1])])
    down, right = STEPS[action]
    return shape @ np.array([[right, down], [down, -right]], np.float64)


def _disc() -> Numbers:
    turn = np.arange(16) * (2 * math.pi / 16)
    return DOT * np.stack([np.cos(turn), np.sin(turn)], axis=1)


# Visits.


def visits_figure(section: Section, *, group: str | None = None) -> Figure:
    """Make the figure of where a group's agents were."""
    chosen, scene = _visited(section, group), section.scene
    assert scene is not None and chosen.visits is not None
    agents = scene.agents[:MOST_AGENTS]
    episodes = chosen.bounds.episodes if chosen.bounds is not None else 0
    values = chosen.visits[: len(agents)] / (episodes or 1)
    of = f"{episodes:,} episodes of " if episodes else ""
    notes = [f"softmax policies, {of}{count_runs([chosen])}; pale: never there"]
    notes += [list_areas(scene)] if scene.areas else []
    if len(scene.agents) > len(agents):
        notes.append(f"the first {len(agents)} of {len(scene.agents):,} agents")
    title = f"{literal(section.title, LONGEST)}: visits, {literal(chosen.label)}"
    cell = CELL if len(agents) <= FEW else SMALL_CELL
    panels = arrange_panels(scene, [literal(name) for name in agents], title, notes, cell)
    norm, colors = wide_scale_for(values), matplotlib.colormaps[VISITS]
    for axes, counts in zip(panels.maps, values, strict=True):
        panels.draw_ground(axes, np.where(counts > 0, counts, np.nan), colors, norm)
        panels.draw_areas(axes)
    panels.draw_scale(colors, norm, "visits per episode" if episodes else "visits")
    return panels.figure


def _visited(section: Section, label: str | None) -> RunGroup:
    """Find a group whose visits can be drawn."""
    groups = [group for group in (*section.groups, section.reference) if group is not None]
    if label is not None:
        require_known(label, [group.label for group in groups], "group")
    fitting = [group for group in groups if can_show_visits(section, group) and label in (None, group.label)]
    if not fitting:
        what = "any group" if label is None else label
        raise HocketError(f"{section.title}: visits are drawn on a map of cells where runs keep them, {what} has none")
    return fitting[0]


def can_show_visits(section: Section, group: RunGroup) -> bool:
    """Say whether a group's runs have kept visits, and its scene is a map of the same cells."""
    scene = section.scene
    if scene is None or not scene.has_cells or group.visits is None:
        return False
    return scene.rows > 0 and group.visits.shape == (len(scene.agents), scene.rows * scene.columns)


# Worlds.


def draw_world(world: WorldModel, path: str | Path) -> None:
    """Draw what is known of a map, and how well: how often the least tried action of each cell was tried.

    Arrows are actions that nobody has tried there. The file's suffix says its format: .svg, .png or .pdf.
    """
    write_figure(path, lambda: world_figure(world))


def world_figure(world: WorldModel) -> Figure:
    """Make the picture of what is known of a map."""
    columns, known = world.columns, world.known()
    cells = np.arange(len(known))
    walls = np.setdiff1d(cells, world.end[world.end != cells[:, None]])  # nobody gets into these
    scene = Scene(
        "", columns, len(known) // columns, (), {}, {}, walls=tuple(rectangles(walls.tolist(), columns)), has_cells=True
    )
    visited = known.any(axis=1)
    least = np.where(visited, known.min(axis=1).astype(np.float64), np.nan)
    norm, colors = wide_scale_for(np.nan_to_num(least)), matplotlib.colormaps[VISITS]
    said = f"{len(world.move):,} moves tried in {world.steps:,} steps"
    notes = ["pale: nobody was there; arrows and dots: actions that nobody has tried there"]
    panels = arrange_panels(scene, [said], "What is known of the map", notes)
    panels.draw_ground(panels.maps[0], least, colors, norm)
    _draw_arrows(
        panels.maps[0], -known.astype(np.float64), visited & (least == 0), columns, colors(norm(np.nan_to_num(least)))
    )
    panels.draw_scale(colors, norm, "tries of the least tried action")
    return panels.figure
