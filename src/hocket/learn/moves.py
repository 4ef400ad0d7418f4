"""Where moves lead and where they come from, for learners that plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.task.grid import Numbers

Words = NDArray[np.int32]


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """List the numbers that occur, in order. `np.unique` would look them up one by one, which takes a hundred times as
    long for the millions of pairs of a large map.

    >>> distinct(np.array([[3, 1], [1, 2]])).tolist()
    [1, 2, 3]
    """
    ordered = np.sort(numbers, axis=None, kind="stable")  # which finds runs that are in order already
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def cells_before(end: Numbers) -> tuple[Words, Words]:
    """List for each cell, in order, those from which an action may lead to it, whichever gates are open.

    `end` is where actions lead if they do not slip, [D, S, A]: what slips leads where another action would. Returns
    where each cell's list begins [S + 1], and all of them one after the other.

    >>> cells_before(np.array([[[1, 0], [2, 1], [2, 2]]], np.int32))  # three cells in a row: go right, or stay
    (array([0, 1, 3, 5], dtype=int32), array([0, 0, 1, 1, 2], dtype=int32))
    """
    cells = end.shape[1]
    pairs = distinct(end * np.int64(cells) + np.arange(cells)[:, None])
    first = np.searchsorted(pairs, np.arange(cells + 1) * cells)
    return first.astype(np.int32), (pairs % cells).astype(np.int32)


def number_moves(next_cell: Numbers) -> tuple[Words, Words]:
    """Number what actions in cells lead to, [D, S, A]; those that gates do not change are the same in all dynamics.

    Also returns where each leads: [moves, K].
    """
    dynamics, cells, actions, outcomes = next_cell.shape
    move = np.arange(cells * actions, dtype=np.int32).reshape(cells, actions)
    move, end = np.repeat(move[None], dynamics, axis=0), next_cell[0].reshape(-1, outcomes).astype(np.int32)
    changed = np.nonzero((next_cell != next_cell[0]).any(axis=3))  # few, as gates close few cells
    rows = np.column_stack((move[changed], next_cell[changed]))
    others, which = np.unique(rows, axis=0, return_inverse=True)
    move[changed] = len(end) + which.ravel()
    return move, np.concatenate((end, others[:, 1:].astype(np.int32)))


class MoveTable(NamedTuple):
    """All that a planner needs to know of the moves of a world; agents that live in it share them."""

    move: Words  # [D, S, A] which move an action is
    end: Words  # [moves, K] where it leads
    first_before: Words  # [S + 1] where the cells begin from which a move may lead to a cell ...
    before: Words  # ... in this list


def list_moves(next_cell: Numbers) -> MoveTable:
    """Number moves, and list what leads to where."""
    return MoveTable(*number_moves(next_cell), *cells_before(next_cell[..., 0]))
