"""Optimal local policies: exact value iteration on each agent's product of world and machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.task.tables import Tables, sync_chances

MOST_SWEEPS = 100_000


def solve(
    tables: Tables, agent: int, discount: float, sync_probability: float, literal: bool, tolerance: float
) -> NDArray[np.float64]:
    """Compute an agent's optimal action values in training alone: [cells, actions, machine states]."""
    states = int(tables.states[agent])
    next_cell = tables.next_cell[agent][tables.dynamics[agent, :states]]  # [U, S, A, K]
    chance = sync_chances(tables, sync_probability, literal=literal)[agent, :states]
    is_final = tables.is_final[agent, :states]
    weights = np.array([1 - tables.slip, tables.slip / 2, tables.slip / 2])
    value = np.zeros(chance.shape)  # [U, S]
    rows = np.arange(states)[:, None, None, None]
    q = np.zeros(next_cell.shape[:3])
    for _ in range(MOST_SWEEPS):
        # What arriving in a cell is worth in each machine state, before the event there takes effect or not.
        moved = tables.reward[agent, :states] + discount * np.take_along_axis(
            value, tables.next_state[agent, :states], 0
        )
        arrival = chance * moved + (1 - chance) * discount * value
        q = (arrival[rows, next_cell] * weights).sum(axis=3)
        q[is_final] = 0
        best = q.max(axis=2)
        change = np.abs(best - value).max()
        value = best
        if change <= tolerance * (1 - discount if discount < 1 else 1):
            break
    return np.ascontiguousarray(q.transpose(1, 2, 0))
