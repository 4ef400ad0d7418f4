"""Learners: the same numbers however the work is cut up, worlds solved by hand, and what is refused."""

import io
import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

import hocket as hk
from hocket.learn.batches import FIRST_PIECE, MOMENT, Pace
from hocket.learn.catalogue import LEARNERS
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.cqrm.block import joint_dynamics
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.dqprm.block import DqprmBlock
from hocket.learn.hil import HilSettings
from hocket.learn.hil.block import HilBlock
from hocket.learn.iql import IqlSettings
from hocket.learn.optimal import OptimalSettings
from hocket.learn.policies import Policy, Run, load_policy
from hocket.learn.settings import ScheduledSettings, Settings, SimulatedSettings
from hocket.learn.training import LARGEST_BLOCK, train
from hocket.task.grid import ACTIONS
from hocket.task.individual import individual_table
from hocket.task.memory import memory_of
from hocket.task.tables import Tables, compile_task
from worlds import (
    LEFT,
    RIGHT,
    STAY,
    Individual,
    action_values,
    at,
    corridor,
    courtyard,
    fewest_steps,
    gatehouse,
    line,
    meeting,
    turnpike,
    warm_kernels,
)

GAMMA = 0.9
WIDE = {"temperature": 10.0, "max_episode_steps": 40}  # settings that explore everything: nearly even choices
SLOW = WIDE | {"learning_rate_decay": 1e-3}  # and rates that fall, so that chances are averaged


@pytest.fixture(scope="session", autouse=True)
def _compiled():
    """Compile what is not on disk before tests in several processes do."""
    warm_kernels()


def learn(task: hk.Task, learner: str, steps: int, seeds=(0,), threads: int = 1, **changes) -> list[Run]:
    """Train with some settings changed."""
    return train(task, learner, seeds, steps, threads=threads, settings=changes)


def values(task: hk.Task, learner: str = "dqprm", steps: int = 20_000, agent: int = 0, **changes) -> np.ndarray:
    """Train one seed without tests; return what an agent has learnt: [cells, actions, machine states or memories]."""
    return learn(task, learner, steps, test_every=steps, test_episodes=0, **changes)[0].policy.arrays["q"][agent]


def greedy_tests(task: hk.Task, learner: str, steps: int, seeds=(0, 1, 2), **changes) -> list[int]:
    """Train some seeds; return how many steps greedy tests take at the end, 5 for each."""
    settings = {"test_every": steps, "test_episodes": 5} | changes
    runs = learn(task, learner, steps, seeds, **settings)
    return [taken for run in runs for taken in run.curve("greedy")[1].tolist()]


def assert_same(one: Run, other: Run) -> None:
    """Require the same tests and the same arrays, to the last bit."""
    assert one.seed == other.seed and one.all_tests == other.all_tests
    assert one.policy.arrays.keys() == other.policy.arrays.keys()
    for name, array in one.policy.arrays.items():
        np.testing.assert_array_equal(array, other.policy.arrays[name], strict=True)


# The same numbers, however the work is cut up.

SMALL = dict.fromkeys(("dqprm", "iql", "hil", "optimal", "sweep"), "buttons") | {
    "cqrm": "meeting",
    "optimal-team": "meeting",
}


def small_task(learner: str) -> hk.Task:
    return meeting(slip=0.1) if SMALL[learner] == "meeting" else hk.load_task(SMALL[learner])


def some_runs(learner: str, seeds, threads: int = 1, **changes) -> dict[int, Run]:
    runs = learn(small_task(learner), learner, 2_500, seeds, threads, **({"test_every": 500} | changes))
    return {run.seed: run for run in runs}


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_seed_gives_the_same_run_whichever_other_seeds_run_beside_it(learner):
    alone = some_runs(learner, [3])[3]
    assert len(alone.all_tests) == 10 and alone.steps == 2_500
    for seeds in ([1, 2, 3], [3, 1], [3, 3], 5, range(4)):
        runs = some_runs(learner, seeds)
        assert_same(runs[3], alone)


@pytest.mark.parametrize("learner", LEARNERS)
def test_runs_are_the_same_for_any_number_of_threads(learner):
    alone = some_runs(learner, 7, threads=1)
    for threads in (2, 3, 16):
        runs = some_runs(learner, 7, threads)
        assert list(runs) == list(range(7))
        for seed, run in runs.items():
            assert_same(run, alone[seed])
    assert_same(some_runs(learner, [3], threads=8)[3], alone[3])  # threads to spare go to its agents


def test_runs_are_the_same_past_the_largest_block():
    last = LARGEST_BLOCK + 1
    runs = some_runs("dqprm", last + 1)
    assert list(runs) == list(range(last + 1))
    for seed in (0, LARGEST_BLOCK - 1, LARGEST_BLOCK, last):
        assert_same(runs[seed], some_runs("dqprm", [seed])[seed])


@pytest.mark.parametrize("learner", LEARNERS)
def test_training_can_be_divided_into_chunks_of_any_length(learner):
    whole, *pieces = (
        some_runs(learner, [0, 4, 9], test_every=length, test_episodes=0) for length in (2_500, 1_000, 100, 7)
    )
    for runs in pieces:
        for seed, run in runs.items():
            assert_same(run, whole[seed])


@pytest.mark.parametrize("learner", ["dqprm", "cqrm", "iql", "hil", "sweep"])
def test_tests_leave_what_is_learnt_alone(learner):
    without, with_many = (some_runs(learner, [2], test_episodes=episodes)[2] for episodes in (0, 20))
    assert len(with_many.all_tests) == 5 * 2 * 20
    assert_same(replace(with_many, all_tests=()), without)


@pytest.mark.parametrize("learner", ["dqprm", "cqrm", "iql", "hil", "sweep"])
def test_different_seeds_learn_differently(learner):
    one, other = some_runs(learner, 2).values()
    assert any((one.policy.arrays[name] != array).any() for name, array in other.policy.arrays.items())


def test_tests_come_when_they_should_and_are_counted_as_they_should():
    (run,) = learn(corridor(3), "dqprm", 2_500, [0], test_every=1_000, test_episodes=2, max_episode_steps=50)
    assert [(trial.step, trial.policy) for trial in run.all_tests] == [
        (step, policy) for step in (1_000, 2_000) for policy in ("softmax", "softmax", "greedy", "greedy")
    ]
    steps, taken = run.curve("greedy")
    assert steps.tolist() == [1_000, 1_000, 2_000, 2_000] and taken.tolist() == [2, 2, 2, 2]
    assert all(trial.success for trial in run.all_tests)


