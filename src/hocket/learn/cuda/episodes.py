"""Test episodes in the team world: a thread for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.cuda.device import cuda, device_kernel, zeros
from hocket.learn.cuda.parameters import DeviceParameters, Runs, play_at
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import Floats, Index, Ints, first_number, second_number
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
from hocket.learn.kernels.teams import Learnt
from hocket.learn.testing import TestResults


class DeviceTeams(NamedTuple):
    """Room for many teams, those of neighbouring threads side by side; see `TeamState`."""

    cell: Ints  # [N, threads]
    state: Ints  # [N, threads]
    memory: Ints  # [N, threads]
    following: Ints  # [N, threads]
    tally: Ints  # [E, threads]
    key: NDArray[np.uint64]  # [N, threads]
    finish: Ints  # [N, threads]
    event_time: Ints  # [E, threads]


def team_bytes(agents: int, events: int) -> int:
    """Say how much room a team takes."""
    return 8 * (6 * agents + 2 * events)


def make_teams(agents: int, events: int, threads: int) -> DeviceTeams:
    """Make room for so many teams, none of which proposes anything yet."""
    of_agents, all_events = (agents, threads), (events, threads)
    return DeviceTeams(
        zeros(of_agents, np.int64),
        zeros(of_agents, np.int64),
        zeros(of_agents, np.int64),
        zeros(of_agents, np.int64),
        zeros(all_events, np.int64),
        zeros(of_agents, np.uint64),
        zeros(of_agents, np.int64),
        zeros(all_events, np.int64),
    )


@inlined
def team_at(teams: DeviceTeams, thread: Index) -> TeamState:
    """Return a thread's team."""
    return TeamState(
        teams.cell[:, thread],
        teams.state[:, thread],
        teams.memory[:, thread],
        teams.following[:, thread],
        teams.tally[:, thread],
        teams.key[:, thread],
        teams.finish[:, thread],
        teams.event_time[:, thread],
    )


@inlined
def play_episode(
    q: Floats, by_memory: bool, tables: TeamTables, team: TeamState, play: PlayParameters, number: int
) -> int:
    """Play a test episode; return its steps, FAILED if the task was not done in time, or NEVER_SETTLED."""
    if begin_episode(play.seed, number, team, tables):
        return 0
    for time in range(play.most_steps):
        ready = np.int64(0)
        for agent in range(len(team.cell)):
            observed, key = team.memory[agent] if by_memory else team.state[agent], team.key[agent]
            action = choose(q, agent, team.cell[agent], observed, play.beta, play.greedy, first_number(key, time))
            ready += move_agent(agent, action, second_number(key, time), team, tables)
        ended = settle(ready, time + 1, team, tables)
        if ended != GOING:
            return time + 1 if ended == DONE else NEVER_SETTLED
    return FAILED


@inlined
def play_team(
    thread: Index,
    learnt: Learnt,
    tables: TeamTables,
    parameters: DeviceParameters,
    runs: Runs,
    teams: DeviceTeams,
    greedy: bool,
    number: int,
    episodes: int,
    begin: int,
    played: TestResults,
) -> None:
    """Play a thread's test episode, if there is one; a run's first has a number."""
    index = begin + thread
    if thread < teams.cell.shape[1] and index < len(played.steps):
        run, team = index // episodes, team_at(teams, thread)
        for agent in range(len(team.following)):
            team.following[agent] = -1
        play = play_at(parameters, runs, run, greedy)
        played.steps[index] = play_episode(
            learnt.q[run], learnt.by_memory, tables, team, play, number + index % episodes
        )
        for agent in range(len(team.finish)):
            played.finish[index, agent] = team.finish[agent]
        for event in range(len(team.event_time)):
            played.event_time[index, event] = team.event_time[event]


@device_kernel
def play_teams(
    learnt: Learnt,
    tables: TeamTables,
    parameters: DeviceParameters,
    runs: Runs,
    teams: DeviceTeams,
    greedy: bool,
    number: int,
    episodes: int,
    begin: int,
    played: TestResults,
) -> None:
    """Play the test episodes from `begin` on, as many as there are teams."""
    play_team(cuda.grid(1), learnt, tables, parameters, runs, teams, greedy, number, episodes, begin, played)
