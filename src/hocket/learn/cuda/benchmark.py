"""How fast is the device? Training and tests of many seeds at once, beside one core of the processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hocket.learn.benchmark import SEEDS, STEPS, Measurement, processor_times
from hocket.learn.cuda.block import DeviceBlock, DeviceJob
from hocket.learn.cuda.device import device_name, require_device
from hocket.learn.cuda.training import find_block
from hocket.learn.dqprm import LEARNER
from hocket.learn.learner import Block
from hocket.task.catalogue import load_task
from hocket.task.tables import compile_task

LANES = (65_536, 262_144)  # side by side
PRACTICE = 50_000  # steps before anything is measured, for those who know the way have shorter episodes


@dataclass(frozen=True)
class DeviceMeasurements:
    """How fast a device is on a task, and whether it learns what the processor learns, to the last bit."""

    device: str
    speeds: tuple[Measurement, ...]  # those of the device by its clock; ratios to one core
    same_bits: bool


def measure_device(name: str) -> DeviceMeasurements:
    """Measure training and team tests on the device, and training on one core."""
    require_device()
    task = load_task(name)
    tables, settings, agents = compile_task(task), LEARNER.settings(), len(task.agents)
    block: Block = LEARNER.block(tables, settings, list(range(SEEDS)), 1)
    block.train(0, PRACTICE)
    learnt = [block.arrays(seed)["q"].copy() for seed in range(SEEDS)]

    def train() -> float:
        block.train(PRACTICE, STEPS)
        return float(STEPS * agents * SEEDS)

    core = f"{name}: {LEARNER.name}, {SEEDS} seeds on one core of the processor"
    speeds, same = processor_times({core: train}), True
    for lanes in LANES:
        many = find_block(LEARNER.name)(
            tables, [DeviceJob(settings, seed) for seed in range(max(SEEDS, lanes // agents))]
        )
        many.train(0, PRACTICE)
        same = same and all(np.array_equal(many.arrays(seed)["q"], learnt[seed]) for seed in range(SEEDS))
        what = f"{name}: {LEARNER.name}, {len(many.seeds) * agents:,} lanes"
        speeds |= processor_times({what: _training(many, agents)}, time.perf_counter)
    what = f"{name}: team tests, {2 * len(many.seeds):,} episodes"
    speeds |= processor_times({what: _tests(many, settings.max_episode_steps, agents)}, time.perf_counter)
    rows = tuple(Measurement(what, speed, speed / speeds[core]) for what, speed in speeds.items())
    return DeviceMeasurements(device_name(), rows, same)


def _training(block: DeviceBlock, agents: int) -> Callable[[], float]:
    def train() -> float:
        block.train(PRACTICE, STEPS)
        return float(STEPS * len(block.seeds) * agents)

    return train


def _tests(block: DeviceBlock, most_steps: int, agents: int) -> Callable[[], float]:
    def play() -> float:
        taken = np.concatenate([results.steps for results in block.play(range(1))])
        return float(np.where(taken < 0, most_steps, taken).sum()) * agents

    return play
