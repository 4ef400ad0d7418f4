"""Gestures on agents, events and machines: who knows what, when an event happens, and where it leads."""

from __future__ import annotations

from collections.abc import Iterable

from hocket.errors import FormatError
from hocket.machine.formats.schema import LANGUAGES
from hocket.studio.gestures.draft import Draft, NewName, Row, drop_all, inline, put, take
from hocket.studio.understanding import subject_of
from hocket.task.editing import set_events
from hocket.task.grid import WALL


def know(draft: Draft, agent: str, event: str, known: bool) -> None:
    """Put an event into an agent's local event set, or take it out."""
    row, key = _known(draft, agent)
    if known:
        _learn(draft, row, key, [event])
    else:
        set_events(row, key, [name for name in row[key] if name != event])


def _learn(draft: Draft, row: Row, key: str, added: Iterable[str]) -> None:
    """Add events to a local event set, each before the first that the file names later."""
    known, order = [*row[key]], {event: place for place, event in enumerate(draft.events)}
    for event in added:
        later = (place for place, name in enumerate(known) if order.get(name, 0) > order.get(event, len(order)))
        if event not in known:
            known.insert(next(later, len(known)), event)
    set_events(row, key, known)


def repair(draft: Draft, add: object) -> None:
    """Add events to local event sets, as a repair asks for."""
    if not isinstance(add, dict) or not all(isinstance(events, list) for events in add.values()):
        raise FormatError("must be a table of lists", where="add")
    for agent, events in add.items():
        row, key = _known(draft, str(agent))
        _learn(draft, row, key, map(str, events))


def _known(draft: Draft, agent: str) -> tuple[Row, str]:
    """Find where an agent's local event set stands: a table and a key; where it is not written, it is added first."""
    row, key = (draft.agent(agent), "knows") if draft.has_world else (draft.table("knows"), agent)
    if key not in row:
        knows = subject_of(draft.text).knows
        if agent not in knows and draft.has_world:
            raise FormatError(f"agent {agent!r} does not exist")
        put(row, key, list(knows.get(agent, ())))
    return row, key


def agent(draft: Draft, agent: NewName) -> None:
    """Add an agent that knows nothing yet, where there is floor."""
    if not draft.has_world or "" not in draft.parts():
        raise FormatError("each agent has its own part of the machine here; add both in the text")
    rows = draft.table("agents")
    if agent in rows:
        raise FormatError(f"there is an agent {agent!r} already")
    lines = str(draft["map"]).strip("\n").split("\n")
    start = next(
        ([row, line.index(letter)] for row, line in enumerate(lines) for letter in line if letter != WALL), [0, 0]
    )
    put(rows, agent, inline({"start": start, "knows": []}))


def condition(draft: Draft, event: str, sentence: str) -> None:
    """Say when an event happens."""
    put(draft.table("events"), event, sentence.strip())


def _new_event(draft: Draft, event: str, part: str) -> None:
    """Give an event that a new transition has a condition, and let the agent that controls it know it."""
    events = draft.table("events")
    if event in events:
        return
    names = next(iter(draft.get("legend", {}).values()), None) or [*draft.get("places", {})]
    place = names if isinstance(names, str) else next(iter(names), None)
    agent = part or next(iter(draft.table("agents")))
    put(events, event, f"{agent} at {place}" if place else f"{agent} anywhere")
    draft.add_known(agent, event)


def _keep_event(draft: Draft, part: str, event: str) -> None:
    """Declare an event that no transition has any more, so that what else the text says of it still holds."""
    table = draft.machine(part)
    if any(event in row for row in table["transitions"].values()) or event in table.get("events", []):
        return
    used = dict.fromkeys(event for row in table["transitions"].values() for event in row)
    put(table, "events", [*table.get("events", used), event])


# Machines.


def transition(draft: Draft, part: str, state: NewName, target: NewName, event: NewName) -> None:
    """Let an event lead from a state to another, which may be new; so may the event be."""
    rows = draft.transitions(part)
    if state not in rows:
        put(rows, state, inline({event: target}))
    else:
        put(rows[state], event, target)
    for key, names in (("states", (state, target)), ("events", (event,))):
        declared = draft.machine(part).get(key)
        if declared is not None:
            declared.extend(name for name in dict.fromkeys(names) if name not in declared)
    if draft.has_world:
        _new_event(draft, event, part)


def cut(draft: Draft, part: str, state: str, event: str) -> None:
    """Take a transition away; its states stay."""
    rows = draft.transitions(part)
    if event not in rows.get(state, {}):
        raise FormatError(f"the text has no transition of {state!r} on {event!r}; it may count, and is changed as text")
    take(rows, state, event)
    _keep_event(draft, part, event)


def remove_state(draft: Draft, part: str, state: str) -> None:
    """Take a state away, and all transitions from it and to it."""
    machine, rows = draft.machine(part), draft.transitions(part)
    if state == (machine.get("initial") or next(iter(rows), "")):
        raise FormatError(f"{state!r} is the initial state; make another one initial first")
    leaving = [(state, event) for event in rows.get(state, {})]
    arriving = [(source, event) for source, row in rows.items() for event, target in row.items() if target == state]
    for source, event in [*arriving, *leaving]:
        take(rows, source, event)
    rows.pop(state, None)
    for key in ("final", "states"):
        drop_all(machine.get(key, []), state)
    for _, event in [*arriving, *leaving]:
        _keep_event(draft, part, event)


def final(draft: Draft, part: str, state: str, final: bool) -> None:
    """Make a state final, or not."""
    machine = draft.machine(part)
    if "final" not in machine:
        put(machine, "final", [])
    drop_all(machine["final"], state)
    if final:
        machine["final"].append(state)


def initial(draft: Draft, part: str, state: str) -> None:
    """Make a state the initial one."""
    put(draft.machine(part), "initial", state)


def sentence(draft: Draft, sentence: str) -> None:
    """Change the formula or regular expression that a machine is made from."""
    table: Row = draft.table("machine") if draft.has_world else draft
    key = next((language for language in LANGUAGES if language in table), None)
    if key is None or not isinstance(table[key], str):
        raise FormatError("the machine is not made from one sentence; change the text instead")
    table[key] = sentence