def test_a_test_that_fails_counts_as_the_most_steps():
    (run,) = learn(gatehouse(), "dqprm", 10, [0], test_every=10, max_episode_steps=6)  # it takes 7
    assert {(trial.test_steps, trial.success) for trial in run.all_tests} == {(6, False)}


def test_a_run_and_its_policy_are_written_on_a_line_each():
    (run,) = learn(corridor(4), "dqprm", 2_000, test_every=1_000)
    assert repr(run) == "<Run of dqprm on 'corridor', seed 0: 2,000 steps, 4 tests>"
    assert repr(run.policy) == "<Policy of dqprm on 'corridor', seed 0: q [1, 4, 5, 2]>"
    assert repr(replace(run.policy, arrays={})) == "<Policy of dqprm on 'corridor', seed 0: not kept>"


def test_progress_is_told_of_every_step_of_every_agent():
    told = []
    train(gatehouse(), "dqprm", 5, 2_300, threads=2, progress=told.append, settings={"test_every": 1_000})
    assert sum(told) == 2_300 * 5 * 2 and len(told) >= 3 * 2


def test_training_that_is_stopped_returns_what_it_has_done():
    stop = Event()

    def progress(_: int) -> None:
        stop.set()

    (run,) = train(corridor(4), "dqprm", 1, 10_000, progress=progress, stop=stop)
    (whole,) = train(corridor(4), "dqprm", 1, FIRST_PIECE)
    assert run.steps == FIRST_PIECE
    assert_same(run, whole)


@pytest.mark.parametrize("learner", ["dqprm", "cqrm", "iql", "hil", "sweep"])
def test_training_without_tests_in_between_can_be_stopped_as_well(learner):
    stop, never = Event(), 10**8
    changes = {"test_every": never}
    (run,) = train(meeting(), learner, 1, never, progress=lambda _: stop.set(), stop=stop, settings=changes)
    assert run.steps == FIRST_PIECE


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("moment", [0, 1e9])
def test_results_do_not_depend_on_how_long_a_chunk_takes(learner, moment, monkeypatch):
    usual = some_runs(learner, [0, 4])
    monkeypatch.setattr("hocket.learn.batches.MOMENT", moment)  # pieces of fewer and fewer steps, or of more and more
    for seed, run in some_runs(learner, [0, 4]).items():
        assert_same(run, usual[seed])


def test_pieces_of_training_get_longer_until_one_takes_a_moment():
    pace = Pace()
    pace.take(FIRST_PIECE, MOMENT / 10)
    assert pace.steps == 2 * FIRST_PIECE
    pace.take(2 * FIRST_PIECE, MOMENT * 0.7)
    pace.take(FIRST_PIECE, MOMENT / 10)  # a test came before its end
    assert pace.steps == 2 * FIRST_PIECE
    for _ in range(99):
        pace.take(pace.steps, pace.steps * MOMENT)  # a step takes a moment
    assert pace.steps == 1


@pytest.mark.parametrize("seeds", [10_000_001, 10**30, 10**400])
def test_more_seeds_than_anybody_can_list_are_refused_before_they_are_listed(seeds):
    with pytest.raises(hk.HocketError, match="seeds must be at most 10,000,000, got "):
        train(corridor(2), "dqprm", seeds, 1)
    with pytest.raises(hk.HocketError, match="seeds must be at most 10,000,000, got "):
        hk.Study([corridor(2)], seeds=seeds)


def test_pieces_do_not_shrink_where_every_one_costs_the_same():
    pace, trained, seconds = Pace(), 0, 0.0
    while trained < 10_000:
        taken = 0.5 + 1e-5 * pace.steps  # of a thousand agents, calling each of them takes longest
        trained, seconds = trained + pace.steps, seconds + taken
        pace.take(pace.steps, taken)
    assert pace.steps >= FIRST_PIECE and seconds < 60


# Worlds solved by hand: a corridor.


def corridor_values(cells: int) -> np.ndarray:
    """Solve the corridor: the end is worth 1 on arrival, and a step less for each step more."""
    q = np.zeros((cells, len(ACTIONS)))
    for cell in range(cells - 1):
        away = cells - 1 - cell
        q[cell] = GAMMA**away  # a step is lost
        q[cell, RIGHT] = GAMMA ** (away - 1)
        q[cell, LEFT] = GAMMA ** (away + (1 if cell else 0))
    q[-1] = 1  # whoever is there already and stays arrives
    q[-1, LEFT] = GAMMA
    return q


@pytest.mark.parametrize("learner", ["dqprm", "optimal"])
@pytest.mark.parametrize("cells", [2, 3, 7])
def test_a_corridor_is_worth_less_by_the_discount_for_each_step(learner, cells):
    q = values(corridor(cells), learner, **WIDE if learner == "dqprm" else {})
    visited = slice(0, cells if learner == "optimal" else cells - 1)  # an episode ends on arrival
    np.testing.assert_allclose(q[visited, :, 0], corridor_values(cells)[visited], atol=1e-5)
    assert not q[:, :, 1].any()  # what is done is worth nothing more


@pytest.mark.parametrize("learner", ["dqprm", "iql", "hil", "optimal"])
@pytest.mark.parametrize("cells", [2, 3, 7])
def test_an_agent_walks_straight_down_a_corridor(learner, cells):
    wide = {"optimal": {}, "hil": {"temperature": 2.0}}.get(learner, WIDE)
    assert set(greedy_tests(corridor(cells), learner, 5_000, **wide)) == {cells - 1}


def test_the_discount_is_the_one_that_is_set():
    q = values(corridor(4), discount=0.5, **WIDE)
    assert q[:3, RIGHT, 0].tolist() == [0.25, 0.5, 1.0]


# Two that meet.

P = 0.3  # chance per step that simulated teammates are ready
THERE = P / (1 - (1 - P) * GAMMA)  # what waiting at the meeting place is worth: P + (1 - P) * GAMMA * THERE


def test_waiting_for_a_teammate_is_worth_what_its_chances_say():
    q = values(meeting(), "optimal")
    best = q[:, :, 0].max(axis=1)
    np.testing.assert_allclose(best, [THERE * GAMMA**away for away in (2, 1, 0, 0, 0, 1)], rtol=1e-6)
    np.testing.assert_allclose(q[3, STAY, 0], THERE, rtol=1e-6)


@pytest.mark.parametrize("chance", [0.1, 1.0])
def test_the_chance_that_teammates_are_ready_is_the_one_that_is_set(chance):
    q = values(meeting(), "optimal", sync_probability=chance)
    np.testing.assert_allclose(q[3, STAY, 0], chance / (1 - (1 - chance) * GAMMA), rtol=1e-6)


