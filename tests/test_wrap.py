"""Other people's worlds as tasks: what happens, what is refused, and that it is the same as in hocket's own world."""

import copy
import warnings
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import assume, given
from hypothesis import strategies as st
from pettingzoo import ParallelEnv

import hocket as hk
from hocket.adapters.convert import to_individual
from hocket.adapters.events import Synchronisation
from hocket.machine.names import Names
from hocket.task.episode import SYNC_PROBABILITY
from searches import examples
from strategies import composed_teams, quick, teams
from task_strategies import team_tasks

with warnings.catch_warnings():  # it imports a game in a way that it calls deprecated itself
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import parallel_api_test, parallel_seed_test

MEETING = hk.RewardMachine(
    initial="apart",
    transitions={("apart", "fetch"): "ready", ("ready", "meet"): "met", ("met", "leave"): "over"},
    final={"over"},
)
some = examples(20)
KNOWS = {"A1": {"fetch", "meet"}, "A2": {"meet", "leave"}}


class Words(ParallelEnv):
    """A world in which agents say words: an action is the number of a word, and everybody hears the last of each.

    Each agent leaves after as many steps as `lives` gives it, and all are cut off after `longest`.
    """

    metadata: ClassVar = {"name": "words"}

    def __init__(self, words=("nothing",), agents=("A1", "A2"), lives=None, longest=50, reuses=False):
        self.words, self.possible_agents, self.longest = list(words), list(agents), longest
        self.reuses = reuses  # the same array for all observations, as hasty worlds do
        self.lives = {} if lives is None else lives
        self.agents = []
        self.spaces = {agent: spaces.Discrete(len(self.words)) for agent in agents}
        self.seen = {agent: spaces.Box(0, len(self.words), (len(agents),), np.int64) for agent in agents}

    def observation_space(self, agent):
        return self.seen[agent]

    def action_space(self, agent):
        return self.spaces[agent]

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, list(self.possible_agents)
        if seed is not None or not hasattr(self, "rng"):
            self.rng = np.random.default_rng(seed)
        self.heard = self.rng.integers(0, len(self.words), len(self.possible_agents))
        return self.hear(self.agents), {agent: {} for agent in self.agents}

    def hear(self, agents):
        return {agent: self.heard if self.reuses else self.heard.copy() for agent in agents}

    def step(self, actions):
        self.time += 1
        for place, agent in enumerate(self.possible_agents):
            self.heard[place] = actions.get(agent, 0)
        acted, self.agents = self.agents, [a for a in self.agents if self.time < self.lives.get(a, np.inf)]
        ended = self.time >= self.longest
        gone = {agent: agent not in self.agents for agent in acted}
        self.agents = [] if ended else self.agents
        return (
            self.hear(acted),
            {agent: float(self.heard.sum()) for agent in acted},
            gone,
            dict.fromkeys(acted, ended),
            {agent: {"heard": self.time} for agent in acted},
        )


def said_by_each(step):
    """Let each agent notice the event that it says."""
    words = step.env.words
    return {agent: words[said] if words[said] != "nothing" else None for agent, said in step.actions.items()}


def said_by_anyone(step):
    """Let all notice what anyone says."""
    return {step.env.words[said] for said in step.actions.values()} - {"nothing"}


def talk(machine=MEETING, knows=KNOWS, label=said_by_each, agents=("A1", "A2"), lives=None, longest=50, **settings):
    words = ("nothing", *machine.events)
    return hk.gym.wrap(Words(words, agents, lives, longest), machine=machine, knows=knows, label=label, **settings)


def say(env, **words):
    return env.step({agent: env.env.words.index(words.get(agent, "nothing")) for agent in env.agents})


# What happens.


def test_agents_see_their_own_machine_and_are_paid_when_the_team_is_done():
    env = talk()
    observations, infos = env.reset(seed=0)
    assert {agent: seen["machine"] for agent, seen in observations.items()} == {"A1": 0, "A2": 0}
    assert infos["A1"] == {
        "events": (), "event": None, "proposed": (), "machine_state": "apart", "raw_reward": 0.0,
    }  # fmt: skip
    _, rewards, terminated, _, infos = say(env, A1="fetch")
    assert rewards == {"A1": 0.0, "A2": 0.0}
    assert (infos["A1"]["event"], infos["A2"]["event"]) == ("fetch", None)
    assert infos["A1"]["raw_reward"] == 1.0 and infos["A1"]["heard"] == 1
    assert env.team_state == "ready" and env.states == {"A1": "ready", "A2": env.machines["A2"].initial}
    say(env, A1="meet", A2="meet")
    observations, rewards, terminated, truncated, infos = say(env, A2="leave")
    assert rewards == {"A1": 1.0, "A2": 1.0} and terminated == {"A1": True, "A2": True}
    assert truncated == {"A1": False, "A2": False}
    assert env.completed and env.agents == [] and env.team_state == "over"
    assert env.observation_space("A2").contains(observations["A2"])
    with pytest.raises(ResetNeeded):
        env.step({})


