"""Policies from elsewhere in a team: what they play is what was recorded, and what is made of it."""

import sys
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from pettingzoo import ParallelEnv

import hocket as hk
from hocket.adapters.policies import NO_CELL, Actor
from hocket.draw.task_scene import scene_of
from hocket.errors import SettingsError
from hocket.learn.catalogue import LEARNERS
from hocket.learn.testing import recording
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from task_strategies import Guide, few, tasks
from worlds import corridor, meeting

RIGHT, LEFT, STAY = (ACTIONS.index(name) for name in ("right", "left", "stay"))


def to_center(seen: np.ndarray) -> int:
    """Walk to the cell in which agents meet, and wait there."""
    cell = int(seen[:6].argmax())
    return RIGHT if cell < 3 else LEFT if cell > 3 else STAY


TOGETHER = {"A1": to_center, "A2": to_center}


# An episode.


def test_a_replay_has_all_that_happened():
    replay = hk.gym.play_episode(hk.gym.team_env(meeting()), TOGETHER, seed=0)
    assert replay.agents == ("A1", "A2")
    assert replay.cells.tolist() == [[0, 5], [1, 4], [2, 3], [3, 3]]
    assert replay.states == (("apart",) * 2, ("apart",) * 2, ("apart",) * 2, ("together",) * 2)
    assert replay.events == ((), (), ("meet",))
    assert (replay.steps, replay.finish, replay.success) == (3, (3, 3), True)


@few
@given(task=tasks())
def test_a_replay_is_an_episode_in_plain_python(task):
    env = hk.gym.team_env(task, observation="dict", max_episode_steps=40)
    guide, plan = Guide(task, Random(3)), []

    def actor(name: str) -> Actor:
        states = tuple(task.machines[name].states)

        def act(seen: dict) -> int:
            action = guide.action(name, int(seen["world"]), states[seen["machine"]])
            plan.append(action)
            return ACTIONS.index(action)

        return act

    replay = hk.gym.play_episode(env, {name: actor(name) for name in task.agents}, seed=9)
    episode = hk.TeamEpisode(task, 9)
    assert replay.cells[0].tolist() == [*episode.cells.values()]
    finish = [0 if done else -1 for done in episode.finished.values()]
    for time in range(replay.steps):
        actions = [plan.pop(0) for _ in task.agents]
        step = episode.step(dict(zip(task.agents, actions, strict=True)))
        assert replay.cells[time + 1].tolist() == [*step.cells.values()]
        assert replay.states[time + 1] == (*step.states.values(),)
        assert sorted(replay.events[time]) == sorted(step.events)
        done = episode.finished.values()
        finish = [time + 1 if own < 0 and now else own for own, now in zip(finish, done, strict=True)]
    assert replay.finish == (*finish,)
    assert replay.success == episode.done
    assert replay.success or replay.steps == 40


def test_a_task_that_is_done_from_the_beginning_takes_no_step():
    base = corridor(3)
    machine = hk.RewardMachine(initial="there", transitions={("away", "arrive"): "there"}, final={"there"})
    task = hk.Task("done", base.grid, base.agents, base.events, machine)
    replay = hk.gym.play_episode(hk.gym.team_env(task), {"A1": lambda seen: STAY}, seed=0)
    assert (replay.steps, replay.finish, replay.success) == (0, (0,), True)


# Evaluation.


def test_a_team_of_functions_is_evaluated_as_the_same_actions_are_in_the_compiled_world():
    task = hk.load_task("buttons")
    (run,) = hk.train(task, "optimal", seeds=1, steps=1)
    policy = replace(run.policy, settings={**run.policy.settings, "max_episode_steps": 30})
    player = LEARNERS["optimal"].player(compile_task(task), float(policy.settings["temperature"]), 30)
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in policy.arrays.items()}
    plan: list[np.ndarray] = []
    for number in range(40):
        record = recording(30, 3)
        taken = player.play(arrays, 11, number, False, record)
        plan.extend(record.action[: taken if taken >= 0 else 30])
    rows = {name: iter([int(row[place]) for row in plan]) for place, name in enumerate(task.agents)}
    actors = {name: lambda seen, own=own: next(own) for name, own in rows.items()}
    (expected,) = hk.evaluate(task, policy, 40, seed=11, greedy=False)
    (found,) = hk.evaluate(hk.gym.team_env(task, max_episode_steps=30), actors, 40, seed=11, greedy=False)
    assert 0 < expected.success.value < 1
    assert found == replace(expected, policy="sampled")
    assert all(next(own, None) is None for own in rows.values())


def test_a_task_is_evaluated_in_its_team_environment():
    (found,) = hk.evaluate(meeting(), TOGETHER, 10, greedy=True)
    assert (found.success.value, found.mean_steps, found.quartiles) == (1.0, 3.0, (3.0, 3.0, 3.0))
    assert found.policy == "greedy" and found.episodes == 10
    (found,) = hk.evaluate(meeting(), {**TOGETHER, "A2": lambda seen: STAY}, 2)
    assert (found.success.value, found.quartiles) == (0.0, (1_000.0,) * 3)


