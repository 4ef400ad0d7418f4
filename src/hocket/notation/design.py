"""The schema that TOML and JSON share.

    initial = "u0"                      the initial state; by default the first one in transitions
    final = ["u2"]                      the final states
    [transitions]                       state -> event -> state
    u0 = { a = "u1" }
    u1 = { b = "u2" }

Optional: `events` and `states`, lists that declare more than transitions use; `rewards`, state -> event -> number,
which makes it a general machine (what is not listed is worth 0); `knows`, agent -> events; `control`, event -> agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hocket.errors import FormatError, known_names
from hocket.machine import RewardMachine

Document = dict[str, object]

KEYS = ("initial", "final", "events", "states", "knows", "control", "transitions", "rewards")


class Design(NamedTuple):
    """A team machine with a designer's guess of who knows, and who makes happen, which events."""

    machine: RewardMachine
    knows: Mapping[str, tuple[str, ...]] = {}
    control: Mapping[str, tuple[str, ...]] = {}


def from_document(document: object) -> Design:
    """Build a design from nested dictionaries and lists, checking every key and type."""
    table = _table(document, "the document")
    for key in table:
        if key not in KEYS:
            raise FormatError(f"unknown key ({known_names(key, KEYS)})", where=key)
    if "transitions" not in table:
        raise FormatError("is missing; it maps each state to its events and where they lead", where="transitions")
    if "final" not in table and "rewards" not in table:
        raise FormatError("is missing; it lists the final states", where="final")
    transitions = {
        (state, event): _text(target, f"transitions.{state}.{event}")
        for state, row in _table(table["transitions"], "transitions").items()
        for event, target in _table(row, f"transitions.{state}").items()
    }
    states = _texts(table, "states")
    return Design(
        RewardMachine(
            initial=_initial(table, states),
            transitions=transitions,
            final=_texts(table, "final") or (),
            events=_texts(table, "events"),
            rewards=_rewards(table),
            states=states,
        ),
        _lists(table, "knows"),
        _lists(table, "control"),
    )


def to_document(design: Design) -> Document:
    """Lay a design out as `from_document` reads it, leaving out what goes without saying."""
    machine = design.machine
    transitions: dict[str, dict[str, str]] = {}
    for (state, event), target in machine.transitions.items():
        transitions.setdefault(state, {})[event] = target
    document: Document = {"initial": machine.initial, "final": list(machine.final)}
    if list(machine.events) != list(dict.fromkeys(event for _, event in machine.transitions)):
        document["events"] = list(machine.events)
    if len(machine.states) > len({*transitions, *machine.transitions.values()}):
        document["states"] = list(machine.states)
    for key, lists in (("knows", design.knows), ("control", design.control)):
        if lists:
            document[key] = {name: list(names) for name, names in lists.items()}
    document["transitions"] = transitions
    if not machine.is_task_completion:
        rewards: dict[str, dict[str, float]] = {}
        for (state, event), reward in machine.rewards.items():
            if reward:
                rewards.setdefault(state, {})[event] = reward
        document["rewards"] = rewards
    return document


def _initial(table: Document, states: tuple[str, ...] | None) -> str:
    if "initial" in table:
        return _text(table["initial"], "initial")
    for state in (*_table(table["transitions"], "transitions"), *(states or ())):
        return state
    raise FormatError("is missing, and there is no first state to take for it", where="initial")


def _rewards(table: Document) -> dict[tuple[str, str], float] | None:
    if "rewards" not in table:
        return None
    return {
        (state, event): _number(reward, f"rewards.{state}.{event}")
        for state, row in _table(table["rewards"], "rewards").items()
        for event, reward in _table(row, f"rewards.{state}").items()
    }


def _lists(table: Document, key: str) -> dict[str, tuple[str, ...]]:
    rows = _table(table.get(key, {}), key)
    return {name: _texts(rows, name, f"{key}.{name}") or () for name in rows}


def _table(value: object, where: str) -> Document:
    if not isinstance(value, dict):
        raise FormatError(f"must be a table, got {_shown(value)}", where=where)
    return value


def _texts(table: Document, key: str, where: str | None = None) -> tuple[str, ...] | None:
    if key not in table:
        return None
    value, where = table[key], where or key
    if not isinstance(value, list):
        raise FormatError(f"must be a list of names, got {_shown(value)}", where=where)
    return tuple(_text(item, f"{where}[{index}]") for index, item in enumerate(value))


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"must be a name in quotes, got {_shown(value)}", where=where)
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"must be a number, got {_shown(value)}", where=where)
    try:
        return float(value)
    except OverflowError:
        raise FormatError("must be a number of ordinary size", where=where) from None


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
