"""Gates: in which states of an agent's machine is a region closed to it?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.graphs import path_to, search_tree
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import CLOSED, Gate
from hocket.task.task import Task

Flagged = tuple[str, bool]  # a state, and whether a flag is set in it, as that a gate is open


def closed_cells(task: Task, agent: str) -> list[frozenset[int]]:
    """For each state of an agent's machine: the cells that gates close to it."""
    places, made = task.grid.places, dict[tuple[str, ...], frozenset[int]]()
    for regions in (closed := [tuple(regions) for regions in closed_regions(task, agent)]):
        if regions not in made:
            made[regions] = frozenset().union(*(places[region] for region in regions))
    return [made[regions] for regions in closed]


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
    ways = reached_with(machine, bool(gate.starts_open), gate.opens, gate.closes)
    told = {opened for _, opened in ways}
    if True not in told:
        raise TaskError(f"this gate can never open: {_never(gate.opens)} in the agent's machine", key=key)
    if False not in told:
        raise TaskError(f"this gate can never close: {_never(gate.closes)} in the agent's machine", key=key)
    for state, opened in ways:
        if opened and (state, False) in ways and state not in machine.final:
            closed, open_ = (", ".join(path_to(ways, (state, seen))) or "nothing" for seen in (False, True))
            plain = isinstance(gate.short, str)
            what = f"whether {gate.short} has happened" if plain else "whether the gate is open"
            raise TaskError(f"a state must tell {what}, but {closed} and {open_} both lead to {state}", key=key)
    return np.array([(state, True) in ways and (state, False) not in ways for state in machine.states], np.bool_)


def reached_with(
    machine: RewardMachine, is_set: bool, sets: Collection[str], clears: Collection[str] = ()
) -> dict[Flagged, tuple[Flagged, str] | None]:
    """Search a machine together with a flag that some events set and others clear: which states are reached with it.

    The tree has the shortest traces; `hocket.graphs.path_to` reads one off.
    """
    after = dict.fromkeys(sets, True) | dict.fromkeys(clears, False)

    def moves(here: Flagged) -> Iterator[tuple[str, Flagged]]:
        for event, target in machine.moves.get(here[0], {}).items():
            yield event, (target, after.get(event, here[1]))

    return search_tree((machine.initial, is_set), moves)


def _never(events: Sequence[str]) -> str:
    if not events:
        return "no event does that"
    return f"{events[0]} never happens" if len(events) == 1 else f"none of {', '.join(events)} ever happens"
