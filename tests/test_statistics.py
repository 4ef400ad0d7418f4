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
    compare,
    interquartile_interval,
    interquartile_mean,
    learnt_steps,
    mean_share,
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


@given(TABLES)
def test_quartiles_along_an_axis_are_those_of_every_line(values):
    found = quartiles(values)
    for share, curve in zip((0.25, 0.5, 0.75), found, strict=True):
        assert curve == near(np.apply_along_axis(between, 0, values, share))
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


# Limits of interquartile means.

SAMPLE = np.random.default_rng(7).gamma(4, 10, size=40)
LINES = st.lists(NUMBERS, min_size=5, max_size=12)


def test_limits_of_a_middle_are_the_wider_of_those_of_two_textbooks():
    found = interquartile_interval(SAMPLE, resamples=20_000)
    bootstrap = stats.bootstrap(
        (SAMPLE,), lambda x, axis: stats.trim_mean(x, 0.25, axis=axis), n_resamples=20_000, method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    error = stats.mstats.trimmed_stde(SAMPLE, limits=(0.25, 0.25))
    half = stats.t.ppf(0.975, 40 - 20 - 1) * error
    spread = bootstrap.high - bootstrap.low
    assert found.value == close(stats.trim_mean(SAMPLE, 0.25))
    assert found.low == close(min(bootstrap.low, found.value - half), abs=0.04 * spread)
    assert found.high == close(max(bootstrap.high, found.value + half), abs=0.04 * spread)


def test_few_runs_and_runs_that_are_alike_have_no_limits():
    assert interquartile_interval([20, 21, 22, 40]) == Interval(21.5)
    assert interquartile_interval([17] * 9) == Interval(17)
    assert mean_share([1, 1, 0, 1]) == Interval(0.75)
    assert mean_share([1] * 9, [0, 1, 1, 1]).limits is None
    assert compare([1, 2, 3, 4], [5, 6, 7, 8, 9]).probability == Interval(1)


@given(LINES, st.integers(0, 2**32))
def test_limits_depend_on_the_seed_and_on_nothing_else(scores, seed):
    one, two = (interquartile_interval(scores, resamples=50, seed=seed) for _ in range(2))
    assert one == two
    assert one.limits is None or one.low - 1e-9 <= one.value <= one.high + 1e-9


def test_another_seed_gives_other_limits():
    either = [20] * 7 + [21, 22, 23, 25, 1000, 1000, 1000]  # where the upper one is that of the bootstrap
    assert interquartile_interval(either, seed=0) != interquartile_interval(either, seed=2)


@given(LINES, st.floats(0, 1e3), SCALES)
def test_limits_follow_a_shift_and_a_scale(scores, shift, scale):
    below = np.array(scores) - max(scores) - 1  # 0, where limits are not cut off
    before, after = (interquartile_interval(line, resamples=50) for line in (below, below * scale - shift))
    assert after.value == near(before.value * scale - shift)
    if before.limits and after.limits:
        assert after.limits == near(tuple(limit * scale - shift for limit in before.limits))


def test_limits_of_steps_are_never_below_zero():
    assert interquartile_interval([1, 1, 2, 90, 90]).low == 0


def test_resamples_in_many_blocks_are_as_good_as_in_one(monkeypatch):
    whole = interquartile_interval(SAMPLE, resamples=5_000)
    monkeypatch.setattr(statistics, "BLOCK", SAMPLE.size * 999)
    assert interquartile_interval(SAMPLE, resamples=5_000).limits == pytest.approx(whole.limits, rel=0.02)


@pytest.mark.parametrize("runs", [5, 10, 30])
def test_limits_hold_the_true_value_as_often_as_they_say(runs):
    # 400 experiments each; bench/intervals.py does many more, and docs/studies.md has its table.
    rng = np.random.default_rng(3)
    normal, shares, either = rng.normal(50, 9, (400, runs)), rng.beta(9, 1, (400, runs)), rng.random((400, runs)) < 0.8

    def held(intervals, truth):
        limits = [interval.limits for interval in intervals if interval.limits]
        return np.mean([low - 1e-9 <= truth <= high + 1e-9 for low, high in limits])

    assert held([interquartile_interval(row, resamples=200) for row in normal], 50) > 0.92
    assert held(map(mean_share, shares), 0.9) > 0.92
    assert held(map(mean_share, either.astype(float)), 0.8) > 0.92
    pairs = zip(normal, rng.normal(50, 9, normal.shape), strict=True)
    assert held([compare(*pair).probability for pair in pairs], 0.5) > 0.91


# Shares.


@pytest.mark.parametrize("count", [0, 3, 10])
def test_limits_of_runs_that_succeed_or_fail_are_at_least_as_wide_as_those_of_clopper_and_pearson(count):
    found = mean_share([1.0] * count + [0.0] * (10 - count))
    exact = stats.binomtest(count, 10).proportion_ci(method="exact")
    assert (found.low, found.high) == close((exact.low, exact.high))


def test_limits_of_shares_that_vary_little_are_close_to_those_of_student():
    shares = np.random.default_rng(2).normal(0.5, 0.02, 30)
    found, student = mean_share(shares), stats.t.interval(0.95, 29, shares.mean(), stats.sem(shares))
    assert found.limits == pytest.approx(student, abs=0.001)


def test_strata_count_alike_however_many_runs_they_have():
    assert mean_share([1.0] * 9, [0.0] * 5).value == 0.5


@given(st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=9), min_size=1, max_size=3))
def test_limits_of_shares_hold_the_mean_and_mirror_those_of_failures(strata):
    found, other = mean_share(*strata), mean_share(*([1 - share for share in row] for row in strata))
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.limits == near((1 - other.high, 1 - other.low))
    assert found.low < found.high


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


