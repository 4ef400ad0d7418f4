"""What there is to see of a task or of somebody else's world: a map with its areas and gates, agents, machines.

A `Scene` is all of it, a `Moment` where agents are and in which states. Every picture, be it text, pixels, SVG or a
figure, is one of these two: a scene alone says which letter, colour or number stands for what, and what is closed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Protocol

import numpy as np

from hocket.documents import Document, Read, as_lists, as_number, as_table, as_text, as_texts, entries, table_of
from hocket.draw.geometry import Point, Shape, covered
from hocket.draw.palette import Style, agent_colors, choose_colors, choose_letters, choose_styles
from hocket.errors import FormatError, HocketError, TaskError
from hocket.files import MEGABYTE, read_text
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.formats import json as json_notation
from hocket.machine.formats.schema import Files, machine_from, machine_to
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import Gate

FORMAT = "hocket scene 3"
LIMIT = 16 * MEGABYTE  # of a file
LARGEST_LENGTH = 1e6
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


# From JSON files, which nobody has checked.


def read_scene(path: Path) -> Scene:
    """Read a scene, refusing files that are damaged or of somebody else."""
    content = read_text(path, LIMIT)
    try:
        return _scene_from(as_table(json_notation.parse(content), "the file"))
    except RecursionError:
        raise FormatError("is nested too deeply to be a scene", path=path) from None
    except HocketError as error:
        raise FormatError(f"is not a scene that hocket has written: {error}", path=path) from None


def _scene_from(document: Document) -> Scene:
    if (form := document.pop("format", None)) != FORMAT:
        raise FormatError(f"its format must be {FORMAT!r}, got {form!r:.40}")
    machine = partial(machine_from, files=Files())
    readers: dict[str, Read] = {
        "task": as_text, "description": as_text, "verdict": as_texts, "decomposable": _answer_from,
        "machines": table_of(machine), "team": lambda value, where: None if value is None else machine(value, where),
        "knows": as_lists, "starts": table_of(_point_from), "corners": as_lists, "size": _point_from,
        "areas": _list_of(_area_from), "walls": _list_of(_shape_from), "has_cells": lambda value, _: value is True,
    }  # fmt: skip
    parts = entries({**dict.fromkeys(readers), **document}, readers)
    machines, (width, height), verdict = parts["machines"], parts.pop("size"), parts.pop("verdict")
    if not machines or parts["knows"].keys() != machines.keys() or not verdict:
        raise FormatError("it must have a verdict, and a machine and known events for each agent")
    agents = {*parts["starts"], *parts["corners"], *(agent for area in parts["areas"] for agent, _ in area.gates)}
    if not agents <= machines.keys():
        raise FormatError(f"agents must have a machine, got {min(agents - machines.keys())!r:.40}")
    return Scene(width=width, height=height, agents=(*machines,), verdict=verdict[0], notes=verdict[1:], **parts)


def _list_of(read: Read) -> Read:
    return lambda value, where: tuple(read(entry, where) for entry in _list_from(value, where))


def _answer_from(value: object, where: str) -> bool | None:
    if not (value is None or isinstance(value, bool)):
        raise FormatError("must be true, false or null", where=where)
    return value


def _area_from(value: object, where: str) -> Area:
    texts, parts = {"names": as_texts, "tag": as_text, "color": as_text}, {"shapes": _shape_from, "gates": _gate_from}
    readers = texts | {key: _list_of(read) for key, read in parts.items()}
    area = Area(**entries({**dict.fromkeys(readers), **as_table(value, where)}, readers, f"{where}."))
    if not re.fullmatch(r"#[0-9a-f]{6}", area.color):
        raise FormatError(f"a colour must be like #0072b2, got {area.color!r:.20}", where=where)
    return area


def _gate_from(value: object, where: str) -> Barrier:
    entries = _list_from(value, where)
    if len(entries) == 4 and isinstance(entries[3], bool):
        return as_text(entries[0], where), Gate(as_texts(entries[1], where), as_texts(entries[2], where), entries[3])
    if len(entries) != 2:
        raise FormatError("must be an agent and an event, or what opens, what closes, and true or false", where=where)
    return as_text(entries[0], where), as_text(entries[1], where)


def _shape_from(value: object, where: str) -> Shape:
    entries = _list_from(value, where)
    if len(entries) != len(Shape._fields) or not isinstance(entries[-1], bool):
        raise FormatError(f"must have {len(Shape._fields)} entries, the last true or false", where=where)
    left, top, width, height = (_length_from(number, where) for number in entries[:4])
    return Shape(left, top, width, height, entries[-1])


def _point_from(value: object, where: str) -> Point:
    entries = _list_from(value, where)
    if len(entries) != 2:
        raise FormatError("must be two numbers", where=where)
    return _length_from(entries[0], where), _length_from(entries[1], where)


def _list_from(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise FormatError("must be a list", where=where)
    return value


def _length_from(value: object, where: str) -> float:
    number = as_number(value, where)
    if not (math.isfinite(number) and abs(number) <= LARGEST_LENGTH):
        raise FormatError(f"must have an absolute value of at most {LARGEST_LENGTH:,.0f}, got {number:g}", where=where)
    return number
