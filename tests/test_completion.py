"""Whether tasks can be completed: dead ends of compositions against whole products, and what is said of them."""

from collections import deque
from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import hocket as hk
from hocket.graphs import can_reach, components, make_graph
from hocket.machine import completion
from hocket.machine.completion import Blocked, Free, find_blocked, find_completion, find_leaving, leavable
from searches import search
from strategies import completion_machines, rendezvous_parts, task_machines

LEFT_FIRST = hk.RewardMachine(initial="0", transitions={("0", "left"): "1", ("1", "meet"): "2"}, final={"2"})
MEET_FIRST = hk.RewardMachine(initial="0", transitions={("0", "meet"): "1", ("1", "left"): "2"}, final={"2"})


def random_part(rng: Random, index: int) -> hk.RewardMachine:
    """Draw a part with events of its own and of others, perhaps with cycles and final states that can be left."""
    size = rng.randint(1, 4)
    names = [f"s{i}" for i in range(size)]
    events = [f"own{index}", f"own{index}'", *rng.sample(["x", "y", "z"], rng.randint(0, 3))]
    may_go_back, may_leave = rng.random() < 0.5, rng.random() < 0.2
    final = rng.sample(names, rng.randint(0, 1)) + names[-1:]
    transitions = {}
    for place, name in enumerate(names):
        for event in events:
            onward = names if may_go_back else names[place + 1 :]
            if onward and rng.random() < 0.5 and (may_leave or name not in final):
                transitions[name, event] = rng.choice(onward)
    rewards = {key: float(end in final and key[0] not in final) for key, end in transitions.items()}
    given = {"rewards": rewards} if may_leave else {}
    return hk.RewardMachine(
        initial="s0", transitions=transitions, final=set(final), states=names, events=events, **given
    )


def random_composition(seed: int) -> hk.Composition:
    """Draw one to four parts."""
    rng = Random(seed)
    return hk.Composition({f"A{i}": random_part(rng, i) for i in range(rng.randint(1, 4))})


compositions = st.builds(random_composition, st.integers(0, 2**32 - 1))


def whole_product(team: hk.Composition) -> tuple[dict, set]:
    """Walk through all joint states: the distance of each, and the pairs of a state and one that follows it."""
    distance, pairs, queue = {team.initial: 0}, set(), deque([team.initial])
    while queue:
        state = queue.popleft()
        for event in team.events:
            after = list(state)
            for index, part in enumerate(team.parts.values()):
                if event in part.events:
                    after[index] = part.transitions.get((state[index], event))
            if None in after:
                continue
            pairs.add((state, tuple(after)))
            if tuple(after) not in distance:
                distance[tuple(after)] = distance[state] + 1
                queue.append(tuple(after))
    return distance, pairs


def completable(team: hk.Composition, distance: dict, pairs: set) -> set:
    """Collect the joint states from which a final one is reached, by going back until nothing is new."""
    found = {s for s in distance if all(o in p.final for o, p in zip(s, team.parts.values(), strict=True))}
    while new := {before for before, after in pairs if after in found} - found:
        found |= new
    return found


def can_all_complete_alone(team: hk.Composition, state: tuple[str, ...]) -> bool:
    """Say whether every part, from its state on and alone, could still be completed."""
    places = zip(team.parts.values(), state, strict=True)
    return all(reaches_final(part, local) for part, local in places)


def reaches_final(part: hk.RewardMachine, state: str) -> bool:
    seen, queue = {state}, [state]
    for place in queue:
        new = set(part.moves.get(place, {}).values()) - seen
        seen |= new
        queue += new
    return bool(seen & set(part.final))


@given(compositions)
def test_dead_ends_of_compositions_are_those_of_the_whole_product(team):
    distance, pairs = whole_product(team)
    hopeful = completable(team, distance, pairs)
    dead = set(distance) - hopeful
    stuck = dead - {before for before, _ in pairs}
    found = find_completion(team)
    assert found.decided
    assert found.completes == (team.initial in hopeful)
    assert (found.dead_end is None) == (not dead)
    blocked = {state for state in dead if can_all_complete_alone(team, state)}
    assert bool(found.problems) == bool(blocked or team.initial in dead)
    assert bool(found.warnings) == (bool(dead) and not found.problems)
    if found.dead_end is not None:
        state = team.initial
        for event in found.dead_end.trace:
            state = team.step(state, event)
        assert state == found.dead_end.state
        assert found.dead_end.is_stuck == (state in stuck)
        if team.is_independent:  # of parts that cannot block each other, one has a dead end of its own
            assert state in dead
            return
        assert found.dead_end.is_blocked == (state in blocked)
        dead = blocked or dead  # parts that block each other come first
        assert state in (stuck & dead or dead)
        assert found.dead_end.is_stuck == bool(stuck & dead)
        assert len(found.dead_end.trace) == min(distance[nearest] for nearest in (stuck & dead or dead))


