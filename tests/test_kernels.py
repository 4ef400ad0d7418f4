"""Kernels, held against plain Python: random numbers, the choice of actions, the team world, and learning alone."""

import importlib
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba import njit

import hocket as hk
from algorithm import DefinedTeam, DefinedWorld, train_agent, train_as_one, train_hil, train_iql
from hocket import random
from hocket.learn.catalogue import LEARNERS
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.cqrm.block import CqrmBlock
from hocket.learn.dqprm import VECTOR_LANES, DqprmSettings
from hocket.learn.dqprm.block import DqprmBlock
from hocket.learn.dqprm.kernel import LANES
from hocket.learn.episodes import ValuePlayer, make_teams, team_tables
from hocket.learn.hil import HilSettings
from hocket.learn.hil.block import HilBlock
from hocket.learn.iql import IqlSettings
from hocket.learn.iql.block import IqlBlock
from hocket.learn.kernels import actions, draws
from hocket.learn.kernels.compiler import STAMP, cache_file, is_compiled, kernel
from hocket.learn.kernels.team import TeamState
from hocket.learn.kernels.teams import EpisodeRound, Learnt, make_choices, play_teams
from hocket.learn.optimal import OptimalSettings
from hocket.learn.optimal import reference as optimal_reference
from hocket.learn.optimal.block import OptimalBlock
from hocket.learn.reference import TableWorld
from hocket.learn.testing import Recording, recording
from hocket.learn.training import train
from hocket.learn.warmup import compiling_ahead
from hocket.task.catalogue import built_in_tasks
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.individual import individual_table
from hocket.task.memory import memory_of
from hocket.task.tables import compile_task
from interpreter import interpret
from strategies import project_trace
from task_strategies import random_task
from worlds import courtyard, ferry, gallery, gatehouse, is_done, meeting, turnpike, warm_kernels

BUILT_IN = [*built_in_tasks(), "rendezvous-1", "rendezvous-2", "rendezvous-10"]
RANDOM = range(40)  # seeds of random tasks

f32 = np.float32


@pytest.fixture(scope="session", autouse=True)
def _compiled():
    """Compile what is not on disk before tests in several processes do."""
    warm_kernels()


# Random numbers.


@njit
def compiled_mix(value):
    return draws.mix(value)


@njit
def compiled_key(purpose, seed, agent, episode):
    return draws.stream_key(purpose, seed, agent, episode)


@njit
def compiled_draws(key, step, limit):
    one, other = draws.first_number(key, step), draws.second_number(key, step)
    return one, other, draws.slip_outcome(other, limit), draws.sync_draw(other)


def some_numbers(count: int) -> list[int]:
    rng = Random(5)
    return [0, 1, 2, random.MASK, 1 << 63, *(rng.getrandbits(64) for _ in range(count))]


def test_compiled_kernels_hash_as_python_does():
    for value in some_numbers(200):
        assert compiled_mix(np.uint64(value)) == random.mix(value)


def test_compiled_kernels_make_the_same_keys():
    for purpose, seed, agent, episode in product((1, 2, 3), (0, 1, 77, 2**62), (0, 1, 99_999), (0, 1, 10**9)):
        assert compiled_key(purpose, seed, agent, episode) == random.stream_key(purpose, seed, agent, episode)


def test_compiled_kernels_draw_the_same_numbers_and_the_same_chances():
    outcomes = []
    for key, step, chance in product(some_numbers(20), (0, 1, 2, 12_345, 10**12), (0.0, 0.02, 0.5, 1.0)):
        limit = random.threshold(chance)
        one, other, outcome, ready = compiled_draws(np.uint64(key), step, limit)
        assert one == random.number(key, random.PER_STEP * step)
        assert one >> (64 - random.ACTION_BITS) == random.action_draw(key, step) * 2**random.ACTION_BITS
        assert other == random.number(key, random.PER_STEP * step + 1)
        assert outcome == slip_outcome(random.slip_draw(key, step), limit)
        assert ready == random.sync_draw(key, step)
        outcomes.append((chance, outcome))
    seen = {chance: {outcome for own, outcome in outcomes if own == chance} for chance in (0.0, 0.5, 1.0)}
    assert seen == {0.0: {0}, 0.5: {0, 1, 2}, 1.0: {1, 2}}


