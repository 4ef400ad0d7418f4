"""Runs of a learner side by side on the device: what they have in common, and how they are tested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.cuda.device import fetched, launch, placed, zeros
from hocket.learn.cuda.episodes import DeviceLearnt, DeviceTests, Runs, make_rules, make_teams, play_teams, team_bytes
from hocket.learn.episodes import require_settled, team_tables
from hocket.learn.kernels.team import NEVER_SETTLED
from hocket.learn.learner import Arrays
from hocket.learn.testing import TestResults
from hocket.task.tables import Tables

PLAYERS = 1 << 17  # test episodes at once, at most
PLAYERS_ROOM = 1 << 28  # bytes for what they work out, about


class DeviceJob(NamedTuple):
    """A run to be made."""

    settings: Any  # of the learner
    seed: int


class DeviceBlock(ABC):
    """Runs of one learner on one task, side by side on the device; they may differ in settings and seeds."""

    common_settings: ClassVar[tuple[str, ...]] = ("test_every", "test_episodes")  # in which they may not differ
    keeps_events: ClassVar[bool] = True  # whether tests say when events happened

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        self.tables = tables
        self.variants: list[Any] = list(dict.fromkeys(job.settings for job in jobs))
        place = {settings: number for number, settings in enumerate(self.variants)}
        self.variant = np.array([place[job.settings] for job in jobs], np.uint32)
        self.seeds = np.array([job.seed for job in jobs], np.int64)
        self.runs = placed(Runs(make_rules(self.variants), self.variant, self.seeds))

    @classmethod
    @abstractmethod
    def size(cls, tables: Tables) -> int:
        """Say how many bytes of the device a run takes."""

    @abstractmethod
    def train(self, begin: int, steps: int) -> None:
        """Train all runs from step `begin` on."""

    @abstractmethod
    def arrays(self, index: int) -> Arrays:
        """Fetch what the run at `index` has learnt so far."""

    @abstractmethod
    def _play(self, tests: DeviceTests) -> int:
        """Play as many episodes as there is room for; return how many that are."""

    def play(self, numbers: range) -> tuple[TestResults, TestResults]:
        """Play test episodes of every run: by softmax and, at the same time, greedily."""
        agents, events = len(self.tables.start), len(self.tables.knowers)
        count = 2 * len(self.seeds) * len(numbers)
        played = TestResults(
            zeros((count,), np.int32),
            zeros((count, agents), np.int32),
            zeros((count, max(events, 1)), np.int32),
            zeros((count, agents), np.float64),
        )
        begin = 0
        while begin < count:
            begin += self._play(DeviceTests(numbers.start, len(numbers), begin, played))
        results, half = [*map(fetched, played)], count // 2
        require_settled(bool((results[0] != NEVER_SETTLED).all()))
        return TestResults(*(part[:half] for part in results)), TestResults(*(part[half:] for part in results))


class TeamBlock(DeviceBlock):
    """Runs whose policies play in the team world by q-functions of the agents."""

    by_memory: ClassVar[bool]
    q: NDArray[np.float32]  # [R, N, S, A, U or M]
    column: NDArray[np.int64]  # [N, U] where the values in a machine state are; past the end: they are 0

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        super().__init__(tables, jobs)
        self.world = placed(team_tables(tables))
        room = max(1, PLAYERS_ROOM // team_bytes(tables))
        self.players: int = min(PLAYERS, room, 2 * len(jobs) * max(1, jobs[0].settings.test_episodes))
        self.column = placed(np.tile(np.arange(int(tables.states.max())), (len(tables.start), 1)))
        self.teams = make_teams(tables, self.players)

    def _play(self, tests: DeviceTests) -> int:
        learnt = DeviceLearnt(self.q, self.column, self.by_memory)
        launch(play_teams, self.players, learnt, self.world, self.runs, self.teams, tests)
        return self.players
