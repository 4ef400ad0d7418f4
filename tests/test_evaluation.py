"""Success, the bounds of Theorem 3, and the exact solution of a team's chain."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

import hocket as hk
from chain_strategies import GOAL, make_chain
from hocket.evaluation import exact, joint_chain
from hocket.evaluation.chains import solve
from hocket.evaluation.evaluate import evaluate_episodes
from hocket.learn.policies import Run
from hocket.task.episode import TeamEpisode
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from searches import examples
from task_strategies import tasks

pytestmark = pytest.mark.xdist_group("kernels")


def corridor(slip: float = 0.0, cells: int = 4, agents: int = 1) -> hk.Task:
    """Build a corridor whose far end every agent must reach; with several agents, all at once."""
    names = [f"A{index + 1}" for index in range(agents)]
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "end"): "u1"}, final={"u1"})
    grid = hk.Grid(1, cells, frozenset(), {"end": frozenset({cells - 1})})
    return hk.Task(
        "corridor",
        grid,
        {name: hk.Agent(0, {"end"}) for name in names},
        {"end": dict.fromkeys(names, hk.Condition("end"))},
        machine,
        slip=slip,
    )


def policy_of(task: hk.Task, q: np.ndarray, temperature: float = 0.02) -> hk.Policy:
    """Make a policy of given values."""
    settings = {"temperature": temperature, "max_episode_steps": 1000}
    return hk.Policy(task.name, task.digest, "dqprm", 0, settings, {"q": q.astype(np.float32)})


def always(task: hk.Task, action: int) -> np.ndarray:
    """Value one action above all others, everywhere."""
    tables = compile_task(task)
    (agents, states), cells = tables.is_final.shape, tables.cells
    q = np.zeros((agents, cells, 5, states))
    q[:, :, action] = 10
    return q


def chain_of(task: hk.Task, policy: hk.Policy) -> joint_chain.JointChain:
    """Explore a team's chain under a softmax policy."""
    tables = compile_task(task)
    choice, _ = exact._choices(policy, greedy=False)
    return joint_chain.explore(tables, joint_chain.tabulate_moves(tables, choice), lambda _: None)


@pytest.fixture(scope="module")
def trained() -> tuple[hk.Task, list[Run]]:
    task = hk.load_task("rendezvous-2")
    return task, hk.train(task, "dqprm", seeds=1, steps=20_000)


def test_a_corridor_without_slips_takes_its_length():
    task = corridor()
    found = exact.evaluate_exact(task, policy_of(task, always(task, 1)), greedy=False)
    assert found.success == pytest.approx(1)
    assert found.mean_steps == pytest.approx(3)


def test_a_random_walk_in_a_corridor_takes_the_time_that_a_hand_finds():
    # Even chances for five actions: two directions move, the rest (and the wall) stay. From cell k of 0..n-1 with a
    # reflecting wall at 0, the expected time to n-1 is the sum over j >= k of (j + 1) / p steps with p = 1/5.
    task = corridor(cells=4)
    found = exact.evaluate_exact(task, policy_of(task, always(task, 1) * 0), greedy=False)
    assert found.mean_steps == pytest.approx((1 + 2 + 3) * 5)


def test_an_agent_that_never_moves_never_succeeds():
    task = corridor()
    found = exact.evaluate_exact(task, policy_of(task, always(task, 4)), greedy=True)
    assert found.success == 0
    assert math.isinf(found.mean_steps)


def test_two_walkers_who_must_be_there_at_once_are_solved_by_hand():
    # Both walk right every step and stay at the wall: they arrive together after cells - 1 steps.
    task = corridor(agents=2, cells=5)
    assert exact.evaluate_exact(task, policy_of(task, always(task, 1)), greedy=False).mean_steps == pytest.approx(4)