@given(compositions)
def test_the_reduced_search_answers_as_the_whole_product_does(team):
    distance, pairs = whole_product(team)
    dead = set(distance) - completable(team, distance, pairs)
    found = find_blocked(team, 10_000)
    if found is None:
        return
    assert isinstance(found, Blocked if dead else Free)
    if isinstance(found, Blocked):
        state, events = team.initial, tuple(team.events)
        for label in found.labels:
            state = team.step(state, events[label])
        assert state == tuple(
            tuple(part.states)[own] for part, own in zip(team.parts.values(), found.state, strict=True)
        )
        assert state in dead
        assert found.is_stuck == (not any(before == state for before, _ in pairs))


def test_the_random_compositions_are_of_all_kinds():
    kinds = set()
    for seed in search(100):
        team = random_composition(seed)
        dead = find_completion(team).dead_end
        kinds.add((type(find_blocked(team, 10_000)).__name__, dead is not None and dead.is_stuck, dead is None))
    assert {("Free", False, True), ("Blocked", True, False), ("Blocked", False, False)} <= kinds
    assert {("NoneType", False, True), ("NoneType", True, False), ("NoneType", False, False)} <= kinds


@given(task_machines() | completion_machines())
def test_a_team_machine_is_examined_as_a_composition_of_one_part(machine):
    alone, team = find_completion(machine), find_completion(hk.Composition({"A1": machine}))
    assert alone.completes == team.completes
    assert (alone.dead_end is None) == (team.dead_end is None)
    if alone.dead_end is not None:
        assert len(alone.dead_end.trace) == len(team.dead_end.trace)
        assert alone.dead_end.is_stuck == team.dead_end.is_stuck
    assert len(alone.problems) == (not alone.completes)
    assert len(alone.warnings) == (alone.completes and alone.dead_end is not None)


def test_parts_that_want_events_in_different_orders_block_each_other():
    called = hk.RewardMachine(
        initial="0", transitions={("0", "call"): "1", ("1", "left"): "2", ("2", "meet"): "3"}, final={"3"}
    )
    found = find_completion(hk.Composition({"Ann": called, "Ben": MEET_FIRST}))
    assert found.completes is False
    assert found.dead_end == completion.DeadEnd(("call",), ("1", "0"), is_stuck=True, is_blocked=True)
    assert found.problems[1] == (
        "After the trace call, the parts block each other: Ann waits for left (Ben does not propose it), "
        "Ben waits for meet (Ann does not propose it)."
    )


def test_parts_that_go_round_for_ever_are_a_dead_end_in_which_events_still_happen():
    restless = hk.RewardMachine(
        initial="0",
        transitions={("0", "come"): "1", ("1", "go"): "0", ("1", "left"): "2", ("2", "meet"): "3"},
        final={"3"},
    )
    found = find_completion(hk.Composition({"Ann": restless, "Ben": MEET_FIRST}))
    assert found.dead_end == completion.DeadEnd((), ("0", "0"), is_stuck=False, is_blocked=True)
    assert found.problems[1] == (
        "After the empty trace, events can still happen, but the task never completes: "
        "Ann waits for left (Ben does not propose it), Ben waits for meet (Ann does not propose it)."
    )


def test_hundreds_of_agents_that_meet_are_decided_and_so_are_those_of_which_one_never_comes():
    parts = {f"A{i}": part for i, part in enumerate(rendezvous_parts(200))}
    assert find_completion(hk.Composition(parts)) == completion.Completion(hk.Composition(parts), True, None)
    meeting = next(iter(set.intersection(*(set(part.events) for part in parts.values()))))
    absent = hk.RewardMachine(initial="0", transitions={("0", "sleep"): "1"}, final={"1"}, events=["sleep", meeting])
    team = hk.Composition(parts | {"late": absent})
    found = find_completion(team)
    assert found.decided
    state = team.initial
    for event in found.dead_end.trace:
        state = team.step(state, event)
    assert state == found.dead_end.state
    assert f"A0 waits for {meeting} (late does not propose it)" in found.problems[0]


@pytest.mark.parametrize("agents", [20, 200, 2_000])
def test_what_happens_in_one_way_takes_a_few_looks_at_each_part(agents):
    team = hk.Composition({f"A{i}": part for i, part in enumerate(rendezvous_parts(agents))})
    assert find_blocked(team, 20 * agents) == Free()
    assert find_blocked(team, 2 * agents) is None


@given(compositions)
def test_joint_states_are_listed_as_single_steps_lead_to_them(team):
    (states, listed), machine = team.reachable(10_000), team.machine()
    parts = team.parts.values()
    joint = [tuple(part.states.at(s) for part, s in zip(parts, row, strict=True)) for row in states.tolist()]
    assert [team.names[state] for state in joint] == list(machine.states)
    assert all(map(np.array_equal, listed.graph, machine.graph))
    assert [*listed.states] == [*machine.states]
    assert listed.is_final.tolist() == machine.is_final.tolist() == list(map(team.is_final, joint))
    ends = {(s, e): t for s, e, t in zip(*(part.tolist() for part in machine.graph[1:]), strict=True)}
    for number, state in enumerate(joint):
        for label, event in enumerate(team.events):
            end = ends.get((number, label))
            assert team.step(state, event) == (None if end is None else joint[end])


