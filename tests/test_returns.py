"""Teams that are paid for more than completion: they earn what the team machine pays, and each agent its part of it."""

import csv
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest

import hocket as hk
from algorithm import DefinedTeam
from hocket.evaluation.exact import evaluate_exact
from hocket.learn.catalogue import LEARNERS
from hocket.learn.optimal_team.block import find_space, solve_jointly
from hocket.learn.optimal_team.reference import JointPlanner
from hocket.learn.testing import recording
from hocket.report.figures.canvas import write_figure
from hocket.report.figures.curves import curves_figure
from hocket.report.performance import RunTests, final_of
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from interpreter import interpret
from worlds import ferry, gallery, line, meeting, turnpike, warm_kernels

EPISODE = 40  # steps


@pytest.fixture(scope="session", autouse=True)
def _compiled():
    warm_kernels()


def patrol() -> hk.Task:
    return hk.load_task("patrol")


WORLDS = {
    "gallery": lambda: gallery(0.1),
    "ferry": lambda: ferry(0.1),
    "patrol": patrol,
    "alone": lambda: turnpike(0.1),
}


def replayed(task: hk.Task, actions: np.ndarray, seed: int, number: int) -> tuple[float, dict[str, float]]:
    """Play recorded actions in plain Python, and add up what the team machine pays, and what each agent's does."""
    team = task.machine.machine() if isinstance(task.machine, hk.Composition) else task.machine
    episode, earned = hk.TeamEpisode(task, seed, number), 0.0
    trace: list[str] = []
    for row in actions:
        trace += episode.step(dict(zip(task.agents, (ACTIONS[action] for action in row), strict=True))).events
    earned = team.run(trace, undefined="blocking").reward
    local = {
        name: machine.run([event for event in trace if event in machine.events], undefined="blocking").reward
        for name, machine in task.machines.items()
    }
    return earned, local


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("world", WORLDS)
def test_what_a_team_earns_in_a_test_is_what_the_team_machine_pays(learner, world):
    task = WORLDS[world]()
    (run,) = hk.train(
        task, learner, [1], 300, {"test_every": 100, "max_episode_steps": EPISODE, "temperature": 0.5}, threads=1
    )
    player = LEARNERS[learner].player(compile_task(task), 0.5, EPISODE)
    for number, greedy in product(range(3), (False, True)):
        record = recording(EPISODE, len(task.agents))
        taken = player.play(run.policy.arrays, 6, number, greedy, record)
        team, local = replayed(task, record.action[: EPISODE if taken < 0 else taken], 6, number)
        assert player.returns.tolist() == pytest.approx(list(local.values()))
        assert player.returns.sum() == pytest.approx(team)
    assert all(len(test.returns) == len(task.agents) for test in run.all_tests)
    assert run.tests("greedy").returns.tolist() == pytest.approx(
        [sum(test.returns) for test in run.all_tests if test.policy == "greedy"]
    )


def test_tests_of_a_task_that_rewards_completion_have_no_returns():
    (run,) = hk.train(meeting(), "dqprm", [0], 100, {"test_every": 50}, threads=1)
    assert run.tests().returns is None and run.all_tests[0].returns == ()


def random_rewards(rng: Random) -> hk.Task:
    """Make a team of parts with random rewards, some of them penalties, some parts without an end."""
    places = ("west", "hall", "east")
    parts, events, agents = {}, {}, {}
    for number in range(rng.randint(1, 3)):
        name = f"A{number + 1}"
        local = [f"{place} {name}" for place in places]
        events |= {event: {name: hk.Condition(place)} for event, place in zip(local, places, strict=True)}
        known = [*local, *(["meet"] if rng.random() < 0.7 else [])]
        states = [f"u{place}" for place in range(rng.randint(2, 4))]
        moves = {}
        for (place, state), event in product(enumerate(states[:-1]), known):
            if rng.random() < 0.6:
                moves[state, event] = rng.choice(states[place + 1 :])  # so that a step settles
        moves.setdefault((states[0], local[0]), states[-1])
        if rng.random() < 0.5:
            moves[states[-1], local[2]] = states[0]
            moves = {
                (state, event): target
                for (state, event), target in moves.items()
                if event != local[2] or state == states[-1]
            }
        rewards = {key: rng.choice((-1.5, -0.1, 0, 0.25, 1, 3)) for key in moves}
        final = {states[-1]} if rng.random() < 0.7 else set()
        parts[name] = hk.RewardMachine(initial=states[0], transitions=moves, final=final, rewards=rewards, events=known)
        agents[name] = hk.Agent(rng.randrange(5), tuple(known))
    meeting_place = {name: hk.Condition("hall") for name, part in parts.items() if "meet" in part.events}
    if meeting_place:
        events["meet"] = meeting_place
    return hk.Task(
        "random", line(5, west=0, hall=2, east=4), agents, events, hk.Composition(parts), rng.choice((0.0, 0.2))
    )


