"""Ctrl-C and SIGTERM: a command ends, whatever it is at, and keeps what is finished."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hocket as hk
from hocket.cli.terminal import stopping
from worlds import meeting, warm_kernels

pytestmark = pytest.mark.xdist_group("kernels")

PATIENCE = 60  # seconds until a command counts as one that hangs

TELLING = """
import sys
from hocket.cli.main import main
from hocket.cli.results import Progress

Progress.show = lambda self, update: print(update.jobs, update.steps, file=sys.stderr, flush=True)
main(sys.argv[1:])
"""  # the command line, which tells how far a study is

NEVER_DONE = """
tasks = "meeting.toml"
learners = "{learner}"
seeds = 1
steps = 1000
settings = {{ test_every = 500 }}
[[parts]]
[[parts]]
steps = 1_000_000_000_000
settings = {{ test_every = 1_000_000_000_000 }}
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    warm_kernels()


def start(*args: str | Path) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", TELLING, *map(str, args)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def has_begun(line: str) -> bool:
    """Say whether a run is finished, and another one under way."""
    jobs, steps = map(int, line.split())
    return jobs >= 1 and steps > 100_000


@pytest.mark.parametrize(
    ("learner", "number"),
    [("dqprm", signal.SIGINT), ("cqrm", signal.SIGINT), ("iql", signal.SIGTERM), ("hil", signal.SIGTERM)],
)
def test_a_signal_ends_a_study_without_tests_and_keeps_what_is_finished(tmp_path, learner, number):
    hk.save_task(meeting(), tmp_path / "meeting.toml")
    (tmp_path / "study.toml").write_text(NEVER_DONE.format(learner=learner))
    process = start("study", tmp_path / "study.toml", "--threads", "2", "--out", tmp_path / "runs")
    try:
        assert any(has_begun(line) for line in process.stderr)  # waits for it
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    assert out.startswith("Stopped early; finished runs are saved.")
    results = hk.load_results(tmp_path / "runs")
    assert [record.steps for record in results.records] == [1_000] and results.problems == ()
    assert results.about["missing"] == 1
    with (tmp_path / "runs" / "curves.csv").open(newline="") as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["500", "1000"] * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_the_first_signal_is_a_wish_and_the_second_an_interrupt(number):
    before = signal.getsignal(number)
    with stopping() as stop:
        assert (stop.code, stop.is_set()) == (0, False)
        signal.raise_signal(number)
        assert (stop.code, stop.is_set()) == (128 + number, True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(number) is before
