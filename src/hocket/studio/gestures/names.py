"""Gestures that call a place or an agent something else wherever it stands, sentences included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hocket.errors import FormatError
from hocket.studio.gestures.draft import Draft, Gesture, Row, rename_key, replace_all
from hocket.task.conditions import Named, parse_option, rename_in_conditions


def rename_place(draft: Draft, gesture: Gesture) -> None:
    """Call a place something else."""
    old, new = gesture.text("place"), gesture.name("name", "a place")
    _check(old, new, _places(draft), "place")
    document = draft.document
    _rename_sentences(draft, "place", old, new)  # as long as they can be read
    legend = document.get("legend", {})
    for letter, names in legend.items():
        if names == old:
            legend[letter] = new
        elif isinstance(names, list):
            replace_all(names, old, new)
    rename_key(document.get("places", {}), old, new)
    rename_key(document.get("gates", {}), old, new)
    if isinstance(bodies := document.get("bodies"), list):
        replace_all(bodies, old, new)
    places = {*_places(draft), old}
    for row in document.get("agents", {}).values():
        if row.get("start") == old and (len(old) > 1 or old not in str(document["map"])):  # and is no letter of the map
            row["start"] = new
        options = row.get("options", [])
        for index, option in enumerate(options):
            memory = row.get("memory", document.get("memory", []))
            if parse_option(option, places, memory)[0] == old:
                options[index] = new + option.strip()[len(old) :]


def rename_agent(draft: Draft, gesture: Gesture) -> None:
    """Call an agent something else."""
    old, new = gesture.text("agent"), gesture.name("name", "an agent")
    document = draft.document
    if not draft.has_world:
        _check(old, new, draft.table("knows"), "agent")
        rename_key(draft.table("knows"), old, new)
        for agents in document.get("control", {}).values():
            replace_all(agents, old, new)
        return
    draft.agent(old)  # or says why it cannot be changed here
    _check(old, new, draft.table("agents"), "agent")
    _rename_sentences(draft, "agent", old, new)
    tables: list[Row] = [draft.table("agents"), *document.get("gates", {}).values()]
    tables += [conditions for conditions in document.get("events", {}).values() if isinstance(conditions, dict)]
    if "" not in draft.parts():
        tables.append(draft.table("machine")["parts"])
    for table in tables:
        rename_key(table, old, new)


def _check(old: str, new: str, known: Iterable[str], what: str) -> None:
    names = [*known]
    if old not in names:
        raise FormatError(f"the text has no {what} {old!r:.60}")
    if new in names and new != old:
        raise FormatError(f"there is {'an' if what == 'agent' else 'a'} {what} {new!r} already")


def _places(draft: Draft) -> list[str]:
    """List the names of all places, in the order of the text."""
    listed = [names if isinstance(names, list) else [names] for names in draft.document.get("legend", {}).values()]
    return [*dict.fromkeys(str(name) for names in [*listed, draft.document.get("places", {})] for name in names)]


def _rename_sentences(draft: Draft, what: Named, old: str, new: str) -> None:
    """Rename in the conditions of events, whole sentences or halves of them."""
    events: Row = draft.document.get("events", {})
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
