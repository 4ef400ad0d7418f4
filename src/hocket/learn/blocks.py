"""How each learner trains a block of seeds."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from hocket.errors import SettingsError
from hocket.learn.arrays import lane_tables, team_state, team_tables
from hocket.learn.kernels import hierarchical, independent, joint, lanes
from hocket.learn.optimal import solve
from hocket.learn.players import Arrays, joint_tables, option_state
from hocket.learn.settings import (
    CqrmSettings,
    DqprmSettings,
    HilSettings,
    IqlSettings,
    OptimalSettings,
    ScheduledSettings,
)
from hocket.random import TRAINING, stream_key, threshold
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables


class Block(Protocol):
    """Several seeds of one learner, side by side."""

    def train(self, begin: int, steps: int) -> None:
        """Train all seeds from step `begin` on."""

    def arrays(self, index: int) -> Arrays:
        """Show what the seed at `index` has learnt so far."""


def _scheduled(settings: ScheduledSettings) -> tuple[np.float32, np.float32, np.float32, np.float32, np.float32]:
    """Rate, its decay, discount, inverse temperature and its growth, as kernels take them."""
    rate, decay = np.float32(settings.learning_rate), np.float32(settings.learning_rate_decay)
    beta, growth = np.float32(1 / settings.temperature), np.float32(settings.temperature_decay)
    return rate, decay, np.float32(settings.discount), beta, growth


class DqprmBlock:
    """Every agent alone, with its own machine; the lanes of one agent go in lock step over all seeds."""

    def __init__(self, tables: Tables, settings: DqprmSettings, seeds: Sequence[int], threads: int = 1) -> None:
        agents, states, cells = tables.event.shape
        self.seeds, self.threads = seeds, max(1, min(threads, agents))
        self.q = np.zeros((agents, len(seeds), cells, len(ACTIONS), states), np.float32)
        self.rates = lanes.Rates(
            *_scheduled(settings), threshold(tables.slip), settings.episode_steps, settings.counterfactual
        )
        self.tables = lane_tables(tables, settings.sync_probability, settings.sync_literal)
        self.lanes = [self._lanes(agent) for agent in range(agents)]

    def _lanes(self, agent: int) -> lanes.Lanes:
        count, own, q = len(self.seeds), self.tables[agent], self.q[agent]
        keys = [stream_key(TRAINING, seed, agent) for seed in self.seeds]
        return lanes.Lanes(
            q,
            np.zeros((count, q.shape[1], q.shape[3]), np.float32),
            np.full(count, own.start, np.int64),
            np.full(count, own.initial, np.int64),
            np.zeros(count, np.int64),
            np.array(keys, np.uint64),
        )

    def train(self, begin: int, steps: int) -> None:
        shares = [range(first, len(self.lanes), self.threads) for first in range(self.threads)]
        if len(shares) == 1:
            self._train_agents(shares[0], begin, steps)
            return
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(lambda share: self._train_agents(share, begin, steps), shares))

    def _train_agents(self, agents: range, begin: int, steps: int) -> None:
        room = lanes.make_room(len(self.seeds))
        for agent in agents:
            own, table = self.lanes[agent], self.tables[agent]
            if len(self.seeds) >= lanes.WORTHWHILE:
                lanes.train_lanes(own, table, self.rates, room, begin, steps)
            else:
                for lane in range(len(self.seeds)):
                    lanes.train_lane(own, table, self.rates, lane, begin, steps)

    def arrays(self, index: int) -> Arrays:
        return {"q": np.ascontiguousarray(self.q[:, index])}


class OptimalBlock:
    """Optimal local policies; all seeds share them."""

    def __init__(self, tables: Tables, settings: OptimalSettings, seeds: Sequence[int], threads: int = 1) -> None:
        agents, states, cells = tables.event.shape
        self.q = np.zeros((agents, cells, len(ACTIONS), states), np.float32)
        for agent in range(agents):
            own = (settings.discount, settings.sync_probability, settings.sync_literal, settings.tolerance)
            self.q[agent, :, :, : tables.states[agent]] = solve(tables, agent, *own)

    def train(self, begin: int, steps: int) -> None:
        pass  # there is nothing to learn

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q}


class IqlBlock:
    """Agents that learn at once in the team world, each by its cell and memory."""

    def __init__(self, tables: Tables, settings: IqlSettings, seeds: Sequence[int], threads: int = 1) -> None:
        agents, _, cells = tables.event.shape
        self.q = np.zeros((len(seeds), agents, cells, len(ACTIONS), int(tables.memories.max())), np.float32)
        self.rates = independent.IndependentRates(
            *_scheduled(settings), settings.episode_steps, settings.bootstrap_past_end
        )
        self.tables = team_tables(tables)
        self.teams = [team_state(tables, seed) for seed in seeds]
        self.before = np.zeros((agents, 3), np.int64)
        self.clocks = np.full((len(seeds), 1), -1, np.int64)

    def train(self, begin: int, steps: int) -> None:
        for q, own, clock in zip(self.q, self.teams, self.clocks, strict=True):
            independent.train_independently(q, self.tables, own, self.before, clock, self.rates, begin, steps)

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[index]}


class HilBlock:
    """Agents with options, which learn at once in the team world."""

    def __init__(self, tables: Tables, settings: HilSettings, seeds: Sequence[int], threads: int = 1) -> None:
        agents, _, cells = tables.event.shape
        self.options = [option_state(tables) for _ in seeds]
        options = tables.option_bit.shape[1]
        self.meta = np.zeros((len(seeds), agents, int(tables.memories.max()), options), np.float32)
        self.low = np.zeros((len(seeds), agents, cells, len(ACTIONS), options), np.float32)
        rate, discount = np.float32(settings.learning_rate), np.float32(settings.discount)
        self.rates = hierarchical.HierarchicalRates(
            rate, discount, np.float32(1 / settings.temperature), settings.episode_steps, settings.bootstrap_past_end
        )
        self.tables = team_tables(tables)
        self.teams = [team_state(tables, seed) for seed in seeds]
        self.before = np.zeros((agents, 2), np.int64)
        self.clocks = np.full((len(seeds), 1), -1, np.int64)

    def train(self, begin: int, steps: int) -> None:
        for index, (meta, low) in enumerate(zip(self.meta, self.low, strict=True)):
            hierarchical.train_hierarchically(
                meta, low, self.tables, self.teams[index], self.options[index],
                self.before, self.clocks[index], self.rates, begin, steps,
            )  # fmt: skip

    def arrays(self, index: int) -> Arrays:
        return {"meta": self.meta[index], "low": self.low[index]}


class CqrmBlock:
    """Two agents as one, with the team's machine."""

    def __init__(self, tables: Tables, settings: CqrmSettings, seeds: Sequence[int], threads: int = 1) -> None:
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
            raise SettingsError(f"cqrm would need {needed:,} bytes a seed; the limit is {settings.most_memory:,}")
        self.q = [np.zeros((cells * cells, len(ACTIONS) ** 2, states), np.float32) for _ in seeds]
        self.best = [np.zeros((cells * cells, states), np.float32) for _ in seeds]
        self.tables = joint_tables(tables)
        start = [int(tables.start[0]), int(tables.start[1]), tables.team_initial, 0]
        self.places = np.array([start for _ in seeds], np.int64)
        self.keys = np.array([stream_key(TRAINING, seed, 0) for seed in seeds], np.uint64)
        self.rates = joint.JointRates(*_scheduled(settings), settings.episode_steps, settings.counterfactual)

    def train(self, begin: int, steps: int) -> None:
        for q, best, place, key in zip(self.q, self.best, self.places, self.keys, strict=True):
            joint.train_jointly(q, best, place, self.tables, self.rates, key, begin, steps)

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[index]}
