"""Readiness: how likely an event is to happen in a step in which an agent proposes it, believed or counted.

An event that only one agent knows happens at once. Any other waits for whoever else knows it. What an agent believes of
it depends on the state of its machine and on the event, and not on where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.random import threshold
from hocket.task.individual import IndividualTable, Simulation
from hocket.task.tables import Bools, Tables

PRIOR_WEIGHT = 0.5  # of what was believed before, in observations

Chances = NDArray[np.float64]  # [N, U, H, C] readiness for each slot of the table of proposed events


class Counts(NamedTuple):
    """What agents proposed in episodes, and what happened of it: [N, U, H, C] each."""

    proposed: NDArray[np.int64]
    happened: NDArray[np.int64]


class Readiness:
    """What agents may believe of their teammates, and what follows for each agent alone."""

    def __init__(self, tables: Tables, *, sync_literal: bool = False) -> None:
        self.tables = tables
        self.simulation = Simulation(tables, np.inf, sync_literal)
        self.fixed = self.simulation.chances(np.arange(len(tables.start)))  # infinite where the task does not fix it
        self.waits: Bools = ~np.isnan(self.fixed) & (tables.event >= 0)
        agents, states, _, _ = tables.event.shape
        row = np.arange(agents * states).reshape(agents, states, 1, 1)  # the same event in the same machine state ...
        key = row * (len(tables.knowers) + 1) + tables.event + 1
        self.pool = np.unique(key, return_inverse=True)[1].reshape(key.shape)  # ... is believed alike, wherever it is

    def believe(self, chance: float) -> Chances:
        """Believe that teammates are ready with some probability per step, where a task does not say otherwise.

        Nobody waits for an event that it alone controls.
        """
        alone = np.where(self.tables.event >= 0, 1.0, 0.0)
        return np.where(self.waits, np.where(np.isinf(self.fixed), chance, self.fixed), alone)

    def agree(self, trace: Iterable[tuple[int, int]], likely: float, unlikely: float) -> Chances:
        """Believe that teammates will do what a trace of the team machine says: pairs of a team state and an event."""
        tables, agreed = self.tables, np.zeros(self.tables.event.shape, np.bool_)
        for team_state, event in trace:
            agents = tables.knower[tables.first_knower[event] : tables.first_knower[event + 1]]
            states = tables.team_class[agents, team_state]
            agreed[agents, states] |= tables.event[agents, states] == event
        return np.where(agreed, self.believe(likely), self.believe(unlikely))

    def count(self, counts: Counts, before: Chances) -> Chances:
        """Estimate readiness from episodes; what was believed before counts as a part of an observation."""
        proposed, happened = (np.bincount(self.pool.ravel(), part.ravel())[self.pool] for part in counts)
        estimate: Chances = (happened + PRIOR_WEIGHT * before) / (proposed + PRIOR_WEIGHT)
        return np.where(self.tables.event >= 0, estimate, 0.0)

    def table(self, agent: int, chances: Chances) -> IndividualTable:
        """Tabulate what may come of an agent's steps if its teammates are as ready as it believes.

        The events of a step exclude each other. Each that the agent may propose is an outcome, with its readiness as
        its chance, and the last outcome is that none happens.
        """
        table = self.simulation.table(agent, one_each=True)
        share = chances[agent, : len(table.dynamics)]
        below = np.minimum(np.cumsum(share, axis=2), 1.0)  # draws below it are of this outcome or one before it
        chance = np.diff(below, axis=2, prepend=0.0, append=1.0)
        chance[table.is_final] = np.append(np.zeros(share.shape[2]), 1.0)
        below[table.is_final] = 0.0
        return table._replace(limit=np.rint(below * threshold(1.0)).astype(np.int64), chance=chance)
