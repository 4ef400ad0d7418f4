"""Statistics of learning curves: smoothing, quartiles, intervals, times of learning and comparisons.

Fewer steps are better. Functions take and return numbers; arrays that are empty, of another shape or not finite are
refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from hocket.arguments import Numbers, numbers, whole
from hocket.errors import SettingsError

Counts = NDArray[np.int64]

NORMAL_95 = 1.959963984540054  # quantile for two-sided limits of 95 %
BLOCK = 1 << 20  # numbers that are resampled at once
FEWEST_RUNS = 5  # that have confidence limits
BISECTIONS = 50
ROUNDING = 1e-9  # of a share, which a sum of a few thousand ones stays below
EXACT_PAIRS = 2_500  # of runs, up to which a p-value is exact: 50 runs against 50


class Quartiles(NamedTuple):
    """The 25th, 50th and 75th percentile."""

    low: Numbers
    median: Numbers
    high: Numbers


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % confidence limits, unless there are too few runs."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """Both limits, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class Comparison(NamedTuple):
    """A comparison of the runs of two groups."""

    probability: Interval  # that a run of the first is better than one of the second, a tie counting half
    p_value: float  # two-sided, of the hypothesis that both are the same


# One curve, or some.


def trailing_mean(values: ArrayLike, window: int) -> Numbers:  # [.., T] -> [.., T]
    """Smooth by the mean over the last `window` points, or over fewer at the beginning.

    >>> trailing_mean([4, 2, 6, 1], 2).tolist()
    [4.0, 3.0, 4.0, 3.5]
    """
    curve = numbers(values, "values")
    window = min(whole(window, "window", 1), curve.shape[-1])
    head = np.cumsum(curve[..., : window - 1], axis=-1) / np.arange(1, window)
    tail = sliding_window_view(curve, window, axis=-1).mean(axis=-1)
    return np.concatenate([head, tail], axis=-1)


def quartiles(values: ArrayLike) -> Quartiles:  # [seeds, T] -> [T] each
    """Find the quartiles along the first axis, between two values by linear interpolation.

    >>> [curve.tolist() for curve in quartiles([[1, 30], [2, 10], [4, 20]])]
    [[1.5, 15.0], [2.0, 20.0], [3.0, 25.0]]
    """
    return Quartiles(*np.percentile(numbers(values, "values"), (25, 50, 75), axis=0))


def trailing_median(values: ArrayLike, window: int) -> Numbers:  # [.., T, K] -> [.., T]
    """Smooth by the median over the last `window` tests of K episodes each, or over fewer at the beginning.

    A single failure, which counts as very many steps, does not change a median, but it changes a mean.

    >>> trailing_median([[20], [22], [1000], [20], [21]], 5).tolist()
    [20.0, 21.0, 22.0, 21.0, 21.0]
    """
    tests = numbers(values, "values", least=2)
    window = min(whole(window, "window", 1), tests.shape[-2])
    head = [np.median(tests[..., :count, :], axis=(-2, -1)) for count in range(1, window)]
    return np.concatenate([*(medians[..., None] for medians in head), _window_medians(tests, window)], axis=-1)


def learnt_steps(
    steps: ArrayLike,  # [T] rising, of training
    values: ArrayLike,  # [R, T, K] steps of the episodes of each test of each run
    success: ArrayLike,  # [R, T, K] whether they succeeded
    *,
    least: float = 0.9,
    tolerance: float = 0.1,
    window: int = 10,
) -> list[int | None]:
    """Find the training step from which on each of some runs has learnt; `None` where it never has.

    That is the first test which succeeds and from which on at least a share `least` of the episodes succeed, both of
    the `window` tests that begin with it and of all that follow, and from which on the median over those `window`
    tests is at most `1 + tolerance` times the final level: the median over the run's last `window` tests. A run with
    fewer than two windows of tests has windows of half its tests. All runs are tested after the same steps.

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
    in_test = wins.mean(axis=2)
    onward = np.cumsum(in_test[:, ::-1], axis=1)[:, ::-1] / np.arange(len(when), 0, -1)
    medians = _window_medians(tests, window)
    in_window = sliding_window_view(wins, window, axis=1).mean(axis=(2, 3))
    shares = [share[:, : medians.shape[1]] for share in (in_test, onward, in_window)]
    enough = np.minimum.reduce(shares) >= least - ROUNDING
    has_learnt = enough & (medians <= (1 + tolerance) * medians[:, -1:])
    first = when[has_learnt.argmax(axis=1)].tolist()
    return [int(step) if ever else None for step, ever in zip(first, has_learnt.any(axis=1).tolist(), strict=True)]


def _window_medians(tests: Numbers, window: int) -> Numbers:  # [.., T, K] -> [.., T - window + 1]
    """Find the medians over windows of tests, sorting those of a block of runs at a time."""
    *runs, length, episodes = tests.shape
    rows, many = tests.reshape(-1, length, episodes), window * episodes
    size = max(1, BLOCK // (length * many))
    medians = np.empty((len(rows), length - window + 1))
    for first in range(0, len(rows), size):
        cut = sliding_window_view(rows[first : first + size], window, axis=1)
        ordered = np.sort(cut.reshape(*cut.shape[:2], many), axis=-1)
        medians[first : first + size] = ordered[..., (many - 1) // 2 : many // 2 + 1].mean(axis=-1)
    return medians.reshape(*runs, -1)


def median_or_never(values: Sequence[float | None]) -> float | None:
    """Find the median of times, None counting as infinite; None if the median is infinite.

    >>> median_or_never([3_000, None, 1_000]), median_or_never([None, 1_000]), median_or_never([4_000, 1_000])
    (3000.0, None, 2500.0)
    """
    middle = float(np.median([math.inf if value is None else value for value in values]))
    return None if math.isinf(middle) else middle


# Scores of some runs.


def wilson(successes: int, episodes: int) -> Interval:
    """Estimate a share of independent episodes with Wilson's confidence limits.

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
    return Interval(value, max(0.0, min(value, center - half)), min(1.0, max(value, center + half)))


