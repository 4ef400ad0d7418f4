"""Statistics of learning curves, held against scipy, against values found by hand, and against their laws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from hocket import statistics
from hocket.errors import SettingsError
from hocket.statistics import (
    Interval,
    bootstrap_interval,
    bootstrap_means,
    compare,
    improvement_probability,
    interquartile_mean,
    learnt_step,
    learnt_steps,
    median_or_never,
    quartiles,
    trailing_mean,
    trailing_median,
    wilson,
)

NUMBERS = st.integers(-1_000, 1_000).map(float) | st.floats(-1e3, 1e3, allow_subnormal=False)
TABLES = arrays(np.float64, array_shapes(min_dims=1, max_dims=3, max_side=8), elements=NUMBERS)
SCORES = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=NUMBERS)
RUNS = st.lists(st.integers(0, 5), min_size=1, max_size=5)  # few values, so that there are ties
SCALES = st.sampled_from([0.25, 0.5, 2.0, 8.0])  # which rounding leaves alone

close = pytest.approx


def near(value: object) -> object:
    """Allow for rounding, of numbers up to some thousands."""
    return pytest.approx(value, rel=1e-9, abs=1e-8)


# Trailing means.


def test_a_trailing_mean_is_that_of_the_last_points():
    assert trailing_mean([1, 2, 3, 4, 10], 3).tolist() == close([1, 1.5, 2, 3, 17 / 3])


def test_a_trailing_mean_runs_along_the_last_axis():
    curves = np.array([[[1, 3, 5]], [[2, 2, 8]]])
    assert trailing_mean(curves, 2).tolist() == [[[1, 2, 4]], [[2, 2, 5]]]


@given(TABLES, st.integers(1, 10))
def test_every_point_of_a_trailing_mean_is_a_plain_mean(values, window):
    found = trailing_mean(values, window)
    assert found.shape == values.shape
    for end in range(values.shape[-1]):
        assert found[..., end] == near(values[..., max(0, end + 1 - window) : end + 1].mean(axis=-1))


@given(TABLES)
def test_a_window_of_one_changes_nothing(values):
    assert np.array_equal(trailing_mean(values, 1), values)


@given(TABLES, st.integers(0, 5))
def test_a_window_over_all_points_gives_the_mean_so_far(values, more):
    count = values.shape[-1]
    assert trailing_mean(values, count + more) == near(np.cumsum(values, axis=-1) / np.arange(1, count + 1))


@given(TABLES, st.integers(1, 10), NUMBERS, SCALES)
def test_smoothing_and_quartiles_follow_a_shift_and_a_scale(values, window, shift, scale):
    moved = values * scale + shift
    assert trailing_mean(moved, window) == near(trailing_mean(values, window) * scale + shift)
    for before, after in zip(quartiles(values), quartiles(moved), strict=True):
        assert after == near(before * scale + shift)


# Quartiles and the mean between them.


def test_quartiles_over_seeds_are_found_by_hand():
    low, median, high = quartiles([[1, 9], [2, 7], [3, 5], [4, 3]])
    assert (low.tolist(), median.tolist(), high.tolist()) == ([1.75, 4.5], [2.5, 6], [3.25, 7.5])


def between(line: np.ndarray, share: float) -> float:
    """Interpolate a quantile as the textbook has it."""
    ordered, place = sorted(line.tolist()), share * (len(line) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place % 1)


@given(TABLES, st.data())
def test_quartiles_along_an_axis_are_those_of_every_line(values, data):
    axis = data.draw(st.integers(-values.ndim, values.ndim - 1))
    found = quartiles(values, axis)
    for share, curve in zip((0.25, 0.5, 0.75), found, strict=True):
        assert curve == near(np.apply_along_axis(between, axis, values, share))
    assert (found.low <= found.median).all() and (found.median <= found.high).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [([5], 5), ([1, 3], 2), ([0, 1, 1000], 1001 / 3), ([0, 1, 3, 1000], 2), ([9, -9, 1, 2, 3, 4, 50, -50], 2.5)],
)
def test_an_interquartile_mean_is_found_by_hand(values, expected):
    assert interquartile_mean(values) == close(expected)


@given(TABLES)
def test_an_interquartile_mean_is_the_trimmed_mean_of_scipy(values):
    assert interquartile_mean(values) == near(stats.trim_mean(values, 0.25, axis=None))


@given(TABLES, st.data())
def test_an_interquartile_mean_along_axes_is_that_of_each_part(values, data):
    axes = tuple(data.draw(st.sets(st.integers(0, values.ndim - 1), min_size=1)))
    found = interquartile_mean(values, axis=axes)
    others = [axis for axis in range(values.ndim) if axis not in axes]
    assert found.shape == tuple(values.shape[axis] for axis in others)
    for place in np.ndindex(found.shape):
        part = values[
            tuple(place[others.index(axis)] if axis in others else slice(None) for axis in range(values.ndim))
        ]
        assert found[place] == near(interquartile_mean(part))


@given(TABLES)
def test_an_interquartile_mean_lies_between_the_quartiles(values):
    low, _, high = quartiles(values.ravel())
    assert low - 1e-9 <= interquartile_mean(values) <= high + 1e-9


@given(TABLES, NUMBERS, SCALES)
def test_an_interquartile_mean_follows_a_shift_and_a_sign_and_a_scale(values, shift, scale):
    assert interquartile_mean(-values * scale + shift) == near(-interquartile_mean(values) * scale + shift)


@given(st.lists(NUMBERS, min_size=4, max_size=30))
def test_an_interquartile_mean_does_not_mind_one_run_that_fails(values):
    highest = np.argmax(values)
    worse = [1e6 if place == highest else value for place, value in enumerate(values)]
    assert interquartile_mean(worse) == near(interquartile_mean(values))


# Bootstrap limits.

SAMPLE = np.random.default_rng(7).gamma(4, 10, size=(40, 1))


@pytest.mark.parametrize("statistic", [np.mean, np.median, interquartile_mean])
def test_limits_of_one_task_are_close_to_those_of_scipy(statistic):
    found = bootstrap_interval(SAMPLE, statistic, resamples=20_000)
    ours = statistic if statistic is not interquartile_mean else (lambda x, axis: stats.trim_mean(x, 0.25, axis=axis))
    scipy = stats.bootstrap(
        (SAMPLE[:, 0],), ours, n_resamples=20_000, method="percentile", random_state=np.random.default_rng(1)
    ).confidence_interval
    spread = scipy.high - scipy.low
    assert (found.low, found.high) == pytest.approx((scipy.low, scipy.high), abs=0.04 * spread)
    assert found.value == close(statistic(SAMPLE, axis=(0, 1)))


def test_limits_are_those_of_all_resamples_where_these_can_be_listed():
    # Two runs of two tasks, each resampled on its own: the sums are {0, 1, 2} + {0, 10, 20}, with chances 1:2:1 each.
    # A sixteenth of the means are 0 and as many 22 / 4; the next two sixteenths are 1 / 4 and 21 / 4.
    found = [bootstrap_interval([[0, 0], [1, 10]], np.mean, resamples=20_000, confidence=c) for c in (0.9, 0.8)]
    assert found == [Interval(2.75, 0, 5.5), Interval(2.75, 0.25, 5.25)]


def test_a_task_whose_runs_are_alike_adds_nothing_to_the_spread():
    # Were runs drawn from all tasks alike, 0 and 1000 would mix.
    assert bootstrap_interval([[0, 1000]] * 5, np.mean) == Interval(500, 500, 500)


def test_tasks_are_resampled_independently_of_each_other():
    # The sum over both tasks is 1 in every run, so whole runs would leave no spread.
    found = bootstrap_interval([[0, 1], [1, 0], [0, 1], [1, 0]], np.mean)
    assert found.low < 0.5 < found.high


@given(SCORES, st.integers(0, 2**32))
def test_limits_depend_on_the_seed_and_on_nothing_else(scores, seed):
    one, two = (bootstrap_interval(scores, resamples=50, seed=seed) for _ in range(2))
    assert one == two
    assert scores.min() - 1e-9 <= one.low <= one.high <= scores.max() + 1e-9


def test_another_seed_gives_other_limits():
    assert bootstrap_interval(SAMPLE, seed=0) != bootstrap_interval(SAMPLE, seed=1)


@given(SCORES, NUMBERS, SCALES)
def test_limits_follow_a_shift_and_a_scale(scores, shift, scale):
    before, after = bootstrap_interval(scores, resamples=50), bootstrap_interval(scores * scale + shift, resamples=50)
    assert after == near(tuple(limit * scale + shift for limit in before))


def test_more_confidence_means_wider_limits():
    narrow, wide = (bootstrap_interval(SAMPLE, confidence=confidence) for confidence in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_resamples_in_many_blocks_are_as_good_as_in_one(monkeypatch):
    sizes = []

    def counted(values, axis):
        sizes.append(len(values))
        return np.mean(values, axis=axis)

    whole = bootstrap_interval(SAMPLE, np.mean, resamples=5_000)
    monkeypatch.setattr(statistics, "BLOCK", SAMPLE.size * 999)
    parts = bootstrap_interval(SAMPLE, counted, resamples=5_000)
    assert sizes == [1, 999, 999, 999, 999, 999, 5]
    assert parts == pytest.approx(whole, rel=0.02)


def test_limits_hold_the_true_value_about_as_often_as_they_say():
    # 400 experiments of 30 runs with mean 5. With so few runs the bootstrap is known to be a little narrow.
    samples = np.random.default_rng(3).normal(5, 2, size=(400, 30, 1))
    limits = [bootstrap_interval(sample, np.mean, resamples=400, confidence=0.9) for sample in samples]
    assert 0.84 <= np.mean([found.low <= 5 <= found.high for found in limits]) <= 0.94


# Shares.


@pytest.mark.parametrize(("successes", "episodes"), [(0, 10), (8, 10), (10, 10), (333, 1000), (1, 1)])
def test_wilson_limits_are_those_of_scipy(successes, episodes):
    share = wilson(successes, episodes)
    limits = stats.binomtest(successes, episodes).proportion_ci(method="wilson")
    assert (share.low, share.high) == close((limits.low, limits.high))


@given(st.integers(1, 10_000).flatmap(lambda most: st.tuples(st.integers(0, most), st.just(most))))
@example((0, 7))  # where rounding would leave 0 below its own lower limit, and 1 above its upper one
@example((13, 13))
def test_wilson_limits_hold_the_share_and_mirror_that_of_failures(case):
    successes, episodes = case
    share, other = wilson(successes, episodes), wilson(episodes - successes, episodes)
    assert 0 <= share.low <= share.value <= share.high <= 1
    assert (share.low, share.high) == close((1 - other.high, 1 - other.low))


# Medians of runs, and when they have learnt.

TESTS = st.integers(1, 3).flatmap(
    lambda many: st.lists(st.lists(st.integers(1, 6), min_size=many, max_size=many), min_size=1, max_size=30)
)


@given(TESTS, st.integers(1, 12))
def test_a_trailing_median_is_that_of_all_episodes_of_the_last_tests(tests, window):
    found = trailing_median(tests, window)
    plain = [np.median(np.concatenate(tests[max(0, end + 1 - window) : end + 1])) for end in range(len(tests))]
    assert found.tolist() == plain


SIDE_BY_SIDE = st.tuples(st.integers(1, 4), st.integers(1, 30), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(1, 6))
)


@given(SIDE_BY_SIDE, st.integers(1, 12))
def test_what_many_runs_give_together_is_what_each_gives_alone(runs, window):
    assert trailing_median(runs, window).tolist() == [trailing_median(own, window).tolist() for own in runs]
    steps, wins = np.arange(runs.shape[1]) + 1, runs < 5
    rules = {"window": window, "tolerance": 0.3, "least": 0.6}
    alone = [learnt_step(steps, own, won, **rules) for own, won in zip(runs, wins, strict=True)]
    assert learnt_steps(steps, runs, wins, **rules) == alone


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_medians_do_not_depend_on_how_many_runs_are_sorted_at_once(monkeypatch, size):
    runs = np.random.default_rng(3).integers(1, 50, (7, 40, 2))
    plain = [[np.median(own[max(0, end - 9) : end + 1]) for end in range(40)] for own in runs]
    monkeypatch.setattr("hocket.statistics.BLOCK", size)
    assert trailing_median(runs, 10).tolist() == plain


def test_a_single_failure_in_a_window_of_ten_hardly_moves_the_median_and_flips_the_mean():
    curve = [20.0] * 9 + [1000.0] + [20.0] * 9
    assert {*trailing_median([[own] for own in curve], 10).tolist()} == {20.0}
    assert trailing_mean(curve, 10).max() == close(118)


def steps_of(tests):
    return [100 * (place + 1) for place in range(len(tests))]


def learnt(values, failed=1000, **more):
    """Say when a run with one episode in each test has learnt; one with `failed` steps has failed."""
    return learnt_step(steps_of(values), [[own] for own in values], [[own < failed] for own in values], **more)


def test_a_run_has_learnt_with_the_first_test_from_which_on_all_is_well():
    assert learnt([1000] * 5 + [20] * 15) == 600
    assert learnt([1000] * 5 + [200, 100, 50] + [20] * 17) == 600  # the median of ten from there on is 20 already
    assert learnt([200] * 8 + [20] * 12) == 500  # the median of five slow ones and five quick ones is 110, of four 20
    assert learnt([20] * 20) == 100


def test_a_run_that_always_fails_or_fails_too_often_has_never_learnt():
    assert learnt([1000] * 20) is None
    assert learnt([20, 20, 20, 20, 1000] * 6) is None
    assert learnt([20] * 15 + [1000] * 15) is None


def test_a_run_that_forgets_and_learns_again_has_learnt_when_it_did_so_for_good():
    assert learnt([1000] * 5 + [20] * 10 + [1000] * 10 + [20] * 10) == 2_600
    assert learnt([20] * 40 + [1000] * 2 + [20] * 40) == 100  # a slip is none


def test_a_run_with_few_tests_is_judged_by_half_of_them():
    assert learnt([1000, 20, 20, 20]) == 200
    assert learnt([1000, 1000, 1000, 20]) is None
    assert (learnt([20]), learnt([1000])) == (100, None)


def test_a_run_has_not_learnt_while_it_takes_more_than_a_tenth_too_many_steps():
    slow = [22.0] * 10 + [20.0] * 10
    assert learnt(slow) == 100
    assert learnt([22.1] * 10 + [20.0] * 10) == 600
    assert learnt([22.1] * 10 + [20.0] * 10, tolerance=0.2) == 100


def plainly_learnt(steps, tests, wins, least, tolerance, window):
    """Say when a run has learnt, point by point as the definition has it."""
    window = min(window, (len(steps) + 1) // 2)

    def share(part):
        return Fraction(sum(map(sum, part)), sum(map(len, part)))

    level = np.median(np.concatenate(tests[-window:]))
    for place in range(len(steps) - window + 1):
        parts = (wins[place : place + 1], wins[place : place + window], wins[place:])
        is_near = np.median(np.concatenate(tests[place : place + window])) <= (1 + tolerance) * level
        if is_near and all(share(part) >= Fraction(str(least)) for part in parts):
            return steps[place]
    return None


@given(TESTS, st.sampled_from([0.5, 0.75, 0.9, 1.0]), st.sampled_from([0.0, 0.25, 0.5]), st.sampled_from([1, 2, 4, 10]))
def test_a_time_of_learning_is_that_of_the_definition(tests, least, tolerance, window):
    wins = [[own < 5 for own in test] for test in tests]
    found = learnt_step(steps_of(tests), tests, wins, least=least, tolerance=tolerance, window=window)
    assert found == plainly_learnt(steps_of(tests), tests, wins, least, tolerance, window)


@given(TESTS, SCALES)
def test_a_time_of_learning_does_not_depend_on_the_unit_of_the_values(tests, scale):
    wins, scaled = [[own < 5 for own in test] for test in tests], [[own * scale for own in test] for test in tests]
    assert learnt_step(steps_of(tests), tests, wins) == learnt_step(steps_of(tests), scaled, wins)


def test_a_median_of_times_is_never_where_too_few_came():
    assert median_or_never([1, 2, 3, None, None]) == 3
    assert median_or_never([1, 2, None, None]) is None
    assert median_or_never([1, 2, 3, None]) == 2.5
    assert median_or_never([None]) is None


# Means over runs.


def test_limits_of_means_are_those_of_a_plain_bootstrap_over_runs():
    scores = np.random.default_rng(5).random((12, 3))
    found = bootstrap_means(scores, resamples=20_000)
    generator = np.random.default_rng(6)
    means = [scores[generator.integers(12, size=12)].mean(axis=0) for _ in range(20_000)]
    low, high = np.percentile(means, (2.5, 97.5), axis=0)
    assert [own.value for own in found] == close(scores.mean(axis=0).tolist())
    assert [own.low for own in found] == pytest.approx(low.tolist(), abs=0.01)
    assert [own.high for own in found] == pytest.approx(high.tolist(), abs=0.01)


def test_limits_of_means_are_those_of_scipy():
    scores = np.random.default_rng(8).beta(5, 1, size=(10, 1))
    [found] = bootstrap_means(scores, resamples=20_000)
    scipy = stats.bootstrap((scores[:, 0],), np.mean, n_resamples=20_000, method="percentile").confidence_interval
    assert (found.low, found.high) == pytest.approx((scipy.low, scipy.high), abs=0.01)


@pytest.mark.parametrize("most", [1 << 24, 300])
def test_limits_of_many_runs_that_are_alike_are_those_of_a_plain_bootstrap(monkeypatch, most):
    monkeypatch.setattr(statistics, "MOST_DRAWN", most)
    scores = np.random.default_rng(7).integers(0, 4, size=(1_500, 2)) / 3
    found = bootstrap_means(scores)
    monkeypatch.setattr(statistics, "MANY_RUNS", len(scores))
    for own, plain in zip(found, bootstrap_means(scores), strict=True):
        assert own.value == plain.value
        assert (own.low, own.high) == pytest.approx((plain.low, plain.high), abs=0.003)
        assert own.low != plain.low  # other draws, of the same chances


@given(SCORES)
def test_limits_of_means_are_those_of_one_task_at_a_time(scores):
    found = bootstrap_means(scores, resamples=50)
    assert [own.value for own in found] == near(scores.mean(axis=0).tolist())
    assert all(
        line.min() - 1e-9 <= own.low <= own.high <= line.max() + 1e-9 for own, line in zip(found, scores.T, strict=True)
    )


# Comparisons.


def test_an_improvement_is_counted_by_hand():
    # Of six pairs 3 is smaller in two and equal in one, and 5 is smaller in one.
    assert improvement_probability([3, 5], [3, 4, 6]) == close(3.5 / 6)


@given(RUNS, RUNS)
def test_an_improvement_is_the_share_of_pairs_won(first, second):
    won = [(ours < theirs) + 0.5 * (ours == theirs) for ours, theirs in itertools.product(first, second)]
    assert improvement_probability(first, second) == close(np.mean(won))
    assert improvement_probability(first, second) == close(stats.mannwhitneyu(second, first).statistic / len(won))


@given(RUNS, RUNS)
def test_one_is_better_or_the_other(first, second):
    one, other = compare(first, second, resamples=20), compare(second, first, resamples=20)
    assert one.probability + other.probability == close(1)
    assert one.p_value == close(other.p_value)
    assert 0 <= one.low <= one.high <= 1


@given(RUNS, RUNS, st.integers(-50, 50), SCALES)
def test_a_comparison_knows_no_more_than_the_order_of_runs(first, second, shift, scale):
    def moved(runs):
        return [math.exp(run) * scale + shift for run in runs]

    assert compare(moved(first), moved(second), resamples=50) == compare(first, second, resamples=50)


def test_what_is_compared_with_itself_is_neither_better_nor_worse():
    found = compare([3, 1, 2, 2], [2, 3, 1, 2])
    assert (found.probability, found.p_value) == (0.5, 1)
    assert found.low < 0.5 < found.high
    assert compare([5] * 3, [5] * 4) == (0.5, 0.5, 0.5, 1)


def test_a_comparison_of_runs_apart_from_each_other_is_as_sure_as_their_number_allows():
    assert compare([1, 2, 3], [4, 5, 6, 7]) == (1, 1, 1, close(2 / math.comb(7, 3)))


@given(st.permutations(range(12)), st.integers(1, 11))
def test_a_p_value_without_ties_is_the_exact_one_of_scipy(runs, count):
    first, second = runs[:count], runs[count:]
    expected = stats.mannwhitneyu(first, second, method="exact").pvalue
    assert compare(first, second, resamples=1).p_value == close(expected)


@given(RUNS, RUNS)
def test_a_p_value_with_ties_counts_every_choice_of_runs(first, second):
    runs = first + second

    def won(chosen):
        rest = [run for place, run in enumerate(runs) if place not in chosen]
        return sum(2 * (runs[ours] < theirs) + (runs[ours] == theirs) for ours in chosen for theirs in rest)

    own = won(range(len(first)))
    found = [won(chosen) for chosen in itertools.combinations(range(len(runs)), len(first))]
    tail = min(np.mean([value <= own for value in found]), np.mean([value >= own for value in found]))
    assert compare(first, second, resamples=1).p_value == close(min(1, 2 * tail))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([20, 21, 21, 25, 30], [21, 30, 30, 31, 1000, 1000, 1000]),
        ([17, 17, 18], [17, 18, 18, 18, 19, 19, 1000, 1000]),
        ([1000] * 8, [22, 23, 1000]),
    ],
)
def test_a_p_value_with_ties_is_that_of_a_permutation_test_of_scipy(first, second):
    ranks = stats.rankdata(first + second)
    expected = stats.permutation_test(
        (ranks[: len(first)], ranks[len(first) :]),
        lambda ours, theirs, axis: ours.sum(axis=axis),
        permutation_type="independent",
        vectorized=True,
        n_resamples=np.inf,
    ).pvalue
    assert compare(first, second, resamples=1).p_value == close(expected)


@pytest.mark.parametrize("sizes", [(60, 50), (3, 900)])
@pytest.mark.parametrize("distinct", [10_000, 7])
def test_a_p_value_of_many_runs_is_the_approximation_of_scipy(sizes, distinct):
    generator = np.random.default_rng(11)
    first, second = (generator.integers(distinct, size=size) for size in sizes)
    expected = stats.mannwhitneyu(first, second, method="asymptotic").pvalue
    assert compare(first, second, resamples=1).p_value == close(expected)


def test_the_approximation_takes_over_where_it_is_close():
    generator = np.random.default_rng(2)
    first, second = generator.integers(30, size=50), generator.integers(2, 32, size=50)
    exact = compare(first, second, resamples=1).p_value
    more = stats.mannwhitneyu(first, second, method="asymptotic").pvalue
    assert exact == pytest.approx(more, rel=0.03) and exact != more


def test_many_runs_that_are_all_alike_differ_by_chance():
    assert compare([1000] * 60, [1000] * 60, resamples=1) == (0.5, 0.5, 0.5, 1)


def test_limits_of_a_comparison_are_close_to_those_of_scipy():
    generator = np.random.default_rng(5)
    first, second = generator.integers(20, 40, size=20), generator.integers(22, 45, size=15)
    found = compare(first, second, resamples=20_000, confidence=0.9)

    def won(ours, theirs, axis):
        return ((ours[..., :, None] < theirs[..., None, :]) + 0.5 * (ours[..., :, None] == theirs[..., None, :])).mean(
            axis=(-2, -1)
        )

    scipy = stats.bootstrap(
        (first, second),
        won,
        n_resamples=5_000,
        method="percentile",
        confidence_level=0.9,
        vectorized=True,
        random_state=generator,
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((scipy.low, scipy.high), abs=0.02)
    assert found.low < found.probability < found.high


def test_runs_that_do_not_differ_seldom_seem_to():
    # 600 comparisons: up to 5 % of the p-values may be that low, but for chance, and not many fewer should be.
    runs = np.random.default_rng(9).integers(20, 30, size=(600, 16))
    low = [compare(sample[:8], sample[8:], resamples=1).p_value <= 0.05 for sample in runs]
    assert 0.01 <= np.mean(low) <= 0.065


# What is refused.

IN_ROWS = ("bootstrap_interval", "bootstrap_means", "trailing_median", "values of learnt_step")
EVERY = {
    "trailing_mean": lambda values: trailing_mean(values, 2),
    "quartiles": quartiles,
    "interquartile_mean": interquartile_mean,
    "bootstrap_interval": lambda values: bootstrap_interval(values, resamples=2),
    "bootstrap_means": lambda values: bootstrap_means(values, resamples=2),
    "trailing_median": lambda values: trailing_median(values, 2),
    "steps of learnt_step": lambda values: learnt_step(values, [[1], [2]], [[1], [1]]),
    "values of learnt_step": lambda values: learnt_step([1, 2], values, [[1], [1]]),
    "first of compare": lambda values: compare(values, [1, 2], resamples=2),
    "second of improvement_probability": lambda values: improvement_probability([1, 2], values),
}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "not be empty, got the shape"),
        (np.zeros((3, 0)), "not be empty, got the shape"),
        (3, "not be empty, got the shape"),
        (np.zeros((2, 2, 0, 2)), "got the shape"),
        ("words", "must be an array of numbers, got 'words'"),
        ([[1], [2, 3]], "must be an array of numbers"),
        ([None, 1], "must be an array of numbers"),
        ([1j, 2j], "must be an array of numbers"),
    ],
    ids=["nothing", "nothing in rows", "no axis", "nothing deep", "words", "ragged", "none", "complex"],
)
@pytest.mark.parametrize("name", EVERY)
def test_what_is_no_array_of_numbers_is_refused(name, values, message):
    with pytest.raises(SettingsError, match=message):
        EVERY[name](values)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", EVERY)
def test_what_is_not_finite_is_refused(name, bad):
    values = [[1, bad]] if name in IN_ROWS else [1, bad]
    with pytest.raises(SettingsError, match=f"must be finite, got {bad}"):
        EVERY[name](values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: trailing_mean([1], 0), "window must be an integer of at least 1, got 0"),
        (lambda: trailing_mean([1], 2.0), "window must be an integer of at least 1, got 2.0"),
        (lambda: trailing_mean([1], True), "window must be an integer of at least 1, got True"),
        (lambda: quartiles([1, 2], 1), r"axis must be one of an array of the shape \(2,\), got 1"),
        (lambda: interquartile_mean([[1, 2]], axis=(0, 0)), r"axis must be one of .* \(1, 2\), got \(0, 0\)"),
        (lambda: bootstrap_interval([1, 2]), r"scores must have 2 axes and not be empty, got the shape \(2,\)"),
        (lambda: bootstrap_interval([[1]], resamples=0), "resamples must be an integer of at least 1, got 0"),
        (lambda: bootstrap_interval([[1]], seed=-1), "seed must be an integer of at least 0, got -1"),
        (lambda: bootstrap_interval([[1]], confidence=1), "confidence must be between 0 and 1, got 1"),
        (lambda: bootstrap_interval([[1]], confidence=math.nan), "confidence must be between 0 and 1, got nan"),
        (lambda: bootstrap_interval([[1]], lambda values, axis: values), "must give one finite number"),
        (lambda: bootstrap_interval([[1]], lambda values, axis: [math.nan] * len(values)), "one finite number"),
        (lambda: compare([[1]], [1]), r"first must have one axis and not be empty, got the shape \(1, 1\)"),
        (lambda: compare([1], [1], confidence=0), "confidence must be between 0 and 1, got 0"),
        (lambda: wilson(1, 0), "episodes must be an integer of at least 1, got 0"),
        (lambda: wilson(-1, 2), "successes must be an integer of at least 0, got -1"),
        (lambda: wilson(3, 2), "successes must be at most the 2 episodes, got 3"),
        (lambda: bootstrap_means([[1]], resamples=0), "resamples must be an integer of at least 1, got 0"),
        (lambda: bootstrap_means([[1]], confidence=1), "confidence must be between 0 and 1, got 1"),
        (lambda: trailing_median([[1]], 0), "window must be an integer of at least 1, got 0"),
        (lambda: learnt_step([1, 2], [[1]], [[1]]), "as many steps as tests, got 2, 1 and 1"),
        (lambda: learnt_step([1, 1], [[1], [1]], [[1], [1]]), "steps must be increasing integers"),
        (lambda: learnt_step([1, 1.5], [[1], [1]], [[1], [1]]), "steps must be increasing integers"),
        (lambda: learnt_step([1], [[1]], [[1]], tolerance=-0.1), "tolerance must be at least 0 and finite, got -0.1"),
        (
            lambda: learnt_step([1], [[1]], [[1]], tolerance=math.nan),
            "tolerance must be at least 0 and finite, got nan",
        ),
        (lambda: learnt_step([1], [[1]], [[1]], least=1.1), "least must be between 0 and 1, got 1.1"),
        (lambda: learnt_step([1], [[1]], [[1]], window=0), "window must be an integer of at least 1, got 0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(SettingsError, match=message):
        call()
