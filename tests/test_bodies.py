"""Agents with bodies, and starts of several cells: the same rules everywhere."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from numba import njit

import hocket as hk
from algorithm import DefinedTeam, DefinedWorld, train_agent, train_as_one, train_iql
from hocket.draw.map_svg import map_svg
from hocket.draw.scene import Moment
from hocket.draw.task_scene import scene_of
from hocket.draw.text import TextMap
from hocket.evaluation.exact import evaluate_exact
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.cqrm.block import CqrmBlock
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.dqprm.block import DqprmBlock
from hocket.learn.iql import IqlSettings
from hocket.learn.iql.block import IqlBlock
from hocket.learn.kernels.team import hold_apart as compiled
from hocket.learn.optimal_team.block import find_space, solve_jointly
from hocket.learn.optimal_team.reference import JointPlanner
from hocket.random import TEAM
from hocket.task.bodies import hold_all_apart, hold_apart, rule_of, units_of
from hocket.task.episode import TeamStep
from hocket.task.files import task_from
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from hocket.task.teamwork.play import TeamMoves, play_team
from interpreter import interpret, walk_apart
from task_strategies import Guide, few, random_task, seeds

RULES = (True, "symmetric", ("room", "hall"))


@njit
def run_compiled(rule, unit, before, cell, held, claim):
    compiled(rule, unit, before, cell, held, claim)


def random_moves(rng: Random, grid: hk.Grid, agents: int) -> tuple[list[int], list[int]]:
    before = rng.sample(range(grid.cells), agents)
    return before, [grid.neighbor(cell, rng.randrange(5)) for cell in before]


def regions_of(bodies: object, grid: hk.Grid) -> list[set[int]]:
    return [{*grid.places[name]} for name in bodies] if isinstance(bodies, tuple) else [{c} for c in range(grid.cells)]


# The rule.


@pytest.mark.parametrize("bodies", RULES, ids=str)
def test_plain_python_numpy_and_the_kernel_hold_agents_apart_as_the_words_of_the_rule_say(bodies):
    rng, held = Random(4), 0
    for _ in range(400):
        rows, columns = rng.choice(((1, 4), (2, 3), (3, 3), (2, 5)))
        cells = rng.sample(range(rows * columns), 4)
        grid = hk.Grid(rows, columns, places={"room": cells[:2], "hall": cells[2:]})
        unit, rule, agents = units_of(bodies, grid), rule_of(bodies), rng.randint(1, min(5, grid.cells))
        before, wanted = random_moves(rng, grid, agents)
        if isinstance(bodies, tuple) and any(
            sum(cell in region for cell in before) > 1 for region in regions_of(bodies, grid)
        ):
            continue
        expected = walk_apart(bodies, regions_of(bodies, grid), before, wanted)
        assert [*hold_apart(bodies, unit, dict(enumerate(before)), dict(enumerate(wanted))).values()] == expected
        many = hold_all_apart(rule, unit, np.array([before, before]), np.array([wanted, before]))
        assert many.tolist() == [expected, before]
        cell, marks, claim = np.array(wanted), np.full(agents, -1), np.zeros(grid.cells, np.int64)
        run_compiled(rule, unit, np.array(before), cell, marks, claim)
        assert cell.tolist() == expected
        assert (marks == -1).all() and not claim.any()
        held += expected != wanted
    assert held > 30


@pytest.mark.parametrize("bodies", [True, "symmetric"], ids=str)
def test_nobody_shares_a_cell_or_swaps_and_who_wants_to_stay_stays(bodies):
    rng, grid = Random(5), hk.Grid(3, 4)
    for _ in range(500):
        before, wanted = random_moves(rng, grid, rng.randint(2, 8))
        after = [*hold_apart(bodies, units_of(bodies, grid), dict(enumerate(before)), dict(enumerate(wanted))).values()]
        assert len({*after}) == len(after)
        assert not any(after[i] == before[j] and after[j] == before[i] for i in range(len(after)) for j in range(i))
        assert all(end in (old, new) for old, new, end in zip(before, wanted, after, strict=True))


@pytest.mark.parametrize(
    ("bodies", "before", "wanted", "after"),
    [
        (True, [0, 1, 2], [1, 2, 3], [1, 2, 3]),  # a column moves on together
        (True, [0, 2], [1, 1], [1, 2]),  # the first in the order of agents goes
        ("symmetric", [0, 2], [1, 1], [0, 2]),  # or nobody
        (True, [0, 1], [1, 0], [0, 1]),  # no swap
        (True, [1, 0, 2], [1, 1, 1], [1, 0, 2]),  # who stays is in the way
        (True, [0, 1, 5, 4], [1, 5, 4, 0], [1, 5, 4, 0]),  # all four go round
        (True, [0, 1, 2, 7], [1, 2, 3, 3], [1, 2, 3, 7]),
        ("symmetric", [0, 1, 2, 7], [1, 2, 3, 3], [0, 1, 2, 7]),  # the front stays, and so do all behind it
    ],
)
def test_agents_with_bodies_move_as_one_would_expect_in_cases_solved_by_hand(bodies, before, wanted, after):
    unit = units_of(bodies, hk.Grid(2, 4))
    assert [*hold_apart(bodies, unit, dict(enumerate(before)), dict(enumerate(wanted))).values()] == after


# Random tasks.


def furnish(rng: Random, task: hk.Task) -> hk.Task:
    """Give a task a start of several cells for some agents, and mostly bodies."""
    ground = task.grid.floor_cells.tolist()
    rng.shuffle(ground)
    sizes = [rng.randint(1, 3) for _ in task.agents]
    if sum(sizes) > len(ground):
        sizes = [1] * len(sizes)
    ends = [0, *np.cumsum(sizes).tolist()]
    starts = dict(zip(task.agents, ([*ground[a:b]] for a, b in pairwise(ends)), strict=True))
    if len(ground) < len(task.agents):
        starts = dict.fromkeys(task.agents, ground)
    agents = {name: replace(agent, start=tuple(starts[name])) for name, agent in task.agents.items()}
    bodies: object = rng.choice((True, True, "symmetric", False)) if len(ground) >= len(task.agents) else False
    task = replace(task, agents=agents, bodies=bodies)
    if bodies is False and len(task.agents) > 1:
        try:
            return replace(task, bodies=(rng.choice([*task.grid.places]),))
        except hk.errors.TaskError:  # two may start in it
            return task
    return task


def random_world(seed: int) -> hk.Task:
    rng = Random(seed)
    return furnish(rng, random_task(rng))


def walk(task: hk.Task, seed: int, number: int, steps: int) -> tuple[list[list[int]], list[TeamStep], list[list[int]]]:
    """Play an episode in plain Python; return cells before and after each step, what happened, and actions."""
    episode, guide = hk.TeamEpisode(task, seed, number), Guide(task, Random(seed))
    cells, happened, chosen = [[*episode.cells.values()]], [], []
    for _ in range(steps):
        if episode.done:
            break
        actions = guide.actions(episode)
        happened.append(episode.step(actions))
        chosen.append([ACTIONS.index(action) for action in actions.values()])
        cells.append([*episode.cells.values()])
    return cells, happened, chosen


@few
@given(seeds)
def test_episodes_follow_the_words_of_the_rules(seed):
    task = random_world(seed)
    cells, happened, _ = walk(task, seed, 1, 30)
    assert all(cell in agent.starts for cell, agent in zip(cells[0], task.agents.values(), strict=True))
    states = {name: machine.initial for name, machine in task.machines.items()}
    for pair, step in zip(pairwise(cells), happened, strict=True):
        before, now = (dict(zip(task.agents, places, strict=True)) for places in pair)
        rounds, states = interpret(task, now, states, before)
        assert [*map(list, step.rounds)] == rounds
        for region in regions_of(task.bodies, task.grid) if task.bodies else ():
            assert sum(cell in region for cell in now.values()) <= 1


@few
@given(seeds)
def test_environments_and_copies_of_teams_play_the_same_episodes(seed):
    task = random_world(seed)
    env, envs = hk.gym.team_env(task), hk.gym.team_vector_env(task, 2)
    env.reset(seed=seed % 1000)
    envs.reset(seed=[seed % 1000, seed % 1000])
    cells, happened, chosen = walk(task, seed % 1000, 0, 30)
    assert [*env.cells.values()] == cells[0] == envs.state()[1, : len(task.agents)].tolist()
    for actions, after, step in zip(chosen, cells[1:], happened, strict=True):
        env.step(dict(zip(task.agents, actions, strict=True)))
        envs.step(np.array([actions, actions]))
        assert [*env.cells.values()] == after == envs.state()[0, : len(task.agents)].tolist()
        assert env.states == dict(step.states)


class Script:
    """Plays actions that are written down."""

    def __init__(self, actions):
        self.actions, self.step = actions, 0

    def choose(self, cell, state, drawn):
        self.step += 1
        return np.array([self.actions[self.step - 1]], np.int8)


@few
@given(seeds)
def test_episodes_in_numpy_and_in_kernels_are_those_of_plain_python(seed):
    task = random_world(seed)
    cells, _, chosen = walk(task, seed % 1000, 3, 30)
    if not chosen:
        return
    tables, seen = compile_task(task), []
    play_team(
        tables,
        Script(chosen).choose,
        TeamMoves.true(tables),
        episodes=range(3, 4),
        max_steps=len(chosen),
        patience=10**9,
        seed=seed % 1000,
        purpose=TEAM,
        watch=lambda going, cell, action, settled: seen.append(cell[0].tolist()),
    )
    assert seen == cells[1:]


@pytest.mark.parametrize("seed", range(6))
def test_learners_train_with_bodies_and_starts_as_their_references_do(seed):
    task = random_world(seed + 70)
    tables = compile_task(task)
    q = train_iql(task, IqlSettings(), seed, 120)
    block = IqlBlock(tables, IqlSettings(), [seed])
    block.train(0, 120)
    np.testing.assert_allclose(block.arrays(0)["q"], q, atol=1e-5)
    lone = DqprmBlock(tables, DqprmSettings(team_review="off"), [seed])
    lone.train(0, 200)
    for index, name in enumerate(task.agents):
        expected = train_agent(DefinedWorld(task, name), DqprmSettings(), seed, 200).q
        np.testing.assert_allclose(lone.arrays(0)["q"][index, ..., : expected.shape[2]], expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_agents_as_one_train_with_bodies_and_starts_as_the_reference_does(seed):
    task = next(
        task
        for number in range(seed * 50, 10**6)
        if (task := random_world(number)).bodies and len(task.agents) == 2 and task.grid.cells < 20
    )
    block = CqrmBlock(compile_task(task), CqrmSettings(), [seed])
    block.train(0, 150)
    np.testing.assert_allclose(
        block.arrays(0)["q"], train_as_one(DefinedTeam(task), CqrmSettings(), seed, 150), atol=1e-5
    )


# Corridors.


def corridor(columns: int, *, bodies: object = True, bay: bool = False, slip: float = 0.0) -> hk.Task:
    """Two agents at the ends of a corridor have to get to the other ends; a bay lets one make way."""
    side = {columns + columns // 2} if bay else set()
    walls = {columns + column for column in range(columns)} - side
    grid = hk.Grid(2, columns, frozenset(walls), {"left": {0}, "right": {columns - 1}})
    parts = {
        name: hk.RewardMachine(initial="go", transitions={("go", f"{name} there"): "there"}, final={"there"})
        for name in ("A", "B")
    }
    ends = {"A": "right", "B": "left"}
    return hk.Task(
        "corridor",
        grid,
        {"A": hk.Agent(0, ("A there",)), "B": hk.Agent(columns - 1, ("B there",))},
        {f"{name} there": {name: hk.Condition(place)} for name, place in ends.items()},
        hk.Composition(parts),
        slip=slip,
        bodies=bodies,
    )


def test_the_team_verdict_says_who_blocks_whom_in_a_corridor():
    free, blocked = hk.check_task(corridor(5, bodies=False)), hk.check_task(corridor(5))
    assert free.ok and not blocked.ok
    assert blocked.decomposition.ok  # of the machines nothing is wrong
    assert blocked.as_json()["team"]["success"] == 0
    assert blocked.as_json()["team"]["stall"]["waiting"]["A"]["beside"] == ["B"]
    assert any("with B beside it, in state go, and proposes nothing" in problem for problem in blocked.problems)


def test_the_optimal_team_makes_way_where_there_is_a_bay():
    for bodies in (True, "symmetric"):
        task = corridor(5, bodies=bodies, bay=True, slip=0.1)
        space = find_space(compile_task(task))
        value, _ = solve_jointly(space, 1e-10, 1000)
        planner = JointPlanner(DefinedTeam(task), task.slip, 1000)
        assert value[space.starts].mean() == pytest.approx(planner.solve(), abs=1e-5)
    assert planner.solve() > 6
    space = find_space(compile_task(corridor(5, bay=False)))
    assert solve_jointly(space, 1e-10, 1000)[0][space.starts[0]] == 1000


def test_starts_are_letters_places_and_cells_in_one_list():
    task = hk.load_task("patrol")
    document = {**task.document(), "bodies": False}
    document["agents"] = {**document["agents"], "A1": {**document["agents"]["A1"], "start": ["post", "E", [0, 0]]}}
    assert task_from(document).agents["A1"].starts == (0, 8, 9, 18, 19, 34, 35)
    document["agents"]["A1"]["start"] = ["E", "pots"]
    with pytest.raises(hk.HocketError, match=r"agents\.A1\.start: place 'pots' does not exist \(did you mean 'post'"):
        task_from(document)


def test_all_cells_in_which_an_agent_may_start_are_drawn(tmp_path):
    task = replace(corridor(5), agents={"A": hk.Agent((0, 1), ("A there",)), "B": hk.Agent(4, ("B there",))})
    scene = scene_of(task)
    assert scene.regions == {"A": (0, 1)}
    moment = Moment({"A": 3, "B": 2})
    assert TextMap(scene).draw(moment)[0].plain.startswith("L₁·₁2 1 ")
    assert str(map_svg(scene, [])).count('fill="none"') == 2
    hk.draw_task(task, tmp_path / "task.svg")
    assert "one of 2 cells" in (tmp_path / "task.svg").read_text(encoding="utf-8")


# Exact values.


def test_exact_values_are_averages_over_starts_and_see_bodies():
    task = replace(corridor(3, slip=0.3), agents={"A": hk.Agent((0, 1), ("A there",)), "B": hk.Agent(2, ("B there",))})
    trained = hk.train(task, learner="optimal", seeds=1, steps=1)
    policy = trained[0].policy
    whole = evaluate_exact(task, policy)
    parts = []
    for start in (0, 1):
        one = replace(task, agents={**task.agents, "A": hk.Agent(start, ("A there",))})
        parts.append(evaluate_exact(one, replace(policy, digest=one.digest)))
    assert whole.success == pytest.approx(np.mean([part.success for part in parts]))
    for name in task.agents:
        assert whole.agents[name].value == pytest.approx(np.mean([part.agents[name].value for part in parts]))
    ghosts = replace(task, bodies=False)
    assert evaluate_exact(ghosts, replace(policy, digest=ghosts.digest)).success == 1
    assert whole.success < 1
