"""The learner `sweep`: its queue, its model and its planning, held against plain Python; and what it learns."""

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from numba import njit

import hocket as hk
from algorithm import DefinedWorld
from hocket.learn.optimal.block import solve
from hocket.learn.reference import TableWorld
from hocket.learn.sweep import SweepSettings
from hocket.learn.sweep.block import LAST_RESORT, SweepBlock
from hocket.learn.sweep.kernel import dequeue, enqueue, make_queue
from hocket.learn.sweep.planning import machine_bounds, open_moves, optimistic_values
from hocket.learn.sweep.reference import SweepAgent
from hocket.learn.training import train
from hocket.learn.world import number_moves
from hocket.task.catalogue import built_in_tasks
from hocket.task.grid import ACTIONS, Grid
from hocket.task.individual import individual_table
from hocket.task.tables import compile_task
from hocket.task.teamwork.planning import Planner
from hocket.task.teamwork.play import TeamMoves
from task_strategies import random_task
from team_tasks import random_team_task
from worlds import corridor, courtyard, gatehouse, meeting, turnpike

RANDOM = range(25)  # seeds of random tasks


# The queue.


@njit
def compiled_enqueue(queue, cell, urgency):
    enqueue(queue, cell, urgency)


@njit
def compiled_dequeue(queue):
    return dequeue(queue)


@pytest.mark.parametrize("levels", [3, 1000], ids=["many alike", "few alike"])
def test_the_queue_gives_the_most_urgent_cell_first_and_of_two_alike_the_lower(levels):
    rng, queue, urgent = Random(levels), make_queue(40), dict[int, float]()
    taken = 0
    for _ in range(3_000):
        if urgent and rng.random() < 0.45:
            cell = max(urgent, key=lambda own: (urgent[own], -own))
            assert compiled_dequeue(queue) == cell
            del urgent[cell]
            taken += 1
        else:
            cell, urgency = rng.randrange(40), float(rng.randrange(levels))
            compiled_enqueue(queue, cell, urgency)
            urgent[cell] = max(urgency, urgent.get(cell, urgency))
        assert queue.size[0] == len(urgent)
        assert {cell for cell in range(40) if queue.position[cell] >= 0} == urgent.keys()
    assert taken > 1_000


# The loop, in plain Python.


def make_agent(task: hk.Task, name: str, settings: SweepSettings, seed: int) -> SweepAgent:
    """Make an agent of the reference that begins with the bounds that the block begins with."""
    world = DefinedWorld(task, name, settings.sync_probability, literal=settings.sync_literal)
    tables = compile_task(task)
    table = individual_table(tables, world.agent, settings.sync_probability, sync_literal=settings.sync_literal)
    world.outcomes = TableWorld(table).outcomes  # in the order in which the kernel adds them
    bounds = optimistic_values(table, settings.discount, open_moves(tables.cells, tables.columns, torus=False))
    if settings.prior == "flat":
        flat = machine_bounds(table, settings.discount, np.max)
        bounds = (np.tile(flat, (tables.cells, 1)), np.tile(flat, (len(table.kind), 1)))
    return SweepAgent(world, settings, seed, *(bound.tolist() for bound in bounds))


