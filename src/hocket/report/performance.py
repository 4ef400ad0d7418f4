"""How the runs of a group do: curves over training, and what they are worth in the end; thousands of runs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket import statistics
from hocket.statistics import Interval, Quartiles
from hocket.study.records import Record, TestEpisodes

LAST_TESTS = 10  # of each run: its final performance, and at any time how it does
NEAR = 0.1  # of the final level, within which a curve has reached it
MOST_TOGETHER = 1 << 19  # tests that are put side by side
DRAWS, FEWEST_DRAWS = 2_000, 400  # of runs, for limits of a mean: fewer where runs are many and the limits close
MOST_DRAWN = 10_000_000  # runs in all of them, above which there are fewer
ENOUGH = 0.9  # share of tests from which on a run has learnt

Numbers = NDArray[np.float64]


class Curve(NamedTuple):
    """How the runs of a group do over training: each by its last tests, and all by what is median among runs."""

    step: NDArray[np.int64]  # [T] of training
    quartiles: Quartiles  # [T] each: over runs, of the median of each run's last tests
    success: Numbers  # [T] the share of the same tests that succeeded
    each: Quartiles  # [T] each: over runs, of this test alone, as others publish it
    each_success: Numbers  # [T] the share of runs that succeeded in it


@dataclass(frozen=True)
class FinalPerformance:
    """The final performance of a group of runs, under one kind of policy; limits are over runs."""

    quartiles: tuple[float, float, float]  # over runs, of the median steps, or return, of each run's last tests
    mean: Interval  # the interquartile mean over runs of the mean of each run's last tests
    success: Interval  # the mean over runs of the share of each run's last tests that succeeded
    learnt_after: int | None  # training steps, the median over all runs; None: never
    learnt: int  # runs that have learnt at all
    scores: tuple[float, ...]  # each run's mean of its last tests
    shares: tuple[float, ...]  # of each run's last tests that succeeded
    is_return: bool = False  # the task has rewards: numbers are returns, not steps

    @property
    def learnt_in_words(self) -> str:
        """After how many training steps runs have learnt, and how many of them where some did and others did not."""
        when = "never" if self.learnt_after is None else f"{self.learnt_after:,}"
        runs = len(self.scores)
        return when if self.learnt in (0, runs) else f"{when} ({self.learnt} of {runs} runs)"


class RunTests(NamedTuple):
    """The tests of runs that were tested after the same steps, under one kind of policy, in order of training."""

    place: list[int]  # [R] of the runs among all
    step: NDArray[np.int64]  # [T] all different
    taken: Numbers  # [R, T, K] steps of the episodes of each test, or their returns
    success: NDArray[np.bool_]  # [R, T, K]
    is_return: bool = False  # the task has rewards


def gather_tests(records: Sequence[Record], kind: str) -> list[RunTests]:
    """Put runs together that were tested after the same steps, so that as many as have room are summed up at once."""
    parts: dict[bytes, list[int]] = {}
    for number, record in enumerate(records):
        parts.setdefault(record.tests[kind].step.tobytes(), []).append(number)
    tests = []
    for steps, places in parts.items():
        most = max(1, MOST_TOGETHER // (len(steps) // 8))
        for begin in range(0, len(places), most):
            place = places[begin : begin + most]
            tests.append(_side_by_side([records[number].tests[kind] for number in place], place))
    return tests


def _side_by_side(runs: Sequence[TestEpisodes], place: list[int]) -> RunTests:
    """Put episodes after the same step together; where some tests have more than others, as many as all have."""
    step = runs[0].step
    order = np.argsort(step, kind="stable")
    unique, first, counts = np.unique(step[order], return_index=True, return_counts=True)
    episodes = order[first[:, None] + np.arange(counts.min())]
    is_return = all(tests.returns is not None for tests in runs)
    taken = np.array([tests.returns if is_return else tests.test_steps for tests in runs])
    success = np.array([tests.success for tests in runs])
    return RunTests(place, unique, taken[:, episodes].astype(np.float64), success[:, episodes], is_return)


def _of_each(tests: Sequence[RunTests], of: Callable[[RunTests], NDArray[Any]]) -> NDArray[Any]:
    """Put together what there is of each run, in their order."""
    order = np.argsort(np.concatenate([part.place for part in tests]))
    return np.concatenate([of(part) for part in tests])[order]


def curve_of(tests: Sequence[RunTests]) -> Curve:
    """Put the runs' tests side by side, as far as all of them go."""
    steps = np.array(sorted(set.intersection(*(set(part.step.tolist()) for part in tests))), np.int64)

    def together(of: Callable[[RunTests], Numbers]) -> Numbers:  # [runs, T]
        return _of_each(tests, lambda part: of(part)[:, np.searchsorted(part.step, steps)])

    return Curve(
        steps,
        statistics.quartiles(together(lambda part: statistics.trailing_median(part.taken, LAST_TESTS))),
        together(lambda part: statistics.trailing_mean(part.success.mean(axis=2), LAST_TESTS)).mean(axis=0),
        statistics.quartiles(together(lambda part: part.taken.mean(axis=2))),
        together(lambda part: part.success.mean(axis=2)).mean(axis=0),
    )


def _learnt_steps(tests: RunTests) -> NDArray[np.object_]:  # [R] of int or None
    """Find when each run has learnt; with rewards, from when on its return is near the final one, if that is a gain."""
    taken, success = tests.taken, tests.success
    if tests.is_return:
        final = np.median(taken[:, -LAST_TESTS:], axis=(1, 2), keepdims=True)
        taken, success = 2 * final - taken, np.broadcast_to(final > 0, success.shape)  # what is missing is a cost
    learnt = statistics.learnt_steps(tests.step, taken, success, least=ENOUGH, tolerance=NEAR, window=LAST_TESTS)
    return np.array(learnt, np.object_)


def final_of(tests: Sequence[RunTests], *, is_same: bool) -> FinalPerformance:
    """Sum up the last tests of each run; all of them, where they are all of the same policy."""
    count = 0 if is_same else LAST_TESTS
    medians = _of_each(tests, lambda part: np.median(part.taken[:, -count:], axis=(1, 2)))
    low, middle, high = map(float, statistics.quartiles(medians))
    scores = tuple(_of_each(tests, lambda part: part.taken[:, -count:].mean(axis=(1, 2))).tolist())
    shares = tuple(_of_each(tests, lambda part: part.success[:, -count:].mean(axis=(1, 2))).tolist())
    learnt = _of_each(tests, _learnt_steps).tolist()
    after = statistics.median_or_never(learnt)
    draws = max(FEWEST_DRAWS, min(DRAWS, MOST_DRAWN // len(scores)))
    mean, success = statistics.interquartile_interval(scores, resamples=draws), statistics.mean_share(shares)
    learnt_after, runs = None if after is None else round(after), sum(step is not None for step in learnt)
    is_return = all(part.is_return for part in tests)
    return FinalPerformance((low, middle, high), mean, success, learnt_after, runs, scores, shares, is_return)
