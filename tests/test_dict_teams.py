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
        (Walk(), r"Walk does not list its agents: add the line env\.possible_agents = \[\.\.\.\]"),
        (
            Walk(possible_agents=[0, 1]),
            r"no observation space of 0: add the line env\.observation_spaces = \{0: \.\.\.\}",
        ),
        (
            Walk(possible_agents=[0, 1], observation_space=ONE),
            r"no action space of 0: add the line env\.action_spaces = \{0: \.\.\.\}",
        ),
        (np.zeros(3), r"must have reset and step, .* pass a dictionary: \{agent: make_env\(\) for agent in knows\}"),
    ],
    ids=["agents", "observations", "actions", "nothing"],
)
def test_what_is_missing_is_said_with_the_line_to_add(world, line):
    with pytest.raises(SettingsError, match=line):
        hk.gym.to_parallel(world)


class OldReset(Walk):
    def reset(self, seed=None):
        return super().reset()[0]


class OldStep(Walk):
    def step(self, actions):
        seen, rewards, over, _, infos = super().step(actions)
        return seen, rewards, over, infos


def begin_and_act(env):
    env.reset()
    env.step(dict.fromkeys(env.agents, 1))


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (OldReset, "reset of OldReset must end with return observations, infos"),
        (OldStep, "step of OldStep must end with return observations, rewards, terminated, truncated, infos"),
    ],
)
def test_old_forms_of_steps_are_refused_with_the_line_to_write(kind, line):
    env = hk.gym.to_parallel(kind(possible_agents=[0, 1], observation_space=ONE, action_space=ACT))
    with pytest.raises(SettingsError, match=line):
        begin_and_act(env)


def test_a_reset_without_a_seed_is_refused_with_the_line_to_write():
    class Seedless(Walk):
        def reset(self):
            return super().reset()

    with pytest.raises(
        SettingsError, match=r"reset of Seedless takes no seed: begin it with def reset\(self, seed=None\)"
    ):
        hk.gym.to_parallel(Seedless(possible_agents=[0, 1], observation_space=ONE, action_space=ACT))


def test_a_world_in_pettingzoos_form_need_not_be_one_of_its_classes_nor_list_who_is_there():
    world = Walk("ab", possible_agents=["a", "b"], observation_space=lambda _: ONE, action_space=lambda _: ACT)
    env = hk.gym.wrap(
        world, machine=MACHINE, knows=each("ab", {"one", "two"}), control={"one": "a", "two": "b"},
        label=lambda step: {"a": "one", "b": "two"},
    )  # fmt: skip
    env.reset(seed=0)
    *_, infos = env.step({"a": 1, "b": 0})
    assert env.completed and infos["a"]["events"] == ("one", "two")


class Rows(gymnasium.Env):
    """The same as a Gymnasium environment of arrays with a row for each agent."""

    observation_space, action_space = spaces.MultiDiscrete([SIZE] * 2), spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        self.at = np.zeros(2, int)
        return self.at.copy(), {}

    def step(self, actions):
        assert self.action_space.contains(actions)
        self.at = np.minimum(self.at + actions, SIZE - 1)
        return self.at.copy(), 0.0, False, False, {}


class Points(Rows):
    observation_space, action_space = spaces.Box(0, SIZE, (2, 1), np.int64), spaces.Box(0, 1, (2,), np.int64)

    def reset(self, *, seed=None, options=None):
        return super().reset()[0][:, None], {}

    def step(self, actions):
        seen, *others = super().step(actions)
        return seen[:, None], *others


@pytest.mark.parametrize(("kind", "space"), [(Rows, ONE), (Points, spaces.Box(0, SIZE, (1,), np.int64))])
def test_rows_of_arrays_are_agents_where_they_are_named(kind, space):
    with pytest.raises(SettingsError, match=r"name them: hk.gym.to_parallel\(env, agents=\[...\]\)"):
        hk.gym.to_parallel(kind())
    world, worlds = kind(), []
    team = hk.gym.to_parallel(world, agents=["left", "right"])
    assert team.observation_space("right") == space

    def label(step):
        worlds.append(step.env)
        return {"left": "one", "right": "two" if step.observations["right"] == SIZE - 1 else None}

    env = hk.gym.wrap(team, machine=MACHINE, knows={0: {"one", "two"}, 1: {"one", "two"}}, label=label,
                      control={"one": 0, "two": 1})  # fmt: skip
    env.reset(seed=0)
    while env.agents:
        env.step({"left": 0, "right": 1})
    assert env.time == SIZE - 1 and all(seen is world for seen in worlds)


def test_copies_of_a_world_for_one_may_go_by_numbers_in_labels_and_in_training():
    class One(gymnasium.Env):
        observation_space, action_space, walk = ONE, ACT, None

        def reset(self, *, seed=None, options=None):
            self.walk = Walk([0])
            return self.walk.reset()[0][0], {}

        def step(self, action):
            return self.walk.step({0: action})[0][0], 0.0, False, False, {}

    def label(step):
        return {number: event for number, event in enumerate(("one", "two")) if number in step.env
                and step.env[number].walk.at[0] == SIZE - 1}  # fmt: skip

    knows, control = {0: {"one", "two"}, 1: {"one", "two"}}, {"one": {0}, "two": {1}}
    env = hk.gym.wrap({0: One(), 1: One()}, machine=MACHINE, knows=knows, label=label, control=control)
    (run,) = hk.train(env, seeds=1, steps=300, settings={"max_episode_steps": 20, "test_every": 300})
    assert run.tests("greedy").test_steps.tolist() == [SIZE - 1]
