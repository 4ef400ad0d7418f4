"""Gestures on machines: states and transitions, of the team machine or of an agent's part of it."""

from __future__ import annotations

from hocket.errors import FormatError
from hocket.machine.formats.schema import LANGUAGES
from hocket.studio.gestures.agents import keep_event, new_event
from hocket.studio.gestures.draft import (
    Draft,
    Gesture,
    Row,
    drop_all,
    inline,
    put,
    rename_key,
    replace_all,
    take,
    targets_of,
)


def transition(draft: Draft, gesture: Gesture) -> None:
    """Let an event lead from a state to another, which may be new; so may the event be."""
    part = gesture.text("part")
    state, target = gesture.name("state", "a state"), gesture.name("target", "a state")
    event = gesture.name("event", "an event")
    rows = _transitions(draft, part)
    if state not in rows:
        put(rows, state, inline({event: target}))
    else:
        put(rows[state], event, target)
    for key, names in (("states", (state, target)), ("events", (event,))):
        declared = draft.machine(part).get(key)
        if declared is not None:
            declared.extend(name for name in dict.fromkeys(names) if name not in declared)
    if draft.has_world:
        new_event(draft, event, part)


def cut(draft: Draft, gesture: Gesture) -> None:
    """Take a transition away; its states stay."""
    part, state, event = gesture.text("part"), gesture.text("state"), gesture.text("event")
    rows = _transitions(draft, part)
    if event not in rows.get(state, {}):
        raise FormatError(f"the text has no transition of {state!r} on {event!r}; it may count, and is changed as text")
    take(rows, state, event)
    keep_event(draft, part, event)


def remove_state(draft: Draft, gesture: Gesture) -> None:
    """Take a state away, and all transitions from it and to it."""
    part, state = gesture.text("part"), gesture.text("state")
    machine, rows = draft.machine(part), _transitions(draft, part)
    if state == _initial(machine):
        raise FormatError(f"{state!r} is the initial state; make another one initial first")
    leaving = [(state, event) for event in rows.get(state, {})]
    arriving = [(source, event) for source, row in rows.items() for event, target in row.items() if target == state]
    for source, event in [*arriving, *leaving]:
        take(rows, source, event)
    rows.pop(state, None)
    for key in ("final", "states"):
        drop_all(machine.get(key, []), state)
    for _, event in [*arriving, *leaving]:
        keep_event(draft, part, event)


def rename_state(draft: Draft, gesture: Gesture) -> None:
    """Call a state something else wherever it stands."""
    part, old, new = gesture.text("part"), gesture.text("state"), gesture.name("name", "a state")
    machine, rows = draft.machine(part), _transitions(draft, part)
    if old == new:
        return
    if new in rows or new in targets_of(rows):
        raise FormatError(f"there is a state {new!r} already")
    if old not in rows and old not in targets_of(rows):
        raise FormatError(f"the text has no state {old!r}; it may be a copy that a transition counts with")
    rename_key(rows, old, new)
    for row in rows.values():
        for event, target in row.items():
            if target == old:
                row[event] = new
            elif isinstance(target, dict):
                for key in ("to", "otherwise"):
                    if target.get(key) == old:
                        target[key] = new
    if machine.get("initial") == old:
        machine["initial"] = new
    for key in ("final", "states"):
        replace_all(machine.get(key, []), old, new)
    rename_key(machine.get("rewards", {}), old, new)


def final(draft: Draft, gesture: Gesture) -> None:
    """Make a state final, or not."""
    machine, state = draft.machine(gesture.text("part")), gesture.text("state")
    if "final" not in machine:
        put(machine, "final", [])
    drop_all(machine["final"], state)
    if gesture.flag("final"):
        machine["final"].append(state)


def initial(draft: Draft, gesture: Gesture) -> None:
    """Make a state the initial one."""
    put(draft.machine(gesture.text("part")), "initial", gesture.text("state"))


def sentence(draft: Draft, gesture: Gesture) -> None:
    """Change the formula or regular expression that a machine is made from."""
    table: Row = draft.table("machine") if draft.has_world else draft.document
    key = next((language for language in LANGUAGES if language in table), None)
    if key is None or not isinstance(table[key], str):
        raise FormatError("the machine is not made from one sentence; change the text instead")
    table[key] = gesture.text("sentence")


def _transitions(draft: Draft, part: str) -> Row:
    machine = draft.machine(part)
    if "transitions" not in machine:
        raise FormatError("the machine has no transitions in this text")
    rows: Row = machine["transitions"]
    return rows


def _initial(machine: Row) -> str:
    state: str = machine.get("initial") or next(iter(machine["transitions"]), "")
    return state
