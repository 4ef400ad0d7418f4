"""The equations of an absorbing Markov chain, solved for any right side by state elimination or by iteration.

`Elimination` eliminates states block by block, without a single subtraction: transitions through a state are replaced
by direct ones, so that the probability of going from i to j grows by that of going from i to the state times the share
of j in leaving it. The probability of leaving it is a sum, too. So numbers are only added, multiplied and divided, all
of them non-negative, and every rounding changes a probability by a factor close to 1, however slowly the chain mixes
(Grassmann, Taksar and Heyman 1985). `Roundings` counts them. `Iteration` is quick where a chain mixes fast.

States are ordered by nested dissection, so that most of the work is on dense fronts: the states that are eliminated
(pivots), and the remaining ones that lead to them or that they lead to (the border).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from hocket.learn.kernels.compiler import inlined, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Report = Callable[[str], None]  # is called with sentences about the progress

LEAF = 96  # states that are not dissected further
PANEL = 32  # pivots that are eliminated at once
WIDE = 500  # rows of a front from which on threads are worth it
THREADS = os.cpu_count() or 1
SETTLED = 2.0**-50  # change of a value in a round, as a share of the largest value, below which it is rounding
ROUNDS = 10  # between two reports
PATIENCE = 0.25  # share of all rounds after which iteration ends if the others will not suffice


class Chain(NamedTuple):
    """Transitions of states 0..n - 1, sorted by state; targets from n on are ends, or one, the goal. With the remaining
    probability a state stays."""

    first: Ints  # [n + 1] the transitions of state s are first[s]..first[s + 1] - 1
    target: Ints  # [transitions]
    probability: Floats  # [transitions] above 0

    @property
    def states(self) -> int:
        return len(self.first) - 1


class Front(NamedTuple):
    """Pivots, and the remaining states that they are connected to, by their positions in the order of elimination."""

    begin: int  # pivots are begin..end - 1
    end: int
    border: Ints
    children: list[int]  # earlier fronts whose borders begin among these pivots

    @property
    def work(self) -> float:
        """Count the multiplications that it takes."""
        pivots, border = float(self.end - self.begin), float(len(self.border))
        return ((pivots + border) ** 3 - border**3) / 3

    @property
    def entries(self) -> int:
        """Count the probabilities that are kept of it."""
        return (self.end - self.begin) * (self.end - self.begin + 2 * len(self.border))


class Factor(NamedTuple):
    """A front whose pivots have been eliminated."""

    states: Ints  # [pivots + border]
    columns: Floats  # [pivots + border, pivots] shares of leaving above the diagonal, probabilities of arriving below
    border_columns: Floats  # [pivots, border] shares of leaving
    leaving: Floats  # [pivots] probability of leaving in a step


@dataclass
class Roundings:
    """How often rounding may have changed numbers."""

    rows: int = 0  # of probabilities, in each of which a state was replaced by its successors
    sums: int = 0  # rows of probabilities to which another front's were added
    products: float = 0.0  # that may have been too small for floating point


class Blocks(NamedTuple):
    """Strongly connected blocks of states, in an order in which each leads to itself and earlier ones only."""

    begin: Ints  # [blocks + 1]
    state: Ints  # [n] the states of block b are state[begin[b]]..state[begin[b + 1] - 1]
    block: Ints  # [n + ends] of each state; -1 for the ends

    @property
    def large(self) -> list[int]:
        """List those that are worth a dissection."""
        return np.flatnonzero(np.diff(self.begin) > LEAF).tolist()


class LargeBlock(NamedTuple):
    """A block that is worth a dissection."""

    number: int  # of the block
    order: Ints  # its states, in the order of elimination
    inside: csr_array  # [size, size] probabilities, in that order
    outside: csr_array  # [size, n + ends] probabilities of leaving the block
    fronts: list[Front]


class Workspace(NamedTuple):
    """Arrays in which small blocks are solved."""

    table: Floats  # [LEAF, LEAF + 1]
    leaving: Floats  # [LEAF]
    position: Ints  # [n]


# The order.


def dissect(states: Ints, source: Ints, target: Ints, places: Ints) -> Iterator[Ints]:
    """Split a block of states into two, each of these likewise, and their separator, which comes after both.

    `source` and `target` are the positions of linked states. `places` [states, d] are any coordinates, in one of which
    a block is cut in the middle; separators are small if connected states are close to each other.
    """
    cuts = [cut for column in places.T for cut in _cuts(column, source, target)] if len(states) > LEAF else []
    if not cuts:
        yield states
        return
    _, side = min(cuts, key=itemgetter(0))
    for half in (1, 2):
        chosen = side == half
        if chosen.any():
            number = np.cumsum(chosen) - 1
            inside = chosen[source] & chosen[target]
            yield from dissect(states[chosen], number[source[inside]], number[target[inside]], places[chosen])
    if (side == 0).any():
        yield states[side == 0]


def _cuts(column: Ints, source: Ints, target: Ints) -> Iterator[tuple[float, NDArray[np.int8]]]:
    """Cut states in the middle of a coordinate: side 1, side 2, and 0 for those of one side that touch the other; with
    a cost that is small for small separators and equal sides."""
    middle = np.median(column)
    high = column > middle if (column > middle).any() else column >= middle
    crosses = high[source] != high[target]
    touched = np.concatenate([source[crosses], target[crosses]])
    for is_high in (False, True) if not high.all() else ():
        side = np.where(high, 2, 1).astype(np.int8)
        side[touched[high[touched] == is_high]] = 0
        separator, *halves = np.bincount(side, minlength=3).tolist()
        yield separator / (1 + min(halves)), side


def make_fronts(matrix: csr_array, groups: Sequence[Ints]) -> list[Front]:
    """Find the border of each group of pivots; states are numbered in the order of elimination."""
    pattern = matrix + matrix.T
    ends = np.cumsum([len(group) for group in groups])
    fronts: list[Front] = []
    children: list[list[int]] = [[] for _ in groups]
    for number, (group, end) in enumerate(zip(groups, ends.tolist(), strict=True)):
        begin = end - len(group)
        near = [pattern.indices[pattern.indptr[begin] : pattern.indptr[end]].astype(np.int64)]
        border = np.unique(np.concatenate(near + [fronts[child].border for child in children[number]]))
        border = border[border >= end]
        fronts.append(Front(begin, end, border, children[number]))
        if len(border):
            children[int(np.searchsorted(ends, border[0], side="right"))].append(number)
    return fronts


# The elimination.


def eliminate(block: LargeBlock, roundings: Roundings, pool: Executor) -> Iterator[tuple[Front, Factor]]:
    """Eliminate the states of a block, front by front."""
    fronts, rows, absorbed = block.fronts, block.inside, block.outside.sum(axis=1)
    columns = rows.tocsc()
    position = np.zeros(len(absorbed), np.int64)  # of states in the table of a front
    updates: dict[int, Floats] = {}  # by front: of its border, with a last column for what is absorbed
    for number, (begin, end, border, children) in enumerate(fronts):
        index, pivots = np.concatenate([np.arange(begin, end), border]), end - begin
        position[index] = np.arange(len(index))
        table = np.zeros((len(index), len(index) + 1))
        out, into = rows[begin:end].tocoo(), columns[:, begin:end].tocoo()
        later = out.col >= begin
        table[out.row[later], position[out.col[later]]] = out.data[later]
        later = into.row >= end
        table[position[into.row[later]], into.col[later]] = into.data[later]
        table[:pivots, -1] = absorbed[begin:end]
        for child in children:
            add_update(table, updates.pop(child), position[fronts[child].border])
            roundings.sums += len(fronts[child].border)
        yield fronts[number], _reduce(table, index, pivots, roundings, pool)
        updates[number] = table[pivots:, pivots:].copy()


def _reduce(table: Floats, index: Ints, pivots: int, roundings: Roundings, pool: Executor) -> Factor:
    """Eliminate the first states of a dense table."""
    size = len(table)
    leaving = np.zeros(pivots)
    for begin in range(0, pivots, PANEL):
        end = min(begin + PANEL, pivots)
        changed = factor_panel(table, begin, end, leaving)
        if size - end < WIDE:
            changed += update_rows(table, begin, end, end, size)
        else:
            cuts = np.linspace(end, size, 1 + THREADS).astype(int).tolist()
            changed += sum(pool.map(partial(update_rows, table, begin, end), cuts[:-1], cuts[1:]))
        roundings.rows += changed
        roundings.products += float(changed) * (size - begin + 1)
    return Factor(index, table[:, :pivots].copy(), table[:pivots, pivots:-1].copy(), leaving)


@inlined
def careful_sum(table: Floats, row: int, begin: int, end: int) -> float:
    """Add up a part of a row with what each addition loses, so that the result is off by two roundings at most."""
    total, lost = 0.0, 0.0
    for column in range(begin, end):
        value = table[row, column]
        after = total + value
        lost += (total - after) + value if total >= value else (value - after) + total
        total = after
    return total + lost


@inlined
def replace_one(table: Floats, row: int, pivot: int, begin: int, end: int) -> None:
    """Replace a pivot by its successors, in some columns of a row."""
    probability = table[row, pivot]
    for column in range(begin, end):
        table[row, column] += probability * table[pivot, column]


@inlined
def replace_four(table: Floats, row: int, pivot: int, begin: int, end: int) -> None:
    """Replace four pivots one after the other, with the same roundings, but reading each column once."""
    one, two, three, four = table[row, pivot], table[row, pivot + 1], table[row, pivot + 2], table[row, pivot + 3]
    for column in range(begin, end):
        value = table[row, column] + one * table[pivot, column]
        value = value + two * table[pivot + 1, column]
        value = value + three * table[pivot + 2, column]
        table[row, column] = value + four * table[pivot + 3, column]


@kernel
def factor_panel(table: Floats, begin: int, end: int, leaving: Floats) -> int:
    """Replace earlier pivots of their panel in the rows of pivots, and turn probabilities into shares of leaving."""
    changed, width = 0, table.shape[1]
    for row in range(begin, end):
        for pivot in range(begin, row):
            if table[row, pivot] > 0:
                changed += 1
                replace_one(table, row, pivot, pivot + 1, width)
        leaving[row] = careful_sum(table, row, row + 1, width)
        for column in range(row + 1, width):
            table[row, column] /= leaving[row]
    return changed


@kernel
def update_rows(table: Floats, begin: int, end: int, first: int, last: int) -> int:
    """Replace a panel's pivots by their successors, in the rows first..last - 1."""
    changed, width = 0, table.shape[1]
    for row in range(first, last):
        before = changed
        for pivot in range(begin, end):
            if table[row, pivot] > 0:
                changed += 1
                replace_one(table, row, pivot, pivot + 1, end)
        if changed > before:
            fours = end - (end - begin) % 4
            for pivot in range(begin, fours, 4):
                replace_four(table, row, pivot, end, width)
            for pivot in range(fours, end):
                replace_one(table, row, pivot, end, width)
    return changed