def test_a_task_may_set_the_chance_for_an_agent_and_an_event_itself():
    task = meeting()
    agents = {**task.agents, "A1": replace(task.agents["A1"], sync={"meet": 0.5})}
    for agent, chance in enumerate((0.5, P)):
        q = values(replace(task, agents=agents), "optimal", agent=agent)
        np.testing.assert_allclose(q[3, STAY, 0], chance / (1 - (1 - chance) * GAMMA), rtol=1e-6)


def test_learning_to_meet_finds_the_values_worked_out_by_hand():
    for agent in (0, 1):
        q = values(meeting(), steps=1_000_000, agent=agent, **SLOW)
        np.testing.assert_allclose(q[3, STAY, 0], THERE, atol=0.01)
        np.testing.assert_allclose(q[0, RIGHT, 0], THERE * GAMMA**2, atol=0.01)


@pytest.mark.parametrize(
    ("learner", "steps", "changes"),
    [
        ("dqprm", 300_000, SLOW),
        ("cqrm", 100_000, WIDE),
        ("iql", 200_000, {"temperature": 0.3, "max_episode_steps": 40, "learning_rate_decay": 1e-3}),
        ("hil", 50_000, {"temperature": 1.0, "max_episode_steps": 40}),
        ("optimal", 1, {}),
    ],
)
def test_two_agents_meet_in_the_fewest_steps(learner, steps, changes):
    assert fewest_steps(meeting()) == 3
    assert set(greedy_tests(meeting(), learner, steps, **changes)) == {3}


# A gate.


@pytest.mark.parametrize(
    ("learner", "steps", "changes"),
    [("dqprm", 300_000, SLOW), ("cqrm", 300_000, WIDE | {"max_episode_steps": 80}), ("optimal", 1, {})],
)
def test_an_agent_waits_before_a_gate_and_goes_through_when_it_opens(learner, steps, changes):
    assert fewest_steps(gatehouse()) == 7
    assert set(greedy_tests(gatehouse(), learner, steps, **changes)) == {7}


def test_counterfactual_updates_respect_gates():
    """With teammates always ready, the agent is before a closed door for one step of an episode, in cell 0 only.

    What it learns of the closed door in other cells, it learns while the door is open; and yet it learns that the way
    from cell 1 to cell 4 takes a step more while the door is closed, and that there is no way through it either side.
    """
    task = gatehouse()
    closed, opened = 0, 1
    q = values(task, sync_probability=1.0, **WIDE)
    np.testing.assert_allclose(q[:4, RIGHT, opened], GAMMA ** np.array([3, 2, 1, 0]), atol=1e-6)
    np.testing.assert_allclose(q[1, RIGHT, closed], GAMMA * GAMMA**2, atol=1e-6)  # held up: the same as staying
    np.testing.assert_allclose(q[1, STAY, closed], GAMMA * GAMMA**2, atol=1e-6)
    np.testing.assert_allclose(q[3, LEFT, closed], GAMMA, atol=1e-6)  # held up: still a step away
    true = action_values(Individual(task, "A1", 1.0))
    np.testing.assert_allclose(q[:4], true[:4], atol=1e-5)


def test_without_counterfactual_updates_an_agent_learns_only_of_the_state_that_it_is_in():
    q = values(gatehouse(), sync_probability=1.0, counterfactual=False, **WIDE)
    assert not q[1:, :, 0].any()  # the door opens in the first step
    np.testing.assert_allclose(q[:4, RIGHT, 1], GAMMA ** np.array([3, 2, 1, 0]), atol=1e-6)


def test_learning_without_counterfactual_updates_gets_there_too():
    for task, fewest in ((meeting(), 3), (gatehouse(), 7)):
        assert set(greedy_tests(task, "dqprm", 400_000, counterfactual=False, **SLOW)) == {fewest}


# Exact values.


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("name", ["buttons", "rendezvous-2"])
def test_optimal_values_are_those_of_value_iteration(name, literal):
    task = hk.load_task(name)
    for agent, own in enumerate(task.agents):
        true = action_values(Individual(task, own, literal=literal))
        q = values(task, "optimal", agent=agent, sync_literal=literal)
        floor = task.grid.floor  # nobody is ever elsewhere
        np.testing.assert_allclose(q[floor][:, :, : true.shape[2]], true[floor], atol=1e-6)
        assert not q[:, :, true.shape[2] :].any()


@pytest.mark.parametrize("agent", ["A1", "A2"])
def test_learning_alone_converges_to_the_values_of_value_iteration(agent):
    task = courtyard()
    assert task.decomposition.ok
    world = Individual(task, agent)
    true = action_values(world)
    q = values(task, steps=4_000_000, agent=world.index, **WIDE, learning_rate_decay=3e-4)
    floor = [cell for cell in range(task.grid.cells) if cell not in task.grid.walls]
    assert true[floor].max() > 0.5
    np.testing.assert_allclose(q[floor], true[floor], atol=0.02)


def test_read_literally_the_paper_has_every_shared_event_wait():
    """A1 alone opens; A2 merely learns of it."""
    task = hk.Task(
        "door",
        line(3, door=2),
        {"A1": hk.Agent(0, ("open",)), "A2": hk.Agent(0, ("open",))},
        {"open": at(A1="door")},
        hk.RewardMachine(initial="shut", transitions={("shut", "open"): "ajar"}, final={"ajar"}),
        slip=0.0,
    )
    tables = compile_task(task)
    at_the_door = [
        [float(table.chance[0, table.kind[2], 0]) for table in individuals(tables, literal)]
        for literal in (False, True)
    ]
    assert at_the_door == [[1.0, P], [P, P]]
    np.testing.assert_allclose(values(task, **WIDE)[:2, RIGHT, 0], [GAMMA, 1], rtol=1e-6)
    q = values(task, steps=1_000_000, sync_literal=True, **SLOW)
    np.testing.assert_allclose(q[:2, RIGHT, 0], [GAMMA * THERE, THERE], atol=0.01)
    np.testing.assert_allclose(values(task, "optimal", sync_literal=True)[1, RIGHT, 0], THERE, rtol=1e-6)


def individuals(tables: Tables, literal: bool) -> list:
    """Make the tables of all agents that train with simulated teammates."""
    return [individual_table(tables, agent, P, sync_literal=literal) for agent in range(len(tables.start))]


