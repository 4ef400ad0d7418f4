"""Training in worlds that are not hocket's: tables over what agents see, alone and then as a team."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

import hocket as hk
from hocket.adapters.world_training import LoneAgents, ViewSteps, WrappedAsOne
from hocket.learn.reference import QrmAgent
from hocket.learn.reviews import TeamReviews
from hocket.task.teamwork.play import PlayedEpisodes

LENGTH = 5


class Corridor(gymnasium.Env):
    """A corridor: left, stay and right from the left end; one sees where one is."""

    def __init__(self, kind="number"):
        self.kind, self.action_space = kind, spaces.Discrete(3, start=1)
        self.observation_space = {
            "number": spaces.Discrete(LENGTH),
            "array": spaces.MultiDiscrete([LENGTH, 1]),
            "float": spaces.Box(0, 1, (1,)),
        }[kind]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.seen(), {}

    def seen(self):
        shown = {"number": self.place, "array": np.array([self.place, 0])}
        return shown.get(self.kind, np.array([self.place / LENGTH], np.float32))

    def step(self, action):
        self.place = min(max(self.place + action - 2, 0), LENGTH - 1)
        return self.seen(), 0.0, False, False, {}


DOOR = hk.RewardMachine(
    initial="0", transitions={("0", "key"): "1", ("1", "door"): "2", ("2", "meet"): "3"}, final={"3"}
)
KNOWS = {"A1": {"key", "meet"}, "A2": {"key", "door", "meet"}}
CONTROL = {"key": {"A1"}, "door": {"A2"}, "meet": {"A1", "A2"}}


def here(step):
    """A1 finds the key at the right end, A2 the door; they meet in the middle."""
    place = {agent: int(np.ravel(seen)[0]) for agent, seen in step.observations.items()}
    ends = {"A1": "key", "A2": "door", "ghost": "boo"}
    return {agent: [ends[agent]] if at == LENGTH - 1 else ["meet"] if at == 2 else [] for agent, at in place.items()}


def team(kind="number", machine=DOOR, label=here, **settings):
    worlds = {agent: Corridor(kind) for agent in KNOWS}
    return hk.gym.wrap(worlds, machine=machine, knows=KNOWS, control=CONTROL, label=label, waits=["meet"], **settings)


SETTINGS = {"max_episode_steps": 40, "test_every": 500, "learning_rate": 0.2}


def check_actors(env, policy, run):
    """Let a policy act in a loop of one's own, by what an agent sees and the state of its machine."""
    actors = {agent: policy.actor(agent) for agent in env.machines}
    env.reset(seed=0)
    while env.agents:
        env.step({agent: actors[agent]((env.seen[agent], env.states[agent])) for agent in env.agents})
    assert env.completed and env.time == 6
    assert hk.gym.play_episode(env, run.policy.actors(greedy=False, seed=3), seed=0, max_steps=40).steps <= 40
    assert hk.gym.play_episode(env, actors, seed=0).steps == 6
    place = env.seen["A1"]
    assert actors["A1"].q((place, "0")).shape == (3,)
    assert not actors["A1"].q(({"never": "seen"}, "0")).any() and actors["A1"]((99, "0")) in (1, 2, 3)
    for wrong, said in {
        ("x", "nowhere"): "state 'nowhere' does not exist in the machine of A1",
        5: "a pair .* got 5",
    }.items():
        with pytest.raises(hk.HocketError, match=said):
            actors["A1"](wrong)


@pytest.mark.parametrize("kind", ["number", "array"])
def test_a_team_learns_to_complete_its_task_in_a_world_that_is_not_hockets(kind, tmp_path):
    env = team(kind)
    (run,) = hk.train(env, seeds=1, steps=4_000, settings=SETTINGS)
    tests = run.tests("greedy")
    assert tests.step.tolist() == [500 * number for number in range(1, 9)]
    assert tests.success[-2:].all() and tests.test_steps[-1] == 4 + 2  # to both ends, and back to the middle
    assert run.all_tests[-1].finish == (6, 6)
    results = hk.save_runs(env, [run], tmp_path)
    (evaluation,) = hk.evaluate(env, tmp_path, episodes=3)
    assert evaluation.success.value == 1.0 and evaluation.mean_steps == 6
    (policy,) = hk.load_policies(tmp_path, env)
    assert all(np.array_equal(policy.arrays[name], array) for name, array in run.policy.arrays.items())
    check_actors(env, policy, run)
    assert results.records[0].test_summary.successes == 100
    page = hk.write_report(results, tmp_path / "report.html").read_text()
    assert "dqprm" in page


