"""The equations of an absorbing Markov chain, solved for any right side by state elimination, or by going round them.

`Elimination` takes states out, block by block and without a single subtraction: every way through a state is sent
straight on, so that the chance of going from i to j grows by that of going from i to the state times the share in which
the state is left for j. How likely it is left at all is a sum, too. So numbers are only added, multiplied and divided,
all of them non-negative, and every rounding changes a chance by a factor close to 1, however slowly the chain mixes
(Grassmann, Taksar and Heyman 1985). `Roundings` counts them. `Iteration` is quick where a chain mixes fast.

States go in an order of nested dissection, so that most of the work is on dense fronts: the states that are taken out
(pivots), and those left that lead to them or that they lead to (the border).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from hocket.learn.kernels.compiler import inlined, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Report = Callable[[str], None]  # is told in words how far it has come

LEAF = 96  # states that are not dissected further
PANEL = 32  # pivots that are taken out at once
WIDE = 500  # rows of a front from which on threads are worth it
THREADS = os.cpu_count() or 1
SETTLED = 2.0**-50  # change of a value in a round, as a share of the largest value, below which it is rounding
ROUNDS = 10  # between two reports
PATIENCE = 0.25  # share of all rounds after which it looks whether the rest will do


class Front(NamedTuple):
    """Pivots, and the states left that they are connected to, by their places in the order of elimination."""

    begin: int  # pivots are begin..end - 1
    end: int
    border: Ints
    children: list[int]  # earlier fronts whose borders begin among these pivots

    @property
    def work(self) -> float:
        """Count the multiplications that it takes."""
        pivots, left = float(self.end - self.begin), float(len(self.border))
        return ((pivots + left) ** 3 - left**3) / 3

    @property
    def entries(self) -> int:
        """Count the chances that are kept of it."""
        return (self.end - self.begin) * (self.end - self.begin + 2 * len(self.border))


class Factor(NamedTuple):
    """A front whose pivots have been taken out."""

    states: Ints  # [pivots + border]
    left: Floats  # [pivots + border, pivots] above the diagonal shares of leaving, below it chances of getting there
    right: Floats  # [pivots, border] shares of leaving
    leaving: Floats  # [pivots] chance of leaving in a step


@dataclass
class Roundings:
    """How often rounding may have changed numbers."""

    rows: int = 0  # of chances, in each of which a state was replaced by its ways on
    sums: int = 0  # rows of chances to which another front's were added
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


class Large(NamedTuple):
    """A block that is worth a dissection."""

    number: int  # of the block
    order: Ints  # its states, as they are taken out
    inside: csr_array  # [size, size] chances, in that order
    outside: csr_array  # [size, n + ends] chances of leaving the block
    fronts: list[Front]


class Chain(NamedTuple):
    """Transitions of states 0..n - 1, sorted by state; targets from n on are ends, or one, the goal.

    What is missing to 1 is staying.
    """

    first: Ints  # [n + 1] the transitions of state s are first[s]..first[s + 1] - 1
    target: Ints  # [transitions]
    chance: Floats  # [transitions] above 0

    @property
    def states(self) -> int:
        return len(self.first) - 1


class Room(NamedTuple):
    """Room in which small blocks are solved."""

    table: Floats  # [LEAF, LEAF + 1]
    nothing: Floats  # [LEAF, 0]
    leaving: Floats  # [LEAF]
    slot: Ints  # [n]


# The order.


def dissect(states: Ints, source: Ints, target: Ints, places: Ints) -> Iterator[Ints]:
    """Split a block of states into two, each of these likewise, and those that part them, which come after both.

    `source` and `target` are the places of linked states in `states`. `places` [states, d] are coordinates, in one of
    which a block is cut in the middle. Any are right; with those in which connected states are close to each other, few
    states part a block.
    """
    cuts = [side for column in places.T for side in _cuts(column, source, target)] if len(states) > LEAF else []
    if not cuts:
        yield states
        return
    side = min(cuts, key=_cost)
    for half in (1, 2):
        chosen = side == half
        if chosen.any():
            number = np.cumsum(chosen) - 1
            inside = chosen[source] & chosen[target]
            yield from dissect(states[chosen], number[source[inside]], number[target[inside]], places[chosen])
    if (side == 0).any():
        yield states[side == 0]


def _cuts(column: Ints, source: Ints, target: Ints) -> Iterator[NDArray[np.int8]]:
    """Cut states in the middle of a coordinate: side 1, side 2, and 0 for those of one side that touch the other."""
    middle = np.median(column)
    high = column > middle if (column > middle).any() else column >= middle
    crosses = high[source] != high[target]
    touched = np.concatenate([source[crosses], target[crosses]])
    for is_high in (False, True) if not high.all() else ():
        side = np.where(high, 2, 1).astype(np.int8)
        side[touched[high[touched] == is_high]] = 0
        yield side


def _cost(side: NDArray[np.int8]) -> float:
    parted, low, high = (int(count) for count in np.bincount(side, minlength=3))
    return parted / (1 + min(low, high))


def make_fronts(matrix: csr_array, groups: Sequence[Ints]) -> list[Front]:
    """Find the border of each group of pivots; states are numbered in the order of elimination."""
    pattern = matrix + matrix.T
    ends = np.cumsum([len(group) for group in groups])
    fronts: list[Front] = []
    waiting: list[list[int]] = [[] for _ in groups]
    for number, (group, end) in enumerate(zip(groups, ends.tolist(), strict=True)):
        begin = end - len(group)
        near = [pattern.indices[pattern.indptr[begin] : pattern.indptr[end]].astype(np.int64)]
        near += [fronts[child].border for child in waiting[number]]
        border = np.unique(np.concatenate(near))
        border = border[border >= end]
        fronts.append(Front(begin, end, border, waiting[number]))
        if len(border):
            waiting[int(np.searchsorted(ends, border[0], side="right"))].append(number)
    return fronts


# The elimination.


def eliminate(block: Large, roundings: Roundings, pool: Executor) -> Iterator[tuple[Front, Factor]]:
    """Take out the states of a block, front by front."""
    fronts, matrix, absorbed = block.fronts, block.inside, block.outside.sum(axis=1)
    columns = matrix.tocsc()
    slot = np.zeros(len(absorbed), np.int64)
    left_over: dict[int, Floats] = {}  # by front: what its border has got, with a last column for what is absorbed
    for number, front in enumerate(fronts):
        begin, end, border, children = front
        index = np.concatenate([np.arange(begin, end), border])
        slot[index] = np.arange(len(index))
        table = np.zeros((len(index), len(index) + 1))
        _assemble(table, matrix, columns, front, slot)
        table[: end - begin, -1] = absorbed[begin:end]
        for child in children:
            add_front(table, left_over.pop(child), slot[fronts[child].border])
            roundings.sums += len(fronts[child].border)
        yield front, _reduce(table, index, end - begin, roundings, pool)
        left_over[number] = table[end - begin :, end - begin :].copy()


def _assemble(table: Floats, rows: csr_array, columns: csr_array, front: Front, slot: Ints) -> None:
    """Fill in the chances between pivots, and between pivots and the border, both ways."""
    leading, led = rows[front.begin : front.end].tocoo(), columns[:, front.begin : front.end].tocoo()
    later = leading.col >= front.begin
    table[leading.row[later], slot[leading.col[later]]] = leading.data[later]
    later = led.row >= front.end
    table[slot[led.row[later]], led.col[later]] = led.data[later]


def _reduce(table: Floats, index: Ints, pivots: int, roundings: Roundings, pool: Executor) -> Factor:
    """Take the first states out of a dense table."""
    size = len(table)
    leaving = np.zeros(pivots)
    for begin in range(0, pivots, PANEL):
        end = min(begin + PANEL, pivots)
        changed = take_out(table, begin, end, leaving)
        if size - end < WIDE:
            changed += pass_on(table, begin, end, end, size)
        else:
            cuts = np.linspace(end, size, 1 + THREADS).astype(int).tolist()
            changed += sum(pool.map(partial(pass_on, table, begin, end), cuts[:-1], cuts[1:]))
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
def pass_one(table: Floats, row: int, pivot: int, begin: int, end: int) -> None:
    """Replace a pivot by its ways on, in some columns of a row."""
    chance = table[row, pivot]
    for column in range(begin, end):
        table[row, column] += chance * table[pivot, column]


@inlined
def pass_four(table: Floats, row: int, pivot: int, begin: int, end: int) -> None:
    """Replace four pivots one after the other, with the same roundings, but looking at each column once."""
    one, two, three, four = table[row, pivot], table[row, pivot + 1], table[row, pivot + 2], table[row, pivot + 3]
    for column in range(begin, end):
        value = table[row, column] + one * table[pivot, column]
        value = value + two * table[pivot + 1, column]
        value = value + three * table[pivot + 2, column]
        table[row, column] = value + four * table[pivot + 3, column]


@kernel
def take_out(table: Floats, begin: int, end: int, leaving: Floats) -> int:
    """Bring pivots up to date with the earlier ones of their panel, and turn their chances into shares of leaving."""
    changed, width = 0, table.shape[1]
    for row in range(begin, end):
        for pivot in range(begin, row):
            if table[row, pivot] > 0:
                changed += 1
                pass_one(table, row, pivot, pivot + 1, width)
        leaving[row] = careful_sum(table, row, row + 1, width)
        for column in range(row + 1, width):
            table[row, column] /= leaving[row]
    return changed


@kernel
def pass_on(table: Floats, begin: int, end: int, first: int, last: int) -> int:
    """Replace a panel's pivots by their ways on, in the rows first..last - 1."""
    changed, width = 0, table.shape[1]
    for row in range(first, last):
        before = changed
        for pivot in range(begin, end):
            if table[row, pivot] > 0:
                changed += 1
                pass_one(table, row, pivot, pivot + 1, end)
        if changed > before:
            fours = end - (end - begin) % 4
            for pivot in range(begin, fours, 4):
                pass_four(table, row, pivot, end, width)
            for pivot in range(fours, end):
                pass_one(table, row, pivot, end, width)
    return changed