def test_on_buttons_only_events_in_which_a_teammate_has_a_part_wait():
    task = hk.load_task("buttons")
    tables = compile_task(task)
    waits = {False: set(), True: set()}
    for literal in waits:
        for agent, name in enumerate(task.agents):
            table = individuals(tables, literal)[agent]
            first = table.proposed[table.chance[:, :, 0] < 1][:, 0]
            waits[literal] |= {(name, tuple(task.events)[event]) for event in first}
    by_teammates = {("A1", "R"), ("A2", "Y"), ("A2", "R"), ("A3", "G"), ("A3", "R")}
    assert waits == {False: by_teammates, True: by_teammates | {("A1", "Y"), ("A2", "G")}}


# One agent, and a machine that pays for more than the end.


@pytest.mark.parametrize(
    ("toll", "worth", "steps"),
    [(0.1, GAMMA**3 - 0.1 * GAMMA, 4), (0.4, 0.5, 1), (-0.3, GAMMA**3 + 0.3 * GAMMA, 4)],
    ids=["the market is worth the toll", "the inn is better", "the toll is a present"],
)
def test_an_agent_goes_where_its_machine_pays_most(toll, worth, steps):
    task = turnpike(toll)
    for learner in ("dqprm", "optimal"):
        q = values(task, learner, **WIDE if learner == "dqprm" else {})
        np.testing.assert_allclose(q[2, :, 0].max(), worth, atol=1e-5)
        past = task.machines["A1"].states.index("past")
        np.testing.assert_allclose(q[4:6, RIGHT, past], [GAMMA, 1], atol=1e-5)
    assert set(greedy_tests(task, "dqprm", 20_000, **WIDE)) == {steps}


def test_two_events_between_the_same_states_pay_what_each_is_worth():
    task = hk.Task(
        "two ways",
        line(5, cheap=0, dear=4),
        {"A1": hk.Agent(2, ("give", "take"))},
        {"give": at(A1="cheap"), "take": at(A1="dear")},
        hk.RewardMachine(
            initial="0",
            transitions={("0", "give"): "1", ("0", "take"): "1"},
            final={"1"},
            rewards={("0", "give"): -1.0, ("0", "take"): 0.25},
        ),
        slip=0.0,
    )
    q = values(task, **WIDE)
    assert q[1, LEFT, 0] == -1 and q[3, RIGHT, 0] == 0.25
    np.testing.assert_allclose(q[2, [LEFT, RIGHT], 0], [GAMMA * GAMMA * GAMMA * 0.25, GAMMA * 0.25], atol=1e-6)


def test_an_agent_takes_again_and_again_what_pays_without_an_end():
    """Water is worth 0.1 each time, and home is two steps from the well: 0.1 after every four steps."""
    machine = hk.RewardMachine(
        initial="0",
        transitions={("0", "fill"): "1", ("1", "pour"): "0"},
        states=("0", "1", "2"),
        final={"2"},
        rewards={("0", "fill"): 0.1},
    )
    events = {"fill": at(A1="well"), "pour": at(A1="home")}
    task = hk.Task("well", line(3, home=0, well=2), {"A1": hk.Agent(0, ("fill", "pour"))}, events, machine, slip=0.0)
    home = 0.1 * GAMMA / (1 - GAMMA**4)
    for learner in ("dqprm", "optimal"):
        q = values(task, learner, **WIDE if learner == "dqprm" else {})
        np.testing.assert_allclose(q[[0, 1], [RIGHT, RIGHT], 0], [home, home / GAMMA], atol=1e-5)


# Two agents as one.


def test_cqrm_refuses_five_agents_and_says_what_they_would_need():
    with pytest.raises(hk.HocketError, match=r"cqrm would need .* bytes a seed for 5 agents as one; the limit is"):
        train(hk.load_task("rendezvous-5"), "cqrm", 1, 10)


@pytest.mark.parametrize("agents", [1, 3])
def test_cqrm_trains_as_many_agents_as_memory_holds(agents):
    task = replace(hk.rendezvous(agents, rows=2, columns=2), slip=0.0)
    taken = greedy_tests(task, "cqrm", 60_000, max_episode_steps=50, temperature=0.1)
    assert taken[-1] == fewest_steps(task)


def test_cqrm_refuses_what_needs_more_memory_than_it_may_have():
    needed = 36 * 25 * 2 * 4
    with pytest.raises(hk.HocketError, match=f"would need {needed:,} bytes.* {needed - 1:,}"):
        learn(meeting(), "cqrm", 10, most_memory=needed - 1)
    assert learn(meeting(), "cqrm", 10, most_memory=needed)
    needed = 2 + round(10 * math.log2(100 * 5))
    with pytest.raises(hk.HocketError, match=f"would need 2.{needed} bytes a seed for 10 agents as one in each state"):
        hk.train("rendezvous-10", "cqrm", seeds=1, steps=1_000)


def test_more_pairs_of_dynamics_than_16_bits_hold_are_told_apart():
    states = 300
    dynamics = np.stack([np.arange(states, dtype=np.int16)] * 2)
    team_class = np.indices((states, states), np.int16).reshape(2, -1)
    pairs, which = joint_dynamics(dynamics, team_class)
    assert len(pairs) == states**2 > 2**16
    np.testing.assert_array_equal(pairs[which], team_class.T)


def test_cqrm_refuses_more_pairs_of_dynamics_than_it_has_memory_for():
    states = 300
    tables = compile_task(meeting())
    many = tables._replace(
        dynamics=np.stack([np.arange(states, dtype=np.int16)] * 2),
        team_class=np.indices((states, states), np.int16).reshape(2, -1),
        team_final=np.zeros(states**2, np.bool_),
    )
    with pytest.raises(hk.HocketError, match=r"would need 32,402,880,000 bytes for 90,000 joint dynamics"):
        LEARNERS["cqrm"].check(many, CqrmSettings(most_memory=32_402_879_999))
    LEARNERS["cqrm"].check(many, CqrmSettings(most_memory=32_402_880_000))


@pytest.mark.parametrize("counterfactual", [True, False])
@pytest.mark.parametrize(
    ("world", "steps"), [(meeting, 200_000), (gatehouse, 400_000), (lambda: small_rendezvous(), 400_000)]
)
def test_cqrm_learns_what_the_fewest_steps_are_worth(world, steps, counterfactual):
    task = world()
    fewest = fewest_steps(task)
    settings = {"temperature": 10.0, "max_episode_steps": 60, "counterfactual": counterfactual}
    (run,) = learn(task, "cqrm", steps, test_every=steps, test_episodes=5, **settings)
    one, other = (agent.start for agent in task.agents.values())
    start = compile_task(task).team_initial
    np.testing.assert_allclose(
        run.policy.arrays["q"][one * task.grid.cells + other, :, start].max(), GAMMA ** (fewest - 1), atol=1e-3
    )
    assert set(run.curve("greedy")[1].tolist()) == {fewest}


