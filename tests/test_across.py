"""Learners over all tasks of a study: means of means."""

import pytest

from hocket.report.page import report_html
from hocket.report.page.standings import across_tasks
from hocket.report.summary import summarize
from hocket.study.store import load_results
from studies import record, small_study, write_study


def test_learners_on_several_tasks_are_summed_up(tmp_path):
    sections = summarize(load_results(small_study(tmp_path / "small"))).sections
    (greedy, softmax) = across_tasks(sections)
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
