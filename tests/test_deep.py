"""Deep learners on hocket's tasks: known optima, networks as arrays, and the script that trains a team in the plane."""

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import DQN, SAC

import hocket as hk
from hocket.adapters.policies import play_episode
from hocket.learn.policies import load_policy
from worlds import gatehouse

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

import deep_rendezvous
from plane_tasks import individual_in_plane, plane_from_task, team_in_plane

pytestmark = pytest.mark.deep


def dqn(env, seed=0, **options):
    options = {"learning_starts": 100, "exploration_fraction": 0.5, "learning_rate": 2e-3, "train_freq": 2} | options
    return DQN(
        "MlpPolicy",
        env,
        replay_buffer_class=hk.deep.CounterfactualReplayBuffer,
        buffer_size=20_000,
        batch_size=64,
        gamma=0.9,
        tau=0.05,
        target_update_interval=1,
        policy_kwargs={"net_arch": [32]},
        seed=seed,
        device="cpu",
        **options,
    )


# Known optima.


@pytest.fixture(scope="module")
def gatekeepers():
    """Train both agents of the gatehouse, each alone."""
    task = gatehouse()
    return {agent: dqn(hk.gym.individual_env(task, agent, max_episode_steps=30)).learn(1_600) for agent in task.agents}


def test_agents_that_train_alone_with_dqn_need_the_fewest_steps_together(gatekeepers):
    played = play_episode(hk.gym.team_env(gatehouse()), gatekeepers, seed=0, greedy=True)
    assert played.success and played.steps == 7


def test_what_dqn_takes_a_state_for_worth_is_what_it_is_worth(gatekeepers):
    model = gatekeepers["A2"]  # which presses a button four steps away
    seen = hk.gym.individual_env(gatehouse(), "A2").reset(seed=0)[0]
    with torch.no_grad():
        worth = model.q_net(torch.as_tensor(seen)[None]).max().item()
    assert worth == pytest.approx(0.9**3, abs=0.03)


# Networks as arrays.


def in_plane(learner=DQN, **options):
    task = hk.rendezvous(2)
    plane = plane_from_task(task, directions=8 if learner is DQN else None)
    env = individual_in_plane(task, plane, "A1")
    return learner("MlpPolicy", env, buffer_size=10, device="cpu", **options)


@pytest.mark.parametrize("learner", [DQN, SAC])
def test_a_network_that_is_kept_and_put_back_acts_the_same(tmp_path, learner):
    first, second = in_plane(learner, seed=1), in_plane(learner, seed=2)
    seen = [first.observation_space.sample() for _ in range(50)]

    def acts(model):
        return [np.asarray(model.predict(own, deterministic=True)[0]).tolist() for own in seen]

    assert acts(first) != acts(second)
    arrays = hk.deep.join_weights({"A1": hk.deep.get_weights(first), "A11": hk.deep.get_weights(second)})
    hk.Policy("plane", "digest", "dqn", 0, {}, arrays).save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz", "digest")
    hk.deep.set_weights(second, hk.deep.split_weights(loaded.arrays, "A1"))
    assert acts(first) == acts(second)


def test_kept_weights_do_not_change_while_the_model_goes_on_learning():
    model = in_plane(policy_kwargs={"net_arch": [8]}, learning_starts=5, train_freq=1)
    kept = hk.deep.get_weights(model)
    before = {name: value.copy() for name, value in kept.items()}
    model.learn(20)
    assert all(np.array_equal(kept[name], before[name]) for name in before)
    assert not all(np.array_equal(kept[name], value) for name, value in hk.deep.get_weights(model).items())