def small_rendezvous() -> hk.Task:
    """Let two agents meet on 2 x 3 cells, without slips; their events may happen at once."""
    return replace(hk.rendezvous(2, rows=2, columns=3), slip=0.0)


# A task that is not decomposable.


def in_order() -> hk.Task:
    """Let A1 press the left button and A2, which does not notice, the right one afterwards."""
    return hk.Task(
        "in order",
        line(4, left=0, right=3),
        {"A1": hk.Agent(2, ("first",)), "A2": hk.Agent(2, ("second",))},
        {"first": at(A1="left"), "second": at(A2="right")},
        hk.RewardMachine(initial="0", transitions={("0", "first"): "1", ("1", "second"): "2"}, final={"2"}),
        slip=0.0,
    )


@pytest.mark.parametrize("learner", ["cqrm", "iql", "hil", "optimal-team"])
def test_a_task_that_is_not_decomposable_is_done_as_its_machine_says_by_learners_without_local_machines(learner):
    task = in_order()
    assert not task.decomposition.ok and fewest_steps(task) == 2
    taken = greedy_tests(task, learner, 5_000, max_episode_steps=50)
    assert min(taken) >= 2 and taken[-1] < 50


@pytest.mark.parametrize("learner", ["dqprm", "sweep", "optimal"])
def test_a_task_that_is_not_decomposable_is_refused_by_learners_with_local_machines(learner):
    with pytest.raises(hk.HocketError, match=r"is not decomposable; run `hocket check .*\(hil, iql, cqrm.*\)"):
        hk.train(in_order(), learner, seeds=1, steps=100)
    with pytest.raises(hk.HocketError, match="is not decomposable"):
        hk.Study(in_order(), ["iql", learner])


def test_baselines_on_a_task_that_is_not_decomposable_follow_the_teams_machine_and_keep_their_memory():
    task = in_order()
    (shared,) = hk.Study(task, "iql").tasks
    assert shared.decomposition.ok and shared.machines["A2"].transitions == task.machine.transitions
    assert memory_of(shared) == {"A1": ("first",), "A2": ("second",)}  # of events that they know


def test_policies_of_a_task_that_is_not_decomposable_are_evaluated_and_read_as_those_of_the_task(tmp_path):
    task = in_order()
    runs = hk.train(task, "optimal-team", seeds=1, steps=1_000)
    hk.save_runs(task, runs, tmp_path)
    for trained in (runs, tmp_path, hk.load_policies(tmp_path), hk.load_policies(tmp_path, task)):
        (evaluation,) = hk.evaluate(task, trained, episodes=5)
        assert evaluation.mean_steps == 2


def test_environments_of_a_task_that_is_not_decomposable_follow_the_teams_machine():
    env, copies, machines = hk.gym.team_env(in_order()), hk.gym.team_vector_env(in_order()), hk.gym.batched(in_order())
    env.reset(seed=0)
    copies.reset(seed=0)
    right, left, stay = (ACTIONS.index(action) for action in ("right", "left", "stay"))
    state, ends = machines.reset(1), []
    for cells, actions in (((2, 3), (stay, right)), ((1, 2), (left, left)), ((0, 3), (left, right))):
        state, _, _, done = machines.step(state, machines.holds(np.array([cells])))
        one = env.step(dict(zip(("A1", "A2"), actions, strict=True)))[2]["A1"]
        ends.append((one, bool(copies.step(np.array([actions]))[2][0]), bool(done[0])))
    assert ends == [(False,) * 3, (False,) * 3, (True,) * 3]  # A2 came too early, and once more
    with pytest.raises(hk.HocketError, match="in order is not decomposable: labels"):
        hk.label_trajectory(in_order(), [])


def test_an_agent_of_a_task_that_is_not_decomposable_has_no_environment_of_its_own():
    for make in (hk.gym.individual_env, hk.gym.individual_vector_env):
        with pytest.raises(
            hk.HocketError, match="in order is not decomposable; run `hocket repair 'in order'`, or use"
        ):
            make(in_order(), "A1")


# Hierarchical learning, by hand.


def two_options() -> hk.Task:
    """Put an agent in a corridor of four cells with options to go to cell 1, to its end, and, afterwards, back."""
    options = (hk.Option("near"), hk.Option("end"), hk.Option("home", "arrive"))
    return hk.Task(
        "two options",
        line(4, home=0, near=1, end=3),
        {"A1": hk.Agent(0, ("arrive",), memory=("arrive",), options=options)},
        {"arrive": at(A1="end")},
        hk.RewardMachine(initial="0", transitions={("0", "arrive"): "1"}, final={"1"}),
        slip=0.0,
    )


NEAR, END, HOME = range(3)
SURE = 5.0  # so much better than nothing that softmax takes it


def hierarchy(option: int, **changes) -> HilBlock:
    """Make an agent that goes right under every option and prefers one of them."""
    block = HilBlock(compile_task(two_options()), HilSettings(**changes), [0])
    block.low[0, 0, :, RIGHT, :] = SURE
    block.meta[0, 0, 0, option] = SURE
    block.meta[0, 0, 1] = [1, 2, 3]  # of the options after the end
    return block


def moved(old: float, towards: float) -> float:
    """Take a step of learning at the rate of 0.8."""
    return old + 0.8 * (towards - old)


def test_an_option_learns_from_every_step_whether_it_is_chosen_or_not():
    block = hierarchy(END)
    block.train(0, 1)
    low = block.low[0, 0]
    np.testing.assert_allclose(low[0, RIGHT, END], moved(SURE, GAMMA * SURE), rtol=1e-6)
    np.testing.assert_allclose(low[0, RIGHT, NEAR], moved(SURE, 1 + GAMMA * SURE), rtol=1e-6)
    assert low[0, RIGHT, HOME] == SURE  # not available before the end
    assert (low[1:, RIGHT] == SURE).all() and not low[:, [0, 2, 3, 4]].any()


def test_in_the_textbook_form_an_option_ends_at_its_target():
    block = hierarchy(END, bootstrap_past_end=False)
    block.train(0, 1)
    low = block.low[0, 0]
    np.testing.assert_allclose(low[0, RIGHT, NEAR], moved(SURE, 1), rtol=1e-6)
    np.testing.assert_allclose(low[0, RIGHT, END], moved(SURE, GAMMA * SURE), rtol=1e-6)


