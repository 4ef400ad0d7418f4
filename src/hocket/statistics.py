"""What a report on learning curves needs: smoothing, quartiles, intervals, times of learning and comparisons.

Everywhere fewer steps are better. Nothing here knows of runs or tasks; numbers come in and numbers go out, and what is
empty, of another shape or not finite is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hocket.errors import SettingsError
from hocket.inputs import Axes, Numbers, last_axes, numbers, whole

Counts = NDArray[np.int64]

NORMAL_95 = 1.959963984540054  # quantile for two-sided limits of 95 %
BLOCK = 1 << 20  # numbers that are resampled at once
MANY_RUNS = 1_000  # above this, those that are alike are drawn together
MOST_DRAWN = 1 << 24  # numbers that are held at once
ROUNDING = 1e-9  # of a share, which a sum of a few thousand ones stays below
EXACT_PAIRS = 2_500  # of runs, up to which a p-value is exact: 50 runs against 50


@dataclass(frozen=True)
class Share:
    """A share of episodes with its confidence limits, 95 %: of one policy Wilson's, of some runs those over runs."""

    value: float
    low: float
    high: float


class Quartiles(NamedTuple):
    """The 25th, 50th and 75th percentile."""

    low: Numbers
    median: Numbers
    high: Numbers


class Interval(NamedTuple):
    """A statistic with its confidence limits."""

    value: float
    low: float
    high: float


class Comparison(NamedTuple):
    """How often a run of the first is better than one of the second, and whether that could be chance."""

    probability: float  # that it is better, a tie counting half
    low: float
    high: float
    p_value: float  # two-sided, of the hypothesis that both are the same


class Statistic(Protocol):
    """Something that makes a number of all that lies along some axes, as `np.mean` and `np.median` do."""

    def __call__(self, values: Numbers, /, *, axis: tuple[int, ...]) -> Any: ...  # noqa: ANN401 as numpy has it


# One curve, or some.


def trailing_mean(values: ArrayLike, window: int) -> Numbers:  # [.., T] -> [.., T]
    """Smooth by the mean over the last `window` points, or over those that are there at the beginning.

    >>> trailing_mean([4, 2, 6, 1], 2).tolist()
    [4.0, 3.0, 4.0, 3.5]
    """
    curve = numbers(values, "values")
    window = min(whole(window, "window", 1), curve.shape[-1])
    head = np.cumsum(curve[..., : window - 1], axis=-1) / np.arange(1, window)
    tail = np.lib.stride_tricks.sliding_window_view(curve, window, axis=-1).mean(axis=-1)
    return np.concatenate([head, tail], axis=-1)


def quartiles(values: ArrayLike, axis: int = 0) -> Quartiles:  # [seeds, T] -> [T] each
    """Find the quartiles along an axis, between two values by linear interpolation.

    >>> [curve.tolist() for curve in quartiles([[1, 30], [2, 10], [4, 20]])]
    [[1.5, 15.0], [2.0, 20.0], [3.0, 25.0]]
    """
    return Quartiles(*np.percentile(last_axes(numbers(values, "values"), axis), (25, 50, 75), axis=-1))


def trailing_median(values: ArrayLike, window: int) -> Numbers:  # [.., T, K] -> [.., T]
    """Smooth by the median over the last `window` tests of K episodes each, or over those that are there at first.

    A single failure that counts as very many steps leaves a median where it was, and moves a mean far away.

    >>> trailing_median([[20], [22], [1000], [20], [21]], 5).tolist()
    [20.0, 21.0, 22.0, 21.0, 21.0]
    """
    tests = numbers(values, "values", least=2)
    window = min(whole(window, "window", 1), tests.shape[-2])
    head = [np.median(tests[..., :count, :], axis=(-2, -1)) for count in range(1, window)]
    return np.concatenate([*(medians[..., None] for medians in head), _window_medians(tests, window)], axis=-1)


