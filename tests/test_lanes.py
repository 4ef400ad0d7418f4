"""Lanes: agents that wait for each other, machines of any size, however lanes are grouped; and the vectors beneath."""

import json
from random import Random

import numpy as np
import pytest
from numba import njit

import hocket as hk
from algorithm import DefinedWorld, train_agent, train_team
from hocket.learn import benchmark
from hocket.learn.catalogue import LEARNERS
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.cqrm.block import CqrmBlock
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.dqprm.block import DqprmBlock
from hocket.learn.dqprm.kernel import LANES, MANY, padded
from hocket.learn.hil import HilSettings
from hocket.learn.hil.block import HilBlock
from hocket.learn.iql import IqlSettings
from hocket.learn.iql.block import IqlBlock
from hocket.learn.kernels import actions, draws
from hocket.learn.kernels.vectors import converted, load, reinterpreted, store, take, where
from hocket.learn.learner import Player
from hocket.learn.testing import recording
from hocket.learn.training import train
from hocket.task.tables import compile_task
from task_strategies import random_task
from worlds import at, corridor, gatehouse, line, meeting, warm_kernels

f32 = np.float32


@pytest.fixture(scope="session", autouse=True)
def _compiled():
    """Compile what is not on disk before tests in several processes do."""
    warm_kernels()


# Agents that wait for each other.

WAITING = DqprmSettings(wait_for_team=True)


def learnt(block: DqprmBlock, index: int) -> np.ndarray:
    return block.arrays(index)["q"]


