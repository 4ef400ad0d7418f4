"""Independent q-learning in the team world: all agents learn at once, from the team's reward."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hocket.learn.kernels.actions import largest, rates_at, softmax_action, values_at
from hocket.learn.kernels.arrays import Floats, Ints, u64
from hocket.learn.kernels.compiler import kernel
from hocket.learn.kernels.draws import first_number, second_number, slip_outcome
from hocket.learn.kernels.team import DONE, ENDLESS, TeamState, TeamTables, act, reset_team, settle, team_return
from hocket.learn.settings import LearningRule


class IqlTraining(NamedTuple):
    """The training state of a team."""

    q: Floats  # [N, S, A, M]
    team: TeamState  # with the keys of the training streams
    before: Ints  # [N, 3] buffer for each agent's cell, memory and action
    clock: Ints  # [1] steps of the current episode; -1: not begun


@kernel
def train_independently(training: IqlTraining, tables: TeamTables, rule: LearningRule, begin: int, steps: int) -> bool:
    """Train a team of independent learners from step `begin` on; say whether every step has settled."""
    q, team, before, clock = training
    for time in range(begin, begin + steps):
        if clock[0] < 0:
            reset_team(time, team, tables)
            clock[0] = 0
        alpha, beta = rates_at(rule, time)
        earned = team_return(team, False, tables)
        ready = np.int64(0)
        for agent in range(len(team.cell)):
            cell, memory, key = team.cell[agent], team.memory[agent], team.key[agent]
            action = softmax_action(values_at(q, agent, cell, memory), beta, first_number(key, time))
            before[agent, 0], before[agent, 1], before[agent, 2] = cell, memory, action
            outcome = slip_outcome(second_number(key, time), tables.slip_limit)
            ready += act(agent, action, outcome, team, tables)
        ended = settle(ready, clock[0] + 1, team, tables)
        if ended == ENDLESS:
            return False
        done = ended == DONE
        reward = np.float32(team_return(team, done, tables) - earned)
        for agent in range(len(team.cell)):
            target = reward
            if not done or rule.bootstrap_past_end:
                target += rule.discount * largest(values_at(q, agent, team.cell[agent], team.memory[agent]))
            cell, memory, action = u64(before[agent, 0]), u64(before[agent, 1]), u64(before[agent, 2])
            q[agent, cell, action, memory] += alpha * (target - q[agent, cell, action, memory])
        clock[0] += 1
        if done or clock[0] >= rule.max_episode_steps:
            clock[0] = -1
    return True
