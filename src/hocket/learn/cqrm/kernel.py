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
    SOFTLY,
    UNIT,
    Bools,
    Floats,
    Index,
    Ints,
    Shorts,
    Unsigned,
    beta_at,
    first_number,
    rate_at,
    second_number,
    slip_outcome,
    soft_weights,
    stream_key,
    u64,
)
from hocket.learn.kernels.team import PlayParameters
from hocket.learn.kernels.vectors import load, store
from hocket.learn.settings import Schedule
from hocket.learn.testing import Recording
from hocket.random import TEAM

ACTIONS = 5
PAIRS = ACTIONS * ACTIONS
HALF_PADDED, PADDED_PAIRS = 16, 32  # for pairs of actions
WIDTH = 8  # team states whose best actions are found at once
MINE, OTHERS = np.int64(0), np.int64(1)  # which of the two agents


class JointTables(NamedTuple):
    """What two agents as one need to know of a task. A final team state leads to itself and pays nothing."""

    next_cell: Unsigned  # [2, D, S, A, K]
    dynamics: NDArray[np.uint16]  # [B, 2] of each agent, for each pair of them that occurs
    pair: NDArray[np.uint32]  # [V] which of the pairs a team state has
    kind: Unsigned  # [2, S]
    settled: NDArray[np.uint32]  # [H, H, V] the team state after a step, by the kinds of the agents' cells
    is_final: Bools  # [V]
    own_state: Shorts  # [2, V] the state of an agent's own machine that contains a team state
    is_own_final: Bools  # [2, V] whether that is final
    start: NDArray[np.int32]  # [2]
    initial: int  # team state
    slip_limit: int


class JointWorkspace(NamedTuple):
    """Room for what is worked out within a step."""

    value: Floats  # [ROOM] of the pairs of actions
    weight: Floats  # [ROOM]
    best: Floats  # [B, V and a few more] the best pair's value in the cells where a step ends, for each dynamics


class CqrmTraining(NamedTuple):
    """Two agents that learn as one; all that is needed to go on."""

    q: Floats  # [S * S, A * A, V]; a few more numbers may be read past its end
    place: Ints  # [4] the agents' cells, the team state, the steps of the current episode
    key: np.uint64  # of the stream of random numbers


class CqrmParameters(NamedTuple):
    """Settings of the learning rule."""

    schedule: Schedule
    discount: np.float32
    max_episode_steps: int  # at most
    counterfactual: bool  # learn for all team states in every step


def workspace_bytes(pairs: int, states: int) -> int:
    """Say how much memory the room for so many pairs of dynamics and team states takes, but for a few bytes."""
    return pairs * (states + WIDTH) * 4


def make_workspace(pairs: int = 0, states: int = 0) -> JointWorkspace:
    """Make room for so many pairs of dynamics and team states; of none, to choose actions only."""
    numbers = (np.zeros(PADDED_PAIRS, np.float32), np.zeros(PADDED_PAIRS, np.float32))
    return JointWorkspace(*numbers, np.zeros((pairs, states + WIDTH), np.float32))


@inlined
def joint_action(
    q: Floats, cells: Index, state: Index, beta: np.float32, greedy: bool, drawn: np.uint64, workspace: JointWorkspace
) -> Index:
    """Choose a pair of actions."""
    value, weight = workspace.value, workspace.weight
    best = q[cells, u64(0), state]
    for action in range(u64(PAIRS)):
        value[action] = q[cells, action, state]
        best = max(best, value[action])
    if greedy:
        for action in range(u64(PAIRS)):
            weight[action] = UNIT if value[action] == best else NOTHING
    else:
        store(weight, u64(0), soft_weights(load(value, u64(0), HALF_PADDED), best, beta))
        store(weight, u64(HALF_PADDED), soft_weights(load(value, u64(HALF_PADDED), HALF_PADDED), best, beta))
    total = NOTHING
    for action in range(u64(PAIRS)):
        value[action], total = total, total + weight[action]  # the weight of all before it
    mark = np.float32(np.int64(drawn >> ACTION_SHIFT)) * ACTION_UNIT * total
    chosen = u64(0)
    for action in range(u64(PAIRS)):
        if weight[action] > NOTHING and mark >= value[action]:
            chosen = action
    return chosen


@inlined
def advance(state: Index, one: Index, other: Index, tables: JointTables) -> Index:
    """Return the team state after the step in which the two agents arrive in their cells."""
    return u64(tables.settled[u64(tables.kind[0, one]), u64(tables.kind[1, other]), state])


@inlined
def arrive(agent: Index, pair: Index, cell: Index, action: Index, outcome: Index, tables: JointTables) -> Index:
    """Return the cell where an agent's action ends."""
    dynamics = u64(tables.dynamics[pair, u64(agent)])
    return u64(tables.next_cell[u64(agent), dynamics, cell, action, u64(outcome)])


