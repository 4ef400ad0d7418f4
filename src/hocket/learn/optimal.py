"""Optimal local policies: exact value iteration on each agent's product of world and machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.learn.episodes import ValuePlayer, machine_shapes
from hocket.learn.learner import Arrays, Learner, LooksAt
from hocket.learn.settings import SimulatedSettings, setting
from hocket.task.grid import ACTIONS, OUTCOMES, outcome_chances, slipped_actions
from hocket.task.individual import IndividualTable, Simulation, view
from hocket.task.tables import Tables

MOST_SWEEPS = 100_000


@dataclass(frozen=True)
class OptimalSettings(SimulatedSettings):
    """Optimal local policies by value iteration; nothing is learnt, so training steps have no effect."""

    unused = frozenset({"learning_rate"})

    tolerance: float = setting(1e-10, "how far values may be from the exact ones", "reward", above=0, most=1)


class OptimalBlock:
    """Optimal local policies; all seeds share them."""

    def __init__(self, tables: Tables, settings: OptimalSettings, seeds: Sequence[int], threads: int = 1) -> None:
        self.q = np.zeros(machine_shapes(tables)["q"], np.float32)
        simulation = Simulation(tables, settings.sync_probability, settings.sync_literal)
        solved: dict[tuple[bytes, ...], int] = {}  # agents that are alike, wherever they start, act alike
        for agent in range(len(self.q)):
            table = simulation.table(agent)
            alike = solved.setdefault(view(tables, table), agent)
            if alike < agent:
                self.q[agent] = self.q[alike]
            else:
                self.q[agent, :, :, : len(table.is_final)] = solve(table, settings.discount, settings.tolerance)

    def train(self, begin: int, steps: int) -> None:
        pass  # there is nothing to learn

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q}


def solve(table: IndividualTable, discount: float, tolerance: float) -> NDArray[np.float64]:
    """Compute an agent's optimal action values with simulated teammates: [cells, actions, machine states]."""
    ends = [table.next_cell[table.dynamics, :, action, 0].astype(np.intp) for action in range(len(ACTIONS))]  # [U, S]
    weights, slipped = outcome_chances(table.slip), [slipped_actions(outcome) for outcome in range(OUTCOMES)]
    chance, reward, target = (
        np.moveaxis(part, 2, 0)[:, :, table.kind] for part in (table.chance, table.reward, table.next_state)
    )  # [J, U, S]
    value = np.zeros(chance.shape[1:])  # [U, S]
    cells, rows = np.arange(len(table.kind)), np.arange(len(value))[:, None]
    q = np.zeros((len(ACTIONS), *value.shape))
    for _ in range(MOST_SWEEPS):
        # What arriving in a cell is worth in each machine state, before the step settles.
        arrival = (chance * (reward + discount * value[target, cells])).sum(axis=0)
        moved = [arrival[rows, end] for end in ends]  # which outcomes of other actions share
        for action in range(len(ACTIONS)):
            parts = [moved[turned[action]] * weight for turned, weight in zip(slipped, weights, strict=True)]
            q[action] = sum(parts[1:], parts[0])
        q[:, table.is_final] = 0
        best = q.max(axis=0)
        change = np.abs(best - value).max()
        value = best
        if change <= tolerance * (1 - discount if discount < 1 else 1):
            break
    return np.ascontiguousarray(q.transpose(2, 0, 1))


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
