"""The scene of a task on a grid: areas for its places, gates, and the starts of agents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hocket.draw.geometry import Shape, rectangles
from hocket.draw.palette import PALE, choose_colors, choose_letters
from hocket.draw.scene import Area, Scene, listed_team
from hocket.task.grid import STAY, STEPS, Grid
from hocket.task.task import Task

MOST_NAMED = 24  # areas with a tag and a colour, those with gates first
LONGEST_TAG = 4  # characters
THIN = 0.12  # width of a wall between cells, as a part of a cell


def scene_of(task: Task) -> Scene:
    """Make the scene of a task on a grid."""
    grid, corners = task.grid, _corners(task)
    starts = {name: grid.row_column(agent.starts[0]) for name, agent in task.agents.items()}
    areas = _areas(task, {name for names in corners.values() for name in names})
    walls = *rectangles(grid.walls, grid.columns), *dict.fromkeys(_thin_walls(grid))
    single = "One agent knows every event; there is nothing to decompose."
    verdict, *notes = (single if task.is_single_agent else task.decomposition.explain()).splitlines()
    return Scene(
        task.name, grid.columns, grid.rows, tuple(task.agents), dict(task.machines),
        {name: tuple(events) for name, events in task.knows.items()}, listed_team(task.machine), areas, walls,
        {name: (column + 0.5, row + 0.5) for name, (row, column) in starts.items()}, corners, has_cells=True,
        description=task.description, verdict=verdict, notes=tuple(notes),
        decomposable=None if task.is_single_agent else task.decomposition.ok,
        regions={name: agent.starts for name, agent in task.agents.items() if len(agent.starts) > 1},
    )  # fmt: skip


def _thin_walls(grid: Grid) -> Iterator[Shape]:
    """List the walls between cells, each from both of its cells."""
    for cell in sorted({cell for pair in grid.thin for cell in pair}):
        row, column = grid.row_column(cell)
        for action, (down, right) in enumerate(STEPS[:STAY]):
            other = grid.beside(cell, action)
            if (min(cell, other), max(cell, other)) in grid.thin:
                left, top = column + max(right, 0) - THIN / 2, row + max(down, 0) - THIN / 2
                yield Shape(left, top, 1 + THIN, THIN) if down else Shape(left, top, THIN, 1 + THIN)


def _corners(task: Task) -> dict[str, tuple[str, ...]]:
    """List for each agent the places at its start that no event and no gate uses."""
    conditions = [condition for by_agent in task.events.values() for condition in by_agent.values()]
    used = {place for condition in conditions for place in condition.places}
    used |= {region for agent in task.agents.values() for region in agent.gates}
    single: dict[int, list[str]] = {}
    for name, cells in task.grid.places.items():
        if name not in used and len(cells) == 1:
            single.setdefault(min(cells), []).append(name)
    return {name: tuple(single[agent.starts[0]]) for name, agent in task.agents.items() if agent.starts[0] in single}


def _areas(task: Task, corners: Collection[str]) -> tuple[Area, ...]:
    """Make an area for the places with the same cells, unless they are only starts."""
    places, together = task.grid.places, dict[frozenset[int], list[str]]()
    for name in (name for name in places if name not in corners):
        together.setdefault(places[name], []).append(name)
    gated_by = [(name, agent.gates) for name, agent in task.agents.items() if agent.gates]
    gates = {place: [(name, closed[place]) for name, closed in gated_by if place in closed] for place in places}
    first = {names[0]: cells for cells, names in together.items()}
    gated = {names[0] for names in together.values() if any(gates[name] for name in names)}
    chosen = {*sorted(first, key=lambda name: name not in gated)[:MOST_NAMED]}
    named = {name: cells for name, cells in first.items() if name in chosen}
    tags, colors, areas = _choose_tags(named, gated, task.grid.letters), choose_colors(named), []
    for cells, names in together.items():
        shapes, color = tuple(rectangles(cells, task.grid.columns)), colors.get(names[0], PALE)
        barriers = tuple(gate for name in names for gate in gates[name])
        areas.append(Area(shapes, color, tuple(names), tags.get(names[0], ""), barriers))
    return tuple(areas)


def _choose_tags(
    places: Mapping[str, Collection[int]], gated: Collection[str], letters: Mapping[str, str]
) -> dict[str, str]:
    """Choose a short name for each place: its letter in the file, its initial with the number at its end, or a letter;
    places with gates get letters only, since a cross is written after them."""
    given = {name: letter for name in places if (letter := letters.get(name, "")).isascii() and letter.strip()}
    ends = {name: name.split()[-1] for name in places if name not in gated and name not in given}
    numbered = {name: f"{name[0].upper()}{end}" for name, end in ends.items() if end.isdecimal()}
    if len({*numbered.values()}) < len(numbered) or any(len(tag) > LONGEST_TAG for tag in numbered.values()):
        numbered = {}
    regions = {name for name, cells in places.items() if len(cells) > 1}
    return choose_letters([name for name in places if name not in numbered], regions, given) | numbered
