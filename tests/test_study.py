"""Studies: all combinations, kept one by one, resumed after a kill, on threads and on a cluster."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

import hocket as hk
from hocket.files import locked
from hocket.learn.policies import load_policy
from hocket.learn.warmup import compile_kernels
from hocket.study import curves, policies, store
from hocket.study.engines import ThreadEngine
from hocket.study.running import run_study, save_runs
from hocket.study.store import load_results, open_store
from hocket.study.study import Study, load_study
from studies import OneByOne
from worlds import corridor, meeting

pytestmark = pytest.mark.xdist_group("kernels")

MANY = [(number + 1) / 1_000 for number in range(1_000)]
CONTRACT = ["task", "learner", "seed", "step", "policy", "test_steps", "success"]


def tiny(**changes) -> Study:
    """A study of a few milliseconds."""
    about = {"tasks": [meeting()], "learners": ["dqprm", "iql"], "seeds": 3, "steps": 2_000, **changes}
    return Study(**about)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "curves.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def same_apart_from_time(one: Path, other: Path) -> bool:
    """Say whether two folders hold the same results, bit for bit, but for how long they took."""

    def content(folder: Path) -> dict[str, object]:
        files = {path.relative_to(folder): path.read_bytes() for path in folder.glob("policies/*.npz")}
        for path in folder.glob("runs/*.json"):
            record = json.loads(path.read_text(encoding="utf-8"))
            files[path.relative_to(folder)] = {**record, "seconds": 0}
        return {**files, "curves": (folder / "curves.csv").read_text(encoding="utf-8")}

    return content(one) == content(other)


# What a study is.


def test_a_study_is_all_combinations_of_tasks_learners_settings_and_seeds():
    study = Study(
        [meeting(), corridor(4)], ["dqprm", "iql"], [3, 5], 100, {"discount": [0.5, 0.9], "sync_probability": 1.0}
    )
    found = [
        (group.task.name, group.learner, group.settings.discount, seed)
        for group in study.groups()
        for seed in group.seeds
    ]
    names = [meeting().name, corridor(4).name]
    assert sorted(found) == sorted(
        (task, learner, discount, seed)
        for task in names
        for learner in ("dqprm", "iql")
        for discount in (0.5, 0.9)
        for seed in (3, 5)
    )


def test_a_learner_that_lacks_a_setting_runs_once():
    groups = tiny(settings={"sync_probability": (0.1, 1.0)}).groups()
    assert [group.learner for group in groups] == ["dqprm", "dqprm", "iql"]


def test_studies_are_added():
    both = tiny(seeds=2) + tiny(learners=["hil"], steps=500)
    assert [(group.learner, group.steps) for group in both.groups()] == [("dqprm", 2_000), ("iql", 2_000), ("hil", 500)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learners": ["dqrpm"]}, "learner 'dqrpm' does not exist .*dqprm"),
        ({"learners": []}, "at least one task and one learner"),
        ({"tasks": []}, "at least one task and one learner"),
        ({"settings": {"sync_probabilty": 1.0}}, "no setting 'sync_probabilty' .*sync_probability"),
        ({"settings": {"discount": (0.9, 2.0)}}, "discount must be a number between 0 and 1, got 2.0"),
        ({"settings": {"discount": ()}}, "discount needs at least one value"),
        ({"seeds": 0}, "seeds must be at least one"),
        ({"seeds": [-1]}, "seeds must be at least one"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"seeds": 60_000}, "at most 100,000 runs, got 120,000"),
        ({"settings": {"discount": MANY, "learning_rate": MANY}}, "at most 100,000 combinations"),
    ],
)  # fmt: skip
def test_a_study_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(hk.HocketError, match=message):
        tiny(**changes)


# Files.


def test_a_study_is_read_from_a_file_with_parts_that_inherit(tmp_path):
    hk.save_task(meeting(), tmp_path / "mine.toml")
    (tmp_path / "study.toml").write_text(
        'tasks = "mine.toml"\nseeds = [4, 7]\nsteps = 300\n'
        "[settings]\ndiscount = [0.5, 0.9]\n"
        '[[parts]]\nlearners = ["dqprm", "iql"]\n'
        '[[parts]]\ntasks = ["buttons", "rendezvous-2"]\nlearners = "hil"\nsteps = 500\nsettings = {}\n',
        encoding="utf-8",
    )
    groups = load_study(tmp_path / "study.toml").groups()
    assert [(group.task.name, group.learner, group.steps, group.settings.discount) for group in groups] == [
        (meeting().name, "dqprm", 300, 0.5),
        (meeting().name, "dqprm", 300, 0.9),
        (meeting().name, "iql", 300, 0.5),
        (meeting().name, "iql", 300, 0.9),
        ("buttons", "hil", 500, 0.9),
        ("rendezvous-2", "hil", 500, 0.9),
    ]
    assert {group.seeds for group in groups} == {(4, 7)}


def test_the_paper_is_a_study():
    runs = [
        (g.task.name, g.learner, g.steps, len(g.seeds)) for g in load_study("paper").groups() if g.learner != "optimal"
    ]
    assert runs == [
        ("buttons", "dqprm", 250_000, 10),
        ("buttons", "hil", 250_000, 10),
        ("buttons", "iql", 250_000, 10),
        ("rendezvous-2", "dqprm", 700_000, 10),
        ("rendezvous-2", "cqrm", 700_000, 10),
        ("rendezvous-2", "hil", 700_000, 10),
        ("rendezvous-2", "iql", 700_000, 10),
        ("rendezvous-10", "dqprm", 200_000, 10),
        ("rendezvous-10", "hil", 150_000, 10),
        ("rendezvous-10", "iql", 150_000, 10),
    ]
    assert {len(group.seeds) for group in load_study("paper", seeds=2).groups()} == {2}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "tasks: is missing"),
        ("tasks = 3", "tasks"),
        ('tasks = "bottons"', "no built-in task of this name .*buttons"),
        ('tasks = "buttons"\nlerners = "iql"', "lerners"),
        ('tasks = "buttons"\nseeds = "ten"', "seeds must be at least one integer"),
        ('tasks = "buttons"\nsteps = 1.5', "steps must be at least 1"),
        ('tasks = "buttons"\nsettings = 3', "settings"),
        ('tasks = "buttons"\n[settings]\ndiscount = "high"', "discount must be a number between 0 and 1"),
        ('tasks = "buttons"\n[settings]\ndiscount = [[0.5]]', "discount must be a number between 0 and 1"),
        ('tasks = "buttons"\nparts = 3', "parts"),
        ('tasks = "buttons"\nparts = [3]', "parts"),
        ("tasks = ", "is not TOML"),
    ],
)
def test_a_file_that_is_no_study_is_an_error_that_names_it(content, message, tmp_path):
    (tmp_path / "study.toml").write_text(content, encoding="utf-8")
    with pytest.raises(hk.errors.FormatError, match=rf"study.toml: .*{message}"):
        load_study(tmp_path / "study.toml")


def test_a_study_that_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(hk.errors.FormatError, match=r"nothing.toml: cannot be read"):
        load_study(tmp_path / "nothing.toml")


# Running.


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder in which the tiny study was run without a break."""
    folder = tmp_path_factory.mktemp("finished")
    run_study(tiny(), folder)
    return folder


