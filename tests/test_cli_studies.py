"""The commands that train and report: what they print, what they leave behind, and how they take bad input."""

import csv
import json
import signal

import pytest

import hocket as hk
from hocket.commands import studies
from hocket.study import run_study
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
    assert lines[0].split()[:4] == ["learner", "seeds", "steps", "policy"]
    assert lines[1].split()[:4] == ["dqprm", "3", "3,000", "softmax"]
    assert lines[2].split()[:4] == ["dqprm", "3", "3,000", "greedy"]
    assert lines[-1].startswith("Theorem 3 for dqprm, over 300 episodes: ")


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
    assert "dqprm, sync_probability=0.1" in out and "dqprm, sync_probability=1" in out
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

        return run_study(study, folder, watch=tell, **rest)

    command = ("train", task, *SMALL, "--learner", "iql", "--threads", "1", "--out", tmp_path / "runs")
    with monkeypatch.context() as patch:
        patch.setattr(studies, "run_study", interrupted)
        code, out, _ = hocket(*command)
    kept = len(list((tmp_path / "runs").glob("runs/*.json")))
    assert code == 130 and 1 <= kept < 3
    assert out.startswith("Stopped early; runs that were finished are kept.")
    code, out, _ = hocket(*command)
    assert code == 0 and len(list((tmp_path / "runs").glob("runs/*.json"))) == 3


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
        (("--set", "test_every=1.5"), "test_every must be a whole number, got '1.5'"),
        (("--set", "counterfactual=maybe"), "counterfactual must be true or false, got 'maybe'"),
        (("--set", "discount=2"), "discount must be between 0 and 1, got 2.0"),
        (("--learner", "dqrpm"), "learner 'dqrpm' does not exist"),
        (("--seeds", "0"), "seeds must be at least one whole number"),
        (("--steps", "0"), "steps must be at least 1"),
        (("--engine", "cloud"), "engine 'cloud' does not exist"),
        (("--engine", "dask"), "go together"),
        (("--tensorboard",), "--tensorboard needs a folder"),
    ],
)
def test_bad_input_is_refused_before_any_work(hocket, task, words, message):
    code, out, err = hocket("train", task, *words)
    assert (code, out) == (2, "")
    assert message in err and err.startswith("hocket: ")


def test_a_command_without_a_task_says_so(hocket):
    code, _, err = hocket("train")
    assert code == 2 and "at least one task" in err


def test_a_folder_that_is_not_one_of_runs_is_refused(hocket, tmp_path):
    code, _, err = hocket("report", tmp_path / "nothing")
    assert code == 2 and "nothing: is not a folder of runs" in err
    code, _, err = hocket("report", tmp_path)
    assert code == 2 and "has no runs in it" in err