def learnt_step(steps, values, success, **more):
    """Say when a single run has learnt."""
    return learnt_steps(steps, [values], [success], **more)[0]


def improvement_probability(first, second):
    return compare(first, second).probability.value


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
    one, other = compare(first, second), compare(second, first)
    assert one.probability.value + other.probability.value == close(1)
    assert one.p_value == close(other.p_value)
    if one.probability.limits:
        assert one.probability.limits == near(tuple(1 - limit for limit in other.probability.limits[::-1]))
        assert 0 <= one.probability.low <= one.probability.value <= one.probability.high <= 1


@given(RUNS, RUNS, st.integers(-50, 50), SCALES)
def test_a_comparison_knows_no_more_than_the_order_of_runs(first, second, shift, scale):
    def moved(runs):
        return [math.exp(run) * scale + shift for run in runs]

    assert compare(moved(first), moved(second)) == compare(first, second)


def test_what_is_compared_with_itself_is_neither_better_nor_worse():
    found = compare([3, 1, 2, 2, 4], [2, 3, 1, 2, 4])
    assert (found.probability.value, found.p_value) == (0.5, 1)
    assert found.probability.low < 0.5 < found.probability.high
    assert compare([5] * 3, [5] * 4) == (Interval(0.5), 1)


def test_a_comparison_of_runs_apart_from_each_other_is_as_sure_as_their_number_allows():
    assert compare([1, 2, 3], [4, 5, 6, 7]) == (Interval(1), close(2 / math.comb(7, 3)))
    few, many = (compare(range(runs), range(runs, 2 * runs)).probability for runs in (5, 50))
    assert 0.5 < few.low < many.low < 1 == few.high


@given(st.permutations(range(12)), st.integers(1, 11))
def test_a_p_value_without_ties_is_the_exact_one_of_scipy(runs, count):
    first, second = runs[:count], runs[count:]
    expected = stats.mannwhitneyu(first, second, method="exact").pvalue
    assert compare(first, second).p_value == close(expected)


@given(RUNS, RUNS)
def test_a_p_value_with_ties_counts_every_choice_of_runs(first, second):
    runs = first + second

    def won(chosen):
        rest = [run for place, run in enumerate(runs) if place not in chosen]
        return sum(2 * (runs[ours] < theirs) + (runs[ours] == theirs) for ours in chosen for theirs in rest)

    own = won(range(len(first)))
    found = [won(chosen) for chosen in itertools.combinations(range(len(runs)), len(first))]
    tail = min(np.mean([value <= own for value in found]), np.mean([value >= own for value in found]))
    assert compare(first, second).p_value == close(min(1, 2 * tail))


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
    assert compare(first, second).p_value == close(expected)


