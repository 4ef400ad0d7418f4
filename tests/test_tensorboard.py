"""Logs for TensorBoard, read back by TensorBoard itself."""

import importlib

import pytest

import hocket as hk
from hocket.study import tensorboard
from test_store import record

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def read(folder):
    """Read a log as TensorBoard does."""
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulators.EventAccumulator(str(folder))
    found.Reload()
    return found


def test_a_log_has_the_tests_under_the_tags_that_people_look_for(tmp_path):
    tensorboard.log_records([record()], tmp_path)
    [folder] = tmp_path.iterdir()
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
        tensorboard.log_records([record(), record(seed=1)], tmp_path)
    assert sorted(len(list(folder.glob("events*"))) for folder in tmp_path.iterdir()) == [1, 1]


def test_without_the_package_there_is_an_error_that_says_how_to_get_it(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(tensorboard, "import_module", missing)
    with pytest.raises(hk.HocketError, match=r"pip install '\.\[tensorboard\]'"):
        tensorboard.check_available()
    assert importlib.import_module is not missing
