"""Value iteration that works only where something may still change, nearest to the rewards first.

A *pair* is a state of the agent's machine and a cell: number state x cells + cell. Pairs are put in the order of how
many steps they are from a reward, so that one pass through them carries a reward to wherever it can be earned. A pair
waits to be looked at again when something that it depends on has changed. All that no reward can be reached from stays
zero, and costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from hocket.learn.kernels.arrays import Bools, Doubles, Floats, Index, Ints, Words, u64
from hocket.learn.kernels.compiler import inlined, kernel

QUARTER_TURNS, STAY = u64(4), u64(4)
PART = 1e-9  # of a value that it may be off by; single precision, in which values are kept, has less
TINY = 1e-50  # that nobody could keep in single precision


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
    """What is known so far, and what is still to be looked at; B pairs can earn a reward."""

    best: Doubles  # [U x S] what a pair is worth
    arrival: Doubles  # [U x arrivals] what arrivals are worth, before the step settles; follows from `best`
    order: Ints  # [U x S] the pairs, of which the first B count
    place: Ints  # [U x S] where a pair is in it; -1: it is not
    is_waiting: Bools  # [U x S] whether the pair at a place is
    size: Ints  # [1] B
    ahead: Ints  # [1] no place after this one waits for the current pass
    behind: Ints  # [2] no place outside of these two waits for the next one


@inlined
def arrive(state: Index, arrival: Index, cell: Index, world: PlanningTables, values: Values) -> float:
    """Compute what an arrival in a cell is worth: what the machine pays, and what comes then."""
    kind, cells, worth = u64(world.kind[arrival]), u64(world.end.shape[1]), 0.0
    for case in range(u64(world.chance.shape[2])):
        following = values.best[u64(world.next_state[state, kind, case]) * cells + cell]
        worth += world.chance[state, kind, case] * (world.reward[state, kind, case] + world.discount * following)
    return worth


@inlined
def act(action: Index, state: Index, cell: Index, world: PlanningTables, values: Values) -> float:
    """Compute what an action is worth; it may slip a quarter turn to either side, and staying never does."""
    dynamics, first = u64(world.dynamics[state]), state * u64(len(world.kind))
    right, left = action, action
    if action != STAY:
        right, left = (action + u64(1)) % QUARTER_TURNS, (action + u64(3)) % QUARTER_TURNS
    return float(
        values.arrival[first + u64(world.end[dynamics, cell, action])] * world.straight
        + values.arrival[first + u64(world.end[dynamics, cell, right])] * world.aside
        + values.arrival[first + u64(world.end[dynamics, cell, left])] * world.aside
    )


@inlined
def queue_predecessors(state: Index, cell: Index, current: Index, world: PlanningTables, values: Values) -> None:
    """Let those pairs wait from which an action may lead to one: for the current pass, where it has yet to come."""
    first = state * u64(world.end.shape[1])
    for entry in range(u64(world.first_before[cell]), u64(world.first_before[cell + u64(1)])):
        place = values.place[first + u64(world.before[entry])]
        values.is_waiting[place] = True
        if place >= current:
            values.ahead[0] = max(values.ahead[0], place)
        else:
            values.behind[0], values.behind[1] = min(values.behind[0], place), max(values.behind[1], place)


@inlined
def append_before(state: Index, cell: Index, world: PlanningTables, values: Values) -> None:
    """Append those pairs to the order from which an action may lead to one, unless they are in it."""
    first = state * u64(world.end.shape[1])
    for entry in range(u64(world.first_before[cell]), u64(world.first_before[cell + u64(1)])):
        pair = first + u64(world.before[entry])
        if values.place[pair] < 0:
            values.place[pair] = values.size[0]
            values.order[values.size[0]] = pair
            values.size[0] += 1


@kernel
def put_in_order(world: PlanningTables, values: Values) -> None:
    """Find the pairs from which a reward can be earned, the nearest first; all of them wait."""
    cells, arrivals, kinds = u64(world.end.shape[1]), u64(len(world.kind)), u64(world.chance.shape[1])
    for state in range(u64(len(world.dynamics))):
        for arrival in range(arrivals):
            cell = arrival % cells
            earned = 0.0 if world.is_final[state] else arrive(state, arrival, cell, world, values)
            values.arrival[state * arrivals + arrival] = earned
            if earned != 0:
                append_before(state, cell, world, values)
    place = 0
    while place < values.size[0]:
        pair = u64(values.order[place])
        state, cell = pair // cells, pair % cells
        for arrival in range(cell, arrivals, cells):
            row = state * kinds + u64(world.kind[arrival])
            for entry in range(u64(world.first_source[row]), u64(world.first_source[row + u64(1)])):
                append_before(u64(world.source[entry]), cell, world, values)
        values.is_waiting[place] = True
        place += 1
    values.behind[0], values.behind[1] = 0, place - 1


@kernel
def improve(world: PlanningTables, values: Values, tolerance: float) -> int:
    """Look at all pairs that wait, in order, with those that begin to wait meanwhile; return how many looks it took. A
    value is replaced, and others wait because of it, if it is off by more than the tolerance, or than a small part of
    itself. So where nobody waits any more, no value differs from what its successors say by more than that."""
    cells, arrivals, kinds, looks = u64(world.end.shape[1]), u64(len(world.kind)), u64(world.chance.shape[1]), 0
    place, values.ahead[0] = values.behind
    values.behind[0], values.behind[1] = len(values.order), -1
    while place <= values.ahead[0]:
        if not values.is_waiting[place]:
            place += 1
            continue
        pair = u64(values.order[place])
        state, cell = pair // cells, pair % cells
        values.is_waiting[place] = False
        looks += 1
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
                queue_predecessors(before, cell, place, world, values)
    return looks


@kernel
def tabulate(world: PlanningTables, values: Values, q: Floats) -> None:
    """Write down what each action is worth: q [S, A, U or more]."""
    for state in range(u64(len(world.dynamics))):
        if world.is_final[state]:
            continue
        for cell in range(u64(world.end.shape[1])):
            for action in range(u64(q.shape[1])):
                q[cell, action, state] = act(action, state, cell, world, values)
