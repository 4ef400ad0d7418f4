"""Optimal action values of one agent, in numpy: value iteration that updates only states whose successors changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import flood, ranges
from hocket.task.grid import ACTIONS
from hocket.task.individual import IndividualTable

PRECISION = 1e-9  # relative, of values
MOST_PASSES = 100_000

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


class Planner:
    """Plans for one agent, in the product of its moves and its machine. A *pair* is a machine state and a cell, with
    the number state x cells + cell; here an arrival is a machine state and the arrival of a step, numbered likewise.
    Plans may differ in the probabilities of outcomes, but not in the moves."""

    def __init__(self, table: IndividualTable, end_of: NDArray[np.integer], chance_of: Doubles) -> None:
        """Take the cells to which actions lead, and their probabilities: [D, S, A, K] each."""
        states, cells, arrivals = len(table.dynamics), table.cells, len(table.kind)
        begin = (np.arange(states) * arrivals)[:, None] + table.offset  # [U, S]
        end = begin[..., None, None] + end_of[table.dynamics]  # [U, S, A, K]
        self.end: Ints = end.reshape(states * cells, -1).astype(np.int64)  # [pairs, A x K] arrivals before settling
        self.weight = chance_of[table.dynamics].reshape(states * cells, len(ACTIONS), -1)  # their probabilities
        self.stay = (begin + np.arange(cells)).ravel()  # [pairs] the arrival of an agent that stays
        target = table.next_state[:, table.kind].astype(np.int64) * cells + (np.arange(arrivals) % cells)[:, None]
        self.target: Ints = target.reshape(states * arrivals, -1)  # [arrivals, J] the pair after it
        self.is_final = np.repeat(table.is_final, cells)  # [pairs]
        self.pairs_before, self.arrivals_before = _Rows(self.end, len(self.target)), _Rows(self.target, len(self.end))

    def chances(self, table: IndividualTable) -> tuple[Doubles, Doubles]:
        """Tabulate the probabilities of outcomes of arrivals, [arrivals, J], and mean rewards, [arrivals]."""
        chance, is_over = table.chance[:, table.kind], np.repeat(table.is_final, len(table.kind))
        reward = (chance * table.reward[:, table.kind]).sum(axis=2).ravel()
        return np.where(is_over[:, None], 0.0, chance.reshape(len(is_over), -1)), np.where(is_over, 0.0, reward)

    def values(self, table: IndividualTable, discount: float) -> NDArray[np.float32]:
        """Compute optimal action values: [cells, actions, machine states]. Each pass updates only pairs whose
        successors have changed; the value of staying until an event happens, which would take many passes, is computed
        in closed form."""
        chance, reward = self.chances(table)
        value, arrival_value = np.zeros(len(self.end)), reward.copy()
        itself, target = np.arange(len(value)), self.target[self.stay]
        loop = np.where(target == itself[:, None], chance[self.stay], 0.0)
        leave, stays = chance[self.stay] - loop, 1 / (1 - discount * loop.sum(axis=1))
        changed = np.flatnonzero(arrival_value)  # arrivals
        for _ in range(MOST_PASSES):
            pairs = self.pairs_before.with_any(changed)
            pairs = pairs[~self.is_final[pairs]]
            best = self._action_values(pairs, arrival_value).max(axis=1)
            later = (leave[pairs] * value[target[pairs]]).sum(axis=1)
            best = np.maximum(best, (reward[self.stay[pairs]] + discount * later) * stays[pairs])
            is_changed = np.abs(best - value[pairs]) > PRECISION * np.abs(best)
            pairs = pairs[is_changed]
            if not len(pairs):
                break
            value[pairs] = best[is_changed]
            changed = self.arrivals_before.with_any(pairs)
            later = (chance[changed] * value[self.target[changed]]).sum(axis=1)
            arrival_value[changed] = reward[changed] + discount * later
        q = self._action_values(itself, arrival_value)
        q[self.is_final] = 0
        states, cells = len(table.dynamics), table.cells
        return np.ascontiguousarray(q.reshape(states, cells, -1).transpose(1, 2, 0).astype(np.float32))

    def reachable_states(self, table: IndividualTable) -> NDArray[np.bool_]:
        """Flag the machine states in which the agent can end a step, for any outcomes of its moves and events."""
        chance, _ = self.chances(table)

        def successors(front: NDArray[np.integer]) -> NDArray[np.integer]:
            arrived = np.unique(self.end[front])
            reached: NDArray[np.integer] = self.target[arrived][chance[arrived] > 0]
            return reached

        seen = flood(len(self.end), table.initial * table.cells + table.starts, successors)
        states: NDArray[np.bool_] = np.logical_or.reduce(seen.reshape(len(table.dynamics), -1), axis=1)
        return states

    def _action_values(self, pairs: Ints, arrival_value: Doubles) -> Doubles:
        """Compute action values from the values of arrivals: [pairs, A]."""
        weight = self.weight[pairs]
        q: Doubles = np.einsum("pak,pak->pa", weight, arrival_value[self.end[pairs]].reshape(weight.shape))
        return q


class _Rows:
    """An index of the rows of a table by the numbers in them, which are below a limit: [rows, any]."""

    def __init__(self, table: Ints, limit: int) -> None:
        order = np.argsort(table, axis=None, kind="stable")
        self.row = order // table.shape[1]
        self.first = np.searchsorted(table.ravel()[order], np.arange(limit + 1)).astype(np.int32)
        self.is_listed = np.zeros(len(table), np.bool_)

    def with_any(self, numbers: Ints) -> Ints:
        """List the rows that contain any of some numbers, in order."""
        self.is_listed[self.row[ranges(self.first[numbers], self.first[numbers + 1])]] = True
        rows = np.flatnonzero(self.is_listed)
        self.is_listed[rows] = False
        return rows
