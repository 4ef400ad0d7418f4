"""Gestures of the page as edits of the text: what they are about changes, comments and layout stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hocket.errors import FormatError, known_names
from hocket.studio.gestures import agents, ground, names
from hocket.studio.gestures.draft import Draft, Gesture

GESTURES: Mapping[str, Callable[[Draft, Gesture], None]] = {
    "paint": ground.paint,
    "start": ground.start,
    "gate": ground.gate,
    "resize": ground.resize,
    "know": agents.know,
    "repair": agents.repair,
    "agent": agents.add_agent,
    "remove agent": names.remove_agent,
    "rename agent": names.rename_agent,
    "rename place": names.rename_place,
    "condition": agents.condition,
    "rename event": names.rename_event,
    "remove event": names.remove_event,
    "transition": agents.transition,
    "cut": agents.cut,
    "rename state": names.rename_state,
    "remove state": agents.remove_state,
    "final": agents.final,
    "initial": agents.initial,
    "sentence": agents.sentence,
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