def test_a_teams_label_is_proposed_by_all_that_know_the_event():
    env = talk(label=lambda step: ["fetch", "meet", "leave"][step.time - 1])
    env.reset()
    happened = [say(env)[-1] for _ in range(3)]
    assert [infos["A1"]["event"] for infos in happened] == ["fetch", "meet", None]
    assert [infos["A2"]["event"] for infos in happened] == [None, "meet", "leave"]
    assert env.completed


def test_an_event_that_a_machine_does_not_allow_does_not_happen():
    env = talk(label=lambda step: ("meet", "leave"))
    env.reset()
    for _ in range(3):
        say(env)
        assert env.team_state == "apart"


def test_several_agents_may_each_have_an_event_in_a_step():
    both = hk.compose(*(hk.RewardMachine(initial="0", transitions={("0", e): "1"}, final={"1"}) for e in "ab"))
    for label in (said_by_each, lambda step: {"a", "b"}):
        env = talk(both, {"A1": "a", "A2": "b"}, label)
        env.reset()
        *_, infos = say(env, A1="a", A2="b")
        assert [info["event"] for info in infos.values()] == ["a", "b"] and env.completed


def test_who_controls_an_event_makes_it_happen_and_the_others_are_told():
    env = talk(control={"meet": ["A1"]})
    env.reset()
    say(env, A1="fetch")
    *_, infos = say(env, A1="meet")
    assert infos["A2"]["event"] == "meet"


def test_who_only_hears_of_an_event_cannot_make_it_happen():
    env = talk(control={"meet": ["A1"]})
    env.reset()
    say(env, A1="fetch")
    *_, infos = say(env, A2="meet")
    assert infos["A1"]["event"] is None and env.team_state == "ready"


def test_a_composition_needs_no_states_of_its_own():
    task = hk.rendezvous(agents=3)
    env = talk(task.machine, task.knows, lambda step: None, tuple(task.agents))
    env.reset()
    assert isinstance(env.decomposition.machine, hk.Composition) and env.team_state == task.machine.initial
    env.label = lambda step: [event for event in task.machine.events if not event.startswith("l")]  # nobody leaves
    rewards = []
    while env.agents:
        rewards.append(say(env)[1]["A1"])
    assert env.completed and rewards == [0.0] * (len(rewards) - 1) + [1.0]


def test_the_label_sees_what_was_before_and_after_and_remembers_for_an_episode():
    shown = []

    def label(step):
        shown.append(
            copy.deepcopy((step.time, step.previous["A1"], step.observations["A1"], step.actions, step.memory))
        )
        step.memory[step.time] = True

    env = talk(label=label)
    env.env.reuses = True
    for _ in range(2):
        env.reset(seed=3)
        start = env.env.heard.copy()
        say(env, A1="meet", A2="leave")
        say(env, A1="fetch")
    assert [time for time, *_ in shown] == [1, 2, 1, 2]
    assert [memory for *_, memory in shown] == [{}, {1: True}] * 2
    assert shown[2][1].tolist() == start.tolist()
    assert shown[3][1].tolist() == shown[2][2].tolist() == [2, 3] and shown[3][2].tolist() == [1, 0]


def test_agents_that_are_not_of_the_team_keep_what_they_have():
    env = talk(agents=("A1", "A2", "fox"), label=said_by_anyone)
    observations, infos = env.reset(seed=0)
    assert observations["fox"].tolist() == env.env.heard.tolist() and infos["fox"] == {}
    assert env.observation_space("fox") is env.env.observation_space("fox")
    say(env, A1="fetch")
    say(env, A1="meet", A2="meet")
    _, rewards, terminated, _, infos = say(env, A2="leave", fox="leave")
    assert rewards == {"A1": 1.0, "A2": 1.0, "fox": 6.0} and infos["fox"] == {"heard": 3} and all(terminated.values())


def test_a_team_among_others_is_evaluated_by_functions():
    env = talk(agents=("A1", "A2", "fox"), label=said_by_anyone, longest=9)
    number = env.env.words.index
    policies = {
        "A1": lambda seen: number(("fetch", "meet", "nothing")[seen["machine"]]),  # what is next in its machine
        "A2": lambda seen: number("leave"),
        "fox": lambda seen: number("nothing"),
    }
    (result,) = hk.evaluate(env, policies, episodes=3)
    assert (result.success.value, result.mean_steps, list(result.agents)) == (1.0, 2.0, ["A1", "A2"])
    replay = hk.gym.play_episode(env, policies, seed=0)
    assert replay.agents == ("A1", "A2") and replay.events == (("fetch",), ("meet", "leave"))