@kernel
def add_front(table: Floats, other: Floats, slot: Ints) -> None:
    """Add what another front has left."""
    size, last = len(slot), table.shape[1] - 1
    for row in range(size):
        for column in range(size):
            table[slot[row], slot[column]] += other[row, column]
        table[slot[row], last] += other[row, size]


# Right sides.


def substitute(factors: Sequence[Factor], right: Floats) -> Floats:
    """Solve for a right side, in the order of elimination: what is collected per step until all is over."""
    values = right.copy()
    for factor in factors:
        gather(factor.left, factor.leaving, factor.states, values)
    for factor in reversed(factors):
        spread(factor.left, factor.right, factor.states, values)
    return values


@kernel
def gather(left: Floats, leaving: Floats, index: Ints, values: Floats) -> None:
    """Pass on what a front's pivots collect."""
    pivots = len(leaving)
    for row in range(len(index)):
        total = values[index[row]]
        for pivot in range(min(row, pivots)):
            total += left[row, pivot] * values[index[pivot]]
        values[index[row]] = total / leaving[row] if row < pivots else total


@kernel
def spread(left: Floats, right: Floats, index: Ints, values: Floats) -> None:
    """Give a front's pivots their values, those of all later states being known."""
    pivots = left.shape[1]
    for row in range(pivots - 1, -1, -1):
        total, lost = values[index[row]], 0.0
        for column in range(row + 1, len(index)):
            share = left[row, column] if column < pivots else right[row, column - pivots]
            value = share * values[index[column]]
            after = total + value
            lost += (total - after) + value if total >= value else (value - after) + total
            total = after
        values[index[row]] = total + lost


