"""Changing local event sets in a user's file without changing comments, order, map or line ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from hocket.files import MEGABYTE, in_form_of, plain, read_text, write_whole
from hocket.machine.formats import json as json_notation

LIMIT = MEGABYTE  # of a file that is edited; larger ones are written as new files
Knows = Mapping[str, Iterable[str]]


def set_events(row: MutableMapping[str, Any], key: str, events: Iterable[str]) -> None:
    """Write a local event set; an existing list is changed in place, so that its layout and comments stay."""
    wanted, present = [*events], row.get(key)
    if not isinstance(present, list):
        row[key] = wanted
        return
    for event in [event for event in present if event not in wanted]:
        del present[present.index(event)]
    for event in [event for event in wanted if event not in present]:
        present.append(event)
    if len(present) == len(wanted) and "#" not in tomlkit.item(present).as_string():  # comments stay by their event
        for index, event in enumerate(wanted):
            if present[index] != event:
                present[index] = event


def edit_knows(source: Path, target: Path, knows: Knows, *, in_agents: bool) -> bool:
    """Write a file with other local event sets, of the agents of a task or in the table `knows` of a machine; return
    False if the rest of the file cannot be kept: in another format, too large, or with agents that are not listed one
    by one."""
    suffix = source.suffix.lower()
    is_small = source.is_file() and source.stat().st_size <= LIMIT
    if suffix not in (".toml", ".json") or target.suffix.lower() != suffix or not is_small:
        return False
    before, is_toml = read_text(source, LIMIT, keep_mark=True), suffix == ".toml"
    try:
        document = tomlkit.parse(plain(before)) if is_toml else json_notation.parse(plain(before))
    except (TOMLKitError, RecursionError):  # tomlkit may refuse what the standard library reads
        return False
    if not isinstance(document, MutableMapping):
        return False
    if in_agents:
        rows, machine = document.get("agents"), document.get("machine")
        if not isinstance(rows, MutableMapping) or not knows.keys() <= rows.keys():
            return False
        is_moved = source.resolve().parent != target.resolve().parent
        if is_moved and isinstance(machine, Mapping) and "file" in machine:  # which must be in the folder of the task
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