def test_the_agents_returns_add_up_to_the_teams_along_every_trajectory_of_random_teams():
    earning = 0
    for seed in range(60):
        rng = Random(seed)
        task = random_rewards(rng)
        team, episode = task.machine.machine(), hk.TeamEpisode(task, seed, strict=False)
        try:
            trace = [event for _ in range(60) for event in episode.step(episode.random_actions()).events]
        except hk.HocketError:
            continue  # a step would never settle
        paid = team.run(trace, undefined="blocking").reward
        assert sum(episode.earned.values()) == pytest.approx(paid)
        earning += paid != 0
    assert earning > 20


@pytest.mark.parametrize("world", ["gallery", "ferry", "alone"])
def test_the_largest_joint_return_is_that_of_value_iteration_in_plain_python(world):
    task = WORLDS[world]()
    planner = JointPlanner(DefinedTeam(task), task.slip, 1_000, discount=0.9)
    space = find_space(compile_task(task))
    value, _ = solve_jointly(space, 1e-12, 1_000, 0.9)
    assert value[space.starts].mean() == pytest.approx(planner.solve(), abs=1e-6)
    assert planner.solve() > 0


def test_an_agent_goes_on_in_a_final_state_in_which_it_may_still_be_paid():
    task = ferry()
    machine = task.machines["A1"]
    assert len(machine.states) == 1 and machine.is_final.all() and not task.end_states("A1").any()
    episode = hk.IndividualEpisode(task, "A1", sync_probability=1.0)
    paid = [(step.reward, step.done) for step in (episode.step("left") for _ in range(3))]
    assert paid == [(machine.rewards[machine.initial, "load"], False)] * 3


# Exact values: a chain that is followed here state by state, in fractions.


def expected_returns(task: hk.Task, q: np.ndarray, horizon: int) -> tuple[Fraction, list[Fraction]]:
    """Compute what a greedy team and its agents earn in so many steps, by definition; the team by its own machine."""
    team = task.machine.machine() if isinstance(task.machine, hk.Composition) else task.machine
    names, slip = list(task.agents), Fraction(repr(task.slip))
    odds = (1 - slip, slip / 2, slip / 2)
    start = tuple((task.agents[name].start, task.machines[name].initial) for name in names)
    spread = {(start, team.initial): Fraction(1)}
    earned, total = [Fraction(0)] * len(names), Fraction(0)
    tables = compile_task(task)
    for _ in range(horizon):
        following: dict[object, Fraction] = {}
        for (joint, state), share in spread.items():
            options = []
            for number, (cell, local) in enumerate(joint):
                row = q[number, cell, :, task.machines[names[number]].states.index(local)]
                best = np.flatnonzero(row == row.max()).tolist()
                gates = tables.dynamics[number, task.machines[names[number]].states.index(local)]
                ends = tables.next_cell[tables.world[number], gates, cell]
                options.append([(Fraction(1, len(best)) * odds[k], int(ends[a, k])) for a in best for k in range(3)])
            for moves in product(*options):
                chance = share * np.prod([part for part, _ in moves])
                if not chance:
                    continue
                cells = {name: end for name, (_, end) in zip(names, moves, strict=True)}
                locals_, now = {name: local for name, (_, local) in zip(names, joint, strict=True)}, state
                for event in (event for events in interpret(task, cells, dict(locals_))[0] for event in events):
                    total += chance * Fraction(repr(team.rewards[now, event]))
                    now = team.transitions[now, event]
                    for number, name in enumerate(names):
                        if event in task.machines[name].events:
                            earned[number] += chance * Fraction(repr(task.machines[name].rewards[locals_[name], event]))
                            locals_[name] = task.machines[name].transitions[locals_[name], event]
                if now not in team.final:
                    key = (tuple((cells[name], locals_[name]) for name in names), now)
                    following[key] = following.get(key, Fraction(0)) + chance
        spread = following
    return total, earned


