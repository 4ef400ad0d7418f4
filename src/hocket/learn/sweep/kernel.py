"""Prioritised sweeping: one agent with simulated teammates counts how its moves turn out, and plans by that.

A *move* is an action in a cell. Under another set of open gates it may be another move, and is the same where that
makes no difference. What it leads to is known from tries; some more are imagined, and lead to the best that may come of
the cell (where the agent learns) or to the worst (where it is tested). What an *arrival* in a cell is worth, before the
step settles, is kept for all states of the agent's machine at once. Changes are parts of values, as these are small far
away from a reward, and no less important there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hocket.learn.kernels.actions import greedy_action
from hocket.learn.kernels.arrays import Bools, Doubles, Floats, Index, Ints, Words, u64
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.draws import first_number, second_number, slip_outcome, start_cell, sync_draw

ACTIONS, OUTCOMES = u64(5), u64(3)
LEAST, MOST = -1e300, 1e300
TINY = 1e-50  # that nobody could keep in single precision
PRECISION = 1e-9  # of the values by which policies are tested, as a part of each
MOST_SWEEPS = 10_000


class Queue(NamedTuple):
    """A queue of cells, the most urgent first: a binary heap that knows where each cell is. None is more urgent than
    its parent. Of two alike the lower number goes first."""

    cell: Ints  # [S] of which the first `size` count
    place: Ints  # [S] where a cell is in it; -1: it is not
    urgency: Doubles  # [S]
    size: Ints  # [1]


def make_queue(cells: int) -> Queue:
    """Make room for cells in a queue that has none."""
    return Queue(np.zeros(cells, np.int64), np.full(cells, -1), np.zeros(cells), np.zeros(1, np.int64))


class SweepTables(NamedTuple):
    """The task of an agent, M being their moves (for the others see `task.individual.IndividualTable`)."""

    move: Words  # [D, S, A] which move an action is
    dynamics: Words  # [U] which of the D apply
    end: Words  # [M, K] the arrival to which it leads
    kind: Words  # [arrivals]
    limit: Ints  # [U, H, J - 1]
    chance: Doubles  # [U, H, J]
    next_state: Words  # [U, H, J]
    reward: Doubles  # [U, H, J]
    is_final: Bools  # [U]
    first_before: Words  # [S + 1] where the cells begin from which a move may lead to a cell ...
    before: Words  # ... in this list
    slip_limit: int


class MoveModel(NamedTuple):
    """What an agent believes, and what follows from it."""

    tries: Ints  # [M, K] how often a move turned out so
    chance: Doubles  # [M, K] that it does
    prior_weight: Doubles  # [M] the weight of what is imagined
    prior_value: Doubles  # [S, U] what comes of a cell in a try that is imagined
    arrival: Doubles  # [arrivals, U] what they are worth
    best: Doubles  # [U] room for the values of a cell


def make_model(world: SweepTables, prior_value: Doubles, tries: Ints | None = None) -> MoveModel:
    """Make the model of an agent that has tried moves so often, or none yet; nothing follows from it so far."""
    tries, best = np.zeros(world.end.shape, np.int64) if tries is None else tries, np.zeros(len(world.dynamics))
    chance, prior_weight = np.zeros(world.end.shape), np.ones(len(world.end))
    return MoveModel(tries, chance, prior_weight, prior_value, np.zeros((len(world.kind), len(best))), best)


class SweepLane(NamedTuple):
    """What an agent believes and where it is, all that it needs to go on."""

    model: MoveModel
    queue: Queue  # of cells to plan anew
    now: Ints  # [3] its cell, the state of its machine, and the steps of the current episode
    key: np.uint64  # of its stream of random numbers
    starts: Ints  # cells in which it may start
    initial: int  # state of its machine


class SweepParameters(NamedTuple):
    """Settings of the learning rule."""

    discount: float
    optimism: float  # tries that are imagined
    backups: int  # cells that are planned anew after a step, at most
    priority_threshold: float  # that is passed on, as a part of a value
    max_episode_steps: int  # at most


@inlined
def goes_before(queue: Queue, one: Index, other: Index) -> bool:
    """Say whether one cell is more urgent than another."""
    first, second = queue.urgency[one], queue.urgency[other]
    return bool(first > second or (first == second and one < other))


@inlined
def put(queue: Queue, place: Index, cell: Index) -> None:
    """Write a cell to a place."""
    queue.cell[place], queue.place[cell] = cell, place


@inlined
def enqueue(queue: Queue, cell: Index, urgency: float) -> None:
    """Put a cell into the queue, or make it more urgent."""
    place = queue.place[cell]
    if place < 0:
        place = queue.size[0]
        queue.size[0] += 1
    elif urgency <= queue.urgency[cell]:
        return
    queue.urgency[cell] = urgency
    while place > 0:
        parent = queue.cell[(place - 1) >> 1]
        if not goes_before(queue, cell, parent):
            break
        put(queue, place, parent)
        place = (place - 1) >> 1
    put(queue, place, cell)


@inlined
def dequeue(queue: Queue) -> Index:
    """Take the most urgent cell out of a queue that has one."""
    taken = queue.cell[0]
    queue.place[taken] = -1
    queue.size[0] -= 1
    size = queue.size[0]
    if size > 0:
        moved, place = queue.cell[size], np.int64(0)
        while 2 * place + 1 < size:
            child = 2 * place + 1
            if child + 1 < size and goes_before(queue, queue.cell[child + 1], queue.cell[child]):
                child += 1
            if not goes_before(queue, queue.cell[child], moved):
                break
            put(queue, place, queue.cell[child])
            place = child
        put(queue, place, moved)
    return taken


@inlined
def believe(move: Index, weight: float, model: MoveModel) -> None:
    """Work out from the tries of a move how it will turn out; `weight` more are imagined."""
    total = weight
    for outcome in range(OUTCOMES):
        total += model.tries[move, outcome]
    for outcome in range(OUTCOMES):
        model.chance[move, outcome] = model.tries[move, outcome] / total
    model.prior_weight[move] = weight / total


@inlined
def worth(cell: Index, action: Index, state: Index, world: SweepTables, model: MoveModel) -> float:
    """Compute the value of an action."""
    move = u64(world.move[u64(world.dynamics[state]), cell, action])
    value = model.prior_weight[move] * model.prior_value[cell, state]
    for outcome in range(OUTCOMES):
        value += model.chance[move, outcome] * model.arrival[u64(world.end[move, outcome]), state]
    return float(value)


@inlined
def back_up(cell: Index, discount: float, world: SweepTables, model: MoveModel) -> float:
    """Plan a cell anew for all machine states; return the largest change of an arrival's value, as a part of it."""
    states, change = u64(len(model.best)), 0.0
    for state in range(states):
        best = LEAST
        for action in range(ACTIONS):
            best = max(best, worth(cell, action, state, world, model))
        model.best[state] = best
    for arrival in range(cell, u64(len(world.kind)), u64(world.move.shape[1])):
        kind = u64(world.kind[arrival])
        for state in range(states):
            value = 0.0
            for case in range(u64(world.chance.shape[2])):
                following = model.best[u64(world.next_state[state, kind, case])]
                value += world.chance[state, kind, case] * (world.reward[state, kind, case] + discount * following)
            before = model.arrival[arrival, state]
            size = max(abs(value), abs(before))
            if size > TINY:
                change = max(change, abs(value - before) / size)
            model.arrival[arrival, state] = value
    return change