@pytest.mark.parametrize("sizes", [(60, 50), (3, 900)])
@pytest.mark.parametrize("distinct", [10_000, 7])
def test_a_p_value_of_many_runs_is_the_approximation_of_scipy(sizes, distinct):
    generator = np.random.default_rng(11)
    first, second = (generator.integers(distinct, size=size) for size in sizes)
    expected = stats.mannwhitneyu(first, second, method="asymptotic").pvalue
    assert compare(first, second).p_value == close(expected)


def test_the_approximation_takes_over_where_it_is_close():
    generator = np.random.default_rng(2)
    first, second = generator.integers(30, size=50), generator.integers(2, 32, size=50)
    exact = compare(first, second).p_value
    more = stats.mannwhitneyu(first, second, method="asymptotic").pvalue
    assert exact == pytest.approx(more, rel=0.03) and exact != more


def test_many_runs_that_are_all_alike_differ_by_chance():
    assert compare([1000] * 60, [1000] * 60).p_value == 1


def test_limits_of_a_comparison_are_as_far_from_the_estimate_as_their_own_errors_say():
    found = compare(np.arange(20), np.arange(5, 20)).probability
    for limit in found.limits:
        q = (limit / (2 - limit), 2 * limit**2 / (1 + limit))  # of Hanley and McNeil, with both samples of 17.5
        variance = limit * (1 - limit) + 16.5 * (q[0] - limit**2 + q[1] - limit**2)
        assert abs(limit - found.value) == close(1.959964 * math.sqrt(variance / (20 * 15)), rel=1e-5)


def test_runs_that_do_not_differ_seldom_seem_to():
    # 600 comparisons: up to 5 % of the p-values may be that low, but for chance, and not many fewer should be.
    runs = np.random.default_rng(9).integers(20, 30, size=(600, 16))
    low = [compare(sample[:8], sample[8:]).p_value <= 0.05 for sample in runs]
    assert 0.01 <= np.mean(low) <= 0.065


# What is refused.

IN_ROWS = {"trailing_median": 1, "values of learnt_steps": 2}  # rows in which numbers stand
EVERY = {
    "trailing_mean": lambda values: trailing_mean(values, 2),
    "quartiles": quartiles,
    "interquartile_mean": interquartile_mean,
    "interquartile_interval": interquartile_interval,
    "mean_share": mean_share,
    "trailing_median": lambda values: trailing_median(values, 2),
    "steps of learnt_step": lambda values: learnt_step(values, [[1], [2]], [[1], [1]]),
    "values of learnt_steps": lambda values: learnt_steps([1, 2], values, [[[1], [1]]]),
    "first of compare": lambda values: compare(values, [1, 2]),
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
    values = np.array([1, bad]).reshape(*[1] * IN_ROWS.get(name, 0), 2)
    with pytest.raises(SettingsError, match=f"must be finite, got {bad}"):
        EVERY[name](values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: trailing_mean([1], 0), "window must be an integer of at least 1, got 0"),
        (lambda: trailing_mean([1], 2.0), "window must be an integer of at least 1, got 2.0"),
        (lambda: trailing_mean([1], True), "window must be an integer of at least 1, got True"),
        (lambda: interquartile_interval([[1]]), r"scores must have one axis and not be empty, got the shape \(1, 1\)"),
        (lambda: interquartile_interval([1], resamples=0), "resamples must be an integer of at least 1, got 0"),
        (lambda: interquartile_interval([1], seed=-1), "seed must be an integer of at least 0, got -1"),
        (lambda: mean_share([0.5, 1.5]), "shares must be between 0 and 1, got others"),
        (lambda: compare([[1]], [1]), r"first must have one axis and not be empty, got the shape \(1, 1\)"),
        (lambda: wilson(1, 0), "episodes must be an integer of at least 1, got 0"),
        (lambda: wilson(-1, 2), "successes must be an integer of at least 0, got -1"),
        (lambda: wilson(3, 2), "successes must be at most the 2 episodes, got 3"),
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
