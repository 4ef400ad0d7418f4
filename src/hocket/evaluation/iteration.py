"""The equations of an absorbing Markov chain, solved by going round them: quick where a chain mixes fast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hocket.learn.kernels.compiler import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SETTLED = 2.0**-50  # change of a value in a round, as a share of the largest value, below which it is rounding
ROUNDS = 10  # between two reports
PATIENCE = 0.25  # share of all rounds after which it looks whether the rest will do


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
                change = go_round(self.order, *self.entries, self.leaving, right, values)
            settled = SETTLED * values.max()
            if change <= settled:
                return values
            left = (self.rounds - done) / ROUNDS
            if done > PATIENCE * self.rounds and change * (change / before) ** left > settled:
                return None
            self.report(f"{done:,} rounds, at most {self.rounds:,}")
        return None


@kernel
def go_round(
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
