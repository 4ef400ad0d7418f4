"""Notes on steps in which several events may happen: where their order matters, and which may repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from itertools import combinations, islice

import numpy as np

from hocket.machine.reward_machine import RewardMachine
from hocket.task.endless import Kinds
from hocket.task.settling import describe_cell
from hocket.task.task import Task

MOST_NOTES = 5  # of each kind


def order_notes(task: Task) -> list[str]:
    """Say where the order of events matters: two that an agent may propose at once, and that do not commute."""
    return _some(_order_notes(task), "The order of events matters in more places.")


def repeat_notes(task: Task) -> list[str]:
    """Say which events may happen several times in one step: possible again as soon as they have happened."""
    return _some(_repeat_notes(task), "More events may happen several times in one step.")


def _some(notes: Iterable[str], rest: str) -> list[str]:
    listed = list(islice(notes, MOST_NOTES + 1))
    return listed if len(listed) <= MOST_NOTES else [*listed[:MOST_NOTES], rest]


def _order_notes(task: Task) -> Iterator[str]:
    told: set[tuple[str, str]] = set()
    kinds = cache(partial(Kinds.of, task))
    for agent, machine in task.machines.items():
        for state, moves in machine.moves.items():
            for one, other in combinations(sorted(moves, key=task.event_numbers.__getitem__), 2):
                if (one, other) in told or _commute(machine, moves, one, other):
                    continue
                controllers = (task.events[one].keys() & task.events[other].keys()) | {agent}
                both = {name: kinds(name).where(one) & kinds(name).where(other) for name in controllers}
                if all(flags.any() for flags in both.values()):
                    told.add((one, other))
                    _, cell = kinds(agent).example(int(np.argmax(both[agent])), task.grid.floor_cells)
                    where = describe_cell(task, cell)
                    yield (
                        f"The order of events matters: {agent} {where} in state {state} may propose {one} and {other}; "
                        f"{one} goes first, as in the file."
                    )


def _repeat_notes(task: Task) -> Iterator[str]:
    """Look for events that everyone who knows them can have twice in a row, each in some state of its machine."""
    again = {agent: _repeated(machine) for agent, machine in task.machines.items()}
    for event, knowers in task.knowers.items():
        if knowers and event not in task.edges and all(event in again[agent] for agent in knowers):
            yield (
                f"{event} may happen several times in one step, as no move is needed in between: {knowers[0]} in "
                f"state {again[knowers[0]][event]} proposes it, and then again."
            )


def _repeated(machine: RewardMachine) -> dict[str, str]:
    """List the events that can happen twice in a row, with the first state in which they can."""
    first_state: dict[str, str] = {}
    for (state, event), target in machine.transitions.items():
        if (target, event) in machine.transitions:
            first_state.setdefault(event, state)
    return first_state


def _commute(machine: RewardMachine, moves: Mapping[str, str], one: str, other: str) -> bool:
    """Say whether two events of a state lead to the same state in either order."""
    ends = machine.step(moves[one], other), machine.step(moves[other], one)
    return ends[0] is not None and ends[0] == ends[1]
