"""Many copies of a team at once: Gymnasium's rules, and equality with single ones, episode by episode."""

import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv
from hypothesis import given

import hocket as hk
from hocket.adapters.observations import KINDS
from hocket.adapters.team import TeamEnv
from hocket.errors import SettingsError, TaskError
from hocket.task.grid import ACTIONS
from task_strategies import few, random_task, tasks
from worlds import corridor, meeting

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

RIGHT, LEFT, STAY = (ACTIONS.index(name) for name in ("right", "left", "stay"))


def same_observation(kind: str, mine: object, single: dict, agents: tuple[str, ...]) -> bool:
    """Say whether a copy's row shows what a single team sees; vectors of smaller machines end in zeros."""
    if kind == "dict":
        return all(mine[key].tolist() == [single[name][key] for name in agents] for key in ("world", "machine"))
    if kind == "index":
        return mine.tolist() == [single[name] for name in agents]
    rows = zip(mine.tolist(), (single[name].tolist() for name in agents), strict=True)
    return all(row == own + [0.0] * (len(row) - len(own)) for row, own in rows)


def row_of(kind: str, observations: object, copy: int) -> object:
    return {key: part[copy] for key, part in observations.items()} if kind == "dict" else observations[copy]


def compare(task: hk.Task, kind: str, copies: int = 3, steps: int = 100, max_episode_steps: int = 30) -> int:
    """Compare copies with as many single teams; count the events."""
    envs = hk.gym.team_vector_env(task, copies, observation=kind, max_episode_steps=max_episode_steps)
    teams = [hk.gym.team_env(task, observation=kind, max_episode_steps=max_episode_steps) for _ in range(copies)]
    observations, infos = envs.reset(seed=11)
    begun = [team.reset(seed=11 + copy)[0] for copy, team in enumerate(teams)]
    rng, happened = Random(5), 0
    for copy in range(copies):
        assert same_observation(kind, row_of(kind, observations, copy), begun[copy], envs.agents)
    assert observations in envs.observation_space and not infos["happened"].any()
    for _ in range(steps):
        actions = np.array([[rng.randrange(5) for _ in envs.agents] for _ in teams])
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        assert observations in envs.observation_space
        for copy, team in enumerate(teams):
            found = (float(rewards[copy]), bool(terminated[copy]), bool(truncated[copy]))
            events, expected = step_single(team, actions[copy].tolist())
            assert found == expected[1:]
            assert same_observation(kind, row_of(kind, observations, copy), expected[0], envs.agents)
            assert envs.state()[copy].tolist() == team.state().tolist()
            assert infos["cell"][copy].tolist() == list(team.cells.values())
            assert infos["machine"][copy].tolist() == team.state().tolist()[len(envs.agents) :]
            assert {envs.events[number] for number in np.flatnonzero(infos["happened"][copy])} == events
            happened += len(events)
    return happened


def step_single(team: TeamEnv, actions: list[int]) -> tuple[set[str], tuple[object, float, bool, bool]]:
    """Let a single team act, or begin its next episode if the last one is over."""
    if not team.agents:
        return set(), (team.reset()[0], 0.0, False, False)
    seen, rewards, terminated, truncated, infos = team.step(dict(zip(team.agents, actions, strict=True)))
    first = team.possible_agents[0]
    events = {event for info in infos.values() for event in info["events"]}
    return events, (seen, rewards[first], terminated[first], truncated[first])


@few
@given(task=tasks())
def test_copies_of_a_team_do_what_single_ones_do(task):
    compare(task, "index")


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_a_team_see_what_single_ones_see(kind):
    compare(hk.load_task("buttons"), kind)


def test_much_happens_in_the_episodes_that_are_compared():
    assert sum(compare(random_task(Random(seed)), "index", steps=60) for seed in range(15)) > 50


def test_a_lone_agent_is_rewarded_as_its_machine_says():
    machine = hk.RewardMachine(
        initial="0",
        transitions={("0", "arrive"): "1", ("1", "arrive"): "2"},
        final={"2"},
        rewards={("0", "arrive"): 5.0, ("1", "arrive"): -2.0},
    )
    base = corridor(3)
    envs = hk.gym.team_vector_env(hk.Task("paid", base.grid, base.agents, base.events, machine, 0.0), 2)
    envs.reset(seed=0)
    steps = [envs.step(np.array([[RIGHT], [STAY]])) for _ in range(2)]
    assert [rewards.tolist() for _, rewards, *_ in steps] == [[0.0, 0.0], [3.0, 0.0]]


