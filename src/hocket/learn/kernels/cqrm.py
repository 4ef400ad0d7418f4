"""Centralised q-learning with the team's reward machine: two agents as one, over joint cells and joint actions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import (
    ACTION_SHIFT,
    ACTION_UNIT,
    NOTHING,
    UNIT,
    Bools,
    Floats,
    Index,
    Ints,
    Shorts,
    beta_at,
    first_number,
    rate_at,
    second_number,
    slip_outcome,
    stream_key,
    weight_of,
)
from hocket.learn.kernels.team import Play, Recording, happens
from hocket.learn.settings import Schedule
from hocket.random import TEAM

ACTIONS = 5


class JointTables(NamedTuple):
    """What two agents as one need to know of a task. A final team state leads to itself and pays nothing."""

    next_cell: Shorts  # [2, D, S, A, K]
    dynamics: Shorts  # [2, V] by team state
    event: Shorts  # [2, V, S] by team state: what the agent proposes
    knowers: NDArray[np.int32]  # [E]
    team_next: NDArray[np.int32]  # [V, E]
    is_final: Bools  # [V]
    own_state: Shorts  # [2, V] the state of an agent's own machine that contains a team state
    is_own_final: Bools  # [2, V] whether that is final
    start: Shorts  # [2]
    initial: int  # team state
    slip_limit: int


class Learning(NamedTuple):
    """Two agents that learn as one; all that is needed to go on."""

    q: Floats  # [S * S, A * A, V]
    best: Floats  # [S * S, V] the best joint action's value
    place: Ints  # [4] the agents' cells, the team state, the steps of the current episode
    key: np.uint64  # of the stream of random numbers


class Rule(NamedTuple):
    """Settings of the learning rule."""

    schedule: Schedule
    discount: np.float32
    episode_steps: int  # at most
    counterfactual: bool  # learn for all team states in every step


@inlined
def joint_action(q: Floats, cells: Index, state: Index, beta: np.float32, greedy: bool, drawn: np.uint64) -> int:
    """Choose a joint action."""
    best = q[cells, 0, state]
    for action in range(1, ACTIONS * ACTIONS):
        best = max(best, q[cells, action, state])
    total = NOTHING
    for action in range(ACTIONS * ACTIONS):
        total += weight_of(q[cells, action, state], best, beta, greedy)
    mark = np.float32(np.int64(drawn >> ACTION_SHIFT)) * ACTION_UNIT * total
    chosen, sum_so_far = 0, NOTHING
    for action in range(ACTIONS * ACTIONS):
        weight = weight_of(q[cells, action, state], best, beta, greedy)
        if weight > NOTHING and mark >= sum_so_far:
            chosen = action
        sum_so_far += weight
    return chosen


@inlined
def advance(state: Index, one: Index, other: Index, tables: JointTables) -> np.int64:
    """Return the team state after the events that happen when the two agents arrive in their cells."""
    first, second = np.int64(tables.event[0, state, one]), np.int64(tables.event[1, state, other])
    together = np.int64(first == second)
    target = np.int64(state)
    if first >= 0 and happens(first, 1 + together, tables.knowers):
        target = np.int64(tables.team_next[target, first])
    if second >= 0 and not together and happens(second, 1, tables.knowers):
        target = np.int64(tables.team_next[target, second])
    return target


@kernel
def train_jointly(learning: Learning, tables: JointTables, rule: Rule, begin: int, steps: int) -> None:
    """Train from step `begin` on; the halves of one random number decide who slips."""
    q, best, place, key = learning
    width = np.int64(tables.next_cell.shape[2])
    one, other, state, clock = place[0], place[1], place[2], place[3]
    for time in range(begin, begin + steps):
        alpha, beta = rate_at(rule.schedule, time), beta_at(rule.schedule, time)
        cells = one * width + other
        action = joint_action(q, cells, state, beta, False, first_number(key, time))
        slips = second_number(key, time)
        outcome_1 = slip_outcome(slips, tables.slip_limit)
        outcome_2 = slip_outcome(slips << np.uint64(32), tables.slip_limit)
        next_one, next_other, next_state = one, other, state
        for own in range(len(tables.is_final)):
            end_1 = np.int64(tables.next_cell[0, tables.dynamics[0, own], one, action // ACTIONS, outcome_1])
            end_2 = np.int64(tables.next_cell[1, tables.dynamics[1, own], other, action % ACTIONS, outcome_2])
            target = np.int64(own) if tables.is_final[own] else advance(own, end_1, end_2, tables)
            reward = UNIT if tables.is_final[target] and not tables.is_final[own] else NOTHING
            if own == state:
                next_one, next_other, next_state = end_1, end_2, target
            if rule.counterfactual or own == state:
                old = q[cells, action, own]
                goal = reward + rule.discount * best[end_1 * width + end_2, target]
                q[cells, action, own] = old + alpha * (goal - old)
        for own in range(len(tables.is_final)):
            highest = q[cells, 0, own]
            for other_action in range(1, ACTIONS * ACTIONS):
                highest = max(highest, q[cells, other_action, own])
            best[cells, own] = highest
        clock += 1
        one, other, state = next_one, next_other, next_state
        if tables.is_final[state] or clock >= rule.episode_steps:
            one, other = np.int64(tables.start[0]), np.int64(tables.start[1])
            state, clock = np.int64(tables.initial), np.int64(0)
    place[0], place[1], place[2], place[3] = one, other, state, clock


@kernel
def play_jointly(
    q: Floats,
    tables: JointTables,
    finish: Ints,  # [2] out: when each agent's own machine was first final, in steps; -1: never
    play: Play,
    number: int,
    recording: Recording,
) -> int:
    """Play a test episode; return its steps, or -1 if the task was not done in time.

    The actions are drawn from the first agent's stream, the slips from each agent's own.
    """
    width = np.int64(tables.next_cell.shape[2])
    key_1, key_2 = stream_key(TEAM, play.seed, 0, number), stream_key(TEAM, play.seed, 1, number)
    one, other, state = np.int64(tables.start[0]), np.int64(tables.start[1]), np.int64(tables.initial)
    for agent in range(2):
        finish[agent] = 0 if tables.is_own_final[agent, state] else -1
    for time in range(play.most_steps):
        if tables.is_final[state]:
            return time
        action = joint_action(q, one * width + other, state, play.beta, play.greedy, first_number(key_1, time))
        outcome_1 = slip_outcome(second_number(key_1, time), tables.slip_limit)
        outcome_2 = slip_outcome(second_number(key_2, time), tables.slip_limit)
        one = np.int64(tables.next_cell[0, tables.dynamics[0, state], one, action // ACTIONS, outcome_1])
        other = np.int64(tables.next_cell[1, tables.dynamics[1, state], other, action % ACTIONS, outcome_2])
        state = advance(state, one, other, tables)
        for agent in range(2):
            if finish[agent] < 0 and tables.is_own_final[agent, state]:
                finish[agent] = time + 1
        if time < len(recording.cell):
            recording.cell[time, 0], recording.cell[time, 1] = one, other
            recording.action[time, 0], recording.action[time, 1] = action // ACTIONS, action % ACTIONS
            for agent in range(2):
                recording.state[time, agent] = tables.own_state[agent, state]
    return play.most_steps if tables.is_final[state] else -1
