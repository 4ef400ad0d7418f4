"""Hierarchical independent learning: a meta-policy chooses options by memory, an option's policy goes to its target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hocket.learn.kernels.actions import NOTHING, SOFTLY, UNIT, PlayParameters, exponential, largest, values_at
from hocket.learn.kernels.arrays import Bools, Doubles, Floats, Index, Ints, Shorts, u64
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.draws import second_number, sync_draw
from hocket.learn.kernels.team import DONE, ENDLESS, TeamState, TeamTables, act, reset_team, settle, team_return
from hocket.learn.kernels.teams import Choices, EpisodeRound, Learnt, choose_for_all, play_by
from hocket.learn.kernels.vectors import row
from hocket.learn.settings import LearningRule
from hocket.random import CHANCE_BITS
from hocket.task.grid import STAY

CHANCE_UNIT = np.float32(2.0**-CHANCE_BITS)


class Options(NamedTuple):
    """The agents' options (see `hocket.task.tables.Tables`), their values, and the current option of each agent. Many
    teams have an axis more in front: seeds in `meta` and `low`, copies of the team in the others."""

    meta: Floats  # [N, M, O]
    low: Floats  # [N, S, A, O]
    target: Bools  # [N, O, S]; the same for all teams
    bit: Shorts  # [N, O] of memory that makes it available; -1: always; -2: there is no such option; likewise
    current: Ints  # [N] -1: none
    chosen_in: Ints  # [N] the memory in which it was chosen
    earned: Doubles  # [N] discounted reward since then
    age: Ints  # [N] steps since then
    weight: Floats  # [O] buffer for softmax weights


class HilTraining(NamedTuple):
    """The training state of teams that step together."""

    options: Options
    teams: TeamState  # with the keys of the training streams
    choices: Choices
    before: Ints  # [N] buffer for the cells of a team's agents
    clock: Ints  # [teams] steps of the current episode; -1: not begun


@inlined
def options_of(options: Options, policy: Index, copy: Index) -> Options:
    """Take the options of one team."""
    return Options(
        options.meta[policy],
        options.low[policy],
        options.target,
        options.bit,
        options.current[copy],
        options.chosen_in[copy],
        options.earned[copy],
        options.age[copy],
        options.weight,
    )


@inlined
def is_available(options: Options, agent: int, option: int, memory: int) -> bool:
    """Say whether an option may be chosen."""
    bit = np.int64(options.bit[agent, option])
    return bool(bit == -1 or (bit >= 0 and (memory >> bit) & 1 == 1))


@inlined
def begin_option(options: Options, agent: int, team: TeamState, beta: np.float32, greedy: bool, time: int) -> None:
    """Let an agent choose an available option by softmax or greedily; -1 if there is none. The upper half of a step's
    second random number decides whether the agent slips. The lower half decides whether simulated teammates are ready
    (`sync_draw`); as teammates are real in the team world, it chooses the option here."""
    meta, weight, memory, best, total = options.meta, options.weight, team.memory[agent], np.float32(-1e30), NOTHING
    for option in range(meta.shape[2]):
        if is_available(options, agent, option, memory):
            best = max(best, meta[agent, memory, option])
    for option in range(meta.shape[2]):
        weight[option], value = NOTHING, meta[agent, memory, option]
        if is_available(options, agent, option, memory):
            weight[option] = np.float32(value == best) if greedy else exponential(beta * (value - best))
        total += weight[option]
    mark = np.float32(sync_draw(second_number(team.key[agent], time))) * CHANCE_UNIT * total
    chosen, sum_so_far = -1, NOTHING
    for option in range(meta.shape[2]):
        if weight[option] > NOTHING and (chosen < 0 or mark >= sum_so_far):
            chosen = option
        sum_so_far += weight[option]
    options.current[agent], options.chosen_in[agent] = chosen, memory
    options.earned[agent], options.age[agent] = 0.0, 0


@inlined
def act_by_options(
    options: Options, going: Index, time: int, play: PlayParameters, teams: TeamState, choices: Choices, slip_limit: int
) -> None:
    """Choose actions by the policies of current options, in the copies that are going; agents without option stay."""
    agents = u64(teams.cell.shape[1])
    choose_for_all(Learnt(options.low, options.current), going, time, play, teams, choices, slip_limit)
    for index in range(going):
        for agent in range(agents):
            if options.current[choices.going[index], agent] < 0:
                choices.action[index * agents + agent] = STAY


@inlined
def learn_options(
    options: Options, agent: int, cell: int, action: int, end: int, memory: int, rule: LearningRule
) -> None:
    """Update the policies of all options that are available now; reaching an option's target pays 1."""
    low = options.low
    for option in range(low.shape[3]):
        if is_available(options, agent, option, memory):
            is_reached = options.target[agent, option, u64(end)]
            target = UNIT if is_reached else NOTHING
            if not is_reached or rule.bootstrap_past_end:
                target += rule.discount * largest(values_at(low, agent, end, option))
            here = (u64(agent), u64(cell), u64(action), u64(option))
            low[here] += rule.learning_rate * (target - low[here])


