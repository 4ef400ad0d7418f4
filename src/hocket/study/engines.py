"""Where the jobs of a study run: on threads of this machine, or on a cluster of dask's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event

from hocket.errors import SettingsError, known_names
from hocket.learn.training import Batch, count_workers
from hocket.sources import gather
from hocket.study.cluster import DaskEngine
from hocket.study.jobs import Engine, Finished, Reporter, run_batch
from hocket.task.tables import compile_task

ENGINES = ("threads", "dask")


class ThreadEngine:
    """Threads of this process; kernels leave Python's lock alone."""

    def __init__(self, threads: int | None = None) -> None:
        self.workers = count_workers(threads)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Let each thread take the next batch that nobody has begun."""
        tables = {mark: compile_task(task) for mark, task in {own.task.digest: own.task for own in batches}.items()}
        waiting = iter(list(batches))

        def work() -> Iterator[list[Finished]]:
            for batch in waiting:
                if stop.is_set():
                    return
                yield run_batch(batch, tables[batch.task.digest], reporter(batch), stop)

        return gather([work() for _ in range(min(self.workers, len(batches)))], stop)


def make_engine(name: str = "threads", scheduler: str | None = None, threads: int | None = None) -> Engine:
    """Choose where jobs run."""
    if name not in ENGINES:
        raise SettingsError(f"engine {name!r} does not exist ({known_names(name, ENGINES)})")
    if (name == "dask") != (scheduler is not None):
        raise SettingsError("a scheduler's address and the engine dask go together: --engine dask --scheduler ADDRESS")
    return ThreadEngine(threads) if scheduler is None else DaskEngine(scheduler)