def test_joint_states_have_distinct_names_whatever_the_parts_call_theirs():
    left = hk.RewardMachine(initial="a|b", transitions={("a|b", "x"): "a"}, final={"a"})
    right = hk.RewardMachine(initial="c", transitions={("c", "y"): "b|c"}, final={"b|c"})
    team = hk.Composition({"left": left, "right": right})
    _, listed = team.reachable(10)
    assert [*listed.states] == [*team.machine().states] == ["a|b|c", "a|c", "a|b|b|c", "a|b|c′"]
    assert listed.run(["x", "y"], undefined="blocking").state == "a|b|c′"


def test_many_parts_that_go_round_are_given_up_soon():
    """The effort is bounded whatever the number of parts, as the number of a joint state grows with it."""
    loop = {("0", "a"): "1", ("1", "x"): "0", ("1", "b"): "2"}
    team = hk.Composition({
        f"A{i}": hk.RewardMachine(
            initial="0", transitions={(s, e if e == "x" else e + str(i)): t for (s, e), t in loop.items()}, final={"2"}
        )
        for i in range(2_000)
    })  # fmt: skip
    assert completion._most_states(team) < 100
    assert not find_completion(team).decided


def test_what_is_too_large_is_said_to_be_undecided(monkeypatch):
    monkeypatch.setattr(completion, "LARGEST_SEARCH", 3)
    loop = {("0", "a"): "1", ("1", "x"): "0", ("1", "b"): "2"}
    team = hk.Composition({
        f"A{i}": hk.RewardMachine(
            initial="0", transitions={(s, e if e == "x" else e + str(i)): t for (s, e), t in loop.items()}, final={"2"}
        )
        for i in range(4)
    })  # fmt: skip
    found = find_completion(team)
    assert (found.completes, found.dead_end, found.decided, found.problems) == (None, None, False, ())
    assert found.warnings == (
        "Whether the parts can block each other was not decided: "
        "there are more joint states than are searched (at most 3).",
    )


def test_a_machine_with_rewards_of_its_own_and_no_final_state_is_not_a_task_to_complete():
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "0"}, rewards={("0", "a"): 1.0})
    for team in (machine, hk.Composition({"A1": machine})):
        found = find_completion(team)
        assert (found.problems, found.warnings) == ((), ())


def test_a_machine_without_final_states_or_rewards_is_a_task_that_nothing_completes():
    machine = hk.RewardMachine(initial="0", transitions={("0", "a"): "0"})
    assert find_completion(machine).problems == (
        "No trace completes the task: no final state of the team machine is reachable.",
    )


def test_a_state_that_cannot_complete_is_named_with_a_shortest_trace():
    moves = {("0", "a"): "1", ("1", "b"): "2", ("0", "c"): "3", ("3", "a"): "4", ("1", "c"): "4"}
    machine = hk.RewardMachine(initial="0", transitions=moves, final={"2"})
    assert find_completion(machine).warnings == (
        "After the trace a, c, the task can no longer be completed: the team machine is in 4.",
    )


# Local machines.


@given(completion_machines())
def test_final_states_that_can_be_left_are_those_before_one_that_is_not_final(machine):
    can_leave = set()
    for state in machine.final:
        seen, queue = {state}, [state]
        for here in queue:
            after = {end for (start, _), end in machine.transitions.items() if start == here} - seen
            seen |= after
            queue += after
        if seen - set(machine.final):
            can_leave.add(state)
    names = tuple(machine.states)
    assert {names[own] for own in np.flatnonzero(leavable(machine))} == can_leave
    found = find_leaving(machine)
    reached = set(machine.states) - set(machine.unreachable)
    assert (found is not None) == bool(can_leave & reached)
    if found is not None:
        trace, event = found
        assert machine.run(trace, undefined="blocking").completed
        assert not machine.run((*trace, event), undefined="blocking").completed


# Graphs.


@given(st.integers(0, 2**32 - 1))
def test_components_and_reach_are_those_of_the_transitive_closure(seed):
    rng = Random(seed)
    size = rng.randint(1, 9)
    links = [[end for end in range(size) if rng.random() < 0.25] for _ in range(size)]
    closure = np.eye(size, dtype=bool)
    for start, ends in enumerate(links):
        closure[start, ends] = True
    for middle in range(size):
        closure |= closure[:, [middle]] & closure[[middle]]
    found = np.array(components(links))
    assert np.array_equal(found[:, None] == found[None], closure & closure.T)
    edges = np.array([(start, end) for start, ends in enumerate(links) for end in ends], np.int32).reshape(-1, 2)
    graph, _ = make_graph(size, edges[:, 0], edges[:, 1], edges[:, 1])
    goals = np.array([rng.random() < 0.3 for _ in range(size)])
    assert np.array_equal(can_reach(graph, goals), (closure & goals).any(axis=1))


@pytest.mark.parametrize("nodes", [3_000])
def test_components_of_a_long_way_need_no_recursion(nodes):
    links = [[node + 1] for node in range(nodes - 1)] + [[0]]
    assert set(components(links)) == {0}
