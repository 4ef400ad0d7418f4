"""Draw a task in one picture: its map with a legend, and the machines of the team and the agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from hocket.commands.palette import FLOOR, WALL, choose_colors, choose_letters
from hocket.composition import Composition
from hocket.drawing import TITLE_SIZE, Frame, Mark, Panel, box, draw_machines, is_readable, measure, moved
from hocket.machine import RewardMachine
from hocket.shapes import Rectangle, filled, hatching, lines, parts, rectangles, words
from hocket.task import Task
from hocket.world import Grid

MOST_AGENTS, FEW_AGENTS = 12, 6  # of more agents than that, only a few are named and have their machines drawn
MOST_PLACES = 24  # that are named; others are grey
MOST_LISTED = 6  # agents in a line of the legend
MOST_COUNTED = 10_000  # states of a composition up to which they are counted

# Lengths are in points; sizes of the font too.
CELL, SMALL = 30.0, 18.0  # a cell's side on a small map; marks may be larger than cells smaller than that
LARGEST = (640.0, 440.0)  # width and height of a map; if it has many cells, they are smaller
TOP, GAP = 24.0, 18.0  # from a panel's top to the map, from the map to the legend and between the legend's columns
ROW, SAMPLE = 17.0, 26.0  # height of a line of the legend, and width of what is before it
TEXT, NAME, LEAST = 11.0, 10.0, 6.5  # sizes of the legend, of agents' names, and of the smallest that can be read
MARGIN, WIDEST = 3.0, 48.0  # beside the name of an agent, and with it
DOT, UPPER = 5.0, 0.46  # diameter of an agent without a name; how much of a cell a tag has above an agent
OTHER, FAINT, HATCHED, NOTE = "#dddddd", "#00000022", "#00000080", "#666666"


class _Place(NamedTuple):
    """Places of the same cells."""

    names: Sequence[str]
    cells: frozenset[int]
    color: str
    tag: str
    closed: Sequence[str]  # to whom, and until when


class _Start(NamedTuple):
    """Agents that start in the same cell."""

    cell: int
    agents: Sequence[str]
    tag: str
    size: float  # of the tag's font
    width: float  # of the tag


class _Entry(NamedTuple):
    """A line or more of the legend, and what draws a sample into a frame before it."""

    lines: Sequence[str]
    sample: Callable[[str, Frame], Iterable[Mark]] = lambda *_: ()


def draw_task(task: Task, path: str | Path, machines: Mapping[str, RewardMachine]) -> None:
    """Draw the map of a task beside machines, each under its title, into a file: .svg, .png or .pdf.

    Machines that are too large to read are left out, and so are most of many; the picture says so.
    """
    team = {title: machine for title, machine in machines.items() if title == "team" and title not in task.agents}
    agents = {title: machine for title, machine in machines.items() if title not in team}
    few = {**team, **dict(list(agents.items())[: _named(len(agents))])}
    readable = {title: machine for title, machine in few.items() if is_readable(machine)}
    notes = [
        f"{title}{'' if title in team else '’s'} machine: {len(machine.states):,} states, not drawn"
        for title, machine in few.items()
        if title not in readable
    ]
    if not team and isinstance(task.machine, Composition):
        notes.append(f"team machine: {_count_states(task.machine)} states, not drawn")
    if left_out := len(machines) - len(few):
        notes.append(f"{left_out:,} more agents’ machines, not drawn")
    draw_machines(readable, path, _map_panel(task, notes))


def _named(agents: int) -> int:
    """Say how many of some agents are named."""
    return agents if agents <= MOST_AGENTS else FEW_AGENTS


def _count_states(team: Composition) -> str:
    """Say how many states a composition has, or how many it could have where they are too many to count."""
    if team.most_states > MOST_COUNTED**2:
        return f"up to 10^{math.ceil(math.log10(team.most_states))}"
    queue = [team.initial]
    found = set(queue)
    for state in queue:  # grows while it is read
        reached = [target for event in team.events if (target := team.step(state, event)) not in (None, *found)]
    return f"{len(found):,}"


def _map_panel(task: Task, notes: Sequence[str]) -> Panel:
    """Draw a map under the task's name, and a legend beside it."""
    grid = task.grid
    cell = min(CELL, LARGEST[0] / grid.columns, LARGEST[1] / grid.rows)
    right, bottom = grid.columns * cell, TOP + grid.rows * cell
    starts, places = _starts(task, cell), _places(task)
    entries = [*_start_entries(task, starts), *_place_entries(places), *(_Entry([note]) for note in notes)]
    legend, size = _legend(entries, right + GAP, bottom)
    marks = [
        words("map", task.name, (0, size[0], 0, ROW), float(TITLE_SIZE)),
        *_ground(grid, places, cell),
        *_tags_and_agents(task, places, starts, cell),
        *legend,
    ]
    return Panel([moved(mark, 0, size[1]) for mark in marks], size)


def _frame(rectangle: Rectangle, cell: float) -> Frame:
    row, column, rows, columns = rectangle
    return column * cell, columns * cell, TOP + row * cell, rows * cell


# What a map shows.


def _starts(task: Task, cell: float) -> list[_Start]:
    """Choose the tags of the named agents: a name where it fits, or else a number."""
    names = list(task.agents)[: _named(len(task.agents))]
    together: dict[int, list[str]] = {}
    for name in names:
        together.setdefault(task.agents[name].start, []).append(name)
    tags = {
        start: (f"{own[0]} +{len(own) - 1}" if own[1:] else own[0], str(names.index(own[0]) + 1))
        for start, own in together.items()
    }
    widths = measure([tag for pair in tags.values() for tag in pair], NAME)
    room = cell - 2 * MARGIN if cell >= SMALL else min(WIDEST, cell * _steps_apart(task.grid, together))
    starts = []
    for start, (name, number) in tags.items():
        sizes = {tag: NAME * min(1, room / widths[tag]) for tag in (name, number)}
        tag = name if sizes[name] >= LEAST else number
        starts.append(_Start(start, together[start], tag, sizes[tag], widths[tag] * sizes[tag] / NAME))
    return starts


