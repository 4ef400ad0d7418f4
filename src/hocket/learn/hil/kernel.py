"""Hierarchical independent learning: a meta-policy chooses options by memory, an option's policy goes to a place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import (
    NOTHING,
    SOFTLY,
    UNIT,
    Bools,
    Floats,
    Index,
    Ints,
    Shorts,
    first_number,
    largest,
    second_number,
    sync_draw,
    u64,
    weight_of,
)
from hocket.learn.kernels.team import (
    DONE,
    ENDLESS,
    FAILED,
    GOING,
    NEVER_SETTLED,
    PlayParameters,
    TeamState,
    TeamTables,
    begin_episode,
    choose,
    move_agent,
    record_step,
    reset_team,
    settle,
    team_return,
    values_at,
)
from hocket.learn.settings import LearningRule
from hocket.learn.testing import Recording
from hocket.random import CHANCE_BITS
from hocket.task.grid import STAY

CHANCE_UNIT = np.float32(2.0**-CHANCE_BITS)


class Options(NamedTuple):
    """The agents' options (see `hocket.task.tables.Tables`), their values, and how each agent's current one goes."""

    meta: Floats  # [N, M, O]
    low: Floats  # [N, S, A, O]
    target: Bools  # [N, O, S]
    bit: Shorts  # [N, O] of memory that makes it available; -1: always; -2: there is no such option
    current: Ints  # [N] -1: none
    chosen_in: Ints  # [N] the memory in which it was chosen
    earned: NDArray[np.float64]  # [N] discounted reward since then
    age: Ints  # [N] steps since then
    weight: Floats  # [O] room for what weighs in a choice


class HilTraining(NamedTuple):
    """A team that learns; all that is needed to go on."""

    team: TeamState  # with the keys of the training streams
    options: Options
    before: Ints  # [N, 2] room for each agent's cell and action
    clock: Ints  # [1] steps of the current episode; -1: not begun


@inlined
def is_available(options: Options, agent: int, option: int, memory: int) -> bool:
    """Say whether an option may be chosen."""
    bit = np.int64(options.bit[agent, option])
    return bool(bit == -1 or (bit >= 0 and (memory >> bit) & 1 == 1))


@inlined
def choose_option(options: Options, agent: int, memory: int, beta: np.float32, greedy: bool, drawn: np.uint64) -> int:
    """Choose among the available options by their values; -1 if there is none.

    Of the number that decides the chances in a step, the upper half decides whether the agent slips. The lower half is
    for simulated teammates (`sync_draw`); in the team world they are real, so that it is free to choose the option.
    """
    meta, weight, best, total = options.meta, options.weight, np.float32(-1e30), NOTHING
    for option in range(meta.shape[2]):
        if is_available(options, agent, option, memory):
            best = max(best, meta[agent, memory, option])
    for option in range(meta.shape[2]):
        weight[option] = NOTHING
        if is_available(options, agent, option, memory):
            weight[option] = weight_of(meta[agent, memory, option], best, beta, greedy)
        total += weight[option]
    mark = np.float32(sync_draw(drawn)) * CHANCE_UNIT * total
    chosen, sum_so_far = -1, NOTHING
    for option in range(meta.shape[2]):
        if weight[option] > NOTHING and (chosen < 0 or mark >= sum_so_far):
            chosen = option
        sum_so_far += weight[option]
    return chosen


@inlined
def begin_options(options: Options, team: TeamState, beta: np.float32, greedy: bool, time: int) -> None:
    """Let every agent that has no option choose one."""
    for agent in range(len(team.cell)):
        if options.current[agent] < 0:
            drawn = second_number(team.key[agent], time)
            memory = team.memory[agent]
            options.current[agent] = choose_option(options, agent, memory, beta, greedy, drawn)
            options.chosen_in[agent] = memory
            options.earned[agent] = 0.0
            options.age[agent] = 0


@inlined
def act(options: Options, agent: int, cell: int, beta: np.float32, greedy: bool, drawn: np.uint64) -> Index:
    """Choose an action by the current option's policy; stay where there is no option."""
    if options.current[agent] < 0:
        return STAY
    return choose(values_at(options.low, agent, cell, options.current[agent]), beta, greedy, drawn)


