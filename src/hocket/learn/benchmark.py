"""How fast is it here? Training and testing against a straightforward loop, in one run on one machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hocket.learn.dqprm import LEARNER
from hocket.learn.episodes import recording
from hocket.learn.learner import Arrays
from hocket.learn.settings import Settings
from hocket.machine.composition import compose
from hocket.machine.decomposition import decompose
from hocket.task.catalogue import load_task
from hocket.task.episode import SYNC_PROBABILITY
from hocket.task.tables import Tables, compile_task, individual_table

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
    """Measure training lane by lane and in lock step, and team tests, on a task; one thread each."""
    task = load_task(name)
    tables, settings, learner = compile_task(task), LEARNER.settings(), LEARNER.name
    agents = len(task.agents)
    plain = STEPS * agents / best_time(lambda: [_plain(tables, agent, STEPS) for agent in range(agents)])
    block = LEARNER.block(tables, settings, list(range(LANES)), 1)
    together = STEPS * agents / best_time(lambda: block.train(0, STEPS // LANES))
    one = LEARNER.block(tables, settings, [0], 1)
    single = STEPS * agents / best_time(lambda: one.train(0, STEPS))
    tested = _measure_tests(tables, block.arrays(0), settings)
    rows = {
        f"{name}: straightforward loop, one lane at a time": plain,
        f"{name}: {learner}, one lane": single,
        f"{name}: {learner}, {LANES} lanes in lock step": together,
        f"{name}: team tests": tested,
    }
    return [Measurement(what, speed, speed / plain) for what, speed in rows.items()]


def _plain(tables: Tables, agent: int, steps: int) -> NDArray[np.float32]:
    table = individual_table(tables, agent, SYNC_PROBABILITY)
    return straightforward(
        table.next_cell[table.dynamics],
        table.next_state,
        table.reward.astype(np.float32),
        table.chance.astype(np.float32),
        table.is_final,
        table.start,
        table.initial,
        table.slip,
        agent,
        steps,
    )


def _measure_tests(tables: Tables, arrays: Arrays, settings: Settings) -> float:
    episodes, agents = 2_000, len(tables.start)
    steps, finish = np.zeros(episodes, np.int64), np.zeros((episodes, agents), np.int32)
    player, nothing = LEARNER.player(tables, settings.temperature, settings.episode_steps), recording(0, agents)
    taken = best_time(lambda: player.play_many(arrays, 0, 0, False, nothing, steps, finish))
    return float(np.where(steps < 0, settings.episode_steps, steps).sum()) * agents / taken


def measure_algebra(agents: int) -> float:
    """Time the decomposition of a rendezvous with all its states, in seconds."""
    task = load_task(f"rendezvous-{agents}")
    machine = compose(*task.machines.values())
    return best_time(lambda: decompose(machine, task.knows))