def mean_share(*strata: ArrayLike) -> Interval:  # [runs] each
    """Average shares over the runs of each stratum, and these means over strata, with confidence limits over runs.

    The limits are those of Korn and Graubard (Survey Methodology 24, 1998) for shares in clusters, which runs are:
    Clopper and Pearson's limits, of as many episodes as would have the variance that the runs show, with fewer of them
    where that variance itself is uncertain. They are never a point: identical runs count as one episode each.

    >>> mean_share([1.0, 1.0, 0.5, 1.0]).limits is None
    True
    >>> perfect = mean_share([1.0] * 10)
    >>> round(perfect.low, 2), perfect.high
    (0.69, 1.0)
    """
    rows = [numbers(row, "shares", axes=1) for row in strata]
    if any(row.min() < 0 or row.max() > 1 for row in rows):
        raise SettingsError("shares must be between 0 and 1, got others")
    value, count = float(np.mean([row.mean() for row in rows])), sum(row.size for row in rows)
    if min(row.size for row in rows) < FEWEST_RUNS:
        return Interval(value)
    from scipy.special import betaincinv, stdtrit  # takes a while to load

    parts = [row.var(ddof=1) / row.size / len(rows) ** 2 for row in rows]
    variance, episodes = math.fsum(parts), float(count)
    if variance > ROUNDING**2:
        freedom = variance**2 / math.fsum(part**2 / (row.size - 1) for part, row in zip(parts, rows, strict=True))
        alike = value * (1 - value) / variance  # episodes, were the variance known
        episodes = alike * float(stdtrit(max(alike - 1, 1), 0.975) / stdtrit(freedom, 0.975)) ** 2
        episodes = max(episodes, count) if len(rows) == 1 else episodes  # of shares none varies more than this
    wins = value * episodes
    low = float(betaincinv(wins, episodes - wins + 1, 0.025)) if value > 0 else 0.0
    high = float(betaincinv(wins + 1, episodes - wins, 0.975)) if value < 1 else 1.0
    return Interval(value, min(low, value), max(high, value))


def mean_interval(values: ArrayLike) -> Interval:  # [n]
    """Average numbers that are independent, as returns of episodes or of runs are, with Student's confidence limits.

    >>> mean_interval([3.0, 3.0, 3.0, 3.0, 3.0])
    Interval(value=3.0, low=3.0, high=3.0)
    """
    row = numbers(values, "values", axes=1)
    if row.size < FEWEST_RUNS:
        return Interval(float(row.mean()))
    from scipy.special import stdtrit  # takes a while to load

    spread = float(stdtrit(row.size - 1, 0.975)) * float(row.std(ddof=1)) / math.sqrt(row.size)
    return Interval(float(row.mean()), float(row.mean()) - spread, float(row.mean()) + spread)


def interquartile_mean(values: ArrayLike, axis: int | None = None) -> Numbers:
    """Average the middle half of all values, or of those along the last axis: without the n // 4 smallest and largest.

    All values count alike (Agarwal et al., *Deep RL at the edge of the statistical precipice*, NeurIPS 2021).

    >>> float(interquartile_mean([0, 1, 2, 3, 1000]))
    2.0
    """
    line = np.sort(numbers(values, "values"), axis=axis)
    cut = line.shape[-1] // 4
    return np.asarray(line[..., cut : line.shape[-1] - cut].mean(axis=-1))


