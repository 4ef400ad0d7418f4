"""What pictures show of a task or a third-party environment: a map with areas and gates, agents, and machines.

A `Scene` is all of it, a `Moment` the cells and states of the agents. All pictures (text, pixels, SVG, figures) are
drawn from these two: the scene determines letters, colours, numbers, and which areas are closed.
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
from hocket.draw.markup import truncate
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
MOST_TEAM_STATES = 64  # of a composition, up to which the team machine is shown
MOST_GATES = 1_024  # whose open states are cached
MOST_LISTED = 6  # names in a line
LONGEST_NAME = 24  # characters of a name in a line about a gate
LONGEST_NUMBER = 3  # digits of an agent's number

Barrier = tuple[str, Gate | str]  # an agent and its gate, or the event that opens it
Rectangle = tuple[float, float, float, float]  # left, top, width and height


@dataclass(frozen=True)
class Area:
    """A part of a map with names, a tag and a colour, which gates may close to agents."""

    shapes: tuple[Shape, ...]
    color: str  # #rrggbb
    names: tuple[str, ...] = ()
    tag: str = ""  # a letter or two, written on it
    gates: tuple[Barrier, ...] = ()

    @classmethod
    def rectangle(cls, shape: Rectangle, color: str, name: str, tag: str = "", gates: Sequence[Barrier] = ()) -> Area:
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
        """Describe to which agents it is closed, and when, a line for each gate."""
        agents: dict[str, list[str]] = {}
        for agent, gate in ((agent, Gate.of(gate)) for agent, gate in self.gates):
            opens, closes = ([truncate(name, LONGEST_NAME) for name in names] for names in (gate.opens, gate.closes))
            when = str(Gate(tuple(opens), tuple(closes), gate.starts_open))
            agents.setdefault(when, []).append(truncate(agent, LONGEST_NAME))
        return [f"closed to {listed(names)} {when}" for when, names in agents.items()]

    def document(self) -> dict[str, object]:
        """Return the area as JSON; a gate is the event that opens it, or its three fields."""
        short = [(agent, Gate.of(gate).short) for agent, gate in self.gates]
        gates = [(agent, *((gate,) if isinstance(gate, str) else astuple(gate))) for agent, gate in short]
        shapes = [shape.document() for shape in self.shapes]
        return {"names": self.names, "tag": self.tag, "color": self.color, "shapes": shapes, "gates": gates}


@dataclass(frozen=True)
class Moment:
    """The cells and states of agents."""

    cells: Mapping[str, int]
    states: Mapping[str, str] | None = None  # None: the initial states
    driven: str | None = None  # the agent from whose point of view areas are closed; None: any agent's

    @property
    def crowds(self) -> dict[int, list[str]]:
        """The agents in each cell."""
        crowds: dict[int, list[str]] = {}
        for agent, cell in self.cells.items():
            crowds.setdefault(cell, []).append(agent)
        return crowds


class Decomposed(Protocol):
    """A value with a decomposition, such as a wrapped environment."""

    @property
    def decomposition(self) -> Decomposition: ...


@dataclass(frozen=True)
class Scene:
    """A map with its agents, and the machines of the team and of each agent."""

    task: str
    width: float
    height: float
    agents: tuple[str, ...]
    machines: Mapping[str, RewardMachine]  # of the agents
    knows: Mapping[str, tuple[str, ...]]
    team: RewardMachine | None = None  # None: too large to show
    areas: tuple[Area, ...] = ()  # in the order in which legends name them
    walls: tuple[Shape, ...] = ()
    starts: Mapping[str, Point] = field(default_factory=dict)  # of the agents whose starts are known
    corners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # places that are only the start of an agent
    has_cells: bool = False  # the unit is a cell
    description: str = ""
    verdict: str = ""  # on the decomposition, in words
    notes: tuple[str, ...] = ()
    decomposable: bool | None = None  # None: not checked
    regions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # start cells of agents with several

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
        """Make the scene of a wrapped environment from its size; it has the agents and their machines.

        Areas are named discs (x, y, radius) and rectangles (left, top, width, height), or values of `Area`; walls are
        such rectangles.
        """
        decomposition = world if isinstance(world, Decomposition) else world.decomposition
        verdict, *notes = decomposition.explain().splitlines()
        if isinstance(areas, Mapping):
            shapes = {name: _shape_of(name, numbers) for name, numbers in areas.items()}
            tags, colors = choose_letters(shapes), choose_colors(shapes)
            areas = [Area((shape,), colors[name], (name,), tags[name]) for name, shape in shapes.items()]
        machines = dict(decomposition.machines)
        knows = {agent: tuple(events) for agent, events in decomposition.knows.items()}
        return cls(
            task, width, height, tuple(machines), machines, knows, listed_team(decomposition.machine), tuple(areas),
            tuple(_shape_of("walls", wall) for wall in walls), dict(starts or {}), description=description,
            verdict=verdict, notes=tuple(notes), decomposable=decomposition.ok,
        )  # fmt: skip

    # Agents and events.

    @cached_property
    def colors(self) -> dict[str, str]:
        """A colour for each agent."""
        return agent_colors(self.agents)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """A number for each agent: the one at the end of its name, if all are different, or else from 1 on."""
        ends = [re.search(r"\d+$", name, re.ASCII) for name in self.agents]
        numbers = [int(end[0]) for end in ends if end and len(end[0]) <= LONGEST_NUMBER]
        is_clear = len({*numbers}) == len(self.agents)
        return dict(zip(self.agents, numbers if is_clear else range(1, len(self.agents) + 1), strict=True))

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
        """The areas in the order of painting, small ones above large ones."""
        return sorted(self.areas, key=lambda area: -sum(shape.width * shape.height for shape in area.shapes))

    def cells_in(self, shapes: Collection[Shape]) -> frozenset[int]:
        """Find the cells that shapes cover."""
        return frozenset(np.flatnonzero(covered(shapes, self.rows, self.columns)).tolist())

    @cached_property
    def ground(self) -> dict[int, Area]:
        """The visible area of each cell: of several the smallest."""
        return {cell: area for area in self.painted for cell in self.cells_in(area.shapes)}

    @cached_property
    def visible(self) -> dict[Area, set[int]]:
        """The cells in which each area is visible."""
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
        """The moment before the first step, with the agents whose starts are known."""
        return Moment({name: int(y) * self.columns + int(x) for name, (x, y) in self.starts.items()})

    # Gates.

    def closed(self, moment: Moment) -> dict[Area, list[str]]:
        """Find the areas that are closed to the driven agent, or else to any, and list these agents."""
        states = moment.states or {agent: machine.initial for agent, machine in self.machines.items()}
        closed: dict[Area, list[str]] = {}
        for area in self.areas:
            for agent in dict.fromkeys(agent for agent, _ in area.gates):
                if moment.driven in (None, agent) and self.bars(area, agent, states[agent]):
                    closed.setdefault(area, []).append(agent)
        return closed

    def bars(self, area: Area, agent: str, state: str) -> bool:
        """Tell whether an area is closed to an agent in a state of its machine: if not all its gates are open."""
        gates = (Gate.of(gate) for name, gate in area.gates if name == agent)
        return any(state not in _open_states(self.machines[agent], gate) for gate in gates)

    # As JSON, for third-party environments.

    @cached_property
    def text(self) -> str:
        """The content of a scene's file, as JSON."""
        document = {
            "format": FORMAT,
            "task": self.task,
            "description": self.description,
            "size": [float(self.width), float(self.height)],  # 2 and 2.0 have the same digest
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
        """The hash of the text; records of a third-party environment name it."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@lru_cache(MOST_GATES)
def _open_states(machine: RewardMachine, gate: Gate) -> frozenset[str]:
    """Find the states of an agent's machine in which a gate is open; none if the machine does not tell."""
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
    """Compute the team machine of a scene; None if it has too many states."""
    if isinstance(machine, Composition):
        return machine.machine() if machine.most_states <= MOST_TEAM_STATES else None
    return machine


def listed(names: Sequence[str]) -> str:
    """List a few names, and count the others."""
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")


# From JSON files, which are untrusted.


def read_scene(path: Path) -> Scene:
    """Read a scene, refusing files that are damaged or not written by hocket."""
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
    match _list_from(value, where):
        case [agent, event]:
            return as_text(agent, where), as_text(event, where)
        case [agent, opens, closes, bool(starts_open)]:
            return as_text(agent, where), Gate(as_texts(opens, where), as_texts(closes, where), starts_open)
    raise FormatError("must be an agent and an event, or what opens, what closes, and true or false", where=where)


def _shape_from(value: object, where: str) -> Shape:
    match _list_from(value, where):
        case [*lengths, bool(is_disc)] if len(lengths) == 4:
            left, top, width, height = (_length_from(length, where) for length in lengths)
            return Shape(left, top, width, height, is_disc)
    raise FormatError(f"must have {len(Shape._fields)} entries, the last true or false", where=where)


def _point_from(value: object, where: str) -> Point:
    match _list_from(value, where):
        case [x, y]:
            return _length_from(x, where), _length_from(y, where)
    raise FormatError("must be two numbers", where=where)


def _list_from(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise FormatError("must be a list", where=where)
    return value


def _length_from(value: object, where: str) -> float:
    number = as_number(value, where)
    if not (math.isfinite(number) and abs(number) <= LARGEST_LENGTH):
        raise FormatError(f"must have an absolute value of at most {LARGEST_LENGTH:,.0f}, got {number:g}", where=where)
    return number
