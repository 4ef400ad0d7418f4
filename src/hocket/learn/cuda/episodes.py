"""Runs side by side on the device, which may differ in settings and seeds; their test episodes, a thread for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.cuda.device import cuda, device_kernel, zeros
from hocket.learn.episodes import team_state
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import NOTHING, Floats, Index, Ints, first_number, second_number
from hocket.learn.kernels.team import (
    DONE,
    FAILED,
    GOING,
    NEVER_SETTLED,
    PlayParameters,
    TeamRoom,
    TeamState,
    TeamTables,
    begin_episode,
    choose,
    move_agent,
    settle,
    values_at,
)
from hocket.learn.kernels.vectors import column, row
from hocket.learn.settings import LearningRule, Settings
from hocket.learn.testing import TestResults
from hocket.task.tables import Tables

Row = Any  # an array; numba finds out what its numbers are
WORTHLESS = (NOTHING,) * 5  # actions


class Runs(NamedTuple):
    """Which runs there are."""

    rules: LearningRule  # [V] of different settings
    variant: Row  # [R] uint32, which of them a run has
    seed: Row  # [R] int64


def make_rules(variants: Sequence[Settings]) -> LearningRule:
    """Gather the rules of some settings."""
    return LearningRule._make(map(np.array, zip(*(settings.rule for settings in variants), strict=True)))


class DeviceTests(NamedTuple):
    """Test episodes of runs, one run after the other: those by softmax, and then greedy ones."""

    number: int  # of a run's first
    episodes: int  # of each run
    begin: int  # from which on they are played now
    played: TestResults


@inlined
def rule_of(runs: Runs, run: Index) -> LearningRule:
    """Return the rule by which a run learns."""
    rule: LearningRule = row(runs.rules, runs.variant[run])
    return rule


@inlined
def play_at(runs: Runs, run: Index, greedy: bool) -> PlayParameters:
    """Say how tests of a run are played."""
    rule = rule_of(runs, run)
    return PlayParameters(rule.beta, greedy, runs.seed[run], rule.max_episode_steps)


class DeviceLearnt(NamedTuple):
    """What runs have learnt."""

    q: Floats  # [R, N, S, A, V], or [R, N, S, A, M] by memory
    column: Ints  # [N, U] where the values in a machine state are; V or more: they are 0
    by_memory: bool


def team_bytes(tables: Tables) -> int:
    """Say how much room a team takes."""
    return 8 * (8 * len(tables.start) + 2 * len(tables.knowers) + len(tables.body))


def make_teams(tables: Tables, threads: int) -> TeamState:
    """Make room for so many teams, those of neighbouring threads side by side; none of them proposes anything yet."""
    team = team_state(tables)

    def spread(array: NDArray[Any]) -> NDArray[Any]:
        return zeros((max(1, len(array)), threads), array.dtype.type)

    return TeamState._make((*map(spread, team[:-1]), TeamRoom._make(map(spread, team.room))))


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
            values = WORTHLESS
            if observed < learnt.q.shape[4]:
                values = values_at(learnt.q[run], agent, team.cell[agent], observed)
            action = choose(values, play.beta, play.greedy, first_number(key, time))
            ready += move_agent(agent, action, second_number(key, time), team, tables)
        ended = settle(ready, time + 1, team, tables)
        if ended != GOING:
            return time + 1 if ended == DONE else NEVER_SETTLED
    return FAILED


@inlined
def play_team(
    thread: Index, learnt: DeviceLearnt, tables: TeamTables, runs: Runs, teams: TeamState, tests: DeviceTests
) -> None:
    """Play a thread's test episode, if there is one."""
    index, episodes, played = tests.begin + thread, tests.episodes, tests.played
    if thread < teams.cell.shape[1] and index < len(played.steps):
        run, team = index // episodes % len(runs.seed), column(teams, thread)
        for agent in range(len(team.cell)):
            team.room.following[agent] = -1
        play = play_at(runs, run, index >= len(runs.seed) * episodes)
        played.steps[index] = play_episode(run, learnt, tables, team, play, tests.number + index % episodes)
        for agent in range(len(team.finish)):
            played.finish[index, agent] = team.finish[agent]
            played.returns[index, agent] = team.earned[agent]
        for event in range(len(team.event_time)):
            played.event_time[index, event] = team.event_time[event]


@device_kernel
def play_teams(learnt: DeviceLearnt, tables: TeamTables, runs: Runs, teams: TeamState, tests: DeviceTests) -> None:
    """Play as many test episodes as there are teams."""
    play_team(cuda.grid(1), learnt, tables, runs, teams, tests)
