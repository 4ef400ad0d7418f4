"""The commands that train and report: what they print, what they leave behind, and how they take bad input."""

import csv
import io
import json
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from rich.status import Status

import hocket as hk
from hocket.cli import evaluate, results
from hocket.cli.results import print_results
from hocket.cli.study import StudyOutcome
from hocket.study.running import Update, run_study
from hocket.task.grid import ACTIONS, STAY
from hocket.task.tables import compile_task
from studies import OneByOne, record, write_study
from worlds import meeting

pytestmark = pytest.mark.xdist_group("kernels")


@pytest.fixture
def task(tmp_path):
    """Write the meeting to a file."""
    hk.save_task(meeting(), tmp_path / "meeting.toml")
    return tmp_path / "meeting.toml"


SMALL = ("--seeds", "3", "--steps", "3000")


def test_training_sums_up_the_last_tests(hocket, task):
    code, out, err = hocket("train", task, *SMALL)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["learner", "runs", "steps", "policy"]
    assert lines[1].split()[:4] == ["sweep", "3", "3,000", "greedy"]
    assert lines[2].split()[:4] == ["sweep", "3", "3,000", "softmax"]
    assert lines[-2].startswith("Theorem 3 for sweep, over 300 episodes: ")
    assert lines[-1].startswith("Nothing was saved. Save runs with --out FOLDER")


def test_training_as_json_says_the_same(hocket, task):
    code, out, _ = hocket("train", task, *SMALL, "--learner", "dqprm,iql", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["task"] == "meeting" and not found["stopped"]
    assert [row["learner"] for row in found["learners"]] == ["dqprm", "iql"]
    row = found["learners"][0]
    assert row["seeds"] == 3 and row["steps"] == 3_000
    assert len(row["softmax"]["quartiles"]) == 3 and 0 <= row["greedy"]["success"] <= 1
    assert row["bounds"]["lower"] <= row["bounds"]["success"] <= row["bounds"]["upper"]


@pytest.mark.parametrize(("taken", "is_hot"), [(25, False), (42, False), (43, True), (250, True), (1_000, True)])
def test_softmax_that_fails_or_takes_long_where_greedy_does_not_is_said_to_be_hot(tmp_path, capsys, taken, is_hot):
    made = record("x", "1" * 64, "dqprm", 0, [taken] * 10)
    kinds = {**made.tests, "greedy": record("x", "1" * 64, "dqprm", 0, [23] * 10).tests["greedy"]}  # that is, 21 steps
    print_results(hk.summarize(write_study(tmp_path / "x", [replace(made, tests=kinds)])))
    said = "dqprm: softmax at temperature 0.02 is hotter than many differences of values; see greedy."
    assert (said in capsys.readouterr().out) == is_hot


def test_several_tasks_are_told_apart(hocket, task, tmp_path):
    code, out, _ = hocket("train", task, "rendezvous-2", *SMALL, "--out", tmp_path / "runs")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:5]] == ["task", *["meeting"] * 2, *["rendezvous-2"] * 2]
    with (tmp_path / "runs" / "curves.csv").open(newline="") as file:
        assert {row["task"] for row in csv.DictReader(file)} == {"meeting", "rendezvous-2"}


def test_a_setting_with_several_values_is_swept(hocket, task, tmp_path):
    folder = tmp_path / "runs"
    code, out, _ = hocket("train", task, *SMALL, "--set", "sync-probability=0.1,1", "--out", folder)
    assert code == 0
    assert "sweep, sync_probability=0.1" in out and "sweep, sync_probability=1" in out
    assert len(list(folder.glob("runs/*.json"))) == len(list(folder.glob("policies/*.npz"))) == 6


def test_the_same_command_again_runs_nothing(hocket, task, tmp_path):
    first = hocket("train", task, *SMALL, "--out", tmp_path / "runs")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("runs/*")}
    assert hocket("train", task, *SMALL, "--out", tmp_path / "runs") == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("runs/*")} == before


