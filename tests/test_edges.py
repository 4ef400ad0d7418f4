"""Edges (enters, leaves, stays at): the words by definition, and every engine against an interpreter written apart."""

import tomllib
from dataclasses import replace
from random import Random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given

import hocket as hk
from algorithm import DefinedTeam, DefinedWorld, train_agent, train_as_one
from hocket.errors import TaskError
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.cqrm.block import CqrmBlock
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.dqprm.block import DqprmBlock
from hocket.learn.optimal.block import solve_at_once, solve_in_order
from hocket.runtime.launch import run_team
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Participant
from hocket.runtime.recording import verify
from hocket.task.conditions import parse_conditions, write_conditions
from hocket.task.endless import StepKinds, find_endless
from hocket.task.files import task_from
from hocket.task.grid import ACTIONS
from hocket.task.individual import individual_table
from hocket.task.settling import EndlessError, settle
from hocket.task.tables import compile_task
from hocket.task.tables import settle as settle_cases
from hocket.task.teamwork.joint import fewest_steps, joint_space
from hocket.task.teamwork.planning import Planner
from hocket.task.teamwork.play import TeamMoves
from interpreter import TurningError, interpret
from task_strategies import few, is_met, random_pair, seeds, with_edges
from walks import shortest_actions
from worlds import Individual, action_values, doorbell, line
from worlds import fewest_steps as fewest_by_search

NAMES, PLACES = ("A1", "A2"), ("red", "blue")


def edge_task(seed: int) -> hk.Task:
    """Draw a task with edges in which steps settle."""
    rng = Random(seed)
    while True:
        pair = random_pair(rng)
        task = with_edges(pair.listed if rng.random() < 0.5 else pair.lazy, rng.randrange(10**9))
        if task.edges and find_endless(task) is None:
            return task


def steps_of(task: hk.Task) -> list[tuple[int, int]]:
    """List all steps that anybody can take on a map, gates aside."""
    floor = [cell for cell in range(task.grid.cells) if cell not in task.grid.walls]
    return sorted({(cell, task.grid.neighbor(cell, action)) for cell in floor for action in range(len(ACTIONS))})


# Words.


@pytest.mark.parametrize(
    ("sentence", "before", "after", "holds"),
    [
        ("A1 enters red", 0, 1, True),
        ("A1 enters red", 1, 1, False),
        ("A1 enters red", None, 1, False),
        ("A1 leaves red", 1, 0, True),
        ("A1 leaves red", 0, 0, False),
        ("A1 leaves red", None, 0, False),
        ("A1 stays at red", 1, 1, True),
        ("A1 stays in red", 0, 1, False),
        ("A1 stays at red", None, 1, False),
        ("A1 enters red or blue", 1, 2, True),
        ("A1 enters red or leaves blue", 2, 3, True),
        ("A1 enters blue or at red", 1, 1, True),
        ("A1 enters red or stays at red", 0, 1, True),
        ("A1 enters red or stays at red", 1, 1, True),
        ("A1 enters red or stays at red", 1, 0, False),
        ("A1 enters red or stays at red", None, 1, False),
    ],
)
def test_a_word_says_where_an_agent_is_and_where_it_was(sentence, before, after, holds):
    grid = line(4, red=1, blue=2)
    machine = hk.RewardMachine(initial="0", transitions={("0", "go"): "1"}, final={"1"})
    conditions = parse_conditions(sentence, ["A1"], grid.places, "events.go")
    task = hk.Task("t", grid, {"A1": hk.Agent(0, ["go"])}, {"go": conditions}, machine)
    assert task.holds("A1", "go", after, before) is holds is is_met(grid, conditions["A1"], after, before)
    assert task.edges == {"go"}


@pytest.mark.parametrize(
    "sentence",
    ["A1 and A2 enter red", "A1 leaves red and A2 stays at blue", "A1 and A2 stay at red or enter blue",
     "A1 enters red and A2 anywhere", "A1 leaves red or not at blue"],
)  # fmt: skip
def test_sentences_with_edges_are_read_as_they_are_written(sentence):
    assert write_conditions(parse_conditions(sentence, NAMES, PLACES, "events.go")) == sentence


