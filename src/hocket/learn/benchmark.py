"""How fast is it here? Training and testing against a straightforward loop, in one run on one machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hocket.learn.arrays import recording, team_state, team_tables
from hocket.learn.blocks import DqprmBlock
from hocket.learn.kernels import team
from hocket.learn.settings import DqprmSettings
from hocket.machine.composition import compose
from hocket.machine.decomposition import decompose
from hocket.task.catalogue import load_task
from hocket.task.tables import Tables, compile_task, sync_chances

LANES = 16  # seeds in lock step
STEPS = 200_000  # of one lane
REPEATS = 3


@dataclass(frozen=True)
class Measurement:
    """How fast something is, and how that compares with the straightforward loop."""

    what: str
    per_second: float  # agent-steps
    ratio: float


def _straightforward(
    next_cell: NDArray[np.int16],  # [U, S, A, K]
    next_state: NDArray[np.int16],  # [U, S]
    reward: NDArray[np.float32],
    chance: NDArray[np.float32],
    is_final: NDArray[np.bool_],
    start: int,
    initial: int,
    slip: float,
    seed: int,
    steps: int,
) -> NDArray[np.float32]:
    """Train one lane as one would write it down: numpy's generator, one exponential per action, no tricks."""
    np.random.seed(seed)
    q = np.zeros((next_cell.shape[0], next_cell.shape[1], 5), np.float32)
    weight = np.zeros(5)
    cell, state, clock = start, initial, 0
    for _ in range(steps):
        best = q[state, cell].max()
        total = 0.0
        for action in range(5):
            weight[action] = math.exp(50.0 * (q[state, cell, action] - best))
            total += weight[action]
        mark = np.random.random() * total
        action = 0
        passed = weight[0]
        while passed < mark and action < 4:
            action += 1
            passed += weight[action]
        slipped, ready = np.random.random(), np.random.random()
        outcome = 0 if slipped >= slip else 1 if slipped >= slip / 2 else 2
        new_cell, new_state = cell, state
        for own in range(q.shape[0]):
            if not is_final[own]:
                end = next_cell[own, cell, action, outcome]
                happens = ready < chance[own, end]
                target = next_state[own, end] if happens else own
                goal = reward[own, end] if happens else 0.0
                if not is_final[target]:
                    goal += 0.9 * q[target, end].max()
                q[own, cell, action] += 0.8 * (goal - q[own, cell, action])
                if own == state:
                    new_cell, new_state = end, target
        cell, state, clock = new_cell, new_state, clock + 1
        if is_final[state] or clock >= 1000:
            cell, state, clock = start, initial, 0
    return q


straightforward: Callable[..., NDArray[np.float32]] = njit(nogil=True)(_straightforward)


def best_time(work: Callable[[], object]) -> float:
    """Time the fastest of some runs, after one to warm up."""
    work()
    taken = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def measure_learning(name: str) -> list[Measurement]:
    """Measure DQPRM's training and its team tests on a task, one thread each."""
    task = load_task(name)
    tables = compile_task(task)
    agents = len(task.agents)
    plain = STEPS * agents / best_time(lambda: [_plain(tables, agent, STEPS) for agent in range(agents)])
    block = DqprmBlock(tables, DqprmSettings(), list(range(LANES)))
    together = STEPS * agents / best_time(lambda: block.train(0, STEPS // LANES))
    alone = DqprmBlock(tables, DqprmSettings(), [0])
    single = STEPS * agents / best_time(lambda: alone.train(0, STEPS))
    tested = _measure_tests(tables, np.ascontiguousarray(block.q[:, 0]))
    rows = {
        f"{name}: straightforward loop, one lane at a time": plain,
        f"{name}: dqprm, one lane": single,
        f"{name}: dqprm, {LANES} lanes in lock step": together,
        f"{name}: team tests": tested,
    }
    return [Measurement(what, speed, speed / plain) for what, speed in rows.items()]


def _plain(tables: Tables, agent: int, steps: int) -> NDArray[np.float32]:
    states = int(tables.states[agent])
    return straightforward(
        tables.next_cell[agent][tables.dynamics[agent, :states]],
        tables.next_state[agent, :states],
        tables.reward[agent, :states].astype(np.float32),
        sync_chances(tables, 0.3)[agent, :states].astype(np.float32),
        tables.is_final[agent, :states],
        int(tables.start[agent]),
        int(tables.initial[agent]),
        tables.slip,
        agent,
        steps,
    )


def _measure_tests(tables: Tables, q: NDArray[np.float32]) -> float:
    episodes, agents = 2_000, len(tables.start)
    steps, finish = np.zeros(episodes, np.int64), np.zeros((episodes, agents), np.int32)
    room, world, nothing = team_state(tables), team_tables(tables), recording(0, agents)

    def play() -> None:
        team.play_episodes(q, world, room, team.BY_MACHINE, np.float32(50), False, 0, 0, 1000, nothing, steps, finish)

    taken = best_time(play)
    return float(np.where(steps < 0, 1000, steps).sum()) * agents / taken


def measure_algebra(agents: int) -> float:
    """Time the decomposition of a rendezvous with all its states, in seconds."""
    task = load_task(f"rendezvous-{agents}")
    machine = compose(*task.machines.values())
    return best_time(lambda: decompose(machine, task.knows))