# The choice of an action.


@njit
def compiled_exponentials(values, results):
    for index in range(len(values)):
        results[index] = actions.exponential(values[index])


@njit
def softmax_counts(q, beta, key, counts):
    for step in range(counts[-1]):
        drawn = draws.first_number(key, step)
        counts[actions.softmax_action((q[0], q[1], q[2], q[3], q[4]), beta, drawn)] += 1


@njit
def greedy_counts(q, key, counts):
    for step in range(counts[-1]):
        drawn = draws.first_number(key, step)
        counts[actions.greedy_action((q[0], q[1], q[2], q[3], q[4]), drawn)] += 1


@njit
def chosen_by(q, beta, drawn):
    soft = actions.softmax_action((q[0], q[1], q[2], q[3], q[4]), beta, drawn)
    return soft, actions.greedy_action((q[0], q[1], q[2], q[3], q[4]), drawn)


def test_the_exponential_function_is_right_to_single_precision():
    values = np.append(np.linspace(-80, 0, 400_001), -np.arange(80) * math.log(2)).astype(f32)
    results = np.zeros_like(values)
    compiled_exponentials(values, results)
    true = np.array([math.exp(value) for value in values.tolist()])
    rounding = 7.5e-8 * np.abs(values)  # of the argument, when it is scaled
    assert (np.abs(results / true - 1) < 3e-7 + rounding).all()
    assert results[values == 0].tolist() == [1.0, 1.0]


def test_what_is_too_small_for_the_exponential_function_weighs_nothing_to_speak_of():
    values = np.array([-87.5, -100, -1e6, -1e30, -np.inf], f32)
    results = np.ones_like(values)
    compiled_exponentials(values, results)
    assert (results < 1.2e-38).all() and (results >= 0).all()


DRAWS = 200_000
LEAST_LIKELY = {1: 15.1, 2: 18.4, 3: 21.1, 4: 23.5}  # degrees of freedom -> chi-square that 1 in 10,000 exceeds


def chi_square(counts: np.ndarray, chances: np.ndarray) -> float:
    expected = counts.sum() * chances
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize(
    ("q", "beta"),
    [
        ((0, 0, 0, 0, 0), 50),
        ((0.5, 0.5, 0.5, 0.5, 0.5), 50),
        ((0.9, 0.89, 0.88, 0.87, 0.86), 50),
        ((0.86, 0.87, 0.88, 0.89, 0.9), 50),
        ((0.01, 0.0, 0.03, 0.0, 0.02), 50),
        ((-1, -2, -0.5, -1.5, -1), 1),
        ((3, 1, 4, 1, 5), 0.5),
        ((1e-4, 0, 0, 0, -1e-4), 1_000),
    ],
)
def test_softmax_chooses_in_proportion_to_the_exponentials(q, beta):
    counts = np.array([0, 0, 0, 0, 0, DRAWS])
    softmax_counts(np.array(q, f32), f32(beta), np.uint64(random.stream_key(1, 2, 3)), counts)
    weights = np.exp(beta * (np.array(q) - max(q)))
    assert counts[:5].sum() == DRAWS
    assert chi_square(counts[:5], weights / weights.sum()) < LEAST_LIKELY[4]


@pytest.mark.parametrize("best", range(5))
def test_softmax_never_chooses_what_is_far_worse(best):
    q = np.zeros(5, f32)
    q[best] = 2
    counts = np.array([0, 0, 0, 0, 0, DRAWS])
    softmax_counts(q, f32(50), np.uint64(7), counts)
    assert counts[best] == DRAWS


@pytest.mark.parametrize("best", range(1, 32), ids="{:05b}".format)
def test_greedy_chooses_evenly_among_the_best_and_nothing_else(best):
    ties = [action for action in range(5) if best >> action & 1]
    q = np.full(5, 0.25, f32)
    q[ties] = 0.5
    counts = np.array([0, 0, 0, 0, 0, DRAWS])
    greedy_counts(q, np.uint64(random.stream_key(2, best, 0)), counts)
    assert counts[ties].sum() == DRAWS
    if len(ties) > 1:
        assert chi_square(counts[ties], np.full(len(ties), 1 / len(ties))) < LEAST_LIKELY[len(ties) - 1]


