"""Jobs on a cluster of dask's: sent as text, numbers and bytes, and sent again where they were lost."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, NamedTuple

from hocket.background import GLANCE, gather
from hocket.errors import ClusterError, HocketError, SettingsError, needs_extra, printable
from hocket.learn.batches import Batch
from hocket.learn.settings import SettingValue, used_settings
from hocket.learn.training import make_settings, share_out
from hocket.learn.world import read_world
from hocket.study.jobs import Finished, Reporter, run_batch
from hocket.study.records import parse_record, write_record
from hocket.task.files import task_from
from hocket.task.tables import compile_task

CONNECTING = 10  # seconds to wait for a scheduler
DESERTED = 60  # seconds without any worker after which a cluster is given up
TRIES = 3  # how often a run is sent; each time dask may try it on several workers
LEAVING = 0.5  # seconds for good manners at the end

Answer = list[tuple[str, bytes | None, bytes | None]]  # records, policies and worlds, as files have them
Future = Any  # dask says little of its types


class SentJob(NamedTuple):
    """Runs that are on their way, of which batch, and how often they have been sent."""

    seeds: Sequence[int]
    batch: Batch
    tries: int = 1

    def again(self) -> list[SentJob]:
        """Send each run by itself: all of them together may have been too much for a worker."""
        return [SentJob([seed], self.batch, self.tries + 1) for seed in self.seeds]

    @property
    def label(self) -> str:
        """Say what it is that is on its way."""
        return f"{self.batch.learner} on {self.batch.task.name}, seed {self.seeds[0]}"


class LostJob(NamedTuple):
    """No answer, and why."""

    reason: str


class DaskEngine:
    """A cluster of dask.distributed; a worker that dies loses nothing but time."""

    def __init__(self, scheduler: str) -> None:
        with needs_extra("the engine dask", "dask"):
            self.dask: Any = import_module("distributed")
        self.address = scheduler
        try:
            self._knock()  # which takes no time where nobody is, and leaves no client half-made
            self.client = self.dask.Client(scheduler, timeout=CONNECTING, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(f"scheduler {scheduler!r} does not answer: {_reason(error)}") from None
        self.workers = sum(self.client.ncores().values())
        if not self.workers:
            self._leave()
            raise SettingsError(f"scheduler {scheduler!r} has no workers: start some with `dask worker {scheduler}`")

    def _knock(self) -> None:
        comm = self.dask.comm
        with socket.create_connection(comm.parse_host_port(comm.parse_address(self.address)[1]), CONNECTING):
            pass

    def cut(self, batch: Batch) -> list[Batch]:
        """Share seeds out among workers."""
        return share_out(batch, self.workers)

    def run(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        """Send batches, and again what was lost of them; at the end, say what was lost for good."""
        return gather([self._converse(batches, reporter, stop)], stop)  # dask may wait for long, and hears no wish

    def _converse(self, batches: Sequence[Batch], reporter: Reporter, stop: Event) -> Iterator[list[Finished]]:
        lost: list[tuple[SentJob, LostJob]] = []
        try:
            for job, answer in self._answers(batches, stop):
                if isinstance(answer, LostJob):
                    lost.append((job, answer))
                    continue
                batch = job.batch
                reporter(batch)(batch.steps * len(job.seeds) * len(batch.task.agents), ())
                yield [Finished(parse_record(text), policy, world) for text, policy, world in answer]
        finally:
            self._leave()
        if lost:
            job, (reason,) = lost[0]
            raise ClusterError(f"the cluster at {self.address} has failed {TRIES} times ({job.label}): {reason}")

    def _answers(self, batches: Sequence[Batch], stop: Event) -> Iterator[tuple[SentJob, Answer | LostJob]]:
        """Give what comes back of each job in the end."""
        done: SimpleQueue[Future] = SimpleQueue()
        under_way: dict[Future, SentJob] = {}

        def send(job: SentJob) -> None:
            future = self._submit(job.batch._replace(seeds=job.seeds))
            under_way[future] = job
            future.add_done_callback(done.put)

        for batch in batches:
            send(SentJob(batch.seeds, batch))
        while under_way:
            future = self._next(done, stop)
            if future is None:
                return
            job, answer = under_way.pop(future), _answer(future)
            if isinstance(answer, LostJob) and job.tries < TRIES:
                for retry in job.again():
                    send(retry)
            else:
                yield job, answer

    def _submit(self, batch: Batch) -> Future:
        try:
            return self.client.submit(run_portable, *portable(batch), pure=False)
        except Exception:  # the client has closed, after it tried for a while to reach the scheduler again
            raise self._gone() from None

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
            if self._has_workers():
                latest = time.monotonic()
            elif time.monotonic() - latest >= DESERTED:
                raise ClusterError(f"the cluster at {self.address} has no workers any more")
        return None

    def _has_workers(self) -> bool:
        with suppress(Exception):  # a scheduler that does not answer has none
            return bool(self.client.ncores())
        return False

    def _leave(self) -> None:
        """Let go of the cluster, which then forgets what it was asked for."""
        with suppress(Exception):
            self.client.close(timeout=LEAVING)


def _answer(future: Future) -> Answer | LostJob:
    try:
        return future.result()  # type: ignore[no-any-return]
    except HocketError:
        raise
    except Exception as error:  # whatever went wrong elsewhere
        return LostJob(_reason(error))


def _reason(error: Exception) -> str:
    """Say in a few words what is wrong."""
    return printable(str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__)


# What travels to other machines: text, numbers and bytes.


def portable(batch: Batch) -> tuple[str, str, Mapping[str, SettingValue], tuple[int, ...], int, bytes | None]:
    """Turn a batch into what can be sent."""
    task = json.dumps(batch.task.document())
    world = None if batch.world is None else batch.world.packed()
    return task, batch.learner, used_settings(batch.settings), tuple(batch.seeds), batch.steps, world


def run_portable(
    task: str,
    learner: str,
    settings: Mapping[str, SettingValue],
    seeds: Sequence[int],
    steps: int,
    world: bytes | None = None,
) -> Answer:
    """Run a batch that was sent here."""
    chosen = make_settings(learner, None, settings)
    document = json.loads(task)
    kept = None if world is None else read_world(Path("world"), world)
    batch = Batch(task_from(document, name=document["name"]), learner, chosen, seeds, steps, world=kept)
    finished = run_batch(batch, compile_task(batch.task), stop=CancelledOnCluster())
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
