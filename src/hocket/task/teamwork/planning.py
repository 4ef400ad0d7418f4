"""Optimal action values of one agent, in numpy alone: value iteration where something still changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import flood, ranges
from hocket.task.grid import ACTIONS
from hocket.task.individual import IndividualTable

PRECISION = 1e-9  # of a value, as a part of it
MOST_PASSES = 100_000

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


class Planner:
    """Plans for one agent, in the product of world and machine.

    A *pair* is a machine state and a cell, number state x cells + cell. An arrival is a machine state and the arrival
    of a step, numbered likewise. What teammates are expected to do changes the chances alone: a plan is given them.
    """

    def __init__(self, table: IndividualTable, end_of: NDArray[np.integer], chance_of: Doubles) -> None:
        """Take where actions lead, and how likely: [D, S, A, K] each."""
        states, cells, arrivals = len(table.dynamics), table.cells, len(table.kind)
        begin = (np.arange(states) * arrivals)[:, None] + table.offset  # [U, S]
        end = begin[..., None, None] + end_of[table.dynamics]  # [U, S, A, K]
        self.end: Ints = end.reshape(states * cells, -1).astype(np.int64)  # [pairs, A x K] arrivals before settling
        self.weight = chance_of[table.dynamics].reshape(states * cells, len(ACTIONS), -1)  # how likely they are
        self.stay = (begin + np.arange(cells)).ravel()  # [pairs] the arrival of an agent that stays
        target = table.next_state[:, table.kind].astype(np.int64) * cells + (np.arange(arrivals) % cells)[:, None]
        self.target: Ints = target.reshape(states * arrivals, -1)  # [arrivals, J] the pair after it
        self.is_final = np.repeat(table.is_final, cells)  # [pairs]
        self.pairs_before = _Sources(self.end, len(self.target))
        self.arrivals_of = _Sources(self.target, len(self.end))

    def chances(self, table: IndividualTable) -> tuple[Doubles, Doubles]:
        """Tabulate how likely each outcome of an arrival is, [arrivals, J], and what it pays on average, [arrivals]."""
        chance, is_over = table.chance[:, table.kind], np.repeat(table.is_final, len(table.kind))
        reward = (chance * table.reward[:, table.kind]).sum(axis=2).ravel()
        return np.where(is_over[:, None], 0.0, chance.reshape(len(is_over), -1)), np.where(is_over, 0.0, reward)

    def values(self, table: IndividualTable, discount: float) -> NDArray[np.float32]:
        """Compute optimal action values by the chances of a table: [cells, actions, machine states].

        In each pass those pairs are looked at that depend on something that has changed, so that a pass costs as much
        as the front at which values spread. What staying is worth until an event happens is computed at once, where
        passes would take long. Exact up to a small part of each value, however small that is.
        """
        chance, reward = self.chances(table)
        value, arrival = np.zeros(len(self.end)), reward.copy()
        itself, target = np.arange(len(value)), self.target[self.stay]
        loop = np.where(target == itself[:, None], chance[self.stay], 0.0)
        leaving, stays = chance[self.stay] - loop, 1 / (1 - discount * loop.sum(axis=1))
        fresh = np.flatnonzero(arrival)  # arrivals that are worth something else than before
        for _ in range(MOST_PASSES):
            pairs = self.pairs_before.of(fresh)
            pairs = pairs[~self.is_final[pairs]]
            best = self._moves(pairs, arrival).max(axis=1)
            paid = reward[self.stay[pairs]]
            waiting = (paid + discount * _expected(leaving, target, value, pairs)) * stays[pairs]
            best = np.maximum(best, waiting)
            changed = np.abs(best - value[pairs]) > PRECISION * np.abs(best)
            pairs = pairs[changed]
            if not len(pairs):
                break
            value[pairs] = best[changed]
            fresh = self.arrivals_of.of(pairs)
            arrival[fresh] = reward[fresh] + discount * _expected(chance, self.target, value, fresh)
        q = self._moves(itself, arrival)
        q[self.is_final] = 0
        states, cells = len(table.dynamics), table.cells
        return np.ascontiguousarray(q.reshape(states, cells, -1).transpose(1, 2, 0).astype(np.float32))

    def reachable_states(self, table: IndividualTable) -> NDArray[np.bool_]:
        """Flag the machine states in which the agent can end a step, however its moves and its teammates turn out."""
        chance, _ = self.chances(table)

        def following(front: NDArray[np.integer]) -> NDArray[np.integer]:
            arrived = np.unique(self.end[front])
            reached: NDArray[np.integer] = self.target[arrived][chance[arrived] > 0]
            return reached

        seen = flood(len(self.end), table.initial * table.cells + table.starts, following)
        states: NDArray[np.bool_] = np.logical_or.reduce(seen.reshape(len(table.dynamics), -1), axis=1)
        return states

    def _moves(self, pairs: Ints, arrival: Doubles) -> Doubles:
        """Compute what each action is worth by what it is worth to arrive: [pairs, A]."""
        weight = self.weight[pairs]
        worth = arrival[self.end[pairs]].reshape(weight.shape)
        expected: Doubles = np.einsum("pak,pak->pa", weight, worth)
        return expected


class _Sources:
    """The rows of a table in which a number below some limit stands: [rows, any]."""

    def __init__(self, table: Ints, numbers: int) -> None:
        order = np.argsort(table, axis=None, kind="stable")
        self.row = order // table.shape[1]
        self.first = np.searchsorted(table.ravel()[order], np.arange(numbers + 1)).astype(np.int32)
        self.is_listed = np.zeros(len(table), np.bool_)

    def of(self, numbers: Ints) -> Ints:
        """List the rows in which any of some numbers stands, in order."""
        self.is_listed[self.row[ranges(self.first[numbers], self.first[numbers + 1])]] = True
        rows = np.flatnonzero(self.is_listed)
        self.is_listed[rows] = False
        return rows


def _expected(chance: Doubles, target: Ints, value: Doubles, pairs: Ints) -> Doubles:
    expected: Doubles = (chance[pairs] * value[target[pairs]]).sum(axis=1)
    return expected
