"""Gestures on agents, events and machines: local event sets, transitions, and names wherever they occur."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Any

from hocket.errors import FormatError
from hocket.machine.formats.schema import LANGUAGES
from hocket.studio.gestures.draft import Draft, NewName, Row, inline, put, rename_key, replace_all, take, targets_of
from hocket.studio.gestures.ground import MapText
from hocket.studio.understanding import parse_subject
from hocket.task.conditions import Named, parse_option, rename_in_conditions, write_conditions
from hocket.task.editing import set_events
from hocket.task.grid import FLOOR, WALL
from hocket.task.task import Task

MACHINES = ("", "machine.", "machine.parts.*.")
# Paths of lists of names, and of tables whose keys are names; with "=", whose values are names. A * is any key.
OCCURRENCES: Mapping[str, tuple[str, ...]] = {
    "agent": ("agents", "knows", "control.*", "gates.*", "events.*", "machine.parts"),
    "place": ("legend=", "legend.*", "places", "gates", "bodies"),
    "event": (
        *(f"{at}transitions.*" for at in MACHINES), *(f"{at}rewards.*" for at in MACHINES),
        *(f"{at}events" for at in MACHINES), "control", "knows.*", "memory",
        "agents.*.knows", "agents.*.memory", "agents.*.sync",
        "gates.*=", "gates.*.*=", "gates.*.*.open", "gates.*.*.close",
    ),
    "state": ("transitions", "transitions.*=", "transitions.*.*=", "final", "states", "rewards"),  # in its machine
}  # fmt: skip


def _at(node: Any, path: str) -> list[Any]:  # noqa: ANN401
    """List the values at a path."""
    nodes = [node]
    for key in path.rstrip("=").split("."):
        tables = [node for node in nodes if isinstance(node, MutableMapping)]
        nodes = [table[name] for table in tables for name in ([*table] if key == "*" else [key]) if name in table]
    return nodes


def _rename(node: Any, kind: str, old: str, new: str | None) -> None:  # noqa: ANN401
    """Change a name wherever names of its kind occur; remove it if there is no new one."""
    for path in OCCURRENCES[kind]:
        for holder in _at(node, path):
            if isinstance(holder, MutableMapping) and not path.endswith("="):
                if new is None:
                    holder.pop(old, None)
                else:
                    rename_key(holder, old, new)
            elif isinstance(holder, MutableMapping | MutableSequence):
                replace_all(holder, old, new)


def _drop(draft: Draft, kind: str, name: str) -> None:
    """Remove a name with everything about it, and gates that no event opens or closes any more."""
    _rename(draft, kind, name, None)
    for place, gates in [*draft.get("gates", {}).items()]:
        for agent, gate in [*gates.items()]:
            if isinstance(gate, MutableMapping):
                for key in [key for key in ("open", "close") if gate.get(key) == []]:
                    del gate[key]
                if not {"open", "close"} & {*gate}:
                    del gates[agent]
        if not gates:
            del draft["gates"][place]


def _check(old: str, new: str, known: Iterable[str], what: str, hint: str = "") -> None:
    """Require that one name exists, and that the other one is not in use."""
    names = {*known}
    if old not in names:
        raise FormatError(f"the text has no {what} {old!r:.60}{hint}")
    if new in names and new != old:
        raise FormatError(f"there is {'an' if what[0] in 'ae' else 'a'} {what} {new!r} already")


def know(draft: Draft, agent: str, event: str, known: bool) -> None:
    """Add an event to an agent's local event set, in the order of the file, or remove it."""
    row, key = (draft.agent(agent), "knows") if draft.has_world else (draft.table("knows"), agent)
    if key not in row:  # it follows from something else
        knows = parse_subject(draft.text).knows
        if agent not in knows and draft.has_world:
            raise FormatError(f"agent {agent!r} does not exist")
        put(row, key, list(knows.get(agent, ())))
    listed = [name for name in row[key] if known or name != event]
    if known and event not in listed:
        order = {name: index for index, name in enumerate(draft.events)}
        later = (index for index, name in enumerate(listed) if order.get(name, 0) > order.get(event, len(order)))
        listed.insert(next(later, len(listed)), event)
    set_events(row, key, listed)


def repair(draft: Draft, add: object) -> None:
    """Add the events of a repair to local event sets."""
    if not isinstance(add, dict) or not all(isinstance(events, list) for events in add.values()):
        raise FormatError("must be a table of lists", where="add")
    for agent, events in add.items():
        for event in events:
            know(draft, str(agent), str(event), known=True)


