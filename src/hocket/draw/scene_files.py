"""Scenes of worlds that are not tasks of hocket's, read from JSON files that nobody has checked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hocket.documents import Document, as_lists, as_number, as_table, as_text, as_texts, check_keys
from hocket.draw.geometry import Point, Shape
from hocket.draw.scene import FORMAT, Area, Barrier, Scene
from hocket.errors import FormatError, HocketError
from hocket.files import MEGABYTE, read_text
from hocket.machine.formats import json as json_notation
from hocket.machine.formats.schema import Files, machine_from
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import Gate

Read = Callable[[object, str], Any]  # takes what stands somewhere in a file, and where; refuses what is wrong

LIMIT = 16 * MEGABYTE
LARGEST_LENGTH = 1e6


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
    files = Files()

    def machine(value: object, where: str) -> RewardMachine:
        return machine_from(as_table(value, where), f"{where}.", files)

    readers: dict[str, Read] = {
        "task": as_text, "description": as_text, "size": _point, "machines": _table_of(machine), "knows": as_lists,
        "starts": _table_of(_point), "corners": as_lists, "areas": _list_of(_area), "walls": _list_of(_shape),
        "team": lambda value, where: None if value is None else machine(value, where),
        "has_cells": lambda value, _: value is True, "verdict": as_texts, "decomposable": _answer,
    }  # fmt: skip
    parts = _entries(document, readers)
    machines, (width, height), verdict = parts["machines"], parts.pop("size"), parts.pop("verdict")
    if not machines or parts["knows"].keys() != machines.keys() or not verdict:
        raise FormatError("it must have a verdict, and a machine and known events for each agent")
    agents = {*parts["starts"], *parts["corners"], *(agent for area in parts["areas"] for agent, _ in area.gates)}
    if not agents <= machines.keys():
        raise FormatError(f"agents must have a machine, got {min(agents - machines.keys())!r:.40}")
    return Scene(width=width, height=height, agents=(*machines,), verdict=verdict[0], notes=verdict[1:], **parts)


def _entries(table: Document, readers: Mapping[str, Read], at: str = "") -> dict[str, Any]:
    """Read all that a table holds, which can be no more than what is known."""
    check_keys(table, (*readers,), at)
    return {key: read(table.get(key), f"{at}{key}") for key, read in readers.items()}


def _table_of(read: Read) -> Read:
    return lambda value, where: {name: read(entry, f"{where}.{name}") for name, entry in as_table(value, where).items()}


def _list_of(read: Read) -> Read:
    return lambda value, where: tuple(read(entry, where) for entry in _list(value, where))


def _answer(value: object, where: str) -> bool | None:
    if not (value is None or isinstance(value, bool)):
        raise FormatError("must be true, false or null", where=where)
    return value


def _area(value: object, where: str) -> Area:
    texts, parts = {"names": as_texts, "tag": as_text, "color": as_text}, {"shapes": _shape, "gates": _gate}
    readers = texts | {key: _list_of(read) for key, read in parts.items()}
    area = Area(**_entries(as_table(value, where), readers, f"{where}."))
    if not re.fullmatch(r"#[0-9a-f]{6}", area.color):
        raise FormatError(f"a colour must be like #0072b2, got {area.color!r:.20}", where=where)
    return area


def _gate(value: object, where: str) -> Barrier:
    entries = _list(value, where)
    if len(entries) == 4 and isinstance(entries[3], bool):
        return as_text(entries[0], where), Gate(as_texts(entries[1], where), as_texts(entries[2], where), entries[3])
    if len(entries) != 2:
        raise FormatError("must be an agent and an event, or what opens, what closes, and true or false", where=where)
    return as_text(entries[0], where), as_text(entries[1], where)


def _shape(value: object, where: str) -> Shape:
    entries = _list(value, where)
    if len(entries) != len(Shape._fields) or not isinstance(entries[-1], bool):
        raise FormatError(f"must have {len(Shape._fields)} entries, the last true or false", where=where)
    left, top, width, height = (_length(number, where) for number in entries[:4])
    return Shape(left, top, width, height, entries[-1])


def _point(value: object, where: str) -> Point:
    entries = _list(value, where)
    if len(entries) != 2:
        raise FormatError("must be two numbers", where=where)
    return _length(entries[0], where), _length(entries[1], where)


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise FormatError("must be a list", where=where)
    return value


def _length(value: object, where: str) -> float:
    number = as_number(value, where)
    if not (math.isfinite(number) and abs(number) <= LARGEST_LENGTH):
        raise FormatError(f"must have an absolute value of at most {LARGEST_LENGTH:,.0f}, got {number:g}", where=where)
    return number
