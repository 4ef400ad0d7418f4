"""The search for the cheapest set that passes a test, and for the cheapest events to share, against other solvers."""

import math
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

import hocket as hk
import oracle
from hocket.errors import AssignmentError, InfeasibleError
from hocket.hitting_set import Cheapest, Effort, as_set, elements_of, find_cheapest, take_what_fits
from hocket.machine.algebra import reachable_part
from hocket.machine.assignment import Failures
from hocket.machine.formats import save_design
from hocket.machine.formats.schema import Design
from strategies import AGENTS, EVENTS, Team, assignments, quick, random_teams, stray_machines, teams, thorough

PLENTY = 10**12
SIX = tuple(f"A{i}" for i in range(1, 7))

element_sets = st.sets(st.integers(0, 200)).map(sorted)


def solve(
    clauses: Sequence[int], prices: dict[int, int], effort: int = PLENTY, guesses: Sequence[int] = ()
) -> Cheapest:
    """Search for the cheapest set that hits all clauses, of which the search sees one at a time."""
    counter = Effort(effort)

    def missed(chosen: int) -> int:
        counter.left -= 10
        return next((clause for clause in clauses if not clause & chosen), 0)

    return find_cheapest(lambda chosen: not missed(chosen), missed, prices, counter, guesses)


def price_of(chosen: int, prices: dict[int, int]) -> int:
    return sum(prices[element] for element in elements_of(chosen))


def optimum(clauses: Sequence[int], prices: dict[int, int]) -> int:
    """Find the least price of a set that hits all clauses by integer programming."""
    if not clauses:
        return 0
    rows = np.array([[clause >> element & 1 for element in sorted(prices)] for clause in clauses])
    found = milp(
        [prices[element] for element in sorted(prices)],
        constraints=LinearConstraint(rows, lb=1),
        integrality=np.ones(len(prices)),
        bounds=Bounds(0, 1),
    )
    return round(found.fun)


@st.composite
def hitting_problems(draw: st.DrawFn, elements: int, clauses: int) -> tuple[list[int], dict[int, int]]:
    """Draw clauses over elements with prices, of which some are nothing."""
    rng = Random(draw(st.integers(0, 2**32 - 1)))
    largest = draw(st.integers(2, 6))
    dearest = draw(st.sampled_from((1, 3, 1_000)))
    prices = {element: rng.randint(dearest == 1, dearest) for element in range(elements)}
    drawn = [rng.sample(range(elements), rng.randint(1, largest)) for _ in range(draw(st.integers(0, clauses)))]
    return [as_set(clause) for clause in drawn], prices


# Sets and the search over them.


@quick
@given(element_sets)
def test_sets_are_the_elements_that_were_put_in(elements):
    assert elements_of(as_set(elements)) == elements


@quick
@given(st.lists(st.integers(0, 30), unique=True), st.sets(st.frozensets(st.integers(0, 30), min_size=1)))
def test_taking_runs_of_items_is_taking_them_one_by_one(items, forbidden):
    too_much = [as_set(together) for together in forbidden]

    def fits(chosen: int) -> bool:
        return all(together & ~chosen for together in too_much)

    one_by_one = 0
    for item in items:
        if fits(one_by_one | 1 << item):
            one_by_one |= 1 << item
    assert take_what_fits(items, fits, 0) == one_by_one


@thorough
@given(hitting_problems(elements=12, clauses=25), st.lists(st.integers(0, 2**12 - 1), max_size=3))
def test_the_cheapest_hitting_set_is_that_of_integer_programming_whatever_is_guessed(problem, guesses):
    clauses, prices = problem
    found = solve(clauses, prices, guesses=guesses)
    assert all(clause & found.chosen for clause in clauses)
    assert price_of(found.chosen, prices) == found.bound == optimum(clauses, prices)


@pytest.mark.parametrize("dearest", [3, 20])  # with low prices, a search that ends a little early is wrong
@pytest.mark.parametrize("seed", range(12))
def test_a_hitting_set_of_many_clauses_is_that_of_integer_programming(seed, dearest):
    rng = Random(seed)
    prices = {element: rng.randint(1, dearest) for element in range(40)}
    clauses = [as_set(rng.sample(range(40), rng.randint(2, 5))) for _ in range(60)]
    found = solve(clauses, prices)
    assert price_of(found.chosen, prices) == found.bound == optimum(clauses, prices)


@thorough
@given(hitting_problems(elements=14, clauses=30), st.integers(0, 40_000))
def test_a_search_that_stops_early_has_an_irreducible_set_and_a_true_bound(problem, effort):
    clauses, prices = problem
    found = solve(clauses, prices, effort)
    assert all(clause & found.chosen for clause in clauses)
    for element in elements_of(found.chosen):
        assert not all(clause & found.chosen & ~(1 << element) for clause in clauses)
    assert found.bound <= optimum(clauses, prices) <= price_of(found.chosen, prices)


