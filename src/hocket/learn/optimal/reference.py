"""Value iteration over an agent's cells and machine states, as one would write it on a page."""

from __future__ import annotations

import numpy as np

from hocket.learn.kernels.arrays import Doubles
from hocket.learn.optimal import OptimalSettings
from hocket.learn.reference import TableWorld
from hocket.task.grid import ACTIONS, OUTCOMES, outcome_probabilities


def solve(world: TableWorld, slip: float, settings: OptimalSettings) -> Doubles:
    """Compute the optimal action values with simulated teammates: [cells, actions, machine states]."""
    gamma, slips = settings.discount, outcome_probabilities(slip)
    q = np.zeros((world.cells, len(ACTIONS), world.states))
    change = np.inf
    while change > settings.tolerance * (1 - gamma if gamma < 1 else 1):
        value = q.max(axis=1)
        change = 0.0
        for s, a, u in np.ndindex(q.shape):
            if u in world.final:
                continue
            ends = [(slips[outcome], world.move(s, u, a, outcome)) for outcome in range(OUTCOMES)]
            target = sum(
                p_slip * p * (r + gamma * value[s_next, u_next])
                for p_slip, s_next in ends
                for p, u_next, r in world.outcomes(s, s_next, u)
            )
            change = max(change, abs(target - q[s, a, u]))
            q[s, a, u] = target
    return q
