"""How a step settles: with everyone's place fixed, events happen in rounds until nothing more can.

An event can happen if every agent that knows it proposes it. In a round they go in the order of the task; one happens
unless an agent that knows it has taken part in an event of this round already. So the events of a round have disjoint
knowers and commute, and a round is a step of the paper's model in which nobody moves: at most one event for each agent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.graphs import components
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.task import Task

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

MOST_SITUATIONS = 2_000_000  # joint kinds of places times team states that are tried
MOST_COMPOSED = 20_000  # states of a composition up to which they are listed for that
MOST_NOTES = 5  # on the order of events
CODED = 40  # events by which cells are told apart at once; with a bit for each, and millions of cells, in 64


class Settled(NamedTuple):
    """What happened in a step, round by round, and the states of the agents' machines after it."""

    rounds: tuple[tuple[str, ...], ...]
    states: Mapping[str, str]

    @property
    def events(self) -> tuple[str, ...]:
        """What happened, in its order."""
        return tuple(event for events in self.rounds for event in events)


def propose(task: Task, agent: str, cell: int, state: str) -> tuple[str, ...]:
    """List the events that an agent proposes: possible in its machine, with its own condition met."""
    machine = task.machines[agent]
    return tuple(
        event
        for event in task.knows[agent]
        if machine.step(state, event) is not None and task.where(agent, event)[cell]
    )


