"""DQPRM, the paper's Algorithm 1: each agent trains with simulated teammates, by its own projected reward machine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from hocket.learn.episodes import ValuePlayer, machine_shapes
from hocket.learn.kernels import dqprm as kernels
from hocket.learn.learner import Arrays, Learner, LooksAt
from hocket.learn.settings import ScheduledSettings, SimulatedSettings
from hocket.random import TRAINING, stream_key
from hocket.task.tables import IndividualTable, Tables, individual_table


@dataclass(frozen=True)
class DqprmSettings(SimulatedSettings, ScheduledSettings):
    """Decentralised q-learning with projected reward machines."""

    counterfactual: bool = True  # learn for all machine states in every step


class DqprmBlock:
    """Every agent with simulated teammates; the lanes of one agent go in lock step over all seeds."""

    def __init__(self, tables: Tables, settings: DqprmSettings, seeds: Sequence[int], threads: int = 1) -> None:
        shape = machine_shapes(tables)["q"]
        self.seeds, self.threads = seeds, max(1, min(threads, shape[0]))
        self.q = np.zeros((shape[0], len(seeds), *shape[1:]), np.float32)
        self.rule = kernels.Rule(
            settings.schedule, np.float32(settings.discount), settings.episode_steps, settings.counterfactual
        )
        self.tables = [_lane_table(tables, agent, settings) for agent in range(shape[0])]
        self.lanes = [self._lanes(agent) for agent in range(shape[0])]

    def _lanes(self, agent: int) -> kernels.Lanes:
        count, table, q = len(self.seeds), self.tables[agent], self.q[agent]
        keys = [stream_key(TRAINING, seed, agent) for seed in self.seeds]
        return kernels.Lanes(
            q,
            np.zeros((count, q.shape[1], q.shape[3]), np.float32),
            np.full(count, table.start, np.int64),
            np.full(count, table.initial, np.int64),
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
        room = kernels.make_room(len(self.seeds))
        for agent in agents:
            lanes, table = self.lanes[agent], self.tables[agent]
            if len(self.seeds) >= kernels.WORTHWHILE:
                kernels.train_lanes(lanes, table, self.rule, room, begin, steps)
            else:
                for lane in range(len(self.seeds)):
                    kernels.train_lane(lanes, table, self.rule, lane, begin, steps)

    def arrays(self, index: int) -> Arrays:
        return {"q": np.ascontiguousarray(self.q[:, index])}


def _lane_table(tables: Tables, agent: int, settings: SimulatedSettings) -> IndividualTable:
    """Make an agent's table as kernels take it: rewards in single precision."""
    table = individual_table(tables, agent, settings.sync_probability, sync_literal=settings.sync_literal)
    return table._replace(reward=table.reward.astype(np.float32))


LEARNER = Learner(
    name="dqprm",
    summary="each agent learns alone, with its local reward machine (decentralised Q-learning, projected machines)",
    settings=DqprmSettings,
    block=DqprmBlock,
    player=ValuePlayer,
    shapes=machine_shapes,
    looks_at=LooksAt.MACHINE,
    side_by_side=kernels.WORTHWHILE,
)
