"""How far is the lane kernel of DQPRM from plain C++ on the same tables?

    python bench/lanes.py [--rounds 7] [--out lanes.json]

Needs g++. Rivals take turns, in rounds of at least a second each; what counts is processor time, the median over
rounds, and the ratio. hocket is timed through `hk.train`, everything included but tests, and with them. C++ is timed
with the same bits as hocket (no fused multiplications), which are compared, and with whatever the compiler likes best.
"""

import argparse
import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

import hocket as hk
from hocket.learn.dqprm import DqprmBlock, DqprmSettings
from hocket.learn.kernels.dqprm import LANES

TASKS = ("rendezvous-2", "buttons")
SEEDS = 16
SOURCE = Path(__file__).with_name("lanes.cpp")
FLAGS = {"C++, same bits": ["-ffp-contract=off"], "C++, fused multiplications": []}
ROUND = 1.0  # seconds of processor time, at least


class CTables(ctypes.Structure):
    """The struct `Tables` of lanes.cpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("next_cell", "dynamics", "kind", "limit")),
        *((name, ctypes.c_void_p) for name in ("next_state", "reward", "is_final")),
        *((name, ctypes.c_int32) for name in ("distinct", "cells", "outcomes", "start", "initial")),
    ]


class CRule(ctypes.Structure):
    """The struct `Rule` of lanes.cpp."""

    _fields_ = [
        *((name, ctypes.c_float) for name in ("rate", "rate_decay", "beta", "beta_growth", "discount")),
        ("episode_steps", ctypes.c_int64),
        ("slip_limit", ctypes.c_uint32),
    ]


def build(folder: Path, number: int, flags: list[str]) -> ctypes.CDLL:
    """Compile lanes.cpp."""
    path = folder / f"lanes{number}.so"
    options = ["-O3", "-march=native", "-fno-trapping-math", *flags, "-shared", "-fPIC", "-o", str(path), str(SOURCE)]
    subprocess.run(["g++", *options], check=True)
    return ctypes.CDLL(str(path))


class Rival:
    """All seeds of a task in C++, sixteen lanes at a time."""

    def __init__(self, library: ctypes.CDLL, task: hk.Task) -> None:
        self.block = DqprmBlock(hk.compile_task(task), DqprmSettings(), range(SEEDS))
        self.library, own, rule = library, self.block.tables, self.block.rule
        self.lanes = self.block.lanes
        self.clock = np.zeros(len(self.lanes.agent), np.int64)
        arrays = (own.next_cell, own.dynamics, own.kind, own.limit, own.next_state, own.reward, own.is_final)
        self.tables = (CTables * len(own.start))(
            *(
                CTables(
                    *(array[agent].ctypes.data for array in arrays),
                    int(own.distinct[agent]),
                    own.kind.shape[1],
                    own.next_state.shape[2],
                    int(own.start[agent]),
                    int(own.initial[agent]),
                )
                for agent in range(len(own.start))
            )
        )
        self.rule = CRule(*map(float, rule.schedule), float(rule.discount), rule.episode_steps, own.slip_limit)

    def train(self, steps: int) -> None:
        """Train from the beginning."""
        lanes = self.lanes
        for first in range(0, len(lanes.agent), LANES):
            arrays = (lanes.q, lanes.cell, lanes.state, self.clock, lanes.key)
            places = [ctypes.c_void_p(array[first:].ctypes.data) for array in arrays]
            agents = ctypes.c_void_p(lanes.agent[first:].ctypes.data)
            span = (ctypes.c_int64(0), ctypes.c_int64(steps))
            self.library.train_lanes(lanes.q.shape[3], *places, self.tables, agents, ctypes.byref(self.rule), *span)


def timed(work: Callable[[int], object], steps: int) -> float:
    """Measure how many training steps of a lane a second of processor time makes, over a round."""
    begin, done = time.process_time(), 0
    while (taken := time.process_time() - begin) < ROUND:
        work(steps)
        done += steps
    return done / taken


def compare(name: str, libraries: dict[str, ctypes.CDLL], rounds: int) -> dict[str, float]:
    """Measure all rivals in turn; return millions of agent-steps per second of processor time."""
    task, steps = hk.load_task(name), 200_000
    for library in list(libraries.values())[:1]:
        rival, block = Rival(library, task), DqprmBlock(hk.compile_task(task), DqprmSettings(), range(SEEDS))
        rival.train(20_000)
        block.train(0, 20_000)
        assert np.array_equal(rival.lanes.q, block.lanes.q), "C++ has learnt something else"

    def train(steps: int, test_every: int) -> None:
        hk.train(task, "dqprm", seeds=SEEDS, steps=steps, threads=1, changes={"test_every": test_every})

    works: dict[str, Callable[[int], object]] = {
        **{
            title: (lambda steps, library=library: Rival(library, task).train(steps))
            for title, library in libraries.items()
        },
        "hk.train, tested once": lambda steps: train(steps, steps),
        "hk.train, tested every 1,000 steps": lambda steps: train(steps, 1_000),
    }
    found: dict[str, list[float]] = {title: [] for title in works}
    for work in works.values():
        work(1_000)
    for _ in range(rounds):
        for title, work in works.items():
            found[title].append(timed(work, steps) * SEEDS * len(task.agents) / 1e6)
    return {title: median(own) for title, own in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        libraries = {title: build(Path(folder), place, own) for place, (title, own) in enumerate(FLAGS.items())}
        results = {name: compare(name, libraries, options.rounds) for name in TASKS}
    print(f"M agent-steps per second of processor time, {SEEDS} seeds, one thread; load {os.getloadavg()[0]:.1f}")
    for name, own in results.items():
        for title, speed in own.items():
            print(f"{name:14} {speed:7.1f}  {speed / own[next(iter(FLAGS))]:5.2f}  {title}")
    if options.out is not None:
        options.out.write_text(json.dumps({"load": os.getloadavg(), "speeds": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
