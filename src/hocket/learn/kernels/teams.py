"""Many copies of a team that step together: test episodes, and vector environments.

In test episodes, actions and slips are drawn for LANES agents at once, of one copy or several; copies whose episode is
over are left out from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hocket.learn.kernels.actions import FAILED, NEVER_SETTLED, PlayParameters, choose, load_rows
from hocket.learn.kernels.arrays import LANES, SIMD, Bools, Doubles, Floats, Index, Ints, Keys, Shorts, UInts, u64
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.draws import first_number, second_number, slip_outcome
from hocket.learn.kernels.team import DONE, ENDLESS, GOING, TeamState, TeamTables, act, begin_team, settle, team_return
from hocket.learn.kernels.vectors import load, row, store
from hocket.learn.testing import Recording

ZERO, ONE, ACTIONS = u64(0), u64(1), u64(5)

Choose = Callable[..., None]  # as `choose_for_all` does


class Teams(NamedTuple):
    """Copies of a team, and which episodes they play."""

    seed: Any  # [copies] of np.uint64
    number: Any  # [copies] of np.uint64: of the episode, among those of the seed
    copies: TeamState  # [copies, ...] which share the workspace


@inlined
def begin(copy: Index, teams: Teams, tables: TeamTables) -> bool:
    """Begin a copy's episode, by its seed and number; say whether the task is done already."""
    return begin_team(teams.seed[copy], teams.number[copy], row(teams.copies, copy), tables)


# Test episodes.


class Learnt(NamedTuple):
    """The q-functions of seeds, and what agents observe besides their cells."""

    q: Floats  # [seeds, N, S, A, V]
    observed: Ints  # [copies, N] one of V: a machine state, memory or option; -1: an option is still to be chosen


class Choices(NamedTuple):
    """Buffers for the actions and slips of a step."""

    going: Keys  # [copies] those whose episodes are not over
    policy: Keys  # [copies] the index of the seed
    value: Floats  # [A, LANES] of the actions of LANES agents
    key: Keys  # [LANES] of the same agents
    action: UInts  # [copies * N and a few more] of the agents of all copies that are going
    outcome: UInts  # likewise


def make_choices(copies: int, agents: int) -> Choices:
    """Make buffers for some copies; at first all are going, and each has its own policy."""
    going, policy = (np.arange(copies, dtype=np.uint64) for _ in range(2))
    action, outcome = np.zeros((2, copies * agents + LANES), np.uint32)
    return Choices(going, policy, np.zeros((5, LANES), np.float32), np.zeros(LANES, np.uint64), action, outcome)


class EpisodeRound(NamedTuple):
    """Episodes that are played at once, one by each copy: equally many of each seed, one seed after the other."""

    seeds: Keys
    first: int  # number of each seed's first episode
    each: int  # how many of a seed
    tables: TeamTables
    teams: Teams
    choices: Choices
    play: PlayParameters  # with any seed
    recording: Recording  # of the first of all
    visits: Ints  # [N, S] how often agents are in cells after a step, in all episodes; [N, 0] to leave them out
    begin: int  # index of the first copy's episode among those of all seeds
    steps: Ints  # [copies] out: steps, FAILED if the task was not done in time, or NEVER_SETTLED


@inlined
def choose_for_all(
    learnt: Learnt, going: Index, time: int, play: PlayParameters, team: TeamState, choices: Choices, slip_limit: int
) -> None:
    """Choose an action and an outcome for every agent of the copies that are going."""
    agents, index, agent, first = u64(team.cell.shape[1]), ZERO, ZERO, ZERO
    while index < going:
        count = ZERO
        while count < u64(LANES) and index < going:
            copy = choices.going[index]
            observed, cell = u64(max(learnt.observed[copy, agent], np.int64(0))), u64(team.cell[copy, agent])
            for action in range(ACTIONS):
                choices.value[action, count] = learnt.q[choices.policy[copy], agent, cell, action, observed]
            choices.key[count] = team.key[copy, agent]
            count += ONE
            agent += ONE
            if agent == agents:
                agent = ZERO
                index += ONE
        keys, values = load(choices.key, ZERO, LANES), load_rows(choices.value, ZERO, u64(LANES), SIMD, load)
        store(choices.action, first, choose(values, play.beta, play.greedy, first_number(keys, time)))
        store(choices.outcome, first, slip_outcome(second_number(keys, time), slip_limit))
        first += count