@kernel
def add_update(table: Floats, update: Floats, position: Ints) -> None:
    """Add the update of an earlier front to the table of one."""
    size, last = len(position), table.shape[1] - 1
    for row in range(size):
        for column in range(size):
            table[position[row], position[column]] += update[row, column]
        table[position[row], last] += update[row, size]


# Right sides.


def substitute(factors: Sequence[Factor], right: Floats) -> Floats:
    """Solve for a right side, in the order of elimination: what is collected per step until all is over."""
    values = right.copy()
    for factor in factors:
        substitute_forward(factor.columns, factor.leaving, factor.states, values)
    for factor in reversed(factors):
        substitute_back(factor.columns, factor.border_columns, factor.states, values)
    return values


@kernel
def substitute_forward(columns: Floats, leaving: Floats, index: Ints, values: Floats) -> None:
    """Pass on what a front's pivots collect."""
    pivots = len(leaving)
    for row in range(len(index)):
        total = values[index[row]]
        for pivot in range(min(row, pivots)):
            total += columns[row, pivot] * values[index[pivot]]
        values[index[row]] = total / leaving[row] if row < pivots else total


@kernel
def substitute_back(columns: Floats, border_columns: Floats, index: Ints, values: Floats) -> None:
    """Compute the values of a front's pivots from those of all later states."""
    pivots = columns.shape[1]
    for row in range(pivots - 1, -1, -1):
        total, lost = values[index[row]], 0.0
        for column in range(row + 1, len(index)):
            share = columns[row, column] if column < pivots else border_columns[row, column - pivots]
            value = share * values[index[column]]
            after = total + value
            lost += (total - after) + value if total >= value else (value - after) + total
            total = after
        values[index[row]] = total + lost


