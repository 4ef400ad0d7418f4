"""Test episodes: one by one, as columns, and as a compact table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.arrays import Bools, Doubles, Ints, Shorts, Words
from hocket.learn.settings import Settings

KINDS = ("softmax", "greedy")  # of tested policies

Times = NDArray[np.signedinteger[Any]]


class TestEpisode(NamedTuple):
    """A test episode."""

    step: int  # of training
    policy: str  # softmax or greedy
    test_steps: int  # at most what the settings allow; that many where it failed
    success: bool
    finish: tuple[int, ...] = ()  # when each agent's machine was first final, in steps; -1: never
    event_time: tuple[int, ...] = ()  # when each event of the task first happened; empty if that is not kept
    returns: tuple[float, ...] = ()  # what each agent's machine paid; empty if only completion pays


class TestEpisodes(NamedTuple):
    """Test episodes of one kind of policy, in order."""

    step: Ints  # [T] of training
    test_steps: Ints  # [T] a failure counts as the most steps
    success: Bools  # [T]
    returns: Doubles | None = None  # [T] of the team; None if only completion pays


class TestResults(NamedTuple):
    """The results of test episodes: K of each of some runs, one run after the other, or with more axes."""

    steps: Times  # [runs * K] negative if the task was not done
    finish: Times  # [runs * K, N] when each agent's machine was first final; -1: never
    event_time: Times  # [runs * K, E] when each event first happened; [runs * K, 0] if that is not kept
    returns: Doubles  # [runs * K, N] what each agent's machine paid; [runs * K, 0] if only completion pays


for _kind in (TestEpisode, TestEpisodes, TestResults):
    _kind.__test__ = False  # type: ignore[union-attr]  # so that pytest does not collect them


class Recording(NamedTuple):
    """What happened in every step of an episode; of no steps, to record nothing."""

    cell: Words  # [steps, N]
    state: Shorts  # [steps, N]
    action: Shorts  # [steps, N]


def recording(steps: int, agents: int) -> Recording:
    """Make arrays for the record of an episode."""
    return Recording(*(np.zeros((steps, agents), kind) for kind in (np.int32, np.int16, np.int16)))


class TestTable(Sequence[TestEpisode]):
    """Test episodes as arrays, which gives objects when it is indexed; in each test, softmax comes before greedy."""

    __test__ = False

    def __init__(self, step: Ints, results: TestResults, most_steps: int) -> None:
        self.step, self.results = step, results  # [T] of training, and [T, 2, K, ...]
        self.most = most_steps  # as which a failed test counts

    def __len__(self) -> int:
        return self.results.steps.size

    def __repr__(self) -> str:
        return f"<{len(self):,} tests>"

    @overload
    def __getitem__(self, index: int) -> TestEpisode: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[TestEpisode, ...]: ...

    def __getitem__(self, index: int | slice) -> TestEpisode | tuple[TestEpisode, ...]:
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(len(self))))
        at = np.unravel_index(range(len(self))[index], self.results.steps.shape)
        steps, *others = (array[at].tolist() for array in self.results)
        about = (int(self.step[at[0]]), KINDS[at[1]], self.most if steps < 0 else steps, steps >= 0)
        return TestEpisode(*about, *map(tuple, others))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def columns(self, policy: str) -> TestEpisodes:
        """List the tests of one kind of policy."""
        steps, _, _, returns = (array[:, KINDS.index(policy)] for array in self.results)
        test_steps = np.where(steps < 0, self.most, steps).astype(np.int64).ravel()
        team_returns = returns.sum(axis=-1).ravel() if returns.shape[-1] else None
        return TestEpisodes(np.repeat(self.step, steps.shape[1]), test_steps, (steps >= 0).ravel(), team_returns)


class TestLog:
    """The tests so far of runs that train together: [runs, tests, softmax and greedy, episodes]."""

    __test__ = False

    def __init__(self, settings: Settings, steps: int, runs: int, agents: int, events: int, paid: int) -> None:
        self.every, self.episodes, self.done = settings.test_every, settings.test_episodes, 0
        self.first = min(steps, 1)  # without training steps, there is a test at step 0
        shape = (runs, steps // self.every + 1 - self.first, len(KINDS), self.episodes)
        finish, event_time = np.zeros((*shape, agents), np.int32), np.zeros((*shape, events), np.int32)
        self.results = TestResults(np.zeros(shape, np.int32), finish, event_time, np.zeros((*shape, paid)))

    @property
    def next_numbers(self) -> range:
        """The numbers of the episodes of the next test."""
        return range((self.done + 1) * self.episodes, (self.done + 2) * self.episodes)

    def add(self, play: Callable[[range, bool], TestResults]) -> None:
        """Test all runs once more; `play` takes the numbers of the episodes, and whether the policy is greedy."""
        self.keep([play(self.next_numbers, greedy) for greedy in ((False, True) if self.episodes else ())])

    def keep(self, results: Sequence[TestResults]) -> None:
        """Keep the results of the next test, by softmax and greedily."""
        for kind, played in enumerate(results):
            tables = (self.results.steps[..., None], *self.results[1:])
            for table, column in zip(tables, (played.steps[:, None], *played[1:]), strict=True):
                part = table[:, self.done, kind]  # [runs, episodes, agents or events]
                part[:] = column[:, : part.shape[2]].reshape(part.shape)
        self.done += 1

    def of(self, run: int, most_steps: int) -> TestTable:
        """Return the tests of a run so far."""
        step = np.arange(self.first, self.first + self.done, dtype=np.int64) * self.every
        return TestTable(step, TestResults._make(each[run, : self.done].copy() for each in self.results), most_steps)

    def latest(self, runs: range, most_steps: int) -> list[int]:
        """Return the steps of the last softmax tests of some runs."""
        last = self.results.steps[runs.start : runs.stop, self.done - 1, 0].ravel().tolist()
        return [most_steps if steps < 0 else steps for steps in last]
