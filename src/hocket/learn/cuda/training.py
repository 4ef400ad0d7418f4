"""Train thousands of runs on the device, in chunks that fit its memory, with the same results as on a CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from hocket.errors import SettingsError, known_names
from hocket.learn import cqrm, dqprm, iql
from hocket.learn.batches import Batch, Pace, Report, StopSignal, train_in_pieces
from hocket.learn.cqrm.cuda import CqrmDeviceBlock
from hocket.learn.cuda.block import DeviceBlock, DeviceJob
from hocket.learn.cuda.device import free_memory, require_device
from hocket.learn.dqprm.cuda import DqprmDeviceBlock
from hocket.learn.iql.cuda import IqlDeviceBlock
from hocket.learn.policies import Run
from hocket.learn.testing import TestLog
from hocket.task.tables import Tables

LARGEST_CHUNK = 1 << 17  # lanes: enough to use a whole device, and few enough to finish soon
TESTS_BYTES = 1 << 30  # for the tests of a chunk
SHOWN = 100  # runs of a batch whose latest tests are reported

BLOCKS: dict[str, type[DeviceBlock]] = {
    dqprm.LEARNER.name: DqprmDeviceBlock,
    iql.LEARNER.name: IqlDeviceBlock,
    cqrm.LEARNER.name: CqrmDeviceBlock,
}


def find_block(learner: str) -> type[DeviceBlock]:
    """Return the class that trains a learner on the device."""
    if learner not in BLOCKS:
        raise SettingsError(f"{learner} cannot train on the device cuda ({known_names(learner, BLOCKS)})")
    return BLOCKS[learner]


class ChunkPart(NamedTuple):
    """Runs of a batch in a chunk. A chunk is a list of these, whose runs train together."""

    batch: Batch
    indices: range  # among the runs of the batch
    first: int  # index of the first among the runs of the chunk


class Trained(NamedTuple):
    """The trained runs of one batch in a chunk, which are copied from the device one by one."""

    batch: Batch
    steps: int  # of training
    runs: Iterator[Run]


def train_batches(
    batches: Sequence[Batch],
    tables: Tables,
    reports: Sequence[Report],
    stop: StopSignal | None = None,
    policies: int | None = None,
    *,
    details: bool = True,
) -> Iterator[list[Trained]]:
    """Train batches of one task; yield the runs of each chunk when it is finished or, if `stop` is true, so far.
    Only seeds below `policies` keep their policies (None: all); without `details`, tests keep only their steps."""
    require_device()
    report_of = {id(batch): report for batch, report in zip(batches, reports, strict=True)}
    for chunk in _chunks(batches, tables, details):
        if stop is not None and stop():
            return
        yield _train_chunk(chunk, tables, report_of, stop, policies, details)


def _chunks(batches: Sequence[Batch], tables: Tables, details: bool) -> Iterator[list[ChunkPart]]:
    """Put runs that may train together into chunks that fit the device."""
    groups: dict[tuple[object, ...], list[Batch]] = {}
    for batch in batches:
        common = [getattr(batch.settings, name) for name in find_block(batch.learner).common_settings]
        groups.setdefault((batch.learner, batch.steps, *common), []).append(batch)
    for group in groups.values():
        most = _most_runs(group[0], tables, details)
        ends = list(accumulate(len(batch.seeds) for batch in group))
        for begin in range(0, ends[-1], most):
            parts = []
            for batch, end in zip(group, ends, strict=True):
                first = end - len(batch.seeds) - begin  # the batch's first run, among those of the chunk
                indices = range(max(0, -first), min(len(batch.seeds), most - first))
                if indices:
                    parts.append(ChunkPart(batch, indices, first + indices.start))
            yield parts


def _most_runs(batch: Batch, tables: Tables, details: bool) -> int:
    """Return how many runs fit into a chunk."""
    agents, events = len(tables.start), len(tables.knowers)
    per_episode = 4 * (1 + details * (agents + events)) + 8 * agents * tables.has_rewards
    tests = batch.steps // batch.settings.test_every * batch.settings.test_episodes * 2
    on_device = find_block(batch.learner).size(tables) + 4 * (1 + 3 * agents + events) * batch.settings.test_episodes
    free = free_memory()
    if on_device > free:
        raise SettingsError(f"{batch.learner} would need {on_device:,} bytes a run on the device, which has {free:,}")
    sizes = (LARGEST_CHUNK // agents, free // on_device, TESTS_BYTES // max(1, tests * per_episode))
    return max(1, min(sizes))


def _train_chunk(
    chunk: Sequence[ChunkPart],
    tables: Tables,
    report_of: Mapping[int, Report],
    stop: StopSignal | None,
    policies: int | None,
    details: bool,
) -> list[Trained]:
    """Train and test the runs of a chunk, until they are done or `stop` says so."""
    agents, (_, learner, settings, _, steps, *_) = len(tables.start), chunk[0].batch
    jobs = [DeviceJob(batch.settings, batch.seeds[index]) for batch, indices, _ in chunk for index in indices]
    block = find_block(learner)(tables, jobs)
    events = len(tables.knowers) * (details and block.keeps_events)
    tests = TestLog(settings, steps, len(jobs), agents * details, events, agents * tables.has_rewards)

    def test() -> None:
        tests.keep(block.play(tests.next_numbers))

    def tell(piece: int, is_tested: bool) -> None:
        for batch, indices, first in chunk:
            shown = range(first, first + min(len(indices), SHOWN))
            latest = tests.latest(shown, batch.settings.max_episode_steps) if is_tested else []
            report_of[id(batch)](piece * len(indices) * agents, latest)

    def fetch(batch: Batch, indices: range, first: int) -> Iterator[Run]:
        for run, seed in enumerate((batch.seeds[index] for index in indices), first):
            arrays = block.arrays(run) if policies is None or seed < policies else {}
            yield batch.make_run(seed, arrays, tests.of(run, batch.settings.max_episode_steps), done, seconds)

    begin = time.perf_counter()
    done = train_in_pieces(block.train, test, tell, settings, steps, Pace(), stop)
    seconds = (time.perf_counter() - begin) / len(jobs)
    return [Trained(part.batch, done, fetch(*part)) for part in chunk]
