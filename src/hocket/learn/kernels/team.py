"""The team world: everyone moves, synchronises and remembers. Test episodes with fixed policies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import (
    Bools,
    Floats,
    Index,
    Ints,
    Shorts,
    first_number,
    greedy_action,
    second_number,
    slip_outcome,
    softmax_action,
    stream_key,
)
from hocket.random import TEAM


class TeamTables(NamedTuple):
    """What the team world needs to know of a task (see `hocket.task.tables.Tables`)."""

    next_cell: Shorts  # [N, D, S, A, K]
    dynamics: Shorts  # [N, U]
    event: Shorts  # [N, U, S]
    next_state: Shorts  # [N, U, S]
    is_final: Bools  # [N, U]
    knowers: NDArray[np.int32]  # [E]
    memory_bit: Shorts  # [N, E]
    start: Shorts  # [N]
    initial: Shorts  # [N]
    slip_limit: int


class TeamState(NamedTuple):
    """Where a team is; owned by the caller and used again for every episode."""

    cell: Ints  # [N]
    state: Ints  # [N] of the agents' machines
    memory: Ints  # [N] bits
    proposal: Ints  # [N] the event that an agent proposes, or -1
    tally: Ints  # [E] how many propose an event; zero between steps
    key: NDArray[np.uint64]  # [N] of the streams of random numbers
    finish: Ints  # [N] when the agent's machine was first final, in steps; -1: never
    event_time: Ints  # [E] when the event first happened, in steps; -1: never


class Recording(NamedTuple):
    """What happened in every step; empty where nobody asked."""

    cell: Shorts  # [steps, N]
    state: Shorts  # [steps, N]
    action: Shorts  # [steps, N]


class Play(NamedTuple):
    """How test episodes are played: by softmax or greedily, with which random numbers, and for how long at most."""

    beta: np.float32  # inverse temperature
    greedy: bool
    seed: int
    most_steps: int


@inlined
def reset_team(team: TeamState, tables: TeamTables) -> bool:
    """Put everyone back to the start; say whether the task is done already."""
    done = True
    for agent in range(len(team.cell)):
        team.cell[agent] = tables.start[agent]
        team.state[agent] = tables.initial[agent]
        team.memory[agent] = 0
        is_final = tables.is_final[agent, tables.initial[agent]]
        team.finish[agent] = 0 if is_final else -1
        done = done and is_final
    for event in range(len(team.event_time)):
        team.event_time[event] = -1
    return done


@inlined
def move_agent(agent: int, action: int, drawn: np.uint64, team: TeamState, tables: TeamTables) -> None:
    """Move an agent and note which event it proposes."""
    state = team.state[agent]
    outcome = slip_outcome(drawn, tables.slip_limit)
    end = np.int64(tables.next_cell[agent, tables.dynamics[agent, state], team.cell[agent], action, outcome])
    team.cell[agent] = end
    event = np.int64(tables.event[agent, state, end])
    team.proposal[agent] = event
    if event >= 0:
        team.tally[event] += 1


@inlined
def happens(event: Index, proposers: Index, knowers: NDArray[np.int32]) -> bool:
    """Say whether an event happens that so many agents propose: all who know it do."""
    return bool(proposers == knowers[event])


@inlined
def synchronize(time: int, team: TeamState, tables: TeamTables) -> bool:
    """Let happen what all who know it propose; say whether every agent's machine is final."""
    done = True
    for agent in range(len(team.cell)):
        event = team.proposal[agent]
        if event >= 0 and happens(event, team.tally[event], tables.knowers):
            _happen(event, time, team, tables)
            team.tally[event] = -tables.knowers[event]
        if event >= 0 and team.tally[event] < 0:
            team.state[agent] = tables.next_state[agent, team.state[agent], team.cell[agent]]
    for agent in range(len(team.cell)):
        if team.proposal[agent] >= 0:
            team.tally[team.proposal[agent]] = 0
        is_final = tables.is_final[agent, team.state[agent]]
        done = done and is_final
        if is_final and team.finish[agent] < 0:
            team.finish[agent] = time
    return done


@inlined
def _happen(event: int, time: int, team: TeamState, tables: TeamTables) -> None:
    """Note that an event has happened."""
    if team.event_time[event] < 0:
        team.event_time[event] = time
    for agent in range(len(team.cell)):
        bit = tables.memory_bit[agent, event]
        if bit >= 0:
            team.memory[agent] |= np.int64(1) << np.int64(bit)


@inlined
def choose(q: Floats, agent: int, cell: int, own: int, beta: np.float32, greedy: bool, drawn: np.uint64) -> int:
    """Choose an action by an agent's q-function."""
    q0, q1, q2 = q[agent, cell, 0, own], q[agent, cell, 1, own], q[agent, cell, 2, own]
    q3, q4 = q[agent, cell, 3, own], q[agent, cell, 4, own]
    if greedy:
        return greedy_action(q0, q1, q2, q3, q4, drawn)
    return softmax_action(q0, q1, q2, q3, q4, beta, drawn)


@inlined
def begin_episode(number: int, play: Play, team: TeamState, tables: TeamTables) -> bool:
    """Give everyone the random numbers of a test episode, and a start; say whether the task is done already."""
    for agent in range(len(team.key)):
        team.key[agent] = stream_key(TEAM, play.seed, agent, number)
    return reset_team(team, tables)


@inlined
def record_step(time: int, team: TeamState, recording: Recording) -> None:
    """Note where everyone is after a step, if anybody asked."""
    if time < len(recording.cell):
        for agent in range(len(team.cell)):
            recording.cell[time, agent] = team.cell[agent]
            recording.state[time, agent] = team.state[agent]


@kernel
def play_episode(
    q: Floats,  # [N, S, A, U], or [N, S, A, M] by memory
    by_memory: bool,
    tables: TeamTables,
    team: TeamState,
    play: Play,
    number: int,
    recording: Recording,
) -> int:
    """Play a test episode; return its steps, or -1 if the task was not done in time."""
    if begin_episode(number, play, team, tables):
        return 0
    for time in range(play.most_steps):
        for agent in range(len(team.cell)):
            own = team.memory[agent] if by_memory else team.state[agent]
            key = team.key[agent]
            action = choose(q, agent, team.cell[agent], own, play.beta, play.greedy, first_number(key, time))
            if time < len(recording.action):
                recording.action[time, agent] = action
            move_agent(agent, action, second_number(key, time), team, tables)
        done = synchronize(time + 1, team, tables)
        record_step(time, team, recording)
        if done:
            return time + 1
    return -1


@kernel
def play_episodes(
    q: Floats,
    by_memory: bool,
    tables: TeamTables,
    team: TeamState,
    play: Play,
    first: int,
    recording: Recording,
    steps: Ints,  # [episodes] out: steps, or -1
    finish: NDArray[np.int32],  # [episodes, N] out: when each agent was first done, or -1
) -> None:
    """Play test episodes number first, first + 1, ..."""
    for index in range(len(steps)):
        steps[index] = play_episode(q, by_memory, tables, team, play, first + index, recording)
        for agent in range(finish.shape[1]):
            finish[index, agent] = team.finish[agent]
