"""The recipe "Add a learner" of CONTRIBUTING.md, followed: a learner that nothing in the package has heard of.

It learns, like `dqprm`, each agent with simulated teammates, but by its cell alone: what its machine says it ignores.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import hocket as hk
from hocket.learn.catalogue import LEARNERS, find_learner
from hocket.learn.episodes import ValuePlayer
from hocket.learn.learner import Arrays, Learner, PolicyInput, machine_shapes
from hocket.learn.policies import Run, load_policy
from hocket.learn.settings import SimulatedSettings, setting
from hocket.random import TRAINING, action_draw, slip_draw, stream_key, sync_draw
from hocket.task.grid import slip_outcome
from hocket.task.individual import IndividualTable, individual_table
from hocket.task.tables import Tables
from worlds import meeting

pytestmark = pytest.mark.xdist_group("kernels")


@dataclass(frozen=True)
class BlindSettings(SimulatedSettings):
    """Q-learning that does not see the machine."""

    wander: float = setting(0.3, "share of steps in which any action will do", least=0, most=1)


class Walker:
    """One agent of one seed: where it is, and what it has learnt."""

    def __init__(self, table: IndividualTable, settings: BlindSettings, seed: int) -> None:
        self.table, self.settings, self.key = table, settings, stream_key(TRAINING, seed, table.place)
        self.q = np.zeros(table.next_cell.shape[1:3], np.float32)
        self.cell, self.state, self.clock = int(table.starts[0]), table.initial, 0

    def step(self, time: int) -> None:
        table, drawn = self.table, action_draw(self.key, time)
        wander = self.settings.wander
        action = int(drawn / wander * 5) if drawn < wander else int(self.q[self.cell].argmax())
        outcome = slip_outcome(slip_draw(self.key, time), table.slip_limit)
        end = int(table.next_cell[table.dynamics[self.state], self.cell, action, outcome])
        state, reward = self.state, 0.0
        kind, drawn = table.kind[end], sync_draw(self.key, time)
        at = (state, kind, int((drawn >= table.limit[state, kind]).sum()))
        reward, state = float(table.reward[at]), int(table.next_state[at])
        goal = reward + self.settings.discount * self.q[end].max() * (not table.is_final[state])
        self.q[self.cell, action] += self.settings.learning_rate * (goal - self.q[self.cell, action])
        self.cell, self.state, self.clock = end, state, self.clock + 1
        if table.is_final[state] or self.clock >= self.settings.max_episode_steps:
            self.cell, self.state, self.clock = int(table.starts[0]), table.initial, 0


class BlindBlock:
    """All agents of some seeds."""

    def __init__(self, tables: Tables, settings: BlindSettings, seeds: Sequence[int], threads: int = 1) -> None:
        own = (settings.sync_probability,)
        self.states = tables.is_final.shape[1]
        self.teams = [
            [Walker(individual_table(tables, agent, *own), settings, seed) for agent in range(len(tables.start))]
            for seed in seeds
        ]

    def train(self, begin: int, steps: int) -> None:
        for team in self.teams:
            for walker in team:
                for time in range(begin, begin + steps):
                    walker.step(time)

    def arrays(self, index: int) -> Arrays:
        q = np.stack([walker.q for walker in self.teams[index]])
        return {"q": np.repeat(q[..., None], self.states, axis=3)}  # the same in every machine state


LEARNER = Learner(
    name="blind",
    summary="each agent learns by its cell alone, whatever its machine says",
    settings=BlindSettings,
    block=BlindBlock,
    player=ValuePlayer,
    shapes=machine_shapes,
    policy_input=PolicyInput.MACHINE,
)

STEPS = 2_000
SLOW = {"learning_rate": 0.05, "wander": 0.5, "sync_probability": 0.5}  # so that chances are averaged


@pytest.fixture
def _added(monkeypatch):
    """Add the learner for as long as a test takes."""
    monkeypatch.setitem(LEARNERS, LEARNER.name, LEARNER)


def finals(run: Run, kind: str = "greedy") -> list[int]:
    """List the steps of a run's last tests."""
    return run.curve(kind)[1][-3:].tolist()