@pytest.mark.parametrize("bootstrap_past_end", [True, False])
def test_an_option_that_completes_before_the_task_hands_on_the_best_that_follows(bootstrap_past_end):
    block = hierarchy(NEAR, bootstrap_past_end=bootstrap_past_end)
    before = block.meta.copy()
    block.train(0, 1)
    np.testing.assert_allclose(block.meta[0, 0, 0, NEAR], moved(SURE, GAMMA * SURE), rtol=1e-6)
    before[0, 0, 0, NEAR] = block.meta[0, 0, 0, NEAR]
    np.testing.assert_array_equal(block.meta, before)


@pytest.mark.parametrize(
    ("bootstrap_past_end", "worth"), [(True, GAMMA**3 + GAMMA**3 * 3), (False, GAMMA**3)], ids=["published", "textbook"]
)
def test_the_option_that_completes_the_task_earns_its_discounted_reward(bootstrap_past_end, worth):
    """Three steps to the end: GAMMA ** 3 * 1, and as published the best option in the memory of the end on top."""
    block = hierarchy(END, bootstrap_past_end=bootstrap_past_end)
    block.train(0, 2)
    assert block.meta[0, 0, 0, END] == SURE
    block.train(2, 1)
    np.testing.assert_allclose(block.meta[0, 0, 0, END], moved(SURE, worth), rtol=1e-6)
    assert block.meta[0, 0, 1].tolist() == [1, 2, 3]
    past = GAMMA * SURE if bootstrap_past_end else 0
    np.testing.assert_allclose(block.low[0, 0, 2, RIGHT, END], moved(SURE, 1 + past), rtol=1e-6)
    # After the end it is time to go home, too, and the option has learnt from that one step.
    np.testing.assert_allclose(block.low[0, 0, 2, RIGHT, HOME], moved(SURE, GAMMA * SURE), rtol=1e-6)
    assert block.training.teams.cell[0, 0] == 3 and block.training.clock[0] == -1


def test_an_option_is_chosen_again_where_the_last_one_ended():
    """Near the start after one step; from there on the end is preferred, and two steps away."""
    block = hierarchy(NEAR, bootstrap_past_end=False)
    block.train(0, 1)
    block.meta[0, 0, 0] = [0, SURE, 0]
    block.train(1, 2)
    np.testing.assert_allclose(block.meta[0, 0, 0, END], moved(SURE, GAMMA**2), rtol=1e-6)


def test_an_option_learns_nothing_from_running_out_of_time():
    block = hierarchy(END, max_episode_steps=2)
    before = block.meta.copy()
    block.train(0, 2)
    np.testing.assert_array_equal(block.meta, before)
    block.train(2, 1)  # another episode has begun
    assert block.training.teams.cell[0, 0] == 1 and block.training.options.age[0, 0] == 1


def test_an_option_that_is_not_available_is_never_chosen():
    block = hierarchy(HOME, temperature=1.0)
    training = block.training
    for step in range(500):
        block.train(step, 1)
        assert training.options.current[0, 0] != HOME or training.teams.memory[0, 0] == 1
    assert block.meta[0, 0, 0, HOME] == SURE


def test_hierarchical_learning_needs_options():
    anywhere = replace(gatehouse(), events={**gatehouse().events, "press": {"A2": hk.Condition()}})
    with pytest.raises(hk.HocketError, match="every agent has options"):
        train(anywhere, "hil", 1, 10)


# What is refused, before anything is done.

WRONG = [
    ({"learning_rate": -0.1}, "learning_rate must be a number above 0 and at most 1, got -0.1"),
    ({"learning_rate": 0.0}, "learning_rate must be a number above 0"),
    ({"learning_rate": 1.5}, "learning_rate must be a number above 0 and at most 1"),
    ({"learning_rate": float("nan")}, "learning_rate must be a number above 0 and at most 1, got nan"),
    ({"learning_rate": True}, "learning_rate must be"),
    ({"learning_rate": "0.5"}, "learning_rate must be"),
    ({"learning_rate": None}, "learning_rate must be"),
    ({"discount": -0.1}, "discount must be a number between 0 and 1"),
    ({"discount": 1.1}, "discount must be a number between 0 and 1"),
    ({"temperature": 0.0}, "temperature must be a number between 1e-06 and 1e\\+06"),
    ({"temperature": float("inf")}, "temperature must be a number between 1e-06 and 1e\\+06, got inf"),
    ({"temperature": 1e-45}, "temperature must be"),  # its inverse is no 32-bit number
    ({"max_episode_steps": 0}, "max_episode_steps must be an integer between 1 and 1,000,000"),
    ({"max_episode_steps": 10.5}, "max_episode_steps must be"),
    (
        {"max_episode_steps": 10**15},
        "max_episode_steps must be an integer between 1 and 1,000,000, got 1000000000000000",
    ),
    ({"max_episode_steps": 10**400}, "max_episode_steps must be .*, got an integer of about 401 digits"),
    ({"temperature": 10**5_000}, "temperature must be .*, got an integer of about 5,001 digits"),
    ({"test_every": 0}, "test_every must be an integer between 1 and 1,000,000,000,000"),
    ({"test_every": 10.5}, "test_every must be"),
    ({"test_every": False}, "test_every must be"),
    ({"test_episodes": -1}, "test_episodes must be an integer between 0 and"),
    ({"test_episodes": 1.5}, "test_episodes must be"),
]
WRONG_SCHEDULES = [
    ({"learning_rate_decay": -1.0}, "learning_rate_decay must be a number between 0 and"),
    ({"temperature_decay": -1.0}, "temperature_decay must be a number between 0 and"),
]
WRONG_DQPRM = [
    ({"sync_probability": 0.0}, "sync_probability must be a number above 0 and at most 1, got 0.0"),
    ({"sync_probability": 1.01}, "sync_probability must be a number above 0 and at most 1"),
    ({"sync_probability": True}, "sync_probability must be"),
    ({"sync_literal": 1}, "sync_literal must be true or false, got 1"),
    ({"counterfactual": 0.0}, "counterfactual must be true or false"),
    ({"counterfactual": "no"}, "counterfactual must be true or false"),
]
WRONG_OF = {
    "dqprm": [*WRONG, *WRONG_SCHEDULES, *WRONG_DQPRM],
    "cqrm": [({"counterfactual": 1}, "counterfactual must be true or false"), WRONG_SCHEDULES[0]],
    "iql": [({"bootstrap_past_end": 1}, "bootstrap_past_end must be true or false"), WRONG_SCHEDULES[1]],
    "hil": [({"bootstrap_past_end": 0}, "bootstrap_past_end must be true or false"), WRONG[0]],
    "optimal": [({"tolerance": 0.0}, "tolerance must be a number above 0"), WRONG_DQPRM[0], WRONG_DQPRM[1]],
    "sweep": [
        ({"optimism": 0.0}, "optimism must be a number above 0"),
        ({"caution": 0.0}, "caution must be a number above 0"),
        ({"backups": 0}, "backups must be an integer between 1 and"),
        ({"priority_threshold": -1.0}, "priority_threshold must be a number between 0 and"),
    ],
}
CASES = [(learner, changes, message) for learner, rows in WRONG_OF.items() for changes, message in rows]


