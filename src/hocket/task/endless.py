"""Steps that would never settle, found before training, in all team states and kinds of places.

Also notes on steps in which several events may happen: where their order matters, and which may repeat.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import combinations, islice
from math import prod

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import components
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.settling import EndlessError, describe_cell, settle
from hocket.task.task import Task

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

MOST_SITUATIONS = 2_000_000  # joint kinds of places times team states that are tried
MOST_COMPOSED = 20_000  # states of a composition up to which they are listed for that
MOST_TRIED = 2_000  # steps that are tried one by one, in which edges happen
MOST_NOTES = 5  # of each kind
CODED = 40  # events by which cells are told apart at once; with a bit for each, and millions of cells, in 64


@dataclass(frozen=True)
class Kinds:
    """The kinds of steps that an agent can tell apart by the conditions of the events it controls.

    A step is known by its *arrival*: the cell in which it ends, and of the cell in which it begins as much as edges ask
    for. It has the number `offset` of the one plus the other; where nothing asks for it, that is the cell itself.
    """

    agent: str
    events: tuple[str, ...]  # that it controls
    holds: Bools  # [kinds, events]
    kind: NDArray[np.int32]  # [arrivals]; 0 where there is a wall, or no step leads
    offset: NDArray[np.int32]  # [S]

    @classmethod
    def of(cls, task: Task, agent: str) -> Kinds:
        """Sort the steps in a task by what an agent could do; kind 0 is that of the first floor cell."""
        events, floor, cells = task.controlled[agent], task.grid.floor_cells, task.grid.cells
        masks = [task.masks(agent, event) for event in events]
        asked = [was[floor] for ways in masks for _, was in ways if was is not None]
        group, begin = _sort_out(asked, len(floor))
        offset, arrivals = np.zeros(cells, np.int32), floor
        if asked:
            offset[floor] = group * cells
            arrivals = np.unique(offset[floor][:, None] + task.grid.outcomes()[floor, :, 0])
        past, end = np.divmod(arrivals, cells)
        before = floor[begin][past]
        flags = [
            np.logical_or.reduce([now[end] if was is None else now[end] & was[before] for now, was in ways])
            for ways in masks
        ]
        group, first = _sort_out(flags, len(arrivals))
        kind = np.zeros(len(begin) * cells, np.int32)
        kind[arrivals] = group
        holds = np.array([flag[first] for flag in flags], np.bool_).reshape(len(events), len(first))
        return cls(agent, events, np.ascontiguousarray(holds.T), kind, offset)

    def __len__(self) -> int:
        return len(self.holds)

    @cached_property
    def _columns(self) -> Mapping[str, Bools]:
        return dict(zip(self.events, self.holds.T, strict=True))

    def where(self, event: str) -> Bools:
        """Flag the kinds of steps after which the agent's condition of an event holds: [kinds]."""
        return self._columns[event] if event in self._columns else np.ones(len(self), np.bool_)

    def example(self, kind: int, floor: NDArray[np.integer]) -> tuple[int, int]:
        """Find a step of a kind: the cell in which it begins, and the one in which it ends."""
        cells = len(self.offset)
        arrival = int(np.flatnonzero(self.kind == kind)[0] if kind else floor[0])
        return int(floor[np.argmax(self.offset[floor] == arrival - arrival % cells)]), arrival % cells


def _sort_out(flags: Sequence[Bools], count: int) -> tuple[NDArray[np.int32], Ints]:
    """Put things with the same flags into groups, numbered as they first come; also list the first of each."""
    code = np.zeros(count, np.int64)  # a bit for each flag
    for place, flag in enumerate(flags):
        if place % CODED == CODED - 1:
            code = np.unique(code, return_inverse=True)[1].ravel()
        code = 2 * code + flag
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[group.ravel()], first[order]


def find_endless(task: Task, kinds: Mapping[str, Kinds] | None = None) -> EndlessError | None:
    """Find a step that would never settle: the events that go round, with whom where; None if there is none.

    Exact for the machine's states and any places of the agents, where these are not too many to be tried. Otherwise the
    step itself is refused when it comes.
    """
    kinds = kinds or {agent: Kinds.of(task, agent) for agent in task.agents}
    if not _may_repeat(task, kinds):
        return None
    team = task.machine
    if isinstance(team, Composition):
        if team.most_states > MOST_COMPOSED:
            return None
        team = team.machine()
    situations = prod(map(float, map(len, kinds.values())))  # which may be too many for whole numbers to be quick
    return _try_all(task, team, kinds) if situations * len(team.states) <= MOST_SITUATIONS else None


def _may_repeat(task: Task, kinds: Mapping[str, Kinds]) -> set[str]:
    """List the events that might happen any number of times in one step, as far as each agent can tell by itself.

    Such an event lies on a cycle of the machine of everyone who knows it, of events that are such themselves and whose
    conditions hold after one kind of step. An edge event is none.
    """
    alive, asked = {*task.events} - task.edges, dict[str, set[str]]()
    while True:
        before = len(alive)
        for agent in kinds:
            possible = alive.intersection(task.knows[agent])
            if asked.get(agent) != possible:
                asked[agent] = possible
                alive -= possible - _repeating(task.machines[agent], kinds[agent], possible)
        if len(alive) == before:
            return alive


