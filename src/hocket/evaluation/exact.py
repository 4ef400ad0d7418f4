"""The exact success and duration of a team's task, by solving the Markov chain of all agents together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import bicgstab

from hocket.errors import SettingsError
from hocket.learn.catalogue import find_learner, names_that_look_at
from hocket.learn.learner import LooksAt
from hocket.learn.policies import Policy
from hocket.task.grid import OUTCOMES, outcome_chances
from hocket.task.tables import Tables, compile_task, synchronized
from hocket.task.task import Task

MOST_STATES = 300_000  # of the joint chain
TOGETHER = 4_096  # joint moves that are looked at at once
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Exact:
    """The solution of a team's Markov chain."""

    states: int
    success: float  # V: the probability that the task is completed at all
    mean_steps: float  # expected steps to completion; infinite if it may never come


def solve_team(task: Task, policy: Policy, *, greedy: bool = False) -> Exact:
    """Compute V and the expected completion time under a policy that goes by cells and machine states."""
    if policy.digest != task.digest:
        raise SettingsError(f"this policy belongs to another task ({policy.task}, or another version of it)")
    fitting = names_that_look_at(LooksAt.MACHINE)
    if policy.learner not in fitting:
        raise SettingsError(f"the chain is solved for policies of {' and '.join(fitting)}, got {policy.learner}")
    tables = compile_task(task)
    find_learner(policy.learner).check_arrays(policy.arrays, tables)
    moves = [_moves(tables, agent, policy, greedy) for agent in range(len(tables.start))]
    source, target, weight, count = _explore(tables, moves)
    return _solve(source, target, weight, count)


Moves = dict[tuple[int, int], list[tuple[int, float]]]  # (cell, machine state) -> where it moves, with chances


def _moves(tables: Tables, agent: int, policy: Policy, greedy: bool) -> Moves:
    """Tabulate where an agent moves under its policy."""
    q = np.asarray(policy.arrays["q"], np.float64)[agent]  # [S, A, U]
    if greedy:
        weights = (q == q.max(axis=1, keepdims=True)).astype(np.float64)
    else:
        weights = np.exp((q - q.max(axis=1, keepdims=True)) / float(policy.settings["temperature"]))
    chance = weights / weights.sum(axis=1, keepdims=True)
    slips = outcome_chances(tables.slip)
    moves: Moves = {}
    for state in range(int(tables.states[agent])):
        table = tables.next_cell[agent, tables.dynamics[agent, state]]
        for cell in range(q.shape[0]):
            ends: dict[int, float] = {}
            for action, outcome in product(range(q.shape[1]), range(OUTCOMES)):
                end = int(table[cell, action, outcome])
                ends[end] = ends.get(end, 0.0) + chance[cell, action, state] * slips[outcome]
            moves[cell, state] = [(end, own) for end, own in ends.items() if own > 0]
    return moves


Joint = tuple[tuple[int, int], ...]  # (cell, machine state) of each agent


def _explore(tables: Tables, moves: list[Moves]) -> tuple[list[int], list[int], list[float], int]:
    """List the transitions between the joint states that can be reached; the completed task is state -1."""
    start = tuple(zip(tables.start.tolist(), tables.initial.tolist(), strict=True))
    number = {start: 0}
    queue = [start]
    source: list[int] = []
    target: list[int] = []
    weight: list[float] = []
    if tables.is_final[np.arange(len(start)), tables.initial].all():
        return source, target, weight, 0
    for position, joint in enumerate(queue):
        for after, chance, done in _following(tables, joint, moves):
            source.append(position)
            weight.append(chance)
            if done:
                target.append(-1)
                continue
            index = number.setdefault(after, len(queue))
            if index == len(queue):
                queue.append(after)
                if len(queue) > MOST_STATES:
                    raise SettingsError(f"the joint chain has more than {MOST_STATES:,} states; estimate it instead")
            target.append(index)
    return source, target, weight, len(queue)


def _following(tables: Tables, joint: Joint, moves: list[Moves]) -> Iterator[tuple[Joint, float, bool]]:
    """List where the agents' moves lead from a joint state, with chances, and whether the task is then completed."""
    agents, states = np.arange(len(joint)), np.array([state for _, state in joint])
    choices = product(*(own[place] for own, place in zip(moves, joint, strict=True)))
    while part := list(islice(choices, TOGETHER)):
        ends = np.array([[end for end, _ in choice] for choice in part])  # [choices, N]
        chance = np.prod([[own for _, own in choice] for choice in part], axis=1)
        happens = synchronized(tables.event[agents, states, ends], tables.knowers)
        after = np.where(happens, tables.next_state[agents, states, ends], states)
        done: NDArray[np.bool_] = np.all(tables.is_final[agents, after], axis=1)
        pairs = np.stack([ends, after], axis=2).tolist()
        yield from zip((tuple(map(tuple, row)) for row in pairs), chance.tolist(), done.tolist(), strict=True)


def _solve(source: list[int], target: list[int], weight: list[float], count: int) -> Exact:
    """Solve for the chance of completion and the expected time, from each state; report the first."""
    if count == 0:
        return Exact(0, 1.0, 0.0)
    ends, chances, starts = np.array(target), np.array(weight), np.array(source)
    stays = ends >= 0
    chain = csr_array((chances[stays], (starts[stays], ends[stays])), shape=(count, count))
    finish = np.zeros(count)
    np.add.at(finish, starts[~stays], chances[~stays])
    doomed = ~_can_finish(chain, finish > 0)
    matrix = eye_array(count, format="csr") - chain
    success = _linear(matrix, chain, finish, doomed)
    if success[0] < 1 - 1e-9:
        return Exact(count, float(success[0]), float("inf"))
    time = _linear(matrix, chain, np.ones(count), doomed)
    return Exact(count, min(1.0, float(success[0])), float(time[0]))


def _can_finish(chain: csr_array, last: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Flag the states from which completion can be reached."""
    can = last.copy()
    while True:
        more = can | (chain @ can.astype(np.float64) > 0)
        if (more == can).all():
            return can
        can = more


def _linear(
    matrix: csr_array, chain: csr_array, right: NDArray[np.float64], doomed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Solve (1 - P) x = b over the states that can finish; where the solver gives up, iterate."""
    kept = np.flatnonzero(~doomed)
    full = np.zeros(len(doomed))
    if len(kept) == 0:
        return full
    small = matrix[kept][:, kept]
    found, failed = bicgstab(small, right[kept], rtol=TOLERANCE, atol=0.0, maxiter=10_000)
    if failed or np.abs(small @ found - right[kept]).max() > 1e-8:
        part = chain[kept][:, kept]
        for _ in range(1_000_000):
            better = part @ found + right[kept]
            if np.abs(better - found).max() < TOLERANCE:
                break
            found = better
    full[kept] = found
    return full