@pytest.mark.parametrize(
    ("task", "settings", "steps"),
    [
        (hk.load_task("buttons"), WAITING, 3_000),
        (hk.load_task("rendezvous-3"), WAITING, 3_000),
        (meeting(slip=0.1), DqprmSettings(wait_for_team=True, max_episode_steps=9, temperature=0.3), 900),
        (gatehouse(slip=0.1), DqprmSettings(wait_for_team=True, counterfactual=False, temperature=0.2), 900),
        (
            hk.rendezvous(2, rows=3, columns=3),
            DqprmSettings(wait_for_team=True, learning_rate_decay=0.01, temperature=0.2),
            900,
        ),
    ],
    ids=["buttons", "rendezvous", "meeting", "gatehouse", "a small rendezvous"],
)
def test_agents_that_wait_learn_as_in_plain_python(task, settings, steps):
    expected = train_team([DefinedWorld(task, name) for name in task.agents], settings, 4, steps)
    block = DqprmBlock(compile_task(task), settings, [8, 4])
    block.train(0, steps // 3)
    block.train(steps // 3, steps - steps // 3)
    assert sum(agent.waited for agent in expected) > 0
    for index, agent in enumerate(expected):
        assert agent.q.any()
        np.testing.assert_array_equal(learnt(block, 1)[index, :, :, : agent.world.states], agent.q)


def test_agents_of_random_tasks_that_wait_learn_as_in_plain_python():
    settings, all_waited = DqprmSettings(wait_for_team=True, max_episode_steps=25, temperature=0.1), 0
    for seed in range(20):
        task = random_task(Random(seed))
        expected = train_team([DefinedWorld(task, name) for name in task.agents], settings, seed, 150)
        block = DqprmBlock(compile_task(task), settings, [seed])
        block.train(0, 150)
        all_waited += sum(agent.waited for agent in expected)
        for index, agent in enumerate(expected):
            np.testing.assert_array_equal(learnt(block, 0)[index, :, :, : agent.world.states], agent.q)
    assert all_waited > 100


def test_waiting_changes_what_is_learnt():
    tables = compile_task(hk.load_task("rendezvous-2"))
    both = [DqprmBlock(tables, DqprmSettings(wait_for_team=waits), [0]) for waits in (False, True)]
    for block in both:
        block.train(0, 5_000)
    assert (learnt(both[0], 0) != learnt(both[1], 0)).any()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("name", ["buttons", "rendezvous-2", "rendezvous-7", f"rendezvous-{LANES + 1}"])
def test_what_a_lane_learns_depends_on_neither_groups_nor_threads_nor_pieces(name, waits):
    tables, settings = compile_task(hk.load_task(name)), DqprmSettings(wait_for_team=waits)
    together = DqprmBlock(tables, settings, range(9), threads=2)
    for begin, end in ((0, 1), (1, 500), (500, 2_000)):
        together.train(begin, end - begin)
    for seed in (0, 4, 8):
        alone = DqprmBlock(tables, settings, [seed])
        alone.train(0, 2_000)
        assert learnt(alone, 0).any()
        np.testing.assert_array_equal(learnt(alone, 0), learnt(together, seed), strict=True)


@pytest.mark.parametrize("name", ["rendezvous-2", "buttons"])
def test_seeds_that_are_tested_together_play_as_one_by_one(name):
    tables, seeds = compile_task(hk.load_task(name)), [3, 9, 2**40]
    block = DqprmBlock(tables, DqprmSettings(), seeds)
    block.train(0, 20_000)
    player = LEARNERS["dqprm"].player(tables, 0.02, 300)
    ends = set()
    for greedy in (False, True):
        together, apart = (
            play(player, block, seeds, range(5, 8), greedy) for play in (type(player).play_seeds, Player.play_seeds)
        )
        assert all(np.array_equal(one, other) for one, other in zip(together, apart, strict=True))
        ends |= {*together.steps.tolist()}
    assert len(ends) > 3 and max(ends) > 0


def test_waiting_is_a_setting_of_train():
    task = hk.load_task("rendezvous-2")
    runs = train(task, "dqprm", [3, 4], 3_000, threads=1, settings={"wait_for_team": True})
    (alone,) = train(task, "dqprm", [4], 3_000, threads=2, settings={"wait_for_team": True, "test_every": 700})
    np.testing.assert_array_equal(runs[1].policy.arrays["q"], alone.policy.arrays["q"])
    assert runs[1].policy.settings["wait_for_team"] is True


# Machines of any size.


def laps(count: int) -> hk.Task:
    """Let an agent walk to and fro in a corridor of three cells: its machine has 2 * count + 1 states."""
    events = {"there": at(A1="end"), "back": at(A1="begin")}
    names = ["there", "back"] * count
    transitions = {(f"s{place:02}", event): f"s{place + 1:02}" for place, event in enumerate(names)}
    machine = hk.RewardMachine(initial="s00", transitions=transitions, final={f"s{len(names):02}"})
    return hk.Task("laps", line(3, begin=0, end=2), {"A1": hk.Agent(1, ("there", "back"))}, events, machine, slip=0.1)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_machines_of_any_size_learn_as_in_plain_python(count):
    task, settings = laps(count), DqprmSettings(temperature=0.3, max_episode_steps=60)
    q = train_agent(DefinedWorld(task, "A1"), settings, 2, 1_500).q
    assert q.any()
    for seeds in ([2], [2, *range(5, 8)]):
        block = DqprmBlock(compile_task(task), settings, seeds)
        block.train(0, 1_500)
        np.testing.assert_array_equal(learnt(block, 0)[0], q, strict=True)


def test_there_is_room_for_as_many_states_as_learn_at_once():
    assert [padded(states) for states in (1, 4, 5, 8, 9, 50)] == [4, 4, MANY, MANY, 9, 50]


# Whatever the numbers are.


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0])
def test_no_number_leads_out_of_a_table(value):
    """Numbers that nobody learns, in all places and in some: agents stay on the map, and actions are actions."""
    task = meeting(slip=0.2)
    tables, rng = compile_task(task), np.random.default_rng(0)
    blocks = {
        "dqprm": DqprmBlock(tables, DqprmSettings(), range(9)),
        "iql": IqlBlock(tables, IqlSettings(), [0]),
        "hil": HilBlock(tables, HilSettings(), [0]),
        "cqrm": CqrmBlock(tables, CqrmSettings(), [0]),
    }
    for share in (1.0, 0.3):
        for name, block in blocks.items():
            arrays = block.q if name in ("iql", "cqrm", "dqprm") else [block.meta, block.low]
            for array in arrays:
                array[rng.random(array.shape) < share] = value
            block.train(0, 300)
            player = LEARNERS[name].player(tables, 0.02, 50)
            for greedy in (False, True):
                record = recording(50, 2)
                player.play(block.arrays(0), 0, 0, greedy, record)
                assert ((record.action >= 0) & (record.action < 5)).all()
                assert ((record.cell >= 0) & (record.cell < 6)).all()
        lanes = blocks["dqprm"].lanes
        assert (lanes.cell < 6).all() and (lanes.state < 2).all()


# Vectors.


