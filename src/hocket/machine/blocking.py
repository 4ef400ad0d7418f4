"""Whether the parts of a composition can block each other, by a search of few of its joint states.

Two reductions keep the search small. What a part does alone, back and forth, is one place: whoever is in it can be
anywhere in it, whatever the others do. And parts that have nothing to do with each other for now are not interleaved:
if all that some parts propose concerns only them, nothing that others do meanwhile can help or hinder them (a
persistent set), so that what the others do is left for later. Both keep all places in which nothing can happen any
more. Where no part can go round from place to place, every trace ends in such a one; so there is no dead end just if
all of them are final.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain, product
from math import prod
from typing import NamedTuple

from hocket.graphs import components, path_to, search_tree
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine

MOST_BRANCHES = 1_000  # places to which one event may lead

Move = tuple[int, int]  # of a part: from a state to a state


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
    edges = [
        (start, number[event], end)
        for start, event, end in zip(*(column.tolist() for column in machine.graph[1:]), strict=True)
    ]
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
