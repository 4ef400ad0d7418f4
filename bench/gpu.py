"""What does a GPU bring? All figures of training on one, in one go.

    python bench/gpu.py

Needs an NVIDIA GPU and the extra cuda; on numba's simulator (NUMBA_ENABLE_CUDASIM=1) it tries itself with few runs, and
its figures mean nothing. It measures each learner that trains on a GPU, beside one core; what limits the kernels of
dqprm (registers, local memory, how many threads fit); 20,000 runs of *buttons* from the shell, and where that time
goes; and `sweep`, which trains on the processor, over as many runs.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hocket as hk
from hocket.learn.benchmark import measure_device
from hocket.learn.catalogue import find_learner
from hocket.learn.cuda import device
from hocket.learn.cuda.block import DeviceJob
from hocket.learn.cuda.training import find_block
from hocket.learn.dqprm.cuda import train_lanes
from hocket.study import running
from hocket.study.curves import CurveTable
from hocket.study.engines import DeviceEngine
from hocket.task.tables import compile_task

TRIED = device.SIMULATED  # whether it only tries itself
TASKS = ("rendezvous-2", "buttons")
TEAMS = {"iql": (20_000, 80_000), "cqrm": (2_000, 8_000)}  # runs of rendezvous-2 side by side
RUNS = 6 if TRIED else 20_000
STEPS = 120 if TRIED else 250_000
SWEEP_RUNS, SWEEP_STEPS = (2, 200) if TRIED else (2_000, 25_000)
ROUNDS = 1 if TRIED else 3


def clocked(work: Callable[[], object]) -> float:
    """Time something by the clock, until the device has done it."""
    begin = time.perf_counter()
    work()
    device.cuda.synchronize()
    return time.perf_counter() - begin


def show_speeds() -> None:
    """Print how fast dqprm and its tests are, beside one core, and the other learners of teams."""
    for name in TASKS:
        measured = measure_device(name)
        print(f"{measured.device}; the same bits as on the processor: {measured.same_bits}")
        for row in measured.speeds:
            print(f"  {row.per_second / 1e6:10,.1f} M agent-steps/s {row.ratio:8,.1f} x  {row.what}", flush=True)
    task = hk.load_task(TASKS[0])
    tables, steps = compile_task(task), 20 if TRIED else 1_000
    for learner, sizes in TEAMS.items():
        settings = find_learner(learner).settings()
        for runs in (4,) if TRIED else sizes:
            block = find_block(learner)(tables, [DeviceJob(settings, seed) for seed in range(runs)])
            block.train(0, steps)
            taken = min(clocked(lambda block=block: block.train(steps, steps)) for _ in range(ROUNDS))
            speed = steps * runs * len(task.agents) / taken
            print(f"  {speed / 1e6:10,.1f} M agent-steps/s            {TASKS[0]}: {learner}, {runs:,} runs", flush=True)
            del block


def show_limits() -> None:
    """Print what the kernels of dqprm need of the device, after they have run."""
    if TRIED:
        return
    about = device.cuda.get_current_device()
    threads = about.MAX_THREADS_PER_MULTIPROCESSOR
    for signature, registers in train_lanes.get_regs_per_thread().items():
        width, local = len(signature[0][1][-1]), train_lanes.get_local_mem_per_thread()[signature]
        fit = min(threads, about.MAX_REGISTERS_PER_MULTIPROCESSOR // max(1, registers) // 32 * 32)
        print(
            f"  kernel for {width} states: {registers} registers and {local} bytes of local memory a thread; "
            f"about {fit:,} of {threads:,} threads fit a multiprocessor, of which there are "
            f"{about.MULTIPROCESSOR_COUNT}"
        )


def show_study() -> None:
    """Print how long many runs take from the shell, and where the time goes in a process that has begun."""
    words = ["train", "buttons", "--device", "cuda", "--seeds", str(RUNS), "--steps", str(STEPS), "--out"]
    for number in range(1 if TRIED else 2):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "hocket", *words, folder]
            taken = clocked(lambda command=command: subprocess.run(command, check=True, capture_output=True))
            print(f"  {taken:6.1f} s  hocket {' '.join(words[:-1])}, time {number + 1}", flush=True)
    taken = clocked(lambda: subprocess.run([sys.executable, "-c", "import hocket.learn.cuda.training"], check=True))
    print(f"  {taken:6.1f} s  of which to import what it needs")
    seconds: Counter[str] = Counter()
    block = find_block("dqprm")

    def timed(owner: Any, name: str, what: str) -> None:
        plain = getattr(owner, name)

        def call(*args: object) -> object:
            begin = time.perf_counter()
            try:
                return plain(*args)
            finally:
                device.cuda.synchronize()
                seconds[what] += time.perf_counter() - begin

        setattr(owner, name, call)

    timed(block, "train", "training on the device")
    timed(block, "play", "tests on the device")
    timed(running, "keep_records", "writing records and policies")
    timed(CurveTable, "add", "rows of curves.csv")
    timed(CurveTable, "keep", "naming curves.csv")
    study = hk.Study([hk.load_task("buttons")], ["dqprm"], RUNS, STEPS, {"test_every": 60} if TRIED else {})
    with tempfile.TemporaryDirectory() as folder:
        results = []
        whole = clocked(lambda: results.append(hk.run_study(study, Path(folder), engine=DeviceEngine())))
        print(f"  {whole:6.1f} s  run_study with {RUNS:,} runs in this process")
        for what, taken in seconds.items():
            print(f"  {taken:6.1f} s    {what}")
        print(f"  {whole - seconds.total():6.1f} s    the rest")
        print(f"  {clocked(lambda: hk.summarize(results[0])):6.1f} s  the summary")


def show_sweep() -> None:
    """Print how long the default learner takes on the processor, which needs a tenth of the steps."""
    task = hk.load_task("buttons")
    hk.train(task, "sweep", seeds=2, steps=200)
    taken = clocked(lambda: hk.train(task, "sweep", seeds=SWEEP_RUNS, steps=SWEEP_STEPS))
    print(f"  {taken:6.1f} s  sweep on all cores: {SWEEP_RUNS:,} runs of buttons, {SWEEP_STEPS:,} steps, no folder")
    print(f"  {taken * RUNS / SWEEP_RUNS:6.1f} s    so for {RUNS:,} runs")


def main() -> None:
    if TRIED:
        from hocket.learn import benchmark

        for name, value in {"DEVICE_LANES": (32,), "STEPS": 20, "PRACTICE": 50}.items():
            setattr(benchmark, name, value)
        benchmark.ROUND, benchmark.ROUNDS = 1e-3, 1
    device.require_device()
    for show in (show_speeds, show_limits, show_study, show_sweep):
        show()


if __name__ == "__main__":
    main()
