"""Gestures of the page as edits of the text: what they are about changes, comments and layout stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hocket.errors import FormatError, known_names
from hocket.studio.gestures import agents, ground, machine, names
from hocket.studio.gestures.draft import Draft, Gesture

GESTURES: Mapping[str, Callable[[Draft, Gesture], None]] = {
    "paint": ground.paint,
    "start": ground.start,
    "gate": ground.gate,
    "resize": ground.resize,
    "know": agents.know,
    "repair": agents.repair,
    "agent": agents.add_agent,
    "remove agent": agents.remove_agent,
    "rename agent": names.rename_agent,
    "rename place": names.rename_place,
    "condition": agents.condition,
    "rename event": agents.rename_event,
    "remove event": agents.remove_event,
    "transition": machine.transition,
    "cut": machine.cut,
    "rename state": machine.rename_state,
    "remove state": machine.remove_state,
    "final": machine.final,
    "initial": machine.initial,
    "sentence": machine.sentence,
}


def apply_gesture(text: str, gesture: object) -> str:
    """Change a text as a gesture asks for."""
    if not isinstance(gesture, dict) or not isinstance(gesture.get("kind"), str):
        raise FormatError("a gesture is a table with its kind")
    kind = gesture["kind"]
    if kind not in GESTURES:
        raise FormatError(f"gesture {kind!r:.60} does not exist ({known_names(kind, GESTURES)})")
    draft = Draft(text)
    GESTURES[kind](draft, Gesture(gesture))
    return draft.text
