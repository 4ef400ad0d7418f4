"""Where the jobs of a study run: on threads of this machine, on its graphics processor, or on a cluster of dask's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, takewhile
from threading import Event

from hocket.background import gather, in_pieces, unless_stopped
from hocket.errors import SettingsError, require_known
from hocket.files import TOGETHER
from hocket.learn.batches import Batch
from hocket.learn.devices import check_device
from hocket.learn.training import check_memory, count_workers, share_out
from hocket.learn.warmup import compiling_ahead
from hocket.study.cluster import DaskEngine
from hocket.study.jobs import Engine, Finished, Reporter, finish, run_batch
from hocket.task.tables import compile_task

ENGINES = ("threads", "dask")
POLICIES = 10  # seeds below this keep what they learnt on a graphics processor, if nothing else is said


class ThreadEngine:
    """Threads of this process; kernels leave Python's lock alone."""

    def __init__(self, threads: int | None = None) -> None:
        self.workers = count_workers(threads)

    def cut(self, batch: Batch) -> list[Batch]:
        """Share seeds out among threads."""
        return share_out(batch, self.workers)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Let each thread take the next batch that nobody has begun."""
        unless_stopped(lambda: check_memory(batches, self.workers), stop)
        waiting = iter(list(batches))

        def work() -> Iterator[list[Finished]]:
            for batch in waiting:
                if stop.is_set():
                    return
                yield run_batch(batch, compile_task(batch.task), reporter(batch), stop)

        workers = min(self.workers, len(batches))
        with compiling_ahead([batch.learner for batch in batches] if workers > 1 else []):
            yield from gather([work() for _ in range(workers)], stop)


class DeviceEngine:
    """A graphics processor; learners that it lacks train on threads."""

    def __init__(self, threads: int | None = None, policies: int | None = None) -> None:
        from hocket.learn.cuda import device, training  # loads what few have

        device.require_device()
        self.threads, self.train = ThreadEngine(threads), training.train_batches
        self.learners, self.find = training.BLOCKS, training.find_block
        self.policies = POLICIES if policies is None else policies

    def require(self, learners: Sequence[str]) -> None:
        """Refuse learners of which the device trains none."""
        if not any(name in self.learners for name in learners):
            self.find(learners[0])

    def cut(self, batch: Batch) -> list[Batch]:
        """Leave together what the device trains."""
        return [batch] if batch.learner in self.learners else self.threads.cut(batch)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Train all settings and seeds of a task at once, as far as they fit."""
        ours = [batch for batch in batches if batch.learner in self.learners]
        for task in {batch.task.digest: batch.task for batch in ours}.values():
            tables = compile_task(task)
            together = [batch for batch in ours if batch.task.digest == task.digest]
            reports = [reporter(batch) for batch in together]
            for chunk in self.train(together, tables, reports, stop, self.policies, details=False):
                runs = chain.from_iterable(part.runs for part in chunk if part.steps == part.batch.steps)
                unless = takewhile(lambda _: not stop.is_set(), runs)
                yield from in_pieces((finish(task, tables, run) for run in unless), TOGETHER, stop)
        yield from self.threads.run([batch for batch in batches if batch.learner not in self.learners], reporter, stop)


def make_engine(
    name: str = "threads",
    scheduler: str | None = None,
    threads: int | None = None,
    device: str = "cpu",
    policies: int | None = None,
) -> Engine:
    """Choose where jobs run."""
    check_device(device)
    require_known(name, ENGINES, "engine")
    if (name == "dask") != (scheduler is not None):
        raise SettingsError("a scheduler's address and the engine dask go together: --engine dask --scheduler ADDRESS")
    if device == "cuda":
        if scheduler is not None:
            raise SettingsError("the device cuda and the engine dask do not go together")
        return DeviceEngine(threads, policies)
    if policies is not None:
        raise SettingsError("a number of policies goes with --device cuda; the device cpu keeps all of them")
    return ThreadEngine(threads) if scheduler is None else DaskEngine(scheduler)
