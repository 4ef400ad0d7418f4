"""Value iteration that updates only what may still change, nearest to the rewards first.

A *pair* is a machine state and a cell: number state x cells + cell. Pairs are ordered by their distance to a reward, so
that one pass carries rewards to all pairs that can earn them. A pair waits for an update when a value that it depends
on has changed. Pairs from which no reward can be reached stay 0, and cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from hocket.learn.kernels.arrays import Bools, Doubles, Floats, Index, Ints, Words, u64
from hocket.learn.kernels.compiler import inlined, kernel

QUARTER_TURNS, STAY = u64(4), u64(4)
PART = 1e-9  # relative error of a value, less than that of single precision
TINY = 1e-50  # less than single precision can represent


class PlanningTables(NamedTuple):
    """An agent with simulated teammates (see `hocket.task.individual.IndividualTable`)."""

    end: Words  # [D, S, A] the arrival to which an action leads if it succeeds
    dynamics: Words  # [U] which of the D apply
    kind: Words  # [arrivals]
    chance: Doubles  # [U, H, J]
    reward: Doubles  # [U, H, J]
    next_state: Words  # [U, H, J]
    is_final: Bools  # [U]
    first_before: Words  # [S + 1] where the cells begin from which an action may lead to a cell ...
    before: Words  # ... in this list
    first_source: Words  # [U x H + 1] where the states begin from which a kind of step leads to a state ...
    source: Words  # ... in this list
    straight: float  # chance that a move does not slip
    aside: float  # chance that it slips to a given side
    discount: float


class Values(NamedTuple):
    """Values so far, and the pairs that wait for an update; B pairs can earn a reward."""

    best: Doubles  # [U x S] values of pairs
    arrival: Doubles  # [U x arrivals] values of arrivals, before the step settles; they follow from `best`
    order: Ints  # [U x S] the first B are the pairs
    position: Ints  # [U x S] of a pair in `order`; -1: none
    is_waiting: Bools  # [U x S] whether the pair at an index is waiting
    size: Ints  # [1] B
    ahead: Ints  # [1] the last index that waits for the current pass
    behind: Ints  # [2] the first and the last index that wait for the next pass


@inlined
def arrive(state: Index, arrival: Index, cell: Index, world: PlanningTables, values: Values) -> float:
    """Compute the value of an arrival in a cell: the expected reward, and the discounted value of the next pair."""
    kind, cells, worth = u64(world.kind[arrival]), u64(world.end.shape[1]), 0.0
    for case in range(u64(world.chance.shape[2])):
        following = values.best[u64(world.next_state[state, kind, case]) * cells + cell]
        worth += world.chance[state, kind, case] * (world.reward[state, kind, case] + world.discount * following)
    return worth


@inlined
def act(action: Index, state: Index, cell: Index, world: PlanningTables, values: Values) -> float:
    """Compute the value of an action; a move may slip a quarter turn to either side."""
    dynamics, first = u64(world.dynamics[state]), state * u64(len(world.kind))
    right, left = action, action
    if action != STAY:
        right, left = (action + u64(1)) % QUARTER_TURNS, (action + u64(3)) % QUARTER_TURNS
    ahead = values.arrival[first + u64(world.end[dynamics, cell, action])] * world.straight
    right_value = values.arrival[first + u64(world.end[dynamics, cell, right])] * world.aside
    return float(ahead + right_value + values.arrival[first + u64(world.end[dynamics, cell, left])] * world.aside)


@inlined
def queue_predecessors(state: Index, cell: Index, current: Index, world: PlanningTables, values: Values) -> None:
    """Let the pairs wait from which an action may lead to this one, in the current pass if it has yet to come."""
    first = state * u64(world.end.shape[1])
    for entry in range(u64(world.first_before[cell]), u64(world.first_before[cell + u64(1)])):
        index = values.position[first + u64(world.before[entry])]
        values.is_waiting[index] = True
        if index >= current:
            values.ahead[0] = max(values.ahead[0], index)
        else:
            values.behind[0], values.behind[1] = min(values.behind[0], index), max(values.behind[1], index)


@inlined
def append_before(state: Index, cell: Index, world: PlanningTables, values: Values) -> None:
    """Append the pairs from which an action may lead to this one to the order, unless they are in it."""
    first = state * u64(world.end.shape[1])
    for entry in range(u64(world.first_before[cell]), u64(world.first_before[cell + u64(1)])):
        pair = first + u64(world.before[entry])
        if values.position[pair] < 0:
            values.position[pair] = values.size[0]
            values.order[values.size[0]] = pair
            values.size[0] += 1


@kernel
def put_in_order(world: PlanningTables, values: Values) -> None:
    """Find the pairs from which a reward can be earned, the nearest first; all of them wait."""
    cells, arrivals, kinds = u64(world.end.shape[1]), u64(len(world.kind)), u64(world.chance.shape[1])
    for state in range(u64(len(world.dynamics))):
        for arrival in range(arrivals):
            cell = arrival % cells
            value = 0.0 if world.is_final[state] else arrive(state, arrival, cell, world, values)
            values.arrival[state * arrivals + arrival] = value
            if value != 0:
                append_before(state, cell, world, values)
    index = 0
    while index < values.size[0]:
        pair = u64(values.order[index])
        state, cell = pair // cells, pair % cells
        for arrival in range(cell, arrivals, cells):
            row = state * kinds + u64(world.kind[arrival])
            for entry in range(u64(world.first_source[row]), u64(world.first_source[row + u64(1)])):
                append_before(u64(world.source[entry]), cell, world, values)
        values.is_waiting[index] = True
        index += 1
    values.behind[0], values.behind[1] = 0, index - 1


@kernel
def improve(world: PlanningTables, values: Values, tolerance: float) -> int:
    """Update all pairs that wait, in order, with those that begin to wait meanwhile; return how many updates it took.
    A change counts if it is larger than the tolerance or a small part of the value, so in the end, when no pair waits,
    no value differs by more from what its successors imply."""
    cells, arrivals, kinds = u64(world.end.shape[1]), u64(len(world.kind)), u64(world.chance.shape[1])
    updates = 0
    index, values.ahead[0] = values.behind
    values.behind[0], values.behind[1] = len(values.order), -1
    while index <= values.ahead[0]:
        if not values.is_waiting[index]:
            index += 1
            continue
        pair = u64(values.order[index])
        state, cell = pair // cells, pair % cells
        values.is_waiting[index] = False
        updates += 1
        best = act(STAY, state, cell, world, values)
        for action in range(QUARTER_TURNS):
            best = max(best, act(action, state, cell, world, values))
        if abs(best - values.best[pair]) <= max(TINY, min(tolerance, PART * abs(best))):
            continue
        values.best[pair] = best
        for arrival in range(cell, arrivals, cells):
            row = state * kinds + u64(world.kind[arrival])
            for entry in range(u64(world.first_source[row]), u64(world.first_source[row + u64(1)])):
                before = u64(world.source[entry])
                values.arrival[before * arrivals + arrival] = arrive(before, arrival, cell, world, values)
                queue_predecessors(before, cell, index, world, values)
    return updates


@kernel
def tabulate(world: PlanningTables, values: Values, q: Floats) -> None:
    """Compute the values of all actions: q [S, A, U or more]."""
    for state in range(u64(len(world.dynamics))):
        if world.is_final[state]:
            continue
        for cell in range(u64(world.end.shape[1])):
            for action in range(u64(q.shape[1])):
                q[cell, action, state] = act(action, state, cell, world, values)
