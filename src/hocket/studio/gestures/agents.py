"""Gestures on agents and events: who knows what, when an event happens, and what it is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from typing import Any

from hocket.errors import FormatError
from hocket.studio.gestures.draft import Draft, Gesture, Row, drop_all, inline, put, rename_key, replace_all, take
from hocket.studio.gestures.ground import MapText
from hocket.studio.understanding import subject_of
from hocket.task.conditions import write_conditions
from hocket.task.editing import set_events
from hocket.task.grid import FLOOR, WALL
from hocket.task.task import Task


def know(draft: Draft, gesture: Gesture) -> None:
    """Put an event into an agent's local event set, or take it out."""
    agent, event = gesture.text("agent"), gesture.text("event")
    row, key = _known(draft, agent)
    if gesture.flag("known"):
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


def repair(draft: Draft, gesture: Gesture) -> None:
    """Add events to local event sets, as a repair asks for."""
    added = gesture.values.get("add")
    if not isinstance(added, dict) or not all(isinstance(events, list) for events in added.values()):
        raise FormatError("must be a table of lists", where="add")
    for agent, events in added.items():
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


def add_agent(draft: Draft, gesture: Gesture) -> None:
    """Add an agent that knows nothing yet, where there is floor."""
    if not draft.has_world or "" not in draft.parts():
        raise FormatError("each agent has its own part of the machine here; add both in the text")
    rows = draft.table("agents")
    name = gesture.name("agent", "an agent")
    if name in rows:
        raise FormatError(f"there is an agent {name!r} already")
    lines = str(draft.document["map"]).strip("\n").split("\n")
    start = next(
        ([row, line.index(letter)] for row, line in enumerate(lines) for letter in line if letter != WALL), [0, 0]
    )
    put(rows, name, inline({"start": start, "knows": []}))


def remove_agent(draft: Draft, gesture: Gesture) -> None:
    """Take an agent out of the text, with its gates, its part of the machine, and the events that it alone controls."""
    name, document = gesture.text("agent"), draft.document
    rows = draft.table("agents" if draft.has_world else "knows")
    if draft.has_world:
        draft.agent(name)  # or says why it cannot be changed here
    if name not in rows or len(rows) == 1:
        raise FormatError(f"{name} is the only agent" if name in rows else f"the text has no agent {name!r:.60}")
    if not draft.has_world:
        for agents in document.get("control", {}).values():
            drop_all(agents, name)
        del rows[name]
        return
    task = subject_of(draft.text)
    assert isinstance(task, Task)
    for event, conditions in task.events.items():
        others = {agent: condition for agent, condition in conditions.items() if agent != name}
        if name in conditions and others:
            put(draft.table("events"), event, write_conditions(others))
        elif name in conditions:
            _remove_event(draft, event)
    for place, gates in [*document.get("gates", {}).items()]:
        gates.pop(name, None)
        if not gates:
            del document["gates"][place]
    if "" not in draft.parts():
        del draft.table("machine")["parts"][name]
    board, letter = MapText.of(draft), str(rows[name].get("start"))
    if board.starters(letter) == [name] and not board.names(letter):
        board.rows[:] = [[FLOOR if each == letter else each for each in row] for row in board.rows]
        board.write()
    del rows[name]


def condition(draft: Draft, gesture: Gesture) -> None:
    """Say when an event happens."""
    put(draft.table("events"), gesture.text("event"), gesture.text("sentence").strip())


def new_event(draft: Draft, event: str, part: str) -> None:
    """Give an event that a new transition has a condition, and let the agent that controls it know it."""
    events = draft.table("events")
    if event in events:
        return
    agent, place = part or next(iter(draft.table("agents"))), _first_place(draft)
    put(events, event, f"{agent} at {place}" if place else f"{agent} anywhere")
    draft.add_known(agent, event)


def _first_place(draft: Draft) -> str | None:
    names = next(iter(draft.document.get("legend", {}).values()), None) or [*draft.document.get("places", {})]
    return names if isinstance(names, str) else next(iter(names), None)


