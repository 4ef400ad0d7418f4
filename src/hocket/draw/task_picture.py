"""Draw a task in one picture: its map with a legend, and the machines of the team and the agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from hocket.draw.boxes import close_all
from hocket.draw.geometry import Frame, Pair, Segment, Shape, parts, rectangles
from hocket.draw.graphviz import INK, MAX_LINE, TITLE_SIZE, Drawing, Mark, Panel, box, literal, measure, moved
from hocket.draw.palette import FLOOR, WALL, WHITE
from hocket.draw.scene import Area, Scene, listed
from hocket.draw.task_scene import scene_of
from hocket.errors import counted
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.catalogue import as_task
from hocket.task.task import Task

MOST_AGENTS, FEW_AGENTS = 12, 6  # agents that are named; of more, only a few
MOST_STATES, MOST_TRANSITIONS = 50, 200  # of a machine that is drawn beside a map
HATCH = 6.0  # points between hatching lines
MOST_COUNTED = 10_000  # states of a composition up to which they are counted

# Lengths are in points; sizes of the font too.
CELL, SMALL, FINE = 34.0, 18.0, 4.0  # a cell's side on a small map; below which names are larger; or without lines
LARGEST = (640.0, 440.0)  # width and height of a map; its cells are smaller if there are many
TOP, GAP = 26.0, 18.0  # from a panel's top to the map, from the map to the legend and between the legend's columns
ROW, LINE, SWATCH = 20.0, 14.0, 26.0  # heights of an entry of the legend and of its further lines, width of a sample
LOWEST = 340.0  # height up to which a legend has one column
TEXT, NAME, LEAST = 11.0, 10.0, 6.5  # sizes of the legend, of agents' names, and of the smallest that can be read
MARGIN, WIDEST = 3.0, 48.0  # on both sides of an agent's name; most width with both
DOT, UPPER = 5.0, 0.46  # diameter of an agent without a name; share of a cell for a tag above an agent
CROWD, FAINT, HATCHED, NOTE = "#222222", "#00000022", "#00000080", "#666666"  # a crowd: several agents in a cell

Sample = Callable[[str, Frame], Iterable[Mark]]  # takes the name of its marks, and a frame


class _Pill(NamedTuple):
    """A label for the agents that start in the same cell."""

    cell: int
    agents: Sequence[str]
    text: str
    size: float  # of the font
    width: float
    color: str


class _Entry(NamedTuple):
    """Lines of the legend: a name with a sample before it, and notes; without a sample, only notes."""

    lines: Sequence[str]
    sample: Sample | None = None
    width: float = SWATCH  # of the sample


def draw_task(
    task: Task | str | Path,
    path: str | Path,
    machines: Mapping[str, RewardMachine] | None = None,
    *,
    closed: bool = False,
) -> None:
    """Draw the map of a task beside machines, each under its title, into a file: .svg, .png or .pdf.

    By default, these are the machines of the team and of all agents. Machines that are too large to read, and most of
    many, are left out with a note. With `closed`, each machine that another one calls is one state.
    """
    _drawing(as_task(task), machines, closed=closed).write(path)


def task_svg(task: Task) -> str:
    """Return the drawing of a task with all its machines as the text of an SVG."""
    return _drawing(task).svg()


def _drawing(task: Task, machines: Mapping[str, RewardMachine] | None = None, *, closed: bool = False) -> Drawing:
    """Draw the map beside the machines that are small enough; the team's is left out if an agent is called "team"."""
    scene = scene_of(task)
    if machines is None:
        machines = {} if scene.team is None or "team" in scene.agents else {"team": scene.team}
        machines |= scene.machines
    if closed:
        machines = close_all(machines)
    team = {title: machine for title, machine in machines.items() if title == "team" and title not in task.agents}
    agents = {title: machine for title, machine in machines.items() if title not in team}
    few = {**team, **dict(list(agents.items())[: _count_named(len(agents))])}
    readable, notes = dict[str, RewardMachine](), list[str]()
    for title, machine in few.items():
        states, transitions = len(machine.states), len(machine.graph.target)
        if states <= MOST_STATES and transitions <= MOST_TRANSITIONS:
            readable[title] = machine
        else:
            size = f"{states:,} states" if states > MOST_STATES else f"{transitions:,} transitions"
            notes.append(f"{title}{'' if title in team else '’s'} machine: {size}, not drawn")
    if not team and isinstance(task.machine, Composition):
        notes.append(f"team machine: {_count_states(task.machine)} states, not drawn")
    if left_out := len(machines) - len(few):
        notes.append(f"{left_out:,} more agents’ machines, not drawn")
    return Drawing(readable, (_map_panel(scene, notes),), scene.styles)


def _count_named(agents: int) -> int:
    return agents if agents <= MOST_AGENTS else FEW_AGENTS


def _count_states(team: Composition) -> str:
    """Count the states of a composition, or return an upper bound if they are too many."""
    if team.most_states > MOST_COUNTED**2:
        return f"up to 10^{math.ceil(math.log10(team.most_states))}"
    reachable = team.reachable(MOST_COUNTED)
    return f"more than {MOST_COUNTED:,}" if reachable is None else f"{len(reachable[0]):,}"


