"""Laws of projection, composition, minimisation and comparison, on random machines and against the oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
import oracle
from strategies import EVENTS, completion_machines, quick, reward_machines, task_machines, thorough

small_machines = task_machines(max_states=3, events=EVENTS[:3])
machines = task_machines() | reward_machines()
projectable_machines = task_machines() | completion_machines()
known_events = st.sets(st.sampled_from(EVENTS))


@st.composite
def relatives(draw: st.DrawFn) -> tuple[hk.RewardMachine, hk.RewardMachine]:
    """Draw two machines, often alike: the second may differ from the first in one reward or one target."""
    machine = draw(reward_machines())
    if not machine.transitions or draw(st.booleans()):
        return machine, draw(reward_machines())
    changed = draw(st.sampled_from(sorted(machine.transitions)))
    rewards = {**machine.rewards, changed: draw(st.sampled_from((0.0, 1.0, -0.5)))}
    transitions = {**machine.transitions, changed: draw(st.sampled_from(sorted(machine.states)))}
    relative = hk.RewardMachine(
        initial=machine.initial,
        transitions=transitions,
        final=machine.final,
        rewards=rewards,
        states=machine.states,
    )
    return machine, relative


def by_members(machine: hk.RewardMachine) -> oracle.Machine:
    """Rename each state of a quotient to the set of states that it stands for."""
    return oracle.rename(oracle.plain(machine), lambda state: frozenset(machine.members[state]))


def observe(machine: hk.RewardMachine, trace: tuple[str, ...]) -> tuple[bool, bool, float | None]:
    """Report whether a trace is defined, whether it completes the task and what its last event earns."""
    end = machine.run(trace, undefined="blocking")
    if end.state is None or not trace:
        return end.state is not None, end.completed, None
    before = machine.run(trace[:-1], undefined="blocking").state
    return True, end.completed, machine.rewards[before, trace[-1]]


@quick
@given(projectable_machines)
def test_projecting_onto_every_event_changes_nothing(machine):
    assert hk.project(machine, machine.events) == machine


@thorough
@given(projectable_machines, known_events)
def test_projecting_twice_is_projecting_once(machine, known):
    projected = hk.project(machine, known & machine.events)
    assert hk.project(projected, projected.events) == projected


@quick
@given(task_machines(), known_events, known_events)
def test_projecting_in_two_steps_is_projecting_in_one(machine, first, second):
    more = first & machine.events
    fewer = more & second
    in_two_steps = hk.project(hk.project(machine, more), fewer)
    in_one = hk.project(machine, fewer)
    assert len(in_two_steps.states) == len(in_one.states)
    assert hk.distinguish(in_two_steps, in_one) is None


@thorough
@given(projectable_machines, known_events)
def test_projection_is_the_quotient_of_the_definition(machine, known):
    known &= machine.events
    assert by_members(hk.project(machine, known)) == oracle.project(oracle.plain(machine), known)


@quick
@given(task_machines(), known_events)
def test_a_class_of_one_state_keeps_its_name(machine, known):
    projected = hk.project(machine, known & machine.events)
    for state, members in projected.members.items():
        assert members[0] == state or len(members) > 1


@quick
@given(task_machines(), known_events)
def test_a_projection_follows_every_trace_of_the_machine(machine, known):
    known &= machine.events
    projected = hk.project(machine, known)
    for (source, event), target in machine.transitions.items():
        block = next(state for state in projected.states if source in projected.members[state])
        followed = projected.step(block, event) if event in known else block
        assert target in projected.members[followed]


def test_projection_refuses_events_that_the_machine_does_not_have():
    machine = hk.RewardMachine(initial="u", transitions={("u", "a"): "v"}, final={"v"})
    with pytest.raises(hk.HocketError, match="z"):
        hk.project(machine, {"a", "z"})


def test_unreachable_states_take_part_in_a_projection():
    transitions = {("u0", "a"): "u1", ("u0", "b"): "u2", ("lost", "hidden"): "u1", ("lost", "quiet"): "u2"}
    machine = hk.RewardMachine(initial="u0", transitions=transitions, final={"u2"})
    classes = {frozenset(members) for members in hk.project(machine, {"a", "b"}).members.values()}
    assert machine.unreachable == {"lost"}
    assert classes == {frozenset({"u0"}), frozenset({"u1", "u2", "lost"})}


@thorough
@given(st.lists(task_machines(max_states=4), min_size=1, max_size=3))
def test_composition_is_the_reachable_product_of_the_definition(parts):
    expected = oracle.compose([oracle.plain(part) for part in parts])
    assert oracle.plain(hk.compose(*parts)) == oracle.rename(expected, "|".join)


@quick
@given(st.lists(reward_machines(max_states=4, events=EVENTS), min_size=2, max_size=3))
def test_composition_synchronises_general_machines_like_any_other(parts):
    expected = oracle.rename(oracle.compose([oracle.plain(part) for part in parts]), "|".join)
    composed = oracle.plain(hk.compose(*parts))
    assert composed._replace(rewards={}) == expected._replace(rewards={})


@quick
@given(small_machines, small_machines, small_machines)
def test_composition_is_associative(one, two, three):
    flat = hk.compose(one, two, three)
    for nested in hk.compose(hk.compose(one, two), three), hk.compose(one, hk.compose(two, three)):
        assert hk.distinguish(nested, flat) is None
        assert len(nested.states) == len(flat.states)


@quick
@given(small_machines, small_machines)
def test_composition_is_commutative(one, two):
    forward, backward = hk.compose(one, two), hk.compose(two, one)
    assert hk.distinguish(forward, backward) is None
    assert len(forward.states) == len(backward.states)


@quick
@given(task_machines())
def test_composing_a_machine_with_itself_changes_nothing(machine):
    assert hk.distinguish(hk.compose(machine, machine), machine) is None


def test_an_event_that_one_part_declares_and_never_allows_is_blocked():
    goes = hk.RewardMachine(initial="x", transitions={("x", "a"): "y", ("x", "b"): "y"}, final={"y"})
    forbids = hk.RewardMachine(initial="z", transitions={}, states={"z"}, events={"a"}, final={"z"})
    assert set(hk.compose(goes, forbids).transitions) == {("x|z", "b")}


@thorough
@given(machines)
def test_minimising_changes_no_behaviour(machine):
    minimal = hk.minimize(machine)
    assert hk.distinguish(minimal, machine) is None
    assert oracle.bisimilar(oracle.plain(minimal), oracle.plain(machine))


@thorough
@given(machines)
def test_minimising_merges_exactly_the_states_that_no_trace_tells_apart(machine):
    minimal = hk.minimize(machine)
    assert by_members(minimal).states == oracle.bisimulation_classes(oracle.plain(machine))
    assert all(len(block) == 1 for block in oracle.bisimulation_classes(oracle.plain(minimal)))
    assert not minimal.unreachable


@thorough
@given(relatives())
def test_two_machines_are_told_apart_by_a_shortest_trace_or_not_at_all(pair):
    one, other = pair
    trace = hk.distinguish(one, other)
    expected = oracle.distinguishing_length(oracle.plain(one), oracle.plain(other))
    assert (None if trace is None else len(trace)) == expected


@thorough
@given(relatives())
def test_a_distinguishing_trace_shows_a_difference_when_it_is_run(pair):
    one, other = pair
    trace = hk.distinguish(one, other)
    if trace is not None:
        assert observe(one, trace) != observe(other, trace)


@quick
@given(relatives())
def test_telling_apart_is_symmetric(pair):
    one, other = pair
    forward, backward = hk.distinguish(one, other), hk.distinguish(other, one)
    assert (forward is None) == (backward is None)
    assert len(forward or ()) == len(backward or ())


@pytest.mark.parametrize(
    ("changes", "trace"),
    [
        ({"final": {"v", "w"}}, ()),
        ({"rewards": {("v", "a"): 0.0, ("w", "a"): 2.0}}, ("a", "a")),
        ({"transitions": {("v", "a"): "w", ("w", "a"): "v", ("w", "b"): "w"}}, ("a", "b")),
    ],
    ids=["finality", "reward", "a missing event"],
)
def test_finality_rewards_and_missing_events_all_tell_machines_apart(changes, trace):
    ring = {
        "initial": "v",
        "transitions": {("v", "a"): "w", ("w", "a"): "v"},
        "final": {"w"},
        "rewards": {("v", "a"): 0.0, ("w", "a"): 1.0},
    }
    assert hk.distinguish(hk.RewardMachine(**ring), hk.RewardMachine(**ring)) is None
    assert hk.distinguish(hk.RewardMachine(**ring), hk.RewardMachine(**ring | changes)) == trace