def test_a_task_that_is_done_from_the_beginning_pays_nothing():
    done = hk.RewardMachine(initial="0", transitions={}, final={"0"}, events={"a"})
    for machine in (done, hk.Composition({"A1": done, "A2": done})):
        env = talk(machine, {"A1": {"a"}, "A2": {"a"}})
        env.reset()
        _, rewards, terminated, _, _ = say(env)
        assert rewards == {"A1": 0.0, "A2": 0.0} and all(terminated.values())


def test_one_agent_that_knows_everything_is_paid_what_its_machine_says():
    rewards = {("0", "a"): -0.5, ("1", "b"): 2.0}
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "0"}, final=(), rewards=rewards)
    for form in (machine, hk.Composition({"A1": machine})):
        env = talk(form, {"A1": {"a", "b"}}, said_by_anyone, agents=("A1",))
        env.reset()
        assert [say(env, A1=word)[1]["A1"] for word in ("a", "a", "b", "a")] == [-0.5, 0.0, 2.0, -0.5]


@quick
@given(teams() | composed_teams(), st.integers(0, 2**32), st.booleans())
def test_whatever_the_labels_say_nobody_rules_out_where_the_team_is(team, seed, controlled):
    """Any answers, of the team or of each agent, about agents of whom some are gone: Theorem 2 holds all the same."""
    rng = Random(seed)
    first = {event: agent for agent in reversed(team.knows) for event in team.knows[agent]}
    control = {event: [agent] for event, agent in first.items()} if controlled else None
    found = hk.decompose(team.machine, team.knows, control)
    assume(found.ok)
    rules = Synchronisation(found, Names(), Names())
    states, trace = {agent: machine.initial for agent, machine in found.machines.items()}, []
    for _ in range(12):
        present = [agent for agent in found.knows if rng.random() < 0.9]
        each = {agent: [event for event in own if rng.random() < 0.5] for agent, own in found.knows.items()}
        answer = each if rng.random() < 0.5 else {event for own in each.values() for event in own}
        happened = rules.settle(answer, states, present, {}).events
        assert len(happened) == len(set(happened))
        assert {agent for event in happened for agent in rules.knowers[event]} <= set(present)
        for event in happened:
            assert not isinstance(answer, dict) or all(event in each[agent] for agent in rules.controllers[event])
            states.update({a: found.machines[a].transitions[states[a], event] for a in rules.knowers[event]})
        trace += happened
        team_state = team.machine.run(trace, undefined="blocking").state
        assert all(team_state in found.machines[agent].members[state] for agent, state in states.items())


# When agents die and worlds end.


def test_an_event_that_a_dead_agent_knows_cannot_happen_any_more():
    env = talk(lives={"A2": 1}, label=lambda step: ["fetch", "meet"][step.time - 1])
    env.reset()
    say(env)
    assert env.agents == ["A1"] and env.team_state == "ready"
    observations, rewards, _, _, infos = say(env)
    assert list(observations) == list(rewards) == list(infos) == ["A1"]
    assert infos["A1"]["event"] is None and env.team_state == "ready"


def test_an_agent_can_propose_an_event_in_its_last_step():
    env = talk(lives={"A1": 2})
    env.reset()
    say(env, A1="fetch")
    _, _, terminated, _, infos = say(env, A1="meet", A2="meet")
    assert terminated == {"A1": True, "A2": False} and infos["A1"]["event"] == "meet"
    _, rewards, *_ = say(env, A2="leave")
    assert env.completed and rewards == {"A2": 1.0}


def test_a_world_that_is_cut_off_is_cut_off():
    env = talk(longest=2)
    env.reset()
    say(env)
    _, rewards, terminated, truncated, _ = say(env)
    assert not any(terminated.values()) and all(truncated.values()) and env.agents == []
    assert rewards == {"A1": 0.0, "A2": 0.0}


@pytest.mark.parametrize("kind", ["dict", "onehot"])
@pytest.mark.parametrize("lives", [{}, {"A1": 7}, {"A1": 3, "A2": 9}], ids=["long", "one dies", "both die"])
def test_a_wrapped_world_passes_pettingzoos_test(kind, lives):
    parallel_api_test(talk(label=said_by_anyone, lives=lives, observation=kind, problems="ignore"), num_cycles=200)


def test_whole_episodes_repeat_with_their_seed():
    parallel_seed_test(lambda: talk(label=said_by_anyone, problems="ignore"), num_cycles=40)


# What the labels must not do.


def two_at_once(step):
    return {"A1": ["fetch", "meet"]}


BRANCHES = hk.RewardMachine(
    initial="0", transitions={("0", "left"): "1", ("0", "right"): "1", ("1", "stop"): "2"}, final={"2"}
)
PROBLEMS = {
    "collaborators who disagree": (lambda step: {"A1": "left"}, "A1 proposed left and A2 did not"),
}


@pytest.mark.parametrize(("label", "said"), PROBLEMS.values(), ids=PROBLEMS)
def test_labels_that_contradict_the_theory_are_an_error(label, said):
    env = talk(BRANCHES, {"A1": BRANCHES.events, "A2": BRANCHES.events}, label)
    env.reset()
    with pytest.raises(hk.errors.LabelError, match=f"^step 1: {said}"):
        say(env)


