"""Learners over all tasks of a study: means of means, with limits by the stratified bootstrap."""

import numpy as np
import pytest

from hocket.report.page import report_html
from hocket.report.summary import across_tasks, stratified_mean, summarize
from hocket.statistics import bootstrap_interval
from hocket.study.store import load_results
from studies import record, small_study, write_study


def test_limits_are_those_of_all_resamples_where_these_can_be_listed():
    # Of two runs with 0 and 1, a resample has the mean 0, 0.5 or 1 with chances 1:2:1; two such strata average to
    # 0 or 1 with a sixteenth each, which 95 % limits leave in.
    assert stratified_mean([[0, 1], [0, 1]], resamples=20_000) == (0.5, 0.0, 1.0)


def test_strata_of_one_size_have_the_limits_of_a_table_of_runs_and_tasks():
    scores = np.random.default_rng(2).random((12, 3))
    found, table = (
        stratified_mean(list(scores.T), resamples=20_000),
        bootstrap_interval(scores, np.mean, resamples=20_000),
    )
    assert found.value == pytest.approx(table.value)
    assert (found.low, found.high) == pytest.approx((table.low, table.high), abs=0.005)


def test_runs_are_drawn_within_their_tasks_as_a_plain_loop_does_it():
    strata = [np.random.default_rng(3).random(size) for size in (4, 9)]
    generator = np.random.default_rng(4)
    means = [np.mean([generator.choice(own, len(own)).mean() for own in strata]) for _ in range(20_000)]
    found = stratified_mean(strata, resamples=20_000)
    assert (found.low, found.high) == pytest.approx(np.percentile(means, (2.5, 97.5)).tolist(), abs=0.005)


def test_tasks_count_alike_however_many_runs_they_have():
    assert stratified_mean([[1.0] * 9, [0.0]]).value == 0.5


def test_learners_on_several_tasks_are_summed_up(tmp_path):
    sections = summarize(load_results(small_study(tmp_path / "small"))).sections
    (softmax, greedy) = across_tasks(sections)
    assert softmax[:4] == ("dqprm", "softmax", 2, 5) and greedy.policy == "greedy"
    # On rendezvous-2 all tests of all three runs succeed; on buttons the first of three tests fails in both runs.
    assert softmax.success.value == pytest.approx((1 + 2 / 3) / 2)
    assert softmax.learnt == sum(
        section.groups[0 if section.title != "buttons" else 1].finals["softmax"].learnt for section in sections[:2]
    )


def test_a_page_of_one_task_says_nothing_of_all_tasks(tmp_path):
    many = report_html(summarize(load_results(small_study(tmp_path / "small"))))
    one = report_html(
        summarize(load_results(write_study(tmp_path / "one", [record("x", "1" * 64, "dqprm", 0, [20, 20])])))
    )
    assert "Over all tasks" in many and "Over all tasks" not in one


def test_a_reference_has_nothing_to_learn(tmp_path):
    runs = [record(name, mark * 64, "optimal", 0, [20, 20]) for name, mark in (("x", "1"), ("y", "2"))]
    found = across_tasks(summarize(load_results(write_study(tmp_path / "two", runs))).sections)
    assert [own.learnt for own in found] == [None, None]
