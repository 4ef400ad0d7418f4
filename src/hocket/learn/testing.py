"""Test episodes: one by one, as columns, and as a table that takes little room."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast, overload

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
    finish: tuple[int, ...] = ()  # when each agent's own part was first done, in steps; -1: never
    event_time: tuple[int, ...] = ()  # when each event of the task first happened; empty where nobody keeps it
    returns: tuple[float, ...] = ()  # what each agent's machine paid; empty where only completion pays


class TestEpisodes(NamedTuple):
    """Test episodes of one kind of policy, in order."""

    step: Ints  # [T] of training
    test_steps: Ints  # [T] a failure counts as the most steps
    success: Bools  # [T]
    returns: Doubles | None = None  # [T] what the team earned; None where only completion pays


class TestResults(NamedTuple):
    """What came of test episodes: K of each of some runs, one run after the other, or with more axes."""

    steps: Times  # [runs * K] or less than 0 where the task was not done
    finish: Times  # [runs * K, N] when each agent's own part was first done; -1: never
    event_time: Times  # [runs * K, E] when each event first happened; no events where nobody keeps them
    returns: Doubles  # [runs * K, N] what each agent's machine paid; no agents where only completion pays


for _kind in (TestEpisode, TestEpisodes, TestResults):
    _kind.__test__ = False  # type: ignore[union-attr]  # for pytest, which takes classes of such names for tests


class Recording(NamedTuple):
    """What happened in every step; empty where nobody asked."""

    cell: Words  # [steps, N]
    state: Shorts  # [steps, N]
    action: Shorts  # [steps, N]


def recording(steps: int, agents: int) -> Recording:
    """Make room for what happens in an episode; of no steps, to record nothing."""
    return Recording(*(np.zeros((steps, agents), kind) for kind in (np.int32, np.int16, np.int16)))


class TestTable(Sequence[TestEpisode]):
    """Test episodes as numbers, of each test those by softmax and then greedy ones; who looks at them gets objects."""

    __test__ = False

    def __init__(self, step: Ints, results: TestResults, most_steps: int) -> None:
        self.step, self.results = step, results  # [T] of training, and [T, 2, K, ...]
        self.most = most_steps  # that a failed test counts as

    def __len__(self) -> int:
        return self.results.steps.size

    def __repr__(self) -> str:
        return f"<{len(self):,} tests>"

    @overload
    def __getitem__(self, place: int) -> TestEpisode: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[TestEpisode, ...]: ...

    def __getitem__(self, place: int | slice) -> TestEpisode | tuple[TestEpisode, ...]:
        if isinstance(place, slice):
            return tuple(self[index] for index in range(*place.indices(len(self))))
        at = np.unravel_index(range(len(self))[place], self.results.steps.shape)
        taken, *kept = (array[at].tolist() for array in self.results)
        steps, success = (self.most if taken < 0 else taken), taken >= 0
        return TestEpisode(int(self.step[at[0]]), KINDS[at[1]], steps, success, *map(tuple, kept))

    def __eq__(self, other: object) -> bool:
        is_alike = isinstance(other, Sequence) and len(self) == len(other)
        return is_alike and all(map(operator.eq, self, cast(Sequence[object], other)))

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def columns(self, policy: str) -> TestEpisodes:
        """List the tests of one kind of policy."""
        taken, _, _, returns = (array[:, KINDS.index(policy)] for array in self.results)
        steps = np.where(taken < 0, self.most, taken).astype(np.int64)
        earned = returns.sum(axis=-1).ravel() if returns.shape[-1] else None
        return TestEpisodes(np.repeat(self.step, taken.shape[1]), steps.ravel(), (taken >= 0).ravel(), earned)


class TestLog:
    """The tests of runs that train side by side, as they are made: [runs, tests, softmax and greedy, episodes]."""

    __test__ = False

    def __init__(self, settings: Settings, steps: int, runs: int, agents: int, events: int, paid: int) -> None:
        self.every, self.episodes, self.done = settings.test_every, settings.test_episodes, 0
        self.first = min(steps, 1)  # what is planned without a step is tested at once
        shape = (runs, steps // self.every + 1 - self.first, len(KINDS), self.episodes)
        finish, event_time = np.zeros((*shape, agents), np.int32), np.zeros((*shape, events), np.int32)
        self.results = TestResults(np.zeros(shape, np.int32), finish, event_time, np.zeros((*shape, paid)))

    @property
    def next_numbers(self) -> range:
        """Number the episodes of the next test."""
        return range((self.done + 1) * self.episodes, (self.done + 2) * self.episodes)

    def add(self, play: Callable[[range, bool], TestResults]) -> None:
        """Test all runs once more; `play` is told the numbers of the episodes, and whether greedily."""
        self.keep([play(self.next_numbers, greedy) for greedy in ((False, True) if self.episodes else ())])

    def keep(self, results: Sequence[TestResults]) -> None:
        """Keep the results of the next test, by softmax and greedily."""
        for kind, played in enumerate(results):
            tables = (self.results.steps[..., None], *self.results[1:])
            for mine, theirs in zip(tables, (played.steps[:, None], *played[1:]), strict=True):
                kept = mine[:, self.done, kind]  # [runs, episodes, and what is kept]
                kept[:] = theirs[:, : kept.shape[2]].reshape(kept.shape)
        self.done += 1

    def of(self, run: int, most_steps: int) -> TestTable:
        """Return the tests of a run, as far as they were made."""
        step = np.arange(self.first, self.first + self.done, dtype=np.int64) * self.every
        return TestTable(step, TestResults._make(each[run, : self.done].copy() for each in self.results), most_steps)

    def latest(self, runs: range, most_steps: int) -> list[int]:
        """Return the steps that the last tests by softmax of some runs took."""
        taken = self.results.steps[runs.start : runs.stop, self.done - 1, 0].ravel()
        return [most_steps if steps < 0 else steps for steps in taken.tolist()]