@pytest.mark.parametrize(("label", "said"), PROBLEMS.values(), ids=PROBLEMS)
def test_labels_that_contradict_the_theory_can_be_a_warning(label, said):
    env = talk(BRANCHES, {"A1": BRANCHES.events, "A2": BRANCHES.events}, label, problems="warn")
    env.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say(env)
    assert all(warning.category is hk.errors.LabelWarning for warning in caught)
    assert any(str(warning.message).startswith(f"step 1: {said}") for warning in caught)


def test_of_two_events_for_an_agent_the_first_in_the_machines_order_happens():
    both = {"A1": BRANCHES.events, "A2": BRANCHES.events}
    for label in (lambda step: ("right", "left"), lambda step: dict.fromkeys(both, ("right", "left"))):
        env = talk(BRANCHES, both, label, problems="ignore")
        env.reset()
        *_, infos = say(env)
        assert infos["A1"]["event"] == infos["A2"]["event"] == "left" and env.team_state == "1"


def test_an_event_on_which_agents_disagree_does_not_happen():
    env = talk(problems="ignore")
    env.reset()
    say(env, A1="fetch")
    say(env, A1="meet")
    assert env.team_state == "ready"


def test_waiting_for_others_is_no_problem_where_it_is_expected():
    env = talk(waits="meet")
    env.reset()
    say(env, A1="fetch")
    say(env, A1="meet")
    assert env.team_state == "ready"
    say(env, A1="meet", A2="meet")
    assert env.team_state == "met"


def test_proposing_what_a_teammates_machine_rules_out_is_no_disagreement():
    env = talk()
    env.reset()
    say(env, A2="meet")
    assert env.team_state == "apart"


def test_two_events_of_which_the_machine_allows_one_are_no_problem():
    env = talk(label=two_at_once)
    env.reset()
    *_, infos = say(env)
    assert infos["A1"]["event"] == "fetch"


def test_being_told_while_noticing_something_else_is_taken_in_one_after_the_other():
    chain = hk.RewardMachine(
        initial="0", transitions={("0", "a"): "1", ("1", "b"): "3", ("0", "b"): "2", ("2", "a"): "3"}, final={"3"}
    )
    env = talk(chain, {"A1": {"a", "b"}, "A2": {"a", "b"}}, control={"a": ["A1"], "b": ["A2"]})
    env.reset()
    *_, infos = say(env, A1="a", A2="b")
    assert infos["A1"]["events"] == ("a", "b") and env.completed


def test_what_is_noticed_once_happens_once():
    twice = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "a"): "2"}, final={"2"})
    env = talk(twice, {"A1": {"a"}, "A2": {"a"}}, label=lambda step: "a")
    env.reset()
    assert [say(env)[-1]["A1"]["events"] for _ in range(2)] == [("a",), ("a",)] and env.completed
    alone = hk.gym.IndividualView(Number(), machine=twice, label=lambda step: "a")
    alone.reset(seed=0)
    assert [alone.step(0)[-1]["events"] for _ in range(2)] == [("a",), ("a",)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("metre", "event 'metre' is not known to the team .*did you mean 'meet'"),
        ({"A1": "leave"}, "event 'leave' is not known to A1"),
        ({"A3": "leave"}, "agent 'A3' is not of the team .*did you mean"),
        (3, "must be None, an event or a collection of events, got 3"),
        ({"A1": {"meet": True}}, "must be None, an event or a collection of events"),
        ([["meet"]], "is not known to the team"),
    ],
    ids=str,
)
def test_an_answer_that_means_nothing_is_an_error_whatever_the_setting(answer, said):
    env = talk(label=lambda step: answer, problems="ignore")
    env.reset()
    with pytest.raises(hk.errors.LabelError, match=said):
        say(env)


# What cannot be wrapped.


def test_a_repair_that_takes_several_agents_is_told_in_one_sentence():
    with pytest.raises(
        hk.errors.AssignmentError, match=r"add a, b to the local event set of A1 and b to the local event set of A2\.$"
    ):
        talk(
            hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"}),
            {"A1": (), "A2": ()},
            control={"a": ["A1"], "b": ["A1", "A2"]},
        )


def test_a_machine_that_is_not_decomposable_is_refused_with_the_reason_and_the_repair():
    with pytest.raises(hk.errors.AssignmentError) as refused:
        talk(knows={"A1": {"fetch", "meet"}, "A2": {"leave"}})
    said = str(refused.value)
    assert "Not decomposable." in said and "The projection of A2 merges" in said
    assert said.endswith("Minimum-cost repair: add meet to the local event set of A2.")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"knows": {**KNOWS, "A3": ()}}, "agent 'A3' does not exist"),
        ({"waits": ["mete"]}, "waits: event 'mete' does not exist .*'meet'"),
        ({"problems": "shout"}, "raised, warned of or ignored, got 'shout'"),
        ({"observation": "one-hot"}, "did you mean 'onehot'"),
        ({"control": {"meet": ["A3"]}}, "agent 'A3' does not exist"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else None,
)
def test_settings_are_checked_before_anything_happens(settings, said):
    with pytest.raises(hk.HocketError, match=said):
        talk(**settings)