def learnt_step(
    steps: ArrayLike,  # [T] rising, of training
    values: ArrayLike,  # [T, K] steps of the episodes of each test
    success: ArrayLike,  # [T, K] whether they succeeded
    *,
    least: float = 0.9,
    tolerance: float = 0.1,
    window: int = 10,
) -> int | None:
    """Find the training step from which on a run has learnt; `None` where it never has.

    That is the first test which succeeds and from which on at least a share `least` of the episodes succeed, both of
    the `window` tests that begin with it and of all that follow, and from which on the median over those `window`
    tests is at most `1 + tolerance` times the final level: the median over the run's last `window` tests. A run with
    fewer than two windows of tests has windows of half its tests.

    >>> learnt_step([100, 200, 300, 400], [[1000], [90], [20], [21]], [[0], [1], [1], [1]])
    300
    >>> learnt_step([100, 200, 300, 400], [[20], [1000], [21], [1000]], [[1], [0], [1], [0]]) is None
    True
    """
    tests, wins = numbers(values, "values", axes=2), numbers(success, "success", axes=2)
    return learnt_steps(steps, tests[None], wins[None], least=least, tolerance=tolerance, window=window)[0]


def learnt_steps(
    steps: ArrayLike,  # [T] rising, of training
    values: ArrayLike,  # [R, T, K] steps of the episodes of each test of each run
    success: ArrayLike,  # [R, T, K] whether they succeeded
    *,
    least: float = 0.9,
    tolerance: float = 0.1,
    window: int = 10,
) -> list[int | None]:
    """Find for each of some runs, which are tested after the same steps, when it has learnt, as `learnt_step` does.

    >>> learnt_steps([100, 200, 300], [[[90], [20], [21]], [[90], [80], [21]]], [[[1], [1], [1]], [[1], [1], [0]]])
    [200, None]
    """
    when, tests, wins = numbers(steps, "steps", 1), numbers(values, "values", 3), numbers(success, "success", 3)
    if len({*(counts := (len(when), tests.shape[1], wins.shape[1]))}) != 1:
        raise SettingsError("there must be as many steps as tests, got {}, {} and {}".format(*counts))
    if (when != np.floor(when)).any() or (np.diff(when) <= 0).any():
        raise SettingsError("steps must be increasing integers, got others")
    if not 0 <= least <= 1:
        raise SettingsError(f"least must be between 0 and 1, got {least!r}")
    if not 0 <= tolerance < math.inf:
        raise SettingsError(f"tolerance must be at least 0 and finite, got {tolerance!r}")
    window = min(whole(window, "window", 1), (len(when) + 1) // 2)
    here = wins.mean(axis=2)
    onward = np.cumsum(here[:, ::-1], axis=1)[:, ::-1] / np.arange(len(when), 0, -1)
    middle = _window_medians(tests, window)
    shares = [share[:, : middle.shape[1]] for share in (here, onward, np.mean(_windows(wins, window), axis=(2, 3)))]
    enough = np.minimum.reduce(shares) >= least - ROUNDING
    has_learnt = enough & (middle <= (1 + tolerance) * middle[:, -1:])
    first = when[has_learnt.argmax(axis=1)].tolist()
    return [int(step) if ever else None for step, ever in zip(first, has_learnt.any(axis=1).tolist(), strict=True)]


def _windows(tests: Numbers, window: int) -> Numbers:  # [.., T, K] -> [.., T - window + 1, K, window]
    return np.lib.stride_tricks.sliding_window_view(tests, window, axis=-2)


def _window_medians(tests: Numbers, window: int) -> Numbers:  # [.., T, K] -> [.., T - window + 1]
    """Find the medians over windows of tests, sorting those of a block of runs at a time."""
    *runs, length, episodes = tests.shape
    rows, many = tests.reshape(-1, length, episodes), window * episodes
    size = max(1, BLOCK // (length * many))
    medians = np.empty((len(rows), length - window + 1))
    for first in range(0, len(rows), size):
        cut = _windows(rows[first : first + size], window)
        ordered = np.sort(cut.reshape(*cut.shape[:2], many), axis=-1)
        medians[first : first + size] = ordered[..., (many - 1) // 2 : many // 2 + 1].mean(axis=-1)
    return medians.reshape(*runs, -1)


def median_or_never(values: Sequence[float | None]) -> float | None:
    """Find the median of times of which None is later than all; None where it is not earlier than all that never came.

    >>> median_or_never([3_000, None, 1_000]), median_or_never([None, 1_000]), median_or_never([4_000, 1_000])
    (3000.0, None, 2500.0)
    """
    middle = float(np.median([math.inf if value is None else value for value in values]))
    return None if math.isinf(middle) else middle


# Scores of some runs.


def wilson(successes: int, episodes: int) -> Share:
    """Estimate a share with Wilson's confidence limits.

    >>> share = wilson(8, 10)
    >>> round(share.low, 3), round(share.high, 3)
    (0.49, 0.943)
    """
    episodes, successes = whole(episodes, "episodes", 1), whole(successes, "successes", 0)
    if successes > episodes:
        raise SettingsError(f"successes must be at most the {episodes} episodes, got {successes}")
    z2, value = NORMAL_95**2, successes / episodes
    center = (value + z2 / (2 * episodes)) / (1 + z2 / episodes)
    half = NORMAL_95 / (1 + z2 / episodes) * math.sqrt(value * (1 - value) / episodes + z2 / (4 * episodes**2))
    # Rounding must not push a share of 0 or 1 out of its own limits.
    return Share(value, max(0.0, min(value, center - half)), min(1.0, max(value, center + half)))


@overload
def interquartile_mean(values: ArrayLike, *, axis: None = None) -> float: ...
@overload
def interquartile_mean(values: ArrayLike, *, axis: Axes) -> Numbers: ...
def interquartile_mean(values: ArrayLike, *, axis: Axes | None = None) -> float | Numbers:
    """Average the middle half: what is left of n values without the n // 4 smallest and the n // 4 largest.

    Without an axis, all values count alike, as Agarwal et al. have it (*Deep RL at the edge of the statistical
    precipice*, NeurIPS 2021).

    >>> interquartile_mean([0, 1, 2, 3, 1000])
    2.0
    """
    scores = numbers(values, "values")
    line = np.sort(last_axes(scores, tuple(range(scores.ndim)) if axis is None else axis), axis=-1)
    cut = line.shape[-1] // 4
    means: Numbers = line[..., cut : line.shape[-1] - cut].mean(axis=-1)
    return float(means) if axis is None else means


def bootstrap_interval(
    scores: ArrayLike,  # [runs, tasks]
    statistic: Statistic = interquartile_mean,
    *,
    resamples: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Find confidence limits of a statistic by the stratified percentile bootstrap.

    Runs are drawn with replacement, for each task independently of the others. `statistic` is called with an array
    [resamples, runs, tasks] and `axis=(1, 2)`. Limits from a single run are that run: they say nothing.

    >>> steps = [[20, 31], [22, 30], [21, 35], [40, 33], [23, 32]]
    >>> value, low, high = bootstrap_interval(steps, np.mean)
    >>> value, round(low), round(high)
    (28.7, 26, 33)
    """
    table = numbers(scores, "scores", axes=2)
    runs, tasks = table.shape

    def resample(generator: np.random.Generator, count: int) -> Numbers:
        return of_each(table[generator.integers(runs, size=(count, runs, tasks)), np.arange(tasks)])

    def of_each(samples: Numbers) -> Numbers:
        values = np.asarray(statistic(samples, axis=(1, 2)), np.float64)
        if values.shape != samples.shape[:1] or not np.isfinite(values).all():
            raise SettingsError("a statistic must give one finite number for each sample, got something else")
        return values

    return _interval(float(of_each(table[None])[0]), resample, table.size, resamples, confidence, seed)


def bootstrap_means(
    scores: ArrayLike,  # [runs, columns]
    *,
    resamples: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[Interval]:
    """Find confidence limits of the mean of each column by the percentile bootstrap over whole runs.

    Runs are independent of each other, and what one run has in its columns need not be. Where all runs are alike, the
    limits are a point: that says that runs do not differ, and not that the next one could not. Of very many runs those
    that are alike are drawn together, with the same chances.

    >>> [interval] = bootstrap_means([[1.0], [1.0], [0.5], [1.0]])
    >>> interval
    Interval(value=0.875, low=0.625, high=1.0)
    """
    table = numbers(scores, "scores", axes=2)
    (count, limits, generator), runs = _resampling(resamples, confidence, seed), len(table)
    rows, often = np.unique(table, axis=0, return_counts=True) if runs > MANY_RUNS else (table, np.ones(runs))
    most = max(1, MOST_DRAWN // len(rows))
    blocks = (generator.multinomial(runs, often / runs, min(most, count - done)) for done in range(0, count, most))
    means = np.concatenate([drawn @ rows / runs for drawn in blocks])
    low, high = np.percentile(means, limits, axis=0)
    return [Interval(*limits) for limits in zip(table.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)]


# Two samples of runs.


def improvement_probability(first: ArrayLike, second: ArrayLike) -> float:  # [n], [m]
    """Estimate how likely a run of the first is better (smaller) than one of the second, a tie counting half.

    This is the statistic U of Mann and Whitney, divided by the number of pairs.

    >>> improvement_probability([20, 25], [25, 30, 22])
    0.75
    """
    return float(_probability(*_tally(first, second)))


def compare(
    first: ArrayLike,  # [n]
    second: ArrayLike,  # [m]
    *,
    resamples: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare two samples of runs by `improvement_probability`, with bootstrap limits and a p-value.

    The p-value is that of the permutation test of the same statistic, twice its smaller tail; ties are taken as they
    are. It is exact for up to 2,500 pairs of runs, beyond that by the normal approximation. The limits shrink to a
    point where every run of one is better than every run of the other; the p-value does not.

    >>> compare([20, 21, 25, 22], [25, 30, 23, 31])
    Comparison(probability=0.90625, low=0.625, high=1.0, p_value=0.08571428571428572)
    """
    ours, theirs = _tally(first, second)
    n, m = int(ours.sum()), int(theirs.sum())

    def resample(generator: np.random.Generator, count: int) -> Numbers:
        return _probability(generator.multinomial(n, ours / n, count), generator.multinomial(m, theirs / m, count))

    interval = _interval(float(_probability(ours, theirs)), resample, ours.size, resamples, confidence, seed)
    if n * m <= EXACT_PAIRS:
        return Comparison(*interval, _exact_p(ours, theirs))
    if ours.size == 1:  # all values are equal, of which scipy says nothing
        return Comparison(*interval, 1.0)
    from scipy.stats import mannwhitneyu  # takes a while to load

    return Comparison(*interval, float(mannwhitneyu(first, second, method="asymptotic").pvalue))


def _tally(first: ArrayLike, second: ArrayLike) -> tuple[Counts, Counts]:  # [D], [D]
    """Count how often each sample has each of the D values that there are, in rising order."""
    ours, theirs = numbers(first, "first", axes=1), numbers(second, "second", axes=1)
    distinct, place = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
    ends = np.split(place, [ours.size])
    left, right = (np.bincount(end, minlength=distinct.size).astype(np.int64) for end in ends)
    return left, right


def _probability(ours: Counts, theirs: Counts) -> Numbers:  # [.., D], [.., D] -> [..]
    above = theirs.sum(axis=-1, keepdims=True) - np.cumsum(theirs, axis=-1)
    pairs = 2 * ours.sum(axis=-1) * theirs.sum(axis=-1)
    probability: Numbers = (ours * (2 * above + theirs)).sum(axis=-1) / pairs
    return probability


def _exact_p(ours: Counts, theirs: Counts) -> float:
    """Count, of all ways to choose the smaller sample among all runs, those with a rank sum as extreme as its own."""
    both = ours + theirs
    chosen = min(ours, theirs, key=lambda counts: int(counts.sum()))
    doubled = 2 * np.cumsum(both) - both + 1  # mid-ranks times two, which are whole
    ranks, size, rank_sum = np.repeat(doubled, both), int(chosen.sum()), int(chosen @ doubled)
    ways = np.zeros((size + 1, int(ranks[-size:].sum()) + 1))  # [how many were chosen, their rank sum]
    ways[0, 0] = 1
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, :-rank]
    tail = min(ways[size, : rank_sum + 1].sum(), ways[size, rank_sum:].sum())
    return min(1.0, 2 * float(tail / ways[size].sum()))


def _interval(
    value: float,
    resample: Callable[[np.random.Generator, int], Numbers],
    numbers: int,  # in one resample
    resamples: int,
    confidence: float,
    seed: int,
) -> Interval:
    """Take the percentiles of what resamples give, drawing a block of them at a time."""
    count, limits, generator = _resampling(resamples, confidence, seed)
    most = max(1, BLOCK // numbers)
    resampled = np.concatenate([resample(generator, min(most, count - done)) for done in range(0, count, most)])
    low, high = np.percentile(resampled, limits).tolist()
    return Interval(value, low, high)


def _resampling(resamples: int, confidence: float, seed: int) -> tuple[int, tuple[float, float], np.random.Generator]:
    """Check how to resample: how often, up to which percentiles, and by which draws."""
    if not 0 < confidence < 1:
        raise SettingsError(f"confidence must be between 0 and 1, got {confidence!r}")
    limits = 50 * (1 - confidence), 50 * (1 + confidence)
    return whole(resamples, "resamples", 1), limits, np.random.default_rng(whole(seed, "seed", 0))
