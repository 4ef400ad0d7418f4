"""Prioritised sweeping: an agent with simulated teammates counts the outcomes of its moves, and plans with them.

A *move* is an action in a cell; with other gates open, it is another move if its outcomes differ. Its value is
estimated from its tries and from pseudo-counts of an optimistic value (in training) or a pessimistic one (in tests).
The value of an *arrival* in a cell, before the step settles, is kept for all states of the agent's machine. Changes are
relative, as values far away from a reward are small.
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
TINY = 1e-50  # less than single precision can represent
PRECISION = 1e-9  # relative, of the values by which policies are tested
MOST_SWEEPS = 10_000


class Queue(NamedTuple):
    """A priority queue of cells, as a binary heap; of equal priorities the lower cell is first."""

    cell: Ints  # [S] of which the first `size` are in the queue
    position: Ints  # [S] of a cell in the heap; -1: not in the queue
    priority: Doubles  # [S]
    size: Ints  # [1]


def make_queue(cells: int) -> Queue:
    """Make an empty queue."""
    return Queue(np.zeros(cells, np.int64), np.full(cells, -1), np.zeros(cells), np.zeros(1, np.int64))


class SweepTables(NamedTuple):
    """The task of an agent with M moves (for the other fields see `task.individual.IndividualTable`)."""

    move: Words  # [D, S, A] which move an action is
    dynamics: Words  # [U] which of the D apply
    end: Words  # [M, K] the arrival to which a move leads
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
    """What an agent has learnt of its moves, and values that follow from it."""

    tries: Ints  # [M, K] how often each outcome of a move was seen
    chance: Doubles  # [M, K] the weight of an outcome
    prior_weight: Doubles  # [M] the weight of the prior value
    prior_value: Doubles  # [S, U] of a cell
    arrival: Doubles  # [arrivals, U] values of arrivals
    best: Doubles  # [U] buffer for the values of a cell


def make_model(world: SweepTables, prior_value: Doubles, tries: Ints | None = None) -> MoveModel:
    """Make the model of an agent with these tries, or none; its values are not computed yet."""
    tries, best = np.zeros(world.end.shape, np.int64) if tries is None else tries, np.zeros(len(world.dynamics))
    chance, prior_weight = np.zeros(world.end.shape), np.ones(len(world.end))
    return MoveModel(tries, chance, prior_weight, prior_value, np.zeros((len(world.kind), len(best))), best)


class SweepLane(NamedTuple):
    """The training state of an agent."""

    model: MoveModel
    queue: Queue  # of cells to back up
    now: Ints  # [3] its cell, the state of its machine, and the steps of the current episode
    key: np.uint64  # of its stream of random numbers
    starts: Ints  # cells in which it may start
    initial: int  # state of its machine


class SweepParameters(NamedTuple):
    """Settings of the learning rule."""

    discount: float
    optimism: float  # optimistic pseudo-counts
    backups: int  # cells that are backed up after a step, at most
    priority_threshold: float  # relative change of a value above which predecessors are queued
    max_episode_steps: int


@inlined
def goes_before(queue: Queue, one: Index, other: Index) -> bool:
    """Say whether one cell comes before another."""
    first, second = queue.priority[one], queue.priority[other]
    return bool(first > second or (first == second and one < other))


@inlined
def put(queue: Queue, index: Index, cell: Index) -> None:
    """Put a cell at an index of the heap."""
    queue.cell[index], queue.position[cell] = cell, index


@inlined
def enqueue(queue: Queue, cell: Index, priority: float) -> None:
    """Add a cell to the queue, or raise its priority."""
    index = queue.position[cell]
    if index < 0:
        index = queue.size[0]
        queue.size[0] += 1
    elif priority <= queue.priority[cell]:
        return
    queue.priority[cell] = priority
    while index > 0:
        parent = queue.cell[(index - 1) >> 1]
        if not goes_before(queue, cell, parent):
            break
        put(queue, index, parent)
        index = (index - 1) >> 1
    put(queue, index, cell)


@inlined
def dequeue(queue: Queue) -> Index:
    """Remove and return the first cell of a queue that is not empty."""
    first = queue.cell[0]
    queue.position[first] = -1
    queue.size[0] -= 1
    size = queue.size[0]
    if size > 0:
        moved, index = queue.cell[size], np.int64(0)
        while 2 * index + 1 < size:
            child = 2 * index + 1
            if child + 1 < size and goes_before(queue, queue.cell[child + 1], queue.cell[child]):
                child += 1
            if not goes_before(queue, queue.cell[child], moved):
                break
            put(queue, index, queue.cell[child])
            index = child
        put(queue, index, moved)
    return first


@inlined
def estimate(move: Index, weight: float, model: MoveModel) -> None:
    """Estimate the outcomes of a move from its tries and `weight` pseudo-counts of the prior value."""
    total = weight
    for outcome in range(OUTCOMES):
        total += model.tries[move, outcome]
    for outcome in range(OUTCOMES):
        model.chance[move, outcome] = model.tries[move, outcome] / total
    model.prior_weight[move] = weight / total


@inlined
def action_value(cell: Index, action: Index, state: Index, world: SweepTables, model: MoveModel) -> float:
    """Compute the value of an action."""
    move = u64(world.move[u64(world.dynamics[state]), cell, action])
    value = model.prior_weight[move] * model.prior_value[cell, state]
    for outcome in range(OUTCOMES):
        value += model.chance[move, outcome] * model.arrival[u64(world.end[move, outcome]), state]
    return float(value)


@inlined
def back_up(cell: Index, discount: float, world: SweepTables, model: MoveModel) -> float:
    """Back up a cell in all machine states; return the largest relative change of an arrival's value."""
    states, change = u64(len(model.best)), 0.0
    for state in range(states):
        best = LEAST
        for action in range(ACTIONS):
            best = max(best, action_value(cell, action, state, world, model))
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
    """Back up a cell, then those of highest priority; the others wait for the next step."""
    enqueue(queue, np.int64(cell), MOST)
    for _ in range(parameters.backups):
        if queue.size[0] == 0:
            break
        first = u64(dequeue(queue))
        change = back_up(first, parameters.discount, world, model)
        if change > parameters.priority_threshold:
            for index in range(u64(world.first_before[first]), u64(world.first_before[first + u64(1)])):
                enqueue(queue, np.int64(world.before[index]), change)


