"""The team out: PettingZoo's rules, and equality with episodes in plain Python and in kernels."""

import pickle
import warnings
from copy import deepcopy
from random import Random

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import given
from pettingzoo import ParallelEnv

import hocket as hk
from hocket.adapters.observations import KINDS
from hocket.adapters.team import TeamEnv, parallel_env
from hocket.draw.palette import AGENT_COLORS
from hocket.draw.pixels import Frames
from hocket.errors import SettingsError, TaskError
from hocket.learn.catalogue import LEARNERS
from hocket.learn.testing import recording
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from task_strategies import Guide, few, random_task, some, tasks
from worlds import corridor, gatehouse, meeting

with warnings.catch_warnings():  # PettingZoo's tests import a game in a way that PettingZoo warns of
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import parallel_api_test, parallel_seed_test
    from pettingzoo.utils.conversions import parallel_to_aec

RIGHT, LEFT, STAY = (ACTIONS.index(name) for name in ("right", "left", "stay"))


# PettingZoo's rules.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["buttons", "rendezvous-3"])
def test_pettingzoo_has_nothing_to_say_of_a_team(name, kind):
    parallel_api_test(hk.gym.team_env(name, observation=kind), num_cycles=300)
    parallel_api_test(hk.gym.team_env(name, observation=kind, max_episode_steps=20), num_cycles=300)
    parallel_seed_test(lambda: hk.gym.team_env(name, observation=kind), num_cycles=20)


def test_a_team_is_made_as_by_the_modules_of_pettingzoo():
    env = parallel_env("buttons")
    assert isinstance(env, ParallelEnv) and isinstance(env, TeamEnv)
    assert str(env) == "hocket_team_v0"
    assert env.possible_agents == ["A1", "A2", "A3"] and env.max_num_agents == 3


def test_a_team_can_take_turns():
    """What PettingZoo makes of it for agents that act one after the other ends with the same rewards."""
    env = parallel_to_aec(hk.gym.team_env(meeting(), max_episode_steps=10))
    env.reset(seed=0)
    earned = dict.fromkeys(("A1", "A2"), 0.0)
    for name in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        earned[name] += reward
        env.step(None if terminated or truncated else RIGHT if name == "A1" else LEFT if env.state()[1] > 3 else STAY)
    assert earned == {"A1": 1.0, "A2": 1.0}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_team_sees_lies_in_its_spaces(kind):
    env = hk.gym.team_env("buttons", observation=kind)
    observations, _ = env.reset(seed=0)
    for _ in range(20):
        assert all(observations[name] in env.observation_space(name) for name in env.agents)
        assert env.state() in env.state_space
        observations, *_ = env.step({name: env.action_space(name).sample() for name in env.agents})


def test_an_agent_sees_the_same_in_the_team_as_alone():
    for name in ("A1", "A2", "A3"):
        team, individual = hk.gym.team_env("buttons"), hk.gym.individual_env("buttons", name)
        assert team.observation_space(name) == individual.observation_space
        assert team.reset(seed=0)[0][name].tolist() == individual.reset(seed=0)[0].tolist()


# Equality with episodes in plain Python.


def compare(task: hk.Task, steps: int, seed: int) -> int:
    """Compare the first episodes of a seed with those in plain Python; count the events."""
    env, guide, happened = (
        hk.gym.team_env(task, observation="index", max_episode_steps=steps),
        Guide(task, Random(seed)),
        0,
    )
    for number in range(2):
        _, infos = env.reset(seed=seed if number == 0 else None)
        episode = hk.TeamEpisode(task, seed, number)
        assert {name: info["machine_state"] for name, info in infos.items()} == episode.states
        for time in range(1, steps + 1):
            was_done = episode.done
            actions = guide.actions(episode)
            step = episode.step(actions)
            numbers = {name: ACTIONS.index(action) for name, action in actions.items()}
            observations, rewards, terminated, truncated, infos = env.step(numbers)
            assert env.cells == step.cells == {name: info["cell"] for name, info in infos.items()}
            assert env.states == step.states == {name: info["machine_state"] for name, info in infos.items()}
            assert step.proposed == {name: info["proposed"] for name, info in infos.items()}
            assert {event for info in infos.values() for event in info["events"]} == {*step.events}
            for name, info in infos.items():
                assert info["events"] == tuple(event for event in step.events if event in task.knows[name])
                own = task.machines[name].states.index(step.states[name])
                assert observations[name] == step.cells[name] * len(task.machines[name].states) + own
            assert {*terminated.values()} == {step.done}
            assert {*truncated.values()} == {time == steps}
            if not task.is_single_agent:
                assert {*rewards.values()} == {float(step.done and not was_done)}
            happened += len(step.events)
            if step.done:
                break
        assert env.agents == []
    return happened