def written(folder: Path) -> str:
    """Write the report of the runs in a folder, and read it."""
    return hk.write_report(folder / "runs", folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("_added")
def test_it_trains_and_learns_what_a_cell_can_tell():
    """Two agents that walk to the center and stay there need to know nothing else."""
    runs = hk.train(meeting(), "blind", seeds=2, steps=5_000, settings=SLOW)
    assert [finals(run) for run in runs] == [[3, 3, 3], [3, 3, 3]]
    (one,) = hk.train(meeting(), "blind", seeds=[1], steps=5_000, settings=SLOW, threads=1)
    np.testing.assert_array_equal(one.policy.arrays["q"], runs[1].policy.arrays["q"])
    assert one.all_tests == runs[1].all_tests


@pytest.mark.usefixtures("_added")
def test_it_refuses_settings_that_it_does_not_have_or_that_make_no_sense():
    with pytest.raises(hk.HocketError, match=r"blind has no setting 'wonder' \(did you mean 'wander'"):
        hk.train(meeting(), "blind", seeds=1, steps=1, settings={"wonder": 0.1})
    with pytest.raises(hk.HocketError, match="wander must be a number between 0 and 1, got 2"):
        hk.train(meeting(), "blind", seeds=1, steps=1, settings={"wander": 2.0})


def test_a_setting_without_a_range_is_a_mistake_in_the_learner():
    @dataclass(frozen=True)
    class Vague(SimulatedSettings):
        wander: float = 0.3

    with pytest.raises(TypeError, match=r"Vague.wander must be declared with `setting`"):
        Vague()
    with pytest.raises(TypeError, match="a setting that is a number has a range, and 'how far' has none"):
        setting(0.5, "how far", least=0)


@pytest.mark.usefixtures("_added")
def test_a_study_of_it_resumes_and_grows(tmp_path):
    study = hk.Study([meeting()], ["blind", "optimal"], 2, STEPS)
    larger = hk.Study([meeting()], ["blind", "optimal"], 3, STEPS)
    hk.run_study(study, tmp_path / "grown")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "grown").glob("runs/*")}
    grown, fresh = hk.run_study(larger, tmp_path / "grown"), hk.run_study(larger, tmp_path / "fresh")
    assert before.items() <= {path: path.stat().st_mtime_ns for path in (tmp_path / "grown").glob("runs/*")}.items()
    assert [record.key for record in grown.records] == [record.key for record in fresh.records]
    assert (tmp_path / "grown" / "curves.csv").read_bytes() == (tmp_path / "fresh" / "curves.csv").read_bytes()


@pytest.mark.usefixtures("_added")
def test_its_policies_are_files_that_are_evaluated_solved_and_checked(tmp_path):
    task = meeting()
    (run,) = hk.train(task, "blind", seeds=1, steps=STEPS)
    run.policy.save(tmp_path / "policy.npz")
    policy = load_policy(tmp_path / "policy.npz", task.digest)
    (estimate,) = hk.evaluate(task, policy, 2_000, greedy=False)
    exact = hk.evaluate_exact(task, policy, greedy=False)
    assert exact.success == pytest.approx(1)
    assert estimate.mean_steps == pytest.approx(exact.mean_steps, rel=0.05)
    wrong = replace(policy, arrays={"q": policy.arrays["q"][:1]})
    for use in (hk.evaluate, hk.evaluate_exact):
        with pytest.raises(hk.HocketError, match="not what blind learns on this task"):
            use(task, wrong)


@pytest.mark.usefixtures("_added")
def test_reports_say_what_it_is_and_figures_show_its_policies(tmp_path):
    results = hk.run_study(hk.Study([meeting()], ["blind", "optimal"], 2, STEPS), tmp_path / "runs")
    page = written(tmp_path)
    assert f"<b>blind</b>: {LEARNER.summary}" in page
    drawn = {path.name for path in hk.draw_figures(results, tmp_path / "figures")}
    assert {"meeting-curves.svg", "meeting-policy-blind-A1.svg", "meeting-policy-optimal-A2.svg"} <= drawn


def test_a_reference_is_a_line_and_not_a_rival(monkeypatch, tmp_path):
    monkeypatch.setitem(LEARNERS, "blind", replace(LEARNER, is_reference=True))
    results = hk.run_study(hk.Study([meeting()], ["blind", "dqprm"], 2, STEPS), tmp_path / "runs")
    (section,) = hk.summarize(results).sections
    assert [group.learner for group in section.groups] == ["dqprm"]
    assert section.reference.learner == "blind" and section.comparisons == ()
    assert "blind" in written(tmp_path)
    assert hk.draw_figures(results, tmp_path / "figures")