@inlined
def play_by(choose_by: Choose, learnt: Any, episodes: EpisodeRound) -> None:  # noqa: ANN401 (what `choose_by` takes)
    """Play episodes in which `choose_by` chooses, in place of `choose_for_all`."""
    _, _, _, tables, teams, choices, play, recording, visits, _, steps = episodes
    agents, going = u64(teams.copies.cell.shape[1]), ZERO
    for copy in range(u64(len(steps))):
        position = u64(episodes.begin) + copy
        choices.policy[copy] = position // u64(episodes.each)
        teams.seed[copy] = episodes.seeds[choices.policy[copy]]
        teams.number[copy] = u64(episodes.first) + position % u64(episodes.each)
        if begin(copy, teams, tables):
            steps[copy] = 0
        else:
            steps[copy], choices.going[going] = FAILED, copy
            going += ONE
    for time in range(play.most_steps):
        choose_by(learnt, going, time, play, teams.copies, choices, tables.slip_limit)
        remaining = ZERO
        for index in range(going):
            copy, ready = choices.going[index], np.int64(0)
            team, is_first = row(teams.copies, copy), copy == ZERO and episodes.begin == 0
            for agent in range(agents):
                action, outcome = choices.action[index * agents + agent], choices.outcome[index * agents + agent]
                if is_first and time < len(recording.action):
                    recording.action[time, agent] = action
                ready += act(agent, action, outcome, team, tables)
            ended = settle(ready, time + 1, team, tables)
            if is_first and time < len(recording.cell):
                for agent in range(agents):
                    recording.cell[time, agent], recording.state[time, agent] = team.cell[agent], team.state[agent]
            if visits.shape[1] > 0:
                for agent in range(agents):
                    visits[agent, u64(team.cell[agent])] += 1
            if ended == GOING:
                choices.going[remaining] = copy
                remaining += ONE
            else:
                steps[copy] = time + 1 if ended == DONE else NEVER_SETTLED
        going = remaining
        if going == ZERO:
            return


@kernel
def play_teams(learnt: Learnt, episodes: EpisodeRound) -> None:
    """Play episodes by q-functions."""
    play_by(choose_for_all, learnt, episodes)


# Environments.


class Clock(NamedTuple):
    """The progress of each copy's episode."""

    time: Ints  # [copies] steps so far
    is_over: Bools  # [copies]


class Earned(NamedTuple):
    """The reward of each copy in a step, and how its episode ends: [copies]."""

    reward: Doubles
    terminated: Bools
    truncated: Bools


@kernel
def begin_teams(teams: Teams, clock: Clock, tables: TeamTables) -> None:
    """Begin an episode of every copy."""
    for copy in range(u64(len(clock.time))):
        begin(copy, teams, tables)
        clock.time[copy], clock.is_over[copy] = 0, False


@kernel
def step_teams(
    actions: Shorts, teams: Teams, clock: Clock, tables: TeamTables, max_episode_steps: int, earned: Earned
) -> bool:
    """Let every copy act or, if its episode is over, begin the next one; say whether all steps have settled. Afterwards
    `event_time` is -1 for events that have not happened in this step."""
    settled = True
    for copy in range(u64(len(clock.time))):
        earned.reward[copy], earned.terminated[copy], earned.truncated[copy] = 0.0, False, False
        if clock.is_over[copy]:
            teams.number[copy] += ONE
            begin(copy, teams, tables)
            clock.time[copy], clock.is_over[copy] = 0, False
            continue
        team, time = row(teams.copies, copy), clock.time[copy]
        for event in range(len(team.event_time)):
            team.event_time[event] = -1
        was_done, ready = True, np.int64(0)
        for agent in range(len(team.cell)):
            was_done = was_done and tables.is_final[u64(agent), u64(team.state[agent])]
            team.earned[agent] = 0.0
            outcome = slip_outcome(second_number(team.key[agent], time), tables.slip_limit)
            ready += act(agent, actions[copy, agent], outcome, team, tables)
        ended = settle(ready, time + 1, team, tables)
        earned.reward[copy] = team_return(team, ended == DONE and not was_done, tables)
        settled = settled and ended != ENDLESS
        clock.time[copy] = time + 1
        earned.terminated[copy], earned.truncated[copy] = ended == DONE, time + 1 >= max_episode_steps
        clock.is_over[copy] = earned.terminated[copy] or earned.truncated[copy]
    return settled