def test_who_enters_or_stays_is_there_once_in_a_step_wherever_it_was():
    machine = hk.sequence("go", "go", "go")
    at, once = (
        hk.Task("t", line(3, red=1), {"A1": hk.Agent(0, ["go"])}, parse_conditions_of(sentence), machine)
        for sentence in ("A1 at red", "A1 enters red or stays at red")
    )
    assert compile_task(once).arrivals == compile_task(at).arrivals == 3
    steps = []
    for task in (at, once):
        episode = hk.TeamEpisode(task)
        steps.append(len(episode.step({"A1": "right"}).events) + 10 * len(episode.step({"A1": "stay"}).events))
    assert steps == [3, 11]


def parse_conditions_of(sentence):
    return {"go": parse_conditions(sentence, ["A1"], ["red"], "events.go")}


def test_several_agents_may_be_said_to_enter_in_either_number():
    one, other = (parse_conditions(f"all {word} red", NAMES, PLACES, "events.go") for word in ("enter", "enters"))
    assert one == other == dict.fromkeys(NAMES, hk.Condition("red", was=False))


def test_a_word_that_does_not_exist_is_answered_with_those_that_do():
    expected = "expected at, in, not at, not in, enters, leaves, stays at or anywhere before 'stays red'"
    with pytest.raises(TaskError, match=expected):
        parse_conditions("A1 stays red", NAMES, PLACES, "events.go")
    with pytest.raises(TaskError, match="at, not at, enters, leaves or stays at"):
        hk.Condition("red", inside=False, was=False)


# The step of a team.


@few
@given(seeds)
def test_a_step_settles_as_the_interpreter_says(seed):
    task, rng = edge_task(seed), Random(seed)
    tables, moves = compile_task(task), steps_of(task)
    cases = []
    for _ in range(60):
        pairs = {name: rng.choice(moves) for name in task.agents}
        before, cells = ({name: pair[side] for name, pair in pairs.items()} for side in (0, 1))
        states = {name: rng.choice(tuple(machine.states)) for name, machine in task.machines.items()}
        try:
            rounds, after = interpret(task, cells, states, before)
        except TurningError:
            with pytest.raises(EndlessError):
                settle(task, cells, states, before)
            continue
        settled = settle(task, cells, states, before)
        assert [list(events) for events in settled.rounds] == rounds and dict(settled.states) == after
        assert all(settled.events.count(event) <= 1 for event in task.edges)
        cases.append((before, cells, states, rounds, after))
    number = [{state: place for place, state in enumerate(machine.states)} for machine in task.machines.values()]
    was, ends, states, after = (
        np.array([list(case[part].values()) for case in cases], object) for part in (0, 1, 2, 4)
    )
    states, after = (
        np.array([[of[s] for of, s in zip(number, row, strict=True)] for row in part]) for part in (states, after)
    )
    found = settle_cases(tables, tables.kinds(was.astype(int), ends.astype(int)), states)
    assert np.array_equal(found.state, after)
    names = list(task.events)
    assert [[names[event] for event in events] for events in found.events()] == [
        [event for events in case[3] for event in events] for case in cases
    ]


@few
@given(seeds)
def test_steps_of_one_kind_meet_the_same_conditions(seed):
    task = edge_task(seed)
    for name in task.agents:
        kinds = StepKinds.of(task, name)
        for before, after in steps_of(task):
            kind = kinds.kind[kinds.offset[before] + after]
            for event in task.events:
                condition = task.events[event].get(name, hk.Condition())
                assert kinds.where(event)[kind] == is_met(task.grid, condition, after, before)


# Learners, planners and environments. (Random tasks of all other tests have edges, too: see `task_strategies`.)


