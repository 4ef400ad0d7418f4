"""Teams of planned policies: planning, playing, counting, and what `check` says of a team."""

import json
from collections import Counter, deque
from contextlib import suppress
from itertools import pairwise, product
from pathlib import Path
from random import Random

import numpy as np
import pytest

import hocket as hk
from algorithm import DefinedTeam
from hocket.cli.main import run
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.dqprm.block import lane_limits
from hocket.learn.dqprm.block import make_block as dqprm_block
from hocket.learn.episodes import ValuePlayer
from hocket.learn.optimal.block import solve_at_once
from hocket.learn.optimal_team import block as optimal_team
from hocket.learn.optimal_team.block import JointPlayer, find_space, solve_jointly
from hocket.learn.optimal_team.reference import JointPlanner
from hocket.learn.reviews import SHARE_PLAYED
from hocket.learn.sweep import SweepSettings
from hocket.learn.sweep.beliefs import imagined_moves
from hocket.learn.sweep.block import SweepBlock
from hocket.learn.sweep.block import make_block as sweep_block
from hocket.learn.testing import recording
from hocket.random import TEAM
from hocket.task.files import task_from
from hocket.task.grid import ACTIONS
from hocket.task.repair import repair_task
from hocket.task.settling import settle
from hocket.task.tables import compile_task
from hocket.task.teamwork import search
from hocket.task.teamwork.check import play_planned
from hocket.task.teamwork.joint import fewest_steps, joint_space
from hocket.task.teamwork.planning import Planner
from hocket.task.teamwork.play import TeamMoves, play_team
from hocket.task.teamwork.readiness import Counts, Readiness
from hocket.task.teamwork.search import RevisedAgreements, TeamSearch, agreements
from task_strategies import random_pair
from team_tasks import random_team_task

TEAMS = Path(__file__).parent / "teams"


