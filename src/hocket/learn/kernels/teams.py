"""Many copies of a team, a step of all of them at a time: test episodes, and environments whose actions others choose.

In test episodes, actions and their outcomes are chosen for as many agents at once as a vector takes, whichever copies
they belong to; copies that are done are left out from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.actions import FAILED, NEVER_SETTLED, PlayParameters, choose, load_rows
from hocket.learn.kernels.arrays import LANES, SIDE_BY_SIDE, Bools, Floats, Index, Ints, Shorts, Words, u64
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.draws import first_number, second_number, slip_outcome
from hocket.learn.kernels.team import (
    DONE,
    ENDLESS,
    GOING,
    TeamState,
    TeamTables,
    arrive,
    begin_team,
    settle,
    team_return,
)
from hocket.learn.kernels.vectors import load, row, store
from hocket.learn.testing import Recording

ZERO, ONE, ACTIONS = u64(0), u64(1), u64(5)

Choose = Callable[..., None]  # as `choose_for_all` does


class Teams(NamedTuple):
    """Copies of a team, and which episodes they play."""

    seed: Any  # [copies] of np.uint64
    number: Any  # [copies] of np.uint64: of the episode, among those of the seed
    copies: TeamState  # [copies, ...] which share the room


@inlined
def begin(copy: Index, teams: Teams, tables: TeamTables) -> bool:
    """Begin the episode that a copy's seed and number say; say whether the task is done already."""
    return begin_team(teams.seed[copy], teams.number[copy], row(teams.copies, copy), tables)


# Test episodes.


class Learnt(NamedTuple):
    """What seeds have learnt, and by what agents choose from it beside their cells."""

    q: Floats  # [seeds, N, S, A, V]
    observed: Ints  # [copies, N] one of V: the state of a machine, the memory, or an option; -1: nothing is chosen


class Choices(NamedTuple):
    """Room for what is chosen in a step."""

    going: NDArray[np.uint64]  # [copies] whose episodes are not over
    policy: NDArray[np.uint64]  # [copies]
    value: Floats  # [A, LANES] of the actions of some agents
    key: NDArray[np.uint64]  # [LANES] of the same agents
    action: Words  # [copies * N and a few more] of the agents of all copies that are going
    outcome: Words  # likewise


def make_choices(copies: int, agents: int) -> Choices:
    """Make room for the choices of so many copies; first all are going, each by a policy of its own."""
    going, policy = (np.arange(copies, dtype=np.uint64) for _ in range(2))
    action, outcome = np.zeros((2, copies * agents + LANES), np.uint32)
    return Choices(going, policy, np.zeros((5, LANES), np.float32), np.zeros(LANES, np.uint64), action, outcome)


class EpisodeRound(NamedTuple):
    """Episodes that are played at once, one by each copy: of each seed as many, one seed after the other."""

    seeds: NDArray[np.uint64]
    first: int  # number of each seed's first episode
    each: int  # how many of a seed
    tables: TeamTables
    teams: Teams
    choices: Choices
    play: PlayParameters  # with any seed
    recording: Recording  # of the first of all
    visits: Ints  # [N, S] how often agents are in cells after a step, in all episodes; of no cells: nobody asked
    begin: int  # place of the first copy's among the episodes of all seeds
    steps: Ints  # [copies] out: steps, FAILED if the task was not done in time, or NEVER_SETTLED


@inlined
def choose_for_all(
    learnt: Learnt, going: Index, time: int, play: PlayParameters, team: TeamState, choices: Choices, slip_limit: int
) -> None:
    """Choose for every agent of the copies that are going."""
    agents, place, agent, first = u64(team.cell.shape[1]), ZERO, ZERO, ZERO
    while place < going:
        count = ZERO
        while count < u64(LANES) and place < going:
            copy = choices.going[place]
            observed, cell = u64(max(learnt.observed[copy, agent], np.int64(0))), u64(team.cell[copy, agent])
            for action in range(ACTIONS):
                choices.value[action, count] = learnt.q[choices.policy[copy], agent, cell, action, observed]
            choices.key[count] = team.key[copy, agent]
            count += ONE
            agent += ONE
            if agent == agents:
                agent = ZERO
                place += ONE
        keys, values = load(choices.key, ZERO, LANES), load_rows(choices.value, ZERO, u64(LANES), SIDE_BY_SIDE)
        store(choices.action, first, choose(values, play.beta, play.greedy, first_number(keys, time)))
        store(choices.outcome, first, slip_outcome(second_number(keys, time), slip_limit))
        first += count


@inlined
def play_by(choose_by: Choose, learnt: Any, episodes: EpisodeRound) -> None:  # noqa: ANN401 (what `choose_by` takes)
    """Play episodes, in which a function chooses as `choose_for_all` does."""
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
        left = ZERO
        for place in range(going):
            copy, ready = choices.going[place], np.int64(0)
            team, is_first = row(teams.copies, copy), copy == ZERO and episodes.begin == 0
            for agent in range(agents):
                action, outcome = choices.action[place * agents + agent], choices.outcome[place * agents + agent]
                if is_first and time < len(recording.action):
                    recording.action[time, agent] = action
                ready += arrive(agent, action, outcome, team, tables)
            ended = settle(ready, time + 1, team, tables)
            if is_first and time < len(recording.cell):
                for agent in range(agents):
                    recording.cell[time, agent], recording.state[time, agent] = team.cell[agent], team.state[agent]
            if visits.shape[1] > 0:
                for agent in range(agents):
                    visits[agent, u64(team.cell[agent])] += 1
            if ended == GOING:
                choices.going[left] = copy
                left += ONE
            else:
                steps[copy] = time + 1 if ended == DONE else NEVER_SETTLED
        going = left
        if going == ZERO:
            return


@kernel
def play_teams(learnt: Learnt, episodes: EpisodeRound) -> None:
    """Play episodes by q-functions."""
    play_by(choose_for_all, learnt, episodes)


# Environments.


class Clock(NamedTuple):
    """How far the copies are, for each of them."""

    time: Ints  # steps of the episode
    is_over: Bools  # whether the episode is


class Earned(NamedTuple):
    """What comes of a step, for each copy."""

    reward: NDArray[np.float64]
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
    actions: Shorts,  # [copies, N]
    teams: Teams,
    clock: Clock,
    tables: TeamTables,
    max_episode_steps: int,
    earned: Earned,
) -> bool:
    """Let every copy act, but for those whose episode is over, which begin the next one; say whether all settled.

    Afterwards `event_time` is not -1 where the event has happened in this step.
    """
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
            ready += arrive(agent, actions[copy, agent], outcome, team, tables)
        ended = settle(ready, time + 1, team, tables)
        earned.reward[copy] = team_return(team, ended == DONE and not was_done, tables)
        settled = settled and ended != ENDLESS
        clock.time[copy] = time + 1
        earned.terminated[copy], earned.truncated[copy] = ended == DONE, time + 1 >= max_episode_steps
        clock.is_over[copy] = earned.terminated[copy] or earned.truncated[copy]
    return settled
