"""Absorbing Markov chains, solved with a certified error: the probability of reaching the goal, and the steps to it.

Whether the goal is reached surely, perhaps or never depends on the graph alone, and is decided there. The numbers come
from iteration where that converges soon, otherwise from state elimination. Two proofs bound their errors, and the
sharper one counts.

*Counting.* By the matrix-tree theorem each of the numbers is a ratio of two sums of products, with one probability from
the row of each state in every product and nothing negative anywhere. So if the probabilities of a row are off by a
factor between 1 - e and 1 + e, the ratio is off by at most (1 + e) / (1 - e). Elimination is exact but for such changes
of single rows (O'Cinneide 1993), and counts them. This does not depend on how slowly the chain mixes.

*Checking.* Let A x = b be the equations, and w the expected steps until all is over. No entry of the inverse of A is
negative, so if A w, computed with its rounding errors, is at least 1 - r > 0 everywhere, then x is off by at most
w / (1 - r) times the largest residual. This is sharper where a chain mixes fast, and does not depend on how x was
computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order

from hocket.errors import SettingsError
from hocket.evaluation.elimination import Chain, Elimination, Flags, Floats, Ints, Iteration, Report, find_blocks
from hocket.graphs import flags_at

UNIT = 2.0**-53  # the largest relative error of a rounding
SMALLEST = 2.0**-1022  # probability; below it rounding errors are no longer relative
TINIEST = 2.0**-1074  # the largest error of a product below that
SHARP = 1e-10  # error with which iteration is as good as elimination: of a probability, or relative to expected steps
ENOUGH = 1e-6  # the largest error, likewise, that is accepted at all
FEW_ROUNDS = 1_000  # of iteration, before elimination is tried
MOST_ENTRIES = 400_000_000  # probabilities that elimination keeps, 8 bytes each
MOST_WORK = 5_000_000_000_000  # multiplications, of which a core does about five in a nanosecond
MOST_READS = 20_000_000_000  # of transitions by iteration, where elimination is too much; about one a nanosecond
SAFE = 1 + 1e-9  # covers the roundings made in computing a bound

# Roundings of a number, in units, counted twice where they are in a row of probabilities: above and below the fraction.
PER_ROW = 12  # adding up, dividing, multiplying, adding: 5, and what products of roundings add
PER_SUM = 2
PER_TRANSITION = 2  # of the chain, when those to the same state, and out of a block, are added up
PER_STATE = 12  # when its value is put together from those of later states


@dataclass(frozen=True)
class Bounded:
    """A probability or a mean, and how far it may be off: a bound that is proved."""

    value: float
    error: float = 0.0


@dataclass(frozen=True)
class Solution:
    """Absorption probabilities and expected steps of a chain that starts in state 0."""

    success: Bounded  # probability of reaching the goal
    failure: Bounded  # probability of never reaching it
    steps: Bounded  # expected, to the goal; infinite if it may never be reached
    steps_if_reached: Bounded  # expected, given that the goal is reached; not a number if it never is

    def is_within(self, most: float) -> bool:
        """Say whether errors are at most so large: of probabilities absolute, of expected steps relative to them."""
        is_sharp = all(probability.error <= most for probability in (self.success, self.failure))
        return is_sharp and all(time.error <= most * time.value for time in (self.steps, self.steps_if_reached))


def solve(
    chain: Chain, places: Ints | None = None, input_error: float = 0.0, report: Report = lambda _: None
) -> Solution:
    """Solve a chain for its first state; refuse one that is too large, with its size.

    `places` [states, d] are coordinates that help to dissect the chain: connected states should be close to each other.
    Each probability may be off by a factor of 1 + `input_error`; the certified errors include what follows from that.

    >>> solve(Chain(np.array([0, 2]), np.array([0, 1]), np.array([0.75, 0.25]))).steps.value
    4.0
    """
    if chain.states == 0:
        return Solution(Bounded(1.0), Bounded(0.0), Bounded(0.0), Bounded(0.0))
    if len(chain.probability) and not chain.probability.min() >= SMALLEST:
        raise SettingsError(f"probabilities must be at least {SMALLEST:.1e}, got {chain.probability.min()!r}")
    network = _prune(chain, np.arange(chain.states)[:, None] if places is None else places)
    if network is None:
        return Solution(Bounded(0.0), Bounded(1.0), Bounded(math.inf), Bounded(math.nan))
    with np.errstate(over="ignore", invalid="ignore"):
        return _solve(network, input_error, report)


def reach(
    chain: Chain, goals: Flags, places: Ints | None = None, input_error: float = 0.0, report: Report = lambda _: None
) -> Bounded:
    """Compute the probability that a chain from state 0 reaches one of some of its states: [n + 1], the goal last.

    >>> chain = Chain(np.array([0, 2, 2]), np.array([1, 2]), np.array([0.75, 0.25]))
    >>> reach(chain, np.array([False, True, False])).value
    0.75
    """
    if goals[0]:
        return Bounded(1.0)
    lost = chain.states + 1  # in place of the goal, where that is not one of them: a state without transitions
    target = np.where(goals[chain.target], lost, chain.target)
    longer = Chain(np.append(chain.first, chain.first[-1]), target, chain.probability)
    return solve(longer, None if places is None else np.concatenate([places, places[-1:]]), input_error, report).success


# Reachability.


class Network(NamedTuple):
    """The states from which the goal can be reached, and which can be reached themselves; state 0 is the first."""

    matrix: csr_array  # [n, n + 2] of transitions: to states, to the goal, and to where the goal is out of reach
    transitions: Ints  # [n] that were added up for each row of it
    places: Ints  # [n, d]

    @property
    def states(self) -> int:
        return int(self.matrix.shape[0])


def _prune(chain: Chain, places: Ints) -> Network | None:
    """Keep the states that matter, without loops; None if the goal is out of reach."""
    count, source = chain.states, np.repeat(np.arange(chain.states), np.diff(chain.first))
    edges = coo_array((np.ones(len(source)), (source, chain.target)), shape=(count + 1, count + 1)).tocsr()
    can_reach, is_reached = (
        flags_at(breadth_first_order(graph, root, return_predecessors=False), count + 1)
        for graph, root in ((edges.T.tocsr(), count), (edges, 0))
    )
    if not can_reach[0]:
        return None
    live = np.flatnonzero((can_reach & is_reached)[:count])
    number = np.full(count + 1, len(live) + 1)
    number[np.append(live, count)] = np.arange(len(live) + 1)
    kept = (number[source] < len(live)) & (chain.target != source)
    rows, columns = number[source[kept]], number[chain.target[kept]]
    matrix = coo_array((chain.probability[kept], (rows, columns)), shape=(len(live), len(live) + 2)).tocsr()
    return Network(matrix, np.bincount(rows), places[live])


# The numbers and their errors.


def _solve(network: Network, input_error: float, report: Report) -> Solution:
    """Solve for the first state of a network, in which the goal is at least possible."""
    blocks = find_blocks(network.matrix)
    near_goal_first = np.lexsort((-np.arange(network.states), blocks.block[: network.states]))
    if blocks.large:
        solution = _certify(network, Iteration(network.matrix, near_goal_first, FEW_ROUNDS, report), input_error)
        if solution is not None and solution.is_within(SHARP):
            return solution
    elimination = Elimination(network.matrix, blocks, network.places)
    if elimination.work <= MOST_WORK and elimination.entries <= MOST_ENTRIES:
        elimination.run(report)
        solution = _certify(network, elimination, input_error)
        problem = "has numbers that are out of range for floats"
    else:
        rounds = MOST_READS // int(network.matrix.nnz)
        solution = _certify(network, Iteration(network.matrix, near_goal_first, rounds, report), input_error)
        problem = (
            f"does not converge in {rounds:,} rounds of iteration, and eliminating its states would take "
            f"{elimination.work:.0e} multiplications and {8 * elimination.entries / 1e9:.1f} GB "
            f"({MOST_WORK:.0e} and {8 * MOST_ENTRIES / 1e9:.1f} GB are allowed); estimate it instead"
        )
    if solution is None or not solution.is_within(ENOUGH):
        raise SettingsError(f"a chain of {network.states:,} states {problem}")
    return solution


def _certify(network: Network, solver: Elimination | Iteration, input_error: float) -> Solution | None:
    """Compute the numbers by a solver, and bound their errors; None if it fails."""
    zeros, ones = np.zeros(network.states), np.ones(network.states)
    duration = solver.solve(ones, np.zeros(2))  # expected steps until all is over
    if duration is None or not np.isfinite(duration).all():
        return None
    proof = _Proof(network, solver, input_error, duration)
    if not (network.matrix.indices == network.states + 1).any():  # nothing leads to where the goal is out of reach
        steps = proof.bound(duration, ones)
        return Solution(Bounded(1.0), Bounded(0.0), steps, steps)
    reached, lost = solver.solve(zeros, np.array([1.0, 0.0])), solver.solve(zeros, np.array([0.0, 1.0]))
    taken = None if reached is None else solver.solve(reached[:-2], np.zeros(2))
    if reached is None or lost is None or taken is None:
        return None
    success, failure = proof.bound(reached, zeros), proof.bound(lost, zeros)
    total = proof.bound(taken, reached[:-2], proof.errors(reached, zeros))
    return Solution(success, failure, Bounded(math.inf), _divide(total, success))


def _divide(above: Bounded, below: Bounded) -> Bounded:
    """Divide positive numbers; the error is infinite where the divisor may be zero."""
    if below.error >= below.value or above.value <= 0:
        return Bounded(math.nan, math.inf)
    value = above.value / below.value
    relative = above.error / above.value + below.error / below.value
    return Bounded(value, SAFE * value * (relative / (1 - below.error / below.value) + 2 * UNIT))


class _Proof:
    """Bounds the errors of solutions of a network's equations."""

    def __init__(self, network: Network, solver: Elimination | Iteration, input_error: float, duration: Floats) -> None:
        entries = network.matrix.tocoo()
        self.source, self.target, self.probability = entries.row, entries.col, entries.data
        self.states, self.duration = network.states, duration[:-2]
        self.row_error = input_error + network.transitions.astype(np.float64) * UNIT  # of the sums in each row
        self.relative, self.products = math.inf, 0.0
        if isinstance(solver, Elimination):
            roundings = solver.roundings
            units = PER_ROW * roundings.rows + PER_SUM * roundings.sums
            units += PER_TRANSITION * int(network.transitions.sum()) + PER_STATE * network.states
            self.relative = math.expm1(SAFE * (units * UNIT + 2 * input_error * network.states))
            self.products = roundings.products + solver.entries
        self.slack = 1 - float(self._residual(duration, np.ones(self.states)).max())

    def errors(self, values: Floats, right: Floats, right_error: Floats | None = None) -> Floats:
        """Bound the errors of a solution for a right side, which may be off itself, as one that was solved for: [n]."""
        counted = np.full(self.states, math.inf)
        if self.relative < math.inf:
            # What products too small for floating point could have changed: each is off by at most the smallest number,
            # in one of the rows, and a row is used at most as often as there are steps. The two factors are multiplied
            # last, so that neither leaves the range of floats.
            half = math.sqrt(TINIEST)
            underflow = (4 * self.products * half * self.duration) * (half * (1 + values.max()))
            counted[:] = (1 if right_error is None else 2) * (self.relative * values[:-2] + underflow)
        if self.slack <= 0:
            return counted
        residual = self._residual(values, right).max() + (0.0 if right_error is None else right_error.max())
        least: Floats = np.minimum(counted, SAFE * residual * self.duration / self.slack)
        return least

    def bound(self, values: Floats, right: Floats, right_error: Floats | None = None) -> Bounded:
        """Return the first value with its error."""
        return Bounded(float(values[0]), float(self.errors(values, right, right_error)[0]))

    def _residual(self, values: Floats, right: Floats) -> Floats:
        """Bound the residual of each equation, with the rounding errors of computing it: [n]."""
        flow = self.probability * (values[self.source] - values[self.target])
        size = np.bincount(self.source, np.abs(flow), self.states)
        residual = np.abs(right - np.bincount(self.source, flow, self.states))
        roundings = np.bincount(self.source, minlength=self.states) + 4
        computing = (roundings * UNIT + self.row_error) * size + 2 * UNIT * right + roundings * TINIEST
        bound: Floats = SAFE * (residual + computing)
        return bound
