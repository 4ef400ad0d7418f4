"""Runs of a learner that train together on the device, and their tests, a thread for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.cuda.device import cuda, device_kernel, fetched, launch, placed, zeros
from hocket.learn.episodes import require_settled, team_state, team_tables
from hocket.learn.kernels.actions import FAILED, NEVER_SETTLED, NOTHING, PlayParameters, choose, values_at
from hocket.learn.kernels.arrays import Floats, Index, Ints
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.draws import first_number, second_number, slip_outcome
from hocket.learn.kernels.team import DONE, GOING, TeamState, TeamTables, TeamWorkspace, act, begin_team, settle
from hocket.learn.kernels.vectors import column, row
from hocket.learn.learner import Arrays
from hocket.learn.settings import LearningRule
from hocket.learn.testing import TestResults
from hocket.task.tables import Tables

Row = Any  # an array, of a type that numba infers
PLAYERS = 1 << 17  # test episodes at once, at most
PLAYERS_BYTES = 1 << 28  # for their state, about
NO_VALUES = (NOTHING,) * 5  # of actions


class Runs(NamedTuple):
    """The rules and seeds of runs."""

    rules: LearningRule  # [V] of different settings
    variant: Row  # [R] uint32, the index of a run's rule
    seed: Row  # [R] int64


class DeviceTests(NamedTuple):
    """Test episodes of runs, one run after the other: all by softmax, then all greedy ones."""

    number: int  # of a run's first episode
    episodes: int  # of each run
    begin: int  # index of the first that is played now
    played: TestResults


@inlined
def rule_of(runs: Runs, run: Index) -> LearningRule:
    """Return the rule by which a run learns."""
    rule: LearningRule = row(runs.rules, runs.variant[run])
    return rule


@inlined
def test_at(runs: Runs, index: Index, tests: DeviceTests) -> tuple[Index, PlayParameters, int]:
    """Return the run of a test episode, how it is played, and its number."""
    run = index // tests.episodes % len(runs.seed)
    rule, greedy = rule_of(runs, run), index >= len(runs.seed) * tests.episodes
    play = PlayParameters(rule.beta, greedy, runs.seed[run], rule.max_episode_steps)
    return run, play, tests.number + index % tests.episodes


class DevicePlayers(NamedTuple):
    """Teams that play test episodes of runs."""

    q: Floats  # [R, N, S, A, V], or [R, N, S, A, M] by memory
    column: Ints  # [N, U] the column of a machine state in q; V or more: its values are 0
    by_memory: bool
    tables: TeamTables
    runs: Runs
    teams: TeamState  # with an axis more, for threads


def team_bytes(tables: Tables) -> int:
    """Estimate the bytes of a team."""
    return 8 * (8 * len(tables.start) + 2 * len(tables.knowers) + len(tables.body))


def make_teams(tables: Tables, threads: int) -> TeamState:
    """Make the states of so many teams, of which each is a column."""
    team = team_state(tables)

    def spread(array: NDArray[Any]) -> NDArray[Any]:
        return zeros((max(1, len(array)), threads), array.dtype.type)

    return TeamState._make((*map(spread, team[:-1]), TeamWorkspace._make(map(spread, team.workspace))))


@inlined
def play_episode(run: Index, players: DevicePlayers, team: TeamState, play: PlayParameters, number: int) -> int:
    """Play a test episode; return its steps, FAILED if the task was not done in time, or NEVER_SETTLED."""
    q, tables = players.q[run], players.tables
    if begin_team(play.seed, number, team, tables):
        return 0
    for time in range(play.most_steps):
        ready = np.int64(0)
        for agent in range(len(team.cell)):
            observed, key = team.memory[agent], team.key[agent]
            if not players.by_memory:
                observed = players.column[agent, team.state[agent]]
            values = NO_VALUES
            if observed < q.shape[3]:
                values = values_at(q, agent, team.cell[agent], observed)
            action = choose(values, play.beta, play.greedy, first_number(key, time))
            outcome = slip_outcome(second_number(key, time), tables.slip_limit)
            ready += act(agent, action, outcome, team, tables)
        ended = settle(ready, time + 1, team, tables)
        if ended != GOING:
            return time + 1 if ended == DONE else NEVER_SETTLED
    return FAILED


@inlined
def play_team(thread: Index, players: DevicePlayers, tests: DeviceTests) -> None:
    """Play a thread's test episode, if there is one."""
    index, played = tests.begin + thread, tests.played
    if thread < players.teams.cell.shape[1] and index < len(played.steps):
        team = column(players.teams, thread)
        for agent in range(len(team.cell)):
            team.workspace.following[agent] = -1
        run, play, number = test_at(players.runs, index, tests)
        played.steps[index] = play_episode(run, players, team, play, number)
        for agent in range(len(team.finish)):
            played.finish[index, agent] = team.finish[agent]
            played.returns[index, agent] = team.earned[agent]
        for event in range(len(team.event_time)):
            played.event_time[index, event] = team.event_time[event]


