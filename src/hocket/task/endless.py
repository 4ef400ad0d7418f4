"""Steps that would never settle, found before training; notes on steps in which the order of events matters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import combinations, islice
from math import prod

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import Flags, components, positions_in
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.settling import EndlessError, describe_cell, settle
from hocket.task.task import Task

MOST_SITUATIONS = 2_000_000  # joint kinds of steps times team states that are tried
MOST_COMPOSED = 20_000  # states of a composition up to which they are listed for that
MOST_TRIED = 2_000  # steps that are tried one by one, in which edges happen
MOST_NOTES = 5  # of each sort
CODED = 40  # flags that are packed into an integer of 64 bits together with the number of a group


@dataclass(frozen=True)
class StepKinds:
    """The kinds of an agent's steps: steps of a kind meet the same conditions of the events that it controls. A step is
    identified by its *arrival*, a number: the cell in which it ends, plus the `offset` of the cell in which it begins.
    Offsets distinguish these cells as far as edges do; without edges, all are 0."""

    agent: str
    events: tuple[str, ...]  # that it controls
    holds: Flags  # [kinds, events]
    kind: NDArray[np.int32]  # [arrivals]; 0 where there is a wall, or no step leads
    offset: NDArray[np.int32]  # [S]

    @classmethod
    def of(cls, task: Task, agent: str) -> StepKinds:
        """Find the kinds of an agent's steps; kind 0 is that of the first floor cell."""
        events, floor, cells = task.controlled[agent], task.grid.floor_cells, task.grid.cells
        masks = [task.masks(agent, event) for event in events]
        begins_in = [was[floor] for alternatives in masks for _, was in alternatives if was is not None]
        group, begin = _group(begins_in, len(floor))
        offset, arrivals = np.zeros(cells, np.int32), floor
        if begins_in:
            offset[floor] = group * cells
            arrivals = np.unique(offset[floor][:, None] + task.grid.outcomes()[floor, :, 0])
        past, end = np.divmod(arrivals, cells)
        before = floor[begin][past]
        flags = [
            np.logical_or.reduce([now[end] if was is None else now[end] & was[before] for now, was in alternatives])
            for alternatives in masks
        ]
        group, first = _group(flags, len(arrivals))
        kind = np.zeros(len(begin) * cells, np.int32)
        kind[arrivals] = group
        holds = np.array([flag[first] for flag in flags], np.bool_).reshape(len(events), len(first))
        return cls(agent, events, np.ascontiguousarray(holds.T), kind, offset)

    def __len__(self) -> int:
        return len(self.holds)

    @cached_property
    def _columns(self) -> Mapping[str, Flags]:
        return dict(zip(self.events, self.holds.T, strict=True))

    def where(self, event: str) -> Flags:
        """Flag the kinds of steps that meet the agent's condition of an event: [kinds]."""
        return self._columns[event] if event in self._columns else np.ones(len(self), np.bool_)

    def example(self, kind: int, floor: NDArray[np.integer]) -> tuple[int, int]:
        """Find a step of a kind: the cell in which it begins, and the one in which it ends."""
        cells = len(self.offset)
        arrival = int(np.flatnonzero(self.kind == kind)[0] if kind else floor[0])
        return int(floor[np.argmax(self.offset[floor] == arrival - arrival % cells)]), arrival % cells


