"""Changing local event sets in a user's file without changing comments, order, map or line ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from hocket.files import MEGABYTE, in_form_of, plain, read_text, write_whole
from hocket.machine.decomposition import Knows
from hocket.machine.formats import json as json_notation

LARGEST_EDITED = MEGABYTE  # bytes; larger files are rewritten, not edited


def set_events(table: MutableMapping[str, Any], key: str, events: Iterable[str]) -> None:
    """Write a local event set; an existing list is changed in place, so that its layout and comments stay."""
    wanted, current = [*events], table.get(key)
    if not isinstance(current, list):
        table[key] = wanted
        return
    for event in [event for event in current if event not in wanted]:
        del current[current.index(event)]
    for event in [event for event in wanted if event not in current]:
        current.append(event)
    if len(current) == len(wanted) and "#" not in tomlkit.item(current).as_string():  # comments stay by their event
        for index, event in enumerate(wanted):
            if current[index] != event:
                current[index] = event


def edit_knows(source: Path, target: Path, knows: Knows, *, in_agents: bool) -> bool:
    """Copy a file to `target` with new local event sets, of a task's agents or in a machine's table `knows`. Return
    False if the rest cannot be kept: another format, too large, or agents not listed one by one."""
    suffix = source.suffix.lower()
    is_small = source.is_file() and source.stat().st_size <= LARGEST_EDITED
    if suffix not in (".toml", ".json") or target.suffix.lower() != suffix or not is_small:
        return False
    old_text, is_toml = read_text(source, LARGEST_EDITED, keep_mark=True), suffix == ".toml"
    try:
        document = tomlkit.parse(plain(old_text)) if is_toml else json_notation.parse(plain(old_text))
    except (TOMLKitError, RecursionError):  # tomlkit may refuse what the standard library reads
        return False
    if not isinstance(document, MutableMapping):
        return False
    if in_agents:
        agents, machine = document.get("agents"), document.get("machine")
        if not isinstance(agents, MutableMapping) or not knows.keys() <= agents.keys():
            return False
        is_moved = source.resolve().parent != target.resolve().parent
        if is_moved and isinstance(machine, Mapping) and "file" in machine:  # which must be in the folder of the task
            return False
        for agent, events in knows.items():
            set_events(agents[agent], "knows", events)
    else:
        sets = document.setdefault("knows", tomlkit.table() if is_toml else {})
        for agent, events in knows.items():
            set_events(sets, agent, events)
    new_text = tomlkit.dumps(document) if is_toml else json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    write_whole(target, in_form_of(new_text, old_text))
    return True
