"""Many copies of a team, a step of all of them at a time: test episodes, and environments whose actions others choose.

In test episodes, actions and their outcomes are chosen for as many agents at once as a vector takes, whichever copies
they belong to; copies that are done are left out from then on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import (
    LANES,
    Bools,
    Floats,
    Index,
    Ints,
    Shorts,
    Words,
    first_number,
    greedy_actions,
    second_number,
    slip_outcomes,
    softmax_actions,
    u64,
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
    arrive,
    begin_episode,
    move_agent,
    record_step,
    settle,
    team_return,
)
from hocket.learn.kernels.vectors import load, store
from hocket.learn.testing import Recording

ZERO, ONE, ACTIONS = u64(0), u64(1), u64(5)


class Teams(NamedTuple):
    """Copies of a team, and which episodes they play."""

    cell: Ints  # [copies, N]
    state: Ints  # [copies, N] of the agents' machines
    memory: Ints  # [copies, N] bits
    key: NDArray[np.uint64]  # [copies, N] of the streams of random numbers
    finish: Ints  # [copies, N] when the agent's machine was first final, in steps; -1: never
    event_time: Ints  # [copies, E] when the event first happened, in steps; -1: never
    earned: NDArray[np.float64]  # [copies, N] what the agent's machine has paid, where a task has rewards
    seed: Any  # [copies] of np.uint64
    number: Any  # [copies] of np.uint64: of the episode, among those of the seed


def make_teams(copies: int, agents: int, events: int) -> Teams:
    """Make room for so many copies."""
    shape = (copies, agents)
    return Teams(
        cell=np.zeros(shape, np.int64),
        state=np.zeros(shape, np.int64),
        memory=np.zeros(shape, np.int64),
        key=np.zeros(shape, np.uint64),
        finish=np.zeros(shape, np.int64),
        event_time=np.full((copies, events), -1, np.int64),
        earned=np.zeros(shape),
        seed=np.zeros(copies, np.uint64),
        number=np.zeros(copies, np.uint64),
    )


@inlined
def team_of(copy: Index, teams: Teams, workspace: TeamState) -> TeamState:
    """Show one copy as a team, with room for what it needs within a step."""
    return TeamState(
        teams.cell[copy],
        workspace.kind,
        teams.state[copy],
        teams.memory[copy],
        workspace.following,
        workspace.tally,
        teams.key[copy],
        teams.finish[copy],
        teams.event_time[copy],
        workspace.before,
        workspace.claim,
        teams.earned[copy],
    )


@inlined
def begin(copy: Index, teams: Teams, workspace: TeamState, tables: TeamTables) -> bool:
    """Begin the episode that a copy's seed and number say; say whether the task is done already."""
    return begin_episode(teams.seed[copy], teams.number[copy], team_of(copy, teams, workspace), tables)


# Test episodes.


class Learnt(NamedTuple):
    """What seeds have learnt."""

    q: Floats  # [seeds, N, S, A, U], or [seeds, N, S, A, M] by memory
    by_memory: bool


class EpisodeRange(NamedTuple):
    """Which episodes are to be played: as many of each seed, one seed after the other."""

    seeds: NDArray[np.uint64]
    first: int  # number of an episode
    each: int  # how many of a seed


class Choices(NamedTuple):
    """Room for what is chosen in a step."""

    going: NDArray[np.uint64]  # [copies] whose episodes are not over
    policy: NDArray[np.uint64]  # [copies]
    value: Floats  # [A, LANES] of the actions of some agents
    key: NDArray[np.uint64]  # [LANES] of the same agents
    action: Words  # [copies * N and a few more] of the agents of all copies that are going
    outcome: Words  # likewise


def make_choices(copies: int, agents: int) -> Choices:
    """Make room for the choices of so many copies."""
    (going, policy), (action, outcome) = (
        np.zeros((2, count), kind) for count, kind in ((copies, np.uint64), (copies * agents + LANES, np.uint32))
    )
    return Choices(going, policy, np.zeros((5, LANES), np.float32), np.zeros(LANES, np.uint64), action, outcome)


@inlined
def choose_together(first: Index, time: int, play: PlayParameters, choices: Choices, slip_limit: int) -> None:
    """Choose for the agents in `choices.value`, and write it down from a place on."""
    q0, q1 = load(choices.value, ZERO, LANES), load(choices.value, u64(LANES), LANES)
    q2, q3 = load(choices.value, u64(2 * LANES), LANES), load(choices.value, u64(3 * LANES), LANES)
    q4, keys = load(choices.value, u64(4 * LANES), LANES), load(choices.key, ZERO, LANES)
    drawn = first_number(keys, time)
    if play.greedy:
        store(choices.action, first, greedy_actions(q0, q1, q2, q3, q4, drawn))
    else:
        store(choices.action, first, softmax_actions(q0, q1, q2, q3, q4, play.beta, drawn))
    store(choices.outcome, first, slip_outcomes(second_number(keys, time), slip_limit))