@some
@given(task=tasks())
def test_a_team_does_the_same_as_in_an_episode_in_plain_python(task):
    compare(task, 60, seed=7)


def test_much_happens_in_the_episodes_that_are_compared():
    assert sum(compare(random_task(Random(seed)), 60, seed) for seed in range(20)) > 50


@pytest.mark.parametrize("name", ["buttons", "rendezvous-3"])
def test_a_team_does_the_same_as_in_the_compiled_world(name):
    task = hk.load_task(name)
    tables = compile_task(task)
    (run,) = hk.train(task, "optimal", seeds=1, steps=1)
    arrays = run.policy.arrays
    player = LEARNERS["optimal"].player(tables, 0.05, 400)
    env = hk.gym.team_env(task, max_episode_steps=400)
    for number in range(3):
        record = recording(400, len(task.agents))
        taken = player.play(arrays, 5, number, False, record)
        env.reset(seed=5 if number == 0 else None)
        for time in range(taken if taken > 0 else 400):
            actions = dict(zip(env.agents, record.action[time].tolist(), strict=True))
            _, _, terminated, _, _ = env.step(actions)
            assert env.state().tolist() == [*record.cell[time], *record.state[time]]
        assert {*terminated.values()} == {taken > 0}


def test_a_lone_agent_is_rewarded_as_its_machine_says():
    machine = hk.RewardMachine(
        initial="0",
        transitions={("0", "arrive"): "1", ("1", "arrive"): "2"},
        final={"2"},
        rewards={("0", "arrive"): 5.0, ("1", "arrive"): -2.0},
    )
    base = corridor(3)
    task = hk.Task("paid", base.grid, base.agents, base.events, machine, 0.0)
    env = hk.gym.team_env(task)
    env.reset(seed=0)
    assert [env.step({"A1": RIGHT})[1]["A1"] for _ in range(2)] == [0.0, 3.0]  # both in the step that settles


# Whole episodes from a seed.


def record_episode(env: TeamEnv, seed: int | None, rng: Random) -> list[object]:
    """Play an episode at random and keep all that comes out."""
    kept: list[object] = [env.reset(seed=seed)]
    while env.agents:
        kept.append(list(env.step({name: rng.randrange(5) for name in env.agents})))
        kept.append(env.state())
    return kept


def test_the_same_seed_and_actions_give_the_same_whole_episodes():
    one, other = (hk.gym.team_env("buttons", max_episode_steps=200) for _ in range(2))
    first = [record_episode(one, seed, Random(1)) for seed in (7, None, None)]
    again = [record_episode(other, seed, Random(1)) for seed in (7, None, None)]
    assert len(first[0]) == 401
    assert data_equivalence(first, again, exact=True)
    assert data_equivalence(record_episode(one, 7, Random(1)), first[0], exact=True)
    assert not any(data_equivalence(part, first[0]) for part in (*first[1:], record_episode(one, 8, Random(1))))


def test_episodes_without_a_seed_are_those_of_a_seed_that_was_drawn():
    env, again = hk.gym.team_env("buttons", max_episode_steps=50), hk.gym.team_env("buttons", max_episode_steps=50)
    kept = [record_episode(env, None, Random(2)) for _ in range(2)]
    repeated = [record_episode(again, seed, Random(2)) for seed in (env.episode_seed, None)]
    assert data_equivalence(kept, repeated, exact=True)


def test_a_copy_of_an_environment_goes_on_as_the_original_does():
    env = hk.gym.team_env("buttons", observation="dict", max_episode_steps=50)
    env.reset(seed=3)
    for _ in range(10):
        env.step(dict.fromkeys(env.agents, RIGHT))
    copies = [deepcopy(env), pickle.loads(pickle.dumps(env))]
    while env.agents:
        actions = dict(zip(env.agents, (LEFT, STAY, RIGHT), strict=True))
        expected = env.step(actions)
        assert all(data_equivalence(copy.step(actions), expected, exact=True) for copy in copies)


def test_what_a_caller_does_to_its_observations_and_infos_is_its_own_affair():
    for kind in ("onehot", "dict"):
        env, other = (hk.gym.team_env("buttons", observation=kind, max_episode_steps=30) for _ in range(2))
        env.reset(seed=0), other.reset(seed=0)
        while env.agents:
            actions = dict.fromkeys(env.agents, STAY)
            observations, *_, infos = env.step(actions)
            kept = other.step(actions)
            assert data_equivalence((observations, infos), (kept[0], kept[4]), exact=True)
            for own in observations.values():
                own.fill(7) if kind == "onehot" else own.clear()
            for info in infos.values():
                info.clear()


# Ends, mistakes and pictures.


