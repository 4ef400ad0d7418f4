"""Where the jobs of a study run: on threads of this machine, or on a cluster of dask's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from importlib import import_module
from threading import Event
from typing import Any, NamedTuple, Protocol

from hocket.errors import SettingsError, known_names
from hocket.learn.training import Batch, Report, count_workers, make_settings, train_batch
from hocket.learn.warmup import compile_kernels
from hocket.study.records import Record, parse_record, record_of, write_record
from hocket.study.review import review
from hocket.task.files import task_from
from hocket.task.tables import Tables, compile_task

CONNECTING = 10  # seconds to wait for a scheduler

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


def run_batch(batch: Batch, tables: Tables, report: Report | None = None, stop: Event | None = None) -> list[Finished]:
    """Train the runs of a batch and review them; none, if it was stopped."""
    compile_kernels(batch.learner, len(batch.seeds), batch.task, batch.settings)
    runs = train_batch(batch, tables, report, stop)
    if any(run.steps < batch.steps for run in runs):
        return []
    return [Finished(record_of(run, review(batch.task, tables, run.policy)), run.policy.packed()) for run in runs]


class ThreadEngine:
    """Threads of this process; kernels leave Python's lock alone."""

    def __init__(self, threads: int | None = None) -> None:
        self.workers = count_workers(threads)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        tables = {mark: compile_task(task) for mark, task in {own.task.digest: own.task for own in batches}.items()}

        def work(batch: Batch) -> list[Finished]:
            return [] if stop.is_set() else run_batch(batch, tables[batch.task.digest], reporter(batch), stop)

        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for future in as_completed([pool.submit(work, batch) for batch in batches]):
                    yield future.result()
            except BaseException:
                stop.set()  # or else the pool would first finish all that is waiting
                raise


class DaskEngine:
    """A cluster of dask.distributed; a worker that dies loses nothing but time."""

    def __init__(self, scheduler: str) -> None:
        try:
            self.dask: Any = import_module("distributed")
        except ImportError:
            raise SettingsError("the dask engine needs more packages: pip install 'hocket[dask]'") from None
        try:
            self.dask.comm.parse_host_port(self.dask.comm.parse_address(scheduler)[1])  # or a client lingers half-made
            self.client = self.dask.Client(scheduler, timeout=CONNECTING, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SettingsError(f"scheduler {scheduler!r} does not answer: {reason}") from None
        self.workers = max(1, sum(self.client.ncores().values()))

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        with self.client as client, client.as_current():
            futures = {client.submit(run_portable, *portable(batch), pure=False): batch for batch in batches}
            for future in self.dask.as_completed(futures):
                if stop.is_set():
                    client.cancel(list(futures), force=True)
                    return
                batch = futures[future]
                finished = [Finished(*pair) for pair in unpack(future.result())]
                reporter(batch)(batch.steps * len(batch.seeds) * len(batch.task.agents), ())
                yield finished


# What travels to other machines: text, numbers and bytes.


def portable(batch: Batch) -> tuple[str, str, Mapping[str, float | int | bool], tuple[int, ...], int]:
    """Turn a batch into what can be sent."""
    task = json.dumps(batch.task.document())
    return task, batch.learner, asdict(batch.settings), tuple(batch.seeds), batch.steps


def run_portable(
    task: str, learner: str, settings: Mapping[str, float | int | bool], seeds: Sequence[int], steps: int
) -> list[tuple[str, bytes]]:
    """Run a batch that was sent here."""
    chosen = make_settings(learner, None, settings)
    document = json.loads(task)
    batch = Batch(task_from(document, name=document["name"]), learner, chosen, seeds, steps)
    return [(write_record(record), policy) for record, policy in run_batch(batch, compile_task(batch.task))]


def unpack(results: Iterable[tuple[str, bytes]]) -> Iterator[tuple[Record, bytes]]:
    """Read what was sent back."""
    for text, policy in results:
        yield parse_record(text), policy


ENGINES = ("threads", "dask")


def make_engine(name: str = "threads", scheduler: str | None = None, threads: int | None = None) -> Engine:
    """Choose where jobs run."""
    if name not in ENGINES:
        raise SettingsError(f"engine {name!r} does not exist ({known_names(name, ENGINES)})")
    if (name == "dask") != (scheduler is not None):
        raise SettingsError("a scheduler's address and the engine dask go together: --engine dask --scheduler ADDRESS")
    return ThreadEngine(threads) if scheduler is None else DaskEngine(scheduler)