@pytest.mark.parametrize("world", ["gallery", "ferry", "alone"])
def test_exact_returns_are_those_of_the_chain_by_definition_and_add_up(world):
    task = WORLDS[world]()
    (run,) = hk.train(task, "optimal-alone", [0], 1, {"max_episode_steps": 9, "test_every": 1}, threads=1)
    solved = evaluate_exact(task, run.policy)
    total, earned = expected_returns(task, run.policy.arrays["q"], 9)
    assert total == sum(earned) != 0
    for exact, mean in zip(solved.returns.values(), earned, strict=True):
        assert abs(Fraction(exact.value) - mean) <= Fraction(exact.error)
    assert abs(Fraction(solved.team_return.value) - total) <= Fraction(solved.team_return.error) < 1e-6


def test_estimates_of_returns_agree_with_exact_ones():
    task = patrol()
    (run,) = hk.train(task, "optimal-alone", [0], 1, {"max_episode_steps": 30, "test_every": 1}, threads=1)
    (estimate,) = hk.evaluate(task, [run], 20_000)
    solved = evaluate_exact(task, run.policy)
    assert estimate.returns.value.low < solved.team_return.value < estimate.returns.value.high
    for name, share in estimate.returns.agents.items():
        assert abs(share.value - solved.returns[name].value) < 4 * (share.high - share.value) + 1e-9
    assert sum(share.value for share in estimate.returns.agents.values()) == pytest.approx(estimate.returns.value.value)


def test_an_evaluation_of_a_task_that_rewards_completion_has_no_returns():
    (run,) = hk.train(meeting(), "optimal-alone", [0], 1, {"test_every": 1}, threads=1)
    (estimate,) = hk.evaluate(meeting(), [run], 10)
    assert estimate.returns is None and evaluate_exact(meeting(), run.policy).returns == {}


@pytest.mark.parametrize("world", ["gallery", "ferry", "patrol"])
def test_teams_of_other_libraries_earn_what_compiled_episodes_do(world):
    pytest.importorskip("pettingzoo")
    task = WORLDS[world]()
    (run,) = hk.train(task, "optimal-alone", [0], 1, {"max_episode_steps": EPISODE, "test_every": 1}, threads=1)
    (ours,) = hk.evaluate(task, [run], 20)
    (theirs,) = hk.evaluate(hk.gym.team_env(task, max_episode_steps=EPISODE), [run], 20)
    for name, share in ours.returns.agents.items():
        assert theirs.returns.agents[name].value == pytest.approx(share.value)


# Files.


def test_curves_have_a_last_column_of_returns_where_a_task_has_rewards(tmp_path):
    study = hk.Study(
        [gallery(), meeting()], ["dqprm"], seeds=1, steps=100, settings={"test_every": 50, "discount": [0.9, 0.8]}
    )
    hk.run_study(study, tmp_path)
    rows = list(csv.DictReader((tmp_path / "curves.csv").read_text().splitlines()))
    assert list(rows[0]) == ["task", "learner", "seed", "step", "policy", "test_steps", "success", "discount", "return"]
    for row in rows:
        assert (row["return"] == "") == (row["task"] == "meeting")
    results = hk.load_results(tmp_path)
    earned = [
        f"{value:.12g}"
        for record in results.records
        for tests in record.tests.values()
        for value in (tests.returns.tolist() if tests.returns is not None else [])
    ]
    assert earned == [row["return"] for row in rows if row["return"]]
    assert all(
        (record.tests["greedy"].returns is None) == (record.task == "meeting")
        and bool(record.test_summary.returns) == (record.task == "gallery")
        for record in results.records
    )