def _map_panel(scene: Scene, notes: Sequence[str]) -> Panel:
    cell = min(CELL, LARGEST[0] / scene.columns, LARGEST[1] / scene.rows)
    agents = _pills(scene, cell)
    entries = [*_entries(scene, agents), *(_Entry([note]) for note in notes)]
    legend, (right, bottom) = _legend(entries, scene.columns * cell + GAP, TOP + scene.rows * cell)
    title_size = float(TITLE_SIZE)
    right = max(right, measure([scene.task], title_size)[scene.task])
    title = words("map", scene.task, (0, right, 0, ROW), title_size)
    marks = [title, *_ground(scene, cell), *_tags_and_agents(scene, agents, cell), *legend]
    return Panel([moved(mark, 0, bottom) for mark in marks], (right, bottom))


def _pills(scene: Scene, cell: float) -> list[_Pill]:
    """Make the labels of agents at their starts: names if they fit, or else numbers."""
    together: dict[int, list[str]] = {}
    for name in scene.agents[: _count_named(len(scene.agents))]:
        together.setdefault(scene.opening.cells[name], []).append(name)
    first = [(agents[0], f" +{len(agents) - 1}" if len(agents) > 1 else "") for agents in together.values()]
    texts = [(name + others, str(scene.numbers[name])) for name, others in first]
    widths = measure([text for pair in texts for text in pair], NAME)
    pairs = combinations([divmod(start, scene.columns) for start in together], 2)  # of rows and columns
    nearest = min((max(abs(a - c), abs(b - d)) for (a, b), (c, d) in pairs), default=math.inf)
    space = (cell if cell >= SMALL else min(WIDEST, cell * nearest)) - 2 * MARGIN - 2
    pills = []
    for (start, agents), (name, number) in zip(together.items(), texts, strict=True):
        size, smaller = (NAME * min(1, max(space, 1) / widths[text]) for text in (name, number))
        text, size = (name, size) if size >= LEAST else (number, smaller)
        color = scene.colors[agents[0]] if len(agents) == 1 else CROWD
        pills.append(_Pill(start, agents, text, size, widths[text] * size / NAME, color))
    return pills


def _ground(scene: Scene, cell: float) -> Iterator[Mark]:
    whole = _frame(Shape(0, 0, scene.columns, scene.rows), cell)
    yield box("floor", whole, filled(FLOOR))
    for number, area in enumerate(scene.painted):
        for index, shape in enumerate(area.shapes):
            yield box(f"place{number}n{index}", _frame(shape, cell), filled(area.color), area.name)
    if cell >= FINE:
        _, width, _, height = whole
        across = [((0.0, TOP + row * cell), (width, TOP + row * cell)) for row in range(1, scene.rows)]
        down = [((column * cell, TOP), (column * cell, TOP + height)) for column in range(1, scene.columns)]
        yield from lines("cells", [*across, *down], {"color": FAINT, "penwidth": "0.5"})
    closed = {index for area in scene.closed(scene.opening) for index in scene.cells_in(area.shapes)}
    yield from _hatched("gates", [_frame(shape, cell) for shape in rectangles(closed, scene.columns)])
    for number, wall in enumerate(scene.walls):
        yield box(f"wall{number}", _frame(wall, cell), filled(WALL))
    yield box("border", whole, {"color": WALL, "penwidth": "1.2"})


def _tags_and_agents(scene: Scene, agents: Sequence[_Pill], cell: float) -> Iterator[Mark]:
    """Draw the tag of an area once on each of its connected parts, and agents at their starts."""
    occupied = {*scene.opening.cells.values(), *(cell for cells in scene.regions.values() for cell in cells)}
    below: set[int] = set()  # cells in which an agent has a tag above it
    for number, (area, cells) in enumerate(scene.visible.items()):
        for index, part in enumerate(parts(cells, scene.columns) if area.tag else ()):
            free = part - occupied
            best = max(rectangles(free or part, scene.columns), key=lambda shape: shape.width * shape.height)
            left, width, top, height = _frame(best, cell)
            if not free:
                below |= part
                height = cell * UPPER
            if free or cell >= SMALL:
                yield _area_tag(area, f"tag{number}n{index}", (left, width, top, height))
    named = {pill.cell: partial(_pill, pill, scene.columns * cell) for pill in agents}
    for start in sorted(occupied):
        row, column = divmod(start, scene.columns)
        left, width, top, height = _frame(Shape(column, row, 1, 1), cell)
        above = cell * UPPER if start in below and cell >= SMALL else 0
        yield from named.get(start, _dot)(f"start{start}", (left, width, top + above, height - above))


def _area_tag(area: Area, name: str, frame: Frame) -> Mark:
    """Write an area's tag into the middle of a frame, on the area's colour, which covers hatching."""
    left, width, top, height = frame
    size = min(12.0, height * 0.8, width / len(area.tag) * 1.25)
    wide, high = min(width, size * (0.3 + 0.6 * len(area.tag))), size * 1.1
    inner = left + (width - wide) / 2, wide, top + (height - high) / 2, high
    bold = {"label": f"<<B>{literal(area.tag)}</B>>"}
    return box(name, inner, filled(area.color) | label(area.tag, size) | bold)