def test_what_is_no_environment_is_refused():
    for nothing in (object(), gymnasium.make("CartPole-v1")):
        with pytest.raises(hk.HocketError, match="multi-agent"):
            hk.gym.wrap(nothing, machine=MEETING, knows=KNOWS, label=said_by_each)


# The same as hocket's own world.


class Teleport(ParallelEnv):
    """A world in which an agent's action is the cell to be in, so that any other world's moves can be repeated."""

    metadata: ClassVar = {"name": "teleport"}

    def __init__(self, task):
        self.possible_agents, self.agents = list(task.agents), []
        self.start = {name: agent.start for name, agent in task.agents.items()}
        self.cells = {name: spaces.Discrete(task.grid.cells) for name in task.agents}

    def observation_space(self, agent):
        return self.cells[agent]

    action_space = observation_space

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return dict(self.start), {agent: {} for agent in self.agents}

    def step(self, actions):
        alive = dict.fromkeys(self.agents, False)
        return dict(actions), dict.fromkeys(self.agents, 0.0), alive, dict(alive), {agent: {} for agent in self.agents}


class Cells(gymnasium.Env):
    """The same for one agent."""

    def __init__(self, cells, start):
        self.observation_space = self.action_space = spaces.Discrete(cells)
        self.start = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.start, {}

    def step(self, action):
        return int(action), 0.0, False, False, {}


def holding(task, agent, before, cell):
    """List the events whose conditions an agent meets after a step, as far as it knows them or has a part in them."""
    own = {*task.knows[agent]} | {event for event in task.events if agent in task.control[event]}
    return [event for event in task.events if event in own and task.holds(agent, event, cell, before)]


def listed(task):
    """List the states of the team machine, with its events in the order of the task."""
    team = task.machine.machine() if isinstance(task.machine, hk.Composition) else task.machine
    return hk.RewardMachine(
        initial=team.initial, transitions=team.transitions, final=team.final, states=team.states, events=[*task.events]
    )


def labellings(task):
    """Label as a team, and as agents that each know where they are themselves."""

    def by_team(step):
        held = by_each(step)
        return [event for event in task.events if all(event in held[agent] for agent in task.control[event])]

    def by_each(step):
        return {a: holding(task, a, step.previous[a], cell) for a, cell in step.observations.items()}

    return by_team, by_each


def is_told_once(events):
    """Say whether an answer, which tells of an event once, can tell all that happened."""
    return len({*events}) == len(events)


@some
@given(team_tasks(), st.integers(0, 1000), st.booleans())
def test_a_wrapped_world_has_the_events_and_states_of_hockets_own(task, seed, told):
    task = replace(task, machine=listed(task))
    by_team, by_each = labellings(task)
    for label in (by_team, by_each):
        env = hk.gym.wrap(
            Teleport(task),
            machine=task.machine,
            knows=task.knows,
            control=task.control if told else None,
            label=label,
            waits=task.machine.events,
            observation="index",
        )
        env.reset()
        episode = hk.TeamEpisode(task, seed)
        for _ in range(60):
            expected = episode.step(episode.random_actions())
            if not is_told_once(expected.events):
                break
            observations, rewards, terminated, _, infos = env.step(expected.cells)
            assert env.states == expected.states and env.team_state == expected.team_state
            assert {event for info in infos.values() for event in info["events"]} == set(expected.events)
            if label is by_each:
                assert {agent: info["proposed"] for agent, info in infos.items()} == expected.proposed
            states = {agent: env.machines[agent].states for agent in env.machines}
            assert {
                agent: cell * len(states[agent]) + states[agent].index(expected.states[agent])
                for agent, cell in expected.cells.items()
            } == observations
            assert set(rewards.values()) == {float(expected.done)} and set(terminated.values()) == {expected.done}
            if expected.done:
                break


@some
@given(team_tasks(), st.integers(0, 1000), st.integers(0, 3))
def test_an_individual_view_has_the_events_and_states_of_hockets_own(task, seed, episodes):
    task = replace(task, machine=listed(task))
    env = hk.gym.wrap(
        Teleport(task), machine=task.machine, knows=task.knows, control=task.control, label=labellings(task)[0]
    )
    for agent, own in task.agents.items():

        def label(step, agent=agent):
            return holding(task, agent, step.previous, step.observation)

        individual = env.individual(agent, Cells(task.grid.cells, own.start), label)
        individual.reset(seed=seed)
        for _ in range(episodes):
            individual.reset()
        episode = hk.IndividualEpisode(task, agent, seed, episodes)
        for _ in range(60):
            expected = episode.step(episode.random_action())
            goes_on = len(expected.events) > 1 and not task.edges.isdisjoint(expected.events)  # from states seen before
            if not is_told_once(expected.events) or goes_on:
                break
            _, reward, terminated, truncated, info = individual.step(expected.cell)
            assert (individual.state, info["events"], reward) == (expected.state, expected.events, expected.reward)
            assert info["proposed"] == expected.proposed
            assert (terminated, truncated, info["machine_state"]) == (expected.done, False, expected.state)
            if expected.done:
                break


