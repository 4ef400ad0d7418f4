"""The jobs of a study: batches of runs, what becomes of them, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import NamedTuple, Protocol

from hocket.learn.training import Batch, Report, Stop, train_batch
from hocket.learn.warmup import compile_kernels
from hocket.study.records import Record, record_of
from hocket.study.review import review
from hocket.task.tables import Tables

Reporter = Callable[[Batch], Report]


class Finished(NamedTuple):
    """A run and what it learnt, ready to be written down."""

    record: Record
    policy: bytes


class Engine(Protocol):
    """Runs batches and gives back what is finished, in whatever order."""

    workers: int

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Run batches until all are done or `stop` is set; what was not finished then is left out."""


def run_batch(batch: Batch, tables: Tables, report: Report | None = None, stop: Stop | None = None) -> list[Finished]:
    """Train the runs of a batch and review them; none, if it was stopped."""
    compile_kernels(batch.learner, len(batch.seeds), batch.task, batch.settings)
    runs = train_batch(batch, tables, report, stop)
    if any(run.steps < batch.steps for run in runs):
        return []
    return [Finished(record_of(run, review(batch.task, tables, run.policy)), run.policy.packed()) for run in runs]