@pytest.mark.parametrize("drawn", [0, random.MASK])
def test_the_least_and_the_greatest_draw_choose_the_first_and_the_last_of_the_best(drawn):
    for best in range(1, 32):
        ties = [action for action in range(5) if best >> action & 1]
        q = np.full(5, -1, f32)
        q[ties] = f32(1 / 3)
        expected = ties[0] if drawn == 0 else ties[-1]
        assert chosen_by(q, f32(1e30), np.uint64(drawn))[1] == expected
        if drawn or best & 1:  # the first action has the least positive weight
            assert chosen_by(q, f32(50), np.uint64(drawn))[0] == expected


# The team world.


def rollout(
    task: hk.Task, q: np.ndarray, by_memory: bool, seed: int, number: int, steps: int, *, greedy: bool = False
) -> tuple[int, Recording, TeamState]:
    """Play a compiled episode and record it."""
    tables = compile_task(task)
    record, teams = recording(steps, len(task.agents)), make_teams(tables, 1)
    choices = make_choices(1, len(task.agents))
    play, taken = actions.PlayParameters(f32(20), greedy, 0, steps), np.zeros(1, np.int64)
    observed = teams.copies.memory if by_memory else teams.copies.state
    learnt, nowhere = Learnt(q[None], observed), np.zeros((len(task.agents), 0), np.int64)
    about = (team_tables(tables), teams, choices, play, record, nowhere)
    play_teams(learnt, EpisodeRound(np.array([seed], np.uint64), number, 1, *about, 0, taken))
    return int(taken[0]), record, TeamState(*(part[0] for part in teams.copies[:-1]), teams.copies.workspace)


def way(task: hk.Task, noise: float, seed: int = 0) -> np.ndarray:
    """Make action values that lead on: those of the optimal local policies, disturbed."""
    block = OptimalBlock(compile_task(task), OptimalSettings(tolerance=1e-4), [0])
    return block.q + np.random.default_rng(seed).uniform(0, noise, block.q.shape).astype(f32)


def whim(task: hk.Task, seed: int) -> np.ndarray:
    """Make action values by cell and memory that lead anywhere."""
    tables = compile_task(task)
    shape = (len(task.agents), task.grid.cells, len(ACTIONS), int(tables.memories.max()))
    return np.random.default_rng(seed).uniform(0, 0.1, shape).astype(f32)


def assert_replayed(task: hk.Task, taken: int, record: Recording, team: TeamState, seed: int, number: int) -> int:
    """Replay recorded actions in plain Python: the same cells, machine states, events, memory and end."""
    episode = hk.TeamEpisode(task, seed, number)
    names = list(task.agents)
    finish = {name: 0 for name, is_final in episode.finished.items() if is_final}
    first: dict[str, int] = {}
    length = len(record.cell) if taken < 0 else taken
    assert episode.done == (taken == 0)
    for time in range(length):
        step = episode.step({name: ACTIONS[own] for name, own in zip(names, record.action[time], strict=True)})
        assert list(step.cells.values()) == record.cell[time].tolist()
        states = [task.machines[name].states.index(state) for name, state in step.states.items()]
        assert states == record.state[time].tolist()
        assert step.done == (time + 1 == taken)
        finish = {name: time + 1 for name, is_final in episode.finished.items() if is_final} | finish
        first = dict.fromkeys(step.events, time + 1) | first
    assert team.finish.tolist() == [finish.get(name, -1) for name in names]
    assert team.event_time.tolist() == [first.get(event, -1) for event in task.events]
    memories = [sum(1 << memory_of(task)[name].index(event) for event in episode.memory[name]) for name in names]
    assert team.memory.tolist() == memories
    assert team.earned.tolist() == [episode.earned[name] * task.has_rewards for name in names]
    assert not team.workspace.tally.any()
    return len(first)