def _pill(pill: _Pill, right: float, name: str, frame: Frame) -> list[Mark]:
    """Draw the label of agents in the middle of a frame, or as near as possible without leaving the map."""
    left, width, top, height = frame
    wide, high = pill.width + 2 * MARGIN, pill.size * 1.35
    start = max(0.0, min(left + (width - wide) / 2, right - wide))
    inner = start, wide, top + (height - high) / 2, high
    return [box(name, inner, filled(pill.color) | {"style": "filled,rounded"} | label(pill.text, pill.size, WHITE))]


def _dot(name: str, frame: Frame) -> list[Mark]:
    left, width, top, height = frame
    side = min(DOT, width / 2, height / 2)
    inner = left + width / 2 - side / 2, side, top + height / 2 - side / 2, side
    return [box(name, inner, {**filled(CROWD), "shape": "circle"})]


def _swatch(area: Area, name: str, frame: Frame) -> Iterator[Mark]:
    yield box(name, frame, filled(area.color))
    if area.gates:
        yield from _hatched(f"{name}hatch", [frame])
    if area.tag:
        yield _area_tag(area, f"{name}tag", frame)


def _hatched(name: str, frames: Iterable[Frame]) -> list[Mark]:
    segments = [segment for frame in frames for segment in hatching(frame)]
    return lines(name, segments, {"color": HATCHED, "penwidth": "0.8"})


def _entries(scene: Scene, agents: Iterable[_Pill]) -> Iterator[_Entry]:
    unnamed = len(scene.agents)
    for pill in agents:
        corners = scene.corners.get(pill.agents[0], ())
        several = len(scene.regions.get(pill.agents[0], ()))
        line = f"start of {listed(pill.agents)}" + (f" ({listed(corners)})" if corners else "")
        line += f", one of {several} cells" if several else ""
        yield _Entry([line], partial(_pill, pill, math.inf), pill.width + 2 * MARGIN)
        unnamed -= len(pill.agents)
    if unnamed:
        yield _Entry([f"starts of {unnamed:,} more agents"], _dot)
    for area in scene.areas:
        if area.tag:
            yield _Entry([listed(area.names), *area.notes], partial(_swatch, area))
    if others := [area for area in scene.areas if not area.tag]:
        count = sum(len(area.names) for area in others)
        yield _Entry([counted(count, "more place")], partial(_swatch, others[0]))


def _legend(entries: Sequence[_Entry], left: float, bottom: float) -> tuple[list[Mark], Pair]:
    """Put entries into columns of about one height, at most that of the map; return the lower right corner, too."""
    widths = measure([line for entry in entries for line in entry.lines], TEXT)
    before = max(entry.width for entry in entries)
    heights = [ROW + LINE * (len(entry.lines) - 1) for entry in entries]
    columns = math.ceil(sum(heights) / max(bottom - TOP, LOWEST))
    share = sum(heights) / columns
    marks: list[Mark] = []
    right, top, lowest = left, TOP, bottom
    for number, (texts, sample, _) in enumerate(entries):
        if top + heights[number] / 2 > TOP + share:
            left, top = right + GAP, TOP
        if sample is not None:
            marks += sample(f"sample{number}", (left, before, top + 2, ROW - 4))
        start = left if sample is None else left + before + GAP / 2
        for index, line in enumerate(texts):
            frame = start, widths[line], top + index * LINE, ROW
            color = NOTE if index or sample is None else INK
            marks.append(words(f"line{number}n{index}", line, frame, TEXT, color))
            right = max(right, start + widths[line])
        top += heights[number]
        lowest = max(lowest, top)
    return marks, (right, lowest)


def _frame(shape: Shape, cell: float) -> Frame:
    return shape.left * cell, shape.width * cell, TOP + shape.top * cell, shape.height * cell


# Marks. Lengths are right and down from the panel's upper left corner.


def filled(color: str) -> dict[str, str]:
    """Return the attributes of a filled mark; its thin border hides the seams between neighbours."""
    return {"style": "filled", "fillcolor": color, "color": color, "penwidth": "0.3"}


def label(text: str, size: float, color: str = INK) -> dict[str, str]:
    """Return the attributes of literal text."""
    return {"label": literal(text, MAX_LINE), "fontsize": f"{size:.2f}", "fontcolor": color, "margin": "0"}


def words(name: str, text: str, frame: Frame, size: float, color: str = INK) -> Mark:
    """Write a line that starts at the left of a frame."""
    look = label(text, size, color)
    left_aligned = {"label": look["label"] + "\\l", "shape": "none"}
    return box(name, frame, look | left_aligned, text if len(text) > MAX_LINE else "")


def lines(name: str, segments: Iterable[Segment], look: Mapping[str, str]) -> list[Mark]:
    """Draw straight lines, all as one edge from an invisible node to itself."""
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