@kernel
def solve_small(
    from_block: int, to_block: int, blocks: Blocks, rows: Chain, right: Floats, values: Floats, room: Room
) -> tuple[int, float]:
    """Solve small blocks one after the other; return how many rows and numbers rounding may have changed."""
    changes, products = 0, 0.0
    for number in range(from_block, to_block):
        inside = blocks.state[blocks.begin[number] : blocks.begin[number + 1]]
        size = len(inside)
        small = room.table[:size, : size + 1]
        for row in range(size):
            room.slot[inside[row]] = row
            for column in range(size + 1):
                small[row, column] = 0.0
        for row in range(size):
            collected = right[inside[row]]
            for entry in range(rows.first[inside[row]], rows.first[inside[row] + 1]):
                target, chance = rows.target[entry], rows.chance[entry]
                if blocks.block[target] == number:
                    small[row, room.slot[target]] = chance
                else:
                    small[row, size] += chance
                    collected += chance * values[target]
            values[inside[row]] = collected
        changed = take_out(small, 0, size, room.leaving)
        gather(small, room.leaving[:size], inside, values)
        spread(small[:, :size], room.nothing, inside, values)
        changes += changed
        products += float(changed) * (size + 1)
    return changes, products


# The equations as a whole.


class Elimination:
    """For each state: value * chance of leaving = right side + sum of chance * value over where it leads.

    `matrix` [n, n + ends] has the chances of changes between n states, from each of which an end can be reached, and to
    ends, whose values are given.
    """

    def __init__(self, matrix: csr_array, blocks: Blocks, places: Ints) -> None:
        self.matrix, self.blocks, self.roundings = matrix, blocks, Roundings()
        self.large = [self._dissect(number, places) for number in blocks.large]
        self.factors: list[list[Factor]] = []
        self.rows, slot = Chain(matrix.indptr, matrix.indices, matrix.data), np.zeros(matrix.shape[0], np.int64)
        self.room = Room(np.zeros((LEAF, LEAF + 1)), np.zeros((LEAF, 0)), np.zeros(LEAF), slot)

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
        with ThreadPoolExecutor(THREADS) as pool:
            for block in self.large:
                self.factors.append([])
                for front, factor in eliminate(block, self.roundings, pool):
                    self.factors[-1].append(factor)
                    done += front.work
                    report(f"{done / work:.0%} of the states taken out")

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
        changes, products = solve_small(begin, end, self.blocks, self.rows, right, values, self.room)
        self.roundings.rows += changes
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

    def __init__(self, matrix: csr_array, order: Ints, rounds: int, report: Report) -> None:
        self.order, self.rounds, self.report = order, rounds, report
        self.rows = Chain(matrix.indptr, matrix.indices, matrix.data)
        self.leaving: Floats = matrix.sum(axis=1)

    def solve(self, right: Floats, ends: Floats) -> Floats | None:
        """Find the values for a right side [n] and the values of the ends, [n + ends]; None if it takes too long."""
        values = np.concatenate([np.zeros(len(right)), ends])
        change = np.inf
        for done in range(ROUNDS, self.rounds + 1, ROUNDS):
            before = change
            for _ in range(ROUNDS):
                change = update_values(self.order, self.rows, self.leaving, right, values)
            settled = SETTLED * values.max()
            if change <= settled:
                return values
            left = (self.rounds - done) / ROUNDS
            if done > PATIENCE * self.rounds and change * (change / before) ** left > settled:
                return None
            self.report(f"{done:,} rounds, at most {self.rounds:,}")
        return None


@kernel
def update_values(order: Ints, rows: Chain, leaving: Floats, right: Floats, values: Floats) -> float:
    """Bring each value up to date once; return the largest change."""
    largest = 0.0
    for state in order:
        total = right[state]
        for entry in range(rows.first[state], rows.first[state + 1]):
            total += rows.chance[entry] * values[rows.target[entry]]
        total /= leaving[state]
        largest = max(largest, abs(total - values[state]))
        values[state] = total
    return largest