def bell_tower(slip: float = 0.1) -> hk.Task:
    """Let A1 ring twice, which takes it out of the tower in between, and A2 come to A1 while it stays there."""
    grid = hk.Grid(2, 4, frozenset(), {"tower": {2, 3}, "door": {1, 5}})
    sentences = {
        "ring": "A1 enters tower",
        "out": "A1 leaves tower",
        "rest": "A1 stays at tower",
        "meet": "A1 at tower and A2 enters tower or door",
    }
    moves = {("0", "ring"): "1", ("1", "out"): "2", ("2", "ring"): "3", ("3", "rest"): "4", ("4", "meet"): "5"}
    return hk.Task(
        "bell tower",
        grid,
        {"A1": hk.Agent(0, ("ring", "out", "rest", "meet")), "A2": hk.Agent(4, ("rest", "meet"))},
        {event: parse_conditions(said, NAMES, grid.places, event) for event, said in sentences.items()},
        hk.RewardMachine(initial="0", transitions=moves, final={"5"}),
        slip=slip,
    )


@pytest.mark.parametrize("seeds_at_once", [1, 16])
def test_compiled_q_learning_is_that_of_plain_python(seeds_at_once):
    task = bell_tower()
    tables, settings = compile_task(task), DqprmSettings(team_review="off")
    block = DqprmBlock(tables, settings, range(seeds_at_once))
    block.train(0, 3_000)
    for index, name in enumerate(task.agents):
        agent = train_agent(DefinedWorld(task, name), settings, 0, 3_000)
        np.testing.assert_array_equal(block.arrays(0)["q"][index, :, :, : agent.q.shape[2]], agent.q)
        assert (agent.q > 0).any()


def test_compiled_learning_as_one_is_that_of_plain_python():
    task = bell_tower()
    block = CqrmBlock(compile_task(task), CqrmSettings(), [3])
    block.train(0, 600)
    expected = train_as_one(DefinedTeam(task), CqrmSettings(), 3, 600)
    np.testing.assert_allclose(block.arrays(0)["q"], expected, atol=1e-6)


def test_planners_agree_with_value_iteration_by_definition():
    task = bell_tower()
    for index, name in enumerate(task.agents):
        expected = action_values(Individual(task, name))
        tables = compile_task(task)
        table = individual_table(tables, index, 0.3)
        planner = Planner(table, *TeamMoves.true(tables).outcomes(index))
        for values in (
            solve_at_once(table, 0.9, 1e-9), solve_in_order(table, 0.9, 1e-9), planner.values(table, 0.9)
        ):  # fmt: skip
            np.testing.assert_allclose(values, expected, atol=1e-5)


def test_the_fewest_joint_steps_are_those_of_a_search_by_definition():
    task = bell_tower(slip=0.0)
    assert fewest_steps(joint_space(compile_task(task))) == fewest_by_search(task) == 5
    (run,) = hk.train(task, "optimal-team", seeds=1, steps=1_000)
    assert run.all_tests[-1].test_steps == 5


@pytest.mark.parametrize("learner", ["cqrm", "sweep", "optimal", "optimal-team"])
def test_learners_find_the_shortest_way_with_edges(learner):
    task = doorbell()
    runs = hk.train(task, learner, seeds=2, steps=4_000, settings={"max_episode_steps": 60})
    assert fewest_steps(joint_space(compile_task(task))) == 4
    assert all(min(trial.test_steps for trial in run.all_tests) == 4 for run in runs)


def test_exact_values_are_those_of_episodes_in_plain_python():
    task = bell_tower()
    (run,) = hk.train(task, "optimal", seeds=1, steps=1)
    aimless = replace(run.policy, arrays={"q": np.zeros_like(run.policy.arrays["q"])})
    taken = []
    for number in range(400):
        episode = hk.TeamEpisode(task, 7, number, strict=False)
        while not episode.done:
            episode.step(episode.random_actions())
        taken.append(episode.time)
    exact = hk.evaluate_exact(task, aimless, greedy=False)
    assert abs(np.mean(taken) - exact.mean_steps) < 4 * np.std(taken) / 20


