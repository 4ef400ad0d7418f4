"""Where names stand in a text, and gestures that change one or take it away wherever it stands, sentences included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from typing import Any

from hocket.errors import FormatError
from hocket.studio.gestures.draft import Draft, NewName, Row, drop_all, put, rename_key, replace_all, take, targets_of
from hocket.studio.gestures.ground import MapText
from hocket.studio.understanding import subject_of
from hocket.task.conditions import Named, parse_option, rename_in_conditions, write_conditions
from hocket.task.grid import FLOOR
from hocket.task.task import Task

MACHINES = ("", "machine.", "machine.parts.*.")
# Paths of tables whose keys are names, and of lists of names; with "=", of tables whose values are. A * is every key.
MENTIONS: Mapping[str, tuple[str, ...]] = {
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
    """Find what a path leads to."""
    nodes = [node]
    for key in path.rstrip("=").split("."):
        tables = [node for node in nodes if isinstance(node, MutableMapping)]
        nodes = [table[name] for table in tables for name in ([*table] if key == "*" else [key]) if name in table]
    return nodes


def _mentions(node: Any, kind: str) -> Iterator[tuple[Any, bool]]:  # noqa: ANN401
    """Find the tables and lists in which names of a kind stand, and whether as keys."""
    for path in MENTIONS[kind]:
        for holder in _at(node, path):
            if isinstance(holder, MutableMapping | MutableSequence):
                yield holder, isinstance(holder, MutableMapping) and not path.endswith("=")


def _rename(node: Any, kind: str, old: str, new: str) -> None:  # noqa: ANN401
    for holder, are_keys in _mentions(node, kind):
        if are_keys:
            rename_key(holder, old, new)
        else:
            replace_all(holder, old, new)


def _drop(node: Any, kind: str, name: str) -> None:  # noqa: ANN401
    """Take a name away, and whatever is said of it; gates that nothing opens or closes any more go as well."""
    for holder, are_keys in _mentions(node, kind):
        if are_keys:
            holder.pop(name, None)
        else:
            drop_all(holder, name)
    for place, gates in [*node.get("gates", {}).items()]:
        for agent, gate in [*gates.items()]:
            if isinstance(gate, MutableMapping):
                for key in [key for key in ("open", "close") if gate.get(key) == []]:
                    del gate[key]
                if not {"open", "close"} & {*gate}:
                    del gates[agent]
        if not gates:
            del node["gates"][place]


def _change_options(draft: Draft, change: Callable[[str], str]) -> None:
    for options in _at(draft, "agents.*.options"):
        for index, option in enumerate(options):
            options[index] = change(option)


# Events.


def rename_event(draft: Draft, event: str, name: NewName) -> None:
    """Call an event something else wherever it stands."""
    if event == name:
        return
    draft.require_written()
    if any(name in row for _, _, row in draft.rows()):
        raise FormatError(f"there is an event {name!r} already")
    _rename(draft, "event", event, name)
    before, after = f" after {event}", f" after {name}"
    _change_options(draft, lambda said: said.removesuffix(before) + (after if said.endswith(before) else ""))


def remove_event(draft: Draft, event: str) -> None:
    """Take an event out of the text wherever it stands; a gate that nothing else opens or closes goes with it."""
    draft.require_written()
    for table, state, _ in [*draft.rows()]:
        take(table["transitions"], state, event)
    _drop(draft, "event", event)
    _change_options(draft, lambda said: said.removesuffix(f" after {event}"))


# Agents.


def rename_agent(draft: Draft, agent: str, name: NewName) -> None:
    """Call an agent something else."""
    if draft.has_world:
        draft.agent(agent)  # or says why it cannot be changed here
    _check(agent, name, draft.table("agents" if draft.has_world else "knows"), "agent")
    if draft.has_world:
        _rename_sentences(draft, "agent", agent, name)
    _rename(draft, "agent", agent, name)


def remove_agent(draft: Draft, agent: str) -> None:
    """Take an agent out of the text, with its gates, its part of the machine, and the events that it alone controls."""
    rows = draft.table("agents" if draft.has_world else "knows")
    if draft.has_world:
        draft.agent(agent)  # or says why it cannot be changed here
    if agent not in rows or len(rows) == 1:
        raise FormatError(f"{agent} is the only agent" if agent in rows else f"the text has no agent {agent!r:.60}")
    task = subject_of(draft.text)
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


# Places and states.


def rename_place(draft: Draft, place: str, name: NewName) -> None:
    """Call a place something else."""
    _check(place, name, _places(draft), "place")
    _rename_sentences(draft, "place", place, name)  # as long as they can be read
    _rename(draft, "place", place, name)
    places = {*_places(draft), place}
    for row in draft.get("agents", {}).values():
        if row.get("start") == place and (len(place) > 1 or place not in str(draft["map"])):  # no letter of the map
            row["start"] = name
        options = row.get("options", [])
        for index, option in enumerate(options):
            memory = row.get("memory", draft.get("memory", []))
            if parse_option(option, places, memory)[0] == place:
                options[index] = name + option.strip()[len(place) :]


def rename_state(draft: Draft, part: str, state: str, name: NewName) -> None:
    """Call a state something else wherever it stands."""
    machine, rows = draft.machine(part), draft.transitions(part)
    states = {*rows} | targets_of(rows)
    if state == name:
        return
    if name in states:
        raise FormatError(f"there is a state {name!r} already")
    if state not in states:
        raise FormatError(f"the text has no state {state!r}; it may be a copy that a transition counts with")
    _rename(machine, "state", state, name)
    if machine.get("initial") == state:
        machine["initial"] = name


# Sentences.


def _check(old: str, new: str, known: Iterable[str], what: str) -> None:
    names = [*known]
    if old not in names:
        raise FormatError(f"the text has no {what} {old!r:.60}")
    if new in names and new != old:
        raise FormatError(f"there is {'an' if what == 'agent' else 'a'} {what} {new!r} already")


def _places(draft: Draft) -> list[str]:
    """List the names of all places, in the order of the text."""
    listed = [names if isinstance(names, list) else [names] for names in draft.get("legend", {}).values()]
    return [*dict.fromkeys(str(name) for names in [*listed, draft.get("places", {})] for name in names)]


def _rename_sentences(draft: Draft, what: Named, old: str, new: str) -> None:
    """Rename in the conditions of events, whole sentences or halves of them."""
    events: Row = draft.get("events", {})
    agents, places = [*draft.table("agents")], _places(draft)

    def half(agent: str, said: str) -> str:
        whole = rename_in_conditions(f"{agent} {said.strip()}", [agent], places, what, old, new)
        return whole.removeprefix(f"{agent} ")

    for event, said in events.items():
        if isinstance(said, str):
            _put(events, event, rename_in_conditions(said, agents, places, what, old, new))
            continue
        for agent, ways in said.items() if what == "place" else ():  # whose agents are keys
            if isinstance(ways, str):
                _put(said, agent, half(agent, ways))
            for index, way in enumerate(ways) if isinstance(ways, list) else ():
                _put(ways, index, half(agent, way))


def _put(holder: Any, key: str | int, sentence: str) -> None:  # noqa: ANN401
    if str(holder[key]).strip() != sentence:
        holder[key] = sentence
