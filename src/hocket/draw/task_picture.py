"""Draw a task in one picture: its map with a legend, and the machines of the team and the agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from hocket.draw.graphviz import INK, TITLE_SIZE, Mark, Panel, box, draw_machines, literal, machine_svg, measure, moved
from hocket.draw.landmarks import Place, Start, count_named, find_places, find_starts, listed
from hocket.draw.layout import Frame, Pair
from hocket.draw.marks import Rectangle, dot, filled, hatching, label, lines, parts, rectangles, words
from hocket.draw.palette import FLOOR, WALL
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.grid import Grid
from hocket.task.task import Task

MOST_STATES, MOST_TRANSITIONS = 50, 200  # of a machine beside a map: a larger one would dwarf it
MOST_COUNTED = 10_000  # states of a composition up to which they are counted

# Lengths are in points; sizes of the font too.
CELL, SMALL, FINE = 34.0, 18.0, 4.0  # a cell's side on a small map; below which names are larger; without lines between
LARGEST = (640.0, 440.0)  # width and height of a map; if it has many cells, they are smaller
TOP, GAP = 26.0, 18.0  # from a panel's top to the map, from the map to the legend and between the legend's columns
ROW, LINE, SWATCH = 20.0, 14.0, 26.0  # heights of an entry of the legend and of its further lines, width of a sample
LOWEST = 340.0  # height up to which a legend has one column, be the map ever so low
TEXT, NAME, LEAST = 11.0, 10.0, 6.5  # sizes of the legend, of agents' names, and of the smallest that can be read
MARGIN, WIDEST = 3.0, 48.0  # beside the name of an agent, and with it
DOT, UPPER = 5.0, 0.46  # diameter of an agent without a name; how much of a cell a tag has above an agent
AGENT, FAINT, HATCHED, NOTE = "#222222", "#00000022", "#00000080", "#666666"

Sample = Callable[[str, Frame], Iterable[Mark]]  # by the name of the marks, and where they go


class _AgentTag(NamedTuple):
    """What is written on an agent."""

    text: str
    size: float  # of the font
    width: float


class _Entry(NamedTuple):
    """Lines of the legend, and what stands before them."""

    names: Sequence[str]
    remarks: Sequence[str] = ()
    sample: Sample | None = None
    width: float = SWATCH  # of the sample


def draw_task(task: Task, path: str | Path, machines: Mapping[str, RewardMachine]) -> None:
    """Draw the map of a task beside machines, each under its title, into a file: .svg, .png or .pdf.

    Machines that are too large to read are left out, and so are most of many; the picture says so.
    """
    panel, readable = _lay_out(task, machines)
    draw_machines(readable, path, panel)


def task_svg(task: Task) -> str:
    """Return the drawing of a task with all its machines as the text of an SVG."""
    team = {"team": task.machine} if isinstance(task.machine, RewardMachine) and "team" not in task.agents else {}
    panel, readable = _lay_out(task, {**team, **task.machines})
    return machine_svg(readable, panel)


def _lay_out(task: Task, machines: Mapping[str, RewardMachine]) -> tuple[Panel, dict[str, RewardMachine]]:
    """Make the map's panel, and choose the machines that can be read beside it."""
    team = {title: machine for title, machine in machines.items() if title == "team" and title not in task.agents}
    agents = {title: machine for title, machine in machines.items() if title not in team}
    few = {**team, **dict(list(agents.items())[: count_named(len(agents))])}
    too_much = {title: _too_much(machine) for title, machine in few.items()}
    notes = [
        f"{title}{'' if title in team else '’s'} machine: {size}, not drawn" for title, size in too_much.items() if size
    ]
    if not team and isinstance(task.machine, Composition):
        notes.append(f"team machine: {_count_states(task.machine)} states, not drawn")
    if left_out := len(machines) - len(few):
        notes.append(f"{left_out:,} more agents’ machines, not drawn")
    readable = {title: machine for title, machine in few.items() if not too_much[title]}
    return _map_panel(task, notes), readable


def _too_much(machine: RewardMachine) -> str:
    """Say what a machine has too much of to be read beside a map, if anything."""
    if len(machine.states) > MOST_STATES:
        return f"{len(machine.states):,} states"
    return f"{transitions:,} transitions" if (transitions := len(machine.graph.target)) > MOST_TRANSITIONS else ""


def _count_states(team: Composition) -> str:
    """Say how many states a composition has, or how many it could have where they are too many to count."""
    if team.most_states > MOST_COUNTED**2:
        return f"up to 10^{math.ceil(math.log10(team.most_states))}"
    queue = [team.initial]
    found = set(queue)
    for state in queue:  # grows while it is read
        if len(queue) > MOST_COUNTED:
            return f"more than {MOST_COUNTED:,}"
        reached = {target for event in team.events if (target := team.step(state, event)) is not None} - found
        found |= reached
        queue += reached
    return f"{len(queue):,}"