def test_a_folder_has_the_columns_of_the_contract_and_a_row_for_each_test(finished):
    found = rows(finished)
    assert list(found[0]) == CONTRACT
    assert len(found) == 2 * 3 * 2 * 2
    assert {row["policy"] for row in found} == {"softmax", "greedy"}
    assert {row["success"] for row in found} <= {"0", "1"}


def test_a_folder_says_what_was_run_with_which_settings_versions_and_on_what(finished):
    about = json.loads((finished / "study.json").read_text(encoding="utf-8"))
    assert {"hocket", "python", "numpy", "numba", "machine", "cores", "wall_seconds"} <= about.keys()
    assert about["missing"] == 0
    assert len(about["runs"]) == 6
    assert about["runs"][0]["settings"]["discount"] == 0.9
    assert all((finished / run["file"]).exists() for run in about["runs"])
    assert hk.load_task(next((finished / "tasks").glob("*.toml"))).machine == meeting().machine


def test_a_study_gives_the_runs_that_training_gives(finished):
    runs = hk.train(meeting(), "dqprm", 3, 2_000)
    for run in runs:
        [record] = [own for own in load_results(finished).records if (own.learner, own.seed) == ("dqprm", run.seed)]
        for kind in ("softmax", "greedy"):
            step, taken = run.curve(kind)
            assert record.tests[kind].step.tolist() == step.tolist()
            assert record.tests[kind].test_steps.tolist() == taken.tolist()
        policy = load_results(finished).policy(record)
        assert np.array_equal(policy.arrays["q"], run.policy.arrays["q"])


