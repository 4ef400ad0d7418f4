"""Tabular q-learning with reward machines (the paper's Algorithm 1), one agent with simulated teammates: a lane.

`train_lane` trains one lane in plain numbers and arrays, as a graphics processor's thread would run it. `train_lanes`
does the same to many lanes in lock step: what needs no table (random numbers, exponentials, the choice of actions) goes
over all lanes at once, in loops that become vector instructions. Both give the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import (
    ACTION_SHIFT,
    ACTION_UNIT,
    C1,
    C2,
    C3,
    C4,
    C5,
    C6,
    HALF,
    LEAST,
    LOG2_E,
    UNIT,
    Floats,
    Index,
    Ints,
    beta_at,
    first_number,
    rate_at,
    second_number,
    slip_outcome,
    softmax_action,
    sync_draw,
)
from hocket.learn.settings import Schedule
from hocket.task.tables import IndividualTable

VECTOR = 16  # lanes that a vector instruction takes; room is made for whole multiples
WORTHWHILE = 3  # lanes from which on lock step pays
BIAS, SHIFT = np.int32(127), np.int32(23)  # of the exponent in a 32-bit float


class Lanes(NamedTuple):
    """Lanes of one agent, all at the same step of their training; all that is needed to go on."""

    q: Floats  # [lanes, S, A, U]
    best: Floats  # [lanes, S, U] the best action's value
    cell: Ints  # [lanes]
    state: Ints  # [lanes] of the machine
    clock: Ints  # [lanes] steps of the current episode
    key: NDArray[np.uint64]  # [lanes] of the stream of random numbers


class Rule(NamedTuple):
    """Settings of the learning rule."""

    schedule: Schedule
    discount: np.float32
    episode_steps: int  # at most
    counterfactual: bool  # learn for all machine states in every step


class Together(NamedTuple):
    """Room for what is computed for all lanes at once; `width` is the number of lanes or a little more."""

    weight: Floats  # [A, width] of the actions
    best: Floats  # [width]
    bits: NDArray[np.int32]  # [width] powers of two, as bits ...
    power: Floats  # [width] ... and as the numbers that they are
    first: NDArray[np.uint64]  # [width] random numbers
    second: NDArray[np.uint64]  # [width]
    action: Ints  # [width]


def make_room(lanes: int) -> Together:
    """Make room for some lanes."""
    width = -(-lanes // VECTOR) * VECTOR
    bits = np.zeros(width, np.int32)
    numbers = (np.zeros(width, np.uint64), np.zeros(width, np.uint64))
    weight, best = np.zeros((5, width), np.float32), np.zeros(width, np.float32)
    return Together(weight, best, bits, bits.view(np.float32), *numbers, np.zeros(width, np.int64))


@inlined
def learn(
    lane: Index, action: Index, drawn: np.uint64, alpha: np.float32, lanes: Lanes, table: IndividualTable, rule: Rule
) -> None:
    """Take an action, learn from it for every machine state, and start again where the episode ends.

    Final states lead to themselves and pay nothing, so that their values stay 0.
    """
    q, best = lanes.q, lanes.best
    cell, state = lanes.cell[lane], lanes.state[lane]
    outcome = slip_outcome(drawn, table.slip_limit)
    ready = sync_draw(drawn)
    next_cell, next_state = cell, state
    for own in range(len(table.dynamics)):
        end = np.int64(table.next_cell[table.dynamics[own], cell, action, outcome])
        happens = np.int64(ready < table.sync_limit[own, end])
        target = own + (np.int64(table.next_state[own, end]) - own) * happens  # a branch would be guesswork
        if own == state:
            next_cell, next_state = end, target
        if rule.counterfactual or own == state:
            old = q[lane, cell, action, own]
            goal = table.reward[own, end] * np.float32(happens) + rule.discount * best[lane, end, target]
            q[lane, cell, action, own] = old + alpha * (goal - old)
    for own in range(len(table.dynamics)):
        left = max(q[lane, cell, 0, own], q[lane, cell, 1, own])
        right = max(q[lane, cell, 2, own], q[lane, cell, 3, own])
        best[lane, cell, own] = max(max(left, right), q[lane, cell, 4, own])
    clock = lanes.clock[lane] + 1
    if table.is_final[next_state] or clock >= rule.episode_steps:
        next_cell, next_state, clock = np.int64(table.start), np.int64(table.initial), np.int64(0)
    lanes.cell[lane], lanes.state[lane], lanes.clock[lane] = next_cell, next_state, clock


@inlined
def choose_together(room: Together, beta: np.float32) -> None:
    """Choose an action for every lane, as `softmax_action` does, from the values in `room.weight`."""
    weight, best, bits, power, first, _, action = room
    width = len(best)
    for lane in range(width):
        left, right = max(weight[0, lane], weight[1, lane]), max(weight[2, lane], weight[3, lane])
        best[lane] = max(max(left, right), weight[4, lane])
    for option in range(5):
        for lane in range(width):
            scaled = max(beta * (weight[option, lane] - best[lane]) * LOG2_E, LEAST)
            whole = np.int32(scaled - HALF)
            f = scaled - np.float32(whole)
            bits[lane] = (whole + BIAS) << SHIFT
            weight[option, lane] = UNIT + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
        for lane in range(width):
            weight[option, lane] *= power[lane]
    for lane in range(width):
        w0 = weight[0, lane]
        w1 = w0 + weight[1, lane]
        w2 = w1 + weight[2, lane]
        w3 = w2 + weight[3, lane]
        w4 = w3 + weight[4, lane]
        mark = np.float32(np.int64(first[lane] >> ACTION_SHIFT)) * ACTION_UNIT * w4
        action[lane] = np.int64(mark >= w0) + np.int64(mark >= w1) + np.int64(mark >= w2) + np.int64(mark >= w3)


@kernel
def train_lanes(lanes: Lanes, table: IndividualTable, rule: Rule, room: Together, begin: int, steps: int) -> None:
    """Train all lanes from step `begin` on, in lock step."""
    q, cell, state, key = lanes.q, lanes.cell, lanes.state, lanes.key
    for time in range(begin, begin + steps):
        for lane in range(len(key)):
            room.first[lane] = first_number(key[lane], time)
            room.second[lane] = second_number(key[lane], time)
        for lane in range(len(key)):
            for option in range(5):
                room.weight[option, lane] = q[lane, cell[lane], option, state[lane]]
        choose_together(room, beta_at(rule.schedule, time))
        alpha = rate_at(rule.schedule, time)
        for lane in range(len(key)):
            learn(lane, room.action[lane], room.second[lane], alpha, lanes, table, rule)


@kernel
def train_lane(lanes: Lanes, table: IndividualTable, rule: Rule, lane: int, begin: int, steps: int) -> None:
    """Train one lane from step `begin` on, as `train_lanes` does."""
    q, key = lanes.q, lanes.key[lane]
    for time in range(begin, begin + steps):
        cell, state = lanes.cell[lane], lanes.state[lane]
        action = softmax_action(
            q[lane, cell, 0, state],
            q[lane, cell, 1, state],
            q[lane, cell, 2, state],
            q[lane, cell, 3, state],
            q[lane, cell, 4, state],
            beta_at(rule.schedule, time),
            first_number(key, time),
        )
        learn(lane, action, second_number(key, time), rate_at(rule.schedule, time), lanes, table, rule)
