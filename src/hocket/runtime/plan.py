"""A team in numbers: the plan, which is all that the protocol knows of a task, and the team machine, for observers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.errors import AssignmentError
from hocket.graphs import Graph, distances_from
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Control, Decomposition
from hocket.machine.delays import find_deciders
from hocket.machine.names import invert
from hocket.machine.reward_machine import RewardMachine

LARGEST_TEAM = 300_000  # states of a team machine that is simulated
MOST_SPARSE = 1_000 * LARGEST_TEAM  # states of a composition of which few may be reachable

Edges = Mapping[str, Collection[str]]  # agent -> the events that it agrees on at most once after a move
Numbers = tuple[int, ...]
Transitions = tuple[Mapping[int, int], ...]  # of each state: event -> state


@dataclass(frozen=True)
class Plan:
    """Agents, events and local machine states are numbers: their indices in `agents`, `events` and the machines."""

    agents: tuple[str, ...]
    events: tuple[str, ...]
    machines: tuple[RewardMachine, ...]  # of each agent
    deciders: tuple[Numbers, ...]  # of each event: who agree on it, ascending
    controllers: tuple[Numbers, ...]  # of each event: the deciders whose condition has to hold
    knowers: tuple[Numbers, ...]  # of each event, ascending
    edges: Numbers = ()  # of each agent: the events, as bits, that it agrees on at most once after a move

    @classmethod
    def of(cls, decomposition: Decomposition, deciders: Control | None = None, edges: Edges | None = None) -> Plan:
        """Number a decomposable task; without `deciders`, those who control an event decide on it."""
        if not decomposition.ok:
            raise AssignmentError(f"only a decomposable task can be run: {decomposition.problems[0]}")
        agents, events = tuple(decomposition.machines), tuple(decomposition.machine.events)
        number = {agent: index for index, agent in enumerate(agents)}
        tables = (find_deciders(decomposition, deciders), decomposition.control, invert(decomposition.knows, events))
        deciding, control, knowers = (
            tuple(tuple(number[agent] for agent in table.get(event, ())) for event in events) for table in tables
        )
        bits = tuple(sum(1 << events.index(event) for event in (edges or {}).get(agent, ())) for agent in agents)
        return cls(agents, events, tuple(decomposition.machines.values()), deciding, control, knowers, bits)

    @cached_property
    def transitions(self) -> tuple[Transitions, ...]:
        """The transitions of each agent's machine."""
        number = {event: index for index, event in enumerate(self.events)}
        return tuple(_list(machine.graph, [number[event] for event in machine.events]) for machine in self.machines)

    @cached_property
    def decided(self) -> tuple[tuple[Numbers, ...], ...]:
        """Of each agent and state: the events of which it is a decider, ascending."""
        return tuple(
            tuple(tuple(event for event in sorted(row) if agent in self.deciders[event]) for row in rows)
            for agent, rows in enumerate(self.transitions)
        )

    @cached_property
    def unconditional(self) -> Numbers:
        """Of each agent: the events, as bits, that it agrees on wherever it is."""
        return tuple(
            sum(1 << event for event, who in enumerate(self.deciders) if agent in {*who} - {*self.controllers[event]})
            for agent in range(len(self.agents))
        )

    def bits(self, events: Collection[str]) -> int:
        """Give events as bits."""
        return sum(1 << index for index, name in enumerate(self.events) if name in events)

    def named(self, events: int) -> list[str]:
        """List the names of events that are given as bits."""
        return [name for index, name in enumerate(self.events) if events >> index & 1]


def _list(graph: Graph, numbers: Sequence[int]) -> Transitions:
    """List the transitions of each state; `numbers` are those of the graph's events."""
    rows: list[dict[int, int]] = [{} for _ in range(graph.nodes)]
    for source, label, target in graph.edges():
        rows[source][numbers[label]] = target
    return tuple(rows)


@dataclass(frozen=True)
class NumberedTeam:
    """A team machine whose states and events are numbers."""

    start: int
    transitions: Transitions
    is_final: tuple[bool, ...]
    progress: tuple[Numbers, ...]  # of each state: the events that lead nearer to completion, if it can be

    @classmethod
    def of(cls, decomposition: Decomposition) -> NumberedTeam:
        """Number the states of a team machine; events are as in the plan."""
        machine = decomposition.machine
        if isinstance(machine, Composition):
            if machine.most_states > MOST_SPARSE or (listed := machine.reachable(LARGEST_TEAM)) is None:
                raise AssignmentError(f"a team machine of more than {LARGEST_TEAM:,} states cannot be simulated")
            _, machine = listed
        rows = _list(machine.graph, range(len(machine.events)))
        before = invert({source: row.values() for source, row in enumerate(rows)}, range(len(rows)))
        distance = distances_from(np.flatnonzero(machine.is_final).tolist(), before.__getitem__)
        progress = tuple(
            tuple(event for event, target in row.items() if target in distance and distance[target] < distance[state])
            for state, row in enumerate(rows)
        )
        return cls(machine.start, rows, tuple(machine.is_final.tolist()), progress)

    def step(self, state: int, event: int) -> int | None:
        """Return the state that an event leads to, or None where it is undefined."""
        return self.transitions[state].get(event)