@inlined
def sweep(cell: Index, parameters: SweepParameters, world: SweepTables, model: MoveModel, queue: Queue) -> None:
    """Plan a cell anew, then those that are most urgent; what is left waits for the next step."""
    enqueue(queue, np.int64(cell), MOST)
    for _ in range(parameters.backups):
        if queue.size[0] == 0:
            break
        urgent = u64(dequeue(queue))
        change = back_up(urgent, parameters.discount, world, model)
        if change > parameters.priority_threshold:
            for place in range(u64(world.first_before[urgent]), u64(world.first_before[urgent + u64(1)])):
                enqueue(queue, np.int64(world.before[place]), change)


@inlined
def act(
    cell: Index, state: Index, lane: SweepLane, world: SweepTables, parameters: SweepParameters, time: int
) -> Index:
    """Take the best action by what is hoped for, count how it turns out, and plan; return the arrival."""
    model = lane.model
    values = (
        np.float32(worth(cell, u64(0), state, world, model)),
        np.float32(worth(cell, u64(1), state, world, model)),
        np.float32(worth(cell, u64(2), state, world, model)),
        np.float32(worth(cell, u64(3), state, world, model)),
        np.float32(worth(cell, u64(4), state, world, model)),
    )
    action = greedy_action(values, first_number(lane.key, time))
    move = u64(world.move[u64(world.dynamics[state]), cell, u64(action)])
    outcome = u64(slip_outcome(second_number(lane.key, time), world.slip_limit))
    model.tries[move, outcome] += 1
    believe(move, parameters.optimism, model)
    sweep(cell, parameters, world, model, lane.queue)
    return u64(world.end[move, outcome])


