"""The cheapest set that has something in common with each of some sets (minimum-cost hitting set)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Pair = tuple[int, int]
Clause = frozenset[Pair]


class Price(NamedTuple):
    """What a choice costs; of equally dear choices the one with less burden is better."""

    cost: float
    burden: int


FREE = Price(0.0, 0)


class HittingSet(NamedTuple):
    """A set that hits every clause, and whether it was proved that no better one exists."""

    chosen: frozenset[Pair]
    proved: bool


def hit_cheaply(clauses: Iterable[Clause], price: Mapping[Pair, Price], branchings: int) -> HittingSet:
    """Find a cheapest set that hits every clause, by branch and bound with at most `branchings` branchings.

    No clause may be empty.
    """
    search = _Search(_without_supersets(clauses), price, branchings)
    search.branch(search.clauses, frozenset(), FREE, frozenset())
    return HittingSet(search.best, search.branchings > 0)


def _without_supersets(clauses: Iterable[Clause]) -> list[Clause]:
    """Drop the clauses that are hit whenever a smaller one is."""
    kept: list[Clause] = []
    for clause in sorted(set(clauses), key=lambda clause: (len(clause), sorted(clause))):
        if not any(smaller <= clause for smaller in kept):
            kept.append(clause)
    return kept


def total(prices: Iterable[Price]) -> Price:
    """Add up prices."""
    cost, burden = FREE
    for price in prices:
        cost, burden = cost + price.cost, burden + price.burden
    return Price(cost, burden)


class _Search:
    def __init__(self, clauses: list[Clause], price: Mapping[Pair, Price], branchings: int) -> None:
        self.clauses = clauses
        self.price = price
        self.branchings = branchings
        self.best = self.greedily()
        self.best_price = total(price[pair] for pair in sorted(self.best))

    def greedily(self) -> frozenset[Pair]:
        """Take the pair that hits most per cost until all is hit."""
        left, chosen = list(self.clauses), set[Pair]()
        while left:
            hits: dict[Pair, int] = {}
            for clause in left:
                for pair in clause:
                    hits[pair] = hits.get(pair, 0) + 1
            best = min(hits, key=lambda pair: (self.price[pair].cost / hits[pair], self.price[pair].burden, pair))
            chosen.add(best)
            left = [clause for clause in left if best not in clause]
        return frozenset(chosen)

    def branch(self, left: Sequence[Clause], chosen: frozenset[Pair], spent: Price, barred: frozenset[Pair]) -> None:
        """Extend `chosen`, never by a pair in `barred`, so as to hit what is left."""
        if not left:
            if spent < self.best_price:
                self.best, self.best_price = chosen, spent
            return
        if self.branchings <= 0:
            return
        self.branchings -= 1
        options: list[Clause] = [clause - barred for clause in left]
        if not all(options) or total((spent, self.bound(options))) >= self.best_price:
            return
        shortest = min(options, key=len)
        for pair in sorted(shortest, key=lambda pair: (self.price[pair], pair)):
            rest = [clause for clause in left if pair not in clause]
            self.branch(rest, chosen | {pair}, total((spent, self.price[pair])), barred)
            barred = barred | {pair}

    def bound(self, clauses: Sequence[Clause]) -> Price:
        """Add up the cheapest members of clauses that have nothing in common: no hitting set costs less."""
        touched: set[Pair] = set()
        least: list[Price] = []
        for clause in sorted(clauses, key=len):
            if touched.isdisjoint(clause):
                least.append(min(self.price[pair] for pair in clause))
                touched |= clause
        return total(least)
