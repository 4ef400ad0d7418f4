"""Tabular q-learning with reward machines (the paper's Algorithm 1), one agent alone: a lane."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.kernels.compiler import inlined, kernel
from hocket.kernels.primitives import Floats, first_number, second_number, slip_outcome, softmax_action, sync_draw

Shorts = NDArray[np.int16]
Ints = NDArray[np.int64]
NOTHING, UNIT = np.float32(0), np.float32(1)


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
    """Act once, learn for every machine state, and start again where the episode ends.

    Takes plain arrays and numbers, so that it can be compiled for one thread of a graphics processor as well.
    """
    cell, state, key = np.int64(lane_cell[lane]), np.int64(lane_state[lane]), lane_key[lane]
    action = softmax_action(
        q[lane, cell, 0, state],
        q[lane, cell, 1, state],
        q[lane, cell, 2, state],
        q[lane, cell, 3, state],
        q[lane, cell, 4, state],
        beta,
        first_number(key, time),
    )
    drawn = second_number(key, time)
    outcome = slip_outcome(drawn, slip_limit)
    ready = sync_draw(drawn)
    next_cell, next_state = cell, state
    for own in range(len(dynamics)):
        end = np.int64(table_cell[dynamics[own], cell, action, outcome])
        happens = ready < limit[own, end]
        target = np.int64(table_state[own, end]) if happens else np.int64(own)
        reward = table_reward[own, end] if happens else NOTHING
        if own == state:
            next_cell, next_state = end, target
        if counterfactual or own == state:
            old = q[lane, cell, action, own]
            q[lane, cell, action, own] = old + alpha * (reward + discount * best[lane, end, target] - old)
    for own in range(len(dynamics)):
        left = max(q[lane, cell, 0, own], q[lane, cell, 1, own])
        right = max(q[lane, cell, 2, own], q[lane, cell, 3, own])
        best[lane, cell, own] = max(max(left, right), q[lane, cell, 4, own])
    clock = lane_clock[lane] + 1
    if is_final[next_state] or clock >= episode_steps:
        next_cell, next_state, clock = np.int64(start), np.int64(initial), np.int64(0)
    lane_cell[lane], lane_state[lane], lane_clock[lane] = next_cell, next_state, clock


@kernel
def train_lanes(lanes: Lanes, tables: LaneTables, rates: Rates, first: int, last: int, begin: int, steps: int) -> None:
    """Train the lanes first..last-1 from step `begin` on, in lock step: while one waits for memory, others go on."""
    q, best, cell, state, clock, key = lanes
    next_cell, dynamics, next_state, reward, limit, is_final, start, initial = tables
    rate, decay, discount, beta, growth, slip_limit, episode_steps, counterfactual = rates
    for time in range(begin, begin + steps):
        alpha = rate / (UNIT + decay * np.float32(time))
        beta_now = beta * (UNIT + growth * np.float32(time))
        for lane in range(first, last):
            lane_step(
                lane, time, q, best, cell, state, clock, key,
                next_cell, dynamics, next_state, reward, limit, is_final, start, initial,
                alpha, beta_now, discount, slip_limit, episode_steps, counterfactual,
            )  # fmt: skip
