"""Success, the bounds of Theorem 3, and the exact solution of a team's chain."""

import math

import numpy as np
import pytest

import hocket as hk
from hocket.evaluation import exact
from hocket.learn.policies import Run
from hocket.task.tables import compile_task

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
    settings = {"temperature": temperature, "episode_steps": 1000}
    return hk.Policy(task.name, task.digest, "dqprm", 0, settings, {"q": q.astype(np.float32)})


def always(task: hk.Task, action: int) -> np.ndarray:
    """Value one action above all others, everywhere."""
    tables = compile_task(task)
    agents, states, cells = tables.event.shape
    q = np.zeros((agents, cells, 5, states))
    q[:, :, action] = 10
    return q


@pytest.fixture(scope="module")
def trained() -> tuple[hk.Task, list[Run]]:
    task = hk.load_task("rendezvous-2")
    return task, hk.train(task, "dqprm", seeds=1, steps=20_000)


def test_a_corridor_without_slips_takes_its_length():
    task = corridor()
    found = exact.solve_team(task, policy_of(task, always(task, 1)))
    assert found.success == pytest.approx(1)
    assert found.mean_steps == pytest.approx(3)


def test_a_random_walk_in_a_corridor_takes_the_time_that_a_hand_finds():
    # Even chances for five actions: two directions move, the rest (and the wall) stay. From cell k of 0..n-1 with a
    # reflecting wall at 0, the expected time to n-1 is the sum over j >= k of (j + 1) / p steps with p = 1/5.
    task = corridor(cells=4)
    found = exact.solve_team(task, policy_of(task, always(task, 1) * 0))
    assert found.mean_steps == pytest.approx((1 + 2 + 3) * 5)


def test_an_agent_that_never_moves_never_succeeds():
    task = corridor()
    found = exact.solve_team(task, policy_of(task, always(task, 4)), greedy=True)
    assert found.success == 0
    assert math.isinf(found.mean_steps)


def test_two_walkers_who_must_be_there_at_once_are_solved_by_hand():
    # Both walk right every step and stay at the wall: they arrive together after cells - 1 steps.
    task = corridor(agents=2, cells=5)
    assert exact.solve_team(task, policy_of(task, always(task, 1))).mean_steps == pytest.approx(4)


def test_storm_finds_the_same_success_and_time(tmp_path, trained):
    stormpy = pytest.importorskip("stormpy")
    task = corridor(slip=0.3, agents=2, cells=4)
    policy = policy_of(task, always(task, 1) * 0.01, temperature=0.05)
    tables = compile_task(task)
    moves = [exact._moves(tables, agent, policy, False) for agent in range(2)]
    source, target, weight, count = exact._explore(tables, moves)
    chances: list[dict[int, float]] = [{} for _ in range(count)]
    for start, end, chance in zip(source, target, weight, strict=True):
        goal = count if end < 0 else end
        chances[start][goal] = chances[start].get(goal, 0.0) + chance
    lines = ["@type: DTMC", "@parameters", "", "@reward_models", "steps", "@nr_states", str(count + 1)]
    lines += ["@nr_choices", str(count + 1), "@model"]
    for state, row in enumerate([*chances, {count: 1.0}]):
        label = " init" if state == 0 else " done" if state == count else ""
        lines += [f"state {state} [{int(state < count)}]{label}", "\taction 0 [0]"]
        lines += [f"\t\t{goal} : {chance!r}" for goal, chance in sorted(row.items())]
    path = tmp_path / "chain.drn"
    path.write_text("\n".join(lines) + "\n")
    model = stormpy.build_model_from_drn(str(path))
    asked = ['P=? [F "done"]', 'R{"steps"}=? [F "done"]']
    answers = [stormpy.model_checking(model, stormpy.parse_properties(text)[0]).get_value(0) for text in asked]
    found = exact.solve_team(task, policy)
    assert answers[0] == pytest.approx(found.success, abs=1e-6)
    assert answers[1] == pytest.approx(found.mean_steps, rel=1e-4)


def test_many_episodes_agree_with_the_exact_solution():
    task = corridor(slip=0.3, agents=2, cells=4)
    policy = policy_of(task, always(task, 1) * 0.01, temperature=0.05)
    solved = exact.solve_team(task, policy)
    [found] = hk.evaluate(task, policy, 20_000)
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


def test_policies_of_another_task_are_refused(trained):
    _, runs = trained
    with pytest.raises(hk.HocketError, match="another task"):
        hk.evaluate(hk.load_task("rendezvous-3"), runs)
    with pytest.raises(hk.HocketError, match="another task"):
        exact.solve_team(hk.load_task("rendezvous-3"), runs[0].policy)


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
    last = [trial for trial in runs[0].trials if trial.success][-1]
    times = dict(zip(task.events, last.event_time, strict=True))
    assert last.finish == (times["g1"], times["g2"])
    assert max(times["r1"], times["r2"]) < times["r"] < min(last.finish)
    assert last.test_steps == max(last.finish)
