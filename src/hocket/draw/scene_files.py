"""Scenes of worlds that are not tasks of hocket's, read from JSON files that nobody has checked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from hocket.documents import Document, as_lists, as_number, as_table, as_text, as_texts, check_keys
from hocket.draw.geometry import Point, Shape
from hocket.draw.scene import FORMAT, Area, Barrier, Scene
from hocket.errors import FormatError, HocketError
from hocket.files import MEGABYTE, read_text
from hocket.machine.formats import json as json_notation
from hocket.machine.formats.schema import Files, machine_from
from hocket.task.agents import Gate

T = TypeVar("T")

LIMIT = 16 * MEGABYTE
LARGEST_LENGTH = 1e6
KEYS = (
    "format", "task", "description", "size", "machines", "knows", "starts", "corners", "team", "areas", "walls",
    "has_cells", "verdict", "decomposable",
)  # fmt: skip


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
    check_keys(document, KEYS)
    if document.get("format") != FORMAT:
        raise FormatError(f"its format must be {FORMAT!r}, got {document.get('format')!r:.40}")
    files = Files()
    machines = {
        name: machine_from(as_table(machine, f"machines.{name}"), f"machines.{name}.", files)
        for name, machine in as_table(document.get("machines"), "machines").items()
    }
    knows, corners = (as_lists(document.get(key), key) for key in ("knows", "corners"))
    starts = {
        name: _point(point, f"starts.{name}") for name, point in as_table(document.get("starts"), "starts").items()
    }
    verdict = as_texts(document.get("verdict"), "verdict")
    if not machines or knows.keys() != machines.keys() or not verdict:
        raise FormatError("it must have a verdict, and a machine and known events for each agent")
    areas = _each(document, "areas", _area)
    agents = {*starts, *corners, *(agent for area in areas for agent, _ in area.gates)}
    if not agents <= machines.keys():
        raise FormatError(f"agents must have a machine, got {min(agents - machines.keys())!r:.40}")
    team, decomposable = document.get("team"), document.get("decomposable")
    if not (decomposable is None or isinstance(decomposable, bool)):
        raise FormatError("must be true, false or null", where="decomposable")
    width, height = _point(document.get("size"), "size")
    return Scene(
        as_text(document.get("task"), "task"),
        width,
        height,
        tuple(machines),
        machines,
        knows,
        None if team is None else machine_from(as_table(team, "team"), "team.", files),
        areas,
        _each(document, "walls", _shape),
        starts,
        corners,
        document.get("has_cells") is True,
        as_text(document.get("description"), "description"),
        verdict[0],
        verdict[1:],
        decomposable,
    )


def _area(value: object, where: str) -> Area:
    table = as_table(value, where)
    check_keys(table, ("names", "tag", "color", "shapes", "gates"), f"{where}.")
    color, tag = (as_text(table.get(key), f"{where}.{key}") for key in ("color", "tag"))
    if not re.fullmatch(r"#[0-9a-f]{6}", color):
        raise FormatError(f"a colour must be like #0072b2, got {color!r:.20}", where=where)
    shapes, gates = _each(table, "shapes", _shape, f"{where}."), _each(table, "gates", _gate, f"{where}.")
    return Area(shapes, color, as_texts(table.get("names"), f"{where}.names"), tag, gates)


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


def _each(table: Document, key: str, read: Callable[[object, str], T], at: str = "") -> tuple[T, ...]:
    return tuple(read(value, f"{at}{key}") for value in _list(table.get(key), f"{at}{key}"))


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise FormatError("must be a list", where=where)
    return value


def _length(value: object, where: str) -> float:
    number = as_number(value, where)
    if not (math.isfinite(number) and abs(number) <= LARGEST_LENGTH):
        raise FormatError(f"must have an absolute value of at most {LARGEST_LENGTH:,.0f}, got {number:g}", where=where)
    return number
