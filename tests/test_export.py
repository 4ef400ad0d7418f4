"""A team's chain in files for model checkers, and exact values that these confirm."""

import json
import math

import numpy as np
import pytest

import hocket as hk
from hocket.evaluation import joint_chain
from hocket.evaluation.evaluate import team_bounds
from hocket.evaluation.export import identifiers
from model_checking import SMALL, disagreement, random_forks, random_team

pytestmark = pytest.mark.xdist_group("kernels")


def fork() -> hk.Task:
    """Build a map of four cells: right of the start is the goal, below it something breaks for ever."""
    transitions = {("u0", "broken"): "stuck", ("u0", "goal"): "won"}
    machine = hk.RewardMachine(initial="u0", transitions=transitions, final={"won"})
    grid = hk.Grid(2, 2, frozenset(), {"right": frozenset({1}), "below": frozenset({2})})
    events = {"broken": {"A1": hk.Condition("below")}, "goal": {"A1": hk.Condition("right")}}
    return hk.Task("fork", grid, {"A1": hk.Agent(0, {"broken", "goal"})}, events, machine, slip=0.3)


def small_teams(seeds, monkeypatch):
    """List random teams whose chains are small, with whether their policies are greedy."""
    for name, limit in SMALL.items():
        monkeypatch.setattr(joint_chain, name, limit)
    for seed in seeds:
        made = random_team(seed)
        for greedy in (True, False) if made else ():
            try:
                hk.evaluate_exact(*made, greedy=greedy)
            except hk.HocketError:
                continue
            yield *made, greedy


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    task = hk.load_task("rendezvous-2")
    hk.run_study(hk.Study([task], ["optimal"], seeds=2, steps=1, settings={"test_every": 1}), folder)
    return folder


def one_way(task: hk.Task, action: int) -> hk.Policy:
    """Make a policy that always takes one action."""
    q = np.zeros((1, task.grid.rows * task.grid.columns, 5, len(task.machines["A1"].states)), np.float32)
    q[:, :, action] = 1
    return hk.Policy(task.name, task.digest, "dqprm", 0, {"temperature": 0.02, "max_episode_steps": 99}, {"q": q})


def test_storm_finds_the_same_probabilities_and_steps_of_random_teams(tmp_path, monkeypatch):
    stormpy = pytest.importorskip("stormpy")
    teams = [*small_teams(range(16), monkeypatch), *((*random_forks(seed), seed % 2 == 0) for seed in range(12))]
    assert len(teams) >= 20
    between = 0
    for task, policy, greedy in teams:
        difference, in_between = disagreement(stormpy, task, policy, tmp_path, greedy=greedy)
        assert difference <= 1e-9
        between += in_between
    assert between >= 20  # probabilities that are neither 0 nor 1


def test_exact_values_of_agents_bound_that_of_the_team(monkeypatch):
    for task, policy, greedy in small_teams(range(16), monkeypatch):
        values = hk.evaluate_exact(task, policy, greedy=greedy)
        low, high = team_bounds([own.value for own in values.agents.values()])
        slack = values.success_error + sum(own.error for own in values.agents.values()) + 1e-12
        assert low - slack <= values.success <= high + slack
        assert values.bounds == (low, high)


def test_agents_that_have_nothing_to_do_with_each_other_succeed_together_as_often_as_the_product_says():
    strict = 0
    for seed in range(12):
        values = hk.evaluate_exact(*random_forks(seed), greedy=False)
        one, other = values.agents.values()
        assert values.success == pytest.approx(one.value * other.value, abs=1e-12)
        strict += 0 < values.success < min(one.value, other.value)
    assert strict >= 6


def test_the_probability_of_an_event_is_that_of_a_hand():
    # To the right with 0.7; it slips upwards against the wall, where it stays, and down, each with 0.15.
    task = fork()
    values = hk.evaluate_exact(task, one_way(task, 1), events=["goal", "broken"])
    assert values.success == pytest.approx(0.7 / 0.85, abs=1e-14)
    assert {name: own.value for name, own in values.events.items()} == {
        "goal": pytest.approx(0.7 / 0.85, abs=1e-14),
        "broken": pytest.approx(0.15 / 0.85, abs=1e-14),
    }
    assert values.agents["A1"].value == values.success and values.agents["A1"].error <= 1e-13
    assert hk.evaluate_exact(task, one_way(task, 1), events="broken").events["broken"] == values.events["broken"]