@kernel
def solve_small(
    from_block: int, to_block: int, blocks: Blocks, rows: Chain, right: Floats, values: Floats, workspace: Workspace
) -> tuple[int, float]:
    """Solve small blocks one after the other; return how many rows and numbers rounding may have changed."""
    changes, products = 0, 0.0
    for number in range(from_block, to_block):
        inside = blocks.state[blocks.begin[number] : blocks.begin[number + 1]]
        size = len(inside)
        small = workspace.table[:size, : size + 1]
        for row in range(size):
            workspace.position[inside[row]] = row
            for column in range(size + 1):
                small[row, column] = 0.0
        for row in range(size):
            collected = right[inside[row]]
            for entry in range(rows.first[inside[row]], rows.first[inside[row] + 1]):
                target, probability = rows.target[entry], rows.probability[entry]
                if blocks.block[target] == number:
                    small[row, workspace.position[target]] = probability
                else:
                    small[row, size] += probability
                    collected += probability * values[target]
            values[inside[row]] = collected
        changed = factor_panel(small, 0, size, workspace.leaving)
        substitute_forward(small, workspace.leaving[:size], inside, values)
        substitute_back(small[:, :size], small[:, size:], inside, values)  # a small block has no border
        changes += changed
        products += float(changed) * (size + 1)
    return changes, products


# The equations as a whole.