@pytest.mark.parametrize("name", BUILT_IN)
def test_compiled_episodes_of_built_in_tasks_are_those_of_plain_python(name):
    task = hk.load_task(name)
    q = way(task, noise=0.02)
    happened = 0
    for seed, number in ((0, 0), (0, 1), (3, 0)):
        happened += assert_replayed(task, *rollout(task, q, False, seed, number, 150), seed, number)
    assert happened > 0


@pytest.mark.parametrize("name", ["buttons", "rendezvous-3"])
def test_compiled_greedy_episodes_are_those_of_plain_python_to_their_end(name):
    task = hk.load_task(name)
    taken, record, team = rollout(task, way(task, noise=0.0), False, 5, 2, 400, greedy=True)
    assert_replayed(task, taken, record, team, 5, 2)
    assert taken > 0 and team.finish.max() == taken


def test_compiled_episodes_of_random_tasks_are_those_of_plain_python():
    ends, happened = [], 0
    for seed in RANDOM:
        task = random_task(Random(seed))
        taken, record, team = rollout(task, way(task, 0.05, seed), False, seed, 7, 60)
        happened += assert_replayed(task, taken, record, team, seed, 7)
        ends.append(taken)
    assert happened > len(RANDOM) and 0 < sum(end > 0 for end in ends) < len(ends)


def test_compiled_episodes_of_policies_with_memory_are_those_of_plain_python():
    remembered = 0
    for seed in RANDOM:
        task = random_task(Random(seed))
        taken, record, team = rollout(task, whim(task, seed), True, seed, 1, 80)
        assert_replayed(task, taken, record, team, seed, 1)
        remembered += int(team.memory.any())
    assert remembered > 5


def test_a_policy_with_memory_is_asked_what_to_do_in_that_memory():
    """After the button is pressed, and only then, A1 is told to go on; its machine numbers its states otherwise."""
    task = gatehouse()
    agents = {name: replace(agent, memory=("goal", "press")) for name, agent in task.agents.items()}
    task = replace(task, agents=agents)
    q = np.zeros((2, 5, 5, 4), f32)
    q[0, :, ACTIONS.index("stay"), :] = 1
    q[0, :, ACTIONS.index("right"), 0b10] = 2
    q[1, :, ACTIONS.index("left"), :] = 1
    taken, record, team = rollout(task, q, True, 0, 0, 20, greedy=True)
    assert record.cell[:taken, 0].tolist() == [0, 0, 0, 0, 1, 2, 3, 4]
    assert team.event_time.tolist() == [4, 8] and team.finish.tolist() == [8, 4]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_what_learners_play_is_what_plain_python_plays(learner, slip):
    """Replay recorded episodes of policies that are half learnt: the same cells, and the same end."""
    task, most = meeting(slip), 25
    names, lengths = list(task.agents), set()
    (run,) = train(task, learner, [1], 60, threads=1, settings={"temperature": 0.2})
    player = LEARNERS[learner].player(compile_task(task), 0.2, most)
    for number, greedy in product(range(20), (False, True)):
        record = recording(most, 2)
        taken = player.play(run.policy.arrays, 6, number, greedy, record)
        episode = hk.TeamEpisode(task, 6, number)
        for time in range(most if taken < 0 else taken):
            step = episode.step({name: ACTIONS[own] for name, own in zip(names, record.action[time], strict=True)})
            assert list(step.cells.values()) == record.cell[time].tolist()
            assert step.done == (time + 1 == taken)
        assert player.finish.tolist() == [taken, taken]  # they finish together, or never
        lengths.add(taken)
    assert len(lengths) > 1 or learner.startswith("optimal")


