"""Test episodes in the team world: a thread for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.cuda.device import cuda, device_kernel, zeros
from hocket.learn.cuda.parameters import DeviceParameters, Runs, play_at
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import (
    NOTHING,
    Floats,
    Index,
    Ints,
    first_number,
    greedy_action,
    second_number,
    softmax_action,
)
from hocket.learn.kernels.team import (
    DONE,
    FAILED,
    GOING,
    NEVER_SETTLED,
    PlayParameters,
    TeamState,
    TeamTables,
    begin_episode,
    choose,
    move_agent,
    settle,
)
from hocket.learn.testing import TestResults
from hocket.task.tables import Tables


class DeviceLearnt(NamedTuple):
    """What runs have learnt."""

    q: Floats  # [R, N, S, A, V], or [R, N, S, A, M] by memory
    column: Ints  # [N, U] where the values in a machine state are; V or more: they are 0
    by_memory: bool


class DeviceTeams(NamedTuple):
    """Room for many teams, those of neighbouring threads side by side; see `TeamState`."""

    cell: Ints  # [N, threads]
    kind: Ints  # [N, threads]
    state: Ints  # [N, threads]
    memory: Ints  # [N, threads]
    following: Ints  # [N, threads]
    tally: Ints  # [E, threads]
    key: NDArray[np.uint64]  # [N, threads]
    finish: Ints  # [N, threads]
    event_time: Ints  # [E, threads]
    before: Ints  # [N, threads]
    claim: Ints  # [S, threads], if agents have bodies
    earned: NDArray[np.float64]  # [N, threads]


def team_bytes(tables: Tables) -> int:
    """Say how much room a team takes."""
    return 8 * (8 * len(tables.start) + 2 * len(tables.knowers) + len(tables.body))


def make_teams(tables: Tables, threads: int) -> DeviceTeams:
    """Make room for so many teams, none of which proposes anything yet."""
    of_agents, all_events = (len(tables.start), threads), (len(tables.knowers), threads)
    return DeviceTeams(
        zeros(of_agents, np.int64),
        zeros(of_agents, np.int64),
        zeros(of_agents, np.int64),
        zeros(of_agents, np.int64),
        zeros(of_agents, np.int64),
        zeros(all_events, np.int64),
        zeros(of_agents, np.uint64),
        zeros(of_agents, np.int64),
        zeros(all_events, np.int64),
        zeros(of_agents, np.int64),
        zeros((max(1, len(tables.body)), threads), np.int64),
        zeros(of_agents, np.float64),
    )


@inlined
def team_at(teams: DeviceTeams, thread: Index) -> TeamState:
    """Return a thread's team."""
    return TeamState(
        teams.cell[:, thread],
        teams.kind[:, thread],
        teams.state[:, thread],
        teams.memory[:, thread],
        teams.following[:, thread],
        teams.tally[:, thread],
        teams.key[:, thread],
        teams.finish[:, thread],
        teams.event_time[:, thread],
        teams.before[:, thread],
        teams.claim[:, thread],
        teams.earned[:, thread],
    )


@inlined
def play_episode(
    run: Index, learnt: DeviceLearnt, tables: TeamTables, team: TeamState, play: PlayParameters, number: int
) -> int:
    """Play a test episode; return its steps, FAILED if the task was not done in time, or NEVER_SETTLED."""
    if begin_episode(play.seed, number, team, tables):
        return 0
    for time in range(play.most_steps):
        ready = np.int64(0)
        for agent in range(len(team.cell)):
            observed, key = team.memory[agent], team.key[agent]
            if not learnt.by_memory:
                observed = learnt.column[agent, team.state[agent]]
            if observed < learnt.q.shape[4]:
                q, cell = learnt.q[run], team.cell[agent]
                action = choose(q, agent, cell, observed, play.beta, play.greedy, first_number(key, time))
            elif play.greedy:
                action = greedy_action(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, first_number(key, time))
            else:
                action = softmax_action(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, play.beta, first_number(key, time))
            ready += move_agent(agent, action, second_number(key, time), team, tables)
        ended = settle(ready, time + 1, team, tables)
        if ended != GOING:
            return time + 1 if ended == DONE else NEVER_SETTLED
    return FAILED


@inlined
def play_team(
    thread: Index,
    learnt: DeviceLearnt,
    tables: TeamTables,
    parameters: DeviceParameters,
    runs: Runs,
    teams: DeviceTeams,
    number: int,
    episodes: int,
    begin: int,
    played: TestResults,
) -> None:
    """Play a thread's test episode, if there is one; a run's first has a number. Greedy ones come last."""
    index = begin + thread
    if thread < teams.cell.shape[1] and index < len(played.steps):
        run, team = index // episodes % len(runs.seed), team_at(teams, thread)
        for agent in range(len(team.following)):
            team.following[agent] = -1
        play = play_at(parameters, runs, run, index >= len(runs.seed) * episodes)
        played.steps[index] = play_episode(run, learnt, tables, team, play, number + index % episodes)
        for agent in range(len(team.finish)):
            played.finish[index, agent] = team.finish[agent]
            played.returns[index, agent] = team.earned[agent]
        for event in range(len(team.event_time)):
            played.event_time[index, event] = team.event_time[event]


@device_kernel
def play_teams(
    learnt: DeviceLearnt,
    tables: TeamTables,
    parameters: DeviceParameters,
    runs: Runs,
    teams: DeviceTeams,
    number: int,
    episodes: int,
    begin: int,
    played: TestResults,
) -> None:
    """Play the test episodes from `begin` on, as many as there are teams."""
    play_team(cuda.grid(1), learnt, tables, parameters, runs, teams, number, episodes, begin, played)