def assert_learns_alike(task: hk.Task, name: str, settings: SweepSettings, steps: int, seed: int = 0) -> int:
    """Train in two pieces, and require what the plain loop gives, to the last bit; return how many moves were tried.

    Each agent with simulated teammates of a constant readiness, as the plain loop has them.
    """
    settings = replace(settings, team_review="off")
    agent = make_agent(task, name, settings, seed)
    place = agent.train(steps)
    block = SweepBlock(compile_task(task), settings, [seed + 1, seed])
    block.train(0, steps // 3)
    block.train(steps // 3, steps - steps // 3)
    compiled = block.teams[1][agent.world.agent]
    tries, world = compiled.tries, compiled.view.world
    assert tuple(compiled.lane.now[:2]) == place
    np.testing.assert_array_equal(compiled.lane.model.arrival, np.array(agent.arrival), strict=True)
    for u, s, a in product(range(agent.world.states), range(agent.world.cells), range(5)):
        counts = agent.counts.get((s, a, agent.ends(s, u, a)), [0, 0, 0])
        assert tries[world.move[world.dynamics[u], s, a]].tolist() == counts
    assert tries.sum() == steps
    return len(agent.counts)


SETTINGS = {
    "the default": SweepSettings(),
    "short episodes": SweepSettings(max_episode_steps=17, optimism=2.0),
    "little planning": SweepSettings(backups=1, priority_threshold=0.01, discount=0.8),
    "a flat prior": SweepSettings(prior="flat"),
    "the paper's text": SweepSettings(sync_literal=True, sync_probability=0.6),
}
WORLDS = {"courtyard": courtyard, "gatehouse": gatehouse, "meeting": meeting, "turnpike": lambda: turnpike(0.1)}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_compiled_sweeping_is_that_of_plain_python_to_the_last_bit(world, settings):
    assert assert_learns_alike(world(), "A1", settings, 300) > 5


@pytest.mark.parametrize(("task", "name"), [("buttons", "A2"), ("drawbridge", "A1")])
def test_compiled_sweeping_of_built_in_tasks_is_that_of_plain_python(task, name):
    assert assert_learns_alike(hk.load_task(task), name, SweepSettings(), 250) > 40


def test_compiled_sweeping_of_random_tasks_is_that_of_plain_python():
    tried = 0
    for seed in RANDOM[:12]:
        task = random_task(Random(seed))
        for name in task.agents:
            tried += assert_learns_alike(task, name, SweepSettings(max_episode_steps=25, backups=5), 60, seed)
    assert tried > 10 * len(RANDOM[:12])


def test_neither_threads_nor_pieces_nor_company_change_what_is_learnt():
    tables, settings = compile_task(hk.load_task("buttons")), SweepSettings()
    whole, pieces = SweepBlock(tables, settings, [7], 1), SweepBlock(tables, settings, [3, 7, 9], 4)
    whole.train(0, 900)
    for begin, steps in ((0, 1), (1, 99), (100, 800)):
        pieces.train(begin, steps)
        pieces.arrays(1)  # to look changes nothing
    np.testing.assert_array_equal(pieces.arrays(1)["q"], whole.arrays(0)["q"], strict=True)
    assert not np.array_equal(pieces.arrays(0)["q"], whole.arrays(0)["q"])


# Its model.


def test_a_move_that_no_gate_changes_is_the_same_whichever_gates_are_open():
    task = gatehouse(slip=0.1)  # five cells in a row, with a door in cell 2
    table = individual_table(compile_task(task), 0, 0.3)
    move, end = number_moves(table.next_cell)
    same = move[0] == move[1]  # [cells, actions]
    right, left = ACTIONS.index("right"), ACTIONS.index("left")
    changed = {(1, right), (3, left)}  # into the door
    assert {(int(cell), int(action)) for cell, action in np.argwhere(~same)} >= changed
    assert same[[0, 4]].all() and same[:, ACTIONS.index("stay")].all()
    np.testing.assert_array_equal(end[move], table.next_cell)
    assert len(end) == len({*map(tuple, np.argwhere(same))}) + 2 * int((~same).sum())


def tables_of_random_tasks():
    """Give the tables of agents, with the columns of their maps."""
    for task in (*(random_task(Random(seed)) for seed in RANDOM), turnpike(0.1), turnpike(0.9)):
        tables = compile_task(task)
        for agent in range(len(task.agents)):
            yield individual_table(tables, agent, 0.3), tables.columns


def without_walls(table, columns):
    """Take walls, gates and slips away."""
    ends = Grid(table.cells // columns, columns).outcomes()[None]
    return table._replace(next_cell=ends, dynamics=np.zeros_like(table.dynamics), slip=0.0)


def test_what_is_hoped_for_is_what_cells_would_be_worth_without_walls_gates_and_slips():
    for table, columns in tables_of_random_tasks():
        hope, arrival = optimistic_values(table, 0.9, open_moves(table.cells, columns, torus=False))
        exact = solve(without_walls(table, columns), 0.9, 1e-12)
        np.testing.assert_allclose(hope, exact.max(axis=1), atol=1e-7)
        stays = table.offset + np.arange(table.cells)
        np.testing.assert_allclose(arrival[stays], exact[:, ACTIONS.index("stay")], atol=1e-7)


def test_hope_reaches_as_far_as_single_precision_does():
    task = corridor(800)
    table = individual_table(compile_task(task), 0, 0.3)
    hope, _ = optimistic_values(table, 0.9, open_moves(800, 800, torus=False))
    np.testing.assert_allclose(hope[:-1, 0], 0.9 ** np.arange(798, -1, -1.0), rtol=1e-6)


def test_what_is_hoped_for_and_what_is_feared_enclose_the_optimal_values():
    tight = 0
    for table, columns in tables_of_random_tasks():
        value = solve(table, 0.9, 1e-10).max(axis=1)  # [cells, states]
        hope, _ = optimistic_values(table, 0.9, open_moves(table.cells, columns, torus=False))
        assert (value <= hope + 1e-6).all() and (value >= machine_bounds(table, 0.9, np.min) - 1e-6).all()
        assert (hope <= machine_bounds(table, 0.9, np.max) + 1e-6).all()
        tight += int(np.isclose(hope, value).mean() > 0.3)
    assert tight > len(RANDOM) // 2


def test_with_many_tries_values_tend_to_the_optimal_ones():
    for seed in RANDOM:
        task = random_task(Random(seed))
        tables = compile_task(task)
        block = SweepBlock(tables, SweepSettings(team_review="off"), [0])
        for agent in block.teams[0]:
            agent.tries[:] = np.round(np.array([1 - task.slip, task.slip / 2, task.slip / 2]) * 1e9)
        q = block.arrays(0)["q"]
        for agent in range(len(task.agents)):
            exact = solve(individual_table(tables, agent, 0.3), 0.9, 1e-10)
            np.testing.assert_allclose(q[agent, :, :, : exact.shape[2]], exact, atol=2e-6)


def test_where_nothing_was_tried_tests_fear_the_worst_and_go_as_if_untried_moves_led_ahead():
    tables = compile_task(corridor(6))
    q = SweepBlock(tables, SweepSettings(), [0]).arrays(0)["q"]
    table = individual_table(tables, 0, 0.3)
    exact = Planner(table, *TeamMoves.true(tables).outcomes(0)).values(table, 0.9)
    assert 0 < q.max() <= LAST_RESORT
    np.testing.assert_array_equal(q[0].argmax(axis=1), exact.argmax(axis=1))


def test_an_agent_that_slips_into_a_state_it_did_not_plan_for_still_finds_its_way():
    """A teammate was to fetch; an agent that takes the load by accident has tried no move beyond its gate."""
    task = random_team_task(2446)
    (run,) = hk.train(task, seeds=1, steps=25_000, settings={"test_every": 25_000}, threads=1)
    assert hk.evaluate(task, [run], 400, greedy=True)[0].success.value == 1


def test_a_move_that_failed_at_first_is_tried_again():
    """A first try fails in one of ten cells here; whoever believed it would prefer to go astray on purpose."""
    failed = 0
    for seed in range(40):
        block = SweepBlock(compile_task(corridor(8, slip=0.1)), SweepSettings(), [seed])
        (agent,) = block.teams[0]
        tries, move = agent.tries, agent.moves.move[0, :7, ACTIONS.index("right")]
        for time in range(60):
            block.train(time, 1)
            failed += int((tries[move, 1:].sum(axis=1) > tries[move, 0]).any())
        block.train(60, 540)
        assert (tries[move, 0] > 1).all()
        q = block.arrays(0)["q"][0, :7, :, 0]
        assert (q.argmax(axis=1) == ACTIONS.index("right")).all()
    assert failed > 40


# What it learns.


def greedy_median(task: hk.Task, learner: str, steps: int, seeds: int) -> tuple[float, float]:
    """Return the least success and the largest median of any seed, of 200 greedy tests."""
    found = hk.evaluate(task, train(task, learner, seeds, steps, settings={"test_every": steps}), 200, greedy=True)
    return min(own.success.value for own in found), max(own.quartiles[1] for own in found)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("buttons", 2_000),
        ("rendezvous-2", 2_000),
        ("rendezvous-5", 2_000),
        ("rendezvous-10", 2_000),
        ("four-buttons", 4_000),
        ("pass-the-room", 4_000),
        ("warehouse", 4_000),
        ("drawbridge", 4_000),
        ("crew", 4_000),
    ],
)
def test_it_is_within_a_step_of_optimal_policies_after_few_steps_whatever_the_seed(name, steps):
    task = hk.load_task(name)
    success, median = greedy_median(task, "sweep", steps, 5)
    assert success == 1
    assert median <= greedy_median(task, "optimal", 1, 1)[1] + 1


def test_it_finds_its_way_through_many_rooms():
    task = hk.load_task("rooms")
    success, median = greedy_median(task, "sweep", 4_000, 5)
    assert success == 1
    assert median <= greedy_median(task, "optimal", 1, 1)[1] + 1


@pytest.mark.parametrize("slip", [0.0, 0.1, 0.3])
def test_it_comes_close_to_the_optimum_however_often_moves_slip(slip):
    task = replace(hk.load_task("buttons"), slip=slip)
    success, median = greedy_median(task, "sweep", 20_000, 3)
    assert success == 1
    assert median <= greedy_median(task, "optimal", 1, 1)[1] + 1


def round_a_wall(columns: int) -> hk.Task:
    """Part a corridor from the goal behind it by a wall that is open at the far end only."""
    wall = frozenset(range(columns, 2 * columns - 1))
    return hk.Task(
        "round a wall",
        hk.Grid(3, columns, wall, {"goal": {2 * columns}}),
        {"A1": hk.Agent(0, ("arrive",))},
        {"arrive": {"A1": hk.Condition("goal")}},
        hk.RewardMachine(initial="out", transitions={("out", "arrive"): "there"}, final={"there"}),
        slip=0.0,
    )


@pytest.mark.parametrize("task", [round_a_wall(20), corridor(150, slip=0.1)], ids=["round a wall", "far away"])
def test_a_long_way_is_found_though_values_are_small_at_its_beginning(task):
    tables = compile_task(task)
    block = SweepBlock(tables, SweepSettings(), [0])
    block.train(0, 25_000)
    exact = solve(individual_table(tables, 0, 0.3), 0.9, 1e-10)[0, :, 0].max()
    assert block.arrays(0)["q"][0, 0, :, 0].max() == pytest.approx(exact, rel=0.25)


# The default.


def test_the_default_learner_succeeds_greedily_on_every_built_in_task():
    for name in [*built_in_tasks(), "rendezvous-3"]:
        task = hk.load_task(name)
        runs = train(task, seeds=1, settings={"test_every": 25_000})
        assert runs[0].learner == "sweep" and runs[0].steps == 25_000
        (found,) = hk.evaluate(task, runs, 200, greedy=True)
        assert found.success.value == 1 or (task.is_continuing and found.returns.value.value > 470)
