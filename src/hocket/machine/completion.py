"""Whether a task can be completed, after which trace it no longer can, and which agents then wait for which events."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, product
from math import prod
from typing import NamedTuple

import numpy as np

from hocket.graphs import Flags, can_reach, components, distances_from, path_to, search_tree
from hocket.machine.composition import Composition, Parts, Team
from hocket.machine.counterexample import name_trace
from hocket.machine.reward_machine import RewardMachine

LARGEST_SEARCH = 200_000  # joint states of a composition up to which all are searched
MOST_EFFORT = 10_000_000  # joint states times the work of expanding one
MOST_LISTED = 4_000_000  # likewise, if all of them and their transitions are listed: a quarter of a gigabyte
MANY_PARTS = 64  # so many that arithmetic on the numbers of joint states takes as long as the rest of the search
SHOWN_AGENTS = 6
MOST_BRANCHES = 1_000  # joint components to which one event may lead

Move = tuple[int, int]  # of a part: from a state to a state


@dataclass(frozen=True)
class DeadEnd:
    """A state that is not final and from which no trace completes."""

    trace: tuple[str, ...]  # that leads to it
    state: tuple[str, ...]  # of each part; of the team machine alone where it has no parts
    is_stuck: bool  # nothing can happen any more
    is_blocked: bool = False  # parts block each other: every part by itself could still be completed


@dataclass(frozen=True)
class Completion:
    """Whether a task can be completed, and a dead end."""

    machine: RewardMachine | Composition
    completes: bool | None  # whether some trace completes it; None: not decided
    dead_end: DeadEnd | None  # a nearest one; if there are any in which nothing can happen any more, one of those
    decided: bool = True  # whether the search for dead ends was exhaustive

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each: a task that no trace completes, parts that block each other."""
        sentences = []
        if self.completes is False:
            sentences.append("No trace completes the task: no final state of the team machine is reachable.")
        if isinstance(self.machine, Composition) and self.dead_end is not None and self.dead_end.is_blocked:
            sentences.append(_describe_blocking(self.machine, self.dead_end))
        return tuple(sentences)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is legal and may be a mistake, one sentence each."""
        if not self.decided:
            size = f"there are more joint states than are searched (at most {LARGEST_SEARCH:,})"
            return (f"Whether the parts can block each other was not decided: {size}.",)
        if self.dead_end is None or not self.completes or self.problems:
            return ()
        after = f"After {name_trace(self.dead_end.trace)}, the task can no longer be completed"
        parts = self.machine.parts if isinstance(self.machine, Composition) else ("the team machine",)
        where = [f"{part} is in {state}" for part, state in zip(parts, self.dead_end.state, strict=True)]
        return (f"{after}: {_shortened(where)}.",)


def find_completion(machine: RewardMachine | Composition) -> Completion:
    """Find out whether a task can be completed, and a shortest trace after which it no longer can.

    A machine with general rewards and without final states is not a task to be completed, so nothing is decided.

    >>> one = RewardMachine(initial="0", transitions={("0", "left"): "1", ("1", "meet"): "2"}, final={"2"})
    >>> other = RewardMachine(initial="0", transitions={("0", "meet"): "1", ("1", "left"): "2"}, final={"2"})
    >>> print(*find_completion(Composition({"A1": one, "A2": other})).problems, sep="\\n")
    No trace completes the task: no final state of the team machine is reachable.
    After the empty trace, the parts block each other: A1 waits for left (A2 does not propose it), A2 waits for meet \