def assert_refused(message: str, *args, **kwargs) -> None:
    """Require that training says what is wrong before it does anything."""
    told = []
    with pytest.raises(hk.HocketError, match=message):
        train(meeting(), *args, progress=told.append, **kwargs)
    assert told == []


@pytest.mark.parametrize(("learner", "changes", "message"), CASES)
def test_a_setting_that_makes_no_sense_is_refused_before_training(learner, changes, message):
    assert_refused(message, learner, 1, 10, settings=changes)


@pytest.mark.parametrize(("learner", "changes", "message"), CASES)
def test_settings_that_make_no_sense_cannot_be_made(learner, changes, message):
    with pytest.raises(hk.HocketError, match=message):
        LEARNERS[learner].settings(**changes)


@pytest.mark.parametrize(
    ("seeds", "steps", "message"),
    [
        (0, 10, "seeds must be at least one"),
        (-1, 10, "seeds must be at least one"),
        ([], 10, "seeds must be at least one"),
        ([0, -1], 10, "seeds must be"),
        ([0.5], 10, "seeds must be"),
        (True, 10, "seeds must be"),
        ([True], 10, "seeds must be"),
        (2.5, 10, "seeds must be"),
        ("3", 10, "seeds must be"),
        ([2**64], 10, "seeds must be"),
        (1, 0, "steps must be at least 1, got 0"),
        (1, -5, "steps must be at least 1"),
        (1, True, "steps must be"),
        (1, 10.0, "steps must be"),
    ],
)
def test_seeds_and_steps_that_make_no_sense_are_refused_before_training(seeds, steps, message):
    assert_refused(message, "dqprm", seeds, steps)


@pytest.mark.parametrize("wrong", ["two", -1, True, 1.5])
def test_how_many_policies_to_keep_is_checked_before_training(wrong):
    trained = []
    with pytest.raises(hk.HocketError, match=f"keep_policies must be an integer of at least 0, got {wrong!r}"):
        train(corridor(2), "dqprm", 1, 100, keep_policies=wrong, progress=trained.append)
    assert trained == []


def test_an_unknown_setting_is_refused_with_the_nearest_known_one():
    message = r"dqprm has no setting 'learning_rat' \(did you mean 'learning_rate'\?\)"
    assert_refused(message, "dqprm", settings={"learning_rat": 0.5})
    assert_refused("hil has no setting 'sync_probability'", "hil", settings={"sync_probability": 0.5})


def test_an_unknown_learner_is_refused_with_the_nearest_known_one():
    assert_refused(r"learner 'dqrpm' does not exist \(did you mean 'dqprm'\?\)", "dqrpm")


def test_settings_of_another_learner_are_refused():
    assert_refused("dqprm takes DqprmSettings, got HilSettings", "dqprm", settings=HilSettings())


def test_settings_are_a_dictionary_a_name_or_a_value():
    changes = {"discount": 0.5, "temperature": 1.0}
    for settings, expected in (
        (changes, DqprmSettings(**changes)),
        (DqprmSettings(**changes), DqprmSettings(**changes)),
        ("paper", DqprmSettings(wait_for_team=True)),
        (None, DqprmSettings()),
    ):
        (run,) = train(corridor(2), "dqprm", 1, 10, settings)
        assert run.settings == expected
        assert (run.policy.settings["discount"], run.policy.settings["temperature"]) == (
            expected.discount,
            expected.temperature,
        )
    assert_refused("settings must be a dictionary, a name, or DqprmSettings, got 3", "dqprm", settings=3)
    assert_refused("settings 'papers' do not exist", "dqprm", settings="papers")


def test_former_names_of_arguments_and_settings_work_and_name_the_new_ones():
    with pytest.warns(DeprecationWarning, match=r"train\(changes=\) is deprecated: use train\(settings=\)"):
        (run,) = train(corridor(2), "dqprm", 1, 10, DqprmSettings(discount=0.5), changes={"temperature": 1.0})
    assert run.settings == DqprmSettings(discount=0.5, temperature=1.0)
    with pytest.warns(DeprecationWarning, match=r"use train\(keep_policies=\)"):
        assert [len(run.policy.arrays) for run in train(corridor(2), "dqprm", 2, 10, policies=1)] == [1, 0]
    with pytest.warns(DeprecationWarning, match="episode_steps is deprecated: use max_episode_steps"):
        (run,) = train(corridor(2), "dqprm", 1, 10, {"episode_steps": 7})
    assert run.settings.max_episode_steps == 7


def test_a_task_is_trained_on_by_its_name_as_by_itself():
    by_name, by_value = (train(task, "dqprm", 1, 500) for task in ("rendezvous-2", hk.load_task("rendezvous-2")))
    np.testing.assert_array_equal(by_name[0].policy.arrays["q"], by_value[0].policy.arrays["q"], strict=True)


@pytest.mark.parametrize(
    "kind", [Settings, ScheduledSettings, SimulatedSettings, *(own.settings for own in LEARNERS.values())]
)
def test_the_defaults_are_those_of_the_paper(kind):
    settings = kind()
    common = (settings.discount, settings.learning_rate, settings.temperature, settings.max_episode_steps)
    assert common == (0.9, 0.8, 0.02, 1_000) and settings.test_every == 1_000
    if isinstance(settings, DqprmSettings | OptimalSettings):
        assert settings.sync_probability == 0.3 and settings.sync_literal is False
    if isinstance(settings, DqprmSettings | CqrmSettings):
        assert settings.counterfactual is True
    if isinstance(settings, IqlSettings | HilSettings):
        assert settings.bootstrap_past_end is True


# Policies in files.


@pytest.fixture(scope="module")
def policy() -> Policy:
    (run,) = learn(meeting(), "dqprm", 300, [5])
    return run.policy


