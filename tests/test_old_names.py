"""Old names that go on working: arguments of functions, settings, and the settings of runs in older folders."""

import json
import zipfile

import numpy as np
import pytest

import hocket as hk
from hocket.study.policies import find_policies
from worlds import corridor

BRIEF = {"test_every": 20, "max_episode_steps": 7}
OLD = {"test_every": 20, "episode_steps": 7}


def brief(task="rendezvous-2", **about):
    return hk.train(task, "dqprm", seeds=2, steps=40, threads=1, **about)


def test_old_arguments_of_train_warn_and_do_the_same():
    runs = brief(settings=BRIEF, keep_policies=1)
    with pytest.warns(DeprecationWarning, match="is deprecated") as said:
        old = brief(changes=BRIEF, policies=1)
    assert {str(warning.message) for warning in said} == {
        "train(changes=) is deprecated: use train(settings=)",
        "train(policies=) is deprecated: use train(keep_policies=)"
    }  # fmt: skip
    assert [run.settings for run in old] == [run.settings for run in runs]
    assert [run.curve()[1].tolist() for run in old] == [run.curve()[1].tolist() for run in runs]
    assert [bool(run.policy.arrays) for run in old] == [True, False]
    with pytest.warns(DeprecationWarning, match="use Run.all_tests"):
        assert old[0].trials is old[0].all_tests


@pytest.mark.parametrize(
    "make",
    [
        lambda **about: hk.gym.individual_env("buttons", "A1", **about),
        lambda **about: hk.gym.individual_vector_env("buttons", "A1", 2, **about),
        lambda **about: hk.gym.team_env("buttons", **about),
        lambda **about: hk.gym.team_vector_env("buttons", 2, **about),
    ],
)
def test_environments_take_the_old_name_of_their_step_limit(make):
    with pytest.warns(DeprecationWarning, match=r"\(episode_steps=\) is deprecated: use \w+\(max_episode_steps=\)"):
        env = make(episode_steps=5)
    assert getattr(env, "unwrapped", env).max_episode_steps == 5


def test_settings_by_name_are_those_of_the_paper():
    (run, _) = brief(settings="paper")
    assert run.settings.wait_for_team and run.settings.max_episode_steps == 1_000
    with pytest.raises(hk.HocketError, match=r"settings 'papr' do not exist \(did you mean 'paper'\?\)"):
        brief(settings="papr")


# Older folders.


def make_older(folder):
    """Write the runs of a folder as they were written when the setting had its old name."""
    for path in folder.glob("runs/*.json"):
        record = json.loads(path.read_text())
        record["settings"] = {old_name(name): value for name, value in record["settings"].items()}
        path.write_text(json.dumps(record))
    for path in folder.glob("policies/*.npz"):
        with np.load(path) as policy:
            arrays = dict(policy)
        about = json.loads(arrays["about"].tobytes())
        about["settings"] = {old_name(name): value for name, value in about["settings"].items()}
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as file:
                    np.lib.format.write_array(file, array)


def old_name(name):
    return "episode_steps" if name == "max_episode_steps" else name


def test_runs_of_an_older_folder_are_read_and_not_made_again(tmp_path):
    study = hk.Study([corridor(3)], ["dqprm", "iql"], 2, 40, BRIEF)
    first = hk.run_study(study, tmp_path)
    make_older(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*.*")}
    updates = []
    with pytest.warns(DeprecationWarning, match="the setting episode_steps is deprecated: use max_episode_steps"):
        older = hk.Study(corridor(3), ["dqprm", "iql"], 2, 40, OLD)
    again = hk.run_study(older, tmp_path, watch=updates.append)
    assert not again.problems and not updates  # nothing was left to do
    assert [record.key for record in again.records] == [record.key for record in first.records]
    assert [record.settings for record in again.records] == [record.settings for record in first.records]
    assert before == {path: path.read_bytes() for path in tmp_path.glob("*/*.*")}
    found = find_policies(tmp_path, corridor(3))
    assert len(found.of_task) == 4 and not found.problems
    assert len(hk.evaluate(corridor(3), found.of_task, episodes=2)) == 4


def test_the_key_of_a_run_is_the_one_that_it_always_had():
    record = hk.Record("t", "d", "dqprm", 3, 40, {"max_episode_steps": 7, "discount": 0.9}, {})
    assert record.key == "6037776e3f2bd2f41d4110210da867d7537ca482296c9285711d95605f2dd11c"


def test_the_old_name_of_the_lower_bound_on_steps_warns_and_gives_it():
    verdict = hk.check_task("buttons", play=False)
    with pytest.warns(DeprecationWarning, match="use steps_lower_bound"):
        assert verdict.fewest_steps == verdict.steps_lower_bound > 0
