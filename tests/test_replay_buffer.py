"""The replay buffers with counterfactual experience, held against a list that is filled by hand."""

from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import gymnasium as gym
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import hocket as hk
from hocket.adapters.observations import Counterfactuals
from hocket.errors import SettingsError

pytestmark = pytest.mark.deep

STATES = 3  # of the machine below, and one more that is final
LENGTH = 7  # steps of an episode at most
BUFFERS = {  # by whether observations are dictionaries: ours, and a plain one
    False: (hk.deep.CounterfactualReplayBuffer, ReplayBuffer),
    True: (hk.deep.CounterfactualDictReplayBuffer, DictReplayBuffer),
}


class Step(NamedTuple):
    """A transition as a list of numbers."""

    observation: tuple[float, ...]
    action: tuple[float, ...]
    reward: float
    next_observation: tuple[float, ...]
    terminal: bool


class Line(gym.Env):
    """A walk on a line, with a machine that counts visits beyond a mark and is final after STATES of them.

    A machine state has a counterfactual only where the position is above a bound of its own, so that their number
    changes from step to step.
    """

    def __init__(self, action_space, as_dict=False, length=LENGTH):
        self.action_space, self.as_dict, self.length = action_space, as_dict, length
        parts = {"world": spaces.Box(-9, 9, (2,), np.float32), "machine": spaces.Discrete(STATES + 1)}
        self.observation_space = spaces.Dict(parts) if as_dict else spaces.Box(-9, 9, (3,), np.float32)
        self.transitions: list[list[Step]] = []  # of each step, the real one first

    def observe(self, position, state):
        if self.as_dict:
            return {"world": np.array([position, -position], np.float32), "machine": np.int64(state)}
        return np.array([position, -position, state], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.state, self.position = 0, 0, 0.0
        return self.observe(0.0, 0), {}

    def step(self, action):
        before, self.time = self.position, self.time + 1
        self.position = float(np.float32(np.clip(before + self.np_random.normal(), -8, 8)))
        moves = [(state, state + (self.position > 0)) for state in range(STATES)]
        real = moves[self.state]
        others = [move for move in moves if move != real and self.position > move[0] - 1.5]
        self.state = real[1]
        chosen = tuple(np.ravel(action).tolist())
        told = [
            Step(flat(before, u), chosen, reward(u, v), flat(self.position, v), v == STATES) for u, v in [real, *others]
        ]
        self.transitions.append(told)
        info = {}
        if others:
            info["counterfactuals"] = Counterfactuals(
                stacked([self.observe(before, u) for u, _ in others]),
                np.array([reward(u, v) for u, v in others]),
                stacked([self.observe(self.position, v) for _, v in others]),
                np.array([v == STATES for _, v in others]),
                np.array([u for u, _ in others]),
                np.array([v for _, v in others]),
            )
        seen = self.observe(self.position, self.state)
        return seen, reward(*real), self.state == STATES, self.time >= self.length, info


class Silent(Line):
    """The same without counterfactuals."""

    def step(self, action):
        return (*super().step(action)[:4], {})


def reward(state, target):
    return float(target == STATES) + target / 8  # exact in single precision


def flat(position, state):
    return (position, -position, float(state))


def stacked(rows):
    if isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return np.stack(rows)


def kept(buffer) -> list[Step]:
    """List what a buffer holds, in the order of its rows, as a learner gets it."""
    drawn = buffer._get_samples(np.arange(buffer.size()))

    def rows(observations):
        if isinstance(observations, dict):
            return np.concatenate([observations["world"].numpy(), observations["machine"].numpy()], axis=1)
        return observations.numpy()

    return [
        Step(tuple(o), tuple(a), float(r), tuple(n), bool(d))
        for o, a, r, n, d in zip(
            rows(drawn.observations).tolist(),
            drawn.actions.numpy().tolist(),
            drawn.rewards.numpy()[:, 0].tolist(),
            rows(drawn.next_observations).tolist(),
            drawn.dones.numpy()[:, 0].tolist(),
            strict=True,
        )
    ]


def learner(algorithm, env, **options):
    policy = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    return algorithm(policy, env, device="cpu", seed=3, policy_kwargs={"net_arch": [8]}, **options)


def walked(lines, buffer_class, steps=60, buffer_size=5_000):
    """Let a learner that does not yet learn walk on some lines, and give its buffer."""
    vectorised = DummyVecEnv([lambda own=own: own for own in lines])
    options = {"buffer_size": buffer_size, "learning_starts": 10**6, "replay_buffer_class": buffer_class}
    model = learner(DQN, vectorised, **options)
    model.learn(steps)
    return model.replay_buffer


DISCRETE = spaces.Discrete(4)
PLANE = spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize("as_dict", [False, True], ids=["arrays", "dictionaries"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_buffer_holds_every_real_and_every_counterfactual_transition_in_order(as_dict, count):
    lines = [Line(DISCRETE, as_dict) for _ in range(count)]
    buffer = walked(lines, BUFFERS[as_dict][0])
    expected = []
    for together in zip(*(line.transitions for line in lines), strict=True):
        expected += [told[0] for told in together]
        expected += [step for told in together for step in told[1:]]
    assert kept(buffer) == expected
    numbers = {len(told) for line in lines for told in line.transitions}
    assert numbers == {1, 2, 3}  # so that a fixed number of rows would have been wrong


def test_running_out_of_time_ends_neither_the_real_nor_a_counterfactual_experience():
    line = Line(DISCRETE, length=2)
    buffer = walked([line], hk.deep.CounterfactualReplayBuffer)
    cut = [told for told in line.transitions[1::2] if not told[0].terminal]
    assert cut  # episodes that time cut short
    assert kept(buffer) == [step for told in line.transitions for step in told]
    assert buffer.timeouts.sum() == sum(not step.terminal for told in cut for step in told)


def test_without_time_limits_of_their_own_kind_all_experiences_of_a_last_step_are_ends():
    line = Line(DISCRETE, length=1)
    vectorised = DummyVecEnv([lambda: line])
    options = {"replay_buffer_kwargs": {"handle_timeout_termination": False}, "learning_starts": 10**6}
    model = learner(DQN, vectorised, replay_buffer_class=hk.deep.CounterfactualReplayBuffer, buffer_size=900, **options)
    model.learn(20)
    assert len(kept(model.replay_buffer)) > 20
    assert all(step.terminal for step in kept(model.replay_buffer))


def test_a_full_buffer_holds_the_latest_transitions():
    line = Line(DISCRETE)
    buffer = walked([line], hk.deep.CounterfactualReplayBuffer, buffer_size=25)
    everything = [step for told in line.transitions for step in told]
    assert buffer.full and buffer.size() == 25 and len(everything) > 25
    place = len(everything) % 25
    assert kept(buffer) == everything[len(everything) - place :] + everything[-25 : len(everything) - place]


@pytest.mark.parametrize("as_dict", [False, True], ids=["arrays", "dictionaries"])
def test_without_counterfactuals_a_buffer_equals_a_plain_one(as_dict):
    ours, plain = (walked([Silent(DISCRETE, as_dict)], own, buffer_size=40) for own in BUFFERS[as_dict])
    assert (ours.pos, ours.full, ours.size()) == (plain.pos, plain.full, plain.size())
    for name in ("actions", "rewards", "dones", "timeouts"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(plain, name))
    assert kept(ours) == kept(plain)


def test_without_counterfactuals_a_learner_learns_the_same_as_with_a_plain_buffer():
    weights = []
    for own in BUFFERS[False]:
        model = learner(SAC, Silent(PLANE), learning_starts=20, buffer_size=500, replay_buffer_class=own)
        weights.append(torch.nn.utils.parameters_to_vector(model.learn(60).policy.parameters()))
    assert torch.equal(*weights)


@pytest.mark.parametrize("as_dict", [False, True], ids=["arrays", "dictionaries"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("algorithm", "actions"), [(DQN, DISCRETE), (SAC, PLANE), (TD3, PLANE)])
def test_off_policy_learners_learn_from_it(algorithm, actions, count, as_dict):
    vectorised = DummyVecEnv([lambda: Line(actions, as_dict)] * count)
    options = {"learning_starts": 20, "batch_size": 16, "buffer_size": 100, "replay_buffer_class": BUFFERS[as_dict][0]}
    model = learner(algorithm, vectorised, **options)
    before = torch.nn.utils.parameters_to_vector(model.policy.parameters()).clone()
    model.learn(80)
    after = torch.nn.utils.parameters_to_vector(model.policy.parameters())
    assert model.replay_buffer.full
    assert torch.isfinite(after).all() and not torch.equal(before, after)


def test_normalised_environments_store_what_was_seen_and_normalise_what_is_drawn():
    line = Line(PLANE)
    normalized = VecNormalize(DummyVecEnv([lambda: line]), clip_obs=1e9, clip_reward=1e9)
    options = {"learning_starts": 10**6, "buffer_size": 500, "replay_buffer_class": hk.deep.CounterfactualReplayBuffer}
    model = learner(SAC, normalized, **options)
    model.learn(40)
    told = [step for each in line.transitions for step in each]
    stored = model.replay_buffer.observations[: len(told), 0]
    np.testing.assert_array_equal(stored, np.array([step.observation for step in told], np.float32))
    drawn = model.replay_buffer._get_samples(np.arange(len(told)), env=normalized)
    np.testing.assert_allclose(drawn.observations.numpy(), normalized.normalize_obs(stored), rtol=1e-5)
    rewards = normalized.normalize_reward(np.array([step.reward for step in told]))
    np.testing.assert_allclose(drawn.rewards.numpy()[:, 0], rewards, rtol=1e-5)


def test_saving_memory_by_shared_rows_is_refused():
    with pytest.raises(SettingsError, match="optimize_memory_usage must be False"):
        hk.deep.CounterfactualReplayBuffer(
            10, PLANE, PLANE, optimize_memory_usage=True, handle_timeout_termination=False
        )


def test_an_array_buffer_refuses_dictionaries_and_names_the_one_for_them():
    with pytest.raises(SettingsError, match="use a CounterfactualDictReplayBuffer"):
        hk.deep.CounterfactualReplayBuffer(10, spaces.Dict({"world": PLANE}), PLANE)


def test_counterfactuals_that_a_wrapper_has_left_behind_are_refused():
    class Longer(gym.ObservationWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.observation_space = spaces.Box(-9, 9, (4,), np.float32)

        def observation(self, seen):
            return np.append(seen, np.float32(0))

    model = learner(SAC, Longer(Line(PLANE)), replay_buffer_class=hk.deep.CounterfactualReplayBuffer, buffer_size=100)
    with pytest.raises(SettingsError, match=r"shape \(\d, 4\) in this buffer, got \(\d, 3\) \(a wrapper"):
        model.learn(20)
