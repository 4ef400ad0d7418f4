"""What there is to see of a task: areas, discs and walls on a map, the agents, and their machines.

A task on a grid has its scene; a world of somebody else can be given one, so that reports can show it, too.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from hocket.draw.landmarks import find_places
from hocket.draw.marks import rectangles
from hocket.draw.palette import AGENT_COLORS
from hocket.errors import FormatError, HocketError
from hocket.files import MEGABYTE, read_text
from hocket.machine.composition import Composition
from hocket.machine.formats import json as json_notation
from hocket.machine.formats.schema import (
    Document,
    as_number,
    as_table,
    as_text,
    as_texts,
    check_keys,
    machine_from,
    machine_to,
)
from hocket.machine.reward_machine import RewardMachine
from hocket.task.task import Task

FORMAT = "hocket scene 1"
LIMIT = 16 * MEGABYTE
MOST_TEAM_STATES = 64  # of a composition, up to which the team's machine is shown
LARGEST_LENGTH = 1e6


class Area(NamedTuple):
    """A coloured rectangle or, with a radius, a disc; lengths are in the scene's unit, a cell's side on a grid."""

    left: float
    top: float
    width: float
    height: float
    color: str  # #rrggbb
    name: str = ""
    tag: str = ""  # a letter or two, written on it
    note: str = ""  # to whom it is closed, and until when
    is_disc: bool = False  # that the rectangle is the frame of


@dataclass(frozen=True)
class Scene:
    """A map without agents on it, who they are, and the machines of the team and of each of them."""

    task: str
    width: float
    height: float
    agents: tuple[str, ...]
    machines: Mapping[str, RewardMachine]  # of the agents
    knows: Mapping[str, tuple[str, ...]]
    team: RewardMachine | None = None  # None: there is none, or it is too large to show
    areas: tuple[Area, ...] = ()  # later ones lie upon earlier ones
    walls: tuple[Area, ...] = ()
    has_cells: bool = False  # the unit is a cell
    description: str = ""
    verdict: str = ""  # on the decomposition, in words
    notes: tuple[str, ...] = ()
    splits: bool | None = None  # whether the task does; None: nobody has asked

    @cached_property
    def digest(self) -> str:
        """Fingerprint all that it says; a record of a world that is not hocket's names it."""
        return hashlib.sha256(write_scene(self).encode()).hexdigest()

    @property
    def colors(self) -> dict[str, str]:
        """Give every agent a colour; where there are many, they share."""
        return dict(zip(self.agents, islice(cycle(AGENT_COLORS), len(self.agents)), strict=True))


def scene_of(task: Task) -> Scene:
    """Say what there is to see of a task on a grid."""
    grid, areas = task.grid, []
    verdict, *notes = _verdict(task).splitlines()
    for place in sorted(find_places(task), key=lambda place: -len(place.cells)):
        for number, rectangle in enumerate(rectangles(place.cells, grid)):
            tag = place.tag if number == 0 else ""
            areas.append(_area(rectangle, place.color, ", ".join(place.names), tag, "; ".join(place.closed)))
    return Scene(
        task.name,
        grid.columns,
        grid.rows,
        tuple(task.agents),
        dict(task.machines),
        {name: tuple(own) for name, own in task.knows.items()},
        _team(task.machine),
        tuple(areas),
        tuple(_area(rectangle, "#555555") for rectangle in rectangles(grid.walls, grid)),
        has_cells=True,
        description=task.description,
        verdict=verdict,
        notes=tuple(notes),
        splits=None if task.is_single_agent else task.decomposition.ok,
    )


def _area(rectangle: tuple[int, int, int, int], color: str, name: str = "", tag: str = "", note: str = "") -> Area:
    row, column, rows, columns = rectangle
    return Area(column, row, columns, rows, color, name, tag, note)


def _team(machine: RewardMachine | Composition) -> RewardMachine | None:
    if isinstance(machine, Composition):
        return machine.machine() if machine.most_states <= MOST_TEAM_STATES else None
    return machine


def _verdict(task: Task) -> str:
    if task.is_single_agent:
        return "One agent knows every event; there is nothing to decompose."
    return task.decomposition.explain()


