"""Engines that run the jobs of a study: threads, a GPU, or a dask cluster.

Jobs are sent to a cluster as text, numbers and bytes, and sent again if they are lost.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain, takewhile
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, Protocol

from hocket.background import GLANCE, gather, in_pieces, take_turns, unless_stopped
from hocket.errors import ClusterError, HocketError, SettingsError, needs_extra, printable, require_known
from hocket.files import TOGETHER
from hocket.learn.batches import Batch, Report, StopSignal
from hocket.learn.policies import Run
from hocket.learn.settings import DEVICES, used_settings
from hocket.learn.training import check_memory, count_workers, make_settings, share_out, train_batch
from hocket.learn.warmup import compile_kernels, compiling_ahead
from hocket.learn.world import read_world
from hocket.study.records import Settings, parse_record, write_record
from hocket.study.store import Finished
from hocket.study.testing import play_tests
from hocket.task.files import task_from
from hocket.task.tables import Tables, compile_task
from hocket.task.task import Task

ENGINES = ("threads", "dask")
POLICIES = 10  # seeds below this keep their policies on a GPU, by default
CONNECTING = 10  # seconds to wait for a scheduler
DESERTED = 60  # seconds without any worker after which a cluster is given up
TRIES = 3  # how often a run is sent; each time dask may try it on several workers
CLOSING = 0.5  # seconds to wait for the client to close

Reporter = Callable[[Batch], Report]
Future = Any  # dask has no types


class Engine(Protocol):
    """Runs batches, in any order."""

    workers: int

    def cut(self, batch: Batch) -> list[Batch]:
        """Cut a batch into those that are run one by one: its seeds are shared out among workers."""
        return share_out(batch, self.workers)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Run batches until all are done or `stop` is set; yield finished runs, in pieces that are quickly written."""


def run_batch(
    batch: Batch, tables: Tables, report: Report | None = None, stop: StopSignal | None = None
) -> list[Finished]:
    """Train and test the runs of a batch; none if it was stopped."""
    compile_kernels(batch.learner, len(batch.seeds), batch.task, batch.settings)
    runs = train_batch(batch, tables, report, stop)
    if any(run.steps < batch.steps for run in runs):
        return []
    return [finish(batch.task, tables, run) for run in runs]


def finish(task: Task, tables: Tables, run: Run) -> Finished:
    """Play the test episodes of a run, if it has kept its policy."""
    return Finished.of(run, play_tests(task, tables, run.policy) if run.policy.arrays else None)


class ThreadEngine(Engine):
    """Runs batches on threads of this process; kernels release Python's lock."""

    def __init__(self, threads: int | None = None) -> None:
        self.workers = count_workers(threads)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Let each thread take the next batch that has not begun."""
        unless_stopped(lambda: check_memory(batches, self.workers), stop)

        def work(batch: Batch) -> list[Finished]:
            return run_batch(batch, compile_task(batch.task), reporter(batch), stop.is_set)

        workers = min(self.workers, len(batches))
        with compiling_ahead([batch.learner for batch in batches] if workers > 1 else []):
            yield from take_turns(work, batches, workers, stop)


class DeviceEngine(Engine):
    """Runs batches on a GPU; learners without GPU kernels train on threads."""

    def __init__(self, threads: int | None = None, policies: int | None = None) -> None:
        from hocket.learn.cuda import device, training  # needs CUDA

        device.require_device()
        self.threads, self.train = ThreadEngine(threads), training.train_batches
        self.learners, self.find = training.BLOCKS, training.find_block
        self.policies, self.workers = POLICIES if policies is None else policies, self.threads.workers

    def require(self, learners: Sequence[str]) -> None:
        """Refuse learners if none of them has GPU kernels."""
        if not any(name in self.learners for name in learners):
            self.find(learners[0])

    def cut(self, batch: Batch) -> list[Batch]:
        """Leave a batch whole if the GPU trains it."""
        return [batch] if batch.learner in self.learners else super().cut(batch)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Train all settings and seeds of a task at once, as far as they fit into memory."""
        ours = [batch for batch in batches if batch.learner in self.learners]
        for task in {batch.task.digest: batch.task for batch in ours}.values():
            tables = compile_task(task)
            together = [batch for batch in ours if batch.task.digest == task.digest]
            reports = [reporter(batch) for batch in together]
            for chunk in self.train(together, tables, reports, stop.is_set, self.policies, details=False):
                runs = chain.from_iterable(part.runs for part in chunk if part.steps == part.batch.steps)
                unless = takewhile(lambda _: not stop.is_set(), runs)
                yield from in_pieces((finish(task, tables, run) for run in unless), TOGETHER, stop)
        yield from self.threads.run([batch for batch in batches if batch.learner not in self.learners], reporter, stop)


