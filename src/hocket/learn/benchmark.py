"""Training and test speeds, compared with a straightforward loop in the same run on one machine; speeds of devices.

Processor time is measured, as other programs run, too. What is compared takes turns, in rounds of a second or so, and
the median over rounds counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from numba import njit

from hocket.learn.dqprm import LEARNER
from hocket.learn.kernels.arrays import Floats
from hocket.learn.settings import Settings
from hocket.learn.testing import TestResults
from hocket.machine.composition import compose
from hocket.machine.decomposition import decompose
from hocket.task.catalogue import load_task
from hocket.task.episode import SYNC_PROBABILITY
from hocket.task.individual import IndividualTable, individual_table
from hocket.task.tables import Tables, compile_task

SEEDS = 16  # that train together
STEPS = 20_000  # of one seed, between two readings of the clock
ROUNDS = 5
ROUND = 1.0  # seconds of processor time, at least
DEVICE_LANES = (65_536, 262_144)  # on a device
PRACTICE = 50_000  # steps before measurements there, as trained agents have shorter episodes
EDGE = 1e-12  # added to sums of probabilities, which rounding may leave below 1


@dataclass(frozen=True)
class Measurement:
    """A speed, and its ratio to that of the straightforward loop."""

    what: str
    per_second: float  # agent-steps, of processor time
    ratio: float


@dataclass(frozen=True)
class DeviceMeasurements:
    """The speeds of a device on a task, and whether it learns the same as the CPU, bit for bit."""

    device: str
    speeds: tuple[Measurement, ...]  # of the device in real time; ratios to one core
    same_bits: bool


@njit(nogil=True)
def straightforward(table: IndividualTable, seed: int, steps: int) -> Floats:
    """Train one lane without optimisation: numpy's generator, one exponential per action. In `table`, `next_cell` is by
    machine state, the rest by arrival, and `chance` is cumulative."""
    next_cell, next_state, reward, limit = table.next_cell, table.next_state, table.reward, table.chance
    is_final, offset, slip = table.is_final, table.offset, table.slip
    start, initial = table.starts[0], table.initial
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
        mark, action, passed = np.random.random() * total, 0, weight[0]
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
                after, target = next_state[machine_state, arrival, case], reward[machine_state, arrival, case]
                if not is_final[after]:
                    target += 0.9 * q[after, end].max()
                q[machine_state, cell, action] += 0.8 * (target - q[machine_state, cell, action])
                if machine_state == state:
                    new_cell, new_state = end, after
        cell, state, clock = new_cell, new_state, clock + 1
        if is_final[state] or clock >= 1000:
            cell, state, clock = start, initial, 0
    return q


def processor_times(
    works: Mapping[str, Callable[[], float]], clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Return how much each function gets done in a second of processor time, as the median over rounds in turn."""
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
    agents = range(len(task.agents))
    one, many = (LEARNER.block(tables, settings, list(range(count)), 1) for count in (1, SEEDS))
    many.train(0, 10 * STEPS)
    player = LEARNER.player(tables, settings.temperature, settings.max_episode_steps)
    play = partial(player.play_many, many.arrays(0), 0, range(500), greedy=False)
    first = f"{name}: straightforward loop, one lane at a time"
    works: dict[str, Callable[[], float]] = {
        first: lambda: STEPS * len([_plain(tables, agent, STEPS) for agent in agents]),
        f"{name}: {learner}, one seed": partial(_train, one.train, 0, len(agents)),
        f"{name}: {learner}, {SEEDS} seeds side by side": partial(_train, many.train, 0, len(agents) * SEEDS),
        f"{name}: team tests": lambda: _count_steps([play()], settings) * len(agents),
    }
    speeds = processor_times(works)
    return [Measurement(what, speed, speed / speeds[first]) for what, speed in speeds.items()]


def _train(train: Callable[[int, int], None], begin: int, lanes: int) -> float:
    """Train for `STEPS` steps; return the number of agent-steps."""
    train(begin, STEPS)
    return float(STEPS * lanes)


def _count_steps(tests: Iterable[TestResults], settings: Settings) -> float:
    """Count the steps of test episodes; a failure counts as the step limit."""
    steps = np.concatenate([results.steps for results in tests])
    return float(np.where(steps < 0, settings.max_episode_steps, steps).sum())


def _plain(tables: Tables, agent: int, steps: int) -> Floats:
    table = individual_table(tables, agent, SYNC_PROBABILITY)
    next_state = np.ascontiguousarray(table.next_state[:, table.kind])
    reward = table.reward[:, table.kind].astype(np.float32)
    limit = np.where(table.chance > 0, table.chance.cumsum(axis=2) + EDGE, 2.0)[:, table.kind]
    laid_out = table._replace(next_cell=table.next_cell[table.dynamics], next_state=next_state, reward=reward)
    return straightforward(laid_out._replace(chance=limit), agent, steps)


def measure_algebra(agents: int) -> float:
    """Time the decomposition of a rendezvous with all its states, in seconds of processor time."""
    task = load_task(f"rendezvous-{agents}")
    machine = compose(*task.machines.values())
    return 1 / processor_times({"": lambda: len([decompose(machine, task.knows)])})[""]


def measure_device(name: str) -> DeviceMeasurements:
    """Measure training and team tests on the device, and training on one core."""
    from hocket.learn.cuda.block import DeviceJob  # loads what few have
    from hocket.learn.cuda.device import device_name, require_device
    from hocket.learn.cuda.training import find_block

    require_device()
    task = load_task(name)
    tables, settings, agents = compile_task(task), LEARNER.settings(), len(task.agents)
    block = LEARNER.block(tables, settings, list(range(SEEDS)), 1)
    block.train(0, PRACTICE)
    learnt = [block.arrays(seed)["q"].copy() for seed in range(SEEDS)]
    core = f"{name}: {LEARNER.name}, {SEEDS} seeds on one core of the processor"
    speeds, same = processor_times({core: partial(_train, block.train, PRACTICE, agents * SEEDS)}), True
    for lanes in DEVICE_LANES:
        jobs = [DeviceJob(settings, seed) for seed in range(max(SEEDS, lanes // agents))]
        many = find_block(LEARNER.name)(tables, jobs)
        many.train(0, PRACTICE)
        same = same and all(np.array_equal(many.arrays(seed)["q"], learnt[seed]) for seed in range(SEEDS))
        what = f"{name}: {LEARNER.name}, {len(many.seeds) * agents:,} lanes"
        train = partial(_train, many.train, PRACTICE, agents * len(many.seeds))
        speeds |= processor_times({what: train}, time.perf_counter)
    what = f"{name}: team tests, {2 * len(many.seeds):,} episodes"
    speeds |= processor_times({what: lambda: _count_steps(many.play(range(1)), settings) * agents}, time.perf_counter)
    rows = tuple(Measurement(what, speed, speed / speeds[core]) for what, speed in speeds.items())
    return DeviceMeasurements(device_name(), rows, same)
