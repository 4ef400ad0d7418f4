"""Worlds whose agents are integers or tuples, or whose spaces are dictionaries: taken, or told what to add."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import hocket as hk
from hocket.errors import SettingsError

SIZE = 4
ONE, ACT = spaces.Discrete(SIZE), spaces.Discrete(2)


class Walk:
    """Agents walk along a line by 0 or 1; at its end they are done. Keys of dictionaries are whatever they are."""

    def __init__(self, keys=(0, 1), **attributes):
        self.keys = list(keys)
        self.__dict__.update(attributes)

    def reset(self, seed=None, options=None):
        self.at = dict.fromkeys(self.keys, 0)
        return dict(self.at), {key: {} for key in self.keys}

    def step(self, actions):
        for key, action in actions.items():
            self.at[key] = min(SIZE - 1, self.at[key] + int(action))
        flags = dict.fromkeys(self.keys, False)
        return dict(self.at), dict.fromkeys(self.keys, 0.5), dict(flags), dict(flags), {key: {} for key in self.keys}

    def close(self):
        pass


def each(keys, space):
    return dict.fromkeys(keys, space)


class DictGym(gymnasium.Env):
    """The same as a Gymnasium environment whose spaces are dictionaries over agents; one reward, one end for all."""

    observation_space = spaces.Dict({"left": ONE, "right": ONE})
    action_space = spaces.Dict({"left": ACT, "right": ACT})

    def __init__(self):
        self.walk = Walk(("left", "right"))

    def reset(self, *, seed=None, options=None):
        return self.walk.reset()[0], {"weather": "fine"}

    def step(self, actions):
        return self.walk.step(actions)[0], 2.5, False, all(at == SIZE - 1 for at in self.walk.at.values()), {}


KEYS = [(0, 1), (("red", 0), ("red", 1)), ("pilot", 7)]
WORLDS = {
    "integers": lambda: Walk(
        possible_agents=[0, 1], observation_spaces=each((0, 1), ONE), action_spaces=each((0, 1), ACT)
    ),
    "tuples": lambda: Walk(KEYS[1], agents=KEYS[1], observation_space=lambda _: ONE, action_space=lambda _: ACT),
    "a set of ids": lambda: Walk(_agent_ids={1, 0}, observation_space=ONE, action_space=ACT),
    "no list of agents": lambda: Walk(observation_spaces=each((0, 1), ONE), action_spaces=each((0, 1), ACT)),
    "a Dict space": lambda: Walk(
        ("a", "b"), observation_space=spaces.Dict(each("ab", ONE)), action_space=spaces.Dict(each("ab", ACT))
    ),
    "Gymnasium": DictGym,
}
NAMES = {
    "integers": ["agent_0", "agent_1"],
    "tuples": ["red_0", "red_1"],
    "a set of ids": ["agent_0", "agent_1"],
    "no list of agents": ["agent_0", "agent_1"],
    "a Dict space": ["a", "b"],
    "Gymnasium": ["left", "right"],
}


@pytest.mark.parametrize("kind", WORLDS)
def test_a_world_of_dictionaries_is_a_parallel_environment(kind):
    env = hk.gym.to_parallel(WORLDS[kind]())
    assert env.possible_agents == NAMES[kind]
    assert env.observation_space(env.possible_agents[0]) == ONE
    seen, infos = env.reset(seed=0)
    assert seen == dict.fromkeys(NAMES[kind], 0) and [*infos] == NAMES[kind]
    first, second = NAMES[kind]
    seen, rewards, terminated, truncated, infos = env.step({first: 1, second: 0})
    assert seen == {first: 1, second: 0}
    assert rewards == dict.fromkeys(NAMES[kind], 2.5 if kind == "Gymnasium" else 0.5)
    assert not any((*terminated.values(), *truncated.values())) and env.agents == NAMES[kind]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pettingzoo_takes_it_for_one_of_its_own():
    from pettingzoo.test import parallel_api_test

    parallel_api_test(hk.gym.to_parallel(DictGym()), num_cycles=40)


MACHINE = hk.RewardMachine(initial="0", transitions={("0", "one"): "1", ("1", "two"): "2"}, final={"2"})


@pytest.mark.parametrize("kind", WORLDS)
def test_it_is_wrapped_by_its_own_keys_or_by_names_and_labels_see_the_world_itself(kind):
    world, worlds = WORLDS[kind](), []
    own_keys = list(hk.gym.to_parallel(world).keys.values())
    for keys in (own_keys, NAMES[kind]):
        knows = {key: {"one", "two"} for key in keys}

        def label(step):
            worlds.append(step.env)
            at = [int(seen) == SIZE - 1 for seen in step.observations.values()]
            return [event for event, is_there in zip(("one", "two"), at, strict=True) if is_there]

        env = hk.gym.wrap(world, machine=MACHINE, knows=knows, label=label, control={"one": keys[:1], "two": keys[1:]})
        env.reset(seed=0)
        while env.agents:
            *_, infos = env.step(dict.fromkeys(NAMES[kind], 1))
        assert env.completed and infos[NAMES[kind][1]]["events"] == ("one", "two")
    assert all(seen is world for seen in worlds)


def test_an_end_for_all_is_everybodys():
    class Ends(Walk):
        def step(self, actions):
            seen, rewards, _, truncated, infos = super().step(actions)
            return seen, rewards, {"__all__": True}, truncated, infos

    env = hk.gym.to_parallel(Ends(possible_agents=[0, 1], observation_space=ONE, action_space=ACT))
    env.reset()
    assert env.step({"agent_0": 1, "agent_1": 1})[2] == {"agent_0": True, "agent_1": True}
    assert env.agents == []


def test_names_may_be_given():
    env = hk.gym.to_parallel(WORLDS["integers"](), agents=["left", "right"])
    assert env.possible_agents == ["left", "right"]
    with pytest.raises(SettingsError, match="must be 2 different names"):
        hk.gym.to_parallel(WORLDS["integers"](), agents=["left", "left"])


@pytest.mark.parametrize(
    ("world", "line"),
    [
        (Walk(), r"Walk does not say who its agents are: add the line env\.possible_agents = \[\.\.\.\]"),
        (
            Walk(possible_agents=[0, 1]),
            r"no observation space of 0: add the line env\.observation_spaces = \{0: \.\.\.\}",
        ),
        (
            Walk(possible_agents=[0, 1], observation_space=ONE),
            r"no action space of 0: add the line env\.action_spaces = \{0: \.\.\.\}",
        ),
        (np.zeros(3), "must have reset, step"),
    ],
    ids=["agents", "observations", "actions", "nothing"],
)
def test_what_is_missing_is_said_with_the_line_to_add(world, line):
    with pytest.raises(SettingsError, match=line):
        hk.gym.to_parallel(world)


def test_a_reset_that_returns_observations_alone_is_named():
    class Old(Walk):
        def reset(self, seed=None, options=None):
            return super().reset()[0]

    env = hk.gym.to_parallel(Old(possible_agents=[0, 1], observation_space=ONE, action_space=ACT))
    with pytest.raises(SettingsError, match=r"reset\(\) of Old must return observations and infos"):
        env.reset()