@inlined
def choose_for_all(
    learnt: Learnt, going: Index, time: int, play: PlayParameters, teams: Teams, choices: Choices, slip_limit: int
) -> None:
    """Choose for every agent of the copies that are going."""
    agents, place, agent, first = u64(teams.cell.shape[1]), ZERO, ZERO, ZERO
    while place < going:
        count = ZERO
        while count < u64(LANES) and place < going:
            copy = choices.going[place]
            observed = u64(teams.memory[copy, agent] if learnt.by_memory else teams.state[copy, agent])
            cell, which = u64(teams.cell[copy, agent]), choices.policy[copy]
            for action in range(ACTIONS):
                choices.value[action, count] = learnt.q[which, agent, cell, action, observed]
            choices.key[count] = teams.key[copy, agent]
            count += ONE
            agent += ONE
            if agent == agents:
                agent = ZERO
                place += ONE
        choose_together(first, time, play, choices, slip_limit)
        first += count


@kernel
def play_teams(
    learnt: Learnt,
    span: EpisodeRange,
    place_in_span: int,
    tables: TeamTables,
    teams: Teams,
    workspace: TeamState,
    choices: Choices,
    play: PlayParameters,  # with any seed
    recording: Recording,  # of the first in the span
    steps: Ints,  # [copies] out: steps, FAILED if the task was not done in time, or NEVER_SETTLED
) -> None:
    """Play episodes of a span, from a place on; of each copy one."""
    agents, going = u64(teams.cell.shape[1]), ZERO
    for copy in range(u64(len(steps))):
        position = u64(place_in_span) + copy
        choices.policy[copy] = position // u64(span.each)
        teams.seed[copy] = span.seeds[choices.policy[copy]]
        teams.number[copy] = u64(span.first) + position % u64(span.each)
        if begin(copy, teams, workspace, tables):
            steps[copy] = 0
        else:
            steps[copy], choices.going[going] = FAILED, copy
            going += ONE
    for time in range(play.most_steps):
        choose_for_all(learnt, going, time, play, teams, choices, tables.slip_limit)
        left = ZERO
        for place in range(going):
            copy, ready = choices.going[place], np.int64(0)
            team, is_first = team_of(copy, teams, workspace), copy == ZERO and place_in_span == 0
            for agent in range(agents):
                action, outcome = choices.action[place * agents + agent], choices.outcome[place * agents + agent]
                if is_first and time < len(recording.action):
                    recording.action[time, agent] = action
                ready += arrive(agent, action, outcome, team, tables)
            ended = settle(ready, time + 1, team, tables)
            if is_first:
                record_step(time, team, recording)
            if ended == GOING:
                choices.going[left] = copy
                left += ONE
            else:
                steps[copy] = time + 1 if ended == DONE else NEVER_SETTLED
        going = left
        if going == ZERO:
            return


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
def begin_teams(teams: Teams, clock: Clock, workspace: TeamState, tables: TeamTables) -> None:
    """Begin an episode of every copy."""
    for copy in range(u64(len(clock.time))):
        begin(copy, teams, workspace, tables)
        clock.time[copy], clock.is_over[copy] = 0, False


@kernel
def step_teams(
    actions: Shorts,  # [copies, N]
    teams: Teams,
    clock: Clock,
    workspace: TeamState,
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
            begin(copy, teams, workspace, tables)
            clock.time[copy], clock.is_over[copy] = 0, False
            continue
        team, time = team_of(copy, teams, workspace), clock.time[copy]
        for event in range(len(team.event_time)):
            team.event_time[event] = -1
        was_done, ready = True, np.int64(0)
        for agent in range(len(team.cell)):
            was_done = was_done and tables.is_final[u64(agent), u64(team.state[agent])]
            team.earned[agent] = 0.0
            drawn = second_number(team.key[agent], time)
            ready += move_agent(agent, actions[copy, agent], drawn, team, tables)
        ended = settle(ready, time + 1, team, tables)
        earned.reward[copy] = team_return(team, ended == DONE and not was_done, tables)
        settled = settled and ended != ENDLESS
        clock.time[copy] = time + 1
        earned.terminated[copy], earned.truncated[copy] = ended == DONE, time + 1 >= max_episode_steps
        clock.is_over[copy] = earned.terminated[copy] or earned.truncated[copy]
    return settled