def test_results_do_not_depend_on_the_number_of_threads(finished, tmp_path):
    run_study(tiny(), tmp_path, engine=ThreadEngine(1))
    assert same_apart_from_time(finished, tmp_path)


def test_a_finished_study_is_not_run_again(finished, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in finished.glob("runs/*")}
    updates = []
    run_study(tiny(), finished, watch=updates.append)
    assert {path: path.stat().st_mtime_ns for path in finished.glob("runs/*")} == before
    assert updates == []


def test_what_is_added_is_run_and_nothing_else(finished, tmp_path):
    run_study(tiny(learners=["dqprm"], seeds=2), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*")}
    results = run_study(tiny(), tmp_path)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*")}
    assert len(before) == 2 and len(after) == 6
    assert before.items() <= after.items()
    assert len(results.records) == 6
    assert same_apart_from_time(finished, tmp_path)


def test_another_study_in_the_same_folder_adds_to_it(finished, tmp_path):
    run_study(tiny(learners=["hil"], seeds=1), tmp_path)
    run_study(tiny(learners=["iql"], seeds=1), tmp_path)
    assert {row["learner"] for row in rows(tmp_path)} == {"hil", "iql"}


def test_a_sweep_has_a_column_and_runs_of_its_own(tmp_path):
    results = run_study(tiny(seeds=2, settings={"sync_probability": (0.1, 1.0)}), tmp_path)
    assert len(results.records) == 6
    found = rows(tmp_path)
    assert list(found[0]) == [*CONTRACT, "sync_probability"]
    assert {(row["learner"], row["sync_probability"]) for row in found} == {
        ("dqprm", "0.1"),
        ("dqprm", "1.0"),
        ("iql", ""),
    }


def test_updates_tell_of_all_jobs_and_steps(tmp_path):
    updates = []
    run_study(tiny(), tmp_path, watch=updates.append)
    assert updates[-1].jobs == updates[-1].all_jobs == 6
    assert updates[-1].steps == updates[-1].all_steps == 6 * 2_000 * 2
    assert set(updates[-1].medians) == {f"{meeting().name} dqprm", f"{meeting().name} iql"}
    assert all(a.steps <= b.steps for a, b in pairwise(updates))


def test_a_study_that_is_stopped_keeps_what_is_finished_and_goes_on_later(finished, tmp_path):
    stop, counts = threading.Event(), []

    def watch(update):
        counts.append(update.jobs)
        if update.jobs >= 2:
            stop.set()

    results = run_study(tiny(), tmp_path, engine=OneByOne(1), watch=watch, stop=stop)
    assert 2 <= counts[-1] < 6
    assert (len(results.records), results.about["missing"]) == (counts[-1], 6 - counts[-1])
    run_study(tiny(), tmp_path)
    assert same_apart_from_time(finished, tmp_path)


class Backwards(OneByOne):
    """Gives back the last run of a study first, each by itself."""

    def cut(self, batch):
        return [batch._replace(seeds=[seed]) for seed in batch.seeds]

    def run(self, batches, reporter, stop):
        for batch in sorted(batches, key=lambda own: (own.learner, *own.seeds), reverse=True):
            if not stop.is_set():
                yield from super().run([batch], reporter, threading.Event())


@pytest.mark.parametrize("most", [1, 100])
def test_a_study_that_is_stopped_has_all_runs_that_it_has_kept_in_its_table(finished, tmp_path, monkeypatch, most):
    monkeypatch.setattr(curves, "PIECE", most)  # runs in a piece, between which a wish to stop is heard
    stop = threading.Event()

    def watch(update):
        if update.jobs == 4:
            stop.set()

    results = run_study(tiny(), tmp_path, engine=Backwards(1), watch=watch, stop=stop)
    assert len(results.records) == 4 == len(list(tmp_path.glob("runs/*.json")))
    told = list(dict.fromkeys((row["learner"], int(row["seed"])) for row in rows(tmp_path)))
    ordered = [(record.learner, record.seed) for record in results.records]
    assert sorted(told) == sorted(ordered) and (told == ordered) == (most == 100)  # as they came, if time is short
    run_study(tiny(), tmp_path)
    assert same_apart_from_time(finished, tmp_path)
    assert [path.name for path in tmp_path.glob("*.csv")] == ["curves.csv"] and not list(tmp_path.glob(".*unfinished"))


def test_a_study_that_is_stopped_while_it_lays_out_what_was_there_leaves_it_alone(copied, monkeypatch):
    monkeypatch.setattr(curves, "PIECE", 2)
    before, stop = (copied / "curves.csv").read_bytes(), threading.Event()
    stop.set()
    results = run_study(tiny(seeds=4), copied, stop=stop)
    assert (len(results.records), results.about["missing"]) == (6, 2)
    assert (copied / "curves.csv").read_bytes() == before


def test_a_study_that_is_stopped_while_it_reads_writes_nothing(copied, monkeypatch):
    monkeypatch.setattr(store, "PIECE", 4)
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.is_file()}
    stop = threading.Event()
    stop.set()
    results = run_study(tiny(), copied, stop=stop)
    assert len(results.records) == 4 and not results.is_whole and load_results(copied).is_whole
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*") if path.is_file()} == before