def _map_panel(task: Task, notes: Sequence[str]) -> Panel:
    """Draw a map under the task's name, and a legend beside it."""
    grid, starts, places = task.grid, find_starts(task), find_places(task)
    cell = min(CELL, LARGEST[0] / grid.columns, LARGEST[1] / grid.rows)
    agents = list(zip(starts, _agent_tags(grid, starts, cell), strict=True))
    unnamed = len(task.agents) - sum(len(start.agents) for start in starts)
    entries = [*_agent_entries(agents, unnamed), *_place_entries(places), *(_Entry([], [note]) for note in notes)]
    legend, (right, bottom) = _legend(entries, grid.columns * cell + GAP, TOP + grid.rows * cell)
    title_size = float(TITLE_SIZE)
    right = max(right, measure([task.name], title_size)[task.name])
    marks = [
        words("map", task.name, (0, right, 0, ROW), title_size),
        *_ground(grid, places, cell),
        *_tags_and_agents(task, places, agents, cell),
        *legend,
    ]
    return Panel([moved(mark, 0, bottom) for mark in marks], (right, bottom))


def _agent_tags(grid: Grid, starts: Sequence[Start], cell: float) -> list[_AgentTag]:
    """Find what is written on agents: their names where they fit, or else their numbers."""
    texts = [(start.tag, str(start.number)) for start in starts]
    widths = measure([text for pair in texts for text in pair], NAME)
    room = (cell if cell >= SMALL else min(WIDEST, cell * _least_distance(grid, starts))) - 2 * MARGIN - 2
    tags = []
    for name, number in texts:
        size, smaller = (NAME * min(1, max(room, 1) / widths[text]) for text in (name, number))
        text, size = (name, size) if size >= LEAST else (number, smaller)
        tags.append(_AgentTag(text, size, widths[text] * size / NAME))
    return tags


def _least_distance(grid: Grid, starts: Sequence[Start]) -> float:
    """Find how many rows or columns, whichever are more, the nearest two starts are apart."""
    pairs = combinations([grid.row_column(start.cell) for start in starts], 2)
    return min((max(abs(a - c), abs(b - d)) for (a, b), (c, d) in pairs), default=math.inf)


def _ground(grid: Grid, places: Sequence[Place], cell: float) -> Iterator[Mark]:
    """Draw floor, places (small ones upon large ones), lines between cells, gates and walls."""
    whole = _frame((0, 0, grid.rows, grid.columns), cell)
    yield box("floor", whole, filled(FLOOR))
    for number, place in enumerate(_by_size(places)):
        for own, rectangle in enumerate(rectangles(place.cells, grid)):
            yield box(f"place{number}n{own}", _frame(rectangle, cell), filled(place.color), ", ".join(place.names))
    if cell >= FINE:
        _, width, _, height = whole
        across = [((0.0, TOP + row * cell), (width, TOP + row * cell)) for row in range(1, grid.rows)]
        down = [((column * cell, TOP), (column * cell, TOP + height)) for column in range(1, grid.columns)]
        yield from lines("cells", [*across, *down], {"color": FAINT, "penwidth": "0.5"})
    barred = {own for place in places if place.closed for own in place.cells}
    yield from _hatched("gates", [_frame(rectangle, cell) for rectangle in rectangles(barred, grid)])
    for number, rectangle in enumerate(rectangles(grid.walls, grid)):
        yield box(f"wall{number}", _frame(rectangle, cell), filled(WALL))
    yield box("border", whole, {"color": WALL, "penwidth": "1.2"})


def _tags_and_agents(
    task: Task, places: Sequence[Place], agents: Sequence[tuple[Start, _AgentTag]], cell: float
) -> Iterator[Mark]:
    """Draw the tag of a place once on each part of it that hangs together, and agents where they start."""
    grid = task.grid
    occupied = {agent.start for agent in task.agents.values()}
    below: set[int] = set()  # cells in which an agent has a tag above it
    on_top = {own: place for place in _by_size(places) for own in place.cells}
    for number, place in enumerate(places):
        seen = {own for own in place.cells if on_top[own] is place}
        for own, part in enumerate(parts(seen, grid) if place.tag else ()):
            free = part - occupied
            best = max(rectangles(free or part, grid), key=lambda rectangle: rectangle[2] * rectangle[3])
            left, width, top, height = _frame(best, cell)
            if not free:
                below |= part
                height = cell * UPPER
            if free or cell >= SMALL:
                yield _place_tag(place, f"tag{number}n{own}", (left, width, top, height))
    named = {start.cell: partial(_pill, tag, grid.columns * cell) for start, tag in agents}
    for own in sorted(occupied):
        left, width, top, height = _frame((*grid.row_column(own), 1, 1), cell)
        above = cell * UPPER if own in below and cell >= SMALL else 0
        yield from named.get(own, _dot)(f"start{own}", (left, width, top + above, height - above))