def test_environments_do_what_episodes_do():
    task = bell_tower()
    env, vector, episode = hk.gym.team_env(task), hk.gym.team_vector_env(task, 1), hk.TeamEpisode(task, 5)
    env.reset(seed=5)
    vector.reset(seed=5)
    happened = 0
    for _ in range(300):
        actions = episode.random_actions()
        seen = episode.step(actions)
        numbers = {name: ACTIONS.index(action) for name, action in actions.items()}
        _, _, _, _, infos = env.step(numbers)
        _, _, _, _, told = vector.step(np.array([[*numbers.values()]]))
        assert env.cells == seen.cells and env.states == seen.states
        assert {event for info in infos.values() for event in info["events"]} == set(seen.events)
        assert {event for event, flag in zip(task.events, told["happened"][0], strict=True) if flag} == set(seen.events)
        happened += len(seen.events)
        if seen.done:
            break
    assert happened >= 5


# Tasks of sentences.

RING = """
map = "1.B.A.2"
[legend]
B = "bell"
A = "answer"
[agents]
A1 = { start = "1", knows = ["ring", "answer"] }
A2 = { start = "2", knows = ["ring", "answer"] }
[events]
ring = "A1 at bell"
answer = "A2 at answer"
[machine]
"""
COUNTED = 'declare = ["exactly(ring, 2)", "alternate_response(ring, answer)"]'


def test_in_a_task_of_a_sentence_at_means_enters_for_events_of_one_agent(tmp_path):
    task = task_of(RING + COUNTED)
    assert task.document()["events"] == {"ring": "A1 enters bell", "answer": "A2 enters answer"}
    assert hk.check_task(task).ok
    hk.save_task(task, tmp_path / "ring.toml")
    assert hk.load_task(tmp_path / "ring.toml").digest == task.digest
    several = task_of(
        RING.replace("A2 at answer", "A1 not at bell and A2 at answer") + 'formula = "F(ring & F answer)"'
    )
    assert several.document()["events"] == {"ring": "A1 enters bell", "answer": "A1 not at bell and A2 at answer"}


def test_a_task_of_a_sentence_may_say_that_at_means_at():
    task = task_of(f"{RING}edges = false\n{COUNTED}")
    assert task.document()["events"] == {"ring": "A1 at bell", "answer": "A2 at answer"}
    verdict = hk.check_task(task)
    assert not verdict.ok
    assert (
        "in which ring happens and in the same step ring again; the condition of ring holds for as long as an agent is "
        "there: say that it enters or leaves instead."
    ) in str(verdict)
    with pytest.raises(hk.HocketError, match=r"machine\.edges: must be true or false, got 0"):
        task_of(f"{RING}edges = 0\n{COUNTED}")


POUR = """
map = '''
L..S..R
1..X...
'''
[legend]
L = "left"
R = "right"
S = "sink"
X = "exit"
[agents]
A1 = { start = "1", knows = ["pourL", "pourR", "clean", "leave"] }
[events]
pourL = "A1 at left"
pourR = "A1 at right"
clean = "A1 at sink"
leave = "A1 at exit"
[machine]
regex = "(pourL | pourR) clean leave"
"""


def test_an_expression_that_forbids_repetition_can_be_done_on_a_map():
    verdict = hk.check_task(task_of(POUR))
    assert verdict.ok and verdict.as_json()["team"]["success"] > 0.99


def test_what_happens_on_every_way_to_a_place_is_named():
    verdict = hk.check_task(task_of(f"{POUR}edges = false"))
    assert verdict.unreachable_problems == (
        "A1 never proposes pourR in state pourL clean leave: pourL, clean or leave happens before it is at right.",
    )


def test_an_event_that_ruins_the_task_by_happening_again_is_named():
    text = POUR.replace("L..S..R\n1..X...", "L..1..R\n...S...\n...X...")
    verdict = hk.check_task(task_of(f"{text}edges = false"))
    assert verdict.unreachable_problems == (
        "The local reward machine of A1 can never reach a final state; the condition of pourL and pourR holds for as "
        "long as an agent is there: say that it enters or leaves instead.",
    )
    assert hk.check_task(task_of(text)).ok


