"""The protocol under faults: schedules of every task, every schedule of the smallest, and protocols that are broken."""

import pytest

import hocket as hk
from causal_tasks import CAUSAL, made
from hocket.errors import HocketError
from hocket.machine.delays import find_delays
from hocket.runtime.judge import Violation
from hocket.runtime.plan import NumberedTeam, Plan
from hocket.runtime.simulation import FAULTS, FaultSimulation, find_violation, search_all, simulate
from hocket.task.catalogue import known_tasks
from protocol_mutants import MUTANTS, Restless, TimesOut

BUILT_IN = {name: task.decomposition for name, task in known_tasks().items() if len(task.agents) > 1}
SCHEDULES = 800  # of each task: more than 20,000 together
MOST = 3_000  # schedules of a task in which a broken protocol has to be caught
DUO = made("0 x 1, 1 b done", "A: x b; B: x b", "x: A B; b: B")
TRIO = made("0 x done", "A: x; B: x; C: x", "x: A B C")


@pytest.mark.parametrize("name", [*BUILT_IN, *CAUSAL])
def test_no_schedule_of_faults_breaks_an_invariant(name):
    report = simulate({**BUILT_IN, **CAUSAL}[name], SCHEDULES)
    assert report.failure is None
    assert report.schedules == SCHEDULES
    assert all(report.counts[what] for what in ("lost", "doubled", "killed", "torn", "frozen", "split"))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_alone_breaks_nothing(fault):
    assert simulate(BUILT_IN["buttons"], 100, faults=[fault]).ok


def test_without_faults_nothing_is_lost_doubled_or_killed():
    counts = simulate(BUILT_IN["buttons"], 50, faults=()).counts
    assert {what for what, count in counts.items() if count} == {"actions"}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_protocol_is_caught(mutant):
    for begin, end in ((0, 50), (50, 300), (300, 1000), (1000, MOST)):
        for found in CAUSAL.values():
            if not simulate(found, end - begin, seed=begin, node=mutant).ok:
                return
    pytest.fail(f"nothing is wrong with {mutant.__name__}")


def test_every_state_of_two_agents_is_sound_whoever_is_killed_twice():
    found = search_all(DUO, kills=2)
    assert found.states > 10_000 and found.complete > 0


def test_every_state_of_three_agents_is_sound_whoever_is_killed():
    assert search_all(TRIO, kills=1, withdrawals=0).complete > 0


def test_exhaustive_search_catches_what_simulation_does():
    with pytest.raises(Violation):
        search_all(DUO, kills=0, node=TimesOut)


def test_a_schedule_follows_from_its_seed():
    one, other = (simulate(BUILT_IN["buttons"], 40, seed=7) for _ in range(2))
    assert one.counts == other.counts == hk.runtime.simulate("buttons", 40, seed=7).counts


def test_a_failure_is_shrunk_told_and_played_again():
    found = CAUSAL["choice of two"]
    failure = simulate(found, MOST, node=Restless).failure
    deciders = find_delays(found).agreed
    simulation = FaultSimulation(Plan.of(found, deciders), NumberedTeam.of(found), FAULTS, Restless)
    assert find_violation(simulation, failure.seed) is not None
    assert find_violation(simulation, failure.actions) == failure.sentence
    for place in range(len(failure.actions)):
        assert find_violation(simulation, failure.actions[:place] + failure.actions[place + 1 :]) is None
    assert "holds still" in "\n".join(failure.transcript) and len(failure.actions) < 15


def test_deciders_that_are_too_few_are_found_out():
    found = BUILT_IN["drawbridge"]
    assert not simulate(found, MOST, deciders={}).ok
    assert simulate(found, 200).ok  # those agree who have to


def test_a_task_that_can_get_stuck_need_not_complete_and_everything_is_heard():
    stuck = made("0 a 1, 0 b 2, 1 b bad, 2 a bad, 1 c done", "A: a b c; B: a b", "a: A; b: B; c: A")
    assert simulate(stuck, 300).ok


def test_what_cannot_be_simulated_is_refused():
    with pytest.raises(HocketError, match="fault 'los' does not exist"):
        simulate(DUO, faults=["los"])
    with pytest.raises(HocketError, match="cannot be simulated"):
        simulate(hk.load_task("rendezvous-1000").decomposition)