# An individual agent.

STEPS = hk.RewardMachine(
    initial="0",
    transitions={("0", "up"): "1", ("1", "up"): "2", ("1", "down"): "0", ("2", "call"): "3"},
    final={"3"},
)


class Number(gymnasium.Env):
    """A walk on numbers, with noise: seen as one number or as a vector."""

    def __init__(self, continuous=False, longest=30):
        self.action_space = spaces.Box(-1, 1, (1,)) if continuous else spaces.Discrete(3, start=-1)
        self.observation_space = spaces.Box(-100, 100, (1,)) if continuous else spaces.Discrete(201, start=-100)
        self.longest = longest

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = float(self.np_random.integers(-3, 4)), 0
        return self.seen(), {}

    def seen(self):
        if isinstance(self.action_space, spaces.Box):
            return np.array([self.place], np.float32)
        return round(self.place)

    def step(self, action):
        self.time += 1
        self.place += float(np.ravel(action)[0]) + float(self.np_random.integers(-1, 2))
        return self.seen(), -1.0, False, self.time >= self.longest, {"time": self.time}


def level(step):
    """Notice going up past the machine's own number, going down below 0, and calling from anywhere above."""
    now = float(np.ravel(step.observation)[0])
    proposed = {"0": ("up",) if now > 0 else (), "1": ("up",) if now > 1 else ("down",) if now < 0 else ()}
    return proposed.get(step.state, ("call",) if now > 0 else ())


def test_counterfactuals_are_what_the_same_step_means_in_every_other_state():
    individual = hk.gym.IndividualView(Number(), machine=STEPS, label=level, chances={"up": 0.5, "call": 0.3})
    rng = np.random.default_rng(0)
    differed = 0
    for seed in range(20):
        individual.reset(seed=seed)
        over = False
        while not over:
            before, draws = individual.state, individual.time
            observation, _, terminated, truncated, info = individual.step(int(rng.integers(-1, 2)))
            rows = info["counterfactuals"]
            assert [STEPS.states.index(state) for state in "012" if state != before] == rows.state.tolist()
            for row, state in enumerate(rows.state):
                # The same world and draws with the machine put into the other state.
                twin = hk.gym.IndividualView(Number(), machine=STEPS, label=level, chances={"up": 0.5, "call": 0.3})
                twin.reset(seed=seed)
                twin.time, twin.state = draws, tuple(STEPS.states)[state]
                seen = observation["world"]
                twin.env.step = lambda _, seen=seen: (seen, -1.0, False, False, {})
                then, paid, ended, *_ = twin.step(0)
                assert rows.next_state[row] == then["machine"] and rows.reward[row] == paid
                assert rows.terminated[row] == ended and rows.next_observation["world"][row] == seen
                assert rows.next_observation["machine"][row] == then["machine"]
                assert rows.observation["machine"][row] == state
                differed += then["machine"] != state
            over = terminated or truncated
    assert differed > 20


def test_counterfactuals_begin_where_the_step_began():
    individual = hk.gym.IndividualView(Number(continuous=True), machine=STEPS, label=level, observation="onehot")
    seen, _ = individual.reset(seed=1)
    for _ in range(10):
        before, (seen, *_, info) = seen, individual.step(np.ones(1, np.float32))
        rows = info["counterfactuals"]
        assert (rows.observation[:, 0] == before[0]).all() and (rows.next_observation[:, 0] == seen[0]).all()
        assert (rows.observation[:, 1:].argmax(1) == rows.state).all()
        if individual.state == "3":
            break


def test_only_states_that_are_valid_have_counterfactuals():
    asked = []

    def valid(step, state):
        asked.append((step.state, state))
        return state == "2"

    individual = hk.gym.IndividualView(Number(), machine=STEPS, label=lambda step: None, valid=valid)
    individual.reset(seed=0)
    *_, info = individual.step(0)
    assert info["counterfactuals"].state.tolist() == [2] and asked == [("0", "1"), ("0", "2")]


def test_a_labels_memory_is_not_touched_by_counterfactuals():
    asked = []

    def label(step):
        asked.append((step.time, step.state, list(step.memory.get("states", []))))
        step.memory.setdefault("states", []).append(step.state)

    individual = hk.gym.IndividualView(Number(), machine=STEPS, label=label)
    individual.reset(seed=0)
    individual.step(0)
    individual.step(0)
    assert asked == [(1, state, []) for state in "012"] + [(2, state, ["0"]) for state in "012"]
    individual.reset()
    individual.step(0)
    assert asked[6] == (1, "0", [])


