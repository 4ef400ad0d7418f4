"""How fast is it here? Training and testing against a straightforward loop, in one run on one machine.

What counts is processor time, for other programs take their share of any other. Rivals take turns, in several rounds of
a second or so each, and the median over rounds is what a rival has to show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hocket.learn.dqprm import LEARNER
from hocket.learn.learner import Arrays, Block
from hocket.learn.settings import Settings
from hocket.machine.composition import compose
from hocket.machine.decomposition import decompose
from hocket.task.catalogue import load_task
from hocket.task.episode import SYNC_PROBABILITY
from hocket.task.individual import individual_table
from hocket.task.tables import Tables, compile_task

SEEDS = 16  # side by side
STEPS = 20_000  # of one seed, between two looks at the clock
ROUNDS = 5
ROUND = 1.0  # seconds of processor time, at least
EDGE = 1e-12  # past the sum of chances, which rounding may leave below 1


@dataclass(frozen=True)
class Measurement:
    """How fast something is, and how that compares with the straightforward loop."""

    what: str
    per_second: float  # agent-steps, of processor time
    ratio: float


def _straightforward(
    next_cell: NDArray[np.int16],  # [U, S, A, K]
    offset: NDArray[np.int32],  # [S] of the cell before a step: with the cell after it, its arrival
    next_state: NDArray[np.int16],  # [U, arrivals, J]
    reward: NDArray[np.float32],  # [U, arrivals, J]
    limit: NDArray[np.float64],  # [U, arrivals, J] up to which a draw leads to an outcome
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
        for machine_state in range(q.shape[0]):
            if not is_final[machine_state]:
                end = next_cell[machine_state, cell, action, outcome]
                case, arrival = 0, offset[cell] + end
                while ready >= limit[machine_state, arrival, case]:
                    case += 1
                target = next_state[machine_state, arrival, case]
                goal = reward[machine_state, arrival, case]
                if not is_final[target]:
                    goal += 0.9 * q[target, end].max()
                q[machine_state, cell, action] += 0.8 * (goal - q[machine_state, cell, action])
                if machine_state == state:
                    new_cell, new_state = end, target
        cell, state, clock = new_cell, new_state, clock + 1
        if is_final[state] or clock >= 1000:
            cell, state, clock = start, initial, 0
    return q


straightforward: Callable[..., NDArray[np.float32]] = njit(nogil=True)(_straightforward)


def processor_times(
    works: Mapping[str, Callable[[], float]], clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Let rivals take turns; return how much each gets done in a second of processor time, the median over rounds."""
    for work in works.values():
        work()  # which compiles it
    speeds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            begin, done, taken = clock(), 0.0, 0.0
            while taken < ROUND:
                done += work()
                taken = clock() - begin
            speeds[name].append(done / taken)
    return {name: median(rounds) for name, rounds in speeds.items()}


def measure_learning(name: str) -> list[Measurement]:
    """Measure training one seed and many, and team tests, on a task; one thread each."""
    task = load_task(name)
    tables, settings, learner = compile_task(task), LEARNER.settings(), LEARNER.name
    agents = len(task.agents)
    one, many = (LEARNER.block(tables, settings, list(range(count)), 1) for count in (1, SEEDS))
    many.train(0, 10 * STEPS)

    def plain() -> float:
        for agent in range(agents):
            _plain(tables, agent, STEPS)
        return STEPS * agents

    def train(block: Block, seeds: int) -> float:
        block.train(0, STEPS)
        return STEPS * agents * seeds

    first = f"{name}: straightforward loop, one lane at a time"
    speeds = processor_times(
        {
            first: plain,
            f"{name}: {learner}, one seed": lambda: train(one, 1),
            f"{name}: {learner}, {SEEDS} seeds side by side": lambda: train(many, SEEDS),
            f"{name}: team tests": _tests(tables, many.arrays(0), settings),
        }
    )
    return [Measurement(what, speed, speed / speeds[first]) for what, speed in speeds.items()]


def _plain(tables: Tables, agent: int, steps: int) -> NDArray[np.float32]:
    table = individual_table(tables, agent, SYNC_PROBABILITY)
    return straightforward(
        table.next_cell[table.dynamics],
        table.offset,
        np.ascontiguousarray(table.next_state[:, table.kind]),
        table.reward[:, table.kind].astype(np.float32),
        np.where(table.chance > 0, table.chance.cumsum(axis=2) + EDGE, 2.0)[:, table.kind],
        table.is_final,
        int(table.starts[0]),
        table.initial,
        table.slip,
        agent,
        steps,
    )


def _tests(tables: Tables, arrays: Arrays, settings: Settings) -> Callable[[], float]:
    player = LEARNER.player(tables, settings.temperature, settings.max_episode_steps)

    def play() -> float:
        steps = player.play_many(arrays, 0, range(500), greedy=False).steps
        return float(np.where(steps < 0, settings.max_episode_steps, steps).sum()) * len(tables.start)

    return play


def measure_algebra(agents: int) -> float:
    """Time the decomposition of a rendezvous with all its states, in seconds of processor time."""
    task = load_task(f"rendezvous-{agents}")
    machine = compose(*task.machines.values())

    def work() -> float:
        decompose(machine, task.knows)
        return 1.0

    return 1 / processor_times({"": work})[""]