class DaskEngine(Engine):
    """Runs batches on a cluster of dask.distributed; the runs of a worker that dies are run again."""

    def __init__(self, scheduler: str) -> None:
        with needs_extra("the engine dask", "dask"):
            dask: Any = import_module("distributed")
        self.address = scheduler
        try:  # a plain connection fails fast, and leaves no half-made client
            host = dask.comm.parse_host_port(dask.comm.parse_address(scheduler)[1])
            socket.create_connection(host, CONNECTING).close()
            self.client = dask.Client(scheduler, timeout=CONNECTING, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(f"scheduler {scheduler!r} does not answer: {_reason(error)}") from None
        self.workers = sum(self.client.ncores().values())
        if not self.workers:
            self._close()
            raise SettingsError(f"scheduler {scheduler!r} has no workers: start some with `dask worker {scheduler}`")

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Send batches, and lost ones again; at the end, raise an error if runs were lost for good."""
        return gather([self._run(batches, reporter, stop)], stop)  # in a thread: dask may block, and cannot be stopped

    def _run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        done: SimpleQueue[Future] = SimpleQueue()
        under_way: dict[Future, tuple[Batch, int]] = {}  # with the number of tries
        lost: list[str] = []

        def send(batch: Batch, tries: int = 1) -> None:
            try:
                future = self.client.submit(run_portable, *portable(batch), pure=False)
            except Exception:  # the client has closed, after failing for a while to reach the scheduler
                raise self._gone() from None
            under_way[future] = batch, tries
            future.add_done_callback(done.put)

        try:
            for batch in batches:
                send(batch)
            while under_way and (future := self._next(done, stop)) is not None:
                batch, tries = under_way.pop(future)
                try:
                    answer = future.result()
                except HocketError:
                    raise
                except Exception as error:  # any error on the cluster
                    if tries == TRIES:
                        lost.append(f"({batch.learner} on {batch.task.name}, seed {batch.seeds[0]}): {_reason(error)}")
                    else:
                        for seed in batch.seeds:  # one by one: all together may have been too much for a worker
                            send(batch._replace(seeds=[seed]), tries + 1)
                    continue
                reporter(batch)(batch.steps * len(batch.seeds) * len(batch.task.agents), ())
                yield [Finished(parse_record(text), policy, world) for text, policy, world in answer]
        finally:
            self._close()
        if lost:
            raise ClusterError(f"the cluster at {self.address} has failed {TRIES} times {lost[0]}")

    def _gone(self) -> ClusterError:
        return ClusterError(f"the scheduler at {self.address} is gone")

    def _next(self, done: SimpleQueue[Future], stop: Event) -> Future | None:
        """Wait for the next batch that is done; None if `stop` is set."""
        latest = time.monotonic()
        while not stop.is_set():
            with suppress(Empty):
                return done.get(timeout=GLANCE)
            if self.client.status in ("closing", "closed"):
                raise self._gone()
            with suppress(Exception):  # a scheduler that does not answer has no workers
                if self.client.ncores():
                    latest = time.monotonic()
                    continue
            if time.monotonic() - latest >= DESERTED:
                raise ClusterError(f"the cluster at {self.address} has no workers any more")
        return None

    def _close(self) -> None:
        with suppress(Exception):
            self.client.close(timeout=CLOSING)  # the cluster then forgets this client's jobs


def _reason(error: Exception) -> str:
    return printable(str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__)


def portable(batch: Batch) -> tuple[str, str, Settings, tuple[int, ...], int, bytes | None]:
    """Turn a batch into text, numbers and bytes, which can be sent to other machines."""
    task = json.dumps(batch.task.document())
    world = None if batch.world is None else batch.world.packed()
    return task, batch.learner, used_settings(batch.settings), tuple(batch.seeds), batch.steps, world


def run_portable(
    task: str, learner: str, settings: Settings, seeds: Sequence[int], steps: int, world: bytes | None = None
) -> list[tuple[str, bytes | None, bytes | None]]:
    """Run a batch that was sent here; return records, policies and world models as the content of their files."""
    document, model = json.loads(task), None if world is None else read_world(Path("world"), world)
    definition = task_from(document, name=document["name"])
    batch = Batch(definition, learner, make_settings(learner, settings), seeds, steps, world=model)
    finished = run_batch(batch, compile_task(definition), stop=CancelledOnCluster().is_set)
    return [(write_record(run.record), run.policy, run.world) for run in finished]


class CancelledOnCluster:
    """Whether the job of this thread was cancelled: its sender has stopped, or is gone."""

    def __init__(self) -> None:
        try:
            worker = import_module("distributed").get_worker()
            self.tasks, self.key = worker.state.tasks, worker.get_current_task()
        except (ImportError, ValueError, AttributeError):  # not on a cluster, or on one of another version
            self.tasks, self.key = {}, None

    def is_set(self) -> bool:
        """Return whether the job was cancelled."""
        return getattr(self.tasks.get(self.key), "state", None) == "cancelled"


def make_engine(
    name: str = "threads",
    scheduler: str | None = None,
    threads: int | None = None,
    device: str = "cpu",
    policies: int | None = None,
) -> Engine:
    """Make the engine of a name, with its options."""
    require_known(device, DEVICES, "device")
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