@njit
def compute(one, other, results, truths, limit):
    a, b = load(one, np.uint64(0), 8), load(other, np.uint64(0), 8)
    store(results, np.uint64(0), a + b)
    store(results, np.uint64(8), a - b)
    store(results, np.uint64(16), a * b)
    store(results, np.uint64(24), max(a, b))
    store(results, np.uint64(32), where(a < b, a, b))
    store(results, np.uint64(40), limit - a)
    store(truths, np.uint64(0), converted(a >= b, np.uint32))
    store(truths, np.uint64(8), converted(a == b, np.uint32))
    store(truths, np.uint64(16), converted(a < limit, np.uint32))


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint32, np.uint64])
def test_vectors_compute_number_by_number(kind):
    rng = np.random.default_rng(1)
    for _ in range(50):
        one, other = (rng.integers(0, 5, 8).astype(kind) for _ in range(2))
        results, truths = np.zeros(48, kind), np.zeros(24, np.uint32)
        compute(one, other, results, truths, kind(3))
        expected = [
            one + other,
            one - other,
            one * other,
            np.maximum(one, other),
            np.minimum(one, other),
            kind(3) - one,
        ]
        np.testing.assert_array_equal(results.reshape(6, 8), np.array(expected, kind))
        np.testing.assert_array_equal(truths.reshape(3, 8), np.array([one >= other, one == other, one < 3]))


@njit
def shuffle(values, places, results):
    store(results, np.uint64(0), take(load(values, np.uint64(0), 4), load(places, np.uint64(0), 4)))


@njit
def recast(values, whole, bits):
    vector = load(values, np.uint64(0), 4)
    store(whole, np.uint64(0), converted(vector, np.int32))
    store(bits, np.uint64(0), reinterpreted(vector, np.uint32))


@njit
def mixed(values, results):
    store(results, np.uint64(0), draws.mix(load(values, np.uint64(0), 4)))
    for place in range(4):
        results[4 + place] = draws.mix(values[place])


def test_vectors_are_shuffled_converted_and_hashed_as_numbers_are():
    rng = np.random.default_rng(2)
    for _ in range(50):
        values, places = rng.uniform(-9, 9, 4).astype(f32), rng.integers(0, 4, 4).astype(np.uint32)
        results, whole, bits = np.zeros(4, f32), np.zeros(4, np.int32), np.zeros(4, np.uint32)
        shuffle(values, places, results)
        recast(values, whole, bits)
        np.testing.assert_array_equal(results, values[places])
        np.testing.assert_array_equal(whole, np.trunc(values).astype(np.int32))
        np.testing.assert_array_equal(bits, values.view(np.uint32))
        numbers, hashes = rng.integers(0, 2**64, 4, dtype=np.uint64), np.zeros(8, np.uint64)
        mixed(numbers, hashes)
        np.testing.assert_array_equal(hashes[:4], hashes[4:])


@njit
def weigh(values, beta, results):
    best = values.max()
    for first in range(np.uint64(0), np.uint64(len(values)), np.uint64(16)):
        store(results, first, actions.exponential(beta * (load(values, first, 16) - best)))


@njit
def weigh_one(value, best, beta):
    return actions.exponential(beta * (value - best))


def test_weights_of_many_have_the_bits_of_weights_of_one():
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.uniform(-1, 1, 992), rng.uniform(-200, 1, 32)]).astype(f32)
    results = np.zeros_like(values)
    weigh(values, f32(50), results)
    alone = np.array([weigh_one(value, values.max(), f32(50)) for value in values], f32)
    np.testing.assert_array_equal(results.view(np.uint32), alone.view(np.uint32))


# How fast it is.


def test_the_benchmark_measures_all_rivals_on_a_task_with_several_outcomes_of_a_step(monkeypatch, hocket):
    for name, value in (("ROUNDS", 1), ("ROUND", 1e-3), ("STEPS", 200)):
        monkeypatch.setattr(benchmark, name, value)
    code, out, err = hocket("bench", "--tasks", "rendezvous-2", "--json")
    assert code == 0, err
    rows = json.loads(out)["learning"]
    assert len(rows) == 4 and all(row["per_second"] > 0 for row in rows)
    assert rows[0]["ratio"] == 1


def test_the_straightforward_loop_of_the_benchmark_learns_the_same_values_in_the_end():
    """Its random numbers are others; where chance has settled, values agree."""
    task = corridor(4)
    q = benchmark._plain(compile_task(task), 0, 20_000)  # [states, cells, actions]
    block = DqprmBlock(compile_task(task), DqprmSettings(), [0])
    block.train(0, 20_000)
    np.testing.assert_allclose(q.max(axis=2)[0, :3], learnt(block, 0)[0, :3, :, 0].max(axis=1), rtol=1e-3)