def test_a_wish_to_stop_is_heard_while_policies_are_looked_at(copied, monkeypatch):
    monkeypatch.setattr(policies, "PIECE", 2)
    for path in copied.glob("policies/*.npz"):
        path.write_bytes(b"")
    records, tasks, stop = load_results(copied).records, {meeting().digest: meeting()}, threading.Event()
    assert len(policies.damaged_policies(copied, records, tasks, stop)) == 6
    stop.set()
    assert len(policies.damaged_policies(copied, records, tasks, stop)) == 2


def test_the_columns_of_a_table_do_not_depend_on_which_runs_came_first(tmp_path):
    study = tiny(learners=["iql"], seeds=1) + tiny(learners=["dqprm"], seeds=1, settings={"discount": (0.8, 0.9)})
    study += tiny(learners=["iql"], seeds=1, settings={"temperature": (0.1, 0.2)})
    run_study(study, tmp_path / "whole")
    stop = threading.Event()
    run_study(study, tmp_path / "broken", engine=Backwards(1), watch=lambda own: own.jobs and stop.set(), stop=stop)
    assert list(rows(tmp_path / "broken")[0]) == [*CONTRACT, "temperature", "discount"]
    run_study(study, tmp_path / "broken")
    assert same_apart_from_time(tmp_path / "whole", tmp_path / "broken")


@pytest.fixture
def copied(finished, tmp_path):
    """Copy a finished study, for something to happen to it."""
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def another_seed(path):
    other = next(own for own in sorted(path.parent.iterdir()) if own != path)
    path.write_bytes(other.read_bytes())


def another_shape(path):
    policy = load_policy(path)
    replace(policy, arrays={"q": policy.arrays["q"][:, :1]}).save(path)