@kernel
def train_lane(lane: SweepLane, world: SweepTables, parameters: SweepParameters, begin: int, steps: int) -> None:
    """Train an agent from step `begin` on: it always takes the best action, by what it hopes for."""
    cell, state, clock = u64(lane.now[0]), u64(lane.now[1]), lane.now[2]
    for time in range(begin, begin + steps):
        arrival = u64(act(cell, state, lane, world, parameters, time))
        cell = arrival % u64(world.move.shape[1])
        kind, case, ready = u64(world.kind[arrival]), u64(0), sync_draw(second_number(lane.key, time))
        for later in range(u64(world.limit.shape[2])):
            case += u64(ready >= world.limit[state, kind, later])
        state = u64(world.next_state[state, kind, case])
        clock += 1
        if world.is_final[state] or clock >= parameters.max_episode_steps:
            cell = u64(start_cell(lane.key, time + 1, 0, len(lane.starts), lane.starts))
            state, clock = u64(lane.initial), np.int64(0)
    lane.now[0], lane.now[1], lane.now[2] = cell, state, clock


@kernel
def act_lane(lane: SweepLane, world: SweepTables, parameters: SweepParameters, time: int) -> Index:
    """Let an agent act in a world in which its teammates act, too; return its arrival."""
    return act(u64(lane.now[0]), u64(lane.now[1]), lane, world, parameters, time)


@kernel
def plan_lane(world: SweepTables, model: MoveModel, weight: float, discount: float, waits: Bools, q: Floats) -> None:
    """Compute chances, values and those of actions, [S, A, U], by tries, of which `weight` more are imagined. Cells are
    planned anew until nothing changes by more than the precision, as a part of what it is. A cell waits for it, as all
    do first, when something that it depends on has changed; the others would get the value that they have."""
    states, cells = u64(len(model.best)), u64(world.move.shape[1])
    for move in range(u64(len(model.prior_weight))):
        believe(move, weight, model)
    for arrival in range(u64(len(world.kind))):
        for state in range(states):
            model.arrival[arrival, state] = model.prior_value[arrival % cells, state]
    for sweeps in range(MOST_SWEEPS):
        change = 0.0
        for place in range(cells):
            cell = place if sweeps & 1 == 0 else cells - u64(1) - place  # there and back
            if not waits[cell]:
                continue
            waits[cell] = False
            change_here = back_up(cell, discount, world, model)
            change = max(change, change_here)
            if change_here > 0:
                for entry in range(u64(world.first_before[cell]), u64(world.first_before[cell + u64(1)])):
                    waits[u64(world.before[entry])] = True
        if change <= PRECISION:
            break
    for cell in range(cells):
        for action in range(ACTIONS):
            for state in range(states):
                q[cell, action, state] = worth(cell, action, state, world, model)