class Elimination:
    """For each state: value * probability of leaving = right side + sum of probability * value over its successors.
    `matrix` [n, n + ends] has the probabilities of transitions between n states, from each of which an end can be
    reached, and to ends, whose values are given."""

    def __init__(self, matrix: csr_array, blocks: Blocks, places: Ints) -> None:
        self.matrix, self.blocks, self.roundings = matrix, blocks, Roundings()
        self.large = [self._dissect(number, places) for number in blocks.large]
        self.factors: list[list[Factor]] = []
        self.rows = Chain(matrix.indptr, matrix.indices, matrix.data)
        self.workspace = Workspace(np.zeros((LEAF, LEAF + 1)), np.zeros(LEAF), np.zeros(matrix.shape[0], np.int64))

    def _dissect(self, number: int, places: Ints) -> LargeBlock:
        """Find an order of elimination for a block, with little fill-in."""
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
        return LargeBlock(number, states[order], inside, outside.tocsr(), make_fronts(inside, groups))

    @property
    def work(self) -> float:
        """Count the multiplications that it takes to eliminate all states."""
        return sum(front.work for block in self.large for front in block.fronts)

    @property
    def entries(self) -> int:
        """Count the numbers that are multiplied for a right side."""
        return int(self.matrix.nnz) + sum(front.entries for block in self.large for front in block.fronts)

    def run(self, report: Report) -> None:
        """Eliminate the states of all large blocks."""
        work, done = self.work, 0.0
        with ThreadPoolExecutor(THREADS) as pool:
            for block in self.large:
                self.factors.append([])
                for front, factor in eliminate(block, self.roundings, pool):
                    self.factors[-1].append(factor)
                    done += front.work
                    report(f"{done / work:.0%} of the states eliminated")

    def solve(self, right: Floats, ends: Floats) -> Floats:
        """Compute the values for a right side [n] and the values of the ends; returns both, [n + ends]."""
        values = np.concatenate([np.zeros(len(right)), ends])
        done = 0
        for block, factors in zip(self.large, self.factors, strict=True):
            self._solve_small(done, block.number, right, values)
            values[block.order] = substitute(factors, right[block.order] + block.outside @ values)
            done = block.number + 1
        self._solve_small(done, len(self.blocks.begin) - 1, right, values)
        return values

    def _solve_small(self, begin: int, end: int, right: Floats, values: Floats) -> None:
        changes, products = solve_small(begin, end, self.blocks, self.rows, right, values, self.workspace)
        self.roundings.rows += changes
        self.roundings.products += products


def find_blocks(matrix: csr_array) -> Blocks:
    """Find the strongly connected blocks of states [n, n + ends], and sort them."""
    states, ends = matrix.shape[0], matrix.shape[1] - matrix.shape[0]
    count, block = connected_components(matrix[:, :states], connection="strong")  # in the order of Tarjan's algorithm
    block = np.concatenate([block, np.full(ends, -1)]).astype(np.int64)
    entries = matrix.tocoo()
    assert (block[entries.row] >= block[entries.col]).all()  # each block comes after those that it leads to
    begin = np.concatenate([[0], np.cumsum(np.bincount(block[:states], minlength=count))])
    return Blocks(begin, np.argsort(block[:states], kind="stable"), block)


class Iteration:
    """Updates values one after the other, with the newest of the others (Gauss and Seidel), from below the solution.
    Fewer rounds are needed if `order` begins near the goal. The caller has to check the result."""

    def __init__(self, matrix: csr_array, order: Ints, rounds: int, report: Report) -> None:
        self.order, self.rounds, self.report = order, rounds, report
        self.rows = Chain(matrix.indptr, matrix.indices, matrix.data)
        self.leaving: Floats = matrix.sum(axis=1)

    def solve(self, right: Floats, ends: Floats) -> Floats | None:
        """Compute the values for a right side [n] and the values of the ends, [n + ends]; None if it takes too long."""
        values = np.concatenate([np.zeros(len(right)), ends])
        change = np.inf
        for done in range(ROUNDS, self.rounds + 1, ROUNDS):
            before = change
            for _ in range(ROUNDS):
                change = update_values(self.order, self.rows, self.leaving, right, values)
            settled = SETTLED * values.max()
            if change <= settled:
                return values
            remaining = (self.rounds - done) / ROUNDS
            if done > PATIENCE * self.rounds and change * (change / before) ** remaining > settled:
                return None
            self.report(f"{done:,} rounds, at most {self.rounds:,}")
        return None


@kernel
def update_values(order: Ints, rows: Chain, leaving: Floats, right: Floats, values: Floats) -> float:
    """Update each value once; return the largest change."""
    largest = 0.0
    for state in order:
        total = right[state]
        for entry in range(rows.first[state], rows.first[state + 1]):
            total += rows.probability[entry] * values[rows.target[entry]]
        total /= leaving[state]
        largest = max(largest, abs(total - values[state]))
        values[state] = total
    return largest
