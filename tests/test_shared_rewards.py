"""General rewards: they are shared out if and only if they are sums of local ones, and the shares add up."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import NamedTuple

import pytest

import hocket as hk
import oracle
from searches import search
from strategies import rendezvous, rendezvous_knows

EVENTS = ("a", "b", "c", "d", "e")
AMOUNTS = (0.0, 0.0, 0.1, 0.2, 0.7, 1.0, -0.3, 2.5)


class PaidTeam(NamedTuple):
    """A team machine with rewards, and who knows and controls what."""

    machine: hk.RewardMachine
    knows: dict[str, set[str]]
    control: dict[str, set[str]]


def random_machine(rng: Random, events: list[str], most_states: int) -> hk.RewardMachine:
    names = [f"u{i}" for i in range(rng.randint(2, most_states))]
    density = rng.choice((0.4, 0.7))
    moves = {(name, event): rng.choice(names) for name in names for event in events if rng.random() < density}
    moves.setdefault((names[0], rng.choice(events)), names[1])
    final = [name for name in names[1:] if rng.random() < 0.3]
    return hk.RewardMachine(
        initial=names[0], transitions=moves, final=final, states=names, events=events, rewards=dict.fromkeys(moves, 0)
    )


def random_rewards(rng: Random, machine: hk.RewardMachine, parts: Mapping[str, hk.RewardMachine]) -> dict:
    """Draw rewards that are sums of local ones, such with one of them changed, or any."""
    kind = rng.choice(("local", "local", "damaged", "any"))
    if kind == "any":
        return {key: rng.choice(AMOUNTS[:4]) for key in machine.transitions}
    local = {(agent, *key): rng.choice(AMOUNTS) for agent, part in parts.items() for key in part.transitions}
    members = {agent: {u: name for name, us in part.members.items() for u in us} for agent, part in parts.items()}
    rewards = {
        (state, event): round(
            sum(local.get((agent, members[agent][state], event), 0.0) for agent in parts if state in members[agent]), 9
        )
        for state, event in machine.transitions
    }
    if kind == "damaged" and rewards:
        rewards[rng.choice(list(rewards))] += 1
    return rewards


def paid_team(seed: int, most_states: int = 3) -> PaidTeam:
    """Draw a team: the composition of local machines, or a machine that has nothing to do with who knows what."""
    rng = Random(seed)
    agents = [f"A{i}" for i in range(1, rng.randint(2, 4))]
    knows = {agent: {event for event in EVENTS if rng.random() < 0.5} | {rng.choice(EVENTS)} for agent in agents}
    events = sorted(set().union(*knows.values()))
    if rng.random() < 0.8:
        machine = hk.compose(*(random_machine(rng, sorted(known), most_states) for known in knows.values()))
    else:
        machine = random_machine(rng, events, 6)
    bare = hk.RewardMachine(
        initial=machine.initial,
        transitions=dict(machine.transitions),
        final=machine.final,
        states=machine.states,
        events=machine.events,
        rewards=dict.fromkeys(machine.transitions, 0),
    )
    parts = {agent: hk.project(bare, known) for agent, known in knows.items()}
    control = {event: {rng.choice([agent for agent in agents if event in knows[agent]])} for event in events}
    rewards = random_rewards(rng, bare, parts)
    paid = hk.RewardMachine(
        initial=bare.initial,
        transitions=dict(bare.transitions),
        final=bare.final,
        states=bare.states,
        events=bare.events,
        rewards=rewards,
    )
    return PaidTeam(paid, knows, control if rng.random() < 0.7 else {})


def exact(reward: float) -> Fraction:
    return Fraction(repr(reward))


def assert_rewards_add_up(machine: hk.RewardMachine, machines: Mapping[str, hk.RewardMachine]) -> None:
    """Follow the team machine and the local ones through everything that can be reached."""
    start = (machine.initial, *(part.initial for part in machines.values()))
    seen, queue = {start}, [start]
    for state, *local in queue:
        for event, target in machine.moves.get(state, {}).items():
            places = list(zip(machines.values(), local, strict=True))
            paid = [exact(part.rewards[at, event]) for part, at in places if event in part.events]
            total = float(sum(paid))
            assert total == pytest.approx(machine.rewards[state, event], abs=1e-9)
            if all(share.denominator < 10**15 for share in paid):  # else it is a third, or the like, of something
                assert sum(paid) == exact(machine.rewards[state, event])
            after = (target, *(part.step(at, event) if event in part.events else at for part, at in places))
            if after not in seen:
                seen.add(after)
                queue.append(after)


def assert_refutes(team: PaidTeam, example: hk.Counterexample) -> None:
    """Check a certificate by hand: local states cancel for all who know the event, and rewards do not."""
    assert machine_after(team.machine, example.trace) == example.state
    for known in team.knows.values():
        if example.event in known:
            block = oracle.equivalence(oracle.reachable(oracle.plain(team.machine)), known)
            counted: dict[object, int] = {}
            for term in example.terms:
                counted[block[term.state]] = counted.get(block[term.state], 0) + term.weight
            assert not any(counted.values())
    for term in example.terms:
        assert team.machine.rewards[term.state, example.event] == term.reward
    assert sum(term.weight * exact(term.reward) for term in example.terms) != 0


def machine_after(machine: hk.RewardMachine, trace: tuple[str, ...]) -> str | None:
    return machine.run(trace, undefined="blocking").state


@pytest.mark.parametrize("seed", search(250))
def test_rewards_are_shared_out_exactly_where_linear_algebra_says_that_they_can_be(seed):
    team = paid_team(seed)
    split = hk.decompose(team.machine, team.knows, team.control)
    plain = oracle.plain(team.machine)
    is_structural = oracle.decomposable(plain, team.knows)
    if team.machine.has_completion_rewards:
        assert (split.counterexample is None) == is_structural
        return
    assert (split.counterexample is None) == (is_structural and oracle.shareable(plain, team.knows))
    if split.counterexample is None:
        assert_rewards_add_up(team.machine, split.machines)
    else:
        assert (split.counterexample.kind == "reward") == is_structural
        if split.counterexample.kind == "reward":
            assert_refutes(team, split.counterexample)


@pytest.mark.parametrize("seed", search(25))
def test_repair_adds_the_cheapest_events_that_let_rewards_be_shared_out(seed):
    rng = Random(seed)
    events = ["a", "b", "e"]
    machine = random_machine(rng, events, 4)
    rewards = {key: rng.choice((0, 0, 1, 3)) for key in machine.transitions}
    paid = hk.RewardMachine(initial="u0", transitions=dict(machine.transitions), events=events, rewards=rewards)
    knows = {"A1": {"a", "e"}, "A2": {"b", "e"}}
    added = hk.repair(paid, knows)
    grown = {agent: known | set(added.get(agent, ())) for agent, known in knows.items()}
    assert hk.decompose(paid, grown).ok
    assert added.exact and added.cost == oracle.minimum_repair(oracle.plain(paid), knows)


@pytest.mark.parametrize("seed", search(40))
def test_more_events_keep_rewards_that_can_be_shared_out_so(seed):
    rng, team = Random(seed), paid_team(seed)
    if hk.decompose(team.machine, team.knows, team.control).ok:
        for agent in team.knows:
            team.knows[agent].add(rng.choice(list(team.machine.events)))
        assert hk.decompose(team.machine, team.knows, team.control).ok


# Who is paid.


def chain_of(events: str, reward: float = 1.0) -> hk.RewardMachine:
    """A machine of one event after the other, of which the last earns a reward."""
    moves = {(str(place), event): str(place + 1) for place, event in enumerate(events)}
    last = (str(len(events) - 1), events[-1])
    return hk.RewardMachine(initial="0", transitions=moves, final=[str(len(events))], rewards={last: reward})


def test_whoever_opens_the_way_to_a_reward_is_paid_by_the_one_who_gets_it():
    control = {"p": {"A"}, "f": {"B"}}
    split = hk.decompose(chain_of("pf", 3), {"A": {"p"}, "B": {"p", "f"}}, control)
    assert split.machines["A"].rewards == {("0", "p"): 1.5}
    assert list(split.machines["B"].rewards.values()) == [-1.5, 3.0]


def test_everyone_in_a_chain_gets_the_same():
    control = {event: {f"A{event}"} for event in "abcd"}
    split = hk.decompose(chain_of("abcd", 2), {f"A{event}": set("abcd") for event in "abcd"}, control)
    trace = tuple("abcd")
    assert [machine.run(trace, undefined="blocking").reward for machine in split.machines.values()] == [0.5] * 4


def test_agents_that_are_paid_pay_those_before_them():
    control = {"p": {"A"}, "q": {"B"}, "f": {"C"}}
    split = hk.decompose(chain_of("pqf", 3), {"A": {"p"}, "B": {"p", "q"}, "C": {"q", "f"}}, control)
    assert split.machines["A"].rewards[split.machines["A"].initial, "p"] > 0
    totals = {agent: sum(machine.rewards.values()) for agent, machine in split.machines.items()}
    assert all(total > 0 for total in totals.values()) and sum(totals.values()) == 3


def test_a_reward_for_meeting_is_split_among_all_who_meet_and_adds_up_to_the_last_digit():
    meeting = hk.RewardMachine(initial="0", transitions={("0", "m"): "1"}, final={"1"}, rewards={("0", "m"): 10})
    split = hk.decompose(meeting, {name: {"m"} for name in "ABC"})
    shares = [machine.rewards["0", "m"] for machine in split.machines.values()]
    assert shares == [3.333334, 3.333333, 3.333333]


def test_whoever_ruins_it_for_a_teammate_is_charged_and_undoing_earns_nothing():
    moves = {("0", "on"): "1", ("1", "off"): "0", ("1", "f"): "2", ("0", "ruin"): "3"}
    machine = hk.RewardMachine(initial="0", transitions=moves, rewards={("1", "f"): 1})
    control = {"on": {"A"}, "off": {"A"}, "ruin": {"A"}, "f": {"B"}}
    split = hk.decompose(machine, {"A": {"on", "off", "ruin", "f"}, "B": {"on", "off", "ruin", "f"}}, control)
    paid = {event: reward for (_, event), reward in split.machines["A"].rewards.items()}
    assert paid["on"] > 0 > paid["ruin"]
    assert paid["on"] + paid["off"] == 0
    assert paid["f"] == 0


def test_who_patrols_in_turn_is_paid_every_time():
    moves = {("0", "left"): "1", ("1", "right"): "0"}
    machine = hk.RewardMachine(initial="0", transitions=moves, rewards={("1", "right"): 1})
    knows = {"A": {"left", "right"}, "B": {"left", "right"}}
    split = hk.decompose(machine, knows, {"left": {"A"}, "right": {"B"}})
    assert split.ok
    assert [sum(machine.rewards.values()) for machine in split.machines.values()] == [0.5, 0.5]


def test_completion_machines_keep_the_local_rewards_of_the_paper():
    team = hk.RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
    split = hk.decompose(team, {"A": {"a"}, "B": {"a", "b"}}, {"a": {"A"}, "b": {"B"}})
    assert split.machines["A"].rewards == {("0", "a"): 1.0}


def test_a_tenth_and_two_tenths_are_three_tenths():
    moves = {("0", "a"): "1", ("0", "b"): "2", ("1", "b"): "3", ("2", "a"): "3"}
    moves |= {(state, "e"): state for state in "0123"}
    machine = hk.RewardMachine(
        initial="0", transitions=moves, rewards={("1", "e"): 0.1, ("2", "e"): 0.2, ("3", "e"): 0.3}
    )
    assert hk.decompose(machine, {"A": {"a", "e"}, "B": {"b", "e"}}).ok


def test_composed_rewards_are_added_as_decimals():
    parts = [
        hk.RewardMachine(initial="0", transitions={("0", "e"): "0"}, rewards={("0", "e"): reward})
        for reward in (0.1, 0.2)
    ]
    assert hk.compose(*parts).rewards == {("0|0", "e"): 0.3}


# Words.


def test_rewards_that_nobody_can_tell_apart_are_a_counterexample_in_words():
    moves = {("u", "a"): "v", ("u", "e"): "u", ("v", "e"): "v"}
    machine = hk.RewardMachine(initial="u", transitions=moves, rewards={("u", "e"): 3, ("v", "e"): 1})
    split = hk.decompose(machine, {"A": {"a"}, "B": {"e"}})
    assert split.counterexample.kind == "reward"
    assert split.explain().splitlines() == [
        "Not decomposable.",
        "Counterexample (reward): after the empty trace, e is worth 3 in state u, but 1 in state v, and no agent that "
        "knows e can tell u from v.",
        "The projection of B merges u and v, in both of which e can happen; to separate them, its local event set "
        "needs a.",
    ]
    assert hk.repair(machine, {"A": {"a"}, "B": {"e"}}) in ({"A": {"e"}}, {"B": {"a"}})


def test_rewards_that_depend_on_two_agents_together_are_a_counterexample_in_words():
    moves = {("0", "a"): "1", ("0", "b"): "2", ("1", "b"): "3", ("2", "a"): "3"}
    moves |= {(state, "e"): state for state in "0123"}
    machine = hk.RewardMachine(initial="0", transitions=moves, rewards={("3", "e"): 1})
    split = hk.decompose(machine, {"A": {"a", "e"}, "B": {"b", "e"}})
    assert split.explain().splitlines()[1] == (
        "Counterexample (reward): after the empty trace, whatever the agents that know e are paid, they get as much "
        "for it in 0 and 3 together as in 1 and 2, but the team machine pays 1 and 0."
    )


# Teams that are given as parts.


def test_a_team_of_parts_has_their_rewards_penalties_and_dead_ends_included():
    tree = hk.RewardMachine(
        initial="bare",
        transitions={("bare", "trim"): "trimmed", ("trimmed", "drop"): "broken", ("trimmed", "light"): "lit"},
        final={"lit"},
        rewards={("trimmed", "drop"): -5, ("trimmed", "light"): 10},
    )
    door = hk.RewardMachine(initial="shut", transitions={("shut", "light"): "open"}, final={"open"})
    team = hk.Composition({"A": tree, "B": door})
    split = hk.decompose(team, {"A": tree.events, "B": door.events})
    assert split.ok and split.machines["A"].rewards == tree.rewards


def test_many_agents_with_many_rewards_are_shared_out():
    team, knows = rendezvous(6), rendezvous_knows(6)
    rng = Random(0)
    rewards = dict.fromkeys(team.transitions, 0.0)
    for known in knows.values():
        part = hk.project(team, known)
        local = {key: rng.randint(-20, 20) / 10 for key in part.transitions}
        state_of = {member: state for state, members in part.members.items() for member in members}
        for state, event in rewards:
            rewards[state, event] = round(rewards[state, event] + local.get((state_of[state], event), 0.0), 9)
    paid = hk.RewardMachine(initial=team.initial, transitions=dict(team.transitions), final=team.final, rewards=rewards)
    split = hk.decompose(paid, knows)
    assert split.ok
    assert_rewards_add_up(paid, split.machines)


# Tasks.


def test_a_team_with_rewards_of_its_own_is_checked_and_trained():
    task = hk.load_task("rendezvous-2")
    parts = dict(task.machine.parts) if isinstance(task.machine, hk.Composition) else task.machines
    team = hk.compose(*parts.values())
    met = {(state, event): 7.0 for state, event in team.transitions if event == "r"}
    paid = hk.RewardMachine(
        initial=team.initial, transitions=dict(team.transitions), final=team.final, rewards=met, events=team.events
    )
    rewarded = replace(task, machine=paid)
    verdict = hk.check_task(rewarded)
    assert verdict.ok and verdict.as_json()["team"]["return"] == 7
    assert "along every trace, the local rewards add up to the team's" in str(verdict)
    (run,) = hk.train(rewarded, seeds=1, steps=3_000)
    assert run.tests("greedy").returns[-1] == 7