TRAINED = {"dqprm": 2_000, "iql": 4_000, "hil": 4_000, "cqrm": 4_000}


@pytest.mark.parametrize("learner", TRAINED)
def test_every_learner_that_needs_no_map_trains_a_wrapped_world_and_plays_what_it_learnt(learner, tmp_path):
    env = team()
    settings = {"max_episode_steps": 40, "test_every": 1_000, "learning_rate": 0.5, "temperature": 0.05}
    (run,) = hk.train(env, learner, seeds=[1], steps=TRAINED[learner], settings=settings)
    assert run.learner == learner and run.steps == TRAINED[learner]
    assert run.tests("greedy").success[-1] and run.tests("greedy").test_steps.min() <= 12  # of at least 6
    hk.save_runs(env, [run], tmp_path)
    (policy,) = hk.load_policies(tmp_path, env)
    (evaluation,) = hk.evaluate(env, policy, episodes=3)
    assert evaluation.success.value == 1.0
    if learner != "dqprm":
        with pytest.raises(hk.HocketError, match=f"a policy of {learner} depends on"):
            policy.actor("A1")
    again = hk.train(team(), learner, seeds=[1], steps=TRAINED[learner], settings=settings)[0]
    assert all(np.array_equal(policy.arrays[name], array) for name, array in again.policy.arrays.items())


def test_the_same_seed_learns_the_same_and_others_do_not():
    one, again, other = (
        hk.train(team(), seeds=[seed], steps=600, settings=SETTINGS)[0].policy.arrays for seed in (3, 3, 4)
    )
    assert all(np.array_equal(one[name], again[name]) for name in one) and one.keys() == again.keys()
    assert not all(np.array_equal(one[name], other[name]) for name in one)


class Corridors(ParallelEnv):
    """Two corridors and a third, of somebody who is not of the team, as one world for all of them."""

    metadata: ClassVar = {"name": "corridors"}

    def __init__(self):
        self.possible_agents, self.agents = ["A1", "A2", "ghost"], []
        self.worlds = {agent: Corridor() for agent in self.possible_agents}
        self.acted = set()

    def observation_space(self, agent):
        return self.worlds[agent].observation_space

    def action_space(self, agent):
        return self.worlds[agent].action_space

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return {agent: world.reset(seed=seed)[0] for agent, world in self.worlds.items()}, {}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.acted.add(tuple(actions.items()))
        seen = {agent: self.worlds[agent].step(act)[0] for agent, act in actions.items()}
        flags = dict.fromkeys(seen, False)
        return seen, dict.fromkeys(seen, 0.0), flags, flags, {agent: {} for agent in seen}


def test_settings_by_their_former_name_count_in_a_wrapped_world_too():
    with pytest.warns(DeprecationWarning, match=r"train\(changes=\) is deprecated"):
        (run,) = hk.train(team(), seeds=1, steps=1, settings=SETTINGS, changes={"discount": 0.5})
    assert run.settings.discount == 0.5 and run.settings.learning_rate == 0.2
    assert run.settings.team_review == "world"


def test_agents_of_one_world_train_in_copies_of_it_in_which_the_others_act_at_random():
    def label(step):
        assert step.observations.keys() == {"A1", "A2", "ghost"} and step.env.possible_agents[-1] == "ghost"
        return {agent: said for agent, said in here(step).items() if agent != "ghost"}

    world = Corridors()
    env = hk.gym.wrap(world, machine=DOOR, knows=KNOWS, control=CONTROL, label=label, waits=["meet"])
    (run,) = hk.train(env, seeds=1, steps=3_000, settings=SETTINGS)
    assert run.tests("greedy").success[-1] and run.tests("greedy").test_steps.min() == 6
    (evaluation,) = hk.evaluate(env, run, episodes=3)
    assert evaluation.success.value == 1.0
    assert len({dict(acts)["ghost"] for acts in world.acted}) == 3