def agent(draft: Draft, agent: NewName) -> None:
    """Add an agent with an empty local event set, in the first cell without a wall."""
    if not draft.has_world or "" not in draft.parts():
        raise FormatError("each agent has its own part of the machine here; add both in the text")
    rows = draft.table("agents")
    if agent in rows:
        raise FormatError(f"there is an agent {agent!r} already")
    lines = MapText.of(draft).rows
    floor = ([row, column] for row, line in enumerate(lines) for column, letter in enumerate(line) if letter != WALL)
    put(rows, agent, inline({"start": next(floor, [0, 0]), "knows": []}))


def _rows_with(draft: Draft, agent: str) -> Row:
    """Return the table that has an agent, or raise an error if the agent cannot be edited."""
    if draft.has_world:
        draft.agent(agent)
    return draft.table("agents" if draft.has_world else "knows")


def rename_agent(draft: Draft, agent: str, name: NewName) -> None:
    """Rename an agent."""
    _check(agent, name, _rows_with(draft, agent), "agent")
    if draft.has_world:
        _rename_sentences(draft, "agent", agent, name)
    _rename(draft, "agent", agent, name)


def remove_agent(draft: Draft, agent: str) -> None:
    """Remove an agent, with its gates, its part of the machine, and the events that it alone controls."""
    rows = _rows_with(draft, agent)
    if agent not in rows or len(rows) == 1:
        raise FormatError(f"{agent} is the only agent" if agent in rows else f"the text has no agent {agent!r:.60}")
    task = parse_subject(draft.text)
    for event, conditions in task.events.items() if isinstance(task, Task) else ():
        others = {name: condition for name, condition in conditions.items() if name != agent}
        if agent in conditions and others:
            put(draft.table("events"), event, write_conditions(others))
        elif agent in conditions:
            remove_event(draft, event)
    if draft.has_world:
        board, letter = MapText.of(draft), str(rows[agent].get("start"))
        if board.starters(letter) == [agent] and not board.names(letter):
            board.rows[:] = [[FLOOR if each == letter else each for each in row] for row in board.rows]
            board.write()
    _drop(draft, "agent", agent)


def condition(draft: Draft, event: str, sentence: str) -> None:
    """Set the condition of an event."""
    put(draft.table("events"), event, sentence.strip())


def _keep_event(draft: Draft, part: str, event: str) -> None:
    """Declare an event that has no transitions any more, so that its conditions and local event sets stay valid."""
    table = draft.machine(part)
    used = dict.fromkeys(event for row in table["transitions"].values() for event in row)
    if event not in used and event not in table.get("events", []):
        put(table, "events", [*table.get("events", used), event])


def rename_event(draft: Draft, event: str, name: NewName) -> None:
    """Rename an event."""
    if event == name:
        return
    _check(event, name, [event, *(other for _, _, row in draft.rows() for other in row)], "event")
    _rename(draft, "event", event, name)
    _end_options(draft, f" after {event}", f" after {name}")


def remove_event(draft: Draft, event: str) -> None:
    """Remove an event, and gates that no other event opens or closes."""
    for table, state, _ in [*draft.rows()]:
        take(table["transitions"], state, event)
    _drop(draft, "event", event)
    _end_options(draft, f" after {event}", "")


def _end_options(draft: Draft, before: str, after: str) -> None:
    """Replace the end of those options of agents that end in `before`."""
    for options in _at(draft, "agents.*.options"):
        for index, option in enumerate(options):
            options[index] = option.removesuffix(before) + (after if option.endswith(before) else "")


def _places(draft: Draft) -> list[str]:
    """List the names of all places, in the order of the text."""
    listed = [names if isinstance(names, list) else [names] for names in draft.get("legend", {}).values()]
    return [*dict.fromkeys(str(name) for names in [*listed, draft.get("places", {})] for name in names)]


def rename_place(draft: Draft, place: str, name: NewName) -> None:
    """Rename a place."""
    _check(place, name, _places(draft), "place")
    _rename_sentences(draft, "place", place, name)  # first, as they are parsed with the old names
    _rename(draft, "place", place, name)
    places = {*_places(draft), place}
    for row in draft.get("agents", {}).values():
        if row.get("start") == place and (len(place) > 1 or place not in str(draft["map"])):  # not a letter of the map
            row["start"] = name
        options = row.get("options", [])
        for index, option in enumerate(options):
            memory = row.get("memory", draft.get("memory", []))
            if parse_option(option, places, memory)[0] == place:
                options[index] = name + option.strip()[len(place) :]


