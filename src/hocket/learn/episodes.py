"""Test episodes in the team world: tables and states of teams for kernels, and the player of q-functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from hocket.learn.kernels.actions import NEVER_SETTLED, PlayParameters
from hocket.learn.kernels.arrays import Floats, Ints, Keys, UWhole
from hocket.learn.kernels.team import TeamState, TeamTables, TeamWorkspace
from hocket.learn.kernels.teams import EpisodeRound, Learnt, Teams, make_choices, play_teams
from hocket.learn.learner import Arrays, Block, Player, PolicyInput
from hocket.learn.testing import Recording, TestResults, recording
from hocket.random import TRAINING, stream_key, threshold
from hocket.task.grid import Numbers
from hocket.task.settling import EndlessError
from hocket.task.tables import Tables

Struct = TypeVar("Struct", bound=tuple[Any, ...])

Kept = tuple[Recording, Ints] | None  # the record of the first episode, and visits: [N, S]

AT_ONCE = 4096  # agents, of all teams that play at once


def team_tables(tables: Tables) -> TeamTables:
    """Make the tables of a team's step."""
    return pick_fields(TeamTables, tables, slip_limit=threshold(tables.slip), edges=edges_of(tables))


def pick_fields(kind: type[Struct], source: object, /, **others: object) -> Struct:
    """Make a struct from the fields of the same names of a source, and from others."""
    names = [name for name in kind._fields if name not in others]  # type: ignore[attr-defined]
    return kind(**{name: getattr(source, name) for name in names}, **others)


def edges_of(tables: Tables) -> tuple[int, ...]:
    """Say whether a task has edges, as a tuple whose length is a constant in kernels."""
    return (0, 0) if tables.is_edge.any() else (0,)


def unsigned(numbers: Numbers) -> UWhole:
    """Convert indices to an unsigned type of the same size."""
    return numbers.astype(np.uint16) if numbers.dtype == np.int16 else numbers.astype(np.uint32)


def team_state(tables: Tables, *copies: int) -> TeamState:
    """Make the state of a team, or of so many copies of it."""
    agents, events = len(tables.start), len(tables.knowers)
    cell, state, memory, finish = (np.zeros((*copies, agents), np.int64) for _ in range(4))
    kind, tally, before, claim = (np.zeros(size, np.int64) for size in (agents, events, agents, len(tables.body)))
    workspace = TeamWorkspace(kind, np.full(agents, -1, np.int64), tally, before, claim)
    key, event_time = np.zeros(cell.shape, np.uint64), np.full((*copies, events), -1, np.int64)
    return TeamState(cell, state, memory, key, finish, event_time, np.zeros(cell.shape), workspace)


def training_teams(tables: Tables, seeds: Sequence[int]) -> TeamState:
    """Make the state of each seed's team, with the keys of its training streams."""
    return team_state(tables, len(seeds))._replace(key=training_keys(seeds, len(tables.start)))


def training_keys(seeds: Sequence[int] | Ints, agents: int) -> Keys:
    """Make the keys of the streams by which agents train: [seeds, N]."""
    return stream_key(TRAINING, np.array(seeds, np.uint64)[:, None], np.arange(agents, dtype=np.uint64))


def make_teams(tables: Tables, copies: int) -> Teams:
    """Make so many copies of a team."""
    return Teams(np.zeros(copies, np.uint64), np.zeros(copies, np.uint64), team_state(tables, copies))


def require_settled(settled: bool) -> None:
    """Raise an error if a step has not settled."""
    if not settled:
        raise EndlessError("events")


class TeamPlayer(Player, ABC):
    """Plays episodes of many teams at once in the team world."""

    arrays: ClassVar[tuple[str, ...]]  # names of those of a policy
    is_stacked: ClassVar[bool] = False  # whether a block has each of them with an axis for seeds

    def __init__(self, tables: Tables, temperature: float, max_episode_steps: int) -> None:
        agents = len(tables.start)
        self.tables, self.world, self.copies = tables, team_tables(tables), 0
        self.beta, self.max_episode_steps = np.float32(1 / temperature), max_episode_steps
        self.finish, self.event_time = np.zeros(agents, np.int64), np.zeros(len(tables.knowers), np.int64)
        self.returns = np.zeros(agents * tables.has_rewards)
        self.no_record, self.no_visits = recording(0, agents), np.zeros((agents, 0), np.int64)

    def play_many(
        self, arrays: Arrays, seed: int, numbers: range, greedy: bool, record: Recording | None = None
    ) -> TestResults:
        learnt = [arrays[name][None] for name in self.arrays]
        return self.play_all(learnt, [seed], numbers, greedy, (record or self.no_record, self.no_visits))

    def count_visits(self, arrays: Arrays, seed: int, numbers: range, most_steps: int, visits: Ints) -> TestResults:
        learnt = [arrays[name][None] for name in self.arrays]
        return self.play_all(learnt, [seed], numbers, True, (self.no_record, visits))

    def play_seeds(self, block: Block, seeds: Sequence[int], numbers: range, greedy: bool) -> TestResults:
        if not self.is_stacked:
            return super().play_seeds(block, seeds, numbers, greedy)
        return self.play_all([getattr(block, name) for name in self.arrays], seeds, numbers, greedy)

    def play_all(
        self, learnt: Sequence[Floats], seeds: Sequence[int], numbers: range, greedy: bool, kept: Kept = None
    ) -> TestResults:
        """Play episodes of each seed with what it has learnt, and record the first of all."""
        agents, count = len(self.finish), len(seeds) * len(numbers)
        results, size = self.make_results(count), max(1, min(count, AT_ONCE // agents))
        if self.copies != size:
            self.copies, self.teams, self.choices = size, make_teams(self.tables, size), make_choices(size, agents)
        episodes = (np.array(seeds, np.uint64), numbers.start, len(numbers))
        play = PlayParameters(self.beta, greedy, 0, self.max_episode_steps)
        about = (*episodes, self.world, self.teams, self.choices, play, *(kept or (self.no_record, self.no_visits)))
        for first in range(0, count, size):
            part = slice(first, min(first + size, count))
            self.launch(learnt, EpisodeRound(*about, first, results.steps[part]))
            used, played = part.stop - first, self.teams.copies
            results.finish[part], results.event_time[part] = played.finish[:used], played.event_time[:used]
            results.returns[part] = played.earned[:used, : len(self.returns)]
        require_settled(results.steps.min(initial=0) > NEVER_SETTLED)
        return results

    @abstractmethod
    def launch(self, learnt: Sequence[Floats], episodes: EpisodeRound) -> None:
        """Play episodes by a kernel."""


class ValuePlayer(TeamPlayer):
    """Plays each agent's q-function over its cell and its machine state or memory: [N, S, A, U or M]."""

    arrays = ("q",)
    policy_input = PolicyInput.MACHINE

    def launch(self, learnt: Sequence[Floats], episodes: EpisodeRound) -> None:
        copies = self.teams.copies
        observed = copies.memory if self.policy_input is PolicyInput.MEMORY else copies.state
        play_teams(Learnt(learnt[0], observed), episodes)


class StackPlayer(ValuePlayer):
    """Plays q-functions that a block has in one array, with an axis for seeds."""

    is_stacked = True


class MemoryPlayer(StackPlayer):
    """Plays q-functions over the cell and memory."""

    policy_input = PolicyInput.MEMORY
