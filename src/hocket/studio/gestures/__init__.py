"""Gestures of the page as edits of the text: what they are about changes, comments and layout stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import get_type_hints

from hocket.errors import FormatError, known_names
from hocket.machine.names import check_name
from hocket.studio.gestures import agents, ground
from hocket.studio.gestures.draft import Draft, NewName
from hocket.task.grid import MOST_CELLS

GESTURES: Mapping[str, Callable[..., None]] = {  # a page calls them as the functions are called, with blanks
    change.__name__.replace("_", " "): change
    for change in (
        *(ground.paint, ground.start, ground.gate, ground.resize, agents.know, agents.repair),
        *(agents.agent, agents.remove_agent, agents.rename_agent, agents.rename_place),
        *(agents.condition, agents.rename_event, agents.remove_event, agents.transition, agents.cut),
        *(agents.rename_state, agents.remove_state, agents.final, agents.initial, agents.sentence),
    )
}


def apply_gesture(text: str, gesture: object) -> str:
    """Change a text as a gesture asks for; the function for its kind says which values it has."""
    if not isinstance(gesture, dict) or not isinstance(gesture.get("kind"), str):
        raise FormatError("a gesture is a table with its kind")
    kind = gesture["kind"]
    if kind not in GESTURES:
        raise FormatError(f"gesture {kind!r:.60} does not exist ({known_names(kind, GESTURES)})")
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
    """Check a value: a flag, a number of rows or columns, a text, or a name that is about to be written."""
    if kind is object:  # of which the gesture sees to it itself
        return value
    if kind is bool:
        return value is True
    if kind is int:
        if type(value) is not int or not 1 <= value <= MOST_CELLS:
            raise FormatError(f"must be a whole number from 1 to {MOST_CELLS}, got {value!r:.60}", where=key)
        return value
    if not isinstance(value, str):
        raise FormatError(f"must be text, got {value!r:.60}", where=key)
    return check_name(value, what).strip() if kind is NewName else value