def test_everyone_ends_together_and_then_needs_a_reset():
    env = hk.gym.team_env(meeting())
    with pytest.raises(ResetNeeded):
        env.step({"A1": STAY, "A2": STAY})
    env.reset(seed=0)
    for action in (LEFT, LEFT, STAY):
        _, rewards, terminated, truncated, infos = env.step({"A1": RIGHT, "A2": action})
    assert (rewards, terminated) == ({"A1": 1.0, "A2": 1.0}, {"A1": True, "A2": True})
    assert not any(truncated.values()) and env.agents == [] and env.is_done
    assert infos["A1"] == {
        "events": ("meet",), "event": "meet", "proposed": ("meet",), "machine_state": "together", "cell": 3,
    }  # fmt: skip
    with pytest.raises(ResetNeeded, match="also after one has ended"):
        env.step({})


def test_an_agent_that_is_ready_takes_an_event_for_possible_until_the_others_are():
    env = hk.gym.team_env(meeting())
    env.reset(seed=0)
    for _ in range(2):
        *_, infos = env.step({"A1": STAY, "A2": LEFT})
    assert (infos["A2"]["proposed"], infos["A2"]["events"], infos["A1"]["proposed"]) == (("meet",), (), ())


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ({"A1": 1}, "actions: every agent needs an action, got none for A2"),
        ({"A1": 1, "A2": 9}, "action: must be one of 0 up, 1 right, 2 down, 3 left, 4 stay, got 9"),
    ],
)
def test_every_agent_needs_an_action_that_there_is(actions, said):
    env = hk.gym.team_env(meeting())
    env.reset(seed=0)
    with pytest.raises(TaskError, match=said):
        env.step(actions)
    assert env.cells == {"A1": 0, "A2": 5} and env.time == 0


def test_a_setting_that_makes_no_sense_is_refused():
    with pytest.raises(SettingsError, match="max_episode_steps must be an integer of at least 1, got 0"):
        hk.gym.team_env("buttons", max_episode_steps=0)
    with pytest.raises(SettingsError, match=r"render_mode 'human' does not exist .known: ansi, rgb_array"):
        hk.gym.team_env("buttons", render_mode="human")


def test_a_text_shows_everyone_and_what_is_closed_to_anyone():
    env = hk.gym.team_env(gatehouse(), render_mode="ansi")
    env.reset(seed=0)
    assert env.render().startswith("1 ")
    assert "×" in env.render() and "step 0: A1 in " in env.render()


def picture(task: hk.Task, cells: list[int]) -> np.ndarray:
    """Draw a team's agents where they are said to be."""
    states = {name: machine.initial for name, machine in task.machines.items()}
    return Frames(task, "rgb_array").draw(dict(zip(task.agents, cells, strict=True)), states, 0)


def test_a_picture_shows_everyone_also_where_several_share_a_cell():
    image = picture(hk.load_task("rendezvous-3"), [55] * 3)
    room = image[5 * 32 : 6 * 32, 5 * 32 : 6 * 32].reshape(-1, 3).tolist()
    assert all(list(bytes.fromhex(color[1:])) in room for color in AGENT_COLORS[:3])


def test_a_crowd_in_a_cell_stands_on_a_circle_as_on_the_pages():
    task = hk.load_task("rendezvous-12")
    crowd, few = picture(task, [55] * 12), picture(task, [55] * 3 + [0] * 9)
    assert not np.array_equal(crowd[160:192, 160:192], few[160:192, 160:192])
    ring = {tuple(color) for color in crowd[150:202, 150:202].reshape(-1, 3).tolist()}
    assert all(tuple(bytes.fromhex(color[1:])) in ring for color in AGENT_COLORS)


@few
@given(task=tasks())
def test_every_moment_of_a_team_can_be_drawn(task):
    for mode in ("ansi", "rgb_array"):
        env = hk.gym.team_env(task, render_mode=mode, max_episode_steps=5)
        env.reset(seed=0)
        while env.agents:
            env.step({name: env.action_space(name).sample() for name in env.agents})
            drawn = env.render()
        shape = (task.grid.rows * 32, task.grid.columns * 32, 3)
        assert drawn.count("\n") == task.grid.rows + 1 if mode == "ansi" else drawn.shape == shape


def test_a_team_of_a_thousand_acts():
    task = hk.load_task("rendezvous-1000")
    env = hk.gym.team_env(task, observation="index")
    env.reset(seed=0)
    before = env.state()
    *_, infos = env.step(dict.fromkeys(env.agents, RIGHT))
    assert env.state().shape == before.shape == (2000,)
    moved = sum(info["cell"] == start + 1 for info, start in zip(infos.values(), before[:1000], strict=True))
    assert moved > 800
