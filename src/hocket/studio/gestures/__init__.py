"""Gestures: edits of the text by drawing and clicking on the page, which keep comments and layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import get_type_hints

from hocket.errors import FormatError, require_known
from hocket.machine.names import check_name
from hocket.studio.gestures import agents, ground
from hocket.studio.gestures.draft import Draft, NewName
from hocket.studio.understanding import read_number
from hocket.task.grid import MOST_CELLS

GESTURES: Mapping[str, Callable[..., None]] = {  # by the names of the functions, with blanks
    change.__name__.replace("_", " "): change
    for change in (
        *(ground.paint, ground.start, ground.gate, ground.resize, agents.know, agents.repair),
        *(agents.agent, agents.remove_agent, agents.rename_agent, agents.rename_place),
        *(agents.condition, agents.rename_event, agents.remove_event, agents.transition, agents.cut),
        *(agents.rename_state, agents.remove_state, agents.final, agents.initial, agents.sentence),
    )
}


def apply_gesture(text: str, gesture: object) -> str:
    """Change a text by a gesture, whose values are the arguments of the function for its kind."""
    if not isinstance(gesture, dict) or not isinstance(gesture.get("kind"), str):
        raise FormatError("a gesture is a table with its kind")
    kind = gesture["kind"]
    require_known(kind, GESTURES, "gesture", FormatError)
    draft, change, values = Draft(text), GESTURES[kind], dict[str, object]()
    types, (_, *parameters) = get_type_hints(change), signature(change).parameters.values()
    for parameter in parameters:
        key, value = parameter.name, gesture.get(parameter.name)
        if parameter.default is parameter.empty or value not in (None, ""):
            noun = {"name": kind.removeprefix("rename "), "target": "state"}.get(key, key)
            values[key] = _checked(value, types[key], key, f"{'an' if noun[0] in 'ae' else 'a'} {noun}")
    change(draft, **values)
    return draft.text


def _checked(value: object, kind: object, key: str, what: str) -> object:
    """Check a value: a flag, a number of rows or columns, a text, or a name that will be written."""
    if kind is object:  # which the gesture checks itself
        return value
    if kind is bool:
        return value is True
    if kind is int:
        return read_number({key: value}, key, 1, MOST_CELLS)
    if not isinstance(value, str):
        raise FormatError(f"must be text, got {value!r:.60}", where=key)
    return check_name(value, what).strip() if kind is NewName else value
