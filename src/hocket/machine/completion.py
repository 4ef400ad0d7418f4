"""Whether a task can be completed: by some trace, after which trace no longer, and who then waits for what."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, product
from math import prod
from typing import NamedTuple

import numpy as np

from hocket.graphs import Flags, Graph, can_reach, components, distances_from, path_to, search_tree
from hocket.machine.composition import Composition, Parts, Team
from hocket.machine.counterexample import name_trace
from hocket.machine.reward_machine import RewardMachine

LARGEST_SEARCH = 200_000  # joint states of a composition up to which all are searched
MOST_EFFORT = 10_000_000  # joint states times what it takes to go on from one
MOST_LISTED = 4_000_000  # likewise, where all of them and their transitions are listed: a quarter of a gigabyte
MANY_PARTS = 64  # whose digits take as long as all else
SHOWN_AGENTS = 6
MOST_BRANCHES = 1_000  # places to which one event may lead

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
    """What is known of how a task can end."""

    machine: RewardMachine | Composition
    completes: bool | None  # whether some trace completes; None: not decided
    dead_end: DeadEnd | None  # a nearest one, where nothing can happen any more if there is such a one
    decided: bool = True  # whether dead ends were searched for exhaustively

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each: parts that block each other, a task that nothing completes."""
        said = []
        if self.completes is False:
            said.append("No trace completes the task: no final state of the team machine is reachable.")
        if isinstance(self.machine, Composition) and self.dead_end is not None and self.dead_end.is_blocked:
            said.append(_blocking(self.machine, self.dead_end))
        return tuple(said)

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

    A machine without final states that has rewards of its own is not a task to be completed; nothing is said of it.

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
    completes, node = _search(machine)
    if node is None:
        return Completion(machine, completes, None)
    end = DeadEnd(machine.trace_to(node), (machine.states.at(node),), _is_sink(machine.graph, node))
    return Completion(machine, completes, end)


def _search(machine: RewardMachine, preferred: Flags | None = None) -> tuple[bool, int | None]:
    """Say whether a final state is reached, and find a nearest one from which none is; one that is never left comes
    first. If there are any among the preferred states, it is one of those.
    """
    graph, order = machine.graph, machine.reach.order
    hopeful = can_reach(graph, machine.is_final)
    dead = order[~hopeful[order]]
    if preferred is not None and preferred[dead].any():
        dead = dead[preferred[dead]]
    stuck = dead[graph.first[dead] == graph.first[dead + 1]]
    nearest = [*stuck[:1].tolist(), *dead[:1].tolist()]
    return bool(hopeful[machine.start]), nearest[0] if nearest else None


def _is_sink(graph: Graph, node: int) -> bool:
    return bool(graph.first[node] == graph.first[node + 1])


# Compositions.


def _of_independent_parts(team: Composition) -> Completion:
    """Look at each part alone, as parts without a common event cannot block each other; find the nearest dead end."""
    ends = {name: end for name, part in team.parts.items() if (end := find_completion(part).dead_end) is not None}
    if not ends:
        return Completion(team, True, None)
    name, end = min(ends.items(), key=lambda item: len(item[1].trace))
    state = tuple(end.state[0] if other == name else part.initial for other, part in team.parts.items())
    others = (part for other, part in team.parts.items() if other != name)
    is_stuck = end.is_stuck and all(_is_sink(part.graph, part.start) for part in others)
    return Completion(team, True, DeadEnd(end.trace, state, is_stuck))


def _of_composition(team: Composition) -> Completion:
    """Search as few joint states as tell whether there is a dead end, then all of them for the nearest one."""
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
    alive = [can_reach(part.graph, part.is_final)[column] for part, column in columns]
    completes, node = _search(machine, np.logical_and.reduce(alive))
    if node is None:
        return Completion(team, completes, None)
    end = _dead_end(team, states[node].tolist(), machine.trace_to(node), _is_sink(machine.graph, node))
    return Completion(team, completes, end)


