"""The cheapest set that passes a monotone test, by implicit hitting sets.

A set that fails gives a clause: every passing set has at least one element outside of it, and the larger the failing
set, the stronger the clause. So a set passes if it hits all clauses; few of them have to be known to find a cheapest
set and to prove that no cheaper one passes. Sets are the bits of integers, and prices are whole numbers, so that sums
and comparisons are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

NODE, CLAUSE = 500, 10  # effort for a node of the search tree, and for a clause in it
NODES_BEFORE_GUESSES = 5  # nodes that are expanded before guesses are tested

Test = Callable[[int], bool]  # of a set


@dataclass
class Effort:
    """The work that may still be done: counted, not timed, so that an answer is the same on every machine."""

    left: int

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


class Cheapest(NamedTuple):
    """A set that passes, and a lower bound of the cost of passing sets, which is its cost if it is proved cheapest."""

    chosen: int
    bound: int


def find_cheapest(
    passes: Test, explain: Callable[[int], int], prices: Mapping[int, int], effort: Effort, guesses: Iterable[int] = ()
) -> Cheapest:
    """Find a cheapest set of priced elements that passes a test, by branch and bound.

    All elements together must pass, and so must every set that contains one that passes. `explain` maps a set that
    fails to elements of which every larger set that passes has at least one. `guesses` are sets that may contain cheap
    ones, if they pass. When the effort is spent, the result is the best set so far, with the bound proved so far; in
    any case, without any of its elements the set fails.
    """
    return _Search(passes, explain, prices, effort).run(guesses)


def elements_of(chosen: int) -> list[int]:
    """List the elements of a set in ascending order."""
    return [element for element, digit in enumerate(reversed(f"{chosen:b}")) if digit == "1"]


def as_set(elements: Iterable[int]) -> int:
    """Put elements into a set."""
    listed = list(elements)
    digits = bytearray(b"0") * (max(listed, default=0) + 1)
    for element in listed:
        digits[-1 - element] = ord("1")
    return int(digits, 2)


def take_what_fits(items: Sequence[int], fits: Callable[[int], bool], taken: int, effort: Effort | None = None) -> int:
    """Add items one after the other, or many at once, if the set with them fits, until the effort is spent. All subsets
    of a set that fits must fit."""
    if not items or (effort is not None and effort.is_spent):
        return taken
    if fits(whole := taken | as_set(items)):
        return whole
    if len(items) == 1:
        return taken
    half = len(items) // 2
    taken = take_what_fits(items[:half], fits, taken, effort)
    return take_what_fits(items[half:], fits, taken, effort)


class _Node(NamedTuple):
    """The sets that contain `inside` and nothing of `outside`."""

    bound: int  # no passing one costs less
    depth: int  # negative, so that of equally promising nodes the deepest comes first
    inside: int
    outside: int
    element: int  # to branch on


class _Ascent:
    """A lower bound by dual ascent: each clause takes the cost of hitting it from the prices of its elements. What
    remains of a price is never negative, so a set that hits all clauses costs at least the sum that they took."""

    def __init__(self, prices: Mapping[int, int], inside: int, outside: int) -> None:
        self.inside, self.outside = inside, outside
        self.free = inside  # elements whose remaining price is 0
        self.remaining = dict(prices)
        self.bound = sum(prices[element] for element in elements_of(inside))
        self.taken: list[tuple[int, int]] = []  # (clause, amount)

    def take(self, clause: int) -> bool:
        """Raise the bound by a clause; say whether one of its elements may be chosen at all."""
        if clause & self.free:
            return True
        if not (possible := clause & ~self.outside):
            return False
        elements = elements_of(possible)
        amount = min(self.remaining[element] for element in elements)
        self.bound += amount
        self.taken.append((possible, amount))
        for element in elements:
            self.remaining[element] -= amount
            if self.remaining[element] == 0:
                self.free |= 1 << element
        return True


class _Search:
    def __init__(self, passes: Test, explain: Callable[[int], int], prices: Mapping[int, int], effort: Effort) -> None:
        self.passes, self.explain, self.prices, self.effort = passes, explain, prices, effort
        self.everything = as_set(prices)
        self.clauses: list[int] = []
        self.is_thorough = False  # whether clauses are made as strong as possible
        self.best, self.best_price = self.everything, sum(prices.values()) + 1  # more than any irreducible set costs

    def run(self, guesses: Iterable[int]) -> Cheapest:
        """Search with clauses as they are explained, which often suffices; then with strong ones and branching."""
        waiting: list[_Node] = []
        self.examine(waiting, _Node(0, 0, 0, 0, 0))
        if waiting and not self.effort.is_spent:
            self.is_thorough = True
            self.clauses.clear()
            self.examine(waiting, heappop(waiting))
        opened = 0
        while waiting and waiting[0].bound < self.best_price:
            if self.effort.is_spent:
                return Cheapest(self.best, waiting[0].bound)
            node = heappop(waiting)
            opened += 1
            if opened == NODES_BEFORE_GUESSES:
                for guess in guesses:
                    if not self.effort.is_spent and self.passes(guess):
                        self.reduce(guess)
            branch = 1 << node.element
            self.examine(waiting, node._replace(depth=node.depth - 1, outside=node.outside | branch))
            self.examine(waiting, node._replace(depth=node.depth - 1, inside=node.inside | branch))
        return Cheapest(self.best, self.best_price)

    def examine(self, waiting: list[_Node], node: _Node) -> None:
        """Raise the bound of a node until its free elements pass, find a good set in it, and queue the node if it may
        contain a better one."""
        ascent = _Ascent(self.prices, node.inside, node.outside)
        known = sorted(self.clauses, key=lambda clause: (clause & ~ascent.outside).bit_count())
        self.effort.left -= NODE + len(self.prices) + CLAUSE * len(known)
        if not all(ascent.take(clause) for clause in known):
            return
        while ascent.bound < self.best_price and not self.effort.is_spent and not self.passes(ascent.free):
            if not ascent.take(self.refute(ascent.free, ascent)):
                return
        if ascent.bound >= self.best_price:
            return
        chosen = self.complete(ascent)
        gap = self.best_price - ascent.bound
        if gap > 0:
            too_dear = as_set(element for element, price in ascent.remaining.items() if price >= gap) & ~node.inside
            bound, element = max(node.bound, ascent.bound), self.choose(ascent, chosen)
            heappush(waiting, _Node(bound, node.depth, node.inside, node.outside | too_dear, element))

    def complete(self, ascent: _Ascent) -> int:
        """Choose a cheap set that hits all clauses, and add clauses until it passes."""
        chosen = ascent.inside
        for clause in self.clauses:
            chosen |= self.hit(clause, chosen, ascent)
        while not self.passes(chosen):
            chosen |= self.hit(self.refute(chosen, ascent), chosen, ascent)
        return self.reduce(chosen)

    def reduce(self, chosen: int) -> int:
        """Remove the elements without which a set passes, dear ones first; keep the result if it is the best so far."""
        dear = sorted(elements_of(chosen), key=lambda element: (-self.prices[element], -element))
        chosen &= ~take_what_fits(dear, lambda spare: self.passes(chosen & ~spare), 0)
        price = sum(self.prices[element] for element in elements_of(chosen))
        if price < self.best_price:
            self.best, self.best_price = chosen, price
        return chosen

    def hit(self, clause: int, chosen: int, ascent: _Ascent) -> int:
        """Choose the cheapest element of a clause, a free one if possible, unless the clause is hit already."""
        if clause & chosen:
            return 0
        elements = elements_of(clause & ascent.free or clause & ~ascent.outside or clause)
        return 1 << min(elements, key=lambda element: (self.prices[element], element))

    def refute(self, failing: int, ascent: _Ascent) -> int:
        """Add the clause of a failing set; in a thorough search, one as strong as possible."""
        clause = self.explain(failing) & self.everything
        if self.is_thorough:
            order = sorted(elements_of(clause), key=lambda e: (ascent.outside >> e & 1, ascent.remaining[e]))
            rest = self.everything & ~clause
            clause &= ~take_what_fits(order, lambda more: not self.passes(rest | more), 0, self.effort)
        self.clauses.append(clause)
        return clause

    def choose(self, ascent: _Ascent, chosen: int) -> int:
        """Choose the element of a set that causes most of the gap between its price and the bound. There is one unless
        the effort is spent: all elements of the set are free, so some clause is hit twice."""
        gap = dict.fromkeys(elements_of(chosen & ~ascent.inside), 0)
        for clause, amount in ascent.taken:
            hits = elements_of(clause & chosen)
            for element in hits:
                gap[element] += amount * (len(hits) - 1)
        return max(gap, key=lambda element: (gap[element], -element))
