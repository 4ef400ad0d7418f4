"""How far is the lane kernel of DQPRM from plain C++ on the same tables?

    python bench/lanes.py [--cpu znver3] [--out lanes.json]

`--cpu` compiles both for a processor with fewer instructions than this one: on one with AVX-512, znver3 or haswell show
how they do with AVX2. Needs g++. Rivals take turns, in rounds of at least a second each; what counts is processor time,
the median over rounds, and the ratio. hocket is timed through `hk.train`, everything included but tests, and with them.
C++ is timed with the same bits as hocket (no fused multiplications), which are compared, and with whatever the compiler
likes best.
"""

import argparse
import ctypes
import json
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import numba
import numpy as np

import hocket as hk
from hocket.learn.benchmark import processor_times
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.dqprm.block import DqprmBlock
from hocket.learn.dqprm.kernel import LANES
from hocket.task.tables import compile_task

TASKS = ("rendezvous-2", "buttons")
SEEDS = 16
SOURCE = Path(__file__).with_name("lanes.cpp")
SAME = "C++, same bits"
FLAGS = {SAME: ["-ffp-contract=off"], "C++, fused multiplications": []}
STEPS = 200_000  # of each lane


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
        ("max_episode_steps", ctypes.c_int64),
        ("slip_limit", ctypes.c_uint32),
    ]


def build(folder: Path, number: int, cpu: str, flags: list[str]) -> ctypes.CDLL:
    """Compile lanes.cpp for a processor."""
    path = folder / f"lanes{number}.so"
    options = ["-O3", f"-march={cpu}", "-fno-trapping-math", *flags, "-shared", "-fPIC", "-o", str(path), str(SOURCE)]
    subprocess.run(["g++", *options], check=True)
    return ctypes.CDLL(str(path))


class Rival:
    """All seeds of a task in C++, sixteen lanes at a time."""

    def __init__(self, library: ctypes.CDLL, task: hk.Task) -> None:
        self.block = DqprmBlock(compile_task(task), DqprmSettings(), range(SEEDS))
        self.library, own, rule = library, self.block.tables, self.block.rule
        self.lanes = self.block.lanes
        self.clock = np.zeros(len(self.lanes.agent), np.int64)
        arrays = (own.dynamics, own.kind, own.limit, own.next_state, own.reward, own.is_final)
        self.tables = (CTables * len(own.initial))(
            *(
                CTables(
                    own.next_cell[own.world[agent]].ctypes.data,
                    *(array[agent].ctypes.data for array in arrays),
                    int(own.distinct[agent]),
                    own.kind.shape[1],
                    own.next_state.shape[2],
                    int(self.lanes.start_cell[own.first_start[agent]]),
                    int(own.initial[agent]),
                )
                for agent in range(len(own.initial))
            )
        )
        self.rule = CRule(*map(float, rule[:5]), rule.max_episode_steps, own.slip_limit)

    def train(self, steps: int) -> None:
        """Train from the beginning."""
        lanes = self.lanes
        for first in range(0, len(lanes.agent), LANES):
            arrays = (lanes.q, lanes.cell, lanes.state, self.clock, lanes.key)
            places = [ctypes.c_void_p(array[first:].ctypes.data) for array in arrays]
            agents = ctypes.c_void_p(lanes.agent[first:].ctypes.data)
            span = (ctypes.c_int64(0), ctypes.c_int64(steps))
            self.library.train_lanes(lanes.q.shape[3], *places, self.tables, agents, ctypes.byref(self.rule), *span)


def check_bits(library: ctypes.CDLL, task: hk.Task) -> None:
    """Require that C++ learns the same, to the last bit."""
    rival, block = Rival(library, task), DqprmBlock(compile_task(task), DqprmSettings(), range(SEEDS))
    rival.train(20_000)
    block.train(0, 20_000)
    if not np.array_equal(rival.lanes.q, block.lanes.q):
        raise SystemExit(f"{task.name}: C++ has learnt something else")


def compare(name: str, libraries: dict[str, ctypes.CDLL]) -> dict[str, float]:
    """Measure all rivals in turn; return millions of agent-steps per second of processor time."""
    task = hk.load_task(name)
    check_bits(libraries[SAME], task)
    lane_steps = float(STEPS * SEEDS * len(task.agents))

    def train(test_every: int) -> float:
        hk.train(task, "dqprm", seeds=SEEDS, steps=STEPS, threads=1, settings={"test_every": test_every})
        return lane_steps

    def rival(library: ctypes.CDLL) -> float:
        Rival(library, task).train(STEPS)
        return lane_steps

    speeds = processor_times(
        {
            **{title: partial(rival, library) for title, library in libraries.items()},
            "hk.train, tested once": lambda: train(STEPS),
            "hk.train, tested every 1,000 steps": lambda: train(1_000),
        }
    )
    return {title: speed / 1e6 for title, speed in speeds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", default="native", help="a processor that g++ and LLVM know, such as znver3")
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.cpu != "native":  # before anything is compiled, and kept apart from what is
            numba.config.CPU_NAME, numba.config.CPU_FEATURES, numba.config.CACHE_DIR = options.cpu, "", folder
        libraries = {
            title: build(Path(folder), place, options.cpu, own) for place, (title, own) in enumerate(FLAGS.items())
        }
        results = {name: compare(name, libraries) for name in TASKS}
    print(f"M agent-steps per second of processor time, {SEEDS} seeds, one thread; load {os.getloadavg()[0]:.1f}")
    for name, own in results.items():
        for title, speed in own.items():
            print(f"{name:14} {speed:7.1f}  {speed / own[SAME]:5.2f}  {title}")
    if options.out is not None:
        options.out.write_text(json.dumps({"load": os.getloadavg(), "speeds": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