def assert_theorem_2(task: hk.Task, taken: int, record: Recording) -> int:
    """Run the team machine on the events of a recording: each agent's state always stands for the machine's."""
    states = {name: machine.initial for name, machine in task.machines.items()}
    team, trace, cells = task.machine.initial, [], {name: agent.start for name, agent in task.agents.items()}
    for time in range(len(record.cell) if taken < 0 else taken):
        before, cells = cells, dict(zip(states, record.cell[time].tolist(), strict=True))
        for event in (event for events in interpret(task, cells, states, before)[0] for event in events):
            team = task.machine.step(team, event)
            assert team is not None
            trace.append(event)
        for index, (name, machine) in enumerate(task.machines.items()):
            states[name] = tuple(machine.states)[record.state[time, index]]
            assert machine.run(project_trace(trace, task.knows[name]), undefined="blocking").state == states[name]
            if isinstance(task.machine, hk.Composition):
                assert team[index] == states[name]
            else:
                assert team in machine.members[states[name]]
        assert is_done(task.machine, team) == (time + 1 == taken)
    return len(trace)


@pytest.mark.parametrize("name", ["buttons", "four-buttons", "rendezvous-3"])
def test_each_agents_state_stands_for_the_teams_in_compiled_episodes_of_built_in_tasks(name):
    task = hk.load_task(name)
    q = way(task, noise=0.02)
    taken, record, _ = rollout(task, q, False, 1, 0, 300)
    assert assert_theorem_2(task, taken, record) > 3


def test_each_agents_state_stands_for_the_teams_in_compiled_episodes_of_random_tasks():
    happened = 0
    for seed in RANDOM:
        task = random_task(Random(seed))
        taken, record, _ = rollout(task, way(task, 0.05, seed), False, seed, 0, 60)
        happened += assert_theorem_2(task, taken, record)
    assert happened > len(RANDOM)


# Learning alone: the paper's Algorithm 1, step by step.


