"""Two independent libraries as oracles: AALpy for bisimilarity, libFAUDES for languages and compositions."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hocket as hk
import oracle
from strategies import (
    BUTTONS_KNOWS,
    EVENTS,
    Team,
    buttons,
    composed_teams,
    quick,
    rendezvous,
    rendezvous_knows,
    reward_machines,
    task_machines,
    teams,
    thorough,
)

machines = task_machines(max_states=4, events=EVENTS[:3]) | reward_machines()


def mealy(machine: hk.RewardMachine) -> Any:
    """Convert to AALpy, a transition's output being its reward and whether it completes the task."""
    automata = pytest.importorskip("aalpy.automata")
    states = {name: automata.MealyState(name) for name in machine.states}
    for (source, event), target in machine.transitions.items():
        states[source].transitions[event] = states[target]
        states[source].output_fun[event] = (machine.rewards[source, event], target in machine.final)
    return automata.MealyMachine(states[machine.initial], list(states.values()))


def complete_moore(machine: oracle.Machine) -> Any:
    """Convert to AALpy with a sink of its own kind, so that a blocked trace is unlike any other."""
    automata = pytest.importorskip("aalpy.automata")
    sink = automata.MooreState("blocked", "blocked")
    states = {name: automata.MooreState(name, str(name in machine.final)) for name in machine.states}
    for event in machine.events:
        sink.transitions[event] = sink
        for name, state in states.items():
            state.transitions[event] = states.get(machine.transitions.get((name, event)), sink)
    return automata.MooreMachine(states[machine.initial], [*states.values(), sink])


def generator(machine: hk.RewardMachine) -> Any:
    """Convert to libFAUDES: states are numbered, final ones marked, declared events in the alphabet."""
    faudes = pytest.importorskip("faudes")
    converted = faudes.Generator()
    for event in machine.events:
        converted.InsEvent(event)
    number = {state: converted.InsState() for state in machine.states}
    converted.SetInitState(number[machine.initial])
    for state in machine.final:
        converted.SetMarkedState(number[state])
    for (source, event), target in machine.transitions.items():
        converted.SetTransition(number[source], converted.EventIndex(event), number[target])
    return converted


def closed(converted: Any) -> Any:
    """Mark every state, so that the marked language is all that can happen."""
    faudes = pytest.importorskip("faudes")
    copy = faudes.Generator(converted)
    faudes.MarkAllStates(copy)
    return copy


def natural_projection(converted: Any, known: Iterable[str]) -> Any:
    """Project the language, not the states, by libFAUDES's subset construction."""
    faudes = pytest.importorskip("faudes")
    alphabet = faudes.EventSet()
    for event in known:
        alphabet.Insert(event)
    return faudes.Project(converted, alphabet)


def parallel(parts: Iterable[Any]) -> Any:
    """Compose with libFAUDES."""
    faudes = pytest.importorskip("faudes")
    first, *others = parts
    for other in others:
        first = faudes.Parallel(first, other)
    return first


def same_languages(one: Any, other: Any) -> bool:
    """Compare what can happen and what completes the task, which for deterministic machines is bisimilarity."""
    faudes = pytest.importorskip("faudes")
    return faudes.LanguageEquality(one, other) and faudes.LanguageEquality(closed(one), closed(other))


def included_languages(one: Any, other: Any) -> bool:
    """Ask whether all that can happen in one, and all that completes it, also does in the other."""
    faudes = pytest.importorskip("faudes")
    return faudes.LanguageInclusion(one, other) and faudes.LanguageInclusion(closed(one), closed(other))


def product_of_parts(machines: Mapping[str, hk.RewardMachine]) -> Any:
    """Compose hocket's parts with libFAUDES."""
    return parallel(generator(part) for part in machines.values())


@thorough
@given(machines, machines)
def test_aalpy_tells_the_same_machines_apart_by_traces_as_short(one, other):
    bisimilar = pytest.importorskip("aalpy").bisimilar
    trace = hk.distinguish(one, other)
    if (one.initial in one.final) != (other.initial in other.final):
        assert trace == ()
    else:
        expected = bisimilar(mealy(one), mealy(other), return_cex=True)
        assert (None if trace is None else len(trace)) == (None if expected is None else len(expected))


@quick
@given(machines)
def test_aalpy_finds_a_minimised_machine_bisimilar_to_the_original(machine):
    bisimilar = pytest.importorskip("aalpy").bisimilar
    assert bisimilar(mealy(hk.minimize(machine)), mealy(machine))


@quick
@given(task_machines())
def test_aalpy_finds_nothing_left_to_merge_in_a_minimised_machine(machine):
    assert complete_moore(oracle.plain(hk.minimize(machine))).is_minimal()


@quick
@given(task_machines())
def test_minimising_merges_something_unless_aalpy_finds_nothing_to_merge(machine):
    reached = oracle.reachable(oracle.plain(machine))
    unchanged = len(hk.minimize(machine).states) == len(reached.states)
    assert unchanged == complete_moore(reached).is_minimal()


@thorough
@given(teams())
def test_aalpy_gives_the_same_verdict_on_decomposability(team):
    bisimilar = pytest.importorskip("aalpy").bisimilar
    result = hk.decompose(*team)
    composed = oracle.compose([oracle.plain(part) for part in result.machines.values()])
    team_machine = oracle.plain(team.machine)._replace(events=composed.events | team.machine.events)
    assert result.ok == bisimilar(
        complete_moore(team_machine), complete_moore(composed._replace(events=team_machine.events))
    )


@thorough
@given(st.lists(task_machines(max_states=4), min_size=2, max_size=3))
def test_libfaudes_composes_to_the_same_languages_and_as_many_states(parts):
    composed = hk.compose(*parts)
    expected = parallel(generator(part) for part in parts)
    assert same_languages(generator(composed), expected)
    assert (len(composed.states), len(composed.transitions)) == (expected.Size(), expected.TransRelSize())


@thorough
@given(teams())
def test_libfaudes_gives_the_same_verdict_on_the_same_parts(team):
    result = hk.decompose(*team)
    assert result.ok == same_languages(product_of_parts(result.machines), generator(team.machine))


@quick
@given(teams())
def test_a_projection_allows_all_that_the_projected_language_does(team):
    whole = generator(team.machine)
    for known in team.knows.values():
        language = natural_projection(whole, known)
        assert included_languages(language, generator(hk.project(team.machine, known)))


@quick
@given(teams() | composed_teams())
def test_a_decomposable_task_is_the_composition_of_its_projected_languages(team):
    whole = generator(team.machine)
    if hk.decompose(*team).ok:
        languages = [natural_projection(whole, known) for known in team.knows.values()]
        assert same_languages(parallel(languages), whole)


@pytest.mark.parametrize(
    "team",
    [Team(buttons(), BUTTONS_KNOWS), *(Team(rendezvous(n), rendezvous_knows(n)) for n in (2, 3, 4))],
    ids=["buttons", "rendezvous of 2", "rendezvous of 3", "rendezvous of 4"],
)
def test_merging_states_and_projecting_the_language_agree_on_the_papers_tasks(team):
    whole = generator(team.machine)
    for known in team.knows.values():
        assert same_languages(generator(hk.project(team.machine, known)), natural_projection(whole, known))
