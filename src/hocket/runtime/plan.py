"""Plan: a team's machines and deciders in numbers, which is all that the protocol knows of a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from hocket.errors import AssignmentError
from hocket.machine.decomposition import Control, Decomposition
from hocket.machine.delays import find_deciders
from hocket.machine.reward_machine import RewardMachine

LocalMoves = tuple[Mapping[int, int], ...]  # of each state: event -> state


@dataclass(frozen=True)
class Plan:
    """Agents, events and local machine states are numbers: their places in `agents`, `events` and the machines."""

    agents: tuple[str, ...]
    events: tuple[str, ...]
    machines: tuple[RewardMachine, ...]  # of each agent
    deciders: tuple[tuple[int, ...], ...]  # of each event: who agree on it, ascending
    controllers: tuple[tuple[int, ...], ...]  # of each event: the deciders whose condition has to hold
    knowers: tuple[tuple[int, ...], ...]  # of each event, ascending
    edges: tuple[int, ...] = ()  # of each agent: the events, as bits, that it agrees on at most once after a move

    @classmethod
    def of(
        cls,
        decomposition: Decomposition,
        deciders: Control | None = None,
        edges: Mapping[str, Collection[str]] | None = None,
    ) -> Plan:
        """Lay out a decomposable task; without `deciders`, those who control an event decide on it."""
        if not decomposition.ok:
            raise AssignmentError(f"only a decomposable task can be run: {decomposition.problems[0]}")
        agents, events = tuple(decomposition.machines), tuple(decomposition.machine.events)
        place = {agent: index for index, agent in enumerate(agents)}
        chosen = find_deciders(decomposition, deciders)
        numbers = [tuple(place[agent] for agent in chosen[event]) for event in events]
        control = [tuple(place[agent] for agent in decomposition.control.get(event, ())) for event in events]
        known: dict[str, list[int]] = {event: [] for event in events}
        for agent, local_events in decomposition.knows.items():
            for event in local_events:
                known[event].append(place[agent])
        knowers = [tuple(known[event]) for event in events]
        machines = tuple(decomposition.machines.values())
        bits = tuple(sum(1 << events.index(event) for event in (edges or {}).get(agent, ())) for agent in agents)
        return cls(agents, events, machines, tuple(numbers), tuple(control), tuple(knowers), bits)

    @cached_property
    def moves(self) -> tuple[LocalMoves, ...]:
        """The transitions of each agent's machine."""
        number = {event: index for index, event in enumerate(self.events)}
        tables = []
        for machine in self.machines:
            rows: list[dict[int, int]] = [{} for _ in machine.states]
            labels = [number[event] for event in machine.events]
            for source, label, target in zip(*(part.tolist() for part in machine.graph[1:]), strict=True):
                rows[source][labels[label]] = target
            tables.append(tuple(rows))
        return tuple(tables)

    @cached_property
    def begins(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Of each agent and state: the events that it may begin, alone or as the first of several deciders."""
        return tuple(
            tuple(tuple(event for event in sorted(row) if self.deciders[event][0] == agent) for row in rows)
            for agent, rows in enumerate(self.moves)
        )

    @cached_property
    def joins(self) -> tuple[tuple[tuple[tuple[int, int], ...], ...], ...]:
        """Of each agent and state: the events that another agent begins and it has to agree on, and who begins them."""
        return tuple(
            tuple(
                tuple((event, self.deciders[event][0]) for event in sorted(row) if agent in self.deciders[event][1:])
                for row in rows
            )
            for agent, rows in enumerate(self.moves)
        )

    @cached_property
    def always(self) -> tuple[int, ...]:
        """Of each agent: the events, as bits, that it agrees on wherever it is."""
        return tuple(
            sum(
                1 << event
                for event, agents in enumerate(self.deciders)
                if agent in agents and agent not in self.controllers[event]
            )
            for agent in range(len(self.agents))
        )
