"""Names and paths are accepted wherever a task or a folder of runs is, and other values are refused in a sentence."""

import pytest

import hocket as hk
from worlds import meeting

BRIEF = {"test_every": 20, "max_episode_steps": 7}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Train a task that is a file, and keep the runs."""
    place = tmp_path_factory.mktemp("runs")
    hk.save_task(meeting(), place / "meeting.toml")
    hk.run_study(hk.Study(place / "meeting.toml", "dqprm", 2, 40, BRIEF), place / "x")
    return place


def test_a_path_is_taken_for_the_task_and_the_folder_that_it_names(folder):
    task, runs = str(folder / "meeting.toml"), str(folder / "x")
    policies = hk.load_policies(runs, task)
    assert [policy.seed for policy in policies] == [0, 1]
    expected = hk.evaluate(hk.load_task(task), policies, episodes=3)
    assert hk.evaluate(task, runs, episodes=3) == expected
    assert hk.evaluate_exact(task, policies[0]) == hk.evaluate_exact(hk.load_task(task), policies[0])
    assert [run.seed for run in hk.train(task, "dqprm", 2, 40, BRIEF)] == [0, 1]
    assert hk.check_task(task).ok
    assert hk.TeamEpisode(task).cells == hk.TeamEpisode(hk.load_task(task)).cells
    assert hk.IndividualEpisode(task, "A1").cell == hk.IndividualEpisode(hk.load_task(task), "A1").cell
    [section] = hk.summarize(runs).sections
    assert section.groups[0].learner == "dqprm"
    hk.draw_task(task, folder / "task.svg")
    assert (folder / "task.svg").stat().st_size > 0


def test_a_study_is_run_by_the_name_of_its_file(folder, tmp_path):
    (folder / "study.toml").write_text(
        'tasks = ["meeting.toml"]\nlearners = ["dqprm"]\nseeds = 1\nsteps = 40\nsettings = { test_every = 20 }\n'
    )
    assert [record.seed for record in hk.run_study(str(folder / "study.toml"), tmp_path / "x").records] == [0]


@pytest.mark.parametrize(
    "use",
    [
        lambda: hk.train(3),
        lambda: hk.train("buttons", learner=["dqprm"]),
        lambda: hk.train("buttons", settings=3),
        lambda: hk.train("buttons", settings={3: 4}),
        lambda: hk.train("buttons", threads="two"),
        lambda: hk.train("buttons", threads=0),
        lambda: hk.run_study(3, "x"),
        lambda: hk.check_task(None),
        lambda: hk.evaluate(3, []),
        lambda: hk.evaluate("buttons", 3),
        lambda: hk.evaluate("buttons", ["dqprm"]),
        lambda: hk.evaluate_exact("buttons", "policy"),
        lambda: hk.summarize(3),
        lambda: hk.summarize([3]),
        lambda: hk.Study(3),
        lambda: hk.Study("buttons", settings=3),
        lambda: hk.Study("buttons", learners=3),
        lambda: hk.draw_task(3, "x.svg"),
        lambda: hk.gym.team_env(3),
        lambda: hk.load_task(3),
        lambda: hk.TeamEpisode(3),
        lambda: hk.IndividualEpisode("buttons", "A4"),
        lambda: hk.project("buttons", {"Y"}),
        lambda: hk.compose(meeting()),
        lambda: hk.minimize(None),
        lambda: hk.distinguish(meeting().machine, meeting()),
        lambda: hk.decompose(meeting(), {"A1": {"a"}}),
        lambda: hk.repair(meeting(), {"A1": {"a"}}),
        lambda: hk.check_machine(meeting()),
        lambda: hk.to_networkx(3),
        lambda: hk.to_aalpy(3),
    ],
)
def test_a_value_of_a_wrong_kind_is_an_error_in_one_sentence(use):
    with pytest.raises(hk.HocketError) as refused:
        use()
    assert "\n" not in str(refused.value)
