"""In how many rounds a step settles at most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.endless import Kinds
from hocket.task.tables import compile_task
from hocket.task.task import Task

MOST_UNROLLED = 256  # rounds, each of which is written out


def most_rounds(source: Task | Decomposition) -> int:
    """Bound the rounds of a step in which something happens.

    Of a decomposition each event happens at most once in a step, and of a task each edge. Of a task a round moves at
    least one machine, and a machine in one place goes at most as far, between two edges, as its longest path of other
    events that are possible there; where it could go in circles as teammates let it, the team machine never comes to
    the same state twice between two edges.
    """
    if isinstance(source, Decomposition):
        return max(1, len(source.machine.events))
    compile_task(source)  # which refuses tasks in which a step never settles
    longest = [_longest_path(source, agent) for agent in source.agents]
    team = source.machine
    joint = team.most_states if isinstance(team, Composition) else len(team.states)
    paths = [steps for steps in longest if steps is not None]
    edges = len(source.edges)
    most = joint - 1 if not edges else (edges + 1) * joint
    rounds = min(most, sum(paths)) if len(paths) == len(longest) else most
    if rounds > MOST_UNROLLED:
        raise TaskError(f"a step could need {rounds:,} rounds: say how many are enough (rounds=)", key="machine")
    return max(1, rounds)


def _longest_path(task: Task, agent: str) -> int | None:
    """Count the transitions of a longest path of an agent's machine in one place; None where it may go in circles."""
    machine, kinds = task.machines[agent], Kinds.of(task, agent)
    if not len(machine.graph.source):
        return 0
    where = np.stack([kinds.where(event) for event in machine.events])  # [events, kinds]
    is_edge = np.array([event in task.edges for event in machine.events])
    longest = 0
    for allowed in np.unique(where.T, axis=0):
        edges = int((allowed & is_edge).sum())
        steps = _longest_walk(machine, (allowed & ~is_edge)[machine.graph.label])
        if steps is None:
            return None
        longest = max(longest, steps + edges * (steps + 1))
    return longest


def _longest_walk(machine: RewardMachine, is_allowed: NDArray[np.bool_]) -> int | None:
    """Count the transitions of a longest walk along some of a machine's; None: one never ends."""
    source, target = machine.graph.source[is_allowed], machine.graph.target[is_allowed]
    steps = np.zeros(len(machine.states), np.int64)
    for _ in range(len(machine.states)):
        longer = np.zeros_like(steps)
        np.maximum.at(longer, source, steps[target] + 1)
        if np.array_equal(longer, steps):
            return int(steps.max())
        steps = longer
    return None