@pytest.fixture
def stored(policy, tmp_path) -> Path:
    path = tmp_path / "policy.npz"
    policy.save(path)
    return path


def assert_equal_policies(one: Policy, other: Policy) -> None:
    assert replace(one, arrays={}) == replace(other, arrays={})
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], strict=True)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_policy_is_read_as_it_was_written(learner, tmp_path):
    task = meeting()
    (run,) = learn(task, learner, 200, [2**40], max_episode_steps=30)
    run.policy.save(tmp_path / "policy.npz")
    found = load_policy(tmp_path / "policy.npz", task.digest)
    assert_equal_policies(found, run.policy)
    assert (found.task, found.learner, found.seed) == ("meeting", learner, 2**40)
    assert found.settings["max_episode_steps"] == 30


def test_the_policy_of_another_task_is_refused(stored):
    for other in (gatehouse(), meeting(slip=0.1), replace(meeting(), grid=line(6, center=2))):
        with pytest.raises(hk.HocketError, match=r"belongs to another task \(meeting, or another version of it\)"):
            load_policy(stored, other.digest)


def test_a_task_that_is_only_called_something_else_keeps_its_policies(stored, policy):
    renamed = replace(meeting(), name="encounter", description="Two agents meet.")
    assert_equal_policies(load_policy(stored, renamed.digest), policy)


def test_a_policy_that_is_cut_off_anywhere_is_refused(stored):
    whole = stored.read_bytes()
    for length in range(len(whole)):
        stored.write_bytes(whole[:length])
        with pytest.raises(hk.HocketError):
            load_policy(stored)


def test_a_policy_with_any_byte_changed_is_refused_or_the_same(stored, policy):
    whole = stored.read_bytes()
    refused = 0
    for position in range(len(whole)):
        for flip in (0x01, 0x41):
            changed = bytearray(whole)
            changed[position] ^= flip
            stored.write_bytes(changed)
            try:
                found = load_policy(stored)
            except hk.HocketError:
                refused += 1
            else:
                assert_equal_policies(found, policy)
    assert refused > len(whole)


ABOUT = {"task": "t", "digest": "d", "learner": "dqprm", "seed": 0, "settings": {}}


def as_text(document: object) -> np.ndarray:
    return np.frombuffer(json.dumps(document).encode(), np.uint8)


def as_npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header_only(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


FOREIGN = {
    "nothing in it": {},
    "no description": {"q.npy": as_npy(np.zeros(3, np.float32))},
    "a description that is no text": {"about.npy": as_npy(np.zeros(3)), "q.npy": as_npy(np.zeros(3))},
    "a description that is no array": {"about.npy": b"hello"},
    "a description without its keys": {"about.npy": as_npy(as_text({}))},
    "a description that is a list": {"about.npy": as_npy(as_text([1]))},
    "a description that is nested too deeply": {"about.npy": as_npy(np.frombuffer(b"[" * 200_000, np.uint8))},
    "a description of other types": {"about.npy": as_npy(as_text({**ABOUT, "task": 5, "seed": "x", "settings": 3}))},
    "values that are no array": {"about.npy": as_npy(as_text(ABOUT)), "q.npy": b"hello"},
    "values that are texts": {"about.npy": as_npy(as_text(ABOUT)), "q.npy": as_npy(np.array(["a"]))},
    "values larger than the file": {"about.npy": as_npy(as_text(ABOUT)), "q.npy": header_only((10**13,))},
}


@pytest.mark.parametrize("entries", FOREIGN.values(), ids=FOREIGN)
def test_an_archive_that_is_no_policy_is_refused(entries, tmp_path):
    path = tmp_path / "policy.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    with pytest.raises(hk.HocketError, match=r"policy\.npz: is not a policy"):
        load_policy(path)


@pytest.mark.parametrize("content", [b"", b"hello", as_npy(np.zeros(3)), b"PK\x03\x04" + bytes(100)])
def test_a_file_that_is_no_archive_is_refused(content, tmp_path):
    path = tmp_path / "policy.npz"
    path.write_bytes(content)
    with pytest.raises(hk.HocketError, match=r"policy\.npz: is not a policy"):
        load_policy(path)


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path):
    for path in (tmp_path / "missing.npz", tmp_path):
        with pytest.raises(hk.HocketError, match=rf"{path.name}: cannot be read"):
            load_policy(path)


class Trap:
    """Leaves a trace when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


@pytest.mark.parametrize("name", ["about", "q"])
def test_a_policy_is_never_unpickled(name, tmp_path):
    arrays = {"about": as_text(ABOUT), "q": np.zeros(3, np.float32)} | {name: np.array([Trap()], dtype=object)}
    np.savez(tmp_path / "policy.npz", **arrays)
    with pytest.raises(hk.HocketError, match="is not a policy"):
        load_policy(tmp_path / "policy.npz")
    assert not Trap.sprung
    np.load(tmp_path / "policy.npz", allow_pickle=True)[name]
    assert Trap.sprung  # what was in the file would have worked
    Trap.sprung = False


# How good they are.


@pytest.mark.parametrize(("name", "most"), [("buttons", 45), ("rendezvous-2", 35)])
def test_dqprm_is_good_after_thirty_thousand_steps(name, most):
    for run in learn(hk.load_task(name), "dqprm", 30_000, range(3)):
        last = [trial for trial in run.all_tests if trial.policy == "softmax"][-10:]
        assert np.median([trial.test_steps for trial in last]) < most
        assert all(trial.success for trial in last)


@pytest.mark.parametrize(("name", "fewest"), [("buttons", 17), ("rendezvous-2", 16), ("rendezvous-10", 21)])
def test_optimal_local_policies_make_the_team_as_fast_as_can_be(name, fewest):
    """A slip costs a step or more now and then; without slips nothing is lost."""
    taken = greedy_tests(hk.load_task(name), "optimal", 1, range(20))
    assert min(taken) == fewest
    if name != "rendezvous-10":
        assert np.median(taken) == fewest
    assert set(greedy_tests(replace(hk.load_task(name), slip=0.0), "optimal", 1)) == {fewest}


def test_what_is_learnt_comes_close_to_the_optimal_values():
    task = hk.load_task("rendezvous-2")
    block = DqprmBlock(compile_task(task), DqprmSettings(learning_rate_decay=1e-4), [0])
    block.train(0, 400_000)
    start, initial = task.agents["A1"].start, 0
    true = values(task, "optimal")[start, :, initial].max()
    np.testing.assert_allclose(block.q[0, 0, start, :, initial].max(), true, rtol=0.1)
