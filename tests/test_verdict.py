"""The verdict: one value for a task and for a machine, whose text and JSON document say the same everywhere."""

import json
import pickle
import re

import pytest
from hypothesis import given

import hocket as hk
from hocket.studio.understanding import describe_text, describe_verdict, parse_subject
from hocket.task.catalogue import as_task, source_of
from hocket.task.verdict import CheckResult, check_machine, check_task
from task_strategies import some, tasks

CHAIN = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})


@some
@given(task=tasks())
def test_a_verdict_is_good_if_and_only_if_it_has_no_line_that_says_no_or_names_a_problem(task):
    verdict = check_task(task)
    assert verdict.ok == all(line.kind not in ("no", "problem") for line in verdict.lines()) == (not verdict.problems)
    assert {*verdict.problems, *verdict.warnings} <= {line.text for line in verdict.lines()}


@some
@given(task=tasks())
def test_a_task_and_its_machine_alone_have_the_same_verdict_on_their_decomposition(task):
    verdict, alone = check_task(task, play=False), check_machine(task.machine, task.knows, task.controllers)
    document, other = verdict.as_json(), alone.as_json()
    for key in ("decomposable", "agents", "counterexample"):
        assert document[key] == other[key]
    assert {*alone.problems} <= {*verdict.problems} and document["labelling"]["ok"] in (True, verdict.ok)


@pytest.mark.parametrize("name", ["buttons", "rendezvous-3"])
def test_the_command_line_the_studio_and_a_notebook_print_the_same_verdict(name, hocket):
    verdict = hk.check_task(name)
    code, out, _ = hocket("check", name, "--json")
    document = json.loads(out)
    assert code == 0 and document.pop("repair") is None and document == json.loads(json.dumps(verdict.as_json()))
    printed = [line.strip().removeprefix("Warning: ") for line in hocket("check", name)[1].splitlines()]
    page = verdict._repr_html_()
    for line in verdict.lines():
        assert line.text in printed and line.text in page
    if text := source_of(name):
        world, told = describe_text(text), describe_verdict(parse_subject(text))
        assert (world["message"], world["decomposable"]) == (verdict.lines()[0].text, document["decomposable"])
        assert all(told[key] == document[key] for key in ("ok", "problems", "warnings", "notes"))


def test_a_machine_without_local_event_sets_is_checked_for_completion_alone():
    verdict = check_machine(CHAIN)
    assert verdict.ok and str(verdict) == "Well formed." and verdict.as_json()["decomposable"] is None
    stuck = check_machine(
        hk.RewardMachine(initial="0", transitions={("0", "a"): "1"}, states={"0", "1", "2"}, final={"2"})
    )
    assert not stuck.ok and "No trace completes the task" in str(stuck) and "No trace reaches 2." in stuck.notes


def test_states_that_no_trace_reaches_are_a_note_and_no_problem():
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("5", "a"): "1"}, final={"1"})
    for knows in (None, {"A1": ("a",)}):
        verdict = check_machine(machine, knows)
        assert verdict.ok and verdict.problems == () and "No trace reaches 5." in verdict.notes
        assert "No trace reaches 5." in str(verdict).splitlines()


def test_a_further_question_is_answered_in_the_text_and_in_the_document_and_decides_with_the_others():
    verdict = check_task("buttons")
    details = {"A1": {"can_be_rewarded": False}}
    told = verdict.with_result(
        CheckResult("team", False, "The team stalls.", ("A1 waits.",), ("note",), {"success": 0.5}, details)
    )
    assert verdict.ok and not told.ok
    document = told.as_json()
    assert document["team"] == {"success": 0.5} and document["agents"]["A1"]["can_be_rewarded"] is False
    assert [line.text for line in told.lines() if line.kind in ("no", "problem")] == ["The team stalls.", "A1 waits."]
    assert document["problems"] == ["A1 waits."] and "note" in document["notes"]


def test_a_task_is_taken_as_it_is_or_by_its_name_or_path(tmp_path):
    task = hk.load_task("buttons")
    assert as_task(task) is task and as_task("buttons") == task
    hk.save_task(task, tmp_path / "mine.toml")
    assert hk.check_task(tmp_path / "mine.toml").ok and hk.repair_task("buttons").added == {}
    with pytest.raises(hk.HocketError, match="a built-in name or the path of a task file is needed, got dict"):
        as_task({})
    with pytest.raises(hk.HocketError, match="did you mean"):
        hk.check_task("buton")


def test_a_task_from_a_file_is_named_by_its_path_where_a_command_is_proposed(tmp_path):
    path = tmp_path / "my task.toml"
    hk.save_task(hk.load_task("buttons").with_knows({"A1": ("Y", "Goal")}), path)
    with pytest.raises(hk.HocketError, match=re.escape(f"run `hocket check '{path}'`")):
        hk.train(hk.load_task(path), seeds=1, steps=10)
    with pytest.raises(hk.HocketError, match="run `hocket check buttons`"):
        hk.train(hk.load_task("buttons").with_knows({"A1": ("Y", "Goal")}), seeds=1, steps=10)
    assert hk.load_task("crew-3").source == "crew-3" and pickle.loads(pickle.dumps(hk.load_task(path))).source
