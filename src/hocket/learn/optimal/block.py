"""Optimal local policies: value iteration on the product of each agent's map and machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.arrays import Doubles, Floats, Words
from hocket.learn.learner import Arrays, machine_shapes
from hocket.learn.optimal import OptimalSettings, kernel
from hocket.learn.world import cells_before, distinct
from hocket.task.grid import ACTIONS, OUTCOMES, outcome_probabilities, slipped_actions
from hocket.task.individual import IndividualTable, Simulation
from hocket.task.tables import Tables

MOST_PASSES = 100_000
SMALL = 10_000  # pairs of a machine state and a cell, up to which compiling would take longer than all else


class OptimalBlock:
    """Optimal local policies; all seeds share them."""

    def __init__(self, tables: Tables, settings: OptimalSettings, seeds: Sequence[int], threads: int = 1) -> None:
        self.q = np.zeros(machine_shapes(tables)["q"], np.float32)
        simulation = Simulation(tables, settings.sync_probability, settings.sync_literal)
        for alike in simulation.alike():
            table = simulation.table(int(alike[0]))
            q = solve(table, settings.discount, settings.tolerance)
            self.q[alike, :, :, : len(table.is_final)] = q

    def train(self, begin: int, steps: int) -> None:
        pass  # there is nothing to learn

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q}


def solve(table: IndividualTable, discount: float, tolerance: float) -> NDArray[np.floating[Any]]:
    """Compute an agent's optimal action values with simulated teammates: [cells, actions, machine states]."""
    is_small = len(table.dynamics) * table.cells <= SMALL
    return (solve_at_once if is_small else solve_in_order)(table, discount, tolerance)


def solve_at_once(table: IndividualTable, discount: float, tolerance: float) -> Doubles:
    """Compute optimal action values in sweeps over all machine states and cells, with nothing to compile."""
    ends = [table.next_cell[table.dynamics, :, action, 0] + table.offset for action in range(len(ACTIONS))]  # [U, S]
    weights, slipped = outcome_probabilities(table.slip), [slipped_actions(outcome) for outcome in range(OUTCOMES)]
    outcomes = (table.chance, table.reward, table.next_state)
    chance, reward, target = (np.moveaxis(part, 2, 0)[:, :, table.kind] for part in outcomes)  # [J, U, arrivals]
    value = np.zeros((len(table.dynamics), table.cells))  # [U, S]
    cells, rows = np.arange(len(table.kind)) % table.cells, np.arange(len(value))[:, None]
    q = np.zeros((len(ACTIONS), *value.shape))
    for _ in range(MOST_PASSES):
        arrival = (chance * (reward + discount * value[target, cells])).sum(axis=0)  # values before the step settles
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


def solve_in_order(table: IndividualTable, discount: float, tolerance: float) -> Floats:
    """Compute optimal action values by updating only what may still change, nearest to the rewards first."""
    world, states = _planning_tables(table, discount), len(table.dynamics)
    pairs = states * table.cells
    best, arrival, is_waiting = np.zeros(pairs), np.zeros(states * len(table.kind)), np.zeros(pairs, np.bool_)
    order, size, ahead, behind = (np.zeros(length, np.int64) for length in (pairs, 1, 1, 2))
    values = kernel.Values(best, arrival, order, np.full(pairs, -1), is_waiting, size, ahead, behind)
    kernel.put_in_order(world, values)
    threshold = tolerance * (1 - discount if discount < 1 else 1)
    for _ in range(MOST_PASSES):
        if kernel.improve(world, values, threshold) == 0:
            break
    q = np.zeros((table.cells, len(ACTIONS), states), np.float32)
    kernel.tabulate(world, values, q)
    return q


def _planning_tables(table: IndividualTable, discount: float) -> kernel.PlanningTables:
    """Make the kernels' tables."""
    end = table.next_cell[: table.dynamics.max() + 1, ..., 0].astype(np.int32)  # other agents may have more dynamics
    dynamics, kind, next_state = (part.astype(np.int32) for part in (table.dynamics, table.kind, table.next_state))
    outcomes, predecessors = (table.chance, table.reward, next_state), (*cells_before(end), *_sources(table))
    moves, (straight, aside, _) = (end + table.offset[:, None], dynamics, kind), outcome_probabilities(table.slip)
    return kernel.PlanningTables(*moves, *outcomes, table.is_final, *predecessors, straight, aside, float(discount))


def _sources(table: IndividualTable) -> tuple[Words, Words]:
    """List the states from which a kind of step may lead to a machine state: where the list of each state and kind
    begins, [U x H + 1], and all lists."""
    states, kinds, _ = table.chance.shape
    source, kind, case = np.nonzero(table.chance)
    row = table.next_state[source, kind, case].astype(np.int64) * kinds + kind
    pairs = distinct(row * states + source)
    first = np.searchsorted(pairs, np.arange(states * kinds + 1) * states)
    return first.astype(np.int32), (pairs % states).astype(np.int32)


def extra_bytes(tables: Tables) -> int:
    """Estimate the bytes for planning, of one agent at a time."""
    _, cells, actions, states = machine_shapes(tables)["q"]
    return cells * (states * 8 * 3 + (2 * actions + 2) * 8) + tables.arrivals * states * 8
