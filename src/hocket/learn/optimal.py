"""Optimal local policies: exact value iteration on each agent's product of world and machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.learn.episodes import ValuePlayer, machine_shapes
from hocket.learn.learner import Arrays, Learner, LooksAt
from hocket.learn.settings import SimulatedSettings, setting
from hocket.task.grid import outcome_chances
from hocket.task.individual import IndividualTable, Simulation
from hocket.task.tables import Tables

MOST_SWEEPS = 100_000


@dataclass(frozen=True)
class OptimalSettings(SimulatedSettings):
    """Optimal local policies by value iteration; nothing is learnt, so training steps have no effect."""

    tolerance: float = setting(1e-10, "how far values may be from the exact ones", "reward", above=0, most=1)


class OptimalBlock:
    """Optimal local policies; all seeds share them."""

    def __init__(self, tables: Tables, settings: OptimalSettings, seeds: Sequence[int], threads: int = 1) -> None:
        self.q = np.zeros(machine_shapes(tables)["q"], np.float32)
        simulation = Simulation(tables, settings.sync_probability, settings.sync_literal)
        for agent in range(len(self.q)):
            table = simulation.table(agent)
            self.q[agent, :, :, : len(table.is_final)] = solve(table, settings.discount, settings.tolerance)

    def train(self, begin: int, steps: int) -> None:
        pass  # there is nothing to learn

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q}


def solve(table: IndividualTable, discount: float, tolerance: float) -> NDArray[np.float64]:
    """Compute an agent's optimal action values with simulated teammates: [cells, actions, machine states]."""
    next_cell = table.next_cell[table.dynamics]  # [U, S, A, K]
    weights = np.array(outcome_chances(table.slip))
    chance, reward, target = (
        part[:, table.kind] for part in (table.chance, table.reward, table.next_state)
    )  # [U, S, J]
    value = np.zeros(chance.shape[:2])  # [U, S]
    cells = np.arange(len(table.kind))[None, :, None]
    rows = np.arange(len(value))[:, None, None, None]
    q = np.zeros(next_cell.shape[:3])
    for _ in range(MOST_SWEEPS):
        # What arriving in a cell is worth in each machine state, before the step settles.
        arrival = (chance * (reward + discount * value[target, cells])).sum(axis=2)
        q = (arrival[rows, next_cell] * weights).sum(axis=3)
        q[table.is_final] = 0
        best = q.max(axis=2)
        change = np.abs(best - value).max()
        value = best
        if change <= tolerance * (1 - discount if discount < 1 else 1):
            break
    return np.ascontiguousarray(q.transpose(1, 2, 0))


LEARNER = Learner(
    name="optimal",
    summary="optimal local policies, by value iteration",
    settings=OptimalSettings,
    block=OptimalBlock,
    player=ValuePlayer,
    shapes=machine_shapes,
    looks_at=LooksAt.MACHINE,
    is_reference=True,
    side_by_side=2,
)