@inlined
def find_best(q: Floats, cells: Index, workspace: JointWorkspace, pair: Index) -> None:
    """Find the value of the best pair of actions in every team state, in two cells."""
    states = u64(q.shape[2])
    width = u64(workspace.best.shape[1])
    for first in range(u64(0), states, u64(WIDTH)):
        at = cells * u64(PAIRS) * states + first
        highest = load(q, at, WIDTH)
        for action in range(u64(1), u64(PAIRS)):
            highest = max(highest, load(q, at + action * states, WIDTH))
        store(workspace.best, pair * width + first, highest)


@kernel
def train_jointly(
    training: CqrmTraining,
    tables: JointTables,
    parameters: CqrmParameters,
    workspace: JointWorkspace,
    begin: int,
    steps: int,
) -> None:
    """Train from step `begin` on; the halves of one random number decide who slips."""
    q, place, key = training
    width, pairs = u64(tables.next_cell.shape[2]), u64(len(tables.dynamics))
    one, other, state, clock = u64(place[0]), u64(place[1]), u64(place[2]), place[3]
    for time in range(begin, begin + steps):
        alpha, beta = rate_at(parameters.schedule, time), beta_at(parameters.schedule, time)
        cells = one * width + other
        action = joint_action(q, cells, state, beta, SOFTLY, first_number(key, time), workspace)
        mine, others = action // u64(ACTIONS), action % u64(ACTIONS)
        slips = second_number(key, time)
        outcome_1 = slip_outcome(slips, tables.slip_limit)
        outcome_2 = slip_outcome(slips << np.uint64(32), tables.slip_limit)
        for pair in range(pairs):  # before anything is learnt, for a step may end where it began
            end_1 = arrive(MINE, pair, one, mine, outcome_1, tables)
            end_2 = arrive(OTHERS, pair, other, others, outcome_2, tables)
            find_best(q, end_1 * width + end_2, workspace, pair)
        for team_state in range(u64(len(tables.is_final))):
            if parameters.counterfactual or team_state == state:
                pair = u64(tables.pair[team_state])
                end_1 = arrive(MINE, pair, one, mine, outcome_1, tables)
                end_2 = arrive(OTHERS, pair, other, others, outcome_2, tables)
                target = advance(team_state, end_1, end_2, tables)
                reward = UNIT if tables.is_final[target] and not tables.is_final[team_state] else NOTHING
                old = q[cells, action, team_state]
                goal = reward + parameters.discount * workspace.best[pair, target]
                q[cells, action, team_state] = old + alpha * (goal - old)
        pair = u64(tables.pair[state])
        one = arrive(MINE, pair, one, mine, outcome_1, tables)
        other = arrive(OTHERS, pair, other, others, outcome_2, tables)
        state = advance(state, one, other, tables)
        clock += 1
        if tables.is_final[state] or clock >= parameters.max_episode_steps:
            one, other, state, clock = u64(tables.start[0]), u64(tables.start[1]), u64(tables.initial), np.int64(0)
    place[0], place[1], place[2], place[3] = one, other, state, clock


@kernel
def play_jointly(
    q: Floats,
    tables: JointTables,
    workspace: JointWorkspace,
    finish: Ints,  # [2] out: when each agent's own machine was first final, in steps; -1: never
    play: PlayParameters,
    number: int,
    recording: Recording,
) -> int:
    """Play a test episode; return its steps, or -1 if the task was not done in time.

    The actions are drawn from the first agent's stream, the slips from each agent's own.
    """
    width = u64(tables.next_cell.shape[2])
    key_1, key_2 = stream_key(TEAM, play.seed, MINE, number), stream_key(TEAM, play.seed, OTHERS, number)
    one, other, state = u64(tables.start[0]), u64(tables.start[1]), u64(tables.initial)
    for agent in range(2):
        finish[agent] = 0 if tables.is_own_final[agent, state] else -1
    for time in range(play.most_steps):
        if tables.is_final[state]:
            return time
        action = joint_action(
            q, one * width + other, state, play.beta, play.greedy, first_number(key_1, time), workspace
        )
        mine, others = action // u64(ACTIONS), action % u64(ACTIONS)
        outcome_1 = slip_outcome(second_number(key_1, time), tables.slip_limit)
        outcome_2 = slip_outcome(second_number(key_2, time), tables.slip_limit)
        pair = u64(tables.pair[state])
        one = arrive(MINE, pair, one, mine, outcome_1, tables)
        other = arrive(OTHERS, pair, other, others, outcome_2, tables)
        state = advance(state, one, other, tables)
        for agent in range(2):
            if finish[agent] < 0 and tables.is_own_final[agent, state]:
                finish[agent] = time + 1
        if time < len(recording.cell):
            recording.cell[time, 0], recording.cell[time, 1] = one, other
            recording.action[time, 0], recording.action[time, 1] = mine, others
            for agent in range(2):
                recording.state[time, agent] = tables.own_state[agent, state]
    return play.most_steps if tables.is_final[state] else -1