def test_storm_finds_the_same_success_and_time(tmp_path):
    stormpy = pytest.importorskip("stormpy")
    task = corridor(slip=0.3, agents=2, cells=4)
    policy = policy_of(task, always(task, 1) * 0.01, temperature=0.05)
    chain = chain_of(task, policy).chain
    count = chain.states
    lines = ["@type: DTMC", "@parameters", "", "@reward_models", "steps", "@nr_states", str(count + 1)]
    lines += ["@nr_choices", str(count + 1), "@model"]
    for state in range(count + 1):
        own = slice(*chain.first[state : state + 2]) if state < count else slice(0, 0)
        row = dict(zip(chain.target[own].tolist(), chain.probability[own].tolist(), strict=True)) or {count: 1.0}
        label = " init" if state == 0 else " done" if state == count else ""
        lines += [f"state {state} [{int(state < count)}]{label}", "\taction 0 [0]"]
        lines += [f"\t\t{goal} : {chance!r}" for goal, chance in sorted(row.items())]
    path = tmp_path / "chain.drn"
    path.write_text("\n".join(lines) + "\n")
    model = stormpy.build_model_from_drn(str(path))
    asked = ['P=? [F "done"]', 'R{"steps"}=? [F "done"]']
    answers = [stormpy.model_checking(model, stormpy.parse_properties(text)[0]).get_value(0) for text in asked]
    found = exact.evaluate_exact(task, policy, greedy=False)
    assert answers[0] == pytest.approx(found.success, abs=1e-6)
    assert answers[1] == pytest.approx(found.mean_steps, rel=1e-4)


def follow_by_hand(task: hk.Task, choice: np.ndarray, most_steps: int) -> list[dict[int, float]] | None:
    """List a team's chain, without slips, by trying all joint actions in plain Python; None if it is too large."""
    names, episode = list(task.agents), TeamEpisode(task, strict=False)
    states = {name: list(machine.states) for name, machine in task.machines.items()}
    number = {(*episode.cells.values(), *episode.states.values()): 0}
    rows: list[dict[int, float]] = []
    queue, steps = list(number), 0
    for joint in queue:
        row: dict[int, float] = {}
        for actions in product(range(len(ACTIONS)), repeat=len(names)):
            episode.cells = dict(zip(names, joint[: len(names)], strict=True))
            episode.states = dict(zip(names, joint[len(names) :], strict=True))
            chance = math.prod(
                choice[agent, episode.cells[name], action, states[name].index(episode.states[name])]
                for agent, (name, action) in enumerate(zip(names, actions, strict=True))
            )
            if chance == 0:
                continue
            steps += 1
            if steps > most_steps:
                return None
            step = episode.step({name: ACTIONS[action] for name, action in zip(names, actions, strict=True)})
            after = (*step.cells.values(), *step.states.values())
            if not step.done and after not in number:
                number[after] = len(queue)
                queue.append(after)
            end = GOAL if step.done else number[after]
            row[end] = row.get(end, 0.0) + chance
        rows.append(row)
    return rows