def interquartile_interval(scores: ArrayLike, *, resamples: int = 2_000, seed: int = 0) -> Interval:  # [runs]
    """Estimate the interquartile mean of runs with confidence limits, at each end the wider of two kinds.

    One is Tukey and McLaughlin's (Sankhya A 25, 1963), by Student's t and the Winsorised variance: few runs need it.
    The other is the percentile bootstrap over runs: runs of which some fail altogether need it. Runs that are all alike
    have no limits, for they do not show by how much another one could differ.

    >>> interquartile_interval([20, 22, 21, 40, 23])
    Interval(value=22.0, low=18.79..., high=34.33...)
    """
    line = np.sort(numbers(scores, "scores", axes=1))
    runs, cut, value = line.size, line.size // 4, float(interquartile_mean(line))
    count, generator = whole(resamples, "resamples", 1), np.random.default_rng(whole(seed, "seed", 0))
    if runs < FEWEST_RUNS or line[0] == line[-1]:
        return Interval(value)
    from scipy.special import stdtrit  # takes a while to load

    kept = runs - 2 * cut
    error = float(np.clip(line, line[cut], line[runs - cut - 1]).std(ddof=1)) * math.sqrt(runs) / kept
    half = float(stdtrit(kept - 1, 0.975)) * error
    most = max(1, BLOCK // runs)
    blocks = (generator.integers(runs, size=(min(most, count - done), runs)) for done in range(0, count, most))
    resampled = np.concatenate([interquartile_mean(line[drawn], axis=-1) for drawn in blocks])
    low, high = np.percentile(resampled, (2.5, 97.5)).tolist()
    low, high = min(low, value - half), max(high, value + half)
    return Interval(value, max(low, 0.0) if line[0] >= 0 else low, high)  # no number of steps is below 0


# Two samples of runs.


def compare(first: ArrayLike, second: ArrayLike) -> Comparison:  # [n], [m]
    """Estimate how likely a run of the first is better (smaller) than one of the second, a tie counting half.

    This is the statistic U of Mann and Whitney, divided by the number of pairs, with confidence limits and a p-value.
    The limits are Newcombe's (Statistics in Medicine 25, 2006, method 5), which are no point where every run of one is
    better than every run of the other. The p-value is that of the permutation test of the same statistic, twice its
    smaller tail; ties are taken as they are. It is exact for up to 2,500 pairs of runs, beyond that by the normal
    approximation.

    >>> compare([20, 21, 25, 22], [25, 30, 23, 31])
    Comparison(probability=Interval(value=0.90625, low=None, high=None), p_value=0.08571428571428572)
    """
    runs, others = numbers(first, "first", axes=1), numbers(second, "second", axes=1)
    values, index = np.unique(np.concatenate([runs, others]), return_inverse=True)
    ours, theirs = (np.bincount(part, minlength=values.size).astype(np.int64) for part in np.split(index, [runs.size]))
    n, m = int(ours.sum()), int(theirs.sum())
    above = m - np.cumsum(theirs)
    probability = _newcombe(float((ours * (2 * above + theirs)).sum() / (2 * n * m)), n, m)
    if n * m <= EXACT_PAIRS:
        return Comparison(probability, _exact_p(ours, theirs))
    if ours.size == 1:  # all values are equal, of which scipy says nothing
        return Comparison(probability, 1.0)
    from scipy.stats import mannwhitneyu  # takes a while to load

    return Comparison(probability, float(mannwhitneyu(first, second, method="asymptotic").pvalue))


def _newcombe(value: float, n: int, m: int) -> Interval:
    """Bound a probability of improvement by inverting a test, with the variance of Hanley and McNeil for exponential
    distributions, both samples being of the mean size."""
    if min(n, m) < FEWEST_RUNS:
        return Interval(value)
    extra = (n + m) / 2 - 1

    def limit(inside: float, outside: float) -> float:
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            spread = 1 + extra * ((1 - middle) / (2 - middle) + middle / (1 + middle))
            is_near = (value - middle) ** 2 <= NORMAL_95**2 * middle * (1 - middle) * spread / (n * m)
            inside, outside = (middle, outside) if is_near else (inside, middle)
        return inside

    return Interval(value, limit(value, 0.0), limit(value, 1.0))


def _exact_p(ours: Counts, theirs: Counts) -> float:  # [D], [D] how often each sample has each of D values, rising
    """Return the share of choices of the smaller sample among all runs with a rank sum as extreme as its own, twice."""
    both = ours + theirs
    chosen = min(ours, theirs, key=lambda counts: int(counts.sum()))
    doubled = 2 * np.cumsum(both) - both + 1  # mid-ranks times two, which are whole
    ranks, size, rank_sum = np.repeat(doubled, both), int(chosen.sum()), int(chosen @ doubled)
    count = np.zeros((size + 1, int(ranks[-size:].sum()) + 1))  # of choices: [runs chosen, their rank sum]
    count[0, 0] = 1
    for rank in ranks.tolist():
        count[1:, rank:] += count[:-1, :-rank]
    tail = min(count[size, : rank_sum + 1].sum(), count[size, rank_sum:].sum())
    return min(1.0, 2 * float(tail / count[size].sum()))
