"""Trained policies in one's own loop."""

import json
import re

import numpy as np
import pytest

import hocket as hk
from hocket.errors import FormatError, SettingsError, TaskError
from hocket.learn.catalogue import find_learner
from hocket.learn.policies import Policy
from hocket.learn.testing import recording
from hocket.task.tables import compile_task

TASK = hk.load_task("buttons")
KINDS = ("onehot", "index", "dict")


@pytest.fixture(scope="module")
def runs() -> list[hk.Run]:
    return hk.train(TASK, learner="dqprm", seeds=2, steps=3_000, threads=1)


@pytest.fixture(scope="module")
def folder(runs, tmp_path_factory):
    where = tmp_path_factory.mktemp("runs")
    hk.save_runs(TASK, runs, where)
    return where


@pytest.mark.parametrize("greedy", [True, False])
def test_actors_play_the_episodes_that_tests_play(runs, greedy):
    policy = runs[0].policy
    settings, tables = runs[0].settings, compile_task(TASK)
    player = find_learner("dqprm").player(tables, settings.temperature, 60)
    env = hk.gym.team_env(TASK, max_episode_steps=60)
    for seed in range(5):
        record = recording(60, len(TASK.agents))
        steps = player.play(policy.arrays, seed, 0, greedy, record)
        actors = {agent: policy.actor(agent, greedy=greedy, seed=seed) for agent in TASK.agents}
        played = hk.gym.play_episode(env, actors, seed=seed)
        assert played.steps == (steps if steps >= 0 else 60)
        assert np.array_equal(played.cells[1:], record.cell[: played.steps])


@pytest.mark.parametrize("greedy", [True, False])
def test_an_environment_and_a_task_give_a_policy_the_same_evaluation(runs, greedy):
    env = hk.gym.team_env(TASK, max_episode_steps=runs[0].settings.max_episode_steps)
    in_env = hk.evaluate(env, runs, 3, greedy=greedy, seed=4)
    assert in_env == hk.evaluate(TASK, runs, 3, greedy=greedy, seed=4)
    assert in_env[1:] == hk.evaluate(env, runs[1].policy, 3, greedy=greedy, seed=4)


def test_a_policy_plays_for_all_agents_and_in_the_next_episode_draws_on(runs):
    policy, env = runs[0].policy, hk.gym.team_env(TASK, max_episode_steps=100)
    first, second = (hk.gym.play_episode(env, policy, seed) for seed in (3, None))
    actors = {agent: policy.actor(agent, greedy=False, seed=3) for agent in TASK.agents}
    assert np.array_equal(first.cells, hk.gym.play_episode(env, actors, seed=3).cells)
    for actor in actors.values():
        actor.restart(3, episode=1)
    assert np.array_equal(second.cells, hk.gym.play_episode(env, actors).cells)
    summary = hk.gym.play_tests(env, policy, 2, greedy=False, seed=3)
    assert summary.successes == first.success + second.success


@pytest.mark.parametrize("kind", KINDS)
def test_an_actor_takes_every_kind_of_observation_and_plain_names(runs, kind):
    env = hk.gym.individual_env(TASK, "A2", observation=kind)
    actor = runs[0].policy.actor("A2", seed=9)
    q = runs[0].policy.arrays["q"][list(TASK.agents).index("A2")]
    rng = np.random.default_rng(0)
    names = list(env.machine.states)
    for cell, state in zip(rng.integers(TASK.grid.cells, size=40), rng.integers(len(names), size=40), strict=True):
        seen, name = env.encoder.encode(int(cell), int(state)), names[state]
        assert np.array_equal(actor.q(seen), q[cell, :, state])
        for pair in ((cell, name), (TASK.grid.row_column(int(cell)), name)):
            assert np.array_equal(actor.q(pair), q[cell, :, state])
        chosen = actor(seen)
        assert actor.q(seen)[chosen] == actor.q(seen).max()
        assert env.action_space.contains(chosen)
    assert actor.actions == ("up", "right", "down", "left", "stay")