def test_exact_values_are_those_of_greedy_policies_unless_asked_otherwise():
    task = fork()
    policy = one_way(task, 1)
    assert hk.evaluate_exact(task, policy) == hk.evaluate_exact(task, policy, greedy=True)
    even = hk.Policy(**{**vars(policy), "arrays": {"q": policy.arrays["q"] * 1e-3}})
    assert hk.evaluate_exact(task, even).success != hk.evaluate_exact(task, even, greedy=False).success


def test_the_files_of_prism_describe_the_same_chain(tmp_path):
    task = fork()
    written = hk.export_team(task, one_way(task, 1), tmp_path / "team.tra")
    assert [file.name for file in written.files] == ["team.tra", "team.lab", "team.sta"]
    size, *rows = (tmp_path / "team.tra").read_text().splitlines()
    assert size == f"{written.states} {written.transitions}" and len(rows) == written.transitions
    sums = dict.fromkeys(range(written.states), 0.0)
    for row in rows:
        source, _, chance = row.split()
        sums[int(source)] += float(chance)
    assert all(math.isclose(total, 1, abs_tol=1e-15) for total in sums.values())
    declared, *labels = (tmp_path / "team.lab").read_text().splitlines()
    names = dict(word.split("=") for word in declared.split())
    marks = {int(state): {names[mark] for mark in words.split()} for state, words in (row.split(":") for row in labels)}
    assert marks[0] == {'"init"', '"A1_in_u0"'}
    assert {'"done"', '"done_A1"', '"event_goal"'} in marks.values()
    assert {'"A1_in_stuck"', '"event_broken"'} in marks.values()
    variables, *states = (tmp_path / "team.sta").read_text().splitlines()
    assert variables == "(A1_row,A1_column,A1_state)" and states[0] == "0:(0,0,0)" and len(states) == written.states


def test_names_that_look_alike_get_different_labels():
    names = ["event a b", "event a_b", "event a.b", "1 x", "ä"]
    assert len(set(identifiers(names))) == len(names)
    assert all(name.isidentifier() and name.isascii() for name in identifiers(names))


@pytest.mark.parametrize("name", ["team.txt", "team", "team.drn.gz"])
def test_another_suffix_is_refused_and_nothing_is_written(tmp_path, name):
    task = fork()
    with pytest.raises(hk.HocketError, match=r"suffix .* \.drn for Storm, \.tra, \.lab, \.sta for PRISM"):
        hk.export_team(task, one_way(task, 1), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_chain_that_is_too_large_is_refused_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(joint_chain, "MOST_TRANSITIONS", 3)
    task = fork()
    with pytest.raises(hk.HocketError, match=r"up to .* transitions"):
        hk.export_team(task, one_way(task, 1), tmp_path / "team.drn", greedy=False)
    assert not list(tmp_path.iterdir())


def test_an_event_that_is_none_is_refused_before_anything_is_played(trained, tmp_path, hocket):
    for command in (
        ("evaluate", "rendezvous-2", trained),
        ("export", "rendezvous-2", trained, "-o", tmp_path / "x.drn"),
    ):
        code, out, err = hocket(*command, "--event", "bork")
        assert (code, out) == (2, "") and "event 'bork' does not exist" in err and len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_command_exports_the_policy_that_is_asked_for(trained, tmp_path, hocket):
    file = tmp_path / "team.drn"
    code, out, _ = hocket("export", "rendezvous-2", trained, "-o", file, "--seed", "1", "--json")
    about = json.loads(out)
    assert code == 0 and (about["seed"], about["policy"], about["files"]) == (1, "greedy", [str(file)])
    assert f"@nr_states\n{about['states']}\n" in file.read_text()
    assert hocket("export", "rendezvous-2", trained, "-o", file, "--seed", "7")[0] == 2


def test_evaluate_tells_exact_values_of_agents_and_events(trained, hocket):
    command = ("evaluate", "rendezvous-2", trained, "--episodes", "10", "--event", "r")
    answer = json.loads(hocket(*command, "--json")[1])["runs"][0]["exact"]
    assert answer["agents"] == {name: {"value": 1.0, "error": 0.0} for name in ("A1", "A2")}
    assert answer["events"] == {"r": {"value": 1.0, "error": 0.0}}
    assert "exact: V_A1 = 1, V_A2 = 1, P(r) = 1" in hocket(*command)[1]