def values_of(machine, discount, chance):
    """Compute the values of A2 in the corridor: [places, states, actions], where teammates may be ready."""
    q = np.zeros((LENGTH, 3 + 1, 3))
    names = list(machine.states)
    for _ in range(500):
        old = q.copy()
        for place in range(LENGTH):
            for action in range(3):
                to = min(max(place + action - 1, 0), LENGTH - 1)
                for state, name in enumerate(names[:-1]):
                    event = {"0": "key", "1": "door", "2": "meet"}[name]
                    ready = {"key": True, "door": to == LENGTH - 1, "meet": to == 2}[event]
                    share = 0.0 if not ready else 1.0 if event == "door" else chance
                    further = state + 2 if event == "key" and to == LENGTH - 1 else state + 1  # the door, in a round
                    gained = 1.0 if event == "meet" else discount * old[to, further].max()
                    q[place, state, action] = share * gained + (1 - share) * discount * old[to, state].max()
    return q


def test_an_agent_alone_learns_the_values_that_value_iteration_gives():
    env = team()
    settings = hk.LEARNERS["dqprm"].settings(
        sync_probability=1.0, learning_rate=1.0, temperature=10.0, max_episode_steps=30
    )
    view = env.individual("A2", Corridor(), lambda step: here_alone(step), sync_probability=1.0)
    world = ViewSteps(view, seed=1, agent=1, counterfactuals=True)
    agent = QrmAgent(world, settings, seed=1)
    for t in range(3_000):
        agent.train(t)
    expected = values_of(env.machines["A2"], 0.9, 1.0)
    for place in range(LENGTH):
        np.testing.assert_allclose(agent.q[world.numbers[place]].T[:3], expected[place, :3], atol=1e-6)


def here_alone(step):
    return {LENGTH - 1: "door", 2: "meet"}.get(step.observation)


def test_a_team_as_one_learns_the_values_that_value_iteration_gives():
    """Both corridors are deterministic: with a learning rate of 1 values are the discount to the power of steps."""
    settings = hk.LEARNERS["cqrm"].settings(learning_rate=1.0, temperature=10.0, max_episode_steps=30)
    world = WrappedAsOne(team(), seed=1, counterfactuals=True)
    learner = QrmAgent(world, settings, seed=1)
    for t in range(6_000):
        learner.train(t)
    q = learner.q
    state = world.team.index_of
    here = world.numbers[1, 3]  # A1 one step to the left of the middle, A2 one to the right of it
    assert q[here, :, state["2"]].max() == 1.0 and q[here].argmax(axis=0)[state["2"]] == 2 * 3 + 0
    assert q[here, :, state["1"]].max() == pytest.approx(0.9**2)  # the door, back to the middle: the third step pays
    assert q[here, :, state["0"]].max() == pytest.approx(0.9**4)  # the key first, three steps, and two steps back
    assert q[:, :, state["3"]].max() == 0


def test_agents_find_out_how_ready_their_teammates_are():
    """A2 is told at once of a key that A1, who learns late, does not bring: it expects it less after a review."""
    env = team()
    believed = []
    original = LoneAgents.believe

    def note(self, agent, chances):
        believed.append(chances[agent].copy())
        original(self, agent, chances)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoneAgents, "believe", note)
        hk.train(env, seeds=1, steps=2_500, settings=SETTINGS)
        assert len(believed) > 2 and all((each >= 0).all() and (each <= 1).all() for each in believed)
        believed.clear()
        hk.train(env, seeds=1, steps=2_500, settings={**SETTINGS, "team_review": "off"})
        assert len(believed) == 2


class PlayedTeam:
    """A team whose reviews come out as they are told: (success, steps) each."""

    def __init__(self, *reviews):
        self.reviews, self.trained = [*reviews], 0

    def train(self, begin, steps):
        self.trained += steps

    def arrays(self, index):
        return {"q": np.array([self.trained])}

    def play(self, step, max_steps):
        success, steps = self.reviews.pop(0)
        taken = np.where(np.arange(5) < 5 * success, steps, -1)
        return PlayedEpisodes(taken, None, None, None, np.zeros(5, np.int64), np.zeros(0))

    def count(self, counts, before):
        return before

    def believe(self, agent, chances):
        raise AssertionError


def test_a_team_that_was_found_to_be_worse_than_an_earlier_one_is_not_shown():
    played = PlayedTeam((0, 0), (1, 20), (0.6, 20), (1, 40), (1, 22), (0, 0))
    reviews = TeamReviews(played, np.ones((2, 1, 1)), np.ones((2, 1, 1), np.bool_), 100)
    shown = []
    for begin, stop in ((0, 1_000), (1_000, 2_000), (2_000, 4_000), (4_000, 8_000), (8_000, 16_000), (16_000, 32_000)):
        reviews.train(begin, stop - begin)
        shown.append(int(reviews.arrays()["q"][0]))
    assert shown == [1_000, 2_000, 2_000, 2_000, 16_000, 16_000]
    reviews.train(32_000, 500)
    assert reviews.arrays()["q"][0] == 16_000


