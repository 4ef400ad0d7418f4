"""Test episodes in the team world: a thread for each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.cuda.device import cuda, device_kernel, zeros
from hocket.learn.cuda.rules import Rules, Runs, play_at
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import Floats, Index, Ints
from hocket.learn.kernels.team import Recording, TeamState, TeamTables, play_episode


class Played(NamedTuple):
    """What test episodes of some runs have shown, those of a run one after the other."""

    steps: NDArray[np.int32]  # [R * episodes] or FAILED, or NEVER_SETTLED
    finish: NDArray[np.int32]  # [R * episodes, N] when each agent was first done; -1: never
    event_time: NDArray[np.int32]  # [R * episodes, E] when each event first happened; -1: never


class Learnt(NamedTuple):
    """What runs have learnt."""

    q: Floats  # [R, N, S, A, U], or [R, N, S, A, M] by memory
    by_memory: bool


class Teams(NamedTuple):
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


def make_teams(agents: int, events: int, threads: int) -> Teams:
    """Make room for so many teams, none of which proposes anything yet."""
    own, all_events = (agents, threads), (events, threads)
    return Teams(
        zeros(own, np.int64),
        zeros(own, np.int64),
        zeros(own, np.int64),
        zeros(own, np.int64),
        zeros(all_events, np.int64),
        zeros(own, np.uint64),
        zeros(own, np.int64),
        zeros(all_events, np.int64),
    )


@inlined
def team_at(teams: Teams, thread: Index) -> TeamState:
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
def play_team(
    thread: Index,
    learnt: Learnt,
    tables: TeamTables,
    rules: Rules,
    runs: Runs,
    teams: Teams,
    greedy: bool,
    number: int,
    episodes: int,
    begin: int,
    played: Played,
) -> None:
    """Play a thread's test episode, if there is one; a run's first has a number."""
    index = begin + thread
    if thread < teams.cell.shape[1] and index < len(played.steps):
        run, team = index // episodes, team_at(teams, thread)
        for agent in range(len(team.following)):
            team.following[agent] = -1
        play = play_at(rules, runs, run, greedy)
        record = Recording(played.finish[:0], tables.dynamics[:0], tables.dynamics[:0])  # of no steps
        played.steps[index] = play_episode(
            learnt.q[run], learnt.by_memory, tables, team, play, number + index % episodes, record
        )
        for agent in range(len(team.finish)):
            played.finish[index, agent] = team.finish[agent]
        for event in range(len(team.event_time)):
            played.event_time[index, event] = team.event_time[event]


@device_kernel
def play_teams(
    learnt: Learnt,
    tables: TeamTables,
    rules: Rules,
    runs: Runs,
    teams: Teams,
    greedy: bool,
    number: int,
    episodes: int,
    begin: int,
    played: Played,
) -> None:
    """Play the test episodes from `begin` on, as many as there are teams."""
    play_team(cuda.grid(1), learnt, tables, rules, runs, teams, greedy, number, episodes, begin, played)