def test_an_end_is_followed_by_a_beginning_in_the_next_step():
    envs = hk.gym.team_vector_env(meeting(), 2, observation="index", max_episode_steps=3)
    begun, _ = envs.reset(seed=0)
    actions = np.array([[RIGHT, LEFT], [STAY, STAY]])
    for step in range(3):
        actions[0, 1] = LEFT if step < 2 else STAY
        _, rewards, terminated, truncated, infos = envs.step(actions)
    assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == ([1.0, 0.0], [True, False], [True, True])
    assert infos["happened"].any(axis=1).tolist() == [True, False]
    again, rewards, terminated, truncated, infos = envs.step(actions)
    assert again.tolist() == begun.tolist()
    assert not rewards.any() and not terminated.any() and not truncated.any() and not infos["happened"].any()


def test_seeds_may_be_given_one_by_one_or_drawn():
    envs, other = (hk.gym.team_vector_env("buttons", 3, observation="index") for _ in range(2))
    rng = np.random.default_rng(0)
    moves = [rng.integers(0, 5, (3, 3)) for _ in range(40)]
    envs.reset(seed=4), other.reset(seed=[4, 5, 6])
    assert all(np.array_equal(envs.step(action)[0], other.step(action)[0]) for action in moves)
    envs.reset(), other.reset(seed=[None, None, 6])  # the third begins again at number 0
    apart = [envs.step(action)[0] != other.step(action)[0] for action in moves]
    assert np.any(apart, axis=(0, 2)).tolist() == [False, False, True]
    drawn = hk.gym.team_vector_env("buttons", 2)
    drawn.reset()
    assert len({*drawn._teams.seed.tolist()}) == 2


def test_what_a_caller_does_to_arrays_is_its_own_affair():
    for kind in KINDS:
        envs, other = (hk.gym.team_vector_env("buttons", 2, observation=kind) for _ in range(2))
        envs.reset(seed=0), other.reset(seed=0)
        for action in range(20):
            results, expected = (one.step(np.full((2, 3), action % 5)) for one in (envs, other))
            np.testing.assert_equal(results, expected)
            arrays = [*(results[0].values() if kind == "dict" else results[:1]), *results[1:4], *results[4].values()]
            for array in arrays:
                array.fill(1)


def test_copies_are_a_vector_environment_of_gymnasium():
    envs = hk.gym.team_vector_env("buttons", 4)
    assert isinstance(envs, VectorEnv) and envs.num_envs == 4
    assert envs.agents == ("A1", "A2", "A3") and envs.single_action_space.nvec.tolist() == [5, 5, 5]
    assert envs.action_space.sample().shape == (4, 3) and envs.observation_space.shape == (4, 3, 105)


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        (np.zeros((2, 3), int), "actions: there must be a number for each of 2 agents in 2 copies"),
        (np.zeros((2, 2)), "actions: there must be a number for each of 2 agents in 2 copies"),
        (np.full((2, 2), 5), "actions: must be from 0 to 4, got 5 to 5"),
    ],
)
def test_every_agent_of_every_copy_needs_an_action_that_there_is(actions, said):
    envs = hk.gym.team_vector_env(meeting(), 2)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros((2, 2), int))
    envs.reset(seed=0)
    with pytest.raises(TaskError, match=said):
        envs.step(actions)


def test_a_setting_that_makes_no_sense_is_refused():
    with pytest.raises(SettingsError, match="num_envs must be an integer of at least 1, got 0"):
        hk.gym.team_vector_env("buttons", 0)
    with pytest.raises(SettingsError, match="max_episode_steps must be an integer of at least 1, got 0"):
        hk.gym.team_vector_env("buttons", 1, max_episode_steps=0)
    with pytest.raises(SettingsError, match="observation 'onehott' does not exist"):
        hk.gym.team_vector_env("buttons", 1, observation="onehott")


def test_the_example_learns_to_press_buttons(monkeypatch):
    import crowd

    monkeypatch.setattr(crowd, "STEPS", 1_000)
    tables = crowd.learn("buttons")
    policies = {agent: lambda seen, table=table: table[seen].argmax() for agent, table in tables.items()}
    (found,) = hk.evaluate(hk.gym.team_env("buttons", observation="index"), policies, episodes=20)
    assert found.success.value == 1.0 and found.mean_steps < 25
