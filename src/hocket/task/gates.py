"""Gates: in which states of an agent's machine is a region closed to it?"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.machine.reward_machine import RewardMachine
from hocket.task.task import Task


def closed_cells(task: Task, agent: str) -> list[frozenset[int]]:
    """For each state of an agent's machine: the cells that gates close to it."""
    return [
        frozenset(cell for region in regions for cell in task.grid.places[region])
        for regions in closed_regions(task, agent)
    ]


def closed_regions(task: Task, agent: str) -> list[list[str]]:
    """For each state of an agent's machine: the regions that are closed to it."""
    machine = task.machines[agent]
    closed: list[list[str]] = [[] for _ in machine.states]
    for region, event in task.agents[agent].gates.items():
        key = f"gates.{region}.{agent}"
        if event not in machine.events:
            raise TaskError(f"{event}, which opens the gate, must be in the local event set of {agent}", key=key)
        for state in np.flatnonzero(~has_happened(machine, event, key)).tolist():
            closed[state].append(region)
    return closed


def has_happened(machine: RewardMachine, event: str, key: str) -> NDArray[np.bool_]:
    """For each state: whether an event has happened before; the same on all traces to it, or it is an error."""
    start = (machine.initial, False)
    ways: dict[tuple[str, bool], tuple[str, ...]] = {start: ()}
    queue = deque([start])
    moves: dict[str, list[tuple[str, str]]] = {}
    for (source, name), target in machine.transitions.items():
        moves.setdefault(source, []).append((name, target))
    while queue:
        state, happened = here = queue.popleft()
        for name, target in moves.get(state, ()):
            there = (target, happened or name == event)
            if there not in ways:
                ways[there] = (*ways[here], name)
                queue.append(there)
    if not any(happened for _, happened in ways):
        raise TaskError(f"this gate can never open: {event} never happens in the agent's machine", key=key)
    for state, happened in ways:
        if happened and (state, False) in ways:
            without, with_it = (", ".join(ways[state, seen]) or "nothing" for seen in (False, True))
            raise TaskError(
                f"a state must tell whether {event} has happened, but {without} and {with_it} both lead to {state}",
                key=key,
            )
    return np.array([(state, True) in ways for state in machine.states], np.bool_)