def test_an_edge_that_is_out_of_reach_is_named():
    grid = line(3, bell=0)
    machine = hk.RewardMachine(initial="0", transitions={("0", "ring"): "1"}, final={"1"})
    inside = hk.Grid(1, 3, frozenset({1}), grid.places)
    events = {"ring": {"A1": hk.Condition("bell", was=False)}}
    verdict = hk.check_task(hk.Task("t", inside, {"A1": hk.Agent(0, ["ring"])}, events, machine))
    assert verdict.unreachable_problems == ("A1 never proposes ring in state 0: no step that enters bell is possible.",)


def task_of(text: str) -> hk.Task:
    return task_from(tomllib.loads(text))


# Wrapped worlds.


class Blinking(gymnasium.Env):
    """A lamp that is on in some steps."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return int(action), 0.0, False, False, {}


@pytest.mark.parametrize(("edges", "expected"), [((), [1, 2, 3, 4]), (("on",), [1, 1, 1, 2])])
def test_an_event_of_a_label_happens_once_per_step_or_once_per_change(edges, expected):
    machine = hk.RewardMachine(
        initial="0", transitions={(str(number), "on"): str(number + 1) for number in range(9)}, final={"9"}
    )

    def label(step):
        return "on" if step.observation else None

    def team_label(step):
        return "on" if step.observations["lamp"] else None

    given = {"machine": machine, "knows": {"lamp": {"on"}}, "label": team_label, "edges": edges}
    team = hk.gym.wrap({"lamp": Blinking()}, **given)
    individual = team.individual("lamp", Blinking(), label)
    for _ in range(2):  # a reset is no change
        team.reset()
        individual.reset()
        seen = []
        for lamp in (1, 1, 1, 0, 1):
            team.step({"lamp": lamp})
            individual.step(lamp)
            assert team.states["lamp"] == individual.state
            if lamp:
                seen.append(int(individual.state))
        assert seen == expected


def test_edges_of_a_wrapped_world_are_events_of_its_machine():
    machine = hk.RewardMachine(initial="0", transitions={("0", "on"): "1"}, final={"1"})
    with pytest.raises(
        hk.HocketError, match=r"edges: event 'onn' does not exist in this machine \(did you mean 'on'\?\)"
    ):
        hk.gym.wrap(
            {"lamp": Blinking()}, machine=machine, knows={"lamp": {"on"}}, label=lambda step: None, edges=["onn"]
        )


# Runs of processes.


def test_a_participant_agrees_on_an_edge_once_after_a_move():
    machine = hk.RewardMachine(
        initial="0", transitions={("0", "ring"): "1", ("1", "ring"): "2", ("2", "ring"): "3"}, final={"3"}
    )
    plan = Plan.of(hk.decompose(machine, {"A1": ["ring"]}, {"ring": ["A1"]}), edges={"A1": ["ring"]})
    node = Participant(plan, 0)
    entries = list(node.start().entries)
    for stamp, state in ((1, 1), (1, 1), (2, 2), (2, 2)):
        entries += node.perceive(1, stamp).entries
        assert node.state == state
        again = Participant.recover(plan, 0, entries)
        again.start()
        again.perceive(1, stamp)
        assert again.state == state


def test_a_team_of_processes_does_a_task_with_edges(tmp_path):
    task = task_of(RING + 'formula = "F(ring & F(answer & F ring))"')
    outcome = run_team(task, shortest_actions(task), tmp_path / "run", pace=200, durable=False)
    assert outcome.complete
    assert verify(tmp_path / "run").ok


# Exploration.


def test_a_machine_over_edges_is_learnt_by_walking():
    task = task_of(RING + 'formula = "F(ring & F(answer & F ring))"')
    explored = hk.explore(task, seed=0)
    assert explored.is_complete
    learnt = explored.task
    assert hk.check_task(learnt).ok
    assert learnt.machine.run(["ring", "answer", "ring"], undefined="stay").state in learnt.machine.final
