"""Gates: in which states of an agent's machine is a region closed to it?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.graphs import path_to, search_tree
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import CLOSED, Gate
from hocket.task.task import Task


def closed_cells(task: Task, agent: str) -> list[frozenset[int]]:
    """For each state of an agent's machine: the cells that gates close to it."""
    closed = [tuple(regions) for regions in closed_regions(task, agent)]
    cells = {regions: frozenset[int]().union(*map(task.grid.places.__getitem__, regions)) for regions in {*closed}}
    return [cells[regions] for regions in closed]


def closed_regions(task: Task, agent: str) -> list[list[str]]:
    """For each state of an agent's machine: the regions that are closed to it."""
    machine = task.machines[agent]
    closed: list[list[str]] = [[] for _ in machine.states]
    for region, gate in task.gates[agent].items():
        key = f"gates.{region}.{agent}"
        for event in gate.events:
            if event not in machine.events:
                does = "opens" if event in gate.opens else "closes"
                raise TaskError(f"{event}, which {does} the gate, must be in the local event set of {agent}", key=key)
        for state in np.flatnonzero(~is_open(machine, gate, key)).tolist():
            closed[state].append(region)
    return closed


def is_open(machine: RewardMachine, gate: Gate, key: str) -> NDArray[np.bool_]:
    """For each state: whether the last event of a gate to happen has opened it.

    It is the same on all traces to the state, or it is an error, unless the state is final: then it counts as closed,
    as does what no trace reaches.
    """
    if gate == CLOSED:
        return np.zeros(len(machine.states), np.bool_)
    after = dict.fromkeys(gate.opens, True) | dict.fromkeys(gate.closes, False)

    def moves(here: tuple[str, bool]) -> Iterator[tuple[str, tuple[str, bool]]]:
        for event, target in machine.moves.get(here[0], {}).items():
            yield event, (target, after.get(event, here[1]))

    ways = search_tree((machine.initial, bool(gate.starts_open)), moves)  # to states, with the gate open or closed
    told = {opened for _, opened in ways}
    for opened, does, events in ((True, "open", gate.opens), (False, "close", gate.closes)):
        if opened not in told:
            why = f"{events[0]} never happens" if len(events) == 1 else f"none of {', '.join(events)} ever happens"
            why = why if events else "no event does that"
            raise TaskError(f"this gate can never {does}: {why} in the agent's machine", key=key)
    for state, opened in ways:
        if opened and (state, False) in ways and state not in machine.final:
            closed, open_ = (", ".join(path_to(ways, (state, seen))) or "nothing" for seen in (False, True))
            plain = isinstance(gate.short, str)
            what = f"whether {gate.short} has happened" if plain else "whether the gate is open"
            raise TaskError(f"a state must tell {what}, but {closed} and {open_} both lead to {state}", key=key)
    return np.array([(state, True) in ways and (state, False) not in ways for state in machine.states], np.bool_)