def test_an_interrupt_keeps_what_is_finished_and_the_same_command_goes_on(hocket, task, tmp_path, monkeypatch):
    def interrupted(study, folder, *, watch, **rest):
        def tell(update):
            watch(update)
            if update.jobs == 1 and not rest["stop"].is_set():
                signal.raise_signal(signal.SIGINT)

        return run_study(study, folder, watch=tell, **{**rest, "engine": OneByOne(1)})

    command = ("train", task, *SMALL, "--learner", "cqrm", "--out", tmp_path / "runs")  # whose seeds go one by one
    with monkeypatch.context() as patch:
        patch.setattr("hocket.study.running.run_study", interrupted)
        code, out, _ = hocket(*command)
    kept = len(list((tmp_path / "runs").glob("runs/*.json")))
    assert code == 130 and 1 <= kept < 3
    assert out.startswith("Stopped early; finished runs are saved.")
    code, out, _ = hocket(*command)
    assert code == 0 and len(list((tmp_path / "runs").glob("runs/*.json"))) == 3


@pytest.mark.parametrize(("by_signal", "most", "runs"), [(130, 11, 0), (130, 12, 3), (0, 11, 3)])
def test_on_leaving_no_more_tests_are_summed_up_than_take_a_moment(tmp_path, monkeypatch, by_signal, most, runs):
    monkeypatch.setattr("hocket.cli.study.MOST_ON_LEAVING", most)
    folder = write_study(tmp_path / "runs", [record("x", "1" * 64, "dqprm", seed, [20, 20]) for seed in range(3)])
    done = StudyOutcome(hk.load_results(folder), by_signal, None)
    assert sum(len(group.seeds) for section in done.summary().sections for group in section.groups) == runs
    assert done.is_brief == (runs == 0)


def test_a_study_is_run_from_a_file(hocket, task, tmp_path):
    (tmp_path / "study.toml").write_text('tasks = "meeting.toml"\nlearners = ["iql", "hil"]\nseeds = 2\nsteps = 2000\n')
    code, out, _ = hocket("study", tmp_path / "study.toml", "--out", tmp_path / "runs")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:5]] == ["iql", "iql", "hil", "hil"]
    assert hocket("study", tmp_path / "study.toml", "--seeds", "1", "--json")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "sync_probability"), "--set takes words of the form NAME=VALUE"),
        (("--set", "sync_probabilty=1"), "has no setting 'sync_probabilty' (did you mean 'sync_probability'?"),
        (("--set", "sync_probability=often"), "sync_probability must be a number, got 'often'"),
        (("--set", "sync_probability=1,"), "sync_probability must be a number, got ''"),
        (("--set", "test_every=1.5"), "test_every must be an integer, got '1.5'"),
        (("--set", "sync-literal=maybe"), "sync_literal must be true or false, got 'maybe'"),
        (("--set", "discount=2"), "discount must be a number between 0 and 1, got 2.0"),
        (("--learner", "dqrpm"), "learner 'dqrpm' does not exist"),
        (("--seeds", "0"), "seeds must be at least one integer"),
        (("--steps", "0"), "steps must be at least 1"),
        (("--engine", "cloud"), "engine 'cloud' does not exist"),
        (("--engine", "dask"), "go together"),
        (("--tensorboard",), "logs for tensorboard need a folder"),
    ],
)
def test_bad_input_is_refused_before_any_work(hocket, task, words, message):
    code, out, err = hocket("train", task, *words)
    assert (code, out) == (2, "")
    assert message in err and err.startswith("hocket: ")


def test_a_command_without_a_task_says_so(hocket):
    code, _, err = hocket("train")
    assert code == 2 and "name a task" in err


def test_a_folder_that_is_not_one_of_runs_is_refused(hocket, tmp_path):
    code, _, err = hocket("report", tmp_path / "nothing")
    assert code == 2 and "nothing: is not a folder of runs" in err
    code, _, err = hocket("report", tmp_path)
    assert code == 2 and "has no runs in it" in err
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "foreign.json").write_text("{}", encoding="utf-8")
    code, _, err = hocket("report", tmp_path)
    assert code == 2 and "foreign.json" in err and "has no runs in it that can be read" in err


# Reports.