def test_an_element_that_costs_nothing_is_left_out_where_it_can_be():
    assert solve([1], {0: 1, 1: 0}) == (1, 1)
    assert solve([1], {0: 0, 1: 0}) == (1, 0)


# Failures, and who prevents them.


def number_pairs(failures: Failures, machine: hk.RewardMachine, knows: dict[str, set[str]]) -> int:
    return as_set(
        failures.pair(agent, machine.events.index(event))
        for agent, known in enumerate(knows.values())
        for event in known
    )


@st.composite
def stray_teams(draw: st.DrawFn) -> Team:
    """Draw a machine of which much is out of reach, and who knows what."""
    machine = draw(stray_machines())
    return Team(machine, draw(assignments(machine.events, max_agents=3)))


@thorough
@given(teams() | stray_teams(), st.sets(st.sampled_from(EVENTS), max_size=2))
def test_a_task_is_decomposable_exactly_if_all_failures_are_prevented(team, forgotten):
    machine, knows = team.machine, {agent: known - forgotten for agent, known in team.knows.items()}
    failures = Failures(reachable_part(machine), len(knows), Effort(PLENTY))
    assert failures.are_prevented(number_pairs(failures, machine, knows)) == hk.decompose(machine, knows).ok


@quick
@given(random_teams(max_states=4, events=EVENTS[:3], max_agents=3) | stray_teams())
def test_whatever_prevents_a_failure_has_one_of_the_pairs_that_explain_it(team):
    machine, knows = team
    failures = Failures(reachable_part(machine), len(knows), Effort(PLENTY))
    known = number_pairs(failures, machine, knows)
    if failures.are_prevented(known):
        return
    clause = failures.explain(known)
    assert clause and not clause & known
    everything = number_pairs(failures, machine, dict.fromkeys(knows, machine.events))
    assert failures.are_prevented(everything)
    assert not failures.are_prevented(everything & ~clause)


# Repair and cheapest assignments where much is out of reach.

pairs = [(agent, event) for agent in AGENTS[:3] for event in EVENTS[:3]]
prices_of_pairs = st.fixed_dictionaries({pair: st.integers(0, 5) for pair in pairs})
few_pairs = st.sets(st.sampled_from(pairs), max_size=3)
controls = st.dictionaries(st.sampled_from(EVENTS[:3]), st.sets(st.sampled_from(AGENTS[:2]), min_size=1), max_size=2)


@thorough
@given(stray_machines(), prices_of_pairs, few_pairs, controls, st.sets(st.sampled_from(pairs), max_size=4))
def test_a_repair_is_cheapest_and_found_if_there_is_one_whatever_is_out_of_reach(
    machine, cost, forbidden, control, known
):
    knows = {agent: {event for name, event in known if name == agent} for agent in AGENTS[:3]}
    best = oracle.minimum_repair(oracle.plain(machine), knows, control, cost, forbidden)
    if best is None:
        with pytest.raises(InfeasibleError):
            hk.repair(machine, knows, control, cost, forbidden)
        return
    found = hk.repair(machine, knows, control, cost, forbidden)
    added = [(agent, event) for agent, events in found.items() for event in events]
    assert found.exact
    assert found.cost == found.bound == oracle.price(added, cost) == best
    assert not forbidden & set(added)
    assert hk.decompose(machine, oracle.grow(knows, added), control).ok


@thorough
@given(stray_machines(), few_pairs, controls)
def test_a_cheapest_assignment_is_cheapest_whatever_is_out_of_reach(machine, forbidden, control):
    nothing = {agent: frozenset[str]() for agent in AGENTS[:2]}
    forbidden = {(agent, event) for agent, event in forbidden if agent in nothing}
    best = oracle.minimum_repair(oracle.plain(machine), nothing, control, None, forbidden)
    if best is None:
        with pytest.raises(InfeasibleError):
            hk.cheapest_assignment(machine, nothing, control, None, forbidden)
        return
    found = hk.cheapest_assignment(machine, nothing, control, None, forbidden)
    assert (found.exact, found.cost) == (True, best)
    assert hk.decompose(machine, found, control).ok


@thorough
@given(stray_teams(), st.sets(st.sampled_from(pairs)))
def test_knowing_more_never_hurts_whatever_is_out_of_reach(team, learned):
    learned = [(agent, event) for agent, event in learned if agent in team.knows]
    if hk.decompose(*team).ok:
        assert hk.decompose(team.machine, oracle.grow(team.knows, learned)).ok


def test_a_machine_without_events_is_decomposable_among_agents_who_know_nothing():
    machine = hk.RewardMachine(initial="u", transitions={})
    assert hk.repair(machine, {"A": ()}) == {}
    assert hk.cheapest_assignment(machine, ["A", "B"], {}) == {"A": frozenset(), "B": frozenset()}


# Machines for which a search without a bound on its work would not come back.


