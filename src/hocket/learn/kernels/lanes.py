"""Tabular q-learning with reward machines (the paper's Algorithm 1), one agent alone: a lane.

`lane_step` is a whole step of one lane, in plain numbers and arrays, as a graphics processor's thread would run it.
`train_lanes` does the same to many lanes in lock step: what needs no table (random numbers, exponentials, the choice
of actions) goes over all lanes at once, in loops that become vector instructions. Both give the same bits.
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
    Floats,
    Index,
    first_number,
    second_number,
    slip_outcome,
    softmax_action,
    sync_draw,
)

Shorts = NDArray[np.int16]
Ints = NDArray[np.int64]
NOTHING, UNIT = np.float32(0), np.float32(1)
VECTOR = 16  # lanes that a vector instruction takes; room is made for whole multiples
WORTHWHILE = 3  # lanes from which on lock step pays
BIAS, SHIFT = np.int32(127), np.int32(23)  # of the exponent in a 32-bit float


class LaneTables(NamedTuple):
    """What a lane needs to know of its agent's task. A final state leads to itself and pays nothing."""

    next_cell: Shorts  # [D, S, A, K]
    dynamics: Shorts  # [U]
    next_state: Shorts  # [U, S] after the event that the agent takes for possible
    reward: Floats  # [U, S]
    limit: Ints  # [U, S] the event takes effect if a draw is below this
    is_final: NDArray[np.bool_]  # [U]
    start: int  # cell
    initial: int  # machine state


class Lanes(NamedTuple):
    """Lanes of one agent, all at the same step of their training; all that is needed to go on."""

    q: Floats  # [lanes, S, A, U]
    best: Floats  # [lanes, S, U] the best action's value
    cell: Ints  # [lanes]
    state: Ints  # [lanes] of the machine
    clock: Ints  # [lanes] steps of the current episode
    key: NDArray[np.uint64]  # [lanes] of the stream of random numbers


class Rates(NamedTuple):
    """Settings of the learning rule."""

    learning_rate: np.float32
    learning_rate_decay: np.float32  # the rate at step t is learning_rate / (1 + decay * t)
    discount: np.float32
    beta: np.float32  # inverse temperature
    beta_growth: np.float32  # at step t it is beta * (1 + growth * t)
    slip_limit: int
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
    lane: Index,
    action: Index,
    drawn: np.uint64,
    q: Floats,
    best: Floats,
    lane_cell: Ints,
    lane_state: Ints,
    lane_clock: Ints,
    table_cell: Shorts,
    dynamics: Shorts,
    table_state: Shorts,
    table_reward: Floats,
    limit: Ints,
    is_final: NDArray[np.bool_],
    start: int,
    initial: int,
    alpha: np.float32,
    discount: np.float32,
    slip_limit: int,
    episode_steps: int,
    counterfactual: bool,
) -> None:
    """Take an action, learn from it for every machine state, and start again where the episode ends."""
    cell, state = lane_cell[lane], lane_state[lane]
    outcome = slip_outcome(drawn, slip_limit)
    ready = sync_draw(drawn)
    next_cell, next_state = cell, state
    for own in range(len(dynamics)):
        end = np.int64(table_cell[dynamics[own], cell, action, outcome])
        happens = np.int64(ready < limit[own, end])
        target = own + (np.int64(table_state[own, end]) - own) * happens  # without a branch, which would be guesswork
        if own == state:
            next_cell, next_state = end, target
        if counterfactual or own == state:
            old = q[lane, cell, action, own]
            goal = table_reward[own, end] * np.float32(happens) + discount * best[lane, end, target]
            q[lane, cell, action, own] = old + alpha * (goal - old)
    for own in range(len(dynamics)):
        left = max(q[lane, cell, 0, own], q[lane, cell, 1, own])
        right = max(q[lane, cell, 2, own], q[lane, cell, 3, own])
        best[lane, cell, own] = max(max(left, right), q[lane, cell, 4, own])
    clock = lane_clock[lane] + 1
    if is_final[next_state] or clock >= episode_steps:
        next_cell, next_state, clock = np.int64(start), np.int64(initial), np.int64(0)
    lane_cell[lane], lane_state[lane], lane_clock[lane] = next_cell, next_state, clock


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
def train_lanes(lanes: Lanes, tables: LaneTables, rates: Rates, room: Together, begin: int, steps: int) -> None:
    """Train all lanes from step `begin` on, in lock step."""
    q, best, cell, state, clock, key = lanes
    next_cell, dynamics, next_state, reward, limit, is_final, start, initial = tables
    rate, decay, discount, beta, growth, slip_limit, episode_steps, counterfactual = rates
    for time in range(begin, begin + steps):
        alpha = rate / (UNIT + decay * np.float32(time))
        for lane in range(len(key)):
            room.first[lane] = first_number(key[lane], time)
            room.second[lane] = second_number(key[lane], time)
        for lane in range(len(key)):
            for option in range(5):
                room.weight[option, lane] = q[lane, cell[lane], option, state[lane]]
        choose_together(room, beta * (UNIT + growth * np.float32(time)))
        for lane in range(len(key)):
            learn(
                lane, room.action[lane], room.second[lane], q, best, cell, state, clock,
                next_cell, dynamics, next_state, reward, limit, is_final, start, initial,
                alpha, discount, slip_limit, episode_steps, counterfactual,
            )  # fmt: skip


@inlined
def lane_step(
    lane: int,
    time: int,
    q: Floats,
    best: Floats,
    lane_cell: Ints,
    lane_state: Ints,
    lane_clock: Ints,
    lane_key: NDArray[np.uint64],
    table_cell: Shorts,
    dynamics: Shorts,
    table_state: Shorts,
    table_reward: Floats,
    limit: Ints,
    is_final: NDArray[np.bool_],
    start: int,
    initial: int,
    alpha: np.float32,
    beta: np.float32,
    discount: np.float32,
    slip_limit: int,
    episode_steps: int,
    counterfactual: bool,
) -> None:
    """Do a whole step of one lane."""
    cell, state, key = lane_cell[lane], lane_state[lane], lane_key[lane]
    action = softmax_action(
        q[lane, cell, 0, state],
        q[lane, cell, 1, state],
        q[lane, cell, 2, state],
        q[lane, cell, 3, state],
        q[lane, cell, 4, state],
        beta,
        first_number(key, time),
    )
    learn(
        lane, action, second_number(key, time), q, best, lane_cell, lane_state, lane_clock,
        table_cell, dynamics, table_state, table_reward, limit, is_final, start, initial,
        alpha, discount, slip_limit, episode_steps, counterfactual,
    )  # fmt: skip


@kernel
def train_lane(lanes: Lanes, tables: LaneTables, rates: Rates, lane: int, begin: int, steps: int) -> None:
    """Train one lane from step `begin` on, as `train_lanes` does."""
    q, best, cell, state, clock, key = lanes
    next_cell, dynamics, next_state, reward, limit, is_final, start, initial = tables
    rate, decay, discount, beta, growth, slip_limit, episode_steps, counterfactual = rates
    for time in range(begin, begin + steps):
        lane_step(
            lane, time, q, best, cell, state, clock, key,
            next_cell, dynamics, next_state, reward, limit, is_final, start, initial,
            rate / (UNIT + decay * np.float32(time)), beta * (UNIT + growth * np.float32(time)),
            discount, slip_limit, episode_steps, counterfactual,
        )  # fmt: skip