class Buffer(Number):
    """The same walk, seen in one array that is written over, and over after three steps."""

    def reset(self, *, seed=None, options=None):
        self.buffer = np.zeros(1, np.float32)
        return super().reset(seed=seed)

    def seen(self):
        self.buffer[0] = self.place
        return self.buffer

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, self.time >= 3, truncated, info


def test_what_was_seen_before_is_kept_and_the_end_of_the_world_ends_counterfactuals_too():
    shown = []
    label = lambda step: shown.append((float(step.previous[0]), float(step.observation[0])))  # noqa: E731
    individual = hk.gym.IndividualView(Buffer(continuous=True), machine=STEPS, label=label)
    seen, _ = individual.reset(seed=0)
    places = [float(seen["world"][0])]
    for time in range(1, 4):
        *_, terminated, _, info = individual.step(np.ones(1, np.float32))
        places.append(individual.env.place)
        rows = info["counterfactuals"]
        assert rows.observation["world"].tolist() == [[places[-2]]] * 2
        assert terminated == (time == 3) and rows.terminated.tolist() == [time == 3] * 2
    assert shown[::3] == list(pairwise(places)) and len(set(places)) > 1


def test_shared_events_wait_for_simulated_teammates_and_own_ones_do_not():
    machine = hk.RewardMachine(
        initial="0",
        transitions={("0", "own"): "1", ("1", "mine"): "2", ("2", "ours"): "3", ("3", "theirs"): "4"},
        final={"4"},
    )
    env = talk(
        machine,
        {"A1": machine.events, "A2": {"mine", "ours", "theirs"}},
        control={"own": ["A1"], "mine": ["A1"], "ours": ["A1", "A2"], "theirs": ["A2"]},
    )
    alone = env.individual("A1", Number(longest=10_000), lambda step: {"own", "mine", "ours"})
    assert alone.chances == {"ours": SYNC_PROBABILITY, "theirs": SYNC_PROBABILITY} and set(alone.told) == {"theirs"}
    waited = {"ours": 0, "theirs": 0}
    for seed in range(300):
        alone.reset(seed=seed)
        assert alone.step(0)[-1]["events"] == ("own", "mine")  # in one step, and what waits not before the next
        for event in ("ours", "theirs"):
            while alone.step(0)[-1]["event"] != event:
                waited[event] += 1
    mean = (1 - SYNC_PROBABILITY) / SYNC_PROBABILITY  # of a geometric distribution
    deviation = ((1 - SYNC_PROBABILITY) / SYNC_PROBABILITY**2 / 300) ** 0.5
    assert abs(waited["ours"] / 300 - mean) < 4 * deviation and abs(waited["theirs"] / 300 - mean) < 4 * deviation


def test_without_control_every_shared_event_waits():
    env = talk()
    individual = env.individual("A1", Number(), lambda step: None, sync_probability=0.1)
    assert individual.chances == {"meet": 0.1} and not individual.told


def test_of_two_events_at_once_the_first_in_the_machines_order_goes_first_alone_too():
    moves = {("0", "a"): "1", ("0", "b"): "2", ("1", "b"): "2"}
    machine = hk.RewardMachine(initial="0", transitions=moves, final={"2"})
    alone = hk.gym.IndividualView(Number(), machine=machine, label=lambda step: ("b", "a"))
    alone.reset(seed=0)
    *_, info = alone.step(0)
    assert (info["proposed"], info["events"], info["event"]) == (("a", "b"), ("a", "b"), "b")


@pytest.mark.parametrize(
    ("kind", "continuous"),
    [("dict", False), ("onehot", False), ("index", False), ("dict", True), ("onehot", True)],
)
def test_gymnasium_has_nothing_to_say_about_an_individual_view(kind, continuous):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        individual = hk.gym.IndividualView(
            Number(continuous), machine=STEPS, label=level, chances={"up": 0.5}, observation=kind
        )
        check_env(individual, skip_render_check=True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"chances": {"upp": 0.5}}, "event 'upp' does not exist .*'up'"),
        ({"chances": {"up": 1.5}}, "the chance of 'up' must be above 0 and at most 1, got 1.5"),
        ({"told": ["cal"]}, "event 'cal' does not exist .*'call'"),
    ],
    ids=["chances", "probability", "told"],
)
def test_settings_of_an_individual_view_are_checked(settings, said):
    with pytest.raises(hk.HocketError, match=said):
        hk.gym.IndividualView(Number(), machine=STEPS, label=level, **settings)