def assert_learns_alike(task: hk.Task, name: str, settings: DqprmSettings, steps: int, seed: int = 4) -> np.ndarray:
    """Train lanes one by one and in lock step, in two pieces, and require what Algorithm 1 gives."""
    world = DefinedWorld(task, name, settings.sync_probability, literal=settings.sync_literal)
    agent = train_agent(world, settings, seed, steps)
    q = agent.q
    tables = compile_task(task)
    for others in range(VECTOR_LANES + 1):
        block = DqprmBlock(tables, settings, [*range(seed + 1, seed + 1 + others), seed])
        block.train(0, steps // 3)
        block.train(steps // 3, steps - steps // 3)
        lane = others * len(task.agents) + world.agent
        assert (block.lanes.cell[lane], block.lanes.state[lane]) == (agent.s, agent.u)
        np.testing.assert_array_equal(block.q[others, world.agent, :, :, : q.shape[2]], q, strict=True)
    return q


@pytest.mark.parametrize(
    ("task", "name", "steps"),
    [("buttons", "A1", 12_000), ("buttons", "A2", 4_000), ("buttons", "A3", 3_000), ("rendezvous-2", "A1", 4_000)],
)
def test_compiled_learning_follows_algorithm_1_to_the_last_bit(task, name, steps):
    q = assert_learns_alike(hk.load_task(task), name, DqprmSettings(), steps)
    assert np.count_nonzero(q) > 40


SETTINGS = {
    "the paper's": DqprmSettings(),
    "short episodes": DqprmSettings(max_episode_steps=17, temperature=0.2),
    "rates that fall": DqprmSettings(learning_rate_decay=0.01, temperature=0.5, temperature_decay=0.02, discount=0.8),
    "only the state that it is in": DqprmSettings(counterfactual=False),
    "the paper's text": DqprmSettings(sync_literal=True, sync_probability=0.6),
}
WORLDS = {
    "courtyard": courtyard,
    "gatehouse": gatehouse,
    "meeting": meeting,
    "turnpike": lambda: turnpike(0.1),
    "gallery": lambda: gallery(0.2),
    "ferry": lambda: ferry(0.2),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_compiled_learning_follows_algorithm_1_whatever_the_settings(world, settings):
    q = assert_learns_alike(world(), "A1", settings, 1_500)
    assert np.count_nonzero(q) > 1


def test_compiled_learning_follows_algorithm_1_on_random_tasks():
    learnt = 0
    for seed in RANDOM:
        task = random_task(Random(seed))
        for name in task.agents:
            q = assert_learns_alike(task, name, DqprmSettings(max_episode_steps=25, temperature=0.1), 150, seed)
            learnt += int(q.any())
    assert learnt > len(RANDOM)


@pytest.mark.parametrize("count", [VECTOR_LANES, LANES - 1, LANES, LANES + 1, 2 * LANES + 3])
def test_lanes_in_lock_step_learn_what_each_learns_by_itself(count):
    tables, settings = compile_task(hk.load_task("buttons")), DqprmSettings()
    together = DqprmBlock(tables, settings, range(count))
    together.train(0, 3_000)
    for seed in range(count):
        alone = DqprmBlock(tables, settings, [seed])
        alone.train(0, 3_000)
        assert alone.q.any()
        np.testing.assert_array_equal(alone.q[0], together.q[seed], strict=True)


# Two agents as one.


@pytest.mark.parametrize("counterfactual", [True, False])
@pytest.mark.parametrize(
    "task",
    [
        meeting(slip=0.2),
        gatehouse(slip=0.2),
        courtyard(),
        hk.rendezvous(2, rows=2, columns=2),
        hk.rendezvous(1, rows=3, columns=2),
        hk.rendezvous(3, rows=2, columns=2),
        gallery(slip=0.2),
        ferry(slip=0.2),
        turnpike(0.1),
    ],
    ids=["meeting", "gatehouse", "courtyard", "rendezvous", "alone", "three", "gallery", "ferry", "turnpike"],
)
def test_compiled_learning_of_agents_as_one_is_that_of_plain_python(task, counterfactual):
    settings = CqrmSettings(max_episode_steps=50, temperature=0.1, counterfactual=counterfactual)
    block = CqrmBlock(compile_task(task), settings, [2, 9])
    block.train(0, 100)
    block.train(100, 1_400)
    q = train_as_one(DefinedTeam(task), settings, 9, 1_500)
    assert np.count_nonzero(q) > 1
    np.testing.assert_array_equal(block.q[1], q, strict=True)


# Learning at once.


@pytest.mark.parametrize("bootstrap_past_end", [True, False])
@pytest.mark.parametrize("world", [meeting, gatehouse, lambda: hk.rendezvous(2, rows=2, columns=2), gallery, ferry])
def test_compiled_independent_learning_is_that_of_plain_python(world, bootstrap_past_end):
    settings = IqlSettings(bootstrap_past_end=bootstrap_past_end, max_episode_steps=50, temperature=0.1)
    task = world()
    block = IqlBlock(compile_task(task), settings, [2, 9])
    block.train(0, 100)
    block.train(100, 700)
    q = train_iql(task, settings, 9, 800)
    assert q.any(axis=(1, 2, 3)).all()
    np.testing.assert_array_equal(block.q[1], q, strict=True)


@pytest.mark.parametrize("bootstrap_past_end", [True, False])
@pytest.mark.parametrize(
    "task", [meeting(), hk.rendezvous(2, rows=2, columns=2), hk.load_task("buttons"), gallery(0.1)]
)
def test_compiled_hierarchical_learning_is_that_of_plain_python(task, bootstrap_past_end):
    settings = HilSettings(bootstrap_past_end=bootstrap_past_end, max_episode_steps=50, temperature=0.1)
    block = HilBlock(compile_task(task), settings, [2, 9])
    block.train(0, 100)
    block.train(100, 500)
    agents = train_hil(task, settings, 9, 600)
    for index, agent in enumerate(agents):
        np.testing.assert_array_equal(block.low[1, index], agent.low.array(task.grid.cells), strict=True)
        np.testing.assert_array_equal(block.meta[1, index], agent.meta, strict=True)
    assert any(row.any() for agent in agents for row in agent.low.values())


# Value iteration.


@pytest.mark.parametrize("world", [courtyard, gatehouse, meeting, lambda: turnpike(0.1), gallery, ferry])
def test_optimal_values_are_those_of_value_iteration_in_plain_python(world):
    task, settings = world(), OptimalSettings(tolerance=1e-6)
    block = OptimalBlock(compile_task(task), settings, [0])
    open_cells = [cell for cell in range(task.grid.cells) if cell not in task.grid.walls]
    for index, name in enumerate(task.agents):
        q = optimal_reference.solve(DefinedWorld(task, name), task.slip, settings)
        np.testing.assert_allclose(block.q[index, open_cells, :, : q.shape[2]], q[open_cells], atol=1e-5)


def test_the_world_of_a_table_is_the_world_by_definition():
    for task in (courtyard(), gatehouse(slip=0.1), gallery(slip=0.1), ferry(slip=0.1), hk.load_task("buttons")):
        for index, name in enumerate(task.agents):
            defined, tabled = DefinedWorld(task, name), TableWorld(individual_table(compile_task(task), index, 0.3))
            for about in ("agent", "cells", "states", "final", "starts", "initial", "slip_limit"):
                assert getattr(tabled, about) == getattr(defined, about)
            cells = [cell for cell in range(defined.cells) if cell not in task.grid.walls]
            for s, u, a, outcome in product(cells, range(defined.states), range(len(ACTIONS)), range(3)):
                assert tabled.move(s, u, a, outcome) == defined.move(s, u, a, outcome)
            for s, u, draw in product(cells, range(defined.states), (0, random.threshold(0.3), 2**31 - 1)):
                for s_next in {defined.move(s, u, a, 0) for a in range(len(ACTIONS))}:
                    assert tabled.settle(s, s_next, u, draw) == defined.settle(s, s_next, u, draw)


# What is kept on disk.

PROBE = """
import numpy as np
from hocket.learn.kernels.compiler import kernel
from hocket.learn.kernels.actions import exponential

@kernel
def probe(x):
    return exponential(x)

print(float(probe(np.float32(-80))))
"""
CHANGE = """

@inlined
def exponential(x: np.float32) -> np.float32:
    return UNIT
"""


def test_kernels_are_compiled_anew_when_what_they_use_has_changed(tmp_path):
    package = tmp_path / "hocket"
    shutil.copytree(Path(hk.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "learn" / "kernels" / "probe.py").write_text(PROBE, encoding="utf-8")

    def probe() -> float:
        command = [sys.executable, "-m", "hocket.learn.kernels.probe"]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert probe() < 1e-30
    with (package / "learn" / "kernels" / "actions.py").open("a", encoding="utf-8") as file:
        file.write(CHANGE)
    assert probe() == 1.0


# What numba has no public name for.


def test_numba_has_what_kernels_need_and_no_public_name_gives():
    """Whoever raises the bound on numba's version in pyproject.toml will see here what has gone."""
    compiled = kernel(lambda: None)
    version = f"numba {numba.__version__}"
    assert cache_file(compiled) is not None, f"{version} has no _cache._cache_file._source_stamp: caches go stale"
    assert STAMP in cache_file(compiled)._source_stamp
    options = njit(lambda: None).targetdescr.options
    assert hasattr(options, "_nrt"), f"{version} has no option _nrt: kernels cannot leave out reference counts"


def test_python_may_call_what_only_kernels_call_and_gets_an_entry_of_its_own():
    numbers = np.array([0, 1, 2**40, 2**64 - 1], np.uint64)
    assert [draws.mix(number) for number in numbers] == [compiled_mix(number) for number in numbers]
    assert not any(
        own.library.get_pointer_to_function(own.fndesc.llvm_cpython_wrapper_name)
        for own in draws.mix.overloads.values()
    )


def test_the_version_of_numba_is_bounded_above_by_the_next_one():
    root = Path(__file__).resolve().parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (found,) = [needed for needed in project["dependencies"] if needed.startswith("numba")]
    low, high = re.fullmatch(r"numba>=0\.(\d+),<0\.(\d+)", found).groups()
    assert int(low) <= int(numba.__version__.split(".")[1]) == int(high) - 1


# Compiling in two processes.


def test_learners_that_are_compiled_apart_share_no_kernel_with_another():
    apart = [learner for learner in LEARNERS.values() if learner.train_kernel is not None]
    assert len(apart) > 2
    for learner in apart:
        module = importlib.import_module(f"hocket.learn.{learner.name}.kernel")
        kernels = [value for value in vars(module).values() if cache_file(value) is not None]
        assert kernels and all(compiled.py_func.__module__ == module.__name__ for compiled in kernels)
        is_shared = issubclass(learner.player.load(), ValuePlayer)  # which has the kernels of the team world
        assert is_shared == (learner.test_kernel is None)
        assert [lazy.load() for lazy in (learner.train_kernel, learner.test_kernel) if lazy] == kernels


def test_another_process_compiles_what_comes_later_and_is_not_on_disk(monkeypatch):
    learners = ["hil", "dqprm", "cqrm", "hil", "iql"]
    monkeypatch.setattr("hocket.learn.warmup.is_compiled", lambda _: True)
    with compiling_ahead(learners) as later:
        assert later == []
    monkeypatch.setattr("hocket.learn.warmup.is_compiled", lambda _: False)
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command[2]) or Process())
    with compiling_ahead(learners) as later:
        assert later == ["iql", "cqrm"]
    assert len(started) == 1 and "['iql', 'cqrm']" in started[0] and Process.ended == 1
    with compiling_ahead([]) as later:
        assert later == []


class Process:
    """A process that does nothing."""

    ended = 0

    def terminate(self):
        Process.ended += 1

    def wait(self):
        assert Process.ended


def broken(*_, **__):
    raise OSError("no more processes")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hocket.learn.warmup.HAS_LOCKS", False),
        ("sys.executable", ""),
        ("sys.frozen", True),
        ("subprocess.Popen", broken),
    ],
)
def test_where_no_second_process_can_be_started_this_one_compiles_all(name, value, monkeypatch):
    monkeypatch.setattr("hocket.learn.warmup.is_compiled", lambda _: False)
    monkeypatch.setattr(name, value, raising=False)
    with compiling_ahead(["dqprm", "cqrm"]) as later:
        assert later == []