# The verdict.


def test_a_team_with_rewards_is_judged_by_what_it_earns():
    verdict = hk.check_task(gallery())
    assert verdict.ok and verdict.as_json()["team"]["return"] == 3.5
    assert "earns 3.5 in an episode; it completes the task in 5 steps" in str(verdict)


def test_a_task_without_an_end_is_judged_by_its_return():
    verdict = hk.check_task(patrol())
    team = verdict.as_json()["team"]
    assert verdict.ok and team["success"] == 0 and team["return"] > 470 and team["stall"] is None


def test_a_team_that_earns_nothing_though_it_could_stalls():
    """A2 would be paid for a vase that A1 does not hand over, as that costs A1 more than it earns."""
    task = gallery()
    seller = task.machine.parts["A2"]
    carrier = hk.RewardMachine(
        initial="out",
        transitions={("out", "pick"): "has", ("out", "smash"): "broken", ("has", "hand"): "done"},
        final={"done"},
        rewards={("has", "hand"): -5},
    )
    unwilling = hk.Task(
        task.name, task.grid, task.agents, task.events, hk.Composition({"A1": carrier, "A2": seller}), task.slip
    )
    verdict = hk.check_task(unwilling)
    assert not verdict.ok and verdict.as_json()["team"]["return"] == 0
    assert "A2 waits at table for hand" in str(verdict)


# Reports.


@pytest.fixture(scope="module")
def patrolled(tmp_path_factory):
    """Run patrol, with a learner that learns it and one that does not."""
    folder = tmp_path_factory.mktemp("patrol")
    settings = {"test_every": 200, "max_episode_steps": 60}
    hk.run_study(
        hk.Study([patrol()], ["iql", "sweep", "optimal-team"], seeds=2, steps=2_000, settings=settings), folder
    )
    return folder


def test_a_summary_judges_runs_by_their_returns(patrolled):
    (section,) = hk.summarize(patrolled).sections
    assert section.has_returns and section.is_continuing and section.measure == "return"
    finals = {group.label: group.finals["greedy"] for group in section.all_groups}
    records = [record for record in hk.load_results(patrolled).records if record.learner == "sweep"]
    medians = [np.median(record.tests["greedy"].returns[-10:]) for record in records]
    assert finals["sweep"].quartiles[1] == np.median(medians) > finals["iql"].quartiles[1]
    assert finals["sweep"].learnt == 2 and finals["sweep"].learnt_after <= 2_000
    assert finals["sweep"].quartiles[1] == pytest.approx(section.level("greedy"), rel=0.1)
    (greedy,) = [pair.comparison for pair in section.comparisons if pair.policy == "greedy"]
    assert greedy.probability.value == 0, "iql comes first, and earns less"
    assert all(group.bounds is None and group.stall is None for group in section.all_groups if group.label != "iql")


def test_pages_and_figures_of_a_task_with_rewards_speak_of_returns(patrolled, tmp_path):
    hk.write_report(patrolled, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "mean return" in page and "earns more" in page and '"is_return":true' in page
    assert '"is_continuing":true' in page and "Lower plot" not in page
    assert "sweep: 2 of 2 runs learnt; return" in page and "Bounds of Theorem 3" not in page
    section = hk.summarize(patrolled).sections[0]
    write_figure(tmp_path / "curves.svg", lambda: curves_figure(section, policy="greedy"))
    assert "return" in (tmp_path / "curves.svg").read_text()


def test_a_run_that_only_loses_has_not_learnt():
    steps, success = np.arange(100, 1_100, 100), np.ones((2, 10, 1), np.bool_)
    returns = np.stack([np.full((10, 1), -3.0), np.linspace(0, 9, 10)[:, None]])
    final = final_of([RunTests([0, 1], steps, returns, success, is_return=True)], is_same=False)
    assert final.learnt == 1 and final.is_return