@inlined
def learn_options(
    options: Options, agent: int, cell: int, action: int, end: int, memory: int, rule: LearningRule
) -> None:
    """Update the policies of all options that are available now."""
    low = options.low
    for option in range(low.shape[3]):
        if is_available(options, agent, option, memory):
            at_target = options.target[agent, option, u64(end)]
            value = UNIT if at_target else NOTHING
            if not at_target or rule.bootstrap_past_end:
                value += rule.discount * largest(values_at(low, agent, end, option))
            here = (u64(agent), u64(cell), u64(action), u64(option))
            low[here] += rule.learning_rate * (value - low[here])


@inlined
def learn_meta(options: Options, agent: int, memory: int, bootstrap: bool, rule: LearningRule) -> None:
    """Update the value of an option that has ended."""
    meta = options.meta
    best = NOTHING
    is_any = False
    for option in range(meta.shape[2]):
        if is_available(options, agent, option, memory) and (not is_any or meta[agent, memory, option] > best):
            best, is_any = meta[agent, memory, option], True
    value = np.float32(options.earned[agent])
    if bootstrap:
        value += np.float32(np.float64(rule.discount) ** options.age[agent]) * best
    chosen_in, option = options.chosen_in[agent], options.current[agent]
    meta[agent, chosen_in, option] += rule.learning_rate * (value - meta[agent, chosen_in, option])


@kernel
def train_hierarchically(training: HilTraining, tables: TeamTables, rule: LearningRule, begin: int, steps: int) -> bool:
    """Train a team of hierarchical learners from step `begin` on; say whether every step has settled."""
    team, options, before, clock = training
    for time in range(begin, begin + steps):
        if clock[0] < 0:
            reset_team(time, team, tables)
            clock[0] = 0
            for agent in range(len(team.cell)):
                options.current[agent] = -1
        begin_options(options, team, rule.beta, SOFTLY, time)
        ready, earned = np.int64(0), team_return(team, False, tables)
        for agent in range(len(team.cell)):
            key, cell = team.key[agent], team.cell[agent]
            action = act(options, agent, cell, rule.beta, SOFTLY, first_number(key, time))
            before[agent, 0], before[agent, 1] = cell, action
            ready += move_agent(agent, action, second_number(key, time), team, tables)
        ended = settle(ready, clock[0] + 1, team, tables)
        if ended == ENDLESS:
            return False
        done = ended == DONE
        reward = team_return(team, done, tables) - earned
        for agent in range(len(team.cell)):
            memory, end = team.memory[agent], team.cell[agent]
            learn_options(options, agent, before[agent, 0], before[agent, 1], end, memory, rule)
            if options.current[agent] >= 0:
                options.age[agent] += 1
                if reward != 0.0:
                    options.earned[agent] += np.float64(rule.discount) ** options.age[agent] * reward
                if done or options.target[agent, options.current[agent], end]:
                    learn_meta(options, agent, memory, not done or rule.bootstrap_past_end, rule)
                    options.current[agent] = -1
        clock[0] += 1
        if done or clock[0] >= rule.max_episode_steps:
            clock[0] = -1
    return True


@kernel
def play_hierarchically(
    options: Options, tables: TeamTables, team: TeamState, play: PlayParameters, number: int, recording: Recording
) -> int:
    """Play a test episode; return its steps, FAILED if the task was not done in time, or NEVER_SETTLED."""
    for agent in range(len(team.key)):
        options.current[agent] = -1
    if begin_episode(play.seed, number, team, tables):
        return 0
    for time in range(play.most_steps):
        begin_options(options, team, play.beta, play.greedy, time)
        ready = np.int64(0)
        for agent in range(len(team.cell)):
            key = team.key[agent]
            action = act(options, agent, team.cell[agent], play.beta, play.greedy, first_number(key, time))
            if time < len(recording.action):
                recording.action[time, agent] = action
            ready += move_agent(agent, action, second_number(key, time), team, tables)
        ended = settle(ready, time + 1, team, tables)
        for agent in range(len(team.cell)):
            if options.current[agent] >= 0 and options.target[agent, options.current[agent], team.cell[agent]]:
                options.current[agent] = -1
        record_step(time, team, recording)
        if ended != GOING:
            return time + 1 if ended == DONE else NEVER_SETTLED
    return FAILED
