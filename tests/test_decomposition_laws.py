"""Laws of decomposition, repair and cheapest assignments, on random tasks and against brute force."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
import oracle
from hocket.machine.algebra import reachable_part
from strategies import (
    AGENTS,
    BUTTONS_KNOWS,
    EVENTS,
    Team,
    buttons,
    composed_teams,
    order_matters,
    project_trace,
    quick,
    random_teams,
    task_machines,
    teams,
    thorough,
    traces_up_to,
)

small_teams = random_teams(max_states=4, events=EVENTS[:3], max_agents=3)
pairs_of_three = [(agent, event) for agent in AGENTS[:3] for event in EVENTS[:3]]
few_pairs = st.sets(st.sampled_from(pairs_of_three), max_size=2)
prices = st.fixed_dictionaries({pair: st.integers(1, 9) for pair in pairs_of_three})


@st.composite
def controlled(draw: st.DrawFn, events: list[str], agents: list[str]) -> dict[str, set[str]]:
    """Draw who controls each event."""
    return {event: draw(st.sets(st.sampled_from(agents), min_size=1, max_size=2)) for event in events}


@st.composite
def controlled_teams(draw: st.DrawFn) -> tuple[Team, dict[str, set[str]]]:
    """Draw a task and who controls some of its events, whether or not they know them."""
    team = draw(small_teams)
    events = draw(st.lists(st.sampled_from(sorted(team.machine.events)), unique=True, max_size=2))
    return team, draw(controlled(events, sorted(team.knows)))


def local_runs(machines: Mapping[str, hk.RewardMachine], trace: tuple[str, ...]) -> dict[str, str | None]:
    """Run each local machine on what its agent sees of a trace."""
    return {
        agent: machine.run(project_trace(trace, machine.events), undefined="blocking").state
        for agent, machine in machines.items()
    }


def added_pairs(additions: Mapping[str, frozenset[str]]) -> list[tuple[str, str]]:
    """List the (agent, event) pairs of an answer."""
    return [(agent, event) for agent, events in additions.items() for event in events]


@thorough
@given(teams())
def test_the_verdict_is_that_of_the_product_of_projections(team):
    result = hk.decompose(*team)
    assert result.ok == oracle.decomposable(oracle.plain(team.machine), team.knows)
    assert (result.counterexample is None) == result.ok


@thorough
@given(random_teams(max_states=5), st.sets(st.sampled_from(EVENTS), min_size=1))
def test_an_event_that_nobody_knows_breaks_a_decomposition_exactly_where_it_can_happen(team, forgotten):
    knows = {agent: known - forgotten for agent, known in team.knows.items()}
    assert hk.decompose(team.machine, knows).ok == oracle.decomposable(oracle.plain(team.machine), knows)


@thorough
@given(teams())
def test_the_verdict_is_that_of_composing_and_comparing(team):
    result = hk.decompose(*team)
    difference = hk.distinguish(team.machine, hk.compose(*result.machines.values()))
    assert result.ok == (difference is None)
    if difference is not None:
        assert len(difference) - len(result.counterexample.trace) in (0, 1)


@thorough
@given(teams())
def test_a_counterexample_is_among_the_shortest(team):
    found = hk.decompose(*team).counterexample
    if found is not None:
        expected = oracle.shortest_evidence(oracle.plain(team.machine), team.knows)
        assert oracle.Evidence(tuple(found.trace), found.kind, found.event) in expected


@thorough
@given(teams())
def test_a_counterexample_shows_itself_when_it_is_run(team):
    result = hk.decompose(*team)
    if result.ok:
        return
    trace, kind, event = (getattr(result.counterexample, name) for name in ("trace", "kind", "event"))
    end = team.machine.run(trace, undefined="blocking").state
    local = local_runs(result.machines, trace)
    assert end is not None
    if kind == "premature completion":
        assert event is None
        assert end not in team.machine.final
        assert all(local[agent] in part.final for agent, part in result.machines.items())
    else:
        assert kind == "phantom event"
        assert team.machine.step(end, event) is None
        knowers = [agent for agent, known in team.knows.items() if event in known]
        assert knowers
        assert all(result.machines[agent].step(local[agent], event) is not None for agent in knowers)


def merges(machine: hk.RewardMachine, events: frozenset[str], one: str, other: str) -> bool:
    """Say whether a projection merges two states."""
    return any({one, other} <= {*members} for members in hk.project(machine, events).members.values())


@thorough
@given(teams())
def test_merged_states_stay_merged_without_the_missing_events_and_only_without_them(team):
    found = hk.decompose(*team).counterexample
    for confusion in () if found is None else found.confusions:
        states = (confusion.state, confusion.merged_with)
        assert confusion.missing and not {*confusion.missing} & {*team.knows[confusion.agent]}
        assert merges(team.machine, team.knows[confusion.agent], *states)
        assert merges(team.machine, {*team.machine.events} - {*confusion.missing}, *states)
        assert not merges(team.machine, {*team.machine.events}, *states)


@quick
@given(teams())
def test_the_explanation_names_trace_kind_event_agents_merged_states_and_missing_events(team):
    result = hk.decompose(*team)
    found = result.counterexample
    if found is None:
        return
    verdict, *lines = result.explain().splitlines()
    assert verdict == "Not decomposable."
    (said,) = [line for line in lines if line.startswith(f"Counterexample ({found.kind}): after ")]
    assert (f"the trace {', '.join(found.trace)}" if found.trace else "the empty trace") in said
    assert f" {found.state}" in said and (found.event is None or f" {found.event}" in said)
    for confusion in found.confusions:
        start = f"The projection of {confusion.agent} merges {confusion.state} and {confusion.merged_with}, "
        (said,) = [line for line in lines if line.startswith(start)]
        assert all(event in said.rpartition(" needs ")[2] for event in confusion.missing)


@quick
@given(teams())
def test_the_machines_of_a_decomposition_are_the_projections_of_the_reachable_part(team):
    machines, reached = hk.decompose(*team).machines, reachable_part(team.machine)
    assert machines == {agent: hk.project(reached, known) for agent, known in team.knows.items()}


@thorough
@given(small_teams)
def test_a_task_without_a_counterexample_has_none_for_brute_force_either(team):
    if hk.decompose(*team).ok:
        assert not oracle.shortest_evidence(oracle.plain(team.machine), team.knows)


@thorough
@given(composed_teams())
def test_a_composition_is_decomposable_into_its_parts(team):
    assert hk.decompose(*team).ok


def check_completion_is_shared(team: Team, length: int) -> None:
    """Compare, on every trace up to a length, completion by the team with completion by all of its parts."""
    result = hk.decompose(*team)
    assert result.ok
    for trace in traces_up_to(team.machine.events, length):
        completed = team.machine.run(trace, undefined="blocking").completed
        local = local_runs(result.machines, trace)
        assert completed == all(local[agent] in part.final for agent, part in result.machines.items())


@quick
@given(composed_teams(max_states=2))
def test_a_composed_task_is_complete_exactly_when_all_parts_are(team):
    check_completion_is_shared(team, length=3)


@thorough
@given(random_teams(max_states=4, events=EVENTS[:3], max_agents=3))
def test_a_decomposable_task_is_complete_exactly_when_all_parts_are(team):
    if oracle.decomposable(oracle.plain(team.machine), team.knows):
        check_completion_is_shared(team, length=4)


def test_the_buttons_are_complete_exactly_when_all_parts_are():
    check_completion_is_shared(Team(buttons(), BUTTONS_KNOWS), length=4)


def test_two_parts_may_be_complete_before_the_team_is():
    # Theorem 1 ends "otherwise R_i = 0 for all i"; what holds is that not all of them are 1.
    machine = buttons()
    parts = hk.decompose(machine, BUTTONS_KNOWS).machines
    trace = ("Y", "G", "A2on", "A3on", "R")
    completed = {
        agent: part.run(project_trace(trace, part.events), undefined="blocking").completed
        for agent, part in parts.items()
    }
    assert not machine.run(trace, undefined="blocking").completed
    assert completed == {"A1": False, "A2": True, "A3": True}


@thorough
@given(small_teams | composed_teams(max_states=2), st.sets(st.sampled_from(pairs_of_three)))
def test_knowing_more_never_breaks_a_decomposition(team, pairs):
    learned = [(agent, event) for agent, event in pairs if event in team.machine.events]
    if hk.decompose(*team).ok:
        assert hk.decompose(team.machine, oracle.grow(team.knows, learned)).ok


@quick
@given(task_machines(), st.data())
def test_one_agent_that_knows_everything_is_enough(machine, data):
    knows = {"all": set(machine.events), "some": data.draw(st.sets(st.sampled_from(sorted(machine.events))))}
    assert hk.decompose(machine, knows).ok


@thorough
@given(controlled_teams())
def test_every_controller_of_an_event_must_know_it(team_and_control):
    (machine, knows), control = team_and_control
    result = hk.decompose(machine, knows, control=control)
    expected = oracle.decomposable(oracle.plain(machine), knows)
    assert result.ok == (expected and oracle.controllers_know(knows, control))


def test_the_order_of_two_events_can_complete_a_task_too_early():
    found = hk.decompose(*order_matters()).counterexample
    assert (tuple(found.trace), found.kind, found.event) == (("b", "a"), "premature completion", None)


def test_an_agent_that_misses_the_signal_allows_a_phantom_event():
    machine = hk.RewardMachine(initial="u", transitions={("u", "a"): "v", ("v", "b"): "w"}, final={"w"})
    found = hk.decompose(machine, {"A1": {"a"}, "A2": {"b"}}).counterexample
    assert (tuple(found.trace), found.kind, found.event) == ((), "phantom event", "b")


@thorough
@given(controlled_teams(), prices, few_pairs)
def test_a_repair_is_the_cheapest_there_is(team_and_control, cost, forbidden):
    (machine, knows), control = team_and_control
    cost = {pair: value for pair, value in cost.items() if pair[0] in knows and pair[1] in machine.events}
    forbidden &= set(cost)
    best = oracle.minimum_repair(oracle.plain(machine), knows, control, cost, forbidden)
    if best is None:
        with pytest.raises(hk.HocketError):
            hk.repair(machine, knows, control, cost, forbidden)
        return
    found = hk.repair(machine, knows, control, cost, forbidden)
    pairs = added_pairs(found)
    assert found.exact
    assert found.cost == oracle.price(pairs, cost) == best
    assert not forbidden & set(pairs)
    assert hk.decompose(machine, oracle.grow(knows, pairs), control).ok


@thorough
@given(small_teams)
def test_a_repair_adds_the_fewest_events_and_none_where_none_is_needed(team):
    found = hk.repair(*team)
    pairs = added_pairs(found)
    assert found.cost == len(pairs) == oracle.minimum_repair(oracle.plain(team.machine), team.knows)
    assert oracle.decomposable(oracle.plain(team.machine), oracle.grow(team.knows, pairs))
    assert all(event not in team.knows[agent] for agent, event in pairs)
    assert (dict(found) == {}) == hk.decompose(*team).ok


@thorough
@given(st.data(), task_machines(max_states=4, events=EVENTS[:3]), prices, few_pairs)
def test_a_cheapest_assignment_is_the_cheapest_there_is(data, machine, cost, forbidden):
    agents = AGENTS[: data.draw(st.sampled_from((2, 3)))]
    control = data.draw(controlled(sorted(machine.events), list(agents)))
    cost = {pair: value for pair, value in cost.items() if pair[0] in agents and pair[1] in machine.events}
    forbidden &= set(cost)
    nothing = {agent: frozenset[str]() for agent in agents}
    best = oracle.minimum_repair(oracle.plain(machine), nothing, control, cost, forbidden)
    if best is None:
        with pytest.raises(hk.HocketError):
            hk.cheapest_assignment(machine, agents, control, cost, forbidden)
        return
    found = hk.cheapest_assignment(machine, agents, control, cost, forbidden)
    pairs = added_pairs(found)
    assert oracle.price(pairs, cost) == best
    assert not forbidden & set(pairs)
    assert hk.decompose(machine, found, control).ok


def test_costs_change_which_events_a_repair_adds():
    machine, knows = order_matters()
    assert hk.repair(machine, knows, cost={("A1", "b"): 3}) == {"A2": frozenset({"a"})}
    assert hk.repair(machine, knows, cost={("A2", "a"): 3}) == {"A1": frozenset({"b"})}


def test_forbidden_pairs_change_which_events_a_repair_adds():
    machine, knows = order_matters()
    assert hk.repair(machine, knows, forbidden={("A1", "b")}) == {"A2": frozenset({"a"})}
    assert hk.repair(machine, knows, forbidden={("A2", "a")}) == {"A1": frozenset({"b"})}


def test_a_repair_that_needs_what_is_forbidden_is_an_error():
    machine, knows = order_matters()
    with pytest.raises(hk.HocketError):
        hk.repair(machine, knows, forbidden={("A1", "b"), ("A2", "a")})


def test_a_repair_first_tells_controllers_what_they_control():
    machine, knows = order_matters()
    found = hk.repair(machine, knows, control={"a": {"A1", "A2"}}, cost={("A2", "a"): 9})
    assert found == {"A2": frozenset({"a"})}
    assert found.cost == 9


def test_costs_change_the_cheapest_assignment():
    machine, _ = order_matters()
    control = {"a": {"A1"}, "b": {"A2"}}
    b_is_dear = hk.cheapest_assignment(machine, ("A1", "A2"), control, cost={("A1", "b"): 3})
    a_is_dear = hk.cheapest_assignment(machine, ("A1", "A2"), control, cost={("A2", "a"): 3})
    assert b_is_dear == {"A1": {"a"}, "A2": {"a", "b"}}
    assert a_is_dear == {"A1": {"a", "b"}, "A2": {"b"}}


# States that no trace leads to, and events that cannot happen.


def out_of_reach() -> hk.RewardMachine:
    """Build a machine that cannot move, beside states and events that nobody will ever see."""
    return hk.RewardMachine(initial="s0", transitions={("s1", "a"): "s2", ("s1", "b"): "s0"}, final={"s2"})


def test_what_no_trace_reaches_confuses_nobody():
    machine = out_of_reach()
    for knows in ({"A": ()}, {"A": "a"}, {"A": "b"}, {"A": ("a", "b")}, {"A": "a", "B": ()}):
        assert hk.decompose(machine, knows).ok


def test_a_repair_ignores_what_no_trace_reaches():
    found = hk.repair(out_of_reach(), {"A": (), "B": ()}, forbidden=[("A", "b")])
    assert (found, found.cost, found.exact, found.bound) == ({}, 0, True, 0)
    assert hk.cheapest_assignment(out_of_reach(), ["A", "B"], {}) == {"A": frozenset(), "B": frozenset()}


def test_no_repair_is_called_impossible_because_of_states_out_of_reach():
    machine = hk.RewardMachine(
        initial="s0",
        transitions={("s0", "a"): "s1", ("s2", "b"): "s0", ("s2", "a"): "s3"},
        final={"s1", "s3"},
    )
    found = hk.repair(machine, {"A": (), "B": ("b",)}, forbidden=[("A", "b"), ("B", "a")])
    assert (found, found.exact) == ({"A": {"a"}}, True)


def test_a_controller_must_know_its_event_even_where_it_cannot_happen():
    result = hk.decompose(out_of_reach(), {"A": (), "B": ()}, {"b": "A"})
    assert not result.ok and result.unaware == (("A", "b"),)
    assert hk.repair(out_of_reach(), {"A": (), "B": ()}, {"b": "A"}) == {"A": {"b"}}
    assert hk.cheapest_assignment(out_of_reach(), ["A", "B"], {"b": "A"}) == {"A": {"b"}, "B": frozenset()}


def test_an_event_that_can_always_happen_must_be_known_by_somebody():
    machine = hk.RewardMachine(initial="u", transitions={("u", "a"): "u", ("u", "b"): "u"}, final=())
    result = hk.decompose(machine, {"A": "a"})
    assert (result.ok, result.counterexample, [*result.unknown]) == (False, None, ["b"])


def test_an_event_that_cannot_happen_need_not_be_known():
    machine = hk.RewardMachine(initial="u", transitions={("u", "a"): "v"}, final={"v"}, events=("a", "spare"))
    assert hk.decompose(machine, {"A": "a"}).ok
    assert not hk.decompose(machine, {"A": "a"}).unknown
    assert hk.cheapest_assignment(machine, ["A", "B"], {"a": "A"}) == {"A": {"a"}, "B": frozenset()}


def test_machines_of_a_decomposition_leave_out_what_no_trace_reaches_and_keep_names():
    machine = hk.RewardMachine(
        initial="u",
        transitions={("lost", "b"): "u", ("u", "a"): "v", ("v", "b"): "w"},
        final={"w"},
    )
    result = hk.decompose(machine, {"A": ("a", "b")})
    assert result.machines["A"].states == {"u", "v", "w"}
    assert result.machines["A"].events == {"a", "b"}
    assert result.machine is machine
    assert "No trace reaches lost." in result.notes and not result.problems


def test_an_agent_whose_events_are_all_out_of_reach_is_idle():
    machine = hk.RewardMachine(
        initial="u",
        transitions={("u", "a"): "v", ("lost", "b"): "found", ("lost", "a"): "u"},
        final={"v", "found"},
    )
    result = hk.decompose(machine, {"A": ("a",), "B": ("b",)})
    assert result.ok
    assert result.idle == {"B"}
    assert list(result.early) == ["B"]  # it sees nothing happen, so it takes the task for done from the start
