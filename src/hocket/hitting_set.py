"""The cheapest set that passes a test which larger sets pass as well, found with implicit hitting sets.

A set that fails is a clause: of the elements outside it every passing set has at least one, and the larger the failing
set, the stronger the clause. A passing set is thus one that hits all clauses; few of them have to be known to find a
cheapest one and to prove that nothing cheaper passes. Sets are the bits of integers, and prices are whole numbers, so
that sums and comparisons are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

Passes = Callable[[int], bool]

NODE, CLAUSE = 500, 10  # what a node of the search tree costs, and a clause that is looked at in it


class Effort:
    """How much work may still be done: counted, not timed, so that an answer is the same on every machine."""

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, amount: int) -> None:
        self.left -= amount

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


class Cheapest(NamedTuple):
    """A set that passes, and what every set that passes costs at least: what this one costs, if that was proved."""

    chosen: int
    bound: int


def find_cheapest(passes: Passes, prices: Mapping[int, int], effort: Effort) -> Cheapest:
    """Find a cheapest set of priced elements that passes a test, by branch and bound; all of them together must pass.

    The test must hold for every set that contains one for which it holds. When the effort is spent the best set so far
    is returned, with the bound proved so far. No element can be left out of it, unless there was no effort to try.
    """
    return _Search(passes, prices, effort).run()


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


def take_what_fits(items: Sequence[int], fits: Passes, taken: int, effort: Effort) -> int:
    """Add items one after the other, each if the set with it still fits; whole runs at once where they do.

    Parts of a set that fits must fit. Stops early when the effort is spent.
    """
    if not items or effort.is_spent:
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
    depth: int
    inside: int
    outside: int
    element: int  # to branch on


class _Ascent:
    """A lower bound by dual ascent: each clause takes from the prices of its elements what it costs to hit it.

    What is left of the prices never gets negative, so no set that hits all clauses costs less than the clauses took.
    """

    def __init__(self, prices: Mapping[int, int], inside: int, outside: int) -> None:
        self.left = dict(prices)
        self.outside = outside
        self.free = inside
        self.bound = sum(prices[element] for element in elements_of(inside))
        self.taken: list[tuple[int, int]] = []  # (clause, amount)

    def take(self, clause: int) -> bool:
        """Raise the bound by a clause; say whether one of its elements may be chosen at all."""
        if clause & self.free:
            return True
        if not (possible := clause & ~self.outside):
            return False
        elements = elements_of(possible)
        amount = min(self.left[element] for element in elements)
        self.bound += amount
        self.taken.append((possible, amount))
        for element in elements:
            self.left[element] -= amount
            if self.left[element] == 0:
                self.free |= 1 << element
        return True


class _Search:
    def __init__(self, passes: Passes, prices: Mapping[int, int], effort: Effort) -> None:
        self.passes, self.prices, self.effort = passes, prices, effort
        self.elements = sorted(prices)
        self.everything = as_set(self.elements)
        self.clauses: list[int] = []
        self.best = self.everything
        self.best_price = self.price(self.everything)
        self.nodes = 0

    def price(self, chosen: int) -> int:
        return sum(self.prices[element] for element in elements_of(chosen))

    def run(self) -> Cheapest:
        """Open the most promising node until no node promises more than what has been found."""
        waiting: list[_Node] = []
        self.examine(waiting, 0, 0, 0)
        while waiting and waiting[0].bound < self.best_price:
            if self.effort.is_spent:
                return Cheapest(self.best, waiting[0].bound)
            node = heappop(waiting)
            branch = 1 << node.element
            self.examine(waiting, node.depth - 1, node.inside, node.outside | branch)
            self.examine(waiting, node.depth - 1, node.inside | branch, node.outside)
        return Cheapest(self.best, self.best_price)

    def examine(self, waiting: list[_Node], depth: int, inside: int, outside: int) -> None:
        """Bound what a node can promise, look for a good set in it, and keep it if it may hold a better one."""
        self.nodes += 1
        ascent = _Ascent(self.prices, inside, outside)
        if not self.climb(ascent):
            return
        found = self.reduce(ascent.free)
        if ascent.bound >= self.best_price:
            return
        room = self.best_price - ascent.bound
        outside |= as_set([e for e, left in ascent.left.items() if left >= room and not inside >> e & 1])
        heappush(waiting, _Node(ascent.bound, depth, inside, outside, self.choose(ascent, found, inside)))

    def climb(self, ascent: _Ascent) -> bool:
        """Raise the bound until what it has made free passes; say whether the node may hold a better set."""
        known = sorted(self.clauses, key=lambda clause: (clause & ~ascent.outside).bit_count())
        self.effort.spend(NODE + CLAUSE * len(known))
        for clause in known:
            if not ascent.take(clause):
                return False
        while ascent.bound < self.best_price and not self.passes(ascent.free):
            clause = self.refute(ascent)
            self.clauses.append(clause)
            if not ascent.take(clause):
                return False
        return ascent.bound < self.best_price

    def refute(self, ascent: _Ascent) -> int:
        """Make a clause of a failing set, as strong as possible where elements may still be chosen."""
        rest = [element for element in self.elements if not ascent.free >> element & 1]
        rest.sort(key=lambda element: (ascent.outside >> element & 1, ascent.left[element]))
        grown = take_what_fits(rest, lambda larger: not self.passes(larger), ascent.free, self.effort)
        return self.everything & ~grown

    def reduce(self, chosen: int) -> int:
        """Leave out elements without which a set still passes, dear ones first; remember it if it is the best."""
        dear = sorted(elements_of(chosen), key=lambda element: (-self.prices[element], -element))
        spare = take_what_fits(dear, lambda less: self.passes(chosen & ~less), 0, self.effort)
        found = chosen & ~spare
        if (price := self.price(found)) < self.best_price:
            self.best, self.best_price = found, price
        return found

    def choose(self, ascent: _Ascent, found: int, inside: int) -> int:
        """Choose an element to branch on, of a clause that is hit more than once: there the bound is too low."""
        waste: dict[int, int] = {}
        for clause, amount in ascent.taken:
            hits = clause & found
            if (often := hits.bit_count()) > 1:
                for element in elements_of(hits):
                    waste[element] = waste.get(element, 0) + amount * (often - 1)
        return max(waste, key=lambda element: (waste[element], -element))