@device_kernel
def play_teams(players: DevicePlayers, tests: DeviceTests) -> None:
    """Play as many test episodes as there are teams."""
    play_team(cuda.grid(1), players, tests)


class DeviceJob(NamedTuple):
    """The settings and seed of a run."""

    settings: Any
    seed: int


class DeviceBlock(ABC):
    """Runs of one learner on one task that train together; they may differ in settings and seeds."""

    common_settings: ClassVar[tuple[str, ...]] = ("test_every", "test_episodes")  # in which they may not differ
    keeps_events: ClassVar[bool] = True  # whether tests say when events happened
    q: Floats  # [R, ...] what runs have learnt

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        self.tables = tables
        self.variants: list[Any] = list(dict.fromkeys(job.settings for job in jobs))
        number = {settings: index for index, settings in enumerate(self.variants)}
        self.variant = np.array([number[job.settings] for job in jobs], np.uint32)
        self.seeds = np.array([job.seed for job in jobs], np.int64)
        rules = LearningRule._make(map(np.array, zip(*(settings.rule for settings in self.variants), strict=True)))
        self.runs = placed(Runs(rules, self.variant, self.seeds))

    @classmethod
    @abstractmethod
    def size(cls, tables: Tables) -> int:
        """Estimate the bytes of a run on the device."""

    @abstractmethod
    def train(self, begin: int, steps: int) -> None:
        """Train all runs from step `begin` on."""

    def arrays(self, index: int) -> Arrays:
        """Copy what the run at `index` has learnt so far from the device."""
        return {"q": fetched(self.q[index])}

    @abstractmethod
    def _play(self, tests: DeviceTests) -> int:
        """Play as many episodes at once as possible; return how many."""

    def play(self, numbers: range) -> tuple[TestResults, TestResults]:
        """Play test episodes of every run: by softmax and, at the same time, greedily."""
        agents, events = len(self.tables.start), len(self.tables.knowers)
        count = 2 * len(self.seeds) * len(numbers)
        finish, event_time = zeros((count, agents), np.int32), zeros((count, max(events, 1)), np.int32)
        played = TestResults(zeros((count,), np.int32), finish, event_time, zeros((count, agents), np.float64))
        begin = 0
        while begin < count:
            begin += self._play(DeviceTests(numbers.start, len(numbers), begin, played))
        results, half = [*map(fetched, played)], count // 2
        require_settled(bool((results[0] != NEVER_SETTLED).all()))
        return TestResults(*(part[:half] for part in results)), TestResults(*(part[half:] for part in results))


class TeamBlock(DeviceBlock):
    """Runs whose policies play in the team world by q-functions of the agents."""

    by_memory: ClassVar[bool]
    column: Ints  # [N, U] the column of a machine state in q; past the end: its values are 0

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        super().__init__(tables, jobs)
        self.world = placed(team_tables(tables))
        most, episodes = max(1, PLAYERS_BYTES // team_bytes(tables)), max(1, jobs[0].settings.test_episodes)
        self.players: int = min(PLAYERS, most, 2 * len(jobs) * episodes)
        self.column = placed(np.tile(np.arange(int(tables.states.max())), (len(tables.start), 1)))
        self.teams = make_teams(tables, self.players)

    def _play(self, tests: DeviceTests) -> int:
        players = DevicePlayers(self.q, self.column, self.by_memory, self.world, self.runs, self.teams)
        launch(play_teams, self.players, players, tests)
        return self.players