def test_softmax_chooses_with_the_chances_of_the_temperature(runs):
    q = np.zeros_like(runs[0].policy.arrays["q"])
    q[:, :, 1] = 0.5
    temperature = 0.3
    policy = Policy(TASK.name, TASK.digest, "dqprm", 0, {"temperature": temperature}, {"q": q}, TASK)
    actor = policy.actor("A1", greedy=False, seed=2)
    counts = np.bincount([actor((0, TASK.machines["A1"].initial)) for _ in range(20_000)], minlength=5)
    weights = np.exp(np.array([0, 0.5, 0, 0, 0]) / temperature)
    assert np.allclose(counts / counts.sum(), weights / weights.sum(), atol=0.02)


def test_a_folder_knows_the_task_of_its_policies(folder, runs):
    policies = hk.load_policies(folder)
    assert [policy.seed for policy in policies] == [0, 1]
    seen = hk.gym.team_env(TASK).reset(seed=0)[0]["A1"]
    assert np.array_equal(policies[0].actor("A1").q(seen), runs[0].policy.actor("A1").q(seen))


def test_a_folder_of_several_tasks_asks_which(folder, tmp_path):
    meeting = hk.rendezvous(agents=2, rows=3, columns=3)
    for task in (meeting, TASK):
        hk.save_runs(task, hk.train(task, learner="optimal", seeds=1), tmp_path)
    with pytest.raises(FormatError, match=f"has policies of 2 tasks: say which, {re.escape(TASK.name)}"):
        hk.load_policies(tmp_path)
    for path in (tmp_path / "tasks").glob("*.toml"):
        path.unlink()
    for path in (tmp_path / "policies").glob("*buttons*"):
        path.unlink()
    with pytest.raises(FormatError, match=r"does not hold the task .* itself"):
        hk.load_policies(tmp_path)
    with pytest.raises(FormatError, match="has no policies in it"):
        hk.load_policies(tmp_path / "tasks")
    with pytest.raises(FormatError, match="is not a folder of runs"):
        hk.load_policies(tmp_path / "nowhere")


def test_the_task_of_a_policy_is_not_part_of_its_file(runs, tmp_path):
    policy = runs[0].policy
    policy.save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as stored:
        about = json.loads(stored["about"].tobytes())
    assert {*about} == {"task", "digest", "learner", "seed", "settings", "version"}


@pytest.mark.parametrize(
    "observation",
    [
        -1,
        10**9,
        "up",
        None,
        1.5,
        (0, "u0", 1),
        (-1, "initial"),
        ((0, 99), "initial"),
        {"world": 0},
        np.zeros(7),
        [0, 1],
    ],
    ids=str,
)
def test_what_is_no_observation_is_refused(runs, observation):
    if isinstance(observation, tuple) and len(observation) == 2:
        observation = (observation[0], TASK.machines["A1"].initial)
    with pytest.raises(TaskError, match=r"an observation of A1 in this task .* or a pair \(cell, state name\)"):
        runs[0].policy.actor("A1")(observation)


def test_a_state_or_an_agent_that_does_not_exist_is_named(runs):
    with pytest.raises(TaskError, match="state 'nowhere' does not exist in the machine of A1"):
        runs[0].policy.actor("A1")((0, "nowhere"))
    with pytest.raises(TaskError, match=r"agent 'A11' does not exist .did you mean 'A1'"):
        runs[0].policy.actor("A11")


def test_a_policy_that_looks_at_something_else_says_so():
    (run,) = hk.train(TASK, learner="iql", seeds=1, steps=500, threads=1)
    with pytest.raises(SettingsError, match="a policy of iql depends on the agent's memory"):
        run.policy.actor("A1")


def test_a_policy_without_its_task_or_of_another_one_is_refused(runs):
    alone = Policy(**{**vars(runs[0].policy), "definition": None})
    with pytest.raises(SettingsError, match="does not know its task"):
        alone.actor("A1")
    assert hk.gym.play_episode(hk.gym.team_env(TASK, max_episode_steps=3), alone, 0).steps == 3
    other = hk.gym.team_env(hk.rendezvous(agents=2, rows=3, columns=3))
    with pytest.raises(FormatError, match="belongs to another task"):
        hk.gym.play_episode(other, runs[0].policy)
