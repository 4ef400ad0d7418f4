"""Worlds that do not keep to what they promise: each is named in a sentence, and nothing of it is passed on."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

import hocket as hk

MACHINE = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
BOX = spaces.Box(0, 1, (3,), np.float32)
PAIR = spaces.Dict(near=spaces.Discrete(2), far=BOX)


class Pair(ParallelEnv):
    """Two agents that are shown what the world is told to show, and get what it is told to give."""

    def __init__(self, space, shown, at_reset=None, in_step=None):
        self.metadata, self.possible_agents = {"name": "pair"}, ["x", "y"]
        self.space, self.shown, self.at_reset, self.in_step = space, shown, at_reset, in_step

    def observation_space(self, agent):
        return self.space

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        good = dict.fromkeys(self.agents, self.space.sample()), {}
        return good if self.at_reset is None else self.at_reset

    def step(self, actions):
        no = dict.fromkeys(self.agents, False)
        infos = {agent: {} for agent in self.agents}
        good = dict.fromkeys(self.agents, self.shown), dict.fromkeys(self.agents, 0.0), no, no, infos
        return good if self.in_step is None else self.in_step


class Alone(gymnasium.Env):
    """One agent, and a step that is told beforehand."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, step):
        self.observation_space, self.given = space, step

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.given


def wrap(world, kind="dict"):
    knows = {"x": {"a", "b"}, "y": {"a", "b"}}
    return hk.gym.wrap(world, machine=MACHINE, knows=knows, label=lambda step: None, observation=kind)


WRONG = [
    (spaces.Discrete(3), 4, "dict"),
    (spaces.Discrete(3), 4, "index"),
    (spaces.Discrete(3), 4, "onehot"),  # which would be the bit of a machine state
    (spaces.Discrete(3), -1, "onehot"),
    (spaces.Discrete(3, start=2), 1, "onehot"),
    (spaces.Discrete(3), None, "index"),
    (BOX, np.zeros(1, np.float32), "onehot"),  # which would be spread over all three
    (BOX, np.zeros(4, np.float32), "onehot"),
    (BOX, None, "onehot"),
    (PAIR, {"near": 1}, "onehot"),
]


@pytest.mark.parametrize(("space", "shown", "kind"), WRONG)
def test_an_observation_that_is_not_of_its_space_is_refused_for_a_team(space, shown, kind):
    env = wrap(Pair(space, shown), kind)
    env.reset(seed=0)
    with pytest.raises(hk.HocketError, match=r"^pair shows x .* in step 1, which is not of (Discrete|Box|Dict)"):
        env.step({"x": 0, "y": 0})


@pytest.mark.parametrize(("space", "shown", "kind"), WRONG)
def test_an_observation_that_is_not_of_its_space_is_refused_for_an_individual(space, shown, kind):
    world = Alone(space, (shown, 0.0, False, False, {}))
    env = hk.gym.IndividualView(world, machine=MACHINE, label=lambda step: None, observation=kind)
    env.reset(seed=0)
    with pytest.raises(hk.HocketError, match=r"shows the agent .* in step 1, which is not of (Discrete|Box|Dict)"):
        env.step(0)


@pytest.mark.parametrize("shown", [[0, 0, 1], np.zeros(3), np.zeros((3, 1))])
def test_an_observation_of_another_type_and_the_right_size_is_taken(shown):
    env = wrap(Pair(BOX, shown), "onehot")
    env.reset(seed=0)
    seen, *_ = env.step({"x": 0, "y": 0})
    assert env.observation_space("x").contains(seen["x"])
    assert seen["x"][:3].tolist() == np.ravel(shown).tolist()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (({"x": 0, "y": 0}, None), "an info must be a mapping, got None from pair in reset"),
        (({"x": 0, "y": 0}, {"x": None}), "an info must be a mapping, got None from pair of agent 'x' in reset"),
        (({"x": 0}, {}), "pair gives no observation of agent 'y' in reset"),
        (({"x": 0, "y": 9}, {}), r"pair shows y 9 in reset, which is not of Discrete\(3\)"),
        ((1, 2, 3), "pair raised ValueError in reset"),
    ],
)
def test_a_reset_that_gives_something_else_names_the_world(given, said):
    with pytest.raises(hk.HocketError, match=said):
        wrap(Pair(spaces.Discrete(3), 0, at_reset=given)).reset(seed=0)


@pytest.mark.parametrize("given", [5, [{"x": part, "y": part} for part in (0, 0.0, False, {})]])
def test_a_step_that_gives_something_else_names_the_world(given):
    env = wrap(Pair(spaces.Discrete(3), 0, in_step=given))
    env.reset(seed=0)
    with pytest.raises(hk.HocketError, match=r"^pair raised (Type|Value)Error in step 1"):
        env.step({"x": 0, "y": 0})


@pytest.mark.parametrize("reward", [None, "much"])
def test_a_reward_that_is_no_number_names_the_world(reward):
    world = Alone(spaces.Discrete(3), (0, reward, False, False, {}))
    env = hk.gym.IndividualView(world, machine=MACHINE, label=lambda step: None)
    env.reset(seed=0)
    with pytest.raises(hk.HocketError, match=r"raised (Type|Value)Error in step 1"):
        env.step(0)


class Places(gymnasium.Env):
    """Two places in tuples, and ends that are told beforehand."""

    def __init__(self, terminated, truncated):
        self.observation_space = self.action_space = spaces.Tuple((spaces.Discrete(3),) * 2)
        self.ends = terminated, truncated

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return (0, 0), {}

    def step(self, actions):
        return (0, 0), 0.0, *self.ends, {}


@pytest.mark.parametrize(
    ("terminated", "truncated", "ends"),
    [
        ([True, False], [False, True], ([True, False], [False, True])),
        ([True, True], False, ([True, True], [False, False])),
        (np.array([True, True]), np.array([False, True]), ([True, True], [False, True])),
        (False, True, ([False, False], [True, True])),
        ([True, False], [False, False], ([False, False], [False, False])),
    ],
)
def test_places_of_which_each_has_ended_in_its_own_way_have_all_ended(terminated, truncated, ends):
    env = hk.gym.to_parallel(Places(terminated, truncated))
    env.reset(seed=0)
    _, _, over, cut, _ = env.step({"agent_0": 0, "agent_1": 0})
    assert (list(over.values()), list(cut.values())) == ends
    assert bool(env.agents) is not any(ends[0] + ends[1])


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ({"A1": "down"}, "actions: every agent needs an action, got none for A2"),
        ({"A1": "down", "A2": "jump"}, "action: action 'jump' does not exist"),
        ({"A1": "down", "A2": 2}, "action: action 2 does not exist"),
    ],
)
def test_a_step_that_not_everyone_can_take_is_taken_by_nobody(actions, said):
    episode = hk.TeamEpisode(hk.load_task("rendezvous-2"))
    with pytest.raises(hk.HocketError, match=said):
        episode.step(actions)
    assert (episode.cells, episode.time) == ({"A1": 0, "A2": 3}, 0)