@inlined
def learn_meta(options: Options, agent: int, memory: int, bootstrap: bool, rule: LearningRule) -> None:
    """Update the value of an option that has ended."""
    meta, best, is_any = options.meta, NOTHING, False
    for option in range(meta.shape[2]):
        if is_available(options, agent, option, memory) and (not is_any or meta[agent, memory, option] > best):
            best, is_any = meta[agent, memory, option], True
    target = np.float32(options.earned[agent])
    if bootstrap:
        target += np.float32(np.float64(rule.discount) ** options.age[agent]) * best
    chosen_in, option = options.chosen_in[agent], options.current[agent]
    meta[agent, chosen_in, option] += rule.learning_rate * (target - meta[agent, chosen_in, option])


@kernel
def train_hierarchically(training: HilTraining, tables: TeamTables, rule: LearningRule, begin: int, steps: int) -> bool:
    """Train teams of hierarchical learners from step `begin` on; say whether every step has settled."""
    all_options, teams, choices, before, clock = training
    count, agents = u64(len(clock)), u64(len(before))
    play = PlayParameters(rule.beta, SOFTLY, 0, rule.max_episode_steps)
    for time in range(begin, begin + steps):
        for copy in range(count):
            options, team = options_of(all_options, copy, copy), row(teams, copy)
            is_fresh = clock[copy] < 0
            if is_fresh:
                reset_team(time, team, tables)
                clock[copy] = 0
            for agent in range(agents):
                if is_fresh or options.current[agent] < 0:
                    begin_option(options, agent, team, rule.beta, SOFTLY, time)
        act_by_options(all_options, count, time, play, teams, choices, tables.slip_limit)
        for copy in range(count):
            options, team = options_of(all_options, copy, copy), row(teams, copy)
            ready, earned = np.int64(0), team_return(team, False, tables)
            for agent in range(agents):
                before[agent], index = team.cell[agent], copy * agents + agent
                ready += act(agent, choices.action[index], choices.outcome[index], team, tables)
            ended = settle(ready, clock[copy] + 1, team, tables)
            if ended == ENDLESS:
                return False
            done = ended == DONE
            reward = team_return(team, done, tables) - earned
            for agent in range(agents):
                memory, end = team.memory[agent], team.cell[agent]
                learn_options(options, agent, before[agent], choices.action[copy * agents + agent], end, memory, rule)
                if options.current[agent] >= 0:
                    options.age[agent] += 1
                    if reward != 0.0:
                        options.earned[agent] += np.float64(rule.discount) ** options.age[agent] * reward
                    if done or options.target[agent, options.current[agent], end]:
                        learn_meta(options, agent, memory, not done or rule.bootstrap_past_end, rule)
                        options.current[agent] = -1
            clock[copy] += 1
            if done or clock[copy] >= rule.max_episode_steps:
                clock[copy] = -1
    return True


@inlined
def choose_by_options(
    options: Options, going: Index, time: int, play: PlayParameters, teams: TeamState, choices: Choices, slip_limit: int
) -> None:
    """Let agents whose options have ended choose others, and act by them."""
    for index in range(going):
        copy = choices.going[index]
        chosen, team = options_of(options, choices.policy[copy], copy), row(teams, copy)
        for agent in range(u64(len(team.cell))):
            option = chosen.current[agent]
            if time == 0 or option < 0 or chosen.target[agent, u64(option), u64(team.cell[agent])]:
                begin_option(chosen, agent, team, play.beta, play.greedy, time)
    act_by_options(options, going, time, play, teams, choices, slip_limit)


@kernel
def play_hierarchically(options: Options, episodes: EpisodeRound) -> None:
    """Play episodes by options."""
    play_by(choose_by_options, options, episodes)