def _group(flags: Sequence[Flags], count: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Group elements with the same flags; return the group of each, and the first element of each group, in order."""
    code = np.zeros(count, np.int64)  # a bit for each flag
    for number, flag in enumerate(flags):
        if number % CODED == CODED - 1:
            code = np.unique(code, return_inverse=True)[1].ravel()
        code = 2 * code + flag
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return positions_in(order, len(order))[group.ravel()], first[order]


def find_endless(task: Task, kinds: Mapping[str, StepKinds] | None = None) -> EndlessError | None:
    """Find a step that would never settle: which events repeat, with which agents where. This is exact if there are not
    too many combinations to try; otherwise such a step is refused when it happens."""
    kinds = kinds or {agent: StepKinds.of(task, agent) for agent in task.agents}
    if not _may_repeat(task, kinds):
        return None
    team = task.machine
    if isinstance(team, Composition):
        if team.most_states > MOST_COMPOSED:
            return None
        team = team.machine()
    situations = prod(map(float, map(len, kinds.values())))  # as floats, since products of integers may get slow
    return _try_all(task, team, kinds) if situations * len(team.states) <= MOST_SITUATIONS else None


def _may_repeat(task: Task, kinds: Mapping[str, StepKinds]) -> set[str]:
    """List the events that might happen any number of times in one step, by the machine of each agent alone: the
    largest set of events, without edges, that lie on cycles of each other after one kind of step, for all agents that
    know them."""
    events, checked = {*task.events} - task.edges, dict[str, set[str]]()
    while True:
        before = len(events)
        for agent in kinds:
            known = events.intersection(task.knows[agent])
            if checked.get(agent) != known:
                checked[agent] = known
                events -= known - _repeating(task.machines[agent], kinds[agent], known)
        if len(events) == before:
            return events


def _repeating(machine: RewardMachine, kinds: StepKinds, events: Collection[str]) -> set[str]:
    """List those of some events that lie on a cycle of such events that all are possible after one kind of step."""
    names, graph, repeating = tuple(machine.events), machine.graph, set[str]()
    allowed = np.array([event in events for event in names], np.bool_)
    if not allowed.any():
        return repeating
    where = np.array([kinds.where(event) for event in names], np.bool_)  # [events, kinds]
    for kind in range(len(kinds)):
        usable = (allowed & where[:, kind])[graph.label]
        on_cycle = _on_cycles(graph.source[usable], graph.target[usable], len(machine.states))
        repeating |= {names[label] for label in {*graph.label[usable][on_cycle].tolist()}}
    return repeating


def _on_cycles(source: NDArray[np.integer], target: NDArray[np.integer], states: int) -> Flags:
    """Flag the edges that lie on cycles.

    >>> _on_cycles(np.array([0, 1, 2]), np.array([1, 2, 1]), 3).tolist()
    [False, True, True]
    """
    links: list[list[int]] = [[] for _ in range(states)]
    for start, end in zip(source.tolist(), target.tolist(), strict=True):
        links[start].append(end)
    component = np.array(components(links), np.int64)
    inside: Flags = component[source] == component[target]
    return inside


def _try_all(task: Task, team: RewardMachine, kinds: Mapping[str, StepKinds]) -> EndlessError | None:
    """Settle every reachable team state after every joint kind of step, and return the error of one that never settles.
    For cycles that need an edge event twice, the rule itself decides."""
    shape, states = tuple(map(len, kinds.values())), np.arange(len(team.states))
    everything = np.arange(prod(shape))
    joint = dict(zip(kinds, np.unravel_index(everything, shape), strict=True))  # agent -> [situations]
    settled = np.repeat(states[:, None], len(everything), axis=1)  # the team state after a round: [V, situations]
    moving, busy = np.zeros(settled.shape, np.bool_), {agent: np.zeros(settled.shape, np.bool_) for agent in kinds}
    numbers = {event: number for number, event in enumerate(team.events)}
    for event in task.events:
        if event in numbers and task.knowers[event]:
            edges = team.graph.label == numbers[event]
            rows, target = team.graph.source[edges], states.copy()
            target[rows] = team.graph.target[edges]
            happens = np.ones((len(rows), len(everything)), np.bool_)
            for agent in task.knowers[event]:
                happens &= kinds[agent].where(event)[joint[agent]] & ~busy[agent][rows]
            for agent in task.knowers[event]:
                busy[agent][rows] |= happens
            settled[rows] = np.where(happens, target[settled[rows]], settled[rows])
            moving[rows] |= happens
    for _ in range((len(states) - 1).bit_length()):  # each pass doubles the number of rounds
        settled = settled[settled, everything]
    reachable, floor = team.reach.order, task.grid.floor_cells
    cycling = moving[settled[reachable], everything]  # if edges could happen any number of times
    for row, situation in np.argwhere(cycling)[:MOST_TRIED].tolist():
        trace = team.trace_to(int(reachable[row]))
        local = {
            agent: machine.run([event for event in trace if event in machine.events], undefined="blocking").states[-1]
            for agent, machine in task.machines.items()
        }
        steps = {agent: each.example(int(joint[agent][situation]), floor) for agent, each in kinds.items()}
        before, cells = ({agent: step[end] for agent, step in steps.items()} for end in (0, 1))
        try:
            settle(task, cells, local, before)
        except EndlessError as error:
            return error
    return None


def step_notes(task: Task) -> Iterator[str]:
    """List where the order of events in a step matters, and which events may repeat in one, in sentences."""
    for notes, rest in (
        (order_notes(task), "The order of events matters in more places."),
        (_repeat_notes(task), "More events may happen several times in one step."),
    ):
        yield from islice(notes, MOST_NOTES)
        yield from (rest for _ in islice(notes, 1))


def order_notes(task: Task) -> Iterator[str]:
    """List pairs of events that an agent may propose at once and that do not commute, in sentences."""
    noted, kinds = set[tuple[str, str]](), cache(partial(StepKinds.of, task))
    for agent, machine in task.machines.items():
        for state, moves in machine.moves.items():
            for one, other in combinations(sorted(moves, key=task.event_numbers.__getitem__), 2):
                end = machine.step(moves[one], other)
                if (one, other) in noted or (end is not None and end == machine.step(moves[other], one)):
                    continue
                controllers = (task.events[one].keys() & task.events[other].keys()) | {agent}
                both = {name: kinds(name).where(one) & kinds(name).where(other) for name in controllers}
                if all(flags.any() for flags in both.values()):
                    noted.add((one, other))
                    _, cell = kinds(agent).example(int(np.argmax(both[agent])), task.grid.floor_cells)
                    who = f"{agent} {describe_cell(task, cell)} in state {state} may propose {one} and {other}"
                    yield f"The order of events matters: {who}; {one} goes first, as in the file."


def _repeat_notes(task: Task) -> Iterator[str]:
    """List the events that may happen twice in a row in the machine of each agent that knows them, in sentences."""
    first_state: dict[str, dict[str, str]] = {agent: {} for agent in task.agents}  # by event, in which it may repeat
    for agent, machine in task.machines.items():
        for (state, event), target in machine.transitions.items():
            if (target, event) in machine.transitions:
                first_state[agent].setdefault(event, state)
    for event, knowers in task.knowers.items():
        if knowers and event not in task.edges and all(event in first_state[agent] for agent in knowers):
            example = f"{knowers[0]} in state {first_state[knowers[0]][event]} proposes it, and then again"
            yield f"{event} may happen several times in one step, as no move is needed in between: {example}."