@examples(8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(tasks(), st.booleans(), st.randoms(use_true_random=False))
def test_a_team_is_solved_as_its_episodes_in_plain_python_are(task, greedy, rng):
    task = replace(task, slip=0.0)
    assume(not TeamEpisode(task, strict=False).done)
    tables = compile_task(task)
    (agents, states), cells = tables.is_final.shape, tables.cells
    shape = (agents, cells, len(ACTIONS), states)
    policy = policy_of(task, np.random.default_rng(rng.randrange(2**32)).integers(0, 3, shape) / 4, temperature=0.2)
    choice, _ = exact._choices(policy, greedy)
    rows = follow_by_hand(task, choice, 4_000)
    assume(rows is not None)
    found, expected = exact.evaluate_exact(task, policy, greedy=greedy), solve(make_chain(rows))
    assert found.success == pytest.approx(expected.success.value, abs=1e-12)
    assert found.mean_steps == pytest.approx(expected.steps.value, rel=1e-9)
    assert found.mean_steps_if_done == pytest.approx(expected.steps_if_reached.value, rel=1e-9, nan_ok=True)
    assert found.states <= len(rows)


def test_after_little_training_a_softmax_team_still_succeeds_surely_however_long_it_takes():
    task = hk.rendezvous(2, rows=6, columns=6)
    for run in hk.train(task, "dqprm", seeds=2, steps=1_000):
        found = exact.evaluate_exact(task, run.policy, greedy=False)
        assert (found.success, found.success_error, found.failure) == (1, 0, 0)
        assert found.mean_steps < 1e7 and found.mean_steps_error <= 1e-8 * found.mean_steps


def test_a_move_that_never_comes_counts_as_impossible():
    task = corridor()
    found = exact.evaluate_exact(task, policy_of(task, always(task, 4) * 100), greedy=False)
    assert (found.success, found.success_error) == (0, 0)


def test_a_move_that_comes_once_in_an_age_counts():
    # Staying is worth 10 more than moving, at a temperature of 0.02: a chance of exp(-500) for each of three steps.
    task = corridor()
    found = exact.evaluate_exact(task, policy_of(task, always(task, 4)), greedy=False)
    assert (found.success, found.success_error) == (1, 0)
    assert found.mean_steps == pytest.approx((1 + 2 + 3) * math.exp(500), rel=1e-9)


def test_a_team_that_is_too_large_is_refused_with_its_size(monkeypatch):
    task = hk.load_task("rendezvous-2")
    policy = policy_of(task, always(task, 1) * 0)
    monkeypatch.setattr(joint_chain, "MOST_STATES", 5_000)
    with pytest.raises(hk.HocketError, match=r"the joint chain has more than 5,000 states"):
        exact.evaluate_exact(task, policy, greedy=False)
    monkeypatch.setattr(joint_chain, "MOST_STATES", 100_000)
    monkeypatch.setattr(joint_chain, "MOST_TRANSITIONS", 100_000)
    with pytest.raises(hk.HocketError, match=r"up to 100,000 states and 100,000 transitions"):
        exact.evaluate_exact(task, policy, greedy=False)


def test_values_that_are_no_numbers_are_refused():
    task = corridor()
    with pytest.raises(hk.HocketError, match="values must be finite"):
        exact.evaluate_exact(task, policy_of(task, np.full_like(always(task, 1), math.inf)))
    for temperature in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(hk.HocketError, match="temperature must be a number between"):
            exact.evaluate_exact(task, policy_of(task, always(task, 1), temperature), greedy=False)


def test_mean_and_quartiles_are_of_the_same_episodes_and_a_failure_counts_as_the_most_steps():
    steps, finish = np.array([10, 30, -1, 20]), np.zeros((4, 1), np.int32)
    found = evaluate_episodes(["A1"], steps, finish, 100, "softmax")
    assert (found.success.value, found.mean_steps, found.most_steps) == (0.75, 40.0, 100)
    assert found.quartiles == (17.5, 25.0, 47.5)  # of 10, 20, 30, 100


def test_a_team_that_never_succeeds_takes_the_most_steps():
    found = evaluate_episodes(["A1"], np.full(3, -1), np.full((3, 1), -1, np.int32), 7, "greedy")
    assert (found.success.value, found.mean_steps, found.quartiles) == (0.0, 7.0, (7.0, 7.0, 7.0))


def test_many_episodes_agree_with_the_exact_solution():
    task = corridor(slip=0.3, agents=2, cells=4)
    policy = policy_of(task, always(task, 1) * 0.01, temperature=0.05)
    solved = exact.evaluate_exact(task, policy, greedy=False)
    [found] = hk.evaluate(task, policy, 20_000, greedy=False)
    assert found.mean_steps == pytest.approx(solved.mean_steps, rel=0.03)
    assert found.success.low <= solved.success <= 1


def test_the_bounds_of_theorem_3_contain_the_success_of_the_same_episodes(trained):
    task, runs = trained
    for greedy in (False, True):
        [found] = hk.evaluate(task, runs, 2_000, greedy=greedy)
        assert found.holds
        assert found.lower <= found.success.value <= found.upper


def test_evaluation_does_not_depend_on_threads(trained):
    task, runs = trained
    one, two = (hk.evaluate(task, runs, 25_000, threads=threads) for threads in (1, 3))
    assert one == two
    with pytest.raises(hk.HocketError, match="threads must be an integer of at least 1, got 0"):
        hk.evaluate(task, runs, 1, threads=0)


@pytest.mark.parametrize("steps", [1, 10_000, 10**9])
def test_how_many_episodes_are_played_in_one_go_changes_nothing(trained, monkeypatch, steps):
    task, runs = trained
    usual = hk.evaluate(task, runs, 60)
    monkeypatch.setattr("hocket.evaluation.evaluate.CHUNK_STEPS", steps)
    assert hk.evaluate(task, runs, 60, threads=3) == usual


def test_runs_with_seeds_of_their_own_play_other_episodes_and_equal_seeds_the_same():
    task = corridor(slip=0.3, agents=2, cells=4)
    policy = policy_of(task, always(task, 1) * 0.01, temperature=0.05)
    runs = [replace(policy, seed=seed) for seed in (0, 1, 1, 2**63 - 1)]
    first, second, third, last = (own.mean_steps for own in hk.evaluate(task, runs, 300, seed=5))
    assert second == third and len({first, second, last}) == 3
    assert hk.evaluate(task, runs[0], 300, seed=6)[0].mean_steps == second


def test_means_of_runs_that_learnt_the_same_lie_about_the_exact_one():
    task = corridor(slip=0.3, agents=2, cells=4)
    policy = policy_of(task, always(task, 1) * 0.01, temperature=0.05)
    runs, solved = [replace(policy, seed=seed) for seed in range(40)], exact.evaluate_exact(task, policy, greedy=False)
    above = [own.mean_steps > solved.mean_steps for own in hk.evaluate(task, runs, 200, greedy=False)]
    assert 8 < sum(above) < 32  # of 40, as of coins; with common random numbers all or none


def test_policies_of_another_task_are_refused(trained):
    _, runs = trained
    with pytest.raises(hk.HocketError, match="another task"):
        hk.evaluate(hk.load_task("rendezvous-3"), runs)
    with pytest.raises(hk.HocketError, match="another task"):
        exact.evaluate_exact(hk.load_task("rendezvous-3"), runs[0].policy, greedy=False)


def test_a_run_folder_holds_what_was_run_and_can_be_evaluated_again(tmp_path, trained):
    task, runs = trained
    results = hk.save_runs(task, runs, tmp_path / "runs")
    assert [own.machine for own in results.tasks.values()] == [task.machine]
    [policy] = hk.load_policies(tmp_path / "runs", task)
    assert hk.evaluate(task, policy, 500) == hk.evaluate(task, runs, 500)
    rows = (tmp_path / "runs" / "curves.csv").read_text().splitlines()
    assert rows[0] == "task,learner,seed,step,policy,test_steps,success"
    assert len(rows) == 1 + 2 * 20


def test_arrays_that_do_not_fit_the_task_are_refused(trained):
    task, runs = trained
    wrong = hk.Policy(
        task.name, task.digest, "dqprm", 0, runs[0].policy.settings, {"q": np.zeros((1, 1, 1, 1), np.float32)}
    )
    with pytest.raises(hk.HocketError, match="other names or shapes"):
        hk.evaluate(task, wrong, 3)


def test_a_test_episode_tells_when_each_agent_was_done_and_each_event_happened(trained):
    task, runs = trained
    last = [trial for trial in runs[0].all_tests if trial.success][-1]
    times = dict(zip(task.events, last.event_time, strict=True))
    assert last.finish == (times["g1"], times["g2"])
    assert max(times["r1"], times["r2"]) <= times["r"] < min(last.finish)
    assert last.test_steps == max(last.finish)
