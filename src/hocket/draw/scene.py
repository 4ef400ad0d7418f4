"""What there is to see of a task or of somebody else's world: a map with its areas and gates, agents, machines.

A `Scene` is all of it, a `Moment` where agents are and in which states. Every picture, be it text, pixels, SVG or a
figure, is one of these two: a scene alone says which letter, colour or number stands for what, and what is closed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from hocket.draw.geometry import Point, Shape, covered
from hocket.draw.palette import Style, agent_colors, choose_colors, choose_letters, choose_styles
from hocket.errors import TaskError
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.formats.schema import machine_to
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import Gate

FORMAT = "hocket scene 3"
MOST_TEAM_STATES = 64  # of a composition, up to which the team's machine is shown
MOST_GATES = 1_024  # of which it is kept when they are open
MOST_LISTED = 6  # names in a line
LONGEST_NAME = 24  # characters of a name in a line about a gate
LONGEST_NUMBER = 3  # digits of an agent's number

Barrier = tuple[str, Gate | str]  # an agent, and what opens an area to it and closes it, or the event that opens it


@dataclass(frozen=True)
class Area:
    """A part of a map that has names, a tag and a colour, and that gates may close to some agents."""

    shapes: tuple[Shape, ...]
    color: str  # #rrggbb
    names: tuple[str, ...] = ()
    tag: str = ""  # a letter or two, written on it
    gates: tuple[Barrier, ...] = ()

    @classmethod
    def rectangle(
        cls,
        shape: tuple[float, float, float, float],
        color: str,
        name: str,
        tag: str = "",
        gates: Sequence[Barrier] = (),
    ) -> Area:
        """Make an area of a rectangle: left, top, width and height."""
        return cls((Shape(*shape),), color, (name,), tag, tuple(gates))

    @classmethod
    def disc(
        cls, middle: Point, radius: float, color: str, name: str, tag: str = "", gates: Sequence[Barrier] = ()
    ) -> Area:
        """Make a round area."""
        return cls((_shape_of(name, (*middle, radius)),), color, (name,), tag, tuple(gates))

    @property
    def name(self) -> str:
        """All its names."""
        return ", ".join(self.names)

    @property
    def notes(self) -> list[str]:
        """Say to whom it is closed, and when, a line for each gate."""
        until: dict[str, list[str]] = {}
        for agent, gate in self.gates:
            when = Gate.of(gate)
            short = Gate(tuple(map(_cut, when.opens)), tuple(map(_cut, when.closes)), when.starts_open)
            until.setdefault(str(short), []).append(_cut(agent))
        return [f"closed to {listed(agents)} {when}" for when, agents in until.items()]

    def document(self) -> dict[str, object]:
        """Lay it out for JSON; of a gate the event that opens it, or what opens it, what closes it, how it starts."""
        short = [(agent, Gate.of(gate).short) for agent, gate in self.gates]
        gates = [(agent, *((gate,) if isinstance(gate, str) else astuple(gate))) for agent, gate in short]
        shapes = [shape.document() for shape in self.shapes]
        return {"names": self.names, "tag": self.tag, "color": self.color, "shapes": shapes, "gates": gates}


@dataclass(frozen=True)
class Moment:
    """Where agents are on a map of cells, and in which states."""

    cells: Mapping[str, int]
    states: Mapping[str, str] | None = None  # None: nothing has happened yet
    driven: str | None = None  # the agent through whose eyes it is seen; None: someone who watches all of them

    @property
    def crowds(self) -> dict[int, list[str]]:
        """The agents in each cell."""
        crowds: dict[int, list[str]] = {}
        for agent, cell in self.cells.items():
            crowds.setdefault(cell, []).append(agent)
        return crowds


class Decomposed(Protocol):
    """What has a decomposition: a wrapped world, say."""

    @property
    def decomposition(self) -> Decomposition: ...


@dataclass(frozen=True)
class Scene:
    """A map, who acts on it, and the machines of the team and of each agent."""

    task: str
    width: float
    height: float
    agents: tuple[str, ...]
    machines: Mapping[str, RewardMachine]  # of the agents
    knows: Mapping[str, tuple[str, ...]]
    team: RewardMachine | None = None  # None: there is none, or it is too large to show
    areas: tuple[Area, ...] = ()  # in the order in which legends name them
    walls: tuple[Shape, ...] = ()
    starts: Mapping[str, Point] = field(default_factory=dict)  # of those agents of whom it is known
    corners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what is called an agent's start, and no more
    has_cells: bool = False  # the unit is a cell
    description: str = ""
    verdict: str = ""  # on the decomposition, in words
    notes: tuple[str, ...] = ()
    decomposable: bool | None = None  # None: nobody has asked
    regions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # all cells of agents with several to start in

    @classmethod
    def of(
        cls,
        world: Decomposed | Decomposition,
        width: float,
        height: float,
        *,
        task: str = "world",
        areas: Mapping[str, Sequence[float]] | Sequence[Area] = (),
        walls: Sequence[Sequence[float]] = (),
        starts: Mapping[str, Point] | None = None,
        description: str = "",
    ) -> Scene:
        """Show a wrapped world: who is in it and their machines are known, so that its size is all that is needed.

        Areas are named discs (x, y, radius) and rectangles (left, top, width, height), or of `Area`; walls are such
        rectangles.
        """
        split = world if isinstance(world, Decomposition) else world.decomposition
        verdict, *notes = split.explain().splitlines()
        if isinstance(areas, Mapping):
            shapes = {name: _shape_of(name, numbers) for name, numbers in areas.items()}
            tags, colors = choose_letters(shapes), choose_colors(shapes)
            areas = [Area((shape,), colors[name], (name,), tags[name]) for name, shape in shapes.items()]
        machines, knows = dict(split.machines), {agent: tuple(events) for agent, events in split.knows.items()}
        team, shapes_of_walls = listed_team(split.machine), tuple(_shape_of("walls", wall) for wall in walls)
        return cls(
            task, width, height, tuple(machines), machines, knows, team, tuple(areas), shapes_of_walls,
            dict(starts or {}), description=description, verdict=verdict, notes=tuple(notes), decomposable=split.ok,
        )  # fmt: skip

    # Agents and events.

    @cached_property
    def colors(self) -> dict[str, str]:
        """A colour for each agent."""
        return agent_colors(self.agents)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """A number for each agent: the one that its name ends in, if these tell all agents apart, or else from 1 on."""
        ends = [re.search(r"\d+$", name, re.ASCII) for name in self.agents]
        ends_in = [int(end[0]) for end in ends if end and len(end[0]) <= LONGEST_NUMBER]
        is_clear = len({*ends_in}) == len(self.agents)
        return dict(zip(self.agents, ends_in if is_clear else range(1, len(self.agents) + 1), strict=True))

    @cached_property
    def styles(self) -> dict[str, Style]:
        """A colour and a line for each event, the same in all machines."""
        machines = [*([self.team] if self.team is not None else []), *self.machines.values()]
        return choose_styles(event for machine in machines for event in machine.events)

    # The map.

    @property
    def rows(self) -> int:
        return round(self.height)

    @property
    def columns(self) -> int:
        return round(self.width)

    @cached_property
    def painted(self) -> list[Area]:
        """The areas as they are painted, small ones upon large ones."""
        return sorted(self.areas, key=lambda area: -sum(shape.width * shape.height for shape in area.shapes))

    def cells_in(self, shapes: Collection[Shape]) -> frozenset[int]:
        """Find the cells that shapes cover."""
        return frozenset(np.flatnonzero(covered(shapes, self.rows, self.columns)).tolist())

    @cached_property
    def ground(self) -> dict[int, Area]:
        """The area that is seen in a cell: of several the smallest."""
        return {cell: area for area in self.painted for cell in self.cells_in(area.shapes)}

    @cached_property
    def visible(self) -> dict[Area, set[int]]:
        """The cells in which each area is seen."""
        cells: dict[Area, set[int]] = {area: set() for area in self.areas}
        for cell, area in self.ground.items():
            cells[area].add(cell)
        return cells

    @cached_property
    def walled(self) -> frozenset[int]:
        """The cells that are walls."""
        return self.cells_in(self.walls)

    @cached_property
    def opening(self) -> Moment:
        """The moment before the first step, of agents whose starts are known."""
        return Moment({name: int(y) * self.columns + int(x) for name, (x, y) in self.starts.items()})

    # Gates.

    def closed(self, moment: Moment) -> dict[Area, list[str]]:
        """Find the areas that are closed, to the driven agent or else to anyone, and to whom."""
        watched = {*self.agents} if moment.driven is None else {moment.driven}
        states = moment.states or {agent: machine.initial for agent, machine in self.machines.items()}
        closed = {}
        for area in self.areas:
            agents = dict.fromkeys(agent for agent, _ in area.gates if agent in watched)
            if barred := [agent for agent in agents if self.bars(area, agent, states[agent])]:
                closed[area] = barred
        return closed

    def bars(self, area: Area, agent: str, state: str) -> bool:
        """Say whether an area is closed to an agent in a state of its machine: unless all gates there are open."""
        gates = (Gate.of(gate) for name, gate in area.gates if name == agent)
        return any(state not in _open_states(self.machines[agent], gate) for gate in gates)

    # As JSON, for worlds that are not tasks of hocket's.

    @cached_property
    def text(self) -> str:
        """All that it says, as JSON."""
        document = {
            "format": FORMAT,
            "task": self.task,
            "description": self.description,
            "size": [float(self.width), float(self.height)],  # 2 and 2.0 are one length, and have one fingerprint
            "machines": {name: machine_to(machine) for name, machine in self.machines.items()},
            "knows": {name: list(events) for name, events in self.knows.items()},
            "starts": {name: [float(x), float(y)] for name, (x, y) in self.starts.items()},
            "corners": {name: list(places) for name, places in self.corners.items()},
            "team": None if self.team is None else machine_to(self.team),
            "areas": [area.document() for area in self.areas],
            "walls": [wall.document() for wall in self.walls],
            "has_cells": self.has_cells,
            "verdict": [self.verdict, *self.notes],
            "decomposable": self.decomposable,
        }
        return json.dumps(document, ensure_ascii=False, indent=1) + "\n"

    @cached_property
    def digest(self) -> str:
        """Fingerprint all that it says; a record of a world that is not hocket's names it."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@lru_cache(MOST_GATES)
def _open_states(machine: RewardMachine, gate: Gate) -> frozenset[str]:
    """Find the states of an agent's machine in which a gate is open; where that cannot be told, none."""
    try:
        flags = gate.is_open(machine, "gates")
    except TaskError:
        return frozenset()
    return frozenset(name for name, flag in zip(machine.states, flags, strict=True) if flag)


def _shape_of(name: str, numbers: Sequence[float]) -> Shape:
    match tuple(numbers):
        case (x, y, radius):
            return Shape(x - radius, y - radius, 2 * radius, 2 * radius, is_disc=True)
        case (left, top, width, height):
            return Shape(left, top, width, height)
    rule = "an area is a disc (x, y, radius) or a rectangle (left, top, width, height)"
    raise TaskError(f"{rule}, got {numbers!r:.60}", key=name)


def listed_team(machine: RewardMachine | Composition) -> RewardMachine | None:
    """List the states of a team machine that is to be shown; None where there are too many."""
    if isinstance(machine, Composition):
        return machine.machine() if machine.most_states <= MOST_TEAM_STATES else None
    return machine


def listed(names: Sequence[str]) -> str:
    """List a few names."""
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
