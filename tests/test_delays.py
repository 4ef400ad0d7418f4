"""Delays: the check against every schedule of small tasks, its answers on the built-in tasks, and its words."""

from random import Random

import pytest

import hocket as hk
from delay_oracle import fewest_pairs, random_team, tolerates
from hocket.errors import AssignmentError
from hocket.machine.delays import find_delays
from hocket.task.catalogue import known_tasks

TOLERANT = ["buttons", "crew", "four-buttons", "pass-the-room", "rendezvous-2", "rooms", "warehouse"]


def drawn(seeds: range):
    """Draw decomposable tasks with who controls what."""
    for seed in seeds:
        if (team := random_team(Random(seed))) is not None:
            machine, knows, control = team
            yield hk.decompose(machine, knows, control)


def both_know(machine: hk.RewardMachine, **control: str):
    """Split a machine between two agents that know everything."""
    return hk.decompose(machine, {"A1": machine.events, "A2": machine.events}, control)


def test_the_check_agrees_with_every_schedule_of_random_tasks():
    verdicts = []
    for found in drawn(range(500)):
        check = hk.check_delays(found)
        assert check.tolerant == tolerates(found, check.deciders)
        verdicts.append(check.tolerant)
    assert 50 < sum(verdicts) < len(verdicts) - 50


def test_the_pairs_that_must_agree_are_enough_and_the_fewest():
    tried = 0
    for found in drawn(range(1000, 1150)):
        check = hk.check_delays(found)
        assert tolerates(found, check.agreed) and hk.check_delays(found, check.agreed).tolerant
        if not check.tolerant:
            assert check.exact and len(check.agree) == fewest_pairs(found, check.deciders)
            tried += 1
    assert tried > 15


def test_more_deciders_never_hurt_and_all_who_know_are_always_enough():
    rng = Random(5)
    for found in drawn(range(2000, 2150)):
        check = hk.check_delays(found)
        everyone = {e: [a for a in found.knows if e in found.knows[a]] for e in found.machine.events}
        grown = {e: {*own, *(a for a in everyone[e] if rng.random() < 0.4)} for e, own in check.deciders.items()}
        assert hk.check_delays(found, grown).tolerant or not check.tolerant
        assert hk.check_delays(found, everyone).tolerant


def test_a_critical_pair_breaks_the_task_by_itself_and_no_other_does():
    for found in drawn(range(3000, 3200)):
        check = hk.check_delays(found)
        everyone = {e: [a for a in found.knows if e in found.knows[a]] for e in found.machine.events}
        for event, agents in check.hearers.items():
            for agent in agents:
                alone = {**everyone, event: [own for own in everyone[event] if own != agent]}
                if not check.tolerant:
                    assert tolerates(found, alone) != ((agent, event) in check.critical)


@pytest.mark.parametrize("name", TOLERANT)
def test_built_in_tasks_tolerate_delays(name):
    assert hk.check_delays(name).tolerant


def test_every_other_built_in_task_is_known_not_to():
    assert {name for name, task in known_tasks().items() if not hk.check_delays(task).tolerant} <= {
        "drawbridge",
        "repairs",
        "token-buttons-2",
        "token-rooms-2",
    }


def test_whoever_holds_the_drawbridge_must_agree_with_whoever_is_on_it():
    check = hk.check_delays("drawbridge")
    assert check.agree == (("A2", "up"), ("A1", "lift")) and check.exact
    assert check.counterexample.kind == "diamond"
    assert "A2 has not heard and decides on over (A2 at far lever); down, up, over is no trace" in check.explain()
    assert hk.check_delays("drawbridge", check.agreed).tolerant


def test_a_gate_that_closes_behind_an_agent_that_has_not_heard_is_a_counterexample():
    moves = {("0", "shut"): "1", ("1", "go"): "2"}
    found = both_know(hk.RewardMachine(initial="0", transitions=moves, final={"2"}), shut="A1", go="A2")
    assert hk.check_delays(found).tolerant
    check = find_delays(found, closed={"A2": [frozenset(), frozenset({"door"}), frozenset({"door"})]})
    assert check.counterexample.kind == "gate" and check.agree == check.critical == (("A2", "shut"),)
    assert "closes door to A2; A2 has not heard of it" in check.explain()


def test_a_silent_guard_names_who_alone_could_tell():
    machine = hk.RewardMachine(
        initial="raw",
        transitions={("raw", "chop"): "chopped", ("raw", "boil"): "hot", ("chopped", "boil"): "ready",
                     ("hot", "chop"): "ready", ("ready", "cook"): "done"},
        final={"done"},
    )  # fmt: skip
    knows = {"Ann": {"chop", "cook"}, "Bo": {"boil", "cook"}}
    found = hk.decompose(machine, knows, {"chop": "Ann", "boil": "Bo", "cook": "Bo"})
    check = hk.check_delays(found)
    assert check.counterexample.kind == "silent guard" and check.agree == (("Ann", "cook"),)
    assert "after the trace boil, Bo decides on cook; only Ann could tell" in check.explain()