def keep_event(draft: Draft, part: str, event: str) -> None:
    """Declare an event that no transition has any more, so that what else the text says of it still holds."""
    table = draft.machine(part)
    if any(event in row for row in table["transitions"].values()) or event in table.get("events", []):
        return
    used = dict.fromkeys(event for row in table["transitions"].values() for event in row)
    put(table, "events", [*table.get("events", used), event])


def remove_event(draft: Draft, gesture: Gesture) -> None:
    """Take an event out of the text wherever it stands; a gate that nothing else opens or closes goes with it."""
    _remove_event(draft, gesture.text("event"))


def _remove_event(draft: Draft, event: str) -> None:
    for part in draft.parts():
        draft.machine(part)  # or says why it cannot be changed here
    for table, state, _ in [*draft.rows()]:
        take(table["transitions"], state, event)
        for rewards in table.get("rewards", {}).values():
            rewards.pop(event, None)
    for row in draft.document.get("agents", {}).values() if draft.has_world else ():
        row.get("sync", {}).pop(event, None)
        for index, option in enumerate(row.get("options", [])):
            row["options"][index] = option.removesuffix(f" after {event}")
    for place, gates in [*draft.document.get("gates", {}).items()]:
        for agent in [agent for agent, gate in gates.items() if _without(gate, event)]:
            del gates[agent]
        if not gates:
            del draft.document["gates"][place]
    for key in ("events", "control"):
        if key in draft.document and not isinstance(draft.document[key], list):
            draft.table(key).pop(event, None)
    for names in _lists(draft):
        drop_all(names, event)


def _without(gate: Any, event: str) -> bool:  # noqa: ANN401
    """Take an event out of a gate, and say whether nothing is left of it."""
    if not isinstance(gate, MutableMapping):
        return bool(gate == event)
    for key in [key for key in ("open", "close") if key in gate]:
        if isinstance(gate[key], list):
            drop_all(gate[key], event)
        if gate[key] in (event, []):
            del gate[key]
    return not {"open", "close"} & {*gate}


def _lists(draft: Draft) -> list[list[str]]:
    """Find all lists of events."""
    document = draft.document
    rows: list[Row] = list(document.get("agents", {}).values()) if draft.has_world else []
    lists = [row[key] for row in rows for key in ("knows", "memory") if key in row]
    lists += [table["events"] for table in draft.parts().values() if isinstance(table.get("events"), list)]
    lists += list(document.get("knows", {}).values())
    return lists + ([document["memory"]] if "memory" in document else [])


def rename_event(draft: Draft, gesture: Gesture) -> None:
    """Call an event something else wherever it stands."""
    old, new = gesture.text("event"), gesture.name("name", "an event")
    if old == new:
        return
    tables = list(draft.parts())
    for part in tables:
        draft.machine(part)  # or says why it cannot be changed here
    if any(new in row for _, _, row in draft.rows()):
        raise FormatError(f"there is an event {new!r} already")
    for table, _, row in draft.rows():
        rename_key(row, old, new)
        for rewards in table.get("rewards", {}).values():
            rename_key(rewards, old, new)
    for key in ("events", "control"):
        if key in draft.document and not isinstance(draft.document[key], list):
            rename_key(draft.table(key), old, new)
    for names in _lists(draft):
        replace_all(names, old, new)
    for region in draft.document.get("gates", {}).values():
        _rename_in_gates(region, old, new)
    for row in draft.document.get("agents", {}).values():
        rename_key(row.get("sync", {}), old, new)
        options = row.get("options", [])
        for index, option in enumerate(options):
            options[index] = re.sub(rf" after {re.escape(old)}$", lambda _: f" after {new}", option)


def _rename_in_gates(region: Row, old: str, new: str) -> None:
    for agent, gate in region.items():
        if gate == old:
            region[agent] = new
        elif isinstance(gate, dict):
            for key in ("open", "close"):
                if gate.get(key) == old:
                    gate[key] = new
                elif isinstance(gate.get(key), list):
                    replace_all(gate[key], old, new)