# As JSON, for worlds that are not tasks of hocket's.


def write_scene(scene: Scene) -> str:
    """Lay a scene out as JSON."""
    document = {
        "format": FORMAT,
        "task": scene.task,
        "description": scene.description,
        "size": [float(scene.width), float(scene.height)],
        "machines": {name: machine_to(machine) for name, machine in scene.machines.items()},
        "knows": {name: list(own) for name, own in scene.knows.items()},
        "team": None if scene.team is None else machine_to(scene.team),
        "areas": [_area_to(area) for area in scene.areas],
        "walls": [_area_to(area) for area in scene.walls],
        "has_cells": scene.has_cells,
        "verdict": [scene.verdict, *scene.notes],
        "splits": scene.splits,
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _area_to(area: Area) -> list[object]:
    return [*map(float, area[:4]), *area[4:]]  # 2 and 2.0 are one length, and must have one fingerprint


def read_scene(path: Path) -> Scene:
    """Read a scene, refusing files that are damaged or of somebody else."""
    content = read_text(path, LIMIT)
    try:
        return _scene_from(as_table(json_notation.parse(content), "the file"))
    except RecursionError:
        raise FormatError("is nested too deeply to be a scene", path=path) from None
    except HocketError as error:
        raise FormatError(f"is not a scene that hocket has written: {error}", path=path) from None


KEYS = (
    "format", "task", "description", "size", "machines", "knows", "team", "areas", "walls", "has_cells", "verdict",
    "splits",
)  # fmt: skip


def _scene_from(document: Document) -> Scene:
    check_keys(document, KEYS)
    if document.get("format") != FORMAT:
        raise FormatError(f"its format must be {FORMAT!r}, got {document.get('format')!r:.40}")
    machines = {
        name: machine_from(as_table(own, f"machines.{name}"), f"machines.{name}.")
        for name, own in as_table(document.get("machines"), "machines").items()
    }
    knows = {name: as_texts(own, f"knows.{name}") for name, own in as_table(document.get("knows"), "knows").items()}
    size, verdict = _list(document.get("size"), "size"), as_texts(document.get("verdict"), "verdict")
    if len(size) != 2 or not machines or knows.keys() != machines.keys() or not verdict:
        raise FormatError("it must have a width and a height, a verdict, and a machine and known events for each agent")
    team, splits = document.get("team"), document.get("splits")
    if not (splits is None or isinstance(splits, bool)):
        raise FormatError("must be true, false or null", where="splits")
    return Scene(
        as_text(document.get("task"), "task"),
        _length(size[0], "size"),
        _length(size[1], "size"),
        tuple(machines),
        machines,
        knows,
        None if team is None else machine_from(as_table(team, "team"), "team."),
        tuple(_area_from(own, "areas") for own in _list(document.get("areas"), "areas")),
        tuple(_area_from(own, "walls") for own in _list(document.get("walls"), "walls")),
        document.get("has_cells") is True,
        as_text(document.get("description"), "description"),
        verdict[0],
        verdict[1:],
        splits,
    )


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise FormatError("must be a list", where=where)
    return value


def _length(value: object, where: str) -> float:
    number = as_number(value, where)
    if not (math.isfinite(number) and abs(number) <= LARGEST_LENGTH):
        raise FormatError(f"must have an absolute value of at most {LARGEST_LENGTH:,.0f}, got {number:g}", where=where)
    return number


def _area_from(value: object, where: str) -> Area:
    own = _list(value, where)
    if len(own) != len(Area._fields) or not isinstance(own[-1], bool):
        raise FormatError(f"must have {len(Area._fields)} entries, the last true or false", where=where)
    left, top, width, height = (_length(number, where) for number in own[:4])
    color, name, tag, note = (as_text(text, where) for text in own[4:8])
    if not re.fullmatch(r"#[0-9a-f]{6}", color):
        raise FormatError(f"a colour must be like #0072b2, got {color!r:.20}", where=where)
    return Area(left, top, width, height, color, name, tag, note, own[-1])