def _place_tag(place: Place, name: str, frame: Frame) -> Mark:
    """Write a place's tag into the middle of a frame, on the place's colour, so that hatching leaves it readable."""
    left, width, top, height = frame
    size = min(12.0, height * 0.8, width / len(place.tag) * 1.25)
    wide, high = min(width, size * (0.3 + 0.6 * len(place.tag))), size * 1.1
    spot = left + (width - wide) / 2, wide, top + (height - high) / 2, high
    bold = {"label": f"<<B>{literal(place.tag)}</B>>"}
    return box(name, spot, filled(place.color) | label(place.tag, size) | bold)


def _pill(tag: _AgentTag, right: float, name: str, frame: Frame) -> list[Mark]:
    """Draw an agent's tag into the middle of a frame, or as near as it can be without leaving the map."""
    left, width, top, height = frame
    wide, high = tag.width + 2 * MARGIN, tag.size * 1.35
    start = max(0.0, min(left + (width - wide) / 2, right - wide))
    spot = start, wide, top + (height - high) / 2, high
    return [box(name, spot, filled(AGENT) | {"style": "filled,rounded"} | label(tag.text, tag.size, "#ffffff"))]


def _dot(name: str, frame: Frame) -> list[Mark]:
    left, width, top, height = frame
    return [dot(name, (left + width / 2, top + height / 2), min(DOT, width / 2, height / 2), AGENT)]


def _swatch(place: Place, name: str, frame: Frame) -> Iterator[Mark]:
    yield box(name, frame, filled(place.color))
    if place.closed:
        yield from _hatched(f"{name}hatch", [frame])
    if place.tag:
        yield _place_tag(place, f"{name}tag", frame)


def _hatched(name: str, frames: Iterable[Frame]) -> list[Mark]:
    segments = [segment for frame in frames for segment in hatching(frame)]
    return lines(name, segments, {"color": HATCHED, "penwidth": "0.8"})


def _agent_entries(agents: Iterable[tuple[Start, _AgentTag]], unnamed: int) -> Iterator[_Entry]:
    for start, tag in agents:
        corners = f" ({listed(start.corners)})" if start.corners else ""
        line = f"start of {listed(start.agents)}{corners}"
        yield _Entry([line], sample=partial(_pill, tag, math.inf), width=tag.width + 2 * MARGIN)
    if unnamed:
        yield _Entry([f"starts of {unnamed:,} more agents"], sample=_dot)


def _place_entries(places: Sequence[Place]) -> Iterator[_Entry]:
    for place in places:
        if place.tag:
            yield _Entry([listed(place.names)], place.closed, partial(_swatch, place))
    if others := [place for place in places if not place.tag]:
        count = sum(len(place.names) for place in others)
        yield _Entry([f"{count:,} more place{'' if count == 1 else 's'}"], sample=partial(_swatch, others[0]))


def _legend(entries: Sequence[_Entry], left: float, bottom: float) -> tuple[list[Mark], Pair]:
    """Set entries into columns of about one height, at most that of the map; return the lower right corner too."""
    widths = measure([line for entry in entries for line in (*entry.names, *entry.remarks)], TEXT)
    before = max(entry.width for entry in entries)
    heights = [ROW + LINE * (len(names) + len(remarks) - 1) for names, remarks, *_ in entries]
    columns = math.ceil(sum(heights) / max(bottom - TOP, LOWEST))
    share = sum(heights) / columns
    marks: list[Mark] = []
    right, top, lowest = left, TOP, bottom
    for number, (names, remarks, sample, _) in enumerate(entries):
        if top + heights[number] / 2 > TOP + share:
            left, top = right + GAP, TOP
        if sample is not None:
            marks += sample(f"sample{number}", (left, before, top + 2, ROW - 4))
        start = left if sample is None else left + before + GAP / 2
        for place, line in enumerate((*names, *remarks)):
            frame = start, widths[line], top + place * LINE, ROW
            marks.append(words(f"line{number}n{place}", line, frame, TEXT, NOTE if place >= len(names) else INK))
            right = max(right, start + widths[line])
        top += heights[number]
        lowest = max(lowest, top)
    return marks, (right, lowest)


def _frame(rectangle: Rectangle, cell: float) -> Frame:
    row, column, rows, columns = rectangle
    return column * cell, columns * cell, TOP + row * cell, rows * cell


def _by_size(places: Iterable[Place]) -> list[Place]:
    return sorted(places, key=lambda place: -len(place.cells))
