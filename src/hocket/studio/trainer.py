"""The process of a training: reads a job, then commands, one per line, and writes its messages, one per line.

Training can be stopped and continued. Whenever it stops, it writes the policies and a report.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

from hocket.errors import HocketError, printable
from hocket.files import write_whole
from hocket.learn.batches import Batch, Pace, train_in_pieces
from hocket.learn.catalogue import find_learner
from hocket.learn.testing import KINDS, TestLog
from hocket.learn.training import check_tests, gather_runs, make_settings, prepare_task, train_piece
from hocket.learn.warmup import compile_kernels
from hocket.report.page import report_html
from hocket.report.summary import summarize
from hocket.studio.processes import REPORT
from hocket.studio.understanding import read_number, read_task
from hocket.studio.worker import private_output, send
from hocket.study.running import save_runs
from hocket.task.tables import compile_task

MOST_SEEDS, MOST_STEPS = 16, 10_000_000


def main() -> None:
    """Train as the first line of the input asks; the other lines are commands."""
    with private_output() as output:
        try:
            TrainingLoop(json.loads(sys.stdin.buffer.readline()), output).run()
        except (HocketError, RecursionError) as error:
            send(output, {"refused": printable(str(error), 1_000)})


class TrainingLoop:
    """Trains seeds of one learner on one task together, in pieces; commands are obeyed between two pieces."""

    def __init__(self, job: Mapping[str, object], output: BinaryIO) -> None:
        self.output = output
        self.learner, changes = find_learner(str(job.get("learner"))), job.get("settings")
        task = prepare_task(read_task(job, "train"), self.learner.name)
        settings = make_settings(self.learner.name, changes if isinstance(changes, dict) else {})
        seeds, steps = range(read_number(job, "seeds", 1, MOST_SEEDS)), read_number(job, "steps", 1, MOST_STEPS)
        check_tests(task, steps, settings)
        self.tables = compile_task(task)
        self.learner.check(self.tables, settings)
        self.batch = Batch(task, self.learner.name, settings, seeds, steps)
        self.out, self.written = Path(str(job["out"])), 0  # `written` counts reports
        self.done, self.seconds = 0, 0.0  # steps and time of each seed
        self.commands: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(self) -> None:
        """Train until all steps are done, or a command ends it."""
        task, _, settings, seeds, steps, *_ = self.batch

        def listen() -> None:
            for line in sys.stdin.buffer:
                self.commands.put(str(json.loads(line)))
            self.commands.put("end")

        threading.Thread(target=listen, daemon=True).start()
        send(self.output, {"now": "compiling", "most": settings.max_episode_steps, "steps": steps})
        compile_kernels(self.learner.name, len(seeds), task, settings)
        self.block = self.learner.block(self.tables, settings, seeds, 1)
        player = self.learner.player(self.tables, settings.temperature, settings.max_episode_steps)
        sizes = (len(player.finish), len(player.event_time), len(player.returns))
        self.tests = TestLog(settings, steps, len(seeds), *sizes)
        send(self.output, {"now": "training"})
        test = partial(self.tests.add, partial(player.play_seeds, self.block, seeds))
        train_in_pieces(self._train, test, self._report_tests, settings, steps, Pace(), self._has_ended)
        if self.done == steps:
            self._write("done")

    def _train(self, done: int, piece: int) -> None:
        begin = time.perf_counter()
        train_piece(self.learner, self.block, self.batch.steps, done, piece)
        self.seconds += (time.perf_counter() - begin) / len(self.batch.seeds)

    def _report_tests(self, piece: int, is_tested: bool) -> None:
        """Count a piece, and send the results of its test episodes, if there was a test."""
        self.done += piece
        if is_tested:
            most, latest = self.batch.settings.max_episode_steps, list[tuple[str, int, bool]]()
            for run in self.tests.results.steps[:, self.tests.done - 1].tolist():
                for kind, episodes in zip(KINDS, run, strict=True):
                    latest += [(kind, most if steps < 0 else steps, steps >= 0) for steps in episodes]
            send(self.output, {"step": self.done, "tests": latest})

    def _has_ended(self) -> bool:
        """Say whether training ends here; after a command to stop, wait for the next one."""
        if not self.done or self.commands.empty() or self.commands.get() != "stop":
            return False
        self._write("stopped")
        while (command := self.commands.get()) != "continue":
            if command == "end":
                return True
        send(self.output, {"now": "training"})
        return False

    def _write(self, now: str) -> None:
        """Write the runs so far and a report."""
        send(self.output, {"now": "reviewing", "step": self.done})
        self.written += 1
        folder, task = self.out / str(self.written), self.batch.task
        runs = gather_runs(self.batch, self.block, self.tests, self.done, self.seconds)
        results = save_runs(task, runs, folder)
        write_whole(folder / REPORT, report_html(summarize(results, task.name)))
        send(self.output, {"now": now, "step": self.done, "report": self.written})


if __name__ == "__main__":
    main()