def _most_states(team: Composition) -> int:
    """Bound the joint states by what it takes to go on from one: its parts, and the events that they propose.

    The number of a joint state has a digit for each part, so that going on takes longer where there are many.
    """
    parts = len(team.parts)
    proposed = sum(int(np.diff(part.graph.first).max(initial=0)) for part in team.parts.values())
    return max(1, min(LARGEST_SEARCH, MOST_LISTED // (parts + proposed * (1 + parts // MANY_PARTS))))


def _dead_end(team: Composition, state: Iterable[int], trace: tuple[str, ...], is_stuck: bool) -> DeadEnd:
    places = list(zip(team.parts.values(), state, strict=True))
    is_blocked = all(can_reach(part.graph, part.is_final)[local] for part, local in places)
    return DeadEnd(trace, tuple(part.states.at(local) for part, local in places), is_stuck, is_blocked)


def _blocking(team: Composition, end: DeadEnd) -> str:
    """Say in which way the parts of a composition block each other."""
    now = dict(zip(team.parts, end.state, strict=True))
    names = tuple(team.parts)
    owners = {event: [names[place] for place in agents] for event, agents in team.owners.items()}
    shared = {event for event, agents in owners.items() if len(agents) > 1}
    proposed = {agent: _proposed(part, now[agent], shared) for agent, part in team.parts.items()}
    waiting = [agent for agent, part in team.parts.items() if now[agent] not in part.final]
    waits = []
    for agent in waiting[:SHOWN_AGENTS]:
        wishes = []  # what it waits for, and who does not propose it
        for event in team.parts[agent].events:
            others = [name for name in owners[event] if event not in proposed[name]]
            if event in proposed[agent] and others:
                wishes.append(f"{event} ({_shortened(others)} {'does' if len(others) == 1 else 'do'} not propose it)")
        why = f"waits for {' or '.join(wishes[:SHOWN_AGENTS])}" if wishes else f"is in {now[agent]}, which is not final"
        waits.append(f"{agent} {why}")
    blocked = "the parts block each other" if end.is_stuck else "events can still happen, but the task never completes"
    return f"After {name_trace(end.trace)}, {blocked}: {_shortened([*waits, *waiting[SHOWN_AGENTS:]])}."


def _proposed(part: RewardMachine, state: str, shared: Collection[str]) -> set[str]:
    """Collect the shared events that a part proposes in a state, or in one that it can go to alone."""

    def alone(place: str) -> Iterator[str]:
        return (target for event, target in part.moves.get(place, {}).items() if event not in shared)

    places = distances_from([state], alone)
    return {event for place in places for event in part.moves.get(place, ()) if event in shared}


def _shortened(said: list[str]) -> str:
    more = len(said) - SHOWN_AGENTS
    return ", ".join(said) if more <= 0 else f"{', '.join(said[:SHOWN_AGENTS])}, … ({more:,} more)"


# Whether the parts of a composition can block each other, by a search of few of its joint states.
#
# Two reductions keep the search small. What a part does alone, back and forth, is one place: whoever is in it can be
# anywhere in it, whatever the others do. And parts that have nothing to do with each other for now are not interleaved:
# if all that some parts propose concerns only them, nothing that others do meanwhile can help or hinder them (a
# persistent set), so that what the others do is left for later. Both keep all places in which nothing can happen any
# more. Where no part can go round from place to place, every trace ends in such a one; so there is no dead end just if
# all of them are final.


class Free(NamedTuple):
    """No dead end: every trace can be completed."""


class Blocked(NamedTuple):
    """A dead end, and some way into it."""

    labels: list[int]  # events of the composition
    state: list[int]  # of each part
    is_stuck: bool


class _CollapsedPart(NamedTuple):
    """A part by its places: sets of states between which it can go back and forth alone."""

    machine: RewardMachine
    place: list[int]  # [states]
    is_final: list[bool]  # [places] whether a final state is in it
    moves: list[dict[int, list[Move]]]  # of each place: event -> ways out, one for each place that it leads to
    alone: list[dict[int, int]]  # of each state: event that concerns no other part -> next state

    def way_alone(self, start: int, goal: int) -> list[int]:
        """Find a shortest way that the part can go alone, within its place."""
        return path_to(search_tree(start, lambda state: self.alone[state].items(), goal), goal)


class _Step(NamedTuple):
    event: int
    moves: dict[int, Move]  # of each part that takes part


class _JointNode(NamedTuple):
    """Where the search has come to, and how."""

    joint: list[int]  # the place of each part
    asked: dict[int, None]  # parts that may still be able to do something
    steps: list[_Step]  # since the node before
    before: _JointNode | None


class _ExhaustedError(Exception):
    """The search has taken more than it may."""


def find_blocked(team: Composition, effort: int) -> Free | Blocked | None:
    """Find a dead end or prove that there is none; None where parts can go round, or it takes more than `effort`.

    Effort is counted in looks at a part. What can happen in only one way is not branched from, nor kept.
    """
    owners = list(team.owners.values())
    parts = [_collapse(machine, team, owners) for machine in team.parts.values()]
    if any(_goes_round(part) for part in parts):
        return None
    search = _DeadEndSearch(parts, owners, effort)
    start = [part.place[part.machine.start] for part in parts]
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
                nodes += [search.branch(node, step) for event in events for step in search.ways(joint, event)]
    except _ExhaustedError:
        return None
    return Free()


class _DeadEndSearch:
    """Lets events happen, and counts the looks at parts that it takes."""

    def __init__(self, parts: Sequence[_CollapsedPart], owners: Sequence[Sequence[int]], effort: int) -> None:
        self.parts, self.owners, self.left = parts, owners, effort

    def spend(self, looks: int) -> None:
        """Count looks at parts."""
        self.left -= looks
        if self.left < 0:
            raise _ExhaustedError

    def run(self, node: _JointNode) -> list[int] | None:
        """Let happen what can happen in only one way; list the events to branch by, or None in a dead end.

        Parts that can do nothing any more never will; if one of them is not final, it is a dead end.
        """
        branching: list[list[int]] = []
        aside: dict[int, None] = {}  # parts of groups with several ways, which nobody else can disturb
        while node.asked:
            part, _ = node.asked.popitem()
            group, events = self.group(node.joint, part)
            if len(events) == 1 and len(ways := self.ways(node.joint, events[0])) == 1:
                self.take(node, ways[0])
                node.asked[part] = None
                continue
            if not events and not all(self.parts[other].is_final[node.joint[other]] for other in group):
                return None
            for other in group:
                node.asked.pop(other, None)
            if events:
                branching.append(events)
                aside.update(dict.fromkeys(group))
        node.asked.update(aside)
        return min(branching, key=len, default=[])

    def run_out(self, node: _JointNode) -> None:
        """Go on in any way until nothing can happen any more; no part goes round, so that this is little work."""
        self.left = sys.maxsize
        node.asked.update(dict.fromkeys(range(len(self.parts))))
        while node.asked:
            part, _ = node.asked.popitem()
            for event in self.parts[part].moves[node.joint[part]]:
                if self.is_enabled(node.joint, event):
                    ways = {other: self.parts[other].moves[node.joint[other]][event] for other in self.owners[event]}
                    self.take(node, _Step(event, {other: first for other, (first, *_) in ways.items()}))
                    break

    def group(self, joint: Sequence[int], part: int) -> tuple[list[int], list[int]]:
        """Collect the parts that have to do with what a part proposes, and with what they propose in turn.

        Also list the events that they propose and that can happen.
        """
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
        """Say whether all who take part in an event propose it."""
        return all(event in self.parts[part].moves[joint[part]] for part in self.owners[event])

    def ways(self, joint: Sequence[int], event: int) -> list[_Step]:
        """List the ways in which an event can happen; too many are too much."""
        owners = self.owners[event]
        ways = [self.parts[part].moves[joint[part]][event] for part in owners]
        if prod(map(len, ways)) > MOST_BRANCHES:
            raise _ExhaustedError
        return [_Step(event, dict(zip(owners, chosen, strict=True))) for chosen in product(*ways)]

    def take(self, node: _JointNode, step: _Step) -> None:
        """Let an event happen."""
        for part, (_, end) in step.moves.items():
            node.joint[part] = self.parts[part].place[end]
            node.asked[part] = None
        node.steps.append(step)
        self.spend(len(step.moves))

    def branch(self, node: _JointNode, step: _Step) -> _JointNode:
        """Let an event happen after a node that others go on from, too."""
        self.spend(len(node.joint))
        after = _JointNode(list(node.joint), dict(node.asked), [], node)
        self.take(after, step)
        return after


def _collapse(machine: RewardMachine, team: Composition, owners: Sequence[Sequence[int]]) -> _CollapsedPart:
    """Find the places of a part, and the ways between them; those of others that stay within one count, too."""
    number = [team.events.index(event) for event in machine.events]
    columns = zip(*(column.tolist() for column in machine.graph[1:]), strict=True)
    edges = [(start, number[event], end) for start, event, end in columns]
    alone: list[dict[int, int]] = [{} for _ in machine.states]
    for start, event, end in edges:
        if len(owners[event]) == 1:
            alone[start][event] = end
    place = components([list(moves.values()) for moves in alone])
    ways: list[dict[int, dict[int, Move]]] = [{} for _ in range(max(place) + 1)]
    for start, event, end in edges:
        if place[start] != place[end] or len(owners[event]) > 1:
            ways[place[start]].setdefault(event, {}).setdefault(place[end], (start, end))
    is_final = [False] * len(ways)
    for state, is_end in enumerate(machine.is_final.tolist()):
        is_final[place[state]] |= is_end
    moves = [{event: list(by_place.values()) for event, by_place in ways_out.items()} for ways_out in ways]
    return _CollapsedPart(machine, place, is_final, moves, alone)


def _goes_round(part: _CollapsedPart) -> bool:
    """Say whether a part can come back to a place that it has left."""
    onward = [[part.place[end] for ways in moves.values() for _, end in ways] for moves in part.moves]
    component = components(onward)
    return len(set(component)) < len(component) or any(place in ends for place, ends in enumerate(onward))


def _describe(parts: Sequence[_CollapsedPart], node: _JointNode) -> Blocked:
    """Read off the way to a dead end, with what the parts do alone in between."""
    runs: list[list[_Step]] = []
    last: _JointNode | None = node
    while last is not None:
        runs.append(last.steps)
        last = last.before
    state = [part.machine.start for part in parts]
    labels: list[int] = []
    for step in chain.from_iterable(reversed(runs)):
        for index, (start, end) in step.moves.items():
            labels += parts[index].way_alone(state[index], start)
            state[index] = end
        labels.append(step.event)
    return Blocked(labels, state, not any(part.alone[local] for part, local in zip(parts, state, strict=True)))


# Local machines.


def leavable(machine: RewardMachine) -> Flags:
    """Flag the final states that can be left again: from which some trace leads to one that is not final."""
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
    said = []
    for agent, machine in machines.items():
        if (leaving := find_leaving(machine)) is not None:
            final = f"its local reward machine is final after {name_trace(leaving[0])}"
            said.append(f"{agent} can leave a final state again: {final}, but no longer after {leaving[1]}.")
    return tuple(said)


def completes_without(machine: RewardMachine, event: str) -> bool:
    """Say whether some trace completes a machine in which an event never happens.

    >>> machine = RewardMachine(initial="0", transitions={("0", "a"): "1", ("0", "b"): "1"}, final={"1"})
    >>> completes_without(machine, "a")
    True
    """

    def others(state: str) -> Iterator[str]:
        return (target for name, target in machine.moves.get(state, {}).items() if name != event)

    return not machine.final.isdisjoint(distances_from([machine.initial], others))


def find_idle(team: Team, machines: Parts, controls: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Find the agents that can do their own part without events that they control and that the team's needs.

    Nothing rewards such an agent for these events, so that the team may wait for ever. A large team is not looked at.
    """
    whole = team if isinstance(team, Composition) else Composition({"team": team})
    parts = [*whole.parts.values()]
    if sum(len(part.graph.target) for part in parts) > LARGEST_SEARCH:
        return {}

    @cache  # many may share an event, and so many parts have it
    def is_needed(event: str) -> bool:
        return any(not completes_without(parts[place], event) for place in whole.owners.get(event, ()))

    spare = {a: [event for event in controls[a] if completes_without(part, event)] for a, part in machines.items()}
    unrewarded = {agent: tuple(filter(is_needed, events)) for agent, events in spare.items()}
    return {agent: events for agent, events in unrewarded.items() if events}