@inlined
def act(
    cell: Index, state: Index, lane: SweepLane, world: SweepTables, parameters: SweepParameters, time: int
) -> Index:
    """Take the best action by optimistic values, count its outcome, and plan; return the arrival."""
    model = lane.model
    values = (
        np.float32(action_value(cell, u64(0), state, world, model)),
        np.float32(action_value(cell, u64(1), state, world, model)),
        np.float32(action_value(cell, u64(2), state, world, model)),
        np.float32(action_value(cell, u64(3), state, world, model)),
        np.float32(action_value(cell, u64(4), state, world, model)),
    )
    action = greedy_action(values, first_number(lane.key, time))
    move = u64(world.move[u64(world.dynamics[state]), cell, u64(action)])
    outcome = u64(slip_outcome(second_number(lane.key, time), world.slip_limit))
    model.tries[move, outcome] += 1
    estimate(move, parameters.optimism, model)
    sweep(cell, parameters, world, model, lane.queue)
    return u64(world.end[move, outcome])


@kernel
def train_lane(lane: SweepLane, world: SweepTables, parameters: SweepParameters, begin: int, steps: int) -> None:
    """Train an agent from step `begin` on."""
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
    """Let an agent act together with its teammates; return its arrival."""
    return act(u64(lane.now[0]), u64(lane.now[1]), lane, world, parameters, time)


@kernel
def plan_lane(world: SweepTables, model: MoveModel, weight: float, discount: float, waits: Bools, q: Floats) -> None:
    """Compute the values of actions, [S, A, U], from tries and `weight` pseudo-counts, by sweeps until no value changes
    by more than PRECISION. At first all cells wait to be backed up, then those with a successor that has changed."""
    states, cells = u64(len(model.best)), u64(world.move.shape[1])
    for move in range(u64(len(model.prior_weight))):
        estimate(move, weight, model)
    for arrival in range(u64(len(world.kind))):
        for state in range(states):
            model.arrival[arrival, state] = model.prior_value[arrival % cells, state]
    for sweeps in range(MOST_SWEEPS):
        change = 0.0
        for index in range(cells):
            cell = index if sweeps & 1 == 0 else cells - u64(1) - index  # forwards and backwards in turn
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
                q[cell, action, state] = action_value(cell, action, state, world, model)
