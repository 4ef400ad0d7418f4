"""Whether the parts of a composition can block each other, by a search of few of its joint states.

Two reductions keep the search small. What a part does alone, back and forth, is one place: whoever is in it can be
anywhere in it, whatever the others do. And parts that have nothing to do with each other for now are not interleaved:
if all that some parts propose concerns only them, nothing that others do meanwhile can help or hinder them (a
persistent set), so that what the others do is left for later. Both keep all places in which nothing can happen any
more. Where no part can go round from place to place, every trace ends in such a one; so there is no dead end just if
all of them are final.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from hocket.graphs import components
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine

MOST_BRANCHES = 1_000  # places to which one event may lead

Joint = tuple[int, ...]  # the place of each part
Move = tuple[int, int]  # of a part: from a state to a state


class Free(NamedTuple):
    """No dead end: every trace can be completed."""


class Blocked(NamedTuple):
    """A dead end, and some way into it."""

    labels: list[int]  # events of the composition
    state: list[int]  # of each part
    is_stuck: bool


class _Part(NamedTuple):
    """A part by its places: sets of states among which it can go to and fro alone."""

    machine: RewardMachine
    place: list[int]  # [states]
    is_final: list[bool]  # [places] whether a final state is in it
    moves: list[dict[int, list[Move]]]  # of each place: event -> ways out, one for each place that it leads to
    alone: list[dict[int, int]]  # of each state: event that concerns no other part -> next state


class _Step(NamedTuple):
    before: Joint
    event: int
    moves: dict[int, Move]  # of each part that takes part


def find_blocked(team: Composition, most: int) -> Free | Blocked | None:
    """Find a dead end or prove that there is none; None where parts can go round or more than `most` states come up."""
    owners = _owners(team)
    parts = [_collapse(machine, team, owners) for machine in team.parts.values()]
    if any(_goes_round(part) for part in parts):
        return None
    initial = tuple(part.place[part.machine.start] for part in parts)
    came: dict[Joint, _Step | None] = {initial: None}
    queue = deque([initial])
    while queue:
        joint = queue.popleft()
        events = _enough(parts, owners, joint)
        if not events and not all(part.is_final[own] for part, own in zip(parts, joint, strict=True)):
            return _describe(parts, came, joint)
        for event in events:
            ways = [parts[own].moves[joint[own]][event] for own in owners[event]]
            if prod(map(len, ways)) > MOST_BRANCHES:
                return None
            for chosen in product(*ways):
                step = _Step(joint, event, dict(zip(owners[event], chosen, strict=True)))
                after = _after(parts, step)
                if after not in came:
                    came[after] = step
                    queue.append(after)
        if len(came) > most:
            return None
    return Free()


def _owners(team: Composition) -> list[list[int]]:
    """List the parts that take part in each event."""
    position = {event: number for number, event in enumerate(team.events)}
    owners: list[list[int]] = [[] for _ in position]
    for index, machine in enumerate(team.parts.values()):
        for event in machine.events:
            owners[position[event]].append(index)
    return owners


def _collapse(machine: RewardMachine, team: Composition, owners: Sequence[Sequence[int]]) -> _Part:
    """Find the places of a part, and the ways between them; those of others that stay within one count, too."""
    number = [team.events.index(event) for event in machine.events]
    edges = [
        (start, number[event], end)
        for start, event, end in zip(*(own.tolist() for own in machine.graph[1:]), strict=True)
    ]
    alone: list[dict[int, int]] = [{} for _ in machine.states]
    for start, event, end in edges:
        if len(owners[event]) == 1:
            alone[start][event] = end
    place = components([list(own.values()) for own in alone])
    ways: list[dict[int, dict[int, Move]]] = [{} for _ in range(max(place) + 1)]
    for start, event, end in edges:
        if place[start] != place[end] or len(owners[event]) > 1:
            ways[place[start]].setdefault(event, {}).setdefault(place[end], (start, end))
    is_final = [False] * len(ways)
    for state, own in enumerate(machine.is_final.tolist()):
        is_final[place[state]] |= own
    moves = [{event: list(found.values()) for event, found in own.items()} for own in ways]
    return _Part(machine, place, is_final, moves, alone)


def _goes_round(part: _Part) -> bool:
    """Say whether a part can come back to a place that it has left."""
    onward = [[part.place[end] for ways in own.values() for _, end in ways] for own in part.moves]
    found = components(onward)
    return len(set(found)) < len(found) or any(own in ends for own, ends in enumerate(onward))


def _after(parts: Sequence[_Part], step: _Step) -> Joint:
    moved = list(step.before)
    for own, (_, end) in step.moves.items():
        moved[own] = parts[own].place[end]
    return tuple(moved)


def _enough(parts: Sequence[_Part], owners: Sequence[Sequence[int]], joint: Joint) -> list[int]:
    """List events that can happen, so many that all others can be left for later; none if nothing can happen."""
    for part, own in zip(parts, joint, strict=True):
        proposed = part.moves[own]
        if proposed and all(len(owners[event]) == 1 for event in proposed):
            return list(proposed)
    groups = (_enabled(parts, owners, joint, group) for group in _groups(parts, owners, joint))
    return min((found for found in groups if found), key=len, default=[])


def _enabled(parts: Sequence[_Part], owners: Sequence[Sequence[int]], joint: Joint, group: Iterable[int]) -> list[int]:
    """List the events that can happen and in which a part of a group takes part."""
    proposed = dict.fromkeys(event for own in group for event in parts[own].moves[joint[own]])
    return [event for event in proposed if all(event in parts[own].moves[joint[own]] for own in owners[event])]


def _groups(parts: Sequence[_Part], owners: Sequence[Sequence[int]], joint: Joint) -> Iterator[list[int]]:
    """Group the parts so that whatever a part proposes concerns its own group alone."""
    links: list[list[int]] = [[] for _ in joint]
    for event in dict.fromkeys(event for part, own in zip(parts, joint, strict=True) for event in part.moves[own]):
        hub, *others = owners[event]
        for other in others:
            links[hub].append(other)
            links[other].append(hub)
    groups: dict[int, list[int]] = {}
    for own, group in enumerate(components(links)):
        groups.setdefault(group, []).append(own)
    yield from groups.values()


def _describe(parts: Sequence[_Part], came: Mapping[Joint, _Step | None], joint: Joint) -> Blocked:
    """Read off the way to a dead end, with what the parts do alone in between."""
    steps = []
    while (step := came[joint]) is not None:
        steps.append(step)
        joint = step.before
    state = [part.machine.start for part in parts]
    labels: list[int] = []
    for step in reversed(steps):
        for own, (start, end) in step.moves.items():
            labels += _way_alone(parts[own], state[own], start)
            state[own] = end
        labels.append(step.event)
    return Blocked(labels, state, not any(part.alone[own] for part, own in zip(parts, state, strict=True)))


def _way_alone(part: _Part, start: int, goal: int) -> list[int]:
    """Find a shortest way that a part can go alone, within its place."""
    came: dict[int, tuple[int, int]] = {}
    queue = deque([start])
    while goal not in came and goal != start:
        state = queue.popleft()
        for event, end in part.alone[state].items():
            if end not in came:
                came[end] = state, event
                queue.append(end)
    labels = []
    while goal != start:
        goal, event = came[goal]
        labels.append(event)
    return labels[::-1]
