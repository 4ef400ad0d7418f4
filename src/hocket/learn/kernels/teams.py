"""Many copies of a team, a step of all of them at a time: for environments whose actions others choose."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import Bools, Index, Ints, Shorts, second_number, stream_key, u64
from hocket.learn.kernels.team import DONE, ENDLESS, TeamState, TeamTables, move_agent, reset_team, settle
from hocket.random import TEAM


class Teams(NamedTuple):
    """Copies of a team, and what each of them needs to go on."""

    cell: Ints  # [copies, N]
    state: Ints  # [copies, N] of the agents' machines
    key: NDArray[np.uint64]  # [copies, N] of the streams of random numbers
    event_time: Ints  # [copies, E] not -1 where the event has happened in the last step
    time: Ints  # [copies] steps of the episode
    seed: Any  # [copies] of np.uint64
    number: Any  # [copies] of np.uint64: of the episode, among those of the seed
    is_over: Bools  # [copies] whether the episode is


class Earned(NamedTuple):
    """What comes of a step, for each copy."""

    reward: NDArray[np.float64]
    terminated: Bools
    truncated: Bools


@inlined
def team_of(copy: Index, teams: Teams, room: TeamState) -> TeamState:
    """Show one copy as a team, with room for what it needs within a step."""
    return TeamState(
        teams.cell[copy],
        teams.state[copy],
        room.memory,
        room.following,
        room.tally,
        teams.key[copy],
        room.finish,
        teams.event_time[copy],
    )


@inlined
def begin(copy: Index, teams: Teams, room: TeamState, tables: TeamTables) -> None:
    """Begin the episode that a copy's seed and number say."""
    for agent in range(teams.key.shape[1]):
        teams.key[copy, agent] = stream_key(TEAM, teams.seed[copy], agent, teams.number[copy])
    reset_team(team_of(copy, teams, room), tables)
    teams.time[copy], teams.is_over[copy] = 0, False


@kernel
def begin_teams(teams: Teams, room: TeamState, tables: TeamTables) -> None:
    """Begin an episode of every copy."""
    for copy in range(u64(len(teams.time))):
        begin(copy, teams, room, tables)


@kernel
def step_teams(
    actions: Shorts,  # [copies, N]
    teams: Teams,
    room: TeamState,
    tables: TeamTables,
    paid: NDArray[np.float64],  # [U, H] what a lone agent's machine pays for a step, by its state and kind of cell
    episode_steps: int,
    earned: Earned,
) -> bool:
    """Let every copy act, but for those whose episode is over, which begin the next one; say whether all settled."""
    settled = True
    for copy in range(u64(len(teams.time))):
        earned.reward[copy], earned.terminated[copy], earned.truncated[copy] = 0.0, False, False
        if teams.is_over[copy]:
            teams.number[copy] += u64(1)
            begin(copy, teams, room, tables)
            continue
        team, time = team_of(copy, teams, room), teams.time[copy]
        for event in range(len(team.event_time)):
            team.event_time[event] = -1
        was_done, ready = True, np.int64(0)
        for agent in range(len(team.cell)):
            was_done = was_done and tables.is_final[u64(agent), u64(team.state[agent])]
            drawn = second_number(team.key[agent], time)
            ready += move_agent(agent, actions[copy, agent], drawn, team, tables)
        if len(paid) > 0:
            earned.reward[copy] = paid[u64(team.state[0]), u64(tables.kind[0, u64(team.cell[0])])]
        ended = settle(ready, time + 1, team, tables)
        if len(paid) == 0 and ended == DONE and not was_done:
            earned.reward[copy] = 1.0
        settled = settled and ended != ENDLESS
        teams.time[copy] = time + 1
        earned.terminated[copy], earned.truncated[copy] = ended == DONE, time + 1 >= episode_steps
        teams.is_over[copy] = earned.terminated[copy] or earned.truncated[copy]
    return settled
