"""Independent q-learning in the team world: every agent learns at once, from the team's reward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import (
    SOFTLY,
    Floats,
    Ints,
    beta_at,
    first_number,
    rate_at,
    second_number,
    u64,
)
from hocket.learn.kernels.team import (
    DONE,
    ENDLESS,
    TeamState,
    TeamTables,
    choose,
    move_agent,
    reset_team,
    settle,
    team_return,
)
from hocket.learn.settings import Schedule


class IqlTraining(NamedTuple):
    """A team that learns; all that is needed to go on."""

    q: Floats  # [N, S, A, M]
    team: TeamState  # with the keys of the training streams
    before: Ints  # [N, 3] room for each agent's cell, memory and action
    clock: Ints  # [1] steps of the current episode; -1: not begun


class IqlParameters(NamedTuple):
    """Settings of the learning rule."""

    schedule: Schedule
    discount: np.float32
    max_episode_steps: int  # at most
    bootstrap_past_end: bool  # also on the step that completes the task


@inlined
def best_value(q: Floats, agent: int, cell: int, memory: int) -> np.float32:
    """Return the value of an agent's best action."""
    who, where, what = u64(agent), u64(cell), u64(memory)
    left = max(q[who, where, u64(0), what], q[who, where, u64(1), what])
    right = max(q[who, where, u64(2), what], q[who, where, u64(3), what])
    return max(max(left, right), q[who, where, u64(4), what])


@kernel
def train_independently(
    training: IqlTraining, tables: TeamTables, parameters: IqlParameters, begin: int, steps: int
) -> bool:
    """Train a team of independent learners from step `begin` on; say whether every step has settled."""
    q, team, before, clock = training
    for time in range(begin, begin + steps):
        if clock[0] < 0:
            reset_team(time, team, tables)
            clock[0] = 0
        alpha, beta = rate_at(parameters.schedule, time), beta_at(parameters.schedule, time)
        earned = team_return(team, False, tables)
        ready = np.int64(0)
        for agent in range(len(team.cell)):
            cell, memory, key = team.cell[agent], team.memory[agent], team.key[agent]
            action = choose(q, agent, cell, memory, beta, SOFTLY, first_number(key, time))
            before[agent, 0], before[agent, 1], before[agent, 2] = cell, memory, action
            ready += move_agent(agent, action, second_number(key, time), team, tables)
        ended = settle(ready, clock[0] + 1, team, tables)
        if ended == ENDLESS:
            return False
        done = ended == DONE
        reward = np.float32(team_return(team, done, tables) - earned)
        for agent in range(len(team.cell)):
            target = reward
            if not done or parameters.bootstrap_past_end:
                target += parameters.discount * best_value(q, agent, team.cell[agent], team.memory[agent])
            cell, memory, action = u64(before[agent, 0]), u64(before[agent, 1]), u64(before[agent, 2])
            q[agent, cell, action, memory] += alpha * (target - q[agent, cell, action, memory])
        clock[0] += 1
        if done or clock[0] >= parameters.max_episode_steps:
            clock[0] = -1
    return True