def _repeating(machine: RewardMachine, kinds: Kinds, alive: Collection[str]) -> set[str]:
    """List the events on cycles of a machine, among some, whose conditions hold in one kind of place."""
    names, graph = tuple(machine.events), machine.graph
    allowed = np.array([event in alive for event in names], np.bool_)
    repeating: set[str] = set()
    if not allowed.any():
        return repeating
    where = np.array([kinds.where(event) for event in names], np.bool_)  # [events, kinds]
    for kind in range(len(kinds)):
        usable = (allowed & where[:, kind])[graph.label]
        kept = _on_cycles(graph.source[usable], graph.target[usable], len(machine.states))
        repeating |= {names[label] for label in {*graph.label[usable][kept].tolist()}}
    return repeating


def _on_cycles(source: NDArray[np.integer], target: NDArray[np.integer], states: int) -> Bools:
    """Flag the edges that lie on cycles.

    >>> _on_cycles(np.array([0, 1, 2]), np.array([1, 2, 1]), 3).tolist()
    [False, True, True]
    """
    links: list[list[int]] = [[] for _ in range(states)]
    for start, end in zip(source.tolist(), target.tolist(), strict=True):
        links[start].append(end)
    component = np.array(components(links), np.int64)
    inside: Bools = component[source] == component[target]
    return inside


def _try_all(task: Task, team: RewardMachine, kinds: Mapping[str, Kinds]) -> EndlessError | None:
    """Settle every reachable team state in every joint kind of place, and tell of one that goes round.

    Here an edge may happen again; where it does in a circle of rounds, the step itself tells whether it ends.
    """
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
    count = 1
    while count < len(states):  # then all that settles has settled
        settled, count = settled[settled, everything], 2 * count
    reachable = team.reach.order
    turning = moving[settled[reachable], everything]  # as if edges could happen any number of times
    for row, situation in np.argwhere(turning)[:MOST_TRIED].tolist():
        trace = team.trace_to(int(reachable[row]))
        local = {
            agent: machine.run([event for event in trace if event in machine.events], undefined="blocking").states[-1]
            for agent, machine in task.machines.items()
        }
        floor = task.grid.floor_cells
        steps = {agent: each.example(int(joint[agent][situation]), floor) for agent, each in kinds.items()}
        before, cells = ({agent: step[place] for agent, step in steps.items()} for place in (0, 1))
        try:
            settle(task, cells, local, before)
        except EndlessError as error:
            return error
    return None


def step_notes(task: Task) -> Iterator[str]:
    """Say where the order of events in a step matters, and which events may repeat in one; some of each."""
    for notes, rest in (
        (order_notes(task), "The order of events matters in more places."),
        (_repeat_notes(task), "More events may happen several times in one step."),
    ):
        yield from islice(notes, MOST_NOTES)
        yield from (rest for _ in islice(notes, 1))


def order_notes(task: Task) -> Iterator[str]:
    """Say where the order of events matters: two that an agent may propose at once, and that do not commute."""
    told: set[tuple[str, str]] = set()
    kinds = cache(partial(Kinds.of, task))
    for agent, machine in task.machines.items():
        for state, moves in machine.moves.items():
            for one, other in combinations(sorted(moves, key=task.event_numbers.__getitem__), 2):
                end = machine.step(moves[one], other)
                if (one, other) in told or (end is not None and end == machine.step(moves[other], one)):
                    continue  # or they lead to the same state in either order
                controllers = (task.events[one].keys() & task.events[other].keys()) | {agent}
                both = {name: kinds(name).where(one) & kinds(name).where(other) for name in controllers}
                if all(flags.any() for flags in both.values()):
                    told.add((one, other))
                    _, cell = kinds(agent).example(int(np.argmax(both[agent])), task.grid.floor_cells)
                    where = describe_cell(task, cell)
                    yield (
                        f"The order of events matters: {agent} {where} in state {state} may propose {one} and {other}; "
                        f"{one} goes first, as in the file."
                    )


def _repeat_notes(task: Task) -> Iterator[str]:
    """Say which events everyone who knows them can have twice in a row, each in some state of its machine."""
    again: dict[str, dict[str, str]] = {agent: {} for agent in task.agents}  # event -> the first state in which it can
    for agent, machine in task.machines.items():
        for (state, event), target in machine.transitions.items():
            if (target, event) in machine.transitions:
                again[agent].setdefault(event, state)
    for event, knowers in task.knowers.items():
        if knowers and event not in task.edges and all(event in again[agent] for agent in knowers):
            yield (
                f"{event} may happen several times in one step, as no move is needed in between: {knowers[0]} in "
                f"state {again[knowers[0]][event]} proposes it, and then again."
            )