@pytest.mark.usefixtures("_added")
def test_the_command_line_takes_it_like_any_other(hocket, tmp_path):
    hk.save_task(meeting(), tmp_path / "meeting.toml")
    task, folder = tmp_path / "meeting.toml", tmp_path / "runs"
    size = ("--learner", "blind,dqprm", "--seeds", 2, "--steps", STEPS, "--out", folder)
    code, out, err = hocket("train", task, *size, "--set", "wander=0.5", "--json")
    assert (code, err) == (0, "")
    assert [row["learner"] for row in json.loads(out)["learners"]] == ["blind", "dqprm"]
    with (folder / "curves.csv").open(newline="") as file:
        assert {row["learner"] for row in csv.DictReader(file)} == {"blind", "dqprm"}
    assert hocket("report", folder)[0] == 0
    code, out, _ = hocket("evaluate", task, folder, "--episodes", 50, "--exact", "--json")
    assert code == 0 and {row["learner"] for row in json.loads(out)["runs"]} == {"blind", "dqprm"}


# From another package.

PACKAGE = '''
import numpy as np
from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput, machine_shapes
from hocket.learn.settings import SimulatedSettings


class Still:
    """Learns that all actions are alike."""

    def __init__(self, tables, settings, seeds, threads=1):
        self.shape = machine_shapes(tables)["q"]

    def train(self, begin, steps):
        pass

    def arrays(self, index):
        return {"q": np.zeros(self.shape, np.float32)}


LEARNER = Learner(
    name="still",
    summary="learns nothing at all",
    settings=SimulatedSettings,
    block=Still,
    player=Lazy("hocket.learn.episodes", "ValuePlayer"),
    shapes=machine_shapes,
    policy_input=PolicyInput.MACHINE,
)
NOTHING = None
'''


def install(folder: Path, entry: str) -> None:
    """Put a package where Python looks, as an installer would."""
    (folder / "still_learner.py").write_text(PACKAGE)
    about = folder / "still_learner-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: still-learner\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[hocket.learners]\nstill = still_learner:{entry}\n")


def run_python(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(map(str, (*folders, *sys.path)))
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, check=True)


def test_an_installed_package_brings_its_learner(tmp_path):
    install(tmp_path, "LEARNER")
    train = (
        "(run,) = hk.train('rendezvous-2', 'still', seeds=1, steps=2_000); print(run.learner, len(run.all_tests) > 0)"
    )
    done = run_python(f"import hocket as hk; print(*hk.LEARNERS); {train}", tmp_path)
    assert done.stdout.splitlines() == [" ".join([*LEARNERS, "still"]), "still True"]
    listed = run_python("from hocket.cli.main import run; run(['learners'])", tmp_path)
    assert "learns nothing at all" in listed.stdout


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            "NOTHING",
            "the learner still of still-learner is left out: a learner is a value of hocket.learn.learner.Learner",
        ),
        ("MISSING", "the learner still of still-learner is left out: AttributeError"),
    ],
)
def test_a_package_whose_learner_cannot_be_loaded_is_warned_of_and_left_out(tmp_path, entry, said):
    install(tmp_path, entry)
    done = run_python("import hocket as hk; print(*hk.LEARNERS)", tmp_path)
    assert done.stdout.split() == [*LEARNERS]
    assert said in done.stderr


def test_a_learner_is_registered_by_a_call(monkeypatch):
    monkeypatch.setattr("hocket.learn.catalogue.LEARNERS", dict(LEARNERS))
    assert hk.register_learner(LEARNER) is LEARNER is hk.register_learner(LEARNER)
    assert find_learner("blind") is LEARNER
    with pytest.raises(hk.HocketError, match="there is another learner 'blind' already"):
        hk.register_learner(replace(LEARNER, summary="something else"))
    with pytest.raises(hk.HocketError, match=r"a learner is a value of .*Learner, got 'blind'"):
        hk.register_learner("blind")
    with pytest.raises(hk.HocketError, match="must be a class derived from"):
        hk.register_learner(replace(LEARNER, name="other", settings=dict))
