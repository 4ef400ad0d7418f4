"""Readiness: the probability that an event happens in a step in which an agent proposes it, assumed or estimated.

An event that only one agent knows happens at once. Any other waits for the other agents that know it. The readiness
that an agent assumes depends on the state of its machine and on the event, and not on its cell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.random import threshold
from hocket.task.individual import IndividualTable, Simulation
from hocket.task.tables import Bools, Tables

PRIOR_WEIGHT = 0.5  # of the readiness that was assumed before, in observations

Chances = NDArray[np.float64]  # [N, U, H, C] readiness for each slot of the table of proposed events


class Counts(NamedTuple):
    """How often agents proposed events in episodes, and how often these happened: [N, U, H, C] each."""

    proposed: NDArray[np.int64]
    happened: NDArray[np.int64]


class Readiness:
    """The readiness that agents assume of their teammates, and the individual environment that follows from it."""

    def __init__(self, tables: Tables, *, sync_literal: bool = False) -> None:
        self.tables = tables
        self.simulation = Simulation(tables, np.inf, sync_literal)
        self.fixed = self.simulation.chances(np.arange(len(tables.start)))  # infinite where the task does not fix it
        self.waits: Bools = ~np.isnan(self.fixed) & (tables.event >= 0)
        agents, states, _, _ = tables.event.shape
        row = np.arange(agents * states).reshape(agents, states, 1, 1)
        key = row * (len(tables.knowers) + 1) + tables.event + 1
        self.pool = np.unique(key, return_inverse=True)[1].reshape(key.shape)  # a number for each state and event

    def believe(self, chance: float) -> Chances:
        """Assume one readiness for all events that wait for teammates, except where the task fixes it."""
        alone = np.where(self.tables.event >= 0, 1.0, 0.0)
        return np.where(self.waits, np.where(np.isinf(self.fixed), chance, self.fixed), alone)

    def agree(self, trace: Iterable[tuple[int, int]], likely: float, unlikely: float) -> Chances:
        """Assume that teammates follow a trace of the team machine: pairs of a team state and an event."""
        tables, agreed = self.tables, np.zeros(self.tables.event.shape, np.bool_)
        for team_state, event in trace:
            agents = tables.knower[tables.first_knower[event] : tables.first_knower[event + 1]]
            states = tables.team_class[agents, team_state]
            agreed[agents, states] |= tables.event[agents, states] == event
        return np.where(agreed, self.believe(likely), self.believe(unlikely))

    def count(self, counts: Counts, prior: Chances) -> Chances:
        """Estimate readiness from counts in episodes and a prior."""
        proposed, happened = (np.bincount(self.pool.ravel(), part.ravel())[self.pool] for part in counts)
        estimate: Chances = (happened + PRIOR_WEIGHT * prior) / (proposed + PRIOR_WEIGHT)
        return np.where(self.tables.event >= 0, estimate, 0.0)

    def table(self, agent: int, chances: Chances) -> IndividualTable:
        """Tabulate the outcomes of an agent's steps, which exclude each other: each event that it may propose, with its
        readiness, or none."""
        table = self.simulation.table(agent, one_each=True)
        readiness = chances[agent, : len(table.dynamics)]
        below = np.minimum(np.cumsum(readiness, axis=2), 1.0)  # cumulative probabilities
        chance = np.diff(below, axis=2, prepend=0.0, append=1.0)
        chance[table.is_final] = np.append(np.zeros(readiness.shape[2]), 1.0)
        below[table.is_final] = 0.0
        return table._replace(limit=np.rint(below * threshold(1.0)).astype(np.int64), chance=chance)