def random_chances(readiness: Readiness, seed: int) -> np.ndarray:
    """Draw what agents believe, some of it impossible and some of it certain."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice([0.0, 0.01, 0.3, 0.7, 1.0], size=readiness.waits.shape)
    return np.where(readiness.waits, drawn, readiness.believe(0.3))


@pytest.mark.parametrize("seed", range(25))
def test_planned_values_are_those_of_plain_value_iteration(seed):
    task = random_pair(Random(seed)).listed if seed % 2 else random_team_task(seed)
    readiness = Readiness(compile_task(task))
    chances = random_chances(readiness, seed)
    for agent in range(len(task.agents)):
        table = readiness.table(agent, chances)
        np.testing.assert_allclose(table.chance.sum(axis=2), 1)
        expected = solve_at_once(table, 0.9, 1e-12)
        planner = Planner(table, *TeamMoves.true(readiness.tables).outcomes(agent))
        np.testing.assert_allclose(planner.values(table, 0.9), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_a_team_plays_the_same_episodes_as_the_compiled_tests(seed):
    task = random_team_task(seed)
    tables = compile_task(task)
    rng = np.random.default_rng(seed)
    shape = (len(task.agents), tables.cells, 5, tables.event.shape[1])
    values = rng.integers(0, 3, shape).astype(np.float32)  # with many ties
    played = play_team(
        tables,
        values,
        TeamMoves.true(tables),
        episodes=range(5, 25),
        max_steps=80,
        patience=1_000,
        seed=3,
        purpose=TEAM,
    )
    expected = ValuePlayer(tables, 0.02, 80).play_many({"q": values}, 3, range(5, 25), greedy=True)
    assert played.steps.tolist() == np.maximum(expected.steps, -1).tolist()


@pytest.mark.parametrize("seed", range(8))
def test_episodes_in_which_everyone_waits_for_ever_count_as_if_they_were_played(seed):
    task = random_team_task(seed)
    tables = compile_task(task)
    readiness, moves = Readiness(tables), TeamMoves.true(tables)
    search = TeamSearch(tables, readiness, 0.9, moves, 300)
    values = np.stack([search.values(agent, readiness.believe(0.3)) for agent in range(len(task.agents))])
    watched = []
    short, played = (
        play_team(tables, values, moves, episodes=range(20), max_steps=300, patience=90, watch=watch)
        for watch in (None, lambda *step: watched.append(step))
    )
    assert watched
    for name in ("steps", "length", "state"):
        np.testing.assert_array_equal(getattr(short, name), getattr(played, name))
    np.testing.assert_array_equal(short.counts.proposed, played.counts.proposed)
    np.testing.assert_array_equal(short.counts.happened, played.counts.happened)


def joint_search(task: hk.Task) -> int | None:
    """TeamSearch joint states in plain Python, settling each step by the rule itself."""
    tables, agents = compile_task(task), [*task.agents]
    names = {agent: tuple(machine.states) for agent, machine in task.machines.items()}
    start = tuple((task.agents[agent].start, task.machines[agent].initial) for agent in agents)
    seen, queue = {start}, deque([(start, 0)])
    while queue:
        here, steps = queue.popleft()
        if all(state in task.machines[agent].final for agent, (_, state) in zip(agents, here, strict=True)):
            return steps
        ways = []
        for number, (agent, (cell, state)) in enumerate(zip(agents, here, strict=True)):
            dynamics = tables.dynamics[number, names[agent].index(state)]
            ways.append({int(end) for end in tables.next_cell[tables.world[number], dynamics, cell, :, 0]})
        for cells in product(*ways):
            states = {agent: state for agent, (_, state) in zip(agents, here, strict=True)}
            before = {agent: cell for agent, (cell, _) in zip(agents, here, strict=True)}
            after = settle(task, dict(zip(agents, cells, strict=True)), states, before).states
            there = tuple((cell, after[agent]) for agent, cell in zip(agents, cells, strict=True))
            if there not in seen:
                seen.add(there)
                queue.append((there, steps + 1))
    return None


def test_the_fewest_joint_steps_are_those_of_a_plain_search():
    compared = 0
    for seed in range(200):
        task = random_team_task(seed)
        with suppress(hk.HocketError):  # most are too large
            assert fewest_steps(joint_space(compile_task(task), 6_000)) == joint_search(task)
            compared += 1
        if compared == 8:
            return
    pytest.fail("too few small tasks")


@pytest.mark.parametrize(("name", "steps"), [("buttons", 17), ("rendezvous-2", 16), ("drawbridge", 18)])
def test_the_optimum_of_built_in_teams(name, steps):
    assert fewest_steps(joint_space(compile_task(hk.load_task(name)))) == steps


def test_joint_planning_refuses_what_is_too_large():
    with pytest.raises(hk.HocketError, match="joint planning takes up to 50,000,000 joint states"):
        joint_space(compile_task(hk.load_task("rendezvous-10")))


def test_readiness_is_the_share_of_proposals_that_happen():
    """A waits for an event that happens in each third step in which it proposes it."""
    task = hk.load_task(TEAMS / "cafe.toml")
    tables = compile_task(task)
    readiness = Readiness(tables)
    before = readiness.believe(0.3)
    proposed, happened = np.zeros_like(tables.event, np.int64), np.zeros_like(tables.event, np.int64)
    slot = tuple(np.argwhere(tables.event[0] >= 0)[0])
    proposed[(0, *slot)], happened[(0, *slot)] = 300, 100
    counted = readiness.count(Counts(proposed, happened), before)
    assert counted[(0, *slot)] == pytest.approx((100 + 0.15) / 300.5)
    assert (counted[1] == before[1]).all()


def test_agreements_are_traces_that_complete_and_hold_every_choice():
    tables = compile_task(hk.load_task(TEAMS / "stations.toml"))
    traces = agreements(tables, 50)
    covered = set()
    for trace in traces:
        state = tables.team_initial
        for here, event in trace:
            assert here == state
            state = tables.team_next[state, event]
        assert tables.team_final[state]
        covered.update(trace)
    assert covered == {(v, e) for v, e in np.argwhere(tables.team_next >= 0).tolist()}


def test_an_agreement_is_revised_where_the_team_waits_in_vain():
    """Somebody holds a door for another, who takes a token and comes back, twice; the machine does not ask for it."""
    task = random_team_task(420_361)
    tables, events = compile_task(task), [*task.events]
    search = TeamSearch(tables, Readiness(tables), 0.9, TeamMoves.true(tables), 1_000)
    revised, agreed, success = RevisedAgreements(tables), [], []
    for start in revised.starts(search.readiness):
        following, state, trace = revised.next_events(), tables.team_initial, []
        while state in following:
            trace.append(events[following[state]])
            state = int(tables.team_next[state, following[state]])
        agreed.append(trace)
        revised.last = search.play(np.stack([search.values(agent, start) for agent in range(len(task.agents))]))
        success.append((revised.last.steps >= 0).mean())
    assert agreed[0] == ["atake", "ahome", "btake", "bhome"]
    assert agreed[-1] == ["aon", "atake", "ahome", "bon", "btake", "bhome"]
    assert success[0] == 0 and success[-1] == 1 and len(success) <= 5


def test_of_two_teams_that_fail_the_one_that_gets_further_is_better():
    task = hk.load_task(TEAMS / "door.toml")
    tables = compile_task(task)
    search = TeamSearch(tables, Readiness(tables), 0.9, TeamMoves.true(tables), 100)
    values = np.stack([search.values(agent, search.readiness.believe(0.3)) for agent in range(len(task.agents))])
    played = search.play(values)._replace(steps=np.array([-1]))
    ended = np.array([np.argmax(final) for final in tables.is_final])
    far, near = (search.score(played._replace(state=state[None])) for state in (tables.initial.astype(int), ended))
    assert far < near == (0.0, -100.0)


@pytest.mark.parametrize(("name", "steps"), [("cafe", 7), ("door", 11), ("stations", 18)])
def test_teams_that_would_wait_for_each_other_for_ever_are_planned_to_success(name, steps):
    verdict = hk.check_task(TEAMS / f"{name}.toml")
    assert verdict.ok
    team = verdict.as_json()["team"]
    assert team["success"] == 1 and team["stall"] is None
    assert team["steps"] <= steps


def test_a_team_that_no_event_tells_what_to_wait_for_is_refused_with_its_stall():
    verdict = hk.check_task(TEAMS / "silent.toml")
    assert not verdict.ok and verdict.decomposition.ok
    team = verdict.as_json()["team"]
    assert team["success"] < 0.99
    assert team["stall"]["waiting"]["A1"]["for"] == ["on"]
    assert "A1 waits at (0, 2) for on; A2 is done" in verdict.problems[-1]
    assert verdict.as_json()["agents"]["A2"]["can_be_rewarded"]  # it is final from the start


def test_repair_adds_the_event_that_the_team_needs():
    repaired = repair_task(TEAMS / "silent.toml")
    assert not repaired.stall and repaired.added
    assert hk.check_task(repaired.task).ok
    assert sum(len(events) for events in repaired.added.values()) == 1
    assert repaired.added.exact and repaired.added.bound == 1
    assert not repair_task(TEAMS / "cafe.toml").added


def test_an_event_that_is_enough_for_machine_and_team_is_preferred_to_one_for_each():
    """With home known to the convoy the task is decomposable, and the sentry still needs to know of the arrival."""
    task, added = hk.load_task(TEAMS / "sentry.toml"), repair_task(TEAMS / "sentry.toml").added
    assert hk.repair(task.machine, task.knows, task.needs).cost == 1
    assert dict(added) == {"sentry": {"arrive"}} and added.exact
    dear = repair_task(task, cost={("sentry", "arrive"): 5}).added
    assert dict(dear) == dict(added) and dear.cost == dear.bound == 5  # there is one other pair, and both cost 6


def test_an_agent_that_can_never_be_rewarded_is_told_with_its_state_and_the_event_that_would_help():
    verdict = hk.check_task(TEAMS / "bell.toml")
    assert not verdict.ok
    assert verdict.problems == (
        "A2 can never be rewarded: its local reward machine gets no farther than state {up,ready}, in which ring never "
        "happens; add go to its local event set.",
    )
    agents = verdict.as_json()["agents"]
    assert agents["A1"]["can_be_rewarded"] and not agents["A2"]["can_be_rewarded"]
    repaired = repair_task(TEAMS / "bell.toml")
    assert dict(repaired.added) == {"A2": {"go"}} and not repaired.stall
    assert hk.check_task(repaired.task).ok


def test_a_reward_that_is_too_far_for_single_precision_is_a_reward():
    task = hk.load_task(TEAMS / "cafe.toml").document() | {"map": "." * 1_200 + "\n", "legend": {}}
    task["places"] = {"cafe X": [[0, 1_198]], "cafe Y": [[0, 1_199]]}
    task["agents"] = {name: {"start": [0, 0], "knows": ["meetX", "meetY"]} for name in "AB"}
    assert play_planned(task_from(task), most_work=1).rewarded == {"A": True, "B": True}


@pytest.mark.parametrize("seed", range(300, 330))
def test_random_teams_whose_preconditions_are_told_complete_their_tasks(seed):
    task = random_team_task(seed, told=True)
    team = play_planned(task)
    assert team.ok, team.problems
    if task.slip == 0 and team.fewest_steps is not None:
        assert team.median_steps >= team.fewest_steps


def test_check_takes_no_play(capsys):
    path = str(TEAMS / "silent.toml")
    assert run(["check", path, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["decomposable"] and document["team"]["stall"]["trace"] == []
    assert document["repair"]["add"]
    assert run(["check", path, "--json", "--no-play"]) == 0
    assert json.loads(capsys.readouterr().out)["team"] is None
    assert run(["check", path]) == 1
    assert "The team stalls from the start: A1 waits at (0, 2) for on; A2 is done." in capsys.readouterr().out


# Learners.


@pytest.mark.parametrize("name", ["cafe", "door", "stations"])
def test_sweep_trains_teams_that_constant_readiness_lets_down(name):
    task = hk.load_task(TEAMS / f"{name}.toml")
    settings = {"test_every": 25_000}
    runs = hk.train(task, "sweep", seeds=2, settings=settings)
    assert [run.success.value for run in hk.evaluate(task, runs, 100, greedy=True)] == [1.0, 1.0]
    if name != "stations":  # where agents that wait for each other wander off in the end
        runs = hk.train(task, "sweep", seeds=1, settings={**settings, "team_review": "off"})
        assert hk.evaluate(task, runs, 100, greedy=True)[0].success.value < 0.9


def test_what_is_believed_does_not_depend_on_threads_pieces_or_company():
    tables, settings = compile_task(hk.load_task(TEAMS / "cafe.toml")), SweepSettings()
    whole, pieces = SweepBlock(tables, settings, [7], 1), SweepBlock(tables, settings, [3, 7], 3)
    whole.train(0, 2_500)
    for begin, steps in ((0, 999), (999, 1), (1_000, 1), (1_001, 1_499)):
        pieces.train(begin, steps)
        pieces.arrays(1)
    assert any(agent.view is not agent.first for agent in whole.teams[0])  # a review has changed a belief
    np.testing.assert_array_equal(pieces.arrays(1)["q"], whole.arrays(0)["q"], strict=True)


@pytest.mark.parametrize("name", ["cafe", "door", "stations"])
def test_sweep_trains_them_as_well_by_what_is_counted_in_the_world(name):
    task = hk.load_task(TEAMS / f"{name}.toml")
    runs = hk.train(task, "sweep", seeds=2, settings={"test_every": 25_000, "team_review": "world"})
    assert [run.success.value for run in hk.evaluate(task, runs, 100, greedy=True)] == [1.0, 1.0]


def test_dqprm_meets_in_a_cafe_if_it_counts_how_ready_teammates_are():
    task, settings = hk.load_task(TEAMS / "cafe.toml"), {"test_every": 50_000}
    runs = hk.train(task, "dqprm", seeds=3, steps=100_000, settings={**settings, "team_review": "world"})
    assert [run.success.value for run in hk.evaluate(task, runs, 100, greedy=True)] == [1.0] * 3
    runs = hk.train(task, "dqprm", seeds=1, steps=100_000, settings=settings)
    assert hk.evaluate(task, runs, 100, greedy=True)[0].success.value == 0


@pytest.mark.parametrize(
    ("make_block", "settings"),
    [(dqprm_block, DqprmSettings(team_review="world")), (sweep_block, SweepSettings(team_review="world"))],
)
def test_what_is_counted_in_the_world_does_not_depend_on_threads_pieces_or_company(make_block, settings):
    tables = compile_task(hk.load_task(TEAMS / "cafe.toml"))
    whole, pieces = make_block(tables, settings, [7], 1), make_block(tables, settings, [3, 7], 3)
    whole.train(0, 2_700)
    for begin, steps in ((0, 999), (999, 1), (1_000, 1), (1_001, 1_099), (2_100, 600)):
        pieces.train(begin, steps)
        pieces.arrays(1)
    assert (whole.seeds[0].chances != whole.seeds[0].first).any()  # a review has changed a belief
    np.testing.assert_array_equal(pieces.arrays(1)["q"], whole.arrays(0)["q"], strict=True)


@pytest.mark.parametrize(
    ("make_block", "settings"),
    [(dqprm_block, DqprmSettings(team_review="world")), (sweep_block, SweepSettings(team_review="world"))],
)
def test_steps_that_are_played_in_the_world_are_taken_from_the_steps_to_train(make_block, settings):
    block = make_block(compile_task(hk.load_task(TEAMS / "cafe.toml")), settings, [0], 1)
    (seed,) = block.seeds
    trained, train = [], seed.team.train
    seed.team.train = lambda begin, steps: (trained.append((begin, steps)), train(begin, steps))
    block.train(0, 1_000)
    played = seed.played_until - 1_000
    assert 0 < played <= 1_000 // SHARE_PLAYED and trained == [(0, 1_000)]
    learnt = block.arrays(0)["q"].copy()
    block.train(1_000, played)
    np.testing.assert_array_equal(block.arrays(0)["q"], learnt)
    block.train(1_000 + played, 100)
    assert trained == [(0, 1_000), (1_000 + played, 100)]


def test_dqprm_trains_with_the_readiness_that_it_is_told():
    tables = compile_task(hk.load_task(TEAMS / "cafe.toml"))
    readiness, settings = Readiness(tables), DqprmSettings(team_review="world")
    block = dqprm_block(tables, settings, [0], 1).blocks[0]
    before = block.tables.limit.copy()
    never = readiness.table(1, readiness.believe(0.0))
    block.believe(never)
    np.testing.assert_array_equal(block.tables.limit[0], before[0])
    assert (block.tables.limit[1, ..., : len(never.dynamics)] == lane_limits(never)).all() and before[1].any()


def test_imagined_moves_are_what_was_tried_and_else_what_is_believed():
    task = hk.load_task(TEAMS / "cafe.toml")
    block = SweepBlock(compile_task(task), SweepSettings(), [0])
    agent = block.teams[0][0]
    right, start = ACTIONS.index("right"), task.agents["A"].start
    agent.tries[agent.moves.move[0, start, right]] = [6, 1, 1]
    ahead = np.minimum(np.arange(9) + 1, 8)[:, None] + np.zeros(5, int)
    end, chance = imagined_moves([agent] * 2, ahead, 1.0).outcomes(0)
    np.testing.assert_allclose(chance.sum(axis=-1), 1)
    np.testing.assert_allclose(chance[0, start, right], [0, 0.75, 0.125, 0.125], atol=1e-8)
    np.testing.assert_allclose(chance[0, start + 1, right], [1, 0, 0, 0])
    assert end[0, start + 1, right, 0] == start + 2


def test_moves_that_have_not_slipped_yet_may_slip_as_all_moves_do():
    task = hk.load_task(TEAMS / "cafe.toml")
    block = SweepBlock(compile_task(task), SweepSettings(), [0])
    agent = block.teams[0][0]
    right, up, start = ACTIONS.index("right"), ACTIONS.index("up"), task.agents["A"].start
    agent.tries[agent.moves.move[0, start, right]] = [4, 0, 0]
    agent.tries[agent.moves.move[0, start + 1, right]] = [12, 2, 2]
    ahead = np.broadcast_to(np.arange(9)[:, None], (9, 5))
    end, chance = imagined_moves([agent] * 2, ahead, 0.03).outcomes(0)
    np.testing.assert_allclose(chance[0, start, right], [0, 0.9, 0.05, 0.05], atol=1e-8)
    assert end[0, start, right, 1:].tolist() == [start + 1, start, start]
    np.testing.assert_allclose(chance[0, start, up, 0], 1)


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        (420_083, 5_000),  # an agent is done when its episode begins, may take a load all the same, and knows no way
        (420_173, 5_000),  # any of four may go, and alone nobody gets far before a simulated teammate has been there
        (420_361, 2_500),  # two doors that must be held open, and a machine that does not say so
    ],
)
def test_what_check_calls_fine_is_learnt(seed, steps):
    task = random_team_task(seed)
    runs = hk.train(task, "sweep", seeds=1, steps=steps, settings={"test_every": steps})
    assert hk.evaluate(task, runs, 100, greedy=True)[0].success.value == 1


def test_a_team_that_relies_on_what_nobody_has_tried_practises_and_its_steps_count():
    tables, settings = compile_task(random_team_task(420_173)), SweepSettings()
    whole, pieces = SweepBlock(tables, settings, [1], 1), SweepBlock(tables, settings, [5, 1], 3)
    never = SweepBlock(tables, SweepSettings(practice=0), [1], 1)
    for block in (whole, never):
        block.train(0, 4_300)
    for begin, stop in pairwise((0, 3_999, 4_000, 4_001, 4_050, 4_300)):
        pieces.train(begin, stop - begin)
        pieces.arrays(1)
    np.testing.assert_array_equal(pieces.arrays(1)["q"], whole.arrays(0)["q"], strict=True)
    for block in (whole, never):
        assert sum(int(agent.tries.sum()) for agent in block.teams[0]) == 4_300 * len(tables.start)
    assert not whole.beliefs[0].is_hope and never.beliefs[0].is_hope


def test_after_the_last_step_a_team_is_kept_that_was_imagined_and_did_not_fail():
    """Two agents value two meetings nearly alike; once in thirty episodes each waits for the other at its own."""
    task, succeeds = random_team_task(800_638), {}
    for is_reviewed in (False, True):
        settings = {"test_every": 25_000, "final_review": is_reviewed}
        runs = hk.train(task, "sweep", seeds=[0], steps=25_000, settings=settings)
        succeeds[is_reviewed] = hk.evaluate(task, runs, 400, greedy=True)[0].success.value == 1
    assert succeeds == {False: False, True: True}


def test_every_seed_that_begins_with_a_world_plays_the_very_team_that_it_imagined():
    task = hk.load_task(TEAMS / "cafe.toml")
    (run,) = hk.train(task, seeds=1, steps=2_000, settings={"test_every": 2_000})
    block = SweepBlock(compile_task(task), SweepSettings(), [3, 4])
    block.begin_with(run.world)
    for index, beliefs in enumerate(block.beliefs):
        np.testing.assert_array_equal(block.arrays(index)["q"], beliefs.values, strict=True)


def test_a_team_does_not_rely_on_a_way_that_nobody_looks_for_any_more():
    """Any of three may fetch a load, the nearest way is a wall that was tried once or twice, and each waits."""
    task = random_team_task(200_022, told=True)
    runs = hk.train(task, "sweep", seeds=1, steps=4_000, settings={"test_every": 4_000})
    assert hk.evaluate(task, runs, 100, greedy=True)[0].success.value == 1


# The team's optimum.


def tiny(slip: float) -> hk.Task:
    """Two agents in a corridor, who meet at either end."""
    document = hk.load_task(TEAMS / "cafe.toml").document() | {"slip": slip, "map": "....\n", "legend": {}}
    document["places"] = {"cafe X": [[0, 0]], "cafe Y": [[0, 3]]}
    document["agents"] = {
        name: {"start": [0, cell], "knows": ["meetX", "meetY"]} for name, cell in (("A", 0), ("B", 2))
    }
    return task_from(document)


@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_joint_planning_is_that_of_plain_python(slip):
    task = tiny(slip)
    planner = JointPlanner(DefinedTeam(task), slip, 1_000)
    expected = planner.solve()
    space = find_space(compile_task(task))
    value, _ = solve_jointly(space, 1e-12, 1_000)
    assert value[space.starts[0]] == pytest.approx(expected, abs=1e-6)
    if slip == 0:
        assert expected == fewest_steps(space) == 2


def token_team() -> hk.Task:
    """Two agents among tokens: one helps the other through a door, and must not step on a token that ends all."""
    helper = {("go", "7"): "lost", ("go", "A on 1"): "free", ("free", "5"): "done"}
    machines = {
        "A": hk.RewardMachine(initial="go", transitions={("go", "1"): "done"}, final={"done"}),
        "B": hk.RewardMachine(initial="go", transitions=helper, final={"done"}),
    }
    return hk.token_task("token-rooms-2", machines)


@pytest.mark.parametrize("listed", [0, 250])
@pytest.mark.parametrize(("make", "most"), [(lambda: tiny(0.0), 1_000), (token_team, 200), (token_team, 8)])
def test_steps_counted_back_from_the_end_are_those_of_value_iteration(make, most, listed, monkeypatch):
    space = find_space(compile_task(make()))
    value, action = solve_jointly(space, 1e-9, most)
    monkeypatch.setattr(optimal_team, "MOST_LISTED", listed)  # so there is no room for counting back
    expected, best = solve_jointly(space, 1e-9, most)
    counted = (action != 0) | ((value > 0) & (value < most))  # agents with bodies cannot get everywhere
    assert counted.sum() >= 10
    assert np.array_equal(value[counted], expected[counted]) and np.array_equal(action[counted], best[counted])
    assert np.array_equal(value[space.starts], expected[space.starts])
    if not space.tables.body_rule:
        assert np.array_equal(action, best) and np.array_equal(value, expected)


def test_the_optimal_team_takes_the_steps_that_it_expects():
    task = random_team_task(58)  # with slips
    assert task.slip
    runs = hk.train(task, "optimal-team", seeds=1, steps=1_000)
    evaluation = hk.evaluate(task, runs, 4_000)[0]
    space = find_space(compile_task(task))
    value, _ = solve_jointly(space, 1e-9, 1_000)
    assert evaluation.success.value == 1
    assert evaluation.mean_steps == pytest.approx(value[space.starts[0]], rel=0.03)
    assert value[space.starts[0]] >= fewest_steps(space)


def test_a_joint_episode_is_recorded_and_timed():
    task = hk.load_task("drawbridge")
    tables = compile_task(task)
    player = JointPlayer(tables, 0.02, 1_000)
    _, action = solve_jointly(player.space, 1e-6, 1_000)
    record = recording(100, 2)
    steps = player.play({"action": action}, 0, 3, True, record)
    many = player.play_many({"action": action}, 0, range(3, 6), greedy=False)
    assert many.steps[0] == steps > 0
    assert (player.finish <= steps).all() and player.finish.max() == steps
    assert player.event_time.max() == steps
    assert tables.is_final[[0, 1], record.state[steps - 1]].all()


def test_optimal_alone_is_another_name_of_optimal():
    (run,) = hk.train(TEAMS / "cafe.toml", "optimal-alone", seeds=1, steps=1_000)
    assert run.learner == "optimal"


def test_optimal_team_refuses_a_team_that_is_too_large():
    with pytest.raises(hk.HocketError, match="joint planning takes up to 20,000,000 joint states"):
        hk.train("rendezvous-10", "optimal-team", seeds=1, steps=1_000)


def test_a_team_that_fails_seldom_is_searched_for_once_more_with_many_episodes():
    """Sixty episodes do not show that two agents sometimes choose different places to meet."""
    team = play_planned(random_team_task(2445))
    assert team.success == 1


def test_a_team_that_no_event_can_help_is_not_told_that_nothing_is_missing(tmp_path, capsys):
    """Two agents of which each has to get past the other in a corridor where no two fit."""
    path = tmp_path / "corridor.toml"
    path.write_text(
        """
        bodies = true
        map = "L1...2R"
        legend = { L = "left", R = "right", 1 = "west", 2 = "east" }
        agents = { A = { start = "1", knows = ["a", "b"] }, B = { start = "2", knows = ["a", "b"] } }
        events = { a = "A at right", b = "B at left" }
        machine = { initial = "u0", final = ["u2"], transitions = { u0 = { a = "u1" }, u1 = { b = "u2" } } }
        """
    )
    assert run(["check", str(path)]) == 1
    assert capsys.readouterr().out.endswith("\nNo repair: no event was found that helps the team.\n")
    assert run(["repair", str(path)]) == 1
    assert capsys.readouterr().out.startswith("No event was found that helps the team, which stalls from the start:")


def test_what_is_remembered_of_plans_and_teams_changes_nothing_but_how_often_they_are_made(monkeypatch):
    """Where cafés pay, all starts are improved, and most come to the same team."""
    task = hk.load_task(TEAMS / "cafe.toml").document()
    task["machine"]["rewards"] = {"apart": {"meetX": 4, "meetY": 2}}
    made, remembered, forgotten = [], [], []
    for owner, name in ((search, "play_team"), (search.Planner, "values")):
        make = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, make=make, **more: made.append(make) or make(*given, **more))
    for kept, most in ((remembered, search.MOST_REMEMBERED), (forgotten, 0)):
        monkeypatch.setattr(search, "MOST_REMEMBERED", most)
        kept += play_planned(task_from(task)), Counter(made)
        made.clear()
    assert remembered[0] == forgotten[0] and remembered[0].mean_return == 4
    assert all(remembered[1][make] < forgotten[1][make] for make in forgotten[1])
