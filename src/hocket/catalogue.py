"""The designs that come with hocket, by name, and those in files, by path."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from hocket.algebra import compose
from hocket.errors import FormatError, known_names
from hocket.machine import RewardMachine
from hocket.notation import FORMATS, load_design
from hocket.notation.design import Design

LARGEST_RENDEZVOUS = 18  # agents; the team machine has 2^(agents + 1) states


def find_design(name: str) -> Design:
    """Find a design by a built-in name (`buttons`, `rendezvous-3`) or by the path of a file."""
    if match := re.fullmatch(r"rendezvous-(\d{1,6})", name):
        return rendezvous(int(match[1]))
    built_in = {Path(entry.name).stem: entry for entry in resources.files("hocket.tasks").iterdir()}
    if name in built_in:
        with resources.as_file(built_in[name]) as path:
            return load_design(path)
    if Path(name).suffix.lower() in FORMATS or Path(name).exists():
        return load_design(name)
    hint = known_names(name, [*sorted(built_in), "rendezvous-2"])
    raise FormatError(f"there is no file and no built-in task of this name ({hint})", path=name)


def rendezvous(agents: int) -> Design:
    """Build the task in which all agents meet at a place before each goes to its own goal.

    Agent i arrives (ri), may leave again (li), and once all are there the meeting (r) happens; then it goes home (gi).
    """
    if not 2 <= agents <= LARGEST_RENDEZVOUS:
        raise FormatError(f"a rendezvous needs 2 to {LARGEST_RENDEZVOUS} agents", path=f"rendezvous-{agents}")
    parts = [
        RewardMachine(
            initial="0",
            transitions={("0", f"r{i}"): "1", ("1", f"l{i}"): "0", ("1", "r"): "2", ("2", f"g{i}"): "3"},
            final={"3"},
        )
        for i in range(1, agents + 1)
    ]
    knows = {f"A{i}": tuple(part.events) for i, part in enumerate(parts, start=1)}
    machine = compose(*parts)
    control = {event: tuple(agent for agent, own in knows.items() if event in own) for event in machine.events}
    return Design(machine, knows, control)