def test_a_report_is_written_into_the_folder_or_where_it_is_asked_for(hocket, task, tmp_path):
    runs = tmp_path / "runs"
    assert hocket("train", task, *SMALL, "--out", runs)[0] == 0
    code, out, err = hocket("report", runs)
    assert (code, out.strip(), err) == (0, str(runs / "report.html"), "")
    assert (runs / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    code, out, _ = hocket("report", runs, "-o", tmp_path / "page.html", "--json")
    assert json.loads(out) == {"written": [str(tmp_path / "page.html")], "missing": 0}
    pages = [path.read_text(encoding="utf-8") for path in (tmp_path / "page.html", runs / "report.html")]
    assert pages[0].replace('href="runs/', 'href="') == pages[1]  # but for the way to the data


def test_figures_are_drawn_in_the_formats_that_are_asked_for(hocket, task, tmp_path):
    runs, figures = tmp_path / "runs", tmp_path / "figures"
    assert hocket("train", task, *SMALL, "--out", runs)[0] == 0
    code, out, _ = hocket("report", runs, "--figures", figures, "--format", "png,svg")
    assert code == 0
    made = {path.name for path in figures.iterdir()}
    assert {
        "meeting-curves.png",
        "meeting-curves.svg",
        "meeting-policy-sweep-A1.svg",
        "meeting-visits-sweep.png",
    } <= made
    assert {str(figures / name) for name in made} <= set(out.split())
    code, _, err = hocket("report", runs, "--figures", figures, "--format", "gif")
    assert code == 2 and "gif" in err


def test_a_report_names_what_it_left_out(hocket, task, tmp_path):
    runs = tmp_path / "runs"
    assert hocket("train", task, *SMALL, "--out", runs)[0] == 0
    (runs / "runs" / "mine.json").write_text("[]", encoding="utf-8")
    code, _, err = hocket("report", runs)
    assert code == 0 and "left out" in err and "mine.json" in err
    assert "mine.json" in (runs / "report.html").read_text(encoding="utf-8")


def test_the_paper_is_repeated_with_its_report_and_figures(hocket, tmp_path):
    code, out, err = hocket("paper", "--quick", "--seeds", "1", "--out", tmp_path / "paper")
    assert (code, err) == (0, "")
    assert re.search(r"^13 runs and the report in \d+ s: open .*report.html$", out, re.MULTILINE)
    figures = sorted(path.name for path in (tmp_path / "paper" / "figures").iterdir())
    assert figures == ["buttons.svg", "rendezvous-10.svg", "rendezvous-2.svg"]
    page = (tmp_path / "paper" / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("buttons", "rendezvous-2", "rendezvous-10", "cqrm"))
    code, out, _ = hocket("paper", "--quick", "--seeds", "1", "--out", tmp_path / "paper", "--json")
    found = json.loads(out)
    assert code == 0 and found["tasks"] == ["buttons", "rendezvous-2", "rendezvous-10"]
    assert len(found["learners"]) == 13


# Progress.


def test_progress_tells_runs_speed_time_left_and_medians(monkeypatch):
    display = results.Progress()
    monkeypatch.setattr(results.time, "perf_counter", lambda: display.begin + 10)
    assert "compiling" in drawn(display)
    display.show(Update(3, 12, 40_000_000, 160_000_000, {"buttons dqprm": 25.0, "buttons iql": 1000.0}))
    shown = drawn(display)
    assert "3 of 12 runs" in shown and "4.0 M agent-steps/s" in shown and "30 s left" in shown
    assert re.search(r"buttons dqprm +25 test steps", shown) and re.search(r"buttons iql +1,000 test steps", shown)


def drawn(display) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(display.draw())
    return console.file.getvalue()


# Exact values.


def no_such_number(name: str) -> float:
    """Refuse NaN and Infinity, which Python's reader of JSON would let through."""
    raise ValueError(name)


def test_evaluate_says_how_many_of_how_many_policies_it_uses(hocket, task, tmp_path):
    folder = tmp_path / "runs"
    hocket("train", task, "rendezvous-2", *SMALL, "--out", folder)
    first, second, third = sorted(folder.glob("policies/meeting-*.npz"))
    first.write_bytes(first.read_bytes()[:-9])
    code, out, err = hocket("evaluate", task, folder, "--episodes", "50")
    assert code == 0
    assert err.splitlines() == [
        f"hocket: left out: {first}: is not a policy that hocket has written",
        "hocket: evaluating 2 of 6 policies (3 of other tasks, 1 unreadable)",
    ]
    assert [line.split()[:2] for line in out.splitlines()[1:3]] == [["sweep", "1"], ["sweep", "2"]]
    for path in (second, third):
        path.write_bytes(b"")
    code, out, err = hocket("evaluate", task, folder, "--episodes", "50")
    assert (code, out) == (2, "") and err.count("left out") == 3
    assert err.splitlines()[-1].startswith("hocket: ")


def test_exact_values_are_printed_with_their_errors(hocket, task, tmp_path):
    hocket("train", task, *SMALL, "--learner", "optimal", "--out", tmp_path / "runs")
    code, out, err = hocket("evaluate", task, tmp_path / "runs", "--exact", "--episodes", "50", "--softmax")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith("if done") and "exact V" in lines[0] and "exact mean" in lines[0]
    assert re.search(r" 1  +\d+\.\d+ ± \de-\d\d  +\d+\.\d+ ± \de-\d\d$", lines[1])


def test_evaluations_as_json_have_no_infinities(hocket, task, tmp_path):
    still = np.zeros(dqprm_shape(meeting()), np.float32)
    still[:, :, STAY] = 1
    settings = {"temperature": 0.02, "max_episode_steps": 5}
    policy = hk.Policy("meeting", meeting().digest, "dqprm", 0, settings, {"q": still})
    hocket("train", task, "--seeds", "1", "--steps", "1000", "--out", tmp_path / "runs")
    (path,) = (tmp_path / "runs" / "policies").glob("*.npz")
    policy.save(path)
    code, out, _ = hocket("evaluate", task, tmp_path / "runs", "--exact", "--greedy", "--episodes", "5", "--json")
    assert code == 0
    (row,) = json.loads(out, parse_constant=no_such_number)["runs"]
    assert (row["mean_steps"], row["quartiles"], row["most_steps"]) == (5, [5, 5, 5], 5)  # nobody ever moves
    assert row["success"]["value"] == 0
    exact = row["exact"]
    assert (exact["success"], exact["success_error"], exact["failure"]) == (0, 0, 1)
    assert exact["mean_steps"] is None and exact["mean_steps_if_done"] is None


def test_learners_without_an_exact_value_are_left_out_of_it_with_a_word(hocket, task, tmp_path):
    hocket("train", task, *SMALL, "--learner", "iql,optimal", "--out", tmp_path / "runs")
    folder = tmp_path / "runs"
    code, out, err = hocket("evaluate", task, folder, "--exact", "--episodes", "50")
    assert code == 0 and "no exact values for iql" in err and "optimal" not in err
    iql, optimal = (next(line for line in out.splitlines() if line.startswith(name)) for name in ("iql", "optimal"))
    assert iql.endswith("–") and re.search(r"± \de-\d\d$", optimal)
    code, out, _ = hocket("evaluate", task, folder, "--exact", "--episodes", "50", "--json")
    rows = json.loads(out, parse_constant=no_such_number)["runs"]
    assert {(row["learner"], row["exact"] is None) for row in rows} == {("iql", True), ("optimal", False)}


def test_of_what_learns_nothing_all_tests_count_and_nothing_is_learnt(hocket, task, tmp_path):
    words = (
        "train",
        task,
        "--seeds",
        "2",
        "--steps",
        "40000",
        "--learner",
        "optimal,dqprm",
        "--out",
        tmp_path / "runs",
    )
    note = "All tests of optimal count, as it does not learn."
    assert note in hocket(*words)[1]
    assert note not in hocket("train", task, *SMALL, "--out", tmp_path / "other")[1]
    rows = {row["learner"]: row for row in json.loads(hocket(*words, "--json")[1])["learners"]}
    assert {name: row["greedy"]["learnt"] is None for name, row in rows.items()} == {"optimal": True, "dqprm": False}
    with (tmp_path / "runs" / "curves.csv").open(newline="") as file:
        tests = [row for row in csv.DictReader(file) if row["policy"] == "softmax"]
    for name, count in (("optimal", 0), ("dqprm", 10)):
        runs: dict[str, list[int]] = {}
        for row in tests:
            if row["learner"] == name:
                runs.setdefault(row["seed"], []).append(int(row["test_steps"]))
        middle = float(np.median([np.median(run[-count:]) for run in runs.values()]))
        assert rows[name]["softmax"]["quartiles"][1] == middle
    hocket("report", tmp_path / "runs")
    page = (tmp_path / "runs" / "report.html").read_text(encoding="utf-8")
    assert (
        "the last 10 tests of each run, as the curves do (all tests of optimal, which does not learn); a failure"
        in page
    )


def test_an_evaluation_says_what_its_limits_are_over(hocket, task, tmp_path):
    hocket("train", task, "--seeds", "5", "--steps", "1000", "--learner", "optimal", "--out", tmp_path / "runs")
    _, out, _ = hocket("evaluate", task, tmp_path / "runs", "--episodes", "20")
    assert "A failure counts as 1,000 steps" in out
    assert "optimal, 5 runs: V = 1.0000, 95 % limits over runs 0.4782 to 1.0000" in out


def test_runs_with_other_settings_or_steps_are_evaluated_apart(hocket, task, tmp_path):
    folder, words = tmp_path / "runs", ("train", task, "--seeds", "2", "--learner", "dqprm", "--out", tmp_path / "runs")
    hocket(*words, "--steps", "1000", "--set", "discount=0.8,0.9")
    hocket(*words, "--steps", "2000")
    code, out, err = hocket("evaluate", task, folder, "--episodes", "20")
    assert (code, err) == (0, "")
    labels = [
        f"dqprm, steps={steps}, discount={discount}" for steps, discount in ((1000, 0.8), (1000, 0.9), (2000, 0.9))
    ]
    lines = out.splitlines()
    assert [line.partition("  ")[0] for line in lines[1:7]] == [label for label in labels for _ in range(2)]
    assert [line.partition(" runs:")[0] for line in lines[8:]] == [f"{label}, 2" for label in labels]
    told = json.loads(hocket("evaluate", task, folder, "--episodes", "20", "--json")[1])
    assert [(own["label"], own["seed"], own["settings"]["discount"]) for own in told["runs"]] == [
        (label, seed, float(label[-3:])) for label in labels for seed in (0, 1)
    ]
    assert told["task"] == "meeting" and [own["label"] for own in told["learners"]] == labels


def test_policies_without_the_records_of_their_runs_are_evaluated_by_their_settings(hocket, task, tmp_path):
    folder = tmp_path / "runs"
    hocket("train", task, "--seeds", "11", "--steps", "1000", "--learner", "optimal", "--out", folder)
    for path in folder.glob("runs/*.json"):
        path.unlink()
    code, out, err = hocket("evaluate", task, folder, "--episodes", "20")
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()[1:12]] == [["optimal", str(seed)] for seed in range(11)]


