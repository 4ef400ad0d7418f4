"""Changing local event sets in a user's file, and nothing else: comments, order, map and line ends stay as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from hocket.files import MEGABYTE, read_exactly, write_whole
from hocket.machine.formats import json as json_notation
from hocket.texts import in_form_of, plain

LIMIT = MEGABYTE  # of a file that is edited; larger ones are written anew
Knows = Mapping[str, Iterable[str]]


def can_edit(source: Path, target: Path) -> bool:
    """Say whether a file can be kept as it is but for its local event sets: in one format, and not too large."""
    suffix = source.suffix.lower()
    if suffix not in (".toml", ".json") or target.suffix.lower() != suffix or not source.is_file():
        return False
    return source.stat().st_size <= LIMIT


def set_events(row: MutableMapping[str, Any], key: str, events: Iterable[str]) -> None:
    """Write a local event set; a list that is there is changed in place, so that its layout and comments stay."""
    wanted, present = [*events], row.get(key)
    if not isinstance(present, list):
        row[key] = wanted
        return
    for event in [event for event in present if event not in wanted]:
        del present[present.index(event)]
    for event in [event for event in wanted if event not in present]:
        present.append(event)
    if (
        len(present) == len(wanted) and "#" not in tomlkit.item(present).as_string()
    ):  # or comments would lose their event
        for place, event in enumerate(wanted):
            if present[place] != event:
                present[place] = event


def edit_task(source: Path, target: Path, knows: Knows) -> bool:
    """Write a task file with other local event sets of some agents; False where these are not listed one by one."""
    return _edit(source, target, knows, in_agents=True)


def edit_design(source: Path, target: Path, knows: Knows) -> bool:
    """Write a machine file with other local event sets."""
    return _edit(source, target, knows, in_agents=False)


def _edit(source: Path, target: Path, knows: Knows, *, in_agents: bool) -> bool:
    before = read_exactly(source, LIMIT)
    content = plain(before)
    is_toml = source.suffix.lower() == ".toml"
    try:
        document = tomlkit.parse(content) if is_toml else json_notation.parse(content)
    except (TOMLKitError, RecursionError):  # what the standard library's parser reads, this one may not
        return False
    if not isinstance(document, MutableMapping):
        return False
    if in_agents:
        rows = document.get("agents")
        if (
            not isinstance(rows, MutableMapping)
            or not knows.keys() <= rows.keys()
            or _loses_machine(document, source, target)
        ):
            return False
        for agent, events in knows.items():
            set_events(rows[agent], "knows", events)
    else:
        table = document.setdefault("knows", tomlkit.table() if is_toml else {})
        for agent, events in knows.items():
            set_events(table, agent, events)
    after = tomlkit.dumps(document) if is_toml else json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    write_whole(target, in_form_of(after, before))
    return True


def _loses_machine(document: Mapping[str, object], source: Path, target: Path) -> bool:
    """Say whether a task names a machine's file that is not beside the new one."""
    machine = document.get("machine")
    return isinstance(machine, Mapping) and "file" in machine and source.resolve().parent != target.resolve().parent
