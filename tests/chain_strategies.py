"""Random absorbing chains, and what exact rational arithmetic says of them."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from hocket.evaluation.elimination import Chain

GOAL = -1

Rows = Sequence[Mapping[int, float]]  # for each state: where it leads, with what chance; GOAL for the goal


def make_chain(rows: Rows) -> Chain:
    """Turn rows of chances into a chain."""
    first = np.cumsum([0, *(len(row) for row in rows)])
    target = [len(rows) if end == GOAL else end for row in rows for end in row]
    return Chain(first, np.array(target, np.int64), np.array([chance for row in rows for chance in row.values()]))


class Truth(NamedTuple):
    """What rational arithmetic says of a chain's first state."""

    success: Fraction
    steps_if_reached: Fraction | None  # None if the goal is out of reach


def solve_rationally(rows: Rows) -> Truth:
    """Solve a chain by Gauss and Jordan in fractions, with subtractions, which they forgive."""
    away = [{end: Fraction(chance) for end, chance in row.items() if end != state} for state, row in enumerate(rows)]
    live = reaching(away)
    if 0 not in live:
        return Truth(Fraction(0), None)
    reached = linear(away, live, {state: Fraction(away[state].get(GOAL, 0)) for state in live})
    taken = linear(away, live, reached)
    return Truth(reached[0], taken[0] / reached[0])


def time_until_over(rows: Rows) -> Fraction:
    """Find the longest expected time until the goal is reached or out of reach, from any state."""
    away = [{end: Fraction(chance) for end, chance in row.items() if end != state} for state, row in enumerate(rows)]
    live = reaching(away)
    return max(linear(away, live, dict.fromkeys(live, Fraction(1))).values())


def reaching(away: Sequence[Mapping[int, Fraction]]) -> list[int]:
    """List the states from which the goal can be reached."""
    found = {GOAL}
    while more := {state for state, row in enumerate(away) if state not in found and found & row.keys()}:
        found |= more
    return sorted(found - {GOAL})


def linear(
    away: Sequence[Mapping[int, Fraction]], live: Sequence[int], right: Mapping[int, Fraction]
) -> dict[int, Fraction]:
    """Solve value * chance of leaving - sum of chance * value = right, for the states that matter."""
    table = [
        [-away[state].get(other, Fraction(0)) if other != state else sum(away[state].values()) for other in live]
        + [right[state]]
        for state in live
    ]
    for pivot, own in enumerate(table):
        for row in table:
            if row is not own and row[pivot]:
                factor = row[pivot] / own[pivot]
                row[:] = [value - factor * other for value, other in zip(row, own, strict=True)]
    return {state: row[-1] / row[pivot] for pivot, (state, row) in enumerate(zip(live, table, strict=True))}


@st.composite
def rows_of_chances(draw: st.DrawFn, states: int = 9, smallest: float = 1e-300) -> list[dict[int, float]]:
    """Draw chains of all kinds: sure or not, with states that nothing leaves or reaches, and nearly decomposable."""
    count = draw(st.integers(1, states))
    exponents = st.one_of(st.just(0.0), st.floats(np.log10(smallest), 0.0), st.floats(-20.0, 0.0))
    rows = []
    for _ in range(count):
        ends = draw(st.lists(st.integers(GOAL, count - 1), min_size=1, max_size=4, unique=True))
        weights = [10.0**power for power in draw(st.tuples(*(exponents for _ in ends)))]
        total = sum(weights) * draw(st.sampled_from((1.0, 1.0, 1.5)))
        rows.append({end: weight / total for end, weight in zip(ends, weights, strict=True) if weight / total > 1e-306})
    return rows
