"""Learning curves and final performance of a group of runs, computed for thousands of runs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket import statistics
from hocket.statistics import Interval, Quartiles
from hocket.study.records import Record, TestEpisodes

LAST_TESTS = 10  # of each run, at the end for its final performance, and at any time for its curve
NEAR = 0.1  # of the final level, within which a curve has reached it
MOST_TOGETHER = 1 << 19  # tests in one array
DRAWS, FEWEST_DRAWS = 2_000, 400  # resamples for the limits of a mean: fewer if there are many runs
MOST_DRAWN = 10_000_000  # runs in all resamples, above which there are fewer
ENOUGH = 0.9  # success rate of tests of a run that has learnt

Numbers = NDArray[np.float64]


class Curve(NamedTuple):
    """The learning curve of a group: quartiles over runs, each measured by its last tests."""

    step: NDArray[np.int64]  # [T] of training
    quartiles: Quartiles  # [T] each: over runs, of the median of each run's last tests
    success: Numbers  # [T] the success rate of the same tests
    each: Quartiles  # [T] each: over runs, of this test alone, as in published results
    each_success: Numbers  # [T] the success rate of this test


@dataclass(frozen=True)
class FinalPerformance:
    """The final performance of a group of runs, under one kind of policy; limits are over runs."""

    quartiles: tuple[float, float, float]  # over runs, of the median steps, or return, of each run's last tests
    mean: Interval  # the interquartile mean over runs of the mean of each run's last tests
    success: Interval  # the mean over runs of the success rate of each run's last tests
    learnt_after: int | None  # training steps, the median over all runs; None: never
    learnt: int  # number of runs that have learnt
    scores: tuple[float, ...]  # each run's mean of its last tests
    shares: tuple[float, ...]  # each run's success rate in its last tests
    is_return: bool = False  # the task has rewards: numbers are returns, not steps

    @property
    def learnt_in_words(self) -> str:
        """The training steps after which runs have learnt, and how many runs have, if not all or none."""
        when = "never" if self.learnt_after is None else f"{self.learnt_after:,}"
        runs = len(self.scores)
        return when if self.learnt in (0, runs) else f"{when} ({self.learnt} of {runs} runs)"


class RunTests(NamedTuple):
    """The tests of runs that were tested after the same steps, under one kind of policy, in order of training."""

    runs: list[int]  # [R] numbers among all runs
    step: NDArray[np.int64]  # [T] all different
    values: Numbers  # [R, T, K] steps of the episodes of each test, or their returns
    success: NDArray[np.bool_]  # [R, T, K]
    is_return: bool = False  # the task has rewards


def gather_tests(records: Sequence[Record], kind: str) -> list[RunTests]:
    """Gather runs that were tested after the same steps, in arrays that are not too large."""
    parts: dict[bytes, list[int]] = {}
    for number, record in enumerate(records):
        parts.setdefault(record.tests[kind].step.tobytes(), []).append(number)
    tests = []
    for steps, numbers in parts.items():
        most = max(1, MOST_TOGETHER // (len(steps) // 8))
        for runs in (numbers[begin : begin + most] for begin in range(0, len(numbers), most)):
            tests.append(_stack_tests([records[number].tests[kind] for number in runs], runs))
    return tests


def _stack_tests(episodes_of: Sequence[TestEpisodes], runs: list[int]) -> RunTests:
    """Stack the episodes after each step; of tests with different numbers of episodes, as many as all have."""
    step = episodes_of[0].step
    order = np.argsort(step, kind="stable")
    unique, first, counts = np.unique(step[order], return_index=True, return_counts=True)
    episodes = order[first[:, None] + np.arange(counts.min())]
    is_return = all(tests.returns is not None for tests in episodes_of)
    values = np.array([tests.returns if is_return else tests.test_steps for tests in episodes_of])
    success = np.array([tests.success for tests in episodes_of])
    return RunTests(runs, unique, values[:, episodes].astype(np.float64), success[:, episodes], is_return)


def _of_each(tests: Sequence[RunTests], compute: Callable[[RunTests], NDArray[Any]]) -> NDArray[Any]:
    order = np.argsort(np.concatenate([part.runs for part in tests]))
    return np.concatenate([compute(part) for part in tests])[order]


def curve_of(tests: Sequence[RunTests]) -> Curve:
    """Compute the learning curve, at the steps at which all runs were tested."""
    steps = np.array(sorted(set.intersection(*(set(part.step.tolist()) for part in tests))), np.int64)

    def of_runs(compute: Callable[[RunTests], Numbers]) -> Numbers:  # [runs, T]
        return _of_each(tests, lambda part: compute(part)[:, np.searchsorted(part.step, steps)])

    return Curve(
        steps,
        statistics.quartiles(of_runs(lambda part: statistics.trailing_median(part.values, LAST_TESTS))),
        of_runs(lambda part: statistics.trailing_mean(part.success.mean(axis=2), LAST_TESTS)).mean(axis=0),
        statistics.quartiles(of_runs(lambda part: part.values.mean(axis=2))),
        of_runs(lambda part: part.success.mean(axis=2)).mean(axis=0),
    )


def _learnt_steps(tests: RunTests) -> NDArray[np.object_]:  # [R] of int or None
    """Find when each run has learnt; with rewards, when its return is near the final one, if that is positive."""
    values, success = tests.values, tests.success
    if tests.is_return:
        final = np.median(values[:, -LAST_TESTS:], axis=(1, 2), keepdims=True)
        values, success = 2 * final - values, np.broadcast_to(final > 0, success.shape)  # returns as costs
    learnt = statistics.learnt_steps(tests.step, values, success, least=ENOUGH, tolerance=NEAR, window=LAST_TESTS)
    return np.array(learnt, np.object_)


def final_of(tests: Sequence[RunTests], *, is_same: bool) -> FinalPerformance:
    """Summarize the last tests of each run; all tests if they are of the same policy."""
    count = 0 if is_same else LAST_TESTS
    medians = _of_each(tests, lambda part: np.median(part.values[:, -count:], axis=(1, 2)))
    low, middle, high = map(float, statistics.quartiles(medians))
    scores = tuple(_of_each(tests, lambda part: part.values[:, -count:].mean(axis=(1, 2))).tolist())
    shares = tuple(_of_each(tests, lambda part: part.success[:, -count:].mean(axis=(1, 2))).tolist())
    learnt = _of_each(tests, _learnt_steps).tolist()
    after = statistics.median_or_never(learnt)
    draws = max(FEWEST_DRAWS, min(DRAWS, MOST_DRAWN // len(scores)))
    mean, success = statistics.interquartile_interval(scores, resamples=draws), statistics.mean_share(shares)
    learnt_after, runs = None if after is None else round(after), sum(step is not None for step in learnt)
    is_return = all(part.is_return for part in tests)
    return FinalPerformance((low, middle, high), mean, success, learnt_after, runs, scores, shares, is_return)