def _steps_apart(grid: Grid, cells: Iterable[int]) -> float:
    """Find how many rows or columns are between the nearest of some cells, whichever are more."""
    pairs = combinations([grid.row_column(cell) for cell in cells], 2)
    return min((max(abs(a - c), abs(b - d)) for (a, b), (c, d) in pairs), default=math.inf)


def _places(task: Task) -> list[_Place]:
    """Find how places are drawn, without those that only say where an agent starts."""
    colors, tags = choose_colors(task.grid), _short_names(task.grid)
    corners = {place for own in _corners(task).values() for place in own}
    together: dict[frozenset[int], list[str]] = {}
    for name, cells in task.grid.places.items():
        if name not in corners:
            together.setdefault(cells, []).append(name)
    places = [
        _Place(names, cells, colors[names[0]], tags[names[0]], [line for own in names for line in _closed(task, own)])
        for cells, names in together.items()
    ]
    named = sorted(places, key=lambda place: not place.closed)[:MOST_PLACES]
    return [place if place in named else place._replace(color=OTHER, tag="") for place in places]


def _short_names(grid: Grid) -> dict[str, str]:
    """Choose a tag for each place: its initial and the number that it ends in, or else a letter of the name."""
    ends = {name: name.split()[-1] for name in grid.places}
    numbered = {name: f"{name.strip()[0].upper()}{end}" for name, end in ends.items() if end.isdecimal()}
    if len({*numbered.values()}) < len(numbered) or max(map(len, numbered.values()), default=0) > 4:
        numbered = {}
    return choose_letters(grid) | numbered


def _corners(task: Task) -> dict[str, list[str]]:
    """List for each agent the places that are its start and nothing else: no event and no gate is about them."""
    used = {condition.place for own in task.events.values() for condition in own.values()}
    used |= {region for agent in task.agents.values() for region in agent.gates}
    idle: dict[frozenset[int], list[str]] = {}
    for place, cells in task.grid.places.items():
        if place not in used:
            idle.setdefault(cells, []).append(place)
    return {name: idle.get(frozenset({agent.start}), []) for name, agent in task.agents.items()}


def _closed(task: Task, region: str) -> Iterator[str]:
    """Say to whom a region is closed, and until when."""
    until: dict[str, list[str]] = {}
    for name, agent in task.agents.items():
        if region in agent.gates:
            until.setdefault(agent.gates[region], []).append(name)
    for event, names in until.items():
        yield f"closed to {_listed(names)} until {event}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")


# The map.


def _ground(grid: Grid, places: Sequence[_Place], cell: float) -> Iterator[Mark]:
    """Draw floor, places (small ones upon large ones), lines between cells, gates and walls."""
    whole = _frame((0, 0, grid.rows, grid.columns), cell)
    yield box("floor", whole, filled(FLOOR))
    for number, place in enumerate(_by_size(places)):
        for own, rectangle in enumerate(rectangles(place.cells, grid)):
            yield box(f"place{number}n{own}", _frame(rectangle, cell), filled(place.color), ", ".join(place.names))
    _, width, _, height = whole
    across = [((0.0, TOP + row * cell), (width, TOP + row * cell)) for row in range(1, grid.rows)]
    down = [((column * cell, TOP), (column * cell, TOP + height)) for column in range(1, grid.columns)]
    yield from lines("cells", [*across, *down], {"color": FAINT, "penwidth": "0.5"})
    barred = {own for place in places if place.closed for own in place.cells}
    yield from _hatched("gates", [_frame(rectangle, cell) for rectangle in rectangles(barred, grid)])
    for number, rectangle in enumerate(rectangles(grid.walls, grid)):
        yield box(f"wall{number}", _frame(rectangle, cell), filled(WALL))
    yield box("border", whole, {"color": WALL, "penwidth": "1.2"})


def _by_size(places: Iterable[_Place]) -> list[_Place]:
    return sorted(places, key=lambda place: -len(place.cells))


def _hatched(name: str, frames: Iterable[Frame]) -> list[Mark]:
    segments = [segment for frame in frames for segment in hatching(frame)]
    return lines(name, segments, {"color": HATCHED, "penwidth": "0.8"})


def _tags_and_agents(task: Task, places: Sequence[_Place], starts: Sequence[_Start], cell: float) -> Iterator[Mark]:
    """Draw the tag of a place once on each part of it that hangs together, and agents where they start."""
    grid = task.grid
    taken = {agent.start for agent in task.agents.values()}
    on_top = {own: place for place in _by_size(places) for own in place.cells}
    shared = set()
    for number, place in enumerate(places):
        seen = [own for own in place.cells if on_top[own] is place]
        for own, part in enumerate(parts(seen, grid) if place.tag else ()):
            left, width, top, height = _frame(_roomiest(part - taken or part, grid), cell)
            if part <= taken:
                shared |= part
                height *= UPPER
            yield _tag(f"tag{number}n{own}", place, (left, width, top, height))


def _roomiest(cells: set[int], grid: Grid) -> Rectangle:
    return max(rectangles(cells, grid), key=lambda rectangle: rectangle[2] * rectangle[3])