def test_views_of_ones_own_are_trained_in():
    env = team(label=lambda step: "key")  # says what happens to all, which no agent alone can use
    with pytest.raises(hk.HocketError, match=r"pass a view of each agent, hk.train\(env, views="):
        hk.train(env, seeds=1, steps=100, settings=SETTINGS)
    ends = {"A1": "key", "A2": "door"}
    views = {
        agent: env.individual(agent, Corridor(), lambda step, e=end: {LENGTH - 1: e, 2: "meet"}.get(step.observation))
        for agent, end in ends.items()
    }
    (run,) = hk.train(env, seeds=1, steps=200, settings={**SETTINGS, "test_every": 100}, views=views)
    assert {"q.0", "seen.0", "q.1", "seen.1"} == set(run.policy.arrays)
    with pytest.raises(hk.HocketError, match="every agent needs a view, got none for A2"):
        hk.train(env, seeds=1, steps=200, views={"A1": views["A1"]})


@pytest.mark.parametrize(
    ("make", "arguments", "said"),
    [
        (lambda: team("float"), {}, "observations that recur, got Box"),
        (team, {"learner": "sweep"}, "sweep needs a task of hocket's own: it knows where on the map"),
        (team, {"learner": "optimal"}, "optimal needs a task of hocket's own: it plans with the map"),
        (team, {"learner": "iql", "views": {}}, "views are for learners that train each agent alone"),
        (team, {"device": "cuda"}, "is on the cpu, got cuda"),
        (team, {"steps": 0}, "steps must be at least 1"),
    ],
)
def test_what_cannot_be_trained_is_refused(make, arguments, said):
    with pytest.raises(hk.HocketError, match=said):
        hk.train(make(), **{"seeds": 1, "steps": 10, **arguments})


def test_a_label_that_fails_in_training_is_named_and_finished_runs_are_kept():
    failures = {"left": 0}

    def label(step):
        failures["left"] -= 1
        if failures["left"] == 0:
            raise KeyError("sensor")
        return here(step)

    env = team(label=label)
    first = len(hk.train(env, seeds=1, steps=300, settings={**SETTINGS, "test_every": 300})[0].all_tests)
    calls, failures["left"] = -failures["left"], 0
    failures["left"] = calls + 50  # in the second of two runs
    with pytest.raises(
        hk.errors.TrainingError, match=r"^seed 1, training step .*: step \d+: .*KeyError: 'sensor'"
    ) as caught:
        hk.train(env, seeds=2, steps=300, settings={**SETTINGS, "test_every": 300})
    assert [run.seed for run in caught.value.runs] == [0] and len(caught.value.runs[0].all_tests) == first


def test_what_a_folder_has_is_not_trained_again(tmp_path):
    """A label that fails in the second of three runs: the same call goes on with it, to the same results."""
    calls, settings = {"left": 0}, {**SETTINGS, "test_every": 300}

    def label(step):
        calls["left"] -= 1
        if calls["left"] == 0:
            raise KeyError("sensor")
        return here(step)

    env = team(label=label)
    hk.train(env, seeds=1, steps=300, settings=settings, folder=tmp_path / "whole")
    calls["left"] = -calls["left"] + 50
    with pytest.raises(hk.errors.TrainingError, match=r"^seed 1, "):
        hk.train(env, seeds=3, steps=300, settings=settings, folder=tmp_path / "killed")
    again = hk.train(env, seeds=3, steps=300, settings=settings, folder=tmp_path / "killed")
    assert [run.seed for run in again] == [1, 2]
    assert hk.train(env, seeds=3, steps=300, settings=settings, folder=tmp_path / "killed") == []
    (whole,), killed = (hk.load_results(tmp_path / name).records for name in ("whole", "killed"))
    assert sorted(record.seed for record in killed) == [0, 1, 2]
    (first,) = (record for record in killed if record.seed == 0)
    assert first.key == whole.key and first.tests["greedy"].test_steps.tolist() == (
        whole.tests["greedy"].test_steps.tolist()
    )
    with pytest.raises(hk.HocketError, match="run_study writes runs of tasks"):
        hk.train("buttons", seeds=1, folder=tmp_path)
