"""What a picture of a task's map has to show: places, gates, and where agents start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hocket.draw.palette import choose_colors, choose_letters
from hocket.task.grid import Grid
from hocket.task.task import Task

MOST_AGENTS, FEW_AGENTS = 12, 6  # of more agents than that, only a few are named
MOST_PLACES = 24  # that are named
MOST_LISTED = 6  # names in a line
LONGEST_TAG, LONGEST_NAME = 4, 24  # characters: of a tag, and of a name in a line about a gate
OTHER = "#dddddd"  # the colour of places that are not named


class Place(NamedTuple):
    """Places of the same cells."""

    names: Sequence[str]
    cells: frozenset[int]
    color: str
    tag: str  # empty: it is not named
    closed: Sequence[str]  # to whom, and until when


class Start(NamedTuple):
    """Agents that start in the same cell."""

    cell: int
    agents: Sequence[str]
    number: int  # of the first of them
    corners: Sequence[str]  # the places that are this start and nothing else

    @property
    def tag(self) -> str:
        """The name of the first, and how many more there are."""
        return self.agents[0] if len(self.agents) == 1 else f"{self.agents[0]} +{len(self.agents) - 1}"


def count_named(agents: int) -> int:
    """Say how many of some agents are named."""
    return agents if agents <= MOST_AGENTS else FEW_AGENTS


def find_starts(task: Task) -> list[Start]:
    """Find where the agents that are named start."""
    together: dict[int, list[tuple[int, str]]] = {}
    for number, name in enumerate(list(task.agents)[: count_named(len(task.agents))], start=1):
        together.setdefault(task.agents[name].start, []).append((number, name))
    corners = _corners(task)
    return [Start(cell, [name for _, name in own], own[0][0], corners.get(cell, [])) for cell, own in together.items()]


def find_places(task: Task) -> list[Place]:
    """Find the places that are more than a start; where not all can be named, those with gates are."""
    colors, tags = choose_colors(task.grid), _tags(task.grid)
    corners = {name for own in _corners(task).values() for name in own}
    together: dict[frozenset[int], list[str]] = {}
    for name, cells in task.grid.places.items():
        if name not in corners:
            together.setdefault(cells, []).append(name)
    closed = _closed(task)
    places = [
        Place(names, cells, colors[names[0]], tags[names[0]], [line for own in names for line in closed.get(own, ())])
        for cells, names in together.items()
    ]
    named = sorted(places, key=lambda place: not place.closed)[:MOST_PLACES]
    return [place if place in named else place._replace(color=OTHER, tag="") for place in places]


def _tags(grid: Grid) -> dict[str, str]:
    """Choose a short name for each place: its initial and the number that it ends in, or else a letter."""
    ends = {name: name.split()[-1] for name in grid.places}
    numbered = {name: f"{name.strip()[0].upper()}{end}" for name, end in ends.items() if end.isdecimal()}
    is_clear = len({*numbered.values()}) == len(numbered) and all(len(tag) <= LONGEST_TAG for tag in numbered.values())
    return choose_letters(grid) | (numbered if is_clear else {})


def _corners(task: Task) -> Mapping[int, list[str]]:
    """List for each start the places that are this cell, and that no event and no gate is about."""
    used = {condition.place for own in task.events.values() for condition in own.values()}
    used |= {region for agent in task.agents.values() for region in agent.gates}
    corners: dict[int, list[str]] = {agent.start: [] for agent in task.agents.values()}
    for name, cells in task.grid.places.items():
        if name not in used and len(cells) == 1 and (cell := min(cells)) in corners:
            corners[cell].append(name)
    return corners


def _closed(task: Task) -> Mapping[str, list[str]]:
    """Say to whom each region is closed, and until when."""
    until: dict[str, dict[str, list[str]]] = {}
    for name, agent in task.agents.items():
        for region, event in agent.gates.items():
            until.setdefault(region, {}).setdefault(event, []).append(name)
    return {
        region: [f"closed to {listed([*map(_cut, names)])} until {_cut(event)}" for event, names in own.items()]
        for region, own in until.items()
    }


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def listed(names: Sequence[str]) -> str:
    """List a few names."""
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")
