"""The jobs of a study: batches of runs, what becomes of them, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import NamedTuple, Protocol

from hocket.learn.batches import Batch, Report, StopSignal
from hocket.learn.policies import Run
from hocket.learn.training import train_batch
from hocket.learn.warmup import compile_kernels
from hocket.study.records import Record, record_of
from hocket.study.testing import play_tests
from hocket.task.tables import Tables
from hocket.task.task import Task

Reporter = Callable[[Batch], Report]


class Finished(NamedTuple):
    """A run and what it learnt, ready to be written down."""

    record: Record
    policy: bytes | None  # where it is kept
    world: bytes | None = None  # likewise


class Engine(Protocol):
    """Runs batches and gives back what is finished, in whatever order."""

    def cut(self, batch: Batch) -> list[Batch]:
        """Cut a batch into those that are run one by one."""

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Run batches until all are done or `stop` is set; what was not finished then is left out.

        What is given back comes in pieces that can be written down in a moment.
        """


def run_batch(
    batch: Batch, tables: Tables, report: Report | None = None, stop: StopSignal | None = None
) -> list[Finished]:
    """Train the runs of a batch and test what they learnt; none, if it was stopped."""
    compile_kernels(batch.learner, len(batch.seeds), batch.task, batch.settings)
    runs = train_batch(batch, tables, report, stop)
    if any(run.steps < batch.steps for run in runs):
        return []
    return [finish(batch.task, tables, run) for run in runs]


def finish(task: Task, tables: Tables, run: Run) -> Finished:
    """Play a run's test episodes, if it has kept its policy."""
    if not run.policy.arrays:
        return Finished(record_of(run), None)
    return Finished(record_of(run, play_tests(task, tables, run.policy)), run.policy.packed(), pack_world(run))


def pack_world(run: Run) -> bytes | None:
    """Return the file of what a run has learnt of the map, where it has kept that."""
    return None if run.world is None else run.world.packed()
