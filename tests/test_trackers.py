"""Logs for TensorBoard, read back by TensorBoard itself, and for trackers that are only pretended here."""

import importlib
import sys
from types import SimpleNamespace

import pytest

import hocket as hk
from hocket.study import trackers
from test_store import record

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def read(folder):
    """Read a log as TensorBoard does."""
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulators.EventAccumulator(str(folder))
    found.Reload()
    return found


def test_a_log_has_the_tests_under_the_tags_that_people_look_for(tmp_path):
    trackers.log_records([record()], tmp_path)
    [folder] = (tmp_path / "tensorboard").iterdir()
    assert folder.name.startswith("meeting__dqprm__0__")
    found = read(folder)
    tags = [
        "charts/SPS",
        "charts/episodic_length",
        "charts/episodic_return",
        "eval/episodic_length",
        "eval/episodic_return",
    ]
    assert sorted(found.Tags()["scalars"]) == tags
    assert [(own.step, own.value) for own in found.Scalars("charts/episodic_length")] == [(10, 100), (20, 7), (30, 5)]
    assert [own.value for own in found.Scalars("eval/episodic_return")] == [0, 1, 1]
    assert [own.value for own in found.Scalars("charts/SPS")] == [20]


def test_a_log_that_is_there_is_not_written_again(tmp_path):
    for _ in range(2):
        trackers.log_records([record(), record(seed=1)], tmp_path)
    assert sorted(len(list(folder.glob("events*"))) for folder in (tmp_path / "tensorboard").iterdir()) == [1, 1]


class Pretended(SimpleNamespace):
    """A tracker that writes down what it is told."""

    def __getattr__(self, name):
        def note(*given, **named):
            self.told.append((name, given, named))
            return self

        return note

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.told.append(("end", (), {}))


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_other_trackers_are_told_settings_and_tests_in_the_order_of_steps_once(tracker, tmp_path, monkeypatch):
    pretended = Pretended(told=[])
    monkeypatch.setitem(sys.modules, tracker, pretended)
    for _ in range(2):
        trackers.log_records([record()], tmp_path, tracker)
    told = {name: (given, named) for name, given, named in pretended.told}
    if tracker == "mlflow":
        rows = [(*given, named["step"]) for name, given, named in pretended.told if name == "log_metric"]
        assert told["set_tracking_uri"][0] == (f"sqlite:///{tmp_path}/mlflow/mlflow.db",)
        assert told["log_params"][0][0]["learner"] == "dqprm"
    else:
        logged = [(given[0], named["step"]) for name, given, named in pretended.told if name == "log"]
        rows = [(*pair, step) for values, step in logged for pair in values.items()]
        assert told["init"][1]["project"] == "hocket" and told["init"][1]["config"]["seed"] == 0
        assert "finish" in told
    steps = [step for _, _, step in rows]
    assert steps == sorted(steps) and len(rows) == 2 * 2 * 3 + 1
    assert ("charts/episodic_length", 7, 20) in rows and ("eval/episodic_return", 0.0, 10) in rows


def test_the_command_logs_where_it_is_told_to_and_nowhere_else(hocket, tmp_path, monkeypatch):
    for name in ("mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, name, Pretended(told=[]))
    command = ("train", "rendezvous-2", "--seeds", "1", "--steps", "1000", "-o", tmp_path / "runs")
    code, _, _ = hocket(*command, "--log", "mlflow,tensorboard")
    assert code == 0
    assert sys.modules["mlflow"].told and not sys.modules["wandb"].told
    assert sorted(path.name for path in tmp_path.glob("runs/*") if path.name in trackers.PACKAGES) == [
        "mlflow", "tensorboard"
    ]  # fmt: skip
    code, _, said = hocket(*command, "--log", "wanda")
    assert code == 2 and "did you mean 'wandb'" in said
    code, _, said = hocket("train", "rendezvous-2", "--log", "wandb")
    assert code == 2 and "need a folder to write to" in said


def test_without_the_package_there_is_an_error_that_says_how_to_get_it(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(trackers, "import_module", missing)
    for tracker in trackers.PACKAGES:
        with pytest.raises(hk.HocketError, match=rf"pip install '\.\[{tracker}\]'"):
            trackers.check_available(tracker)
    assert importlib.import_module is not missing