def test_weights_that_do_not_fit_a_model_are_refused_and_leave_it_as_it_was():
    model = in_plane(policy_kwargs={"net_arch": [8]})
    own = hk.deep.get_weights(model)
    name = next(iter(own))
    wrong = [
        ({**own, "q_nut": own[name]}, "parameter 'q_nut' does not exist in this model"),
        ({other: value for other, value in own.items() if other != name}, f"parameter '{name}' of this model is miss"),
        ({**own, name: own[name][:1]}, r"must have the shape \(8, 6\) in this model, got \(1, 6\)"),
    ]
    for weights, message in wrong:
        with pytest.raises(hk.errors.FormatError, match=message):
            hk.deep.set_weights(model, {key: value + 1 for key, value in weights.items()})
    with pytest.raises(hk.errors.FormatError, match="has no parameters of 'A3'"):
        hk.deep.split_weights(hk.deep.join_weights({"A1": own}), "A3")
    assert all(np.array_equal(own[key], value) for key, value in hk.deep.get_weights(model).items())


# The script.

TINY = deep_rendezvous.Options(
    steps=60, seeds=1, test_every=20, episodes=3, processes=1, random_steps=20, max_episode_steps=25, width=8
)


def test_an_agents_environment_is_the_same_in_teams_of_two_and_of_three():
    runs = []
    for agents in (2, 3):
        task = hk.rendezvous(agents)
        env = individual_in_plane(task, plane_from_task(task), "A2")
        random = np.random.default_rng(0)
        seen, _ = env.reset(seed=5)
        runs.append([seen.tolist()])
        for _ in range(80):
            seen, reward, *_ = env.step(random.uniform(-0.2, 1, 2).astype(np.float32))
            runs[-1].append((seen.tolist(), reward))
    assert runs[0] == runs[1]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Let the script run once, and keep what it writes."""
    options = replace(TINY, out=tmp_path_factory.mktemp("deep") / "runs")
    return options, deep_rendezvous.run(options)


def test_the_script_trains_every_team_with_and_without_counterfactuals(finished):
    assert [(own.task, own.learner, own.seed) for own in finished[1]] == [
        (f"rendezvous-{size}-plane", learner, 0) for size in (2, 3) for learner in ("dqn+counterfactuals", "dqn")
    ]


def test_the_script_keeps_curves_and_episodes_that_a_report_can_show(finished):
    options, _ = finished
    with (options.out / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 3
    assert list(rows[0]) == ["task", "learner", "seed", "step", "policy", "test_steps", "success"]
    results = hk.load_results(options.out)
    assert results.problems == () and len(results.records) == 4
    summary = hk.summarize(results)
    assert [section.title for section in summary.sections] == ["rendezvous-2-plane", "rendezvous-3-plane"]
    for section, size in zip(summary.sections, (2, 3), strict=True):
        assert section.scene is not None and len(section.scene.areas) == size + 1
        assert all(shape.is_disc for area in section.scene.areas for shape in area.shapes)
        assert [group.label for group in section.groups] == ["dqn+counterfactuals", "dqn"]
        for group in section.groups:
            assert group.curves["greedy"].step.tolist() == [20, 40, 60]
            assert group.replays[0, "greedy"].points.shape[1:] == (size, 2)
            assert np.abs(group.replays[0, "greedy"].points - 5).max() <= 5


def test_what_the_script_keeps_is_what_the_team_has_learnt(finished):
    options, records = finished
    policy = hk.load_results(options.out).policy(records[0])
    task, plane = options.world("rendezvous-2")
    models = {}
    for agent in task.agents:
        models[agent] = deep_rendezvous.learner(deep_rendezvous.Job(options, "rendezvous-2", agent, True, 7))
        hk.deep.set_weights(models[agent], hk.deep.split_weights(policy.arrays, agent))
    team = team_in_plane(task, plane)
    played = hk.gym.play_episode(team, models, 2 * deep_rendezvous.TEST_SEED, greedy=True)
    np.testing.assert_allclose(played.points, records[0].test_summary.replays["greedy"].points)


def test_the_same_seed_learns_the_same_and_counterfactuals_make_a_difference():
    jobs = [deep_rendezvous.Job(TINY, "buttons", "A2", own, 0) for own in (True, True, False)]
    one, two, plain = (deep_rendezvous.train(job).weights[-1] for job in jobs)
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert not all(np.array_equal(one[name], plain[name]) for name in one)
