"""How groups of runs do: together as each by itself, whatever tests they have."""

from dataclasses import replace

import numpy as np
import pytest

from hocket.report import performance
from hocket.report.performance import curve_of, final_of, gather_tests
from hocket.statistics import learnt_steps, quartiles, trailing_mean, trailing_median
from hocket.study.records import TestEpisodes
from studies import record


def made_up(seed: int, step: list[int], episodes: int):
    """Make up a run with so many episodes after some steps, in any order."""
    rng = np.random.default_rng(seed)
    when = rng.permutation(np.repeat(step, episodes))
    taken = rng.integers(10, 90, len(when))
    return replace(
        record("meeting", "d" * 64, "iql", seed, [1]), tests={"softmax": TestEpisodes(when, taken, taken < 80)}
    )


def alone(own):
    """Sort the episodes of a run by their steps."""
    step, taken, success, *_ = own.tests["softmax"]
    when = np.unique(step)
    order = [np.flatnonzero(step == one) for one in when]
    return when, np.array([taken[place] for place in order]), np.array([success[place] for place in order])


@pytest.mark.parametrize("most", [performance.MOST_TOGETHER, 100])
def test_runs_with_tests_at_the_same_and_at_other_steps_are_summed_up_together_as_each_alone(monkeypatch, most):
    monkeypatch.setattr(performance, "MOST_TOGETHER", most)
    common = list(range(10, 400, 10))
    runs = [made_up(seed, common + [401] * (seed % 3 == 1), 1 + (seed % 3 == 2)) for seed in range(9)]
    tests = gather_tests(runs, "softmax")
    assert sorted(number for part in tests for number in part.runs) == list(range(9)) and len(tests) > 2
    assert most > 100 or all(part.values.size <= most for part in tests)
    curve, final = curve_of(tests), final_of(tests, is_same=False)
    parts = [alone(own) for own in runs]
    medians = np.array([trailing_median(taken, 10)[: len(common)] for _, taken, _ in parts])
    shares = np.array([trailing_mean(success.mean(axis=1), 10)[: len(common)] for _, _, success in parts])
    assert curve.step.tolist() == common
    np.testing.assert_array_equal(curve.quartiles, quartiles(medians))
    np.testing.assert_array_equal(curve.success, shares.mean(axis=0))
    assert final.scores == tuple(taken[-10:].mean() for _, taken, _ in parts)
    assert final.shares == tuple(success[-10:].mean() for _, _, success in parts)
    learnt = [learnt_steps(when, [taken], [success])[0] for when, taken, success in parts]
    assert final.learnt == sum(step is not None for step in learnt)
