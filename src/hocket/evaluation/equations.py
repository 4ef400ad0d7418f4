"""The equations of an absorbing Markov chain, solved for any right side without a negative number.

`Elimination` solves them block by block; `Iteration` goes round them, which is quick where a chain mixes fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from hocket.evaluation.elimination import (
    LEAF,
    Factor,
    Floats,
    Front,
    Ints,
    Roundings,
    dissect,
    eliminate,
    make_fronts,
    solve_small,
    substitute,
)
from hocket.learn.kernels.compiler import kernel

Report = Callable[[str], None]  # is told in words how far it has come

SETTLED = 2.0**-50  # change of a value in a round, as a share of the largest value, below which it is rounding
ROUNDS = 10  # between two reports
PATIENCE = 0.25  # share of all rounds after which it looks whether the rest will do


class Blocks(NamedTuple):
    """Strongly connected blocks of states, in an order in which each leads to itself and earlier ones only."""

    begin: Ints  # [blocks + 1]
    state: Ints  # [n] the states of block b are state[begin[b]]..state[begin[b + 1] - 1]
    block: Ints  # [n + ends] of each state; -1 for the ends

    @property
    def large(self) -> list[int]:
        """List those that are worth a dissection."""
        return np.flatnonzero(np.diff(self.begin) > LEAF).tolist()


class Large(NamedTuple):
    """A block that is worth a dissection."""

    number: int  # of the block
    order: Ints  # its states, as they are taken out
    inside: csr_array  # [size, size] chances, in that order
    outside: csr_array  # [size, n + ends] chances of leaving the block
    fronts: list[Front]


class Elimination:
    """For each state: value * chance of leaving = right side + sum of chance * value over where it leads.

    `matrix` [n, n + ends] has the chances of changes between n states, from each of which an end can be reached, and to
    ends, whose values are given.
    """

    def __init__(self, matrix: csr_array, blocks: Blocks, places: Ints) -> None:
        self.matrix, self.blocks, self.roundings = matrix, blocks, Roundings()
        self.large = [self._dissect(number, places) for number in blocks.large]
        self.factors: list[list[Factor]] = []

    def _dissect(self, number: int, places: Ints) -> Large:
        """Find an order for a block in which few new ways arise."""
        states = self.blocks.state[self.blocks.begin[number] : self.blocks.begin[number + 1]]
        rows = self.matrix[states]
        inside = rows[:, states]
        links = inside.tocoo()
        groups = list(dissect(np.arange(len(states)), links.row, links.col, places[states]))
        order = np.concatenate(groups)
        inside = inside[order][:, order].sorted_indices()
        entries = rows[order].tocoo()
        leaves = self.blocks.block[entries.col] != number
        outside = coo_array((entries.data[leaves], (entries.row[leaves], entries.col[leaves])), shape=rows.shape)
        return Large(number, states[order], inside, outside.tocsr(), make_fronts(inside, groups))

    @property
    def work(self) -> float:
        """Count the multiplications that it takes to take out all states."""
        return sum(front.work for block in self.large for front in block.fronts)

    def run(self, report: Report) -> None:
        """Take out the states of all large blocks."""
        work, done = self.work, 0.0

        def add(more: float) -> None:
            nonlocal done
            done += more
            report(f"{done / work:.0%} of the states taken out")

        for block in self.large:
            absorbed = block.outside.sum(axis=1)
            self.factors.append(eliminate(block.inside, absorbed, block.fronts, self.roundings, add))

    @property
    def entries(self) -> int:
        """Count the numbers that are multiplied for a right side."""
        return int(self.matrix.nnz) + sum(front.entries for block in self.large for front in block.fronts)

    def solve(self, right: Floats, ends: Floats) -> Floats:
        """Find the values for a right side [n] and the values of the ends; returns both, [n + ends]."""
        values = np.concatenate([np.zeros(len(right)), ends])
        done = 0
        for block, factors in zip(self.large, self.factors, strict=True):
            self._solve_small(done, block.number, right, values)
            values[block.order] = substitute(factors, right[block.order] + block.outside @ values)
            done = block.number + 1
        self._solve_small(done, len(self.blocks.begin) - 1, right, values)
        return values

    def _solve_small(self, begin: int, end: int, right: Floats, values: Floats) -> None:
        rows, products = solve_small(
            begin, end, *self.blocks, self.matrix.indptr, self.matrix.indices, self.matrix.data, right, values,
            np.zeros((LEAF, LEAF + 1)), np.zeros((LEAF, 0)), np.zeros(LEAF), np.zeros(len(right), np.int64),
        )  # fmt: skip
        self.roundings.rows += rows
        self.roundings.products += products


def find_blocks(matrix: csr_array) -> Blocks:
    """Find the strongly connected blocks of states [n, n + ends], and sort them."""
    inner, ends = matrix[:, : matrix.shape[0]], matrix.shape[1] - matrix.shape[0]
    count, label = connected_components(inner, connection="strong")
    entries = inner.tocoo()
    above, below = label[entries.row], label[entries.col]
    differ = above != below
    links = coo_array((np.ones(differ.sum()), (above[differ], below[differ])), shape=(count, count)).tocsr()
    back = links.T.tocsr()
    rank = np.zeros(count, np.int64)
    sort_blocks(back.indptr, back.indices, np.diff(links.indptr).astype(np.int64), np.zeros(count, np.int64), rank)
    block = rank[label]
    begin = np.concatenate([[0], np.cumsum(np.bincount(block, minlength=count))])
    return Blocks(begin, np.argsort(block, kind="stable"), np.concatenate([block, np.full(ends, -1)]))


@kernel
def sort_blocks(first: Ints, source: Ints, left: Ints, queue: Ints, rank: Ints) -> None:
    """Rank blocks so that each comes after those that it leads to; `left` counts those that have no rank yet."""
    begin, end = 0, 0
    for block in range(len(left)):
        if left[block] == 0:
            queue[end] = block
            end += 1
    while begin < end:
        rank[queue[begin]] = begin
        for link in range(first[queue[begin]], first[queue[begin] + 1]):
            left[source[link]] -= 1
            if left[source[link]] == 0:
                queue[end] = source[link]
                end += 1
        begin += 1


class Iteration:
    """Brings values up to date one after the other, with the newest of the others (Gauss and Seidel).

    Starts below the solution, and stays there but for rounding. Where `order` begins near the goal, a round carries
    values a long way. What it finds is no proof of anything: somebody has to check it.
    """

    def __init__(self, matrix: csr_array, order: Ints, rounds: int, report: Callable[[str], None]) -> None:
        self.order, self.rounds, self.report = order, rounds, report
        self.entries = matrix.indptr, matrix.indices, matrix.data
        self.leaving: Floats = matrix.sum(axis=1)

    def solve(self, right: Floats, ends: Floats) -> Floats | None:
        """Find the values for a right side [n] and the values of the ends, [n + ends]; None if it takes too long."""
        values = np.concatenate([np.zeros(len(right)), ends])
        change = np.inf
        for done in range(ROUNDS, self.rounds + 1, ROUNDS):
            before = change
            for _ in range(ROUNDS):
                change = update_values(self.order, *self.entries, self.leaving, right, values)
            settled = SETTLED * values.max()
            if change <= settled:
                return values
            left = (self.rounds - done) / ROUNDS
            if done > PATIENCE * self.rounds and change * (change / before) ** left > settled:
                return None
            self.report(f"{done:,} rounds, at most {self.rounds:,}")
        return None


@kernel
def update_values(
    order: Ints, first: Ints, target: Ints, chance: Floats, leaving: Floats, right: Floats, values: Floats
) -> float:
    """Bring each value up to date once; return the largest change."""
    largest = 0.0
    for state in order:
        total = right[state]
        for entry in range(first[state], first[state + 1]):
            total += chance[entry] * values[target[entry]]
        total /= leaving[state]
        largest = max(largest, abs(total - values[state]))
        values[state] = total
    return largest