def test_states_that_differ_by_the_order_of_hearing_are_a_counterexample():
    moves = {("0", "a"): "1", ("0", "b"): "2", ("1", "b"): "3", ("2", "a"): "4", ("3", "c"): "5", ("4", "d"): "5"}
    check = hk.check_delays(both_know(hk.RewardMachine(initial="0", transitions=moves, final={"5"}), a="A1", b="A2"))
    assert check.counterexample.is_trace and "different local states" in check.explain()


def test_a_team_of_a_thousand_is_checked_without_listing_its_states():
    assert hk.check_delays("rendezvous-1000").tolerant
    parts = {
        f"A{i}": hk.RewardMachine(initial="0", transitions={("0", "start"): "1", ("1", f"go{i}"): "2"}, final={"2"})
        for i in range(300)
    }  # one rings, all hear of it
    team = hk.Composition(parts)
    knows = {agent: part.events for agent, part in parts.items()}
    found = hk.decompose(team, knows, {"start": "A0", **{f"go{i}": f"A{i}" for i in range(300)}})
    assert hk.check_delays(found).tolerant


def test_what_is_too_large_to_be_checked_is_refused():
    parts = {
        f"A{i}": hk.RewardMachine(initial="0", transitions={("0", f"go{i}"): "1", ("1", "start"): "2"}, final={"2"})
        for i in range(300)
    }
    knows = {agent: part.events for agent, part in parts.items()}
    found = hk.decompose(hk.Composition(parts), knows, {"start": "A0", **{f"go{i}": f"A{i}" for i in range(300)}})
    with pytest.raises(AssignmentError, match="too large"):
        hk.check_delays(found)


def test_a_team_given_as_its_agents_machines_is_checked_as_the_team_is():
    answers = set()
    for team in drawn(range(400)):
        if any(source in machine.final for machine in team.machines.values() for source, _ in machine.transitions):
            continue  # which cannot be parts
        parts = {
            agent: hk.RewardMachine(
                initial=machine.initial,
                transitions=machine.transitions,
                final=machine.final,
                events=machine.events,
                states=[*machine.states, "lost"],  # which no trace reaches
            )
            for agent, machine in team.machines.items()
        }
        composed = hk.decompose(hk.Composition(parts), team.knows, team.control)
        assert hk.check_delays(composed).tolerant == hk.check_delays(team).tolerant
        assert len(hk.check_delays(composed).agree) == len(hk.check_delays(team).agree)
        answers.add(hk.check_delays(team).tolerant)
    assert answers == {True, False}


def test_independent_parts_are_checked_one_by_one():
    door = {("0", "a"): "1", ("0", "b"): "2"}
    parts = {"one": hk.RewardMachine(initial="0", transitions=door, final={"1", "2"})}
    parts["two"] = hk.RewardMachine(initial="0", transitions={("0", "c"): "1"}, final={"1"})
    team = hk.Composition(parts)
    found = hk.decompose(team, {"A1": set("abc"), "A2": set("abc")}, {"a": "A1", "b": "A2", "c": "A1"})
    assert hk.check_delays(found).agree in ((("A2", "a"),), (("A1", "b"),))


@pytest.mark.parametrize(
    ("deciders", "message"),
    [
        ({"nonsense": ["A1"]}, "event 'nonsense' does not exist"),
        ({"R": ["A1", "A2", "A3", "A4"]}, "a decider of 'R' must know it"),
        ({"R": ["A2"]}, "A3 controls 'R' and must be among its deciders"),
    ],
)
def test_deciders_that_make_no_sense_are_refused(deciders, message):
    with pytest.raises(AssignmentError, match=message):
        hk.check_delays("buttons", deciders)


def test_a_task_that_is_not_decomposable_has_no_delays_to_check():
    task = hk.load_task("buttons").with_knows({"A3": ["A3on", "A3off", "R"]})
    with pytest.raises(hk.HocketError, match="only a decomposable task"):
        hk.check_delays(task.decomposition)


def test_the_answer_is_plain_data_too():
    data = hk.check_delays("drawbridge").as_json()
    assert (data["tolerant"], data["agree"]) == (False, [["A2", "up"], ["A1", "lift"]])
    assert hk.check_delays("rendezvous-2").as_json()["counterexample"] is None
