"""Where the jobs of a study run: on threads of this machine, on its graphics processor, or on a cluster of dask's.

A cluster is sent text, numbers and bytes, and sent again what was lost.
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
POLICIES = 10  # seeds below this keep what they learnt on a graphics processor, if nothing else is said
CONNECTING = 10  # seconds to wait for a scheduler
DESERTED = 60  # seconds without any worker after which a cluster is given up
TRIES = 3  # how often a run is sent; each time dask may try it on several workers
LEAVING = 0.5  # seconds for good manners at the end

Reporter = Callable[[Batch], Report]
Future = Any  # dask says little of its types


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
    return Finished.of(run, play_tests(task, tables, run.policy) if run.policy.arrays else None)


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

        def work(batch: Batch) -> list[Finished]:
            return run_batch(batch, compile_task(batch.task), reporter(batch), stop.is_set)

        workers = min(self.workers, len(batches))
        with compiling_ahead([batch.learner for batch in batches] if workers > 1 else []):
            yield from take_turns(work, batches, workers, stop)


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
            for chunk in self.train(together, tables, reports, stop.is_set, self.policies, details=False):
                runs = chain.from_iterable(part.runs for part in chunk if part.steps == part.batch.steps)
                unless = takewhile(lambda _: not stop.is_set(), runs)
                yield from in_pieces((finish(task, tables, run) for run in unless), TOGETHER, stop)
        yield from self.threads.run([batch for batch in batches if batch.learner not in self.learners], reporter, stop)


class DaskEngine:
    """A cluster of dask.distributed; a worker that dies loses nothing but time."""

    def __init__(self, scheduler: str) -> None:
        with needs_extra("the engine dask", "dask"):
            dask: Any = import_module("distributed")
        self.address = scheduler
        try:  # a knock takes no time where nobody is, and leaves no client half-made
            host = dask.comm.parse_host_port(dask.comm.parse_address(scheduler)[1])
            socket.create_connection(host, CONNECTING).close()
            self.client = dask.Client(scheduler, timeout=CONNECTING, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(f"scheduler {scheduler!r} does not answer: {_reason(error)}") from None
        self.workers = sum(self.client.ncores().values())
        if not self.workers:
            self._leave()
            raise SettingsError(f"scheduler {scheduler!r} has no workers: start some with `dask worker {scheduler}`")

    def cut(self, batch: Batch) -> list[Batch]:
        """Share seeds out among workers."""
        return share_out(batch, self.workers)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Send batches, and again what was lost of them; at the end, say what was lost for good."""
        return gather([self._converse(batches, reporter, stop)], stop)  # dask may wait for long, and hears no wish

    def _converse(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        done: SimpleQueue[Future] = SimpleQueue()
        under_way: dict[Future, tuple[Batch, int]] = {}  # and how often it has been sent
        lost: list[str] = []

        def send(batch: Batch, tries: int = 1) -> None:
            try:
                future = self.client.submit(run_portable, *portable(batch), pure=False)
            except Exception:  # the client has closed, after it tried for a while to reach the scheduler again
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
                except Exception as error:  # whatever went wrong elsewhere
                    if tries == TRIES:
                        lost.append(f"({batch.learner} on {batch.task.name}, seed {batch.seeds[0]}): {_reason(error)}")
                        continue
                    for seed in batch.seeds:  # all of them together may have been too much for a worker
                        send(batch._replace(seeds=[seed]), tries + 1)
                    continue
                reporter(batch)(batch.steps * len(batch.seeds) * len(batch.task.agents), ())
                yield [Finished(parse_record(text), policy, world) for text, policy, world in answer]
        finally:
            self._leave()
        if lost:
            raise ClusterError(f"the cluster at {self.address} has failed {TRIES} times {lost[0]}")

    def _gone(self) -> ClusterError:
        return ClusterError(f"the scheduler at {self.address} is gone")

    def _next(self, done: SimpleQueue[Future], stop: Event) -> Future | None:
        """Wait until something is done; None, if told to stop."""
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

    def _leave(self) -> None:
        """Let go of the cluster, which then forgets what it was asked for."""
        with suppress(Exception):
            self.client.close(timeout=LEAVING)


def _reason(error: Exception) -> str:
    """Say in a few words what is wrong."""
    return printable(str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__)


def portable(batch: Batch) -> tuple[str, str, Settings, tuple[int, ...], int, bytes | None]:
    """Turn a batch into what can be sent to other machines: text, numbers and bytes."""
    task = json.dumps(batch.task.document())
    world = None if batch.world is None else batch.world.packed()
    return task, batch.learner, used_settings(batch.settings), tuple(batch.seeds), batch.steps, world


def run_portable(
    task: str, learner: str, settings: Settings, seeds: Sequence[int], steps: int, world: bytes | None = None
) -> list[tuple[str, bytes | None, bytes | None]]:
    """Run a batch that was sent here; records, policies and worlds are as files have them."""
    chosen = make_settings(learner, settings)
    document = json.loads(task)
    kept = None if world is None else read_world(Path("world"), world)
    batch = Batch(task_from(document, name=document["name"]), learner, chosen, seeds, steps, world=kept)
    finished = run_batch(batch, compile_task(batch.task), stop=CancelledOnCluster().is_set)
    return [(write_record(run.record), run.policy, run.world) for run in finished]


class CancelledOnCluster:
    """Whether the cluster wants no more of the job that this thread is at: who sent it has stopped, or is gone."""

    def __init__(self) -> None:
        try:
            worker = import_module("distributed").get_worker()
            self.tasks, self.key = worker.state.tasks, worker.get_current_task()
        except (ImportError, ValueError, AttributeError):  # not at work for a cluster, or for one that does not tell
            self.tasks, self.key = {}, None

    def is_set(self) -> bool:
        """Say whether to stop."""
        return getattr(self.tasks.get(self.key), "state", None) == "cancelled"


def make_engine(
    name: str = "threads",
    scheduler: str | None = None,
    threads: int | None = None,
    device: str = "cpu",
    policies: int | None = None,
) -> Engine:
    """Choose where jobs run."""
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