def random_machine(rng: Random, states: int, events: int, density: float) -> hk.RewardMachine:
    """Scatter transitions around a chain of states."""
    names, labels = [f"u{i}" for i in range(states)], [f"e{i}" for i in range(events)]
    transitions = {(name, rng.choice(labels)): after for name, after in pairwise(names)}
    for name in names[:-1]:
        for event in labels:
            if rng.random() < density:
                transitions.setdefault((name, event), rng.choice(names))
    return hk.RewardMachine(initial="u0", transitions=transitions, final=names[-1:], events=labels)


def large_team(seed: int, states: int, density: float) -> tuple[Team, dict[str, list[str]]]:
    """Draw a machine of twelve events for six agents, who knows what, and who controls what."""
    rng = Random(seed)
    machine = random_machine(rng, states, 12, density)
    knows: dict[str, set[str]] = {agent: set() for agent in SIX}
    for event in machine.events:
        knows[rng.choice(SIX)].add(event)
    return Team(machine, knows), {event: rng.sample(SIX, rng.choice((1, 2))) for event in machine.events}


@pytest.mark.parametrize("density", [0.02, 0.2, 0.8])
@pytest.mark.parametrize("states", [30, 100])
def test_large_random_tasks_are_repaired_with_proof(states, density):
    (machine, knows), control = large_team(states, states, density)
    found = hk.repair(machine, knows)
    assert found.exact and found.cost == found.bound
    assert hk.decompose(machine, {agent: {*own, *found.get(agent, ())} for agent, own in knows.items()}).ok
    best = hk.cheapest_assignment(machine, SIX, control)
    assert best.exact and hk.decompose(machine, best, control).ok


@pytest.mark.parametrize("effort", [0, 20_000, 200_000, 500_000])
def test_a_repair_with_little_effort_is_valid_irreducible_and_bounded(effort):
    (machine, knows), control = large_team(7, 60, 0.05)
    best = hk.repair(machine, knows, control)
    found = hk.repair(machine, knows, control, effort=effort)
    added = [(agent, event) for agent, events in found.items() for event in events]
    assert best.exact
    assert found.bound <= best.cost <= found.cost == len(added)
    assert found.exact == (found.bound == found.cost)
    assert hk.decompose(machine, oracle.grow(knows, added), control).ok
    for pair in added:
        rest = oracle.grow(knows, [other for other in added if other != pair])
        assert not hk.decompose(machine, rest, control).ok


def test_a_search_that_stops_says_so():
    (machine, knows), _ = large_team(7, 60, 0.05)
    found = hk.repair(machine, knows, effort=0)
    assert not found.exact and found.bound < found.cost


def test_check_says_that_its_search_stopped_and_what_it_has(hocket, tmp_path, monkeypatch):
    monkeypatch.setattr("hocket.machine.assignment.EFFORT_FOR_A_HINT", 0)
    (machine, knows), _ = large_team(7, 60, 0.05)
    path = tmp_path / "machine.json"
    save_design(Design(machine, knows, {}), path)
    cost = hk.repair(machine, knows, effort=0).cost
    code, out, err = hocket("check", path)
    assert (code, err) == (1, "")
    assert f"Repair (cost {cost:g}, not proved minimal, lower bound 0):" in out


# Costs.


def test_costs_add_up_exactly():
    labels = EVENTS[:3]
    transitions = {("u0", "a"): "u1", ("u1", "b"): "u2", ("u2", "c"): "u3"}
    machine = hk.RewardMachine(initial="u0", transitions=transitions, final={"u3"})
    costs = {("A1", event): cost for event, cost in zip(labels, (0.1, 0.2, 0.3), strict=True)}
    found = hk.repair(machine, {"A1": ()}, cost=costs)
    assert found.cost == found.bound == math.fsum(costs.values())


@pytest.mark.parametrize("cost", [-1, math.nan, 1e301, "1"])
def test_a_cost_outside_of_its_range_is_refused(cost):
    machine = hk.RewardMachine(initial="u", transitions={("u", "a"): "v"}, final={"v"})
    with pytest.raises(AssignmentError, match=r"from 0 to 1e\+300"):
        hk.repair(machine, {"A": ()}, cost={("A", "a"): cost})


@pytest.mark.parametrize("cost", [0, 5e-324, 1e300])
def test_very_small_and_very_large_costs_are_summed_without_overflow(cost):
    machine = hk.RewardMachine(initial="u", transitions={("u", "a"): "v", ("v", "b"): "w"}, final={"w"})
    found = hk.repair(machine, {"A": ()}, cost={("A", "a"): cost, ("A", "b"): cost})
    assert found.exact and found.cost == 2 * cost


def test_between_equally_cheap_answers_agents_learn_what_they_wait_for():
    machine = hk.RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})
    for agents in (("A1", "A2"), ("A2", "A1")):
        knows = {agent: {"A1": {"a"}, "A2": {"b"}}[agent] for agent in agents}
        assert hk.repair(machine, knows) == {"A2": {"a"}}