def another_setting(path):
    policy = load_policy(path)
    replace(policy, settings={**policy.settings, "temperature": 0}).save(path)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (Path.unlink, "cannot be read"),
        (lambda path: path.write_bytes(b""), "not a policy"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "not a policy"),
        (another_seed, "another run"),
        (another_shape, ""),
        (another_setting, "temperature"),
    ],
)
def test_a_missing_or_damaged_policy_is_noticed_and_made_again(copied, finished, spoil, said):
    path = sorted(copied.glob("policies/*.npz"))[0]
    spoil(path)
    results = run_study(tiny(), copied)
    (problem,) = results.problems
    assert problem.startswith(str(path)) and said in problem and problem.endswith("; its run is made again")
    assert (len(results.records), results.about["missing"]) == (6, 0)
    assert same_apart_from_time(finished, copied)
    assert run_study(tiny(), copied).problems == ()


def test_a_run_whose_policy_is_not_made_again_counts_as_missing(copied):
    sorted(copied.glob("policies/*.npz"))[0].unlink()
    stop = threading.Event()
    stop.set()
    results = run_study(tiny(), copied, stop=stop)
    assert (len(results.records), results.about["missing"]) == (6, 1)


def test_a_failure_of_any_kind_is_raised_when_what_is_finished_is_written_down(tmp_path):
    class Failing(OneByOne):
        def run(self, batches, reporter, stop):
            yield next(super().run(batches, reporter, stop))
            raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        run_study(tiny(), tmp_path, engine=Failing(1))
    results = load_results(tmp_path)
    assert 1 <= len(results.records) < 6 and results.about["missing"] == 6 - len(results.records)
    assert (tmp_path / "curves.csv").exists()


def test_an_error_in_a_job_ends_the_study_and_keeps_what_is_finished(tmp_path):
    study = Study([hk.rendezvous(5)], ["cqrm"], 2, 100) + tiny()
    with pytest.raises(hk.HocketError, match="cqrm would need"):
        run_study(study, tmp_path, engine=ThreadEngine(1))
    results = run_study(tiny(), tmp_path)
    assert len(results.records) == 6


def test_two_studies_cannot_write_to_one_folder(tmp_path):
    open_store(tmp_path)
    with locked(tmp_path / ".lock"), pytest.raises(hk.errors.FormatError, match="another study is at work"):
        run_study(tiny(), tmp_path)


LONG = """
import sys
from hocket.study.engines import ThreadEngine
from hocket.study.running import run_study
from hocket.study.study import Study
from worlds import meeting

study = Study([meeting()], ["iql", "hil"], 12, 60_000)
run_study(study, sys.argv[1], engine=ThreadEngine(1), watch=lambda update: print(update.jobs, flush=True))
"""


def test_a_clock_that_jumps_does_not_change_results(tmp_path, monkeypatch):
    study = Study([meeting()], ["dqprm", "sweep", "iql"], 2, 2_000, {"test_every": 500})
    run_study(study, tmp_path / "steady")
    jumps = Random(0)
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: jumps.uniform(-1e9, 1e9))
    run_study(study, tmp_path / "jumping")
    monkeypatch.undo()
    assert same_apart_from_time(tmp_path / "steady", tmp_path / "jumping")


def test_a_killed_study_ends_with_the_same_numbers_as_an_uninterrupted_one(tmp_path):
    for learner in ("iql", "hil"):
        compile_kernels(learner)
    unbroken, killed = tmp_path / "unbroken", tmp_path / "killed"
    study = Study([meeting()], ["iql", "hil"], 12, 60_000)
    run_study(study, unbroken)
    command = [sys.executable, "-c", LONG, str(killed)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert any(int(line) >= 2 for line in process.stdout)  # waits for it
        process.send_signal(signal.SIGKILL)
    before = {path.name: path.read_bytes() for path in killed.glob("runs/*.json")}
    assert 1 <= len(before) < 24
    assert not (killed / "curves.csv").exists()
    results = run_study(study, killed)
    assert results.problems == ()
    assert {name: (killed / "runs" / name).read_bytes() for name in before} == before
    assert same_apart_from_time(unbroken, killed)


def test_runs_that_training_returned_are_saved_as_a_study_would(finished, tmp_path):
    for learner in ("dqprm", "iql"):
        save_runs(meeting(), hk.train(meeting(), learner, 3, 2_000), tmp_path)
    assert same_apart_from_time(finished, tmp_path)