def printed_with_no_cache(code: str, cache: Path) -> list[str]:
    """Run code in a new process that has nothing compiled yet; return the words that it prints."""
    surroundings = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True).stdout.split()


def test_the_second_process_compiles_what_trains_and_tests_but_not_what_others_have(tmp_path):
    code = "from hocket.learn.warmup import LEARNERS, compile_apart, is_compiled\n"
    code += "from hocket.learn.kernels.teams import play_teams\n"
    code += "compile_apart(['iql', 'cqrm'])\n"
    code += "lazy = [kernel for own in LEARNERS.values() for kernel in (own.train_kernel, own.test_kernel) if kernel]\n"
    code += "kernels = [kernel.load() for kernel in lazy]\n"
    code += "print(*[own.py_func.__name__ for own in [*kernels, play_teams] if is_compiled(own)])"
    assert sorted(printed_with_no_cache(code, tmp_path)) == ["play_jointly", "train_independently", "train_jointly"]


def test_the_second_process_has_ended_however_the_work_ends(monkeypatch):
    monkeypatch.setattr("hocket.learn.warmup.is_compiled", lambda _: False)
    started, start = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **own: started.append(start(*args, **own)) or started[-1])
    with pytest.raises(KeyboardInterrupt), compiling_ahead(["dqprm", "cqrm"]):
        raise KeyboardInterrupt
    assert [own.returncode is None for own in started] == [False]


def test_a_cache_that_nobody_may_read_counts_as_compiled():
    kept = SimpleNamespace(_source_stamp=None, _load_index=broken)
    assert is_compiled(SimpleNamespace(_cache=SimpleNamespace(_cache_file=kept)))


def test_one_can_tell_whether_a_kernel_lies_on_disk(tmp_path):
    assert is_compiled(LEARNERS["hil"].train_kernel.load())  # by the fixture that compiles all
    assert is_compiled(object())  # nobody can tell
    code = "from hocket.learn.warmup import LEARNERS, is_compiled\n"
    code += "print(*(is_compiled(own.train_kernel.load()) for own in LEARNERS.values() if own.train_kernel))"
    assert printed_with_no_cache(code, tmp_path) == ["False", "False", "False"]
