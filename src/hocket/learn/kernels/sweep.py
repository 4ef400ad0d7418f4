"""Prioritised sweeping: one agent with simulated teammates counts how its moves turn out, and plans by that.

A *move* is an action in a cell. Under another set of open gates it may be another move, and is the same where that
makes no difference. What it leads to is known from tries; a few more tries are imagined, and lead to the best that may
come (where the agent learns) or to the worst (where it is tested). What *arriving* in a cell is worth, before the step
settles, is kept for all states of the agent's machine at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import (
    Bools,
    Floats,
    Index,
    Ints,
    first_number,
    greedy_action,
    second_number,
    slip_outcome,
    sync_draw,
    u64,
)
from hocket.learn.kernels.queue import Queue, dequeue, enqueue

ACTIONS, OUTCOMES = u64(5), u64(3)
LEAST, MOST = -1e300, 1e300

Doubles = NDArray[np.float64]
Words = NDArray[np.int32]


class World(NamedTuple):
    """An agent's task, M being its moves (see `hocket.task.individual.IndividualTable` for the others)."""

    move: Words  # [U, S, A] which move an action is
    end: Words  # [M, K] where it leads
    kind: Words  # [S]
    limit: Ints  # [U, H, J - 1]
    chance: Doubles  # [U, H, J]
    next_state: Words  # [U, H, J]
    reward: Doubles  # [U, H, J]
    is_final: Bools  # [U]
    first_before: Words  # [S + 1] where the cells begin from which a move may lead to a cell ...
    before: Words  # ... in this list
    start: int
    initial: int
    slip_limit: int


class Model(NamedTuple):
    """What an agent believes, and what follows from it."""

    tries: Ints  # [M, K] how often a move turned out so
    chance: Doubles  # [M, K] that it does
    doubt: Doubles  # [M] the weight of what is imagined
    imagined: Doubles  # [U] worth
    arrival: Doubles  # [S, U] what it is worth to arrive
    best: Doubles  # [U] room for the values of a cell


class Lane(NamedTuple):
    """Where an agent is; with its model all that is needed to go on."""

    queue: Queue  # of cells to plan anew
    cell: Ints  # [1]
    state: Ints  # [1] of the machine
    clock: Ints  # [1] steps of the current episode
    key: NDArray[np.uint64]  # [1] of the stream of random numbers


class Rule(NamedTuple):
    """Settings of the learning rule."""

    discount: float
    optimism: float  # tries that are imagined
    backups: int  # cells that are planned anew after a step, at most
    least_change: float  # that is passed on
    episode_steps: int  # at most


@inlined
def believe(move: Index, weight: float, model: Model) -> None:
    """Work out from the tries of a move how it will turn out; `weight` more are imagined."""
    total = weight
    for outcome in range(OUTCOMES):
        total += model.tries[move, outcome]
    for outcome in range(OUTCOMES):
        model.chance[move, outcome] = model.tries[move, outcome] / total
    model.doubt[move] = weight / total


@inlined
def worth(cell: Index, action: Index, state: Index, world: World, model: Model) -> float:
    """Compute the value of an action."""
    move = u64(world.move[state, cell, action])
    value = model.doubt[move] * model.imagined[state]
    for outcome in range(OUTCOMES):
        value += model.chance[move, outcome] * model.arrival[u64(world.end[move, outcome]), state]
    return float(value)


@inlined
def back_up(cell: Index, discount: float, world: World, model: Model) -> float:
    """Plan a cell anew for all states of the machine; return the largest change of what it is worth to arrive."""
    states, kind, change = u64(len(model.best)), u64(world.kind[cell]), 0.0
    for state in range(states):
        best = LEAST
        for action in range(ACTIONS):
            best = max(best, worth(cell, action, state, world, model))
        model.best[state] = best
    for state in range(states):
        value = 0.0
        for case in range(u64(world.chance.shape[2])):
            following = model.best[u64(world.next_state[state, kind, case])]
            value += world.chance[state, kind, case] * (world.reward[state, kind, case] + discount * following)
        change = max(change, abs(value - model.arrival[cell, state]))
        model.arrival[cell, state] = value
    return change


@inlined
def pass_on(cell: Index, change: float, world: World, queue: Queue) -> None:
    """Queue the cells from which a move may lead to a cell."""
    for place in range(u64(world.first_before[cell]), u64(world.first_before[cell + u64(1)])):
        enqueue(queue, np.int64(world.before[place]), change)


@inlined
def sweep(cell: Index, rule: Rule, world: World, model: Model, queue: Queue) -> None:
    """Plan a cell anew, then those that are most urgent; what is left waits for the next step."""
    enqueue(queue, np.int64(cell), MOST)
    for _ in range(rule.backups):
        if queue.size[0] == 0:
            break
        urgent = u64(dequeue(queue))
        change = back_up(urgent, rule.discount, world, model)
        if change > rule.least_change:
            pass_on(urgent, change, world, queue)


@kernel
def train_lane(lane: Lane, world: World, model: Model, rule: Rule, begin: int, steps: int) -> None:
    """Train an agent from step `begin` on: it always takes the best action, by what it hopes for."""
    cell, state, clock, key = u64(lane.cell[0]), u64(lane.state[0]), lane.clock[0], lane.key[0]
    for time in range(begin, begin + steps):
        action = greedy_action(
            np.float32(worth(cell, u64(0), state, world, model)),
            np.float32(worth(cell, u64(1), state, world, model)),
            np.float32(worth(cell, u64(2), state, world, model)),
            np.float32(worth(cell, u64(3), state, world, model)),
            np.float32(worth(cell, u64(4), state, world, model)),
            first_number(key, time),
        )
        drawn = second_number(key, time)
        move, outcome = u64(world.move[state, cell, u64(action)]), u64(slip_outcome(drawn, world.slip_limit))
        model.tries[move, outcome] += 1
        believe(move, rule.optimism, model)
        sweep(cell, rule, world, model, lane.queue)
        cell = u64(world.end[move, outcome])
        kind, case, ready = u64(world.kind[cell]), u64(0), sync_draw(drawn)
        for later in range(u64(world.limit.shape[2])):
            case += u64(ready >= world.limit[state, kind, later])
        state = u64(world.next_state[state, kind, case])
        clock += 1
        if world.is_final[state] or clock >= rule.episode_steps:
            cell, state, clock = u64(world.start), u64(world.initial), np.int64(0)
    lane.cell[0], lane.state[0], lane.clock[0] = cell, state, clock


@kernel
def plan(world: World, model: Model, weight: float, discount: float, precision: float, most: int, q: Floats) -> None:
    """Compute action values by the tries of a model, of which `weight` more are imagined: q [S, A, U]."""
    for move in range(u64(len(model.doubt))):
        believe(move, weight, model)
    cells = u64(len(world.kind))
    for sweeps in range(most):
        change = 0.0
        for place in range(cells):
            cell = place if sweeps & 1 == 0 else cells - u64(1) - place  # there and back
            change = max(change, back_up(cell, discount, world, model))
        if change <= precision:
            break
    for cell in range(cells):
        for action in range(ACTIONS):
            for state in range(u64(len(model.best))):
                q[cell, action, state] = worth(cell, action, state, world, model)