def choose_events(task: Task, proposals: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """List the events of a round: proposed by all who know them, in the order of the task, one for each agent."""
    proposed = {event for own in proposals.values() for event in own}
    busy: set[str] = set()
    chosen = []
    for event in task.events:
        if event in proposed:
            knowers = task.knowers[event]
            if busy.isdisjoint(knowers) and all(event in proposals[agent] for agent in knowers):
                chosen.append(event)
                busy.update(knowers)
    return tuple(chosen)


def settle(task: Task, cells: Mapping[str, int], states: Mapping[str, str]) -> Settled:
    """Let events happen until nothing more can; refuse a step that would go round for ever."""
    now, rounds = dict(states), list[tuple[str, ...]]()
    seen = {tuple(now.values()): 0}
    while events := choose_events(task, {agent: propose(task, agent, cells[agent], now[agent]) for agent in now}):
        for event in events:
            for agent in task.knowers[event]:
                now[agent] = task.machines[agent].transitions[now[agent], event]
        rounds.append(events)
        first = seen.setdefault(tuple(now.values()), len(rounds))
        if first < len(rounds):
            raise EndlessError(describe_round(task, cells, [event for own in rounds[first:] for event in own]))
    return Settled(tuple(rounds), now)


class EndlessError(TaskError):
    """A step that would never settle."""

    def __init__(self, what: str) -> None:
        super().__init__(f"a step would never settle: {what} again and again while nobody moves", key="machine")


def describe_round(task: Task, cells: Mapping[str, int], events: Sequence[str]) -> str:
    """Name events, and where the agents are that control them."""
    agents = [agent for agent in task.agents if any(agent in task.events[event] for event in events)]
    places = " and ".join(f"{agent} {describe_cell(task, cells[agent])}" for agent in agents)
    return f"with {places}, {', '.join(dict.fromkeys(events))} can happen"


@dataclass(frozen=True)
class Kinds:
    """The kinds of cells that an agent can tell apart by the conditions of the events it controls."""

    agent: str
    events: tuple[str, ...]  # that it controls
    holds: Bools  # [kinds, events]
    kind: NDArray[np.int32]  # [S]; walls have kind 0

    @classmethod
    def of(cls, task: Task, agent: str) -> Kinds:
        """Sort the cells of a task by what an agent could do there; kind 0 is that of the first floor cell."""
        events, floor = task.controlled[agent], task.grid.floor_cells
        code = np.zeros(len(floor), np.int64)  # a bit for each event
        for place, event in enumerate(events):
            if place % CODED == CODED - 1:
                code = np.unique(code, return_inverse=True)[1].ravel()
            code = 2 * code + task.where(agent, event)[floor]
        _, first, own = np.unique(code, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the order of the map
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        kind = np.zeros(task.grid.cells, np.int32)
        kind[floor] = rank[own.ravel()]
        typical = floor[first[order]]  # a cell of each kind
        holds = np.array([task.where(agent, event)[typical] for event in events], np.bool_)
        return cls(agent, events, np.ascontiguousarray(holds.reshape(len(events), len(typical)).T), kind)

    def __len__(self) -> int:
        return len(self.holds)

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return {event: place for place, event in enumerate(self.events)}

    def where(self, event: str) -> Bools:
        """Flag the kinds of cells in which the agent's condition of an event holds: [kinds]."""
        place = self._place.get(event)
        return np.ones(len(self), np.bool_) if place is None else self.holds[:, place]


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
    situations = 1
    for own in kinds.values():
        situations *= len(own)
        if situations * len(team.states) > MOST_SITUATIONS:
            return None
    return _try_all(task, team, kinds, situations)


def _may_repeat(task: Task, kinds: Mapping[str, Kinds]) -> set[str]:
    """List the events that might happen any number of times in one step, as far as each agent can tell by itself.

    Such an event lies on a cycle of the machine of everyone who knows it, of events that are such themselves and whose
    conditions hold in one kind of place.
    """
    alive = set(task.events)
    asked = deque(kinds)
    waiting = set(kinds)
    while asked and alive:
        agent = asked.popleft()
        waiting.remove(agent)
        possible = alive.intersection(task.knows[agent])
        lost = possible - _repeating(task.machines[agent], kinds[agent], possible)
        alive -= lost
        for other in dict.fromkeys(other for event in lost for other in task.knowers[event]):
            if other not in waiting:  # it may lose more now
                waiting.add(other)
                asked.append(other)
    return alive


def _repeating(machine: RewardMachine, kinds: Kinds, alive: Collection[str]) -> set[str]:
    """List the events on cycles of a machine, among some, whose conditions hold in one kind of place."""
    names, graph = tuple(machine.events), machine.graph
    allowed = np.array([event in alive for event in names], np.bool_)
    found: set[str] = set()
    if not allowed.any():
        return found
    where = np.array([kinds.where(event) for event in names], np.bool_)  # [events, kinds]
    for kind in range(len(kinds)):
        usable = (allowed & where[:, kind])[graph.label]
        kept = _on_cycles(graph.source[usable], graph.target[usable], len(machine.states))
        found |= {names[label] for label in np.unique(graph.label[usable][kept]).tolist()}
    return found


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


def _try_all(task: Task, team: RewardMachine, kinds: Mapping[str, Kinds], situations: int) -> EndlessError | None:
    """Settle every reachable team state in every joint kind of place, and tell of one that goes round."""
    shape = tuple(len(own) for own in kinds.values())
    joint = dict(zip(kinds, np.unravel_index(np.arange(situations), shape), strict=True))  # agent -> [situations]
    rounds = [_one_round(task, team, kinds, joint, state) for state in range(len(team.states))]
    following, moving = (np.stack(part) for part in zip(*rounds, strict=True))  # [V, situations] each
    settled, count = following, 1
    everything = np.arange(situations)
    while count < len(team.states):  # then all that settles has settled
        settled, count = settled[settled, everything], 2 * count
    reachable = team.reach.order
    turning = moving[settled[reachable], everything]
    if not turning.any():
        return None
    row, situation = np.argwhere(turning)[0].tolist()
    trace = team.trace_to(int(settled[reachable[row], situation]))
    cells = {
        agent: int(np.flatnonzero((own.kind == joint[agent][situation]) & task.grid.floor)[0])
        for agent, own in kinds.items()
    }
    states = {
        agent: machine.run([event for event in trace if event in machine.events], undefined="blocking").states[-1]
        for agent, machine in task.machines.items()
    }
    try:
        settle(task, cells, states)
    except EndlessError as error:
        return error
    return None  # the agents' machines and the team's have come apart: not decomposable


def _one_round(
    task: Task, team: RewardMachine, kinds: Mapping[str, Kinds], joint: Mapping[str, Ints], state: int
) -> tuple[Ints, Bools]:
    """Find the team state after a round from a state, and whether anything happens in it: [situations] each."""
    graph, names = team.graph, tuple(team.events)
    row = slice(graph.first[state], graph.first[state + 1])
    enabled = {names[label] for label in graph.label[row].tolist()}
    situations = len(next(iter(joint.values())))
    found, moving = np.full(situations, state), np.zeros(situations, np.bool_)
    busy = {agent: np.zeros(situations, np.bool_) for agent in kinds}
    for event in task.events:
        if event in enabled and task.knowers[event]:
            happens = np.ones(situations, np.bool_)
            for agent in task.knowers[event]:
                happens &= kinds[agent].where(event)[joint[agent]] & ~busy[agent]
            for agent in task.knowers[event]:
                busy[agent] |= happens
            found = np.where(happens, _targets(team, event)[found], found)
            moving |= happens
    return found, moving


def _targets(team: RewardMachine, event: str) -> Ints:
    """Tabulate where an event leads; it stays where it is not possible."""
    graph = team.graph
    own = graph.label == team.events.index(event)
    targets = np.arange(len(team.states))
    targets[graph.source[own]] = graph.target[own]
    return targets


def describe_cell(task: Task, cell: int) -> str:
    """Say where a cell is, by the name of a place if it has one."""
    for name, cells in task.grid.places.items():
        if cell in cells:
            return f"at {name}"
    return f"at {task.grid.row_column(cell)}"


def order_notes(task: Task) -> list[str]:
    """Say where the order of events matters: two that an agent may propose at once, and that do not commute."""
    notes: list[str] = []
    for note in _order_notes(task):
        if len(notes) == MOST_NOTES:
            return [*notes, "The order of events matters in more places."]
        notes.append(note)
    return notes


def _order_notes(task: Task) -> Iterator[str]:
    rank = {event: place for place, event in enumerate(task.events)}
    told: set[tuple[str, str]] = set()
    for agent, machine in task.machines.items():
        for state, own in machine.moves.items():
            for one, other in combinations(sorted(own, key=rank.__getitem__), 2):
                if (one, other) in told or _commute(machine, own, one, other):
                    continue
                both = task.where(agent, one) & task.where(agent, other)
                if both.any() and _can_coincide(task, one, other):
                    told.add((one, other))
                    where = describe_cell(task, int(np.flatnonzero(both)[0]))
                    yield (
                        f"The order of events matters: {agent} {where} in state {state} may propose {one} and {other}; "
                        f"{one} goes first, as in the file."
                    )


def repeat_notes(task: Task) -> list[str]:
    """Say which events may happen several times in one step: possible again as soon as they have happened.

    Everyone who knows such an event has to be in a state of its machine in which it can happen twice in a row.
    """
    again = {agent: _repeated(machine) for agent, machine in task.machines.items()}
    notes = []
    for event, knowers in task.knowers.items():
        if knowers and all(event in again[agent] for agent in knowers):
            state = again[knowers[0]][event]
            notes.append(
                f"{event} may happen several times in one step, as nobody has to move in between: {knowers[0]} in "
                f"state {state} proposes it, and then again."
            )
    return (
        notes
        if len(notes) <= MOST_NOTES
        else [*notes[:MOST_NOTES], "More events may happen several times in one step."]
    )


def _repeated(machine: RewardMachine) -> dict[str, str]:
    """List the events that can happen twice in a row, with the first state in which they can."""
    found: dict[str, str] = {}
    for (state, event), target in machine.transitions.items():
        if (target, event) in machine.transitions:
            found.setdefault(event, state)
    return found


def _commute(machine: RewardMachine, own: Mapping[str, str], one: str, other: str) -> bool:
    """Say whether two events of a state lead to the same state in either order."""
    ends = machine.step(own[one], other), machine.step(own[other], one)
    return ends[0] is not None and ends[0] == ends[1]


def _can_coincide(task: Task, one: str, other: str) -> bool:
    """Say whether all agents that control both of two events can be where both are met."""
    agents = task.events[one].keys() & task.events[other].keys()
    return all((task.where(agent, one) & task.where(agent, other)).any() for agent in agents)