class Walker:
    """A model in the way of Stable-Baselines3, which keeps how it was asked."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.asked.append(deterministic)
        return np.array(RIGHT), None


@pytest.mark.parametrize("greedy", [False, True])
def test_a_model_is_asked_to_predict(greedy):
    model = Walker()
    (found,) = hk.evaluate(corridor(4), {"A1": model}, 2, greedy=greedy)
    assert found.success.value == 1.0
    assert model.asked == [greedy] * 6


class Relay(ParallelEnv):
    """A world without cells and without a limit: the first leaves after two steps, the second after five."""

    def __init__(self, completes: bool) -> None:
        self.possible_agents, self.agents = ["first", "second"], []
        self.machines = {
            "first": hk.RewardMachine(initial="0", transitions={("0", "pass"): "1"}, final={"1"}),
            "second": hk.RewardMachine(
                initial="0", transitions={("0", "pass"): "1", ("1", "arrive"): "2"}, final={"2"}
            ),
        }
        self.completes = completes

    def reset(self, seed=None, options=None):
        self.agents, self.time = self.possible_agents[:], 0
        return dict.fromkeys(self.agents, 0), {name: {"machine_state": "0"} for name in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        self.time += 1
        infos = {name: self._tell(name) for name in self.agents}
        results = (dict.fromkeys(self.agents, 0) for _ in range(4))
        self.agents = [] if self.time == 5 else ["second"] if self.time >= 2 else self.agents
        return *results, infos

    def _tell(self, name):
        arrives = self.completes and self.time == 5
        event = "pass" if self.time == 2 else "arrive" if arrives else None
        return {"event": event, "machine_state": "0" if self.time < 2 else "2" if arrives else "1"}


@pytest.mark.parametrize("completes", [False, True])
def test_any_world_whose_agents_have_machines_will_do(completes):
    env, still = Relay(completes), dict.fromkeys(["first", "second"], lambda seen: 0)
    replay = hk.gym.play_episode(env, still)
    assert replay.events == ((), ("pass",), (), (), ("arrive",) if completes else ())
    assert replay.states[2:] == (("1", "1"),) * 3 + ((("1", "2" if completes else "1")),)
    assert (replay.finish, replay.success) == ((2, 5 if completes else -1), completes)
    assert (replay.cells == NO_CELL).all()
    (found,) = hk.evaluate(env, still, 3)
    assert (found.success.value, found.agents["first"].value) == (float(completes), 1.0)
    assert found.quartiles == (5.0,) * 3


# Mistakes.


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ({"A1": to_center}, "every agent needs a policy, got none for A2"),
        ({**TOGETHER, "A22": to_center}, r"agent 'A22' does not exist .did you mean 'A2'"),
        ({**TOGETHER, "A2": "left"}, r"a policy is a function or has predict\(\), got str for A2"),
    ],
)
def test_every_agent_needs_a_policy(policies, said):
    with pytest.raises(SettingsError, match=said):
        hk.evaluate(meeting(), policies, 1)


def test_what_plays_in_an_environment_has_to_be_a_policy():
    with pytest.raises(SettingsError, match="runs, policies or a folder of runs are needed, got function"):
        hk.evaluate(hk.gym.team_env(meeting()), [to_center], 1)


# Reviews.


def test_policies_from_elsewhere_can_be_watched_in_a_report(tmp_path):
    task = meeting()
    env = hk.gym.team_env(task, max_episode_steps=20)
    review = hk.gym.play_tests(env, TOGETHER, episodes=3)
    assert (review.episodes, review.successes, review.own_successes, review.policy) == (3, 3, (3, 3), "greedy")
    assert review.visits.tolist() == [[0, 3, 3, 3, 0, 0], [0, 0, 0, 6, 3, 0]]
    [replay] = review.replays.values()
    assert replay.points[:, :, 0].tolist() == [[0.5, 5.5], [1.5, 4.5], [2.5, 3.5], [3.5, 3.5]]
    assert (replay.points[:, :, 1] == 0.5).all() and replay.events == ((3, "meet"),)
    assert hk.gym.play_tests(env, dict.fromkeys(task.agents, lambda seen: STAY), episodes=2).successes == 0
    tests = hk.TestEpisodes(np.array([10]), np.array([3]), np.array([True]))
    record = hk.Record(task.name, task.digest, "by hand", 0, 10, {}, {"greedy": tests}, test_summary=review)
    [section] = hk.summarize(hk.save_records(tmp_path, [record], [task])).sections
    assert section.scene == scene_of(task) and section.groups[0].replays.keys() == {(0, "greedy")}
    assert "by hand" in hk.write_report(tmp_path, tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_world_that_does_not_say_where_agents_are_cannot_be_watched():
    env = hk.gym.team_env(meeting(), max_episode_steps=3)
    blind = dict.fromkeys(env.possible_agents, lambda seen: STAY)
    assert hk.gym.play_episode(env, blind).replay is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(env), "where", None)
        assert hk.gym.play_episode(env, blind).replay is None
        assert hk.gym.play_tests(env, blind, episodes=1).replays == {}


def test_without_the_extra_there_is_an_error_that_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "hocket.adapters.policies", None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[gym\]'"):
        hk.evaluate(meeting(), TOGETHER, episodes=1)
