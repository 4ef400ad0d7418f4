"""A process that trains for the server: reads a job, then commands, one per line; writes a line for each message.

Training can be stopped and continued. Whenever it stops, the policies and a report are written.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import BinaryIO

from hocket.errors import HocketError, SettingsError, printable
from hocket.files import write_whole
from hocket.learn.batches import Pace
from hocket.learn.catalogue import find_learner
from hocket.learn.policies import Policy, Run
from hocket.learn.testing import KINDS, TestLog
from hocket.learn.training import check_tests, make_settings, prepare_task
from hocket.learn.warmup import compile_kernels
from hocket.report.page import report_html
from hocket.report.summary import summarize
from hocket.studio.understanding import subject_in
from hocket.studio.worker import private_output, send
from hocket.study.running import save_runs
from hocket.task.tables import compile_task
from hocket.task.task import Task

MOST_SEEDS, MOST_STEPS = 16, 10_000_000
REPORT = "report.html"

Job = Mapping[str, object]


def main() -> None:
    """Train as the first line asks; the other lines are commands."""
    with private_output() as output:
        try:
            TrainingLoop(json.loads(sys.stdin.buffer.readline()), output).run()
        except (HocketError, RecursionError) as error:
            send(output, {"refused": printable(str(error), 1_000)})


def number(job: Job, key: str, most: int) -> int:
    """Read a whole number of at least 1."""
    value = job.get(key)
    if type(value) is not int or not 1 <= value <= most:
        raise SettingsError(f"{key} must be a whole number from 1 to {most:,}, got {value!r:.60}")
    return value


class TrainingLoop:
    """Seeds of one learner on one task, side by side."""

    def __init__(self, job: Job, output: BinaryIO) -> None:
        self.output = output
        subject = subject_in(job)
        if not isinstance(subject, Task):
            raise SettingsError("this text is a machine; to train, it has to be a task with a map, agents and events")
        self.task = subject
        self.learner = find_learner(str(job.get("learner")))
        changes = job.get("settings")
        self.settings = make_settings(self.learner.name, None, changes if isinstance(changes, dict) else {})
        self.seeds = list(range(number(job, "seeds", MOST_SEEDS)))
        self.steps = number(job, "steps", MOST_STEPS)
        self.task = prepare_task(self.task, self.learner.name)
        check_tests(self.task, self.steps, self.settings)
        self.tables = compile_task(self.task)
        self.learner.check(self.tables, self.settings)
        self.out, self.written = Path(str(job["out"])), 0
        self.done, self.seconds = 0, 0.0  # of each seed
        self.commands: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(self) -> None:
        """Train until all steps are done; between pieces, obey a command to stop."""

        def listen() -> None:
            for line in sys.stdin.buffer:
                self.commands.put(str(json.loads(line)))
            self.commands.put("end")

        threading.Thread(target=listen, daemon=True).start()
        send(self.output, {"now": "compiling", "most": self.settings.max_episode_steps, "steps": self.steps})
        compile_kernels(self.learner.name, len(self.seeds), self.task, self.settings)
        self.block = self.learner.block(self.tables, self.settings, self.seeds, 1)
        self.player = self.learner.player(self.tables, self.settings.temperature, self.settings.max_episode_steps)
        kept = (len(self.player.finish), len(self.player.event_time), len(self.player.returns))
        self.tests = TestLog(self.settings, self.steps, len(self.seeds), *kept)
        send(self.output, {"now": "training"})
        pace = Pace()
        while True:
            self._train(pace)
            if self.done == self.steps:
                break
            if self.commands.empty() or self.commands.get() != "stop":
                continue
            self._write("stopped")
            while (command := self.commands.get()) != "continue":
                if command == "end":
                    return
            send(self.output, {"now": "training"})
        self._write("done")

    def _train(self, pace: Pace) -> None:
        every = self.settings.test_every
        piece = min(every - self.done % every, self.steps - self.done, pace.steps)
        begin = time.perf_counter()
        self.block.train(self.done, piece)
        seconds = time.perf_counter() - begin
        pace.take(piece, seconds)
        self.seconds += seconds / len(self.seeds)
        self.done += piece
        if self.done % every == 0:
            self.tests.add(partial(self.player.play_seeds, self.block, self.seeds))
            taken = self.tests.results.steps[:, self.tests.done - 1]  # [seeds, softmax and greedy, episodes]
            most = self.settings.max_episode_steps
            latest = [
                [kind, most if steps < 0 else steps, steps >= 0]
                for seed in range(len(self.seeds))
                for kind, episodes in zip(KINDS, taken[seed].tolist(), strict=True)
                for steps in episodes
            ]
            send(self.output, {"step": self.done, "tests": latest})

    def _write(self, now: str) -> None:
        """Write the runs as they are now, and a report."""
        send(self.output, {"now": "reviewing", "step": self.done})
        self.written += 1
        folder = self.out / str(self.written)
        task, most, settings = self.task, self.settings.max_episode_steps, asdict(self.settings)
        runs = []
        for index, seed in enumerate(self.seeds):
            arrays = {name: array.copy() for name, array in self.block.arrays(index).items()}
            policy = Policy(task.name, task.digest, self.learner.name, seed, settings, arrays, task)
            runs.append(Run(self.tests.of(index, most), policy, self.settings, self.done, self.seconds))
        results = save_runs(task, runs, folder)
        write_whole(folder / REPORT, report_html(summarize(results, task.name)))
        send(self.output, {"now": now, "step": self.done, "report": self.written})


if __name__ == "__main__":
    main()