def test_the_json_of_an_evaluation_has_each_learner_over_its_runs(hocket, task, tmp_path):
    folder = tmp_path / "runs"
    hocket("train", task, "--seeds", "5", "--steps", "1000", "--learner", "dqprm", "--out", folder)
    told = json.loads(hocket("evaluate", task, folder, "--episodes", "30", "--json")[1])
    (learner,) = told["learners"]
    shares = [own["success"]["value"] for own in told["runs"]]
    assert (learner["label"], learner["runs"]) == ("dqprm", 5)
    assert learner["success"]["value"] == pytest.approx(sum(shares) / 5)
    assert learner["success"]["low"] <= learner["success"]["value"] <= learner["success"]["high"]


def dqprm_shape(task: hk.Task) -> tuple[int, ...]:
    """Give the shape of what dqprm learns on a task."""
    tables = compile_task(task)
    agents, states = tables.is_final.shape
    return agents, tables.cells, len(ACTIONS), states


def test_a_terminal_is_told_how_far_a_solution_is(task, tmp_path, monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(evaluate, "make_console", lambda *, stderr=False: console)
    told = []
    monkeypatch.setattr(Status, "update", lambda _, line: told.append(line))
    runs = hk.train(meeting(), "optimal", seeds=2, steps=1)
    evaluate._solve_all(meeting(), [run.policy for run in runs], greedy=False, events=())
    assert told[0].startswith("policy 1 of 2: ") and "joint states, " in told[0]
    assert any(line.startswith("policy 2 of 2: ") for line in told)