def test_an_individual_agent_that_is_done_from_the_beginning_has_nothing_left_to_do():
    team = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("0", "b"): "2"}, final={"2"})
    env = hk.gym.IndividualView(Number(), machine=hk.project(team, {"a"}), label=lambda step: "a")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["events"], info["machine_state"]) == (0.0, True, (), "{0,2}")


def test_an_individual_agent_with_rewards_goes_on_in_a_final_state_that_it_may_leave():
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "1"}, final={"0", "1"}, rewards={("0", "a"): 1.0})
    env = hk.gym.IndividualView(Number(), machine=machine, label=lambda step: "a")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["events"], info["machine_state"]) == (1.0, True, ("a",), "1")


def test_an_individual_agent_begins_with_a_reset():
    individual = hk.gym.IndividualView(Number(), machine=STEPS, label=lambda step: ("up", "call"))
    with pytest.raises(ResetNeeded):
        individual.step(0)
    individual.reset(seed=0)
    while not individual.step(0)[2]:
        pass
    with pytest.raises(ResetNeeded):
        individual.step(0)


def test_only_agents_of_the_team_have_an_individual_view():
    with pytest.raises(hk.HocketError, match="agent 'A3' is not of the team"):
        talk().individual("A3", Number(), level)


# Conversions.


class Pairs(gymnasium.Env):
    """Two agents in a gymnasium environment with tuple spaces; the last action of each is what it sees."""

    def __init__(self, places=2, shared=False):
        self.observation_space = spaces.Tuple([spaces.Discrete(4)] * places)
        self.action_space = spaces.Tuple([spaces.Discrete(4) for _ in range(places)])
        self.places, self.shared = places, shared

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return (0,) * self.places, {"time": 0}

    def step(self, actions):
        self.time += 1
        rewards = 1.0 if self.shared else [float(place) for place in range(self.places)]
        return tuple(actions), rewards, self.time >= 5, False, {"time": self.time}


@pytest.mark.parametrize("shared", [False, True])
def test_tuples_become_agents_with_names(shared):
    env = hk.gym.to_parallel(Pairs(shared=shared), agents=("left", "right"))
    parallel_api_test(env)
    env.reset(seed=0)
    observations, rewards, terminated, _, infos = env.step({"right": 3, "left": 1})
    assert observations == {"left": 1, "right": 3} and infos == {"left": {"time": 1}, "right": {"time": 1}}
    assert rewards == ({"left": 1.0, "right": 1.0} if shared else {"left": 0.0, "right": 1.0})
    assert not any(terminated.values())
    for _ in range(4):
        _, _, terminated, truncated, _ = env.step({"right": 3, "left": 1})
    assert all(terminated.values()) and not any(truncated.values()) and env.agents == []


def test_a_world_of_tuples_is_wrapped_as_it_is():
    machine = hk.RewardMachine(initial="0", transitions={("0", "three"): "1"}, final={"1"})
    env = hk.gym.wrap(
        Pairs(),
        machine=machine,
        knows={"agent_1": "three"},
        label=lambda step: "three" if step.observations["agent_1"] == 3 else None,
    )
    env.reset()
    _, rewards, *_ = env.step({"agent_0": 3, "agent_1": 0})
    assert rewards == {"agent_0": 0.0, "agent_1": 0.0}
    _, rewards, *_ = env.step({"agent_0": 0, "agent_1": 3})
    assert rewards["agent_1"] == 1.0 and env.agents == []


def test_a_parallel_world_stays_as_it_is():
    words = Words()
    assert hk.gym.to_parallel(words) is words


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hk.gym.to_parallel(Pairs(), ["one"]), "must be 2 different names"),
        (lambda: hk.gym.to_parallel(Pairs(), ["one", "one"]), "must be 2 different names"),
        (lambda: hk.gym.to_parallel(Words(), ["one", "two"]), "have names already"),
        (lambda: hk.gym.to_parallel(Number()), "Tuple spaces"),
        (lambda: hk.gym.to_parallel(3), "must have reset and step"),
        (lambda: to_individual(Pairs()), "needs an environment for one agent, got agents agent_0, agent_1"),
    ],
    ids=["too few names", "the same name", "names twice", "one agent", "a number", "two agents"],
)
def test_what_cannot_be_converted_is_refused(make, said):
    with pytest.raises(hk.HocketError, match=said):
        make()


def test_an_action_must_be_given_for_every_place():
    env = hk.gym.to_parallel(Pairs())
    env.reset()
    with pytest.raises(hk.HocketError, match="no action of 'agent_1'"):
        env.step({"agent_0": 1})


@pytest.mark.parametrize("world", [lambda: Pairs(places=1), lambda: Words(("a", "b"), ("A1",), longest=5)])
def test_a_multi_agent_world_with_one_agent_serves_an_individual_agent(world):
    env = to_individual(world())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
    individual = hk.gym.IndividualView(world(), machine=STEPS, label=lambda step: "up" if step.action else None)
    individual.reset(seed=0)
    assert individual.step(1)[-1]["event"] == "up"
