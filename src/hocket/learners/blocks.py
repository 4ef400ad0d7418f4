"""How each learner trains and tests a block of seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.draws import TRAINING, stream_key, threshold
from hocket.errors import SettingsError
from hocket.kernels import hierarchical, independent, joint, lanes, team
from hocket.kernels.team import BY_MACHINE, BY_MEMORY, Recording
from hocket.learners.optimal import solve
from hocket.learners.settings import (
    CqrmSettings,
    DqprmSettings,
    HilSettings,
    IqlSettings,
    OptimalSettings,
    ScheduledSettings,
    Settings,
)
from hocket.learners.world import lane_tables, team_state, team_tables
from hocket.tables import Tables
from hocket.world import ACTIONS

Arrays = dict[str, NDArray[np.float32]]


class Block(Protocol):
    """Several seeds of one learner, side by side."""

    def train(self, begin: int, steps: int) -> None:
        """Train all seeds from step `begin` on."""

    def test(self, index: int, number: int, greedy: bool, record: Recording) -> int:
        """Play test episode `number` with the seed at `index`; return its steps, or -1."""

    def arrays(self, index: int) -> Arrays:
        """Return what the seed at `index` has learnt."""


def _tester(tables: Tables, settings: Settings, looks_at: int) -> Callable[..., int]:
    """Prepare test episodes for policies that are q-functions over the cell and a machine state or memory."""
    world, room = team_tables(tables), team_state(tables)
    beta = np.float32(1 / settings.temperature)

    def play(q: NDArray[np.float32], seed: int, number: int, greedy: bool, record: Recording) -> int:
        return team.play_episode(
            q, world, room, looks_at, beta, greedy, seed, number, settings.episode_steps, record
        )  # fmt: skip

    return play


def _scheduled(settings: ScheduledSettings) -> tuple[np.float32, np.float32, np.float32, np.float32, np.float32]:
    """Rate, its decay, discount, inverse temperature and its growth, as kernels take them."""
    rate, decay = np.float32(settings.learning_rate), np.float32(settings.learning_rate_decay)
    beta, growth = np.float32(1 / settings.temperature), np.float32(settings.temperature_decay)
    return rate, decay, np.float32(settings.discount), beta, growth


class DqprmBlock:
    """Every agent alone, with its own machine; the lanes of one agent go in lock step over all seeds."""

    def __init__(self, tables: Tables, settings: DqprmSettings, seeds: Sequence[int]) -> None:
        agents, states, cells = tables.event.shape
        self.seeds = seeds
        self.q = np.zeros((agents, len(seeds), cells, len(ACTIONS), states), np.float32)
        self.rates = lanes.Rates(
            *_scheduled(settings), threshold(tables.slip), settings.episode_steps, settings.counterfactual
        )
        self.tables = [
            lane_tables(tables, agent, settings.sync_probability, settings.sync_literal) for agent in range(agents)
        ]
        self.lanes = [self._lanes(agent) for agent in range(agents)]
        self.room = lanes.make_room(len(seeds))
        self._play = _tester(tables, settings, BY_MACHINE)

    def _lanes(self, agent: int) -> lanes.Lanes:
        count, own = len(self.seeds), self.tables[agent]
        keys = [stream_key(TRAINING, seed, agent) for seed in self.seeds]
        q = self.q[agent]
        return lanes.Lanes(
            q,
            np.zeros((count, q.shape[1], q.shape[3]), np.float32),
            np.full(count, own.start, np.int64),
            np.full(count, own.initial, np.int64),
            np.zeros(count, np.int64),
            np.array(keys, np.uint64),
        )

    def train(self, begin: int, steps: int) -> None:
        for own, table in zip(self.lanes, self.tables, strict=True):
            if len(self.seeds) >= lanes.WORTHWHILE:
                lanes.train_lanes(own, table, self.rates, self.room, begin, steps)
            else:
                for lane in range(len(self.seeds)):
                    lanes.train_lane(own, table, self.rates, lane, begin, steps)

    def test(self, index: int, number: int, greedy: bool, record: Recording) -> int:
        return self._play(np.ascontiguousarray(self.q[:, index]), self.seeds[index], number, greedy, record)

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[:, index].copy()}


class OptimalBlock:
    """Optimal local policies; all seeds share them."""

    def __init__(self, tables: Tables, settings: OptimalSettings, seeds: Sequence[int]) -> None:
        agents, states, cells = tables.event.shape
        self.seeds = seeds
        self.q = np.zeros((agents, cells, len(ACTIONS), states), np.float32)
        for agent in range(agents):
            own = (settings.discount, settings.sync_probability, settings.sync_literal, settings.tolerance)
            self.q[agent, :, :, : tables.states[agent]] = solve(tables, agent, *own)
        self._play = _tester(tables, settings, BY_MACHINE)

    def train(self, begin: int, steps: int) -> None:
        pass  # there is nothing to learn

    def test(self, index: int, number: int, greedy: bool, record: Recording) -> int:
        return self._play(self.q, self.seeds[index], number, greedy, record)

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q.copy()}


class IqlBlock:
    """Agents that learn at once in the team world, each by its cell and memory."""

    def __init__(self, tables: Tables, settings: IqlSettings, seeds: Sequence[int]) -> None:
        agents, _, cells = tables.event.shape
        self.seeds = seeds
        self.q = np.zeros((len(seeds), agents, cells, len(ACTIONS), int(tables.memories.max())), np.float32)
        self.rates = independent.IndependentRates(
            *_scheduled(settings), settings.episode_steps, settings.bootstrap_past_end
        )
        self.tables = team_tables(tables)
        self.teams = [team_state(tables, seed) for seed in seeds]
        self.before = np.zeros((agents, 3), np.int64)
        self.clocks = np.full((len(seeds), 1), -1, np.int64)
        self._play = _tester(tables, settings, BY_MEMORY)

    def train(self, begin: int, steps: int) -> None:
        for q, own, clock in zip(self.q, self.teams, self.clocks, strict=True):
            independent.train_independently(q, self.tables, own, self.before, clock, self.rates, begin, steps)

    def test(self, index: int, number: int, greedy: bool, record: Recording) -> int:
        return self._play(self.q[index], self.seeds[index], number, greedy, record)

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[index].copy()}


class HilBlock:
    """Agents with options, which learn at once in the team world."""

    def __init__(self, tables: Tables, settings: HilSettings, seeds: Sequence[int]) -> None:
        agents, _, cells = tables.event.shape
        options = tables.option_bit.shape[1]
        if options == 0 or (tables.option_bit[:, 0] == -2).any():
            raise SettingsError("hil needs a task in which every agent has options")
        self.seeds, self.source, self.settings = seeds, tables, settings
        self.meta = np.zeros((len(seeds), agents, int(tables.memories.max()), options), np.float32)
        self.low = np.zeros((len(seeds), agents, cells, len(ACTIONS), options), np.float32)
        self.beta = np.float32(1 / settings.temperature)
        rate, discount = np.float32(settings.learning_rate), np.float32(settings.discount)
        self.rates = hierarchical.HierarchicalRates(
            rate, discount, self.beta, settings.episode_steps, settings.bootstrap_past_end
        )
        self.tables = team_tables(tables)
        self.teams = [team_state(tables, seed) for seed in seeds]
        self.options = [self._options(agents) for _ in seeds]
        self.before = np.zeros((agents, 2), np.int64)
        self.clocks = np.full((len(seeds), 1), -1, np.int64)
        self.test_team, self.test_options = team_state(tables), self._options(agents)

    def _options(self, agents: int) -> hierarchical.Options:
        return hierarchical.Options(
            self.source.option_target,
            self.source.option_bit,
            np.full(agents, -1, np.int64),
            np.zeros(agents, np.int64),
            np.zeros(agents),
            np.zeros(agents, np.int64),
        )

    def train(self, begin: int, steps: int) -> None:
        for index, (meta, low) in enumerate(zip(self.meta, self.low, strict=True)):
            hierarchical.train_hierarchically(
                meta, low, self.tables, self.teams[index], self.options[index],
                self.before, self.clocks[index], self.rates, begin, steps,
            )  # fmt: skip

    def test(self, index: int, number: int, greedy: bool, record: Recording) -> int:
        return hierarchical.play_hierarchically(
            self.meta[index], self.low[index], self.tables, self.test_team, self.test_options,
            self.beta, greedy, self.seeds[index], number, self.settings.episode_steps, record,
        )  # fmt: skip

    def arrays(self, index: int) -> Arrays:
        return {"meta": self.meta[index].copy(), "low": self.low[index].copy()}


class CqrmBlock:
    """Two agents as one, with the team's machine."""

    def __init__(self, tables: Tables, settings: CqrmSettings, seeds: Sequence[int]) -> None:
        agents, _, cells = tables.event.shape
        states = len(tables.team_final)
        needed = cells**agents * len(ACTIONS) ** agents * max(states, 1) * 4
        if agents != 2:
            raise SettingsError(
                f"cqrm trains two agents as one, got {agents}, which would need {needed:,} bytes a seed"
            )
        if states == 0:
            raise SettingsError("cqrm needs the team machine with all its states, and this one is too large")
        if needed > settings.most_memory:
            raise SettingsError(
                f"cqrm would need {needed:,} bytes a seed, more than the {settings.most_memory:,} allowed"
            )
        self.seeds, self.settings = seeds, settings
        self.q = [np.zeros((cells * cells, len(ACTIONS) ** 2, states), np.float32) for _ in seeds]
        self.best = [np.zeros((cells * cells, states), np.float32) for _ in seeds]
        self.tables = self._joint_tables(tables)
        start = [int(tables.start[0]), int(tables.start[1]), tables.team_initial, 0]
        self.places = np.array([start for _ in seeds], np.int64)
        self.keys = np.array([stream_key(TRAINING, seed, 0) for seed in seeds], np.uint64)
        self.rates = joint.JointRates(*_scheduled(settings), settings.episode_steps, settings.counterfactual)

    @staticmethod
    def _joint_tables(tables: Tables) -> joint.JointTables:
        agents = np.arange(2)[:, None]
        return joint.JointTables(
            tables.next_cell,
            np.ascontiguousarray(tables.dynamics[agents, tables.team_class]),
            np.ascontiguousarray(tables.event[agents, tables.team_class]),
            tables.knowers,
            tables.team_next,
            tables.team_final,
            tables.start,
            tables.team_initial,
            threshold(tables.slip),
        )

    def train(self, begin: int, steps: int) -> None:
        for index in range(len(self.seeds)):
            joint.train_jointly(
                self.q[index], self.best[index], self.places[index], self.tables, self.rates,
                self.keys[index], begin, steps,
            )  # fmt: skip

    def test(self, index: int, number: int, greedy: bool, record: Recording) -> int:
        beta = np.float32(1 / self.settings.temperature)
        return joint.play_jointly(
            self.q[index], self.tables, beta, greedy, self.seeds[index], number, self.settings.episode_steps, record
        )  # fmt: skip

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[index].copy()}