(A1 does not propose it).
    """
    parts = machine.parts.values() if isinstance(machine, Composition) else (machine,)
    if not machine.has_completion_rewards and any(not part.is_final.any() for part in parts):
        return Completion(machine, None, None)
    if isinstance(machine, Composition):
        return _of_independent_parts(machine) if machine.is_independent else _of_composition(machine)
    completes, state = _search(machine)
    if state is None:
        return Completion(machine, completes, None)
    end = DeadEnd(machine.trace_to(state), (machine.states.at(state),), bool(machine.graph.is_sink[state]))
    return Completion(machine, completes, end)


def _search(machine: RewardMachine, preferred: Flags | None = None) -> tuple[bool, int | None]:
    """Say whether a final state is reachable, and find a nearest dead end: first among the preferred states, and among
    states that are never left."""
    order = machine.reach.order
    can_complete = can_reach(machine.graph, machine.is_final)
    dead = order[~can_complete[order]]
    if preferred is not None and preferred[dead].any():
        dead = dead[preferred[dead]]
    stuck = dead[machine.graph.is_sink[dead]]
    nearest = [*stuck[:1].tolist(), *dead[:1].tolist()]
    return bool(can_complete[machine.start]), nearest[0] if nearest else None


# Compositions.


def _of_independent_parts(team: Composition) -> Completion:
    """Find the nearest dead end of a part: parts without a common event cannot block each other."""
    ends = {name: end for name, part in team.parts.items() if (end := find_completion(part).dead_end) is not None}
    if not ends:
        return Completion(team, True, None)
    name, end = min(ends.items(), key=lambda item: len(item[1].trace))
    state = tuple(end.state[0] if other == name else part.initial for other, part in team.parts.items())
    others = (part for other, part in team.parts.items() if other != name)
    is_stuck = end.is_stuck and all(part.graph.is_sink[part.start] for part in others)
    return Completion(team, True, DeadEnd(end.trace, state, is_stuck))


def _of_composition(team: Composition) -> Completion:
    """Search a reduced set of joint states for any dead end, then all joint states for the nearest one."""
    reduced = find_blocked(team, MOST_EFFORT)
    if isinstance(reduced, Free):
        return Completion(team, True, None)
    reachable = team.reachable(_most_states(team))
    if reachable is None:
        if reduced is None:
            return Completion(team, None, None, decided=False)
        trace = tuple(map(team.events.at, reduced.labels))
        return Completion(team, None, _dead_end(team, reduced.state, trace, reduced.is_stuck))
    states, machine = reachable
    columns = zip(team.parts.values(), states.T, strict=True)
    parts_can_complete = [can_reach(part.graph, part.is_final)[column] for part, column in columns]
    completes, state = _search(machine, np.logical_and.reduce(parts_can_complete))
    if state is None:
        return Completion(team, completes, None)
    is_stuck = bool(machine.graph.is_sink[state])
    return Completion(team, completes, _dead_end(team, states[state].tolist(), machine.trace_to(state), is_stuck))


def _most_states(team: Composition) -> int:
    """Bound the number of joint states by the work of expanding one: its parts, and the events that they propose; the
    number of a joint state has a digit for each part, so that this takes longer if there are many."""
    parts = len(team.parts)
    proposed = sum(int(np.diff(part.graph.first).max(initial=0)) for part in team.parts.values())
    return max(1, min(LARGEST_SEARCH, MOST_LISTED // (parts + proposed * (1 + parts // MANY_PARTS))))


def _dead_end(team: Composition, state: Iterable[int], trace: tuple[str, ...], is_stuck: bool) -> DeadEnd:
    local = list(zip(team.parts.values(), state, strict=True))
    is_blocked = all(can_reach(part.graph, part.is_final)[state] for part, state in local)
    return DeadEnd(trace, tuple(part.states.at(state) for part, state in local), is_stuck, is_blocked)


def _describe_blocking(team: Composition, end: DeadEnd) -> str:
    """Say how the parts of a composition block each other."""
    state_of, names = dict(zip(team.parts, end.state, strict=True)), tuple(team.parts)
    owners = {event: [names[index] for index in indices] for event, indices in team.owners.items()}
    shared = {event for event, agents in owners.items() if len(agents) > 1}
    proposed = {agent: _proposed(part, state_of[agent], shared) for agent, part in team.parts.items()}
    waiting = [agent for agent, part in team.parts.items() if state_of[agent] not in part.final]
    sentences = []
    for agent in waiting[:SHOWN_AGENTS]:
        awaited = []  # events, with the agents that do not propose them
        for event in team.parts[agent].events:
            others = [name for name in owners[event] if event not in proposed[name]]
            if event in proposed[agent] and others:
                awaited.append(f"{event} ({_shortened(others)} {'does' if len(others) == 1 else 'do'} not propose it)")
        why = f"waits for {' or '.join(awaited[:SHOWN_AGENTS])}"
        sentences.append(f"{agent} {why if awaited else f'is in {state_of[agent]}, which is not final'}")
    blocked = "the parts block each other" if end.is_stuck else "events can still happen, but the task never completes"
    return f"After {name_trace(end.trace)}, {blocked}: {_shortened([*sentences, *waiting[SHOWN_AGENTS:]])}."


def _proposed(part: RewardMachine, state: str, shared: Collection[str]) -> set[str]:
    """List the shared events that a part proposes in a state, or in one that it can reach without the others."""

    def moves_alone(state: str) -> Iterator[str]:
        return (target for event, target in part.moves.get(state, {}).items() if event not in shared)

    states = distances_from([state], moves_alone)
    return {event for state in states for event in part.moves.get(state, ()) if event in shared}


def _shortened(words: list[str]) -> str:
    more = len(words) - SHOWN_AGENTS
    return ", ".join(words) if more <= 0 else f"{', '.join(words[:SHOWN_AGENTS])}, … ({more:,} more)"


# Whether the parts of a composition can block each other, by a search of few of its joint states.
#
# Two reductions keep the search small. States between which a part can go back and forth by events of its own are one
# component: a part that is in it can be in any of its states, whatever the others do. And parts that are independent of
# each other for now are not interleaved: if all events that a group of parts proposes are known to this group alone,
# nothing that other parts do in the meantime can enable or prevent them (a persistent set), so that the other parts can
# act later. Both reductions keep all joint components in which nothing can happen any more. If no part can return to a
# component that it has left, every trace ends in one of these; so there is no dead end iff all of them are final.


class Free(NamedTuple):
    """No dead end: every trace can be completed."""


class Blocked(NamedTuple):
    """A dead end, and a trace to it."""

    labels: list[int]  # events of the composition
    state: list[int]  # of each part
    is_stuck: bool


class _CollapsedPart(NamedTuple):
    """A part with its components: sets of states between which it can go back and forth alone."""

    machine: RewardMachine
    component: list[int]  # [states]
    is_final: list[bool]  # [components] whether one of its states is final
    moves: list[dict[int, list[Move]]]  # of each component: event -> moves, one to each component
    alone: list[dict[int, int]]  # of each state: event that no other part has -> next state

    def path_alone(self, start: int, goal: int) -> list[int]:
        """Find a shortest sequence of events by which the part gets from state to state of a component."""
        return path_to(search_tree(start, lambda state: self.alone[state].items(), goal), goal)


class _Step(NamedTuple):
    event: int
    moves: dict[int, Move]  # of each part that has the event


class _JointNode(NamedTuple):
    """A node of the search, and the steps that led to it."""

    joint: list[int]  # the component of each part
    active: dict[int, None]  # parts that may still be able to do something
    steps: list[_Step]  # since the node before
    before: _JointNode | None


class _ExhaustedError(Exception):
    """The search has used up its effort."""


def find_blocked(team: Composition, effort: int) -> Free | Blocked | None:
    """Find a dead end or prove that there is none; None if a part has cycles, or if it takes more than `effort`, whose
    unit is to look at a part once. Events that can happen in only one way make no branches or nodes."""
    owners = list(team.owners.values())
    parts = [_collapse(machine, team, owners) for machine in team.parts.values()]
    if any(_is_cyclic(part) for part in parts):
        return None
    search = _DeadEndSearch(parts, owners, effort)
    start = [part.component[part.machine.start] for part in parts]
    nodes = [_JointNode(start, dict.fromkeys(range(len(parts))), [], None)]
    seen: set[tuple[int, ...]] = set()
    try:
        while nodes:
            node = nodes.pop()
            events = search.run(node)
            if events is None:
                search.run_out(node)
                return _describe(parts, node)
            if (joint := tuple(node.joint)) not in seen:
                seen.add(joint)
                nodes += [search.branch(node, step) for event in events for step in search.steps(joint, event)]
    except _ExhaustedError:
        return None
    return Free()


class _DeadEndSearch:
    """Takes steps, and counts its effort."""

    def __init__(self, parts: Sequence[_CollapsedPart], owners: Sequence[Sequence[int]], effort: int) -> None:
        self.parts, self.owners, self.remaining = parts, owners, effort

    def spend(self, effort: int) -> None:
        self.remaining -= effort
        if self.remaining < 0:
            raise _ExhaustedError

    def run(self, node: _JointNode) -> list[int] | None:
        """Take the steps to which there is no alternative; list the events to branch by, or None in a dead end: where
        parts that are not final can do nothing, as they never will again."""
        branching: list[list[int]] = []
        undecided: dict[int, None] = {}  # parts of groups with several steps, which no other part can disturb
        while node.active:
            part, _ = node.active.popitem()
            group, events = self.group(node.joint, part)
            if len(events) == 1 and len(steps := self.steps(node.joint, events[0])) == 1:
                self.take(node, steps[0])
                node.active[part] = None
                continue
            if not events and not all(self.parts[other].is_final[node.joint[other]] for other in group):
                return None
            for other in group:
                node.active.pop(other, None)
            if events:
                branching.append(events)
                undecided.update(dict.fromkeys(group))
        node.active.update(undecided)
        return min(branching, key=len, default=[])

    def run_out(self, node: _JointNode) -> None:
        """Take any steps until nothing can happen any more; as no part has cycles, this is little work."""
        self.remaining = sys.maxsize
        node.active.update(dict.fromkeys(range(len(self.parts))))
        while node.active:
            part, _ = node.active.popitem()
            for event in self.parts[part].moves[node.joint[part]]:
                if self.is_enabled(node.joint, event):
                    moves = {other: self.parts[other].moves[node.joint[other]][event] for other in self.owners[event]}
                    self.take(node, _Step(event, {other: first for other, (first, *_) in moves.items()}))
                    break

    def group(self, joint: Sequence[int], part: int) -> tuple[list[int], list[int]]:
        """List the parts that have events which a part proposes, or which these parts propose in turn; also list those
        of the events that can happen."""
        members, group = {part}, [part]
        proposed: dict[int, None] = {}
        for other in group:  # grows while it is read
            moves = self.parts[other].moves[joint[other]]
            self.spend(1 + len(moves))
            for event in moves:
                if event not in proposed:
                    proposed[event] = None
                    fresh = [owner for owner in self.owners[event] if owner not in members]
                    self.spend(len(self.owners[event]))
                    members.update(fresh)
                    group += fresh
        return group, [event for event in proposed if self.is_enabled(joint, event)]

    def is_enabled(self, joint: Sequence[int], event: int) -> bool:
        """Say whether all parts that have an event propose it."""
        return all(event in self.parts[part].moves[joint[part]] for part in self.owners[event])

    def steps(self, joint: Sequence[int], event: int) -> list[_Step]:
        """List the steps by which an event can happen; if there are too many, the effort counts as used up."""
        owners = self.owners[event]
        moves = [self.parts[part].moves[joint[part]][event] for part in owners]
        if prod(map(len, moves)) > MOST_BRANCHES:
            raise _ExhaustedError
        return [_Step(event, dict(zip(owners, chosen, strict=True))) for chosen in product(*moves)]

    def take(self, node: _JointNode, step: _Step) -> None:
        for part, (_, end) in step.moves.items():
            node.joint[part] = self.parts[part].component[end]
            node.active[part] = None
        node.steps.append(step)
        self.spend(len(step.moves))

    def branch(self, node: _JointNode, step: _Step) -> _JointNode:
        """Take a step to a new node."""
        self.spend(len(node.joint))
        after = _JointNode(list(node.joint), dict(node.active), [], node)
        self.take(after, step)
        return after


def _collapse(machine: RewardMachine, team: Composition, owners: Sequence[Sequence[int]]) -> _CollapsedPart:
    """Find the components of a part, and the moves by which it leaves them or takes part in events of other parts."""
    number = [team.events.index(event) for event in machine.events]
    edges = [(start, number[event], end) for start, event, end in machine.graph.edges()]
    alone: list[dict[int, int]] = [{} for _ in machine.states]
    for start, event, end in edges:
        if len(owners[event]) == 1:
            alone[start][event] = end
    component = components([list(targets.values()) for targets in alone])
    count = max(component) + 1
    leaving: list[dict[int, dict[int, Move]]] = [{} for _ in range(count)]  # component -> event -> component -> move
    for start, event, end in edges:
        if component[start] != component[end] or len(owners[event]) > 1:
            leaving[component[start]].setdefault(event, {}).setdefault(component[end], (start, end))
    moves = [{event: list(by_component.values()) for event, by_component in events.items()} for events in leaving]
    final = {component[state] for state in np.flatnonzero(machine.is_final).tolist()}
    return _CollapsedPart(machine, component, [number in final for number in range(count)], moves, alone)


def _is_cyclic(part: _CollapsedPart) -> bool:
    """Say whether a part can return to a component that it has left."""
    successors = [[part.component[end] for ends in moves.values() for _, end in ends] for moves in part.moves]
    is_loop = any(number in ends for number, ends in enumerate(successors))
    return is_loop or len(set(components(successors))) < len(successors)


def _describe(parts: Sequence[_CollapsedPart], node: _JointNode) -> Blocked:
    """Write out the trace to a dead end, with the events of single parts in between."""
    runs: list[list[_Step]] = []
    last: _JointNode | None = node
    while last is not None:
        runs.append(last.steps)
        last = last.before
    state = [part.machine.start for part in parts]
    labels: list[int] = []
    for step in chain.from_iterable(reversed(runs)):
        for index, (start, end) in step.moves.items():
            labels += parts[index].path_alone(state[index], start)
            state[index] = end
        labels.append(step.event)
    return Blocked(labels, state, not any(part.alone[local] for part, local in zip(parts, state, strict=True)))


# Local machines.


def leavable(machine: RewardMachine) -> Flags:
    """Flag the final states from which some trace leads to a state that is not final."""
    return machine.is_final & can_reach(machine.graph, ~machine.is_final)


def find_leaving(machine: RewardMachine) -> tuple[tuple[str, ...], str] | None:
    """Find a shortest trace to a final state, and an event that leads from there to one that is not final."""
    graph, rank = machine.graph, machine.rank[machine.graph.source]
    leaving = np.flatnonzero(machine.is_final[graph.source] & ~machine.is_final[graph.target] & (rank >= 0))
    if len(leaving) == 0:
        return None
    edge = int(leaving[rank[leaving].argmin()])
    return machine.trace_to(int(graph.source[edge])), machine.events.at(int(graph.label[edge]))


def leaving_warnings(machines: Mapping[str, RewardMachine]) -> tuple[str, ...]:
    """Name the agents that can leave a final state of their local machines again, one sentence each."""
    sentences = []
    for agent, machine in machines.items():
        if (leaving := find_leaving(machine)) is not None:
            final = f"its local reward machine is final after {name_trace(leaving[0])}"
            sentences.append(f"{agent} can leave a final state again: {final}, but no longer after {leaving[1]}.")
    return tuple(sentences)


def completes_without(machine: RewardMachine, event: str) -> bool:
    """Say whether some trace without an event completes a machine.

    >>> machine = RewardMachine(initial="0", transitions={("0", "a"): "1", ("0", "b"): "1"}, final={"1"})
    >>> completes_without(machine, "a")
    True
    """

    def successors(state: str) -> Iterator[str]:
        return (target for name, target in machine.moves.get(state, {}).items() if name != event)

    return not machine.final.isdisjoint(distances_from([machine.initial], successors))


def find_idle(team: Team, machines: Parts, controls: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Find agents that can complete their local machines without events that they control and that the team needs.

    As such events bring them no reward, the team may wait for ever. Large teams are not examined.
    """
    whole = team if isinstance(team, Composition) else Composition({"team": team})
    parts = [*whole.parts.values()]
    if sum(len(part.graph.target) for part in parts) > LARGEST_SEARCH:
        return {}

    @cache  # as many agents may control an event
    def is_needed(event: str) -> bool:
        return any(not completes_without(parts[index], event) for index in whole.owners.get(event, ()))

    spare = {a: [event for event in controls[a] if completes_without(part, event)] for a, part in machines.items()}
    unrewarded = {agent: tuple(filter(is_needed, events)) for agent, events in spare.items()}
    return {agent: events for agent, events in unrewarded.items() if events}