def _rename_sentences(draft: Draft, what: Named, old: str, new: str) -> None:
    """Rename in the conditions of events: in whole sentences, and in those that stand in tables by agent."""
    events: Row = draft.get("events", {})
    agents, places = [*draft.table("agents")], _places(draft)
    tables = [table for table in events.values() if isinstance(table, MutableMapping)] if what == "place" else []
    lists = [(table[agent], agent) for table in tables for agent in table if isinstance(table[agent], list)]
    sentences: list[tuple[Any, Any, str]] = [(events, event, "") for event in events]
    sentences += [(table, agent, agent) for table in tables for agent in table]
    sentences += [(choices, index, agent) for choices, agent in lists for index in range(len(choices))]
    for holder, key, agent in sentences:
        if isinstance(holder[key], str):
            before = str(holder[key]).strip()
            whole = rename_in_conditions(f"{agent} {before}", [agent] if agent else agents, places, what, old, new)
            if (sentence := whole.removeprefix(f"{agent} ")) != before:
                holder[key] = sentence


def transition(draft: Draft, part: str, state: NewName, target: NewName, event: NewName) -> None:
    """Add a transition; its states and its event may be new. A new event happens at the first place of the map."""
    rows = draft.transitions(part)
    if state not in rows:
        put(rows, state, inline({event: target}))
    else:
        put(rows[state], event, target)
    for key, names in (("states", (state, target)), ("events", (event,))):
        declared = draft.machine(part).get(key)
        if declared is not None:
            declared.extend(name for name in dict.fromkeys(names) if name not in declared)
    if draft.has_world and event not in (events := draft.table("events")):
        place, agent = next(iter(_places(draft)), None), part or next(iter(draft.table("agents")))
        put(events, event, f"{agent} at {place}" if place else f"{agent} anywhere")
        draft.add_known(agent, event)


def cut(draft: Draft, part: str, state: str, event: str) -> None:
    """Remove a transition, and keep its states."""
    rows = draft.transitions(part)
    if event not in rows.get(state, {}):
        raise FormatError(f"the text has no transition of {state!r} on {event!r}; it may count, and is changed as text")
    take(rows, state, event)
    _keep_event(draft, part, event)


def rename_state(draft: Draft, part: str, state: str, name: NewName) -> None:
    """Rename a state."""
    machine, rows = draft.machine(part), draft.transitions(part)
    if state == name:
        return
    _check(state, name, {*rows} | targets_of(rows), "state", "; it may be a copy that a transition counts with")
    _rename(machine, "state", state, name)
    if machine.get("initial") == state:
        machine["initial"] = name


def remove_state(draft: Draft, part: str, state: str) -> None:
    """Remove a state, and all transitions from it and to it."""
    machine, rows = draft.machine(part), draft.transitions(part)
    if state == (machine.get("initial") or next(iter(rows), "")):
        raise FormatError(f"{state!r} is the initial state; make another one initial first")
    removed = [(source, event) for source, row in rows.items() for event, target in row.items() if target == state]
    removed += [(state, event) for event in rows.get(state, {})]
    for source, event in removed:
        take(rows, source, event)
    rows.pop(state, None)
    for key in ("final", "states"):
        replace_all(machine.get(key, []), state)
    for _, event in removed:
        _keep_event(draft, part, event)


def final(draft: Draft, part: str, state: str, final: bool) -> None:
    """Make a state final, or not."""
    machine = draft.machine(part)
    if "final" not in machine:
        put(machine, "final", [])
    replace_all(machine["final"], state)
    if final:
        machine["final"].append(state)


def initial(draft: Draft, part: str, state: str) -> None:
    """Make a state the initial one."""
    put(draft.machine(part), "initial", state)


def sentence(draft: Draft, sentence: str) -> None:
    """Change the formula or regular expression of a machine."""
    table: Row = draft.table("machine") if draft.has_world else draft
    key = next((language for language in LANGUAGES if language in table), None)
    if key is None or not isinstance(table[key], str):
        raise FormatError("the machine is not made from one sentence; change the text instead")
    table[key] = sentence
