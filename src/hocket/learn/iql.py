"""Independent q-learning: every agent learns for itself in the team world, by its cell and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hocket.learn.devices import DEVICES
from hocket.learn.episodes import MemoryPlayer, require_settled, team_state, team_tables
from hocket.learn.kernels import iql as kernels
from hocket.learn.learner import Arrays, Learner, LooksAt, Shapes
from hocket.learn.settings import ScheduledSettings, setting
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables


@dataclass(frozen=True)
class IqlSettings(ScheduledSettings):
    """Independent q-learning."""

    bootstrap_past_end: bool = setting(
        True, "add the next value also on the step that completes the task, as published; false: as in textbooks"
    )


class IqlBlock:
    """Agents that learn at once in the team world, each by its cell and memory."""

    def __init__(self, tables: Tables, settings: IqlSettings, seeds: Sequence[int], threads: int = 1) -> None:
        shape = _shapes(tables)["q"]
        self.q = np.zeros((len(seeds), *shape), np.float32)
        self.rule = kernels.Rule(
            settings.schedule, np.float32(settings.discount), settings.episode_steps, settings.bootstrap_past_end
        )
        self.tables = team_tables(tables)
        before = np.zeros((shape[0], 3), np.int64)
        self.learning = [
            kernels.Learning(q, team_state(tables, seed), before, np.full(1, -1, np.int64))
            for q, seed in zip(self.q, seeds, strict=True)
        ]

    def train(self, begin: int, steps: int) -> None:
        for own in self.learning:
            require_settled(kernels.train_independently(own, self.tables, self.rule, begin, steps))

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[index]}


def _shapes(tables: Tables) -> Shapes:
    agents, cells = tables.kind.shape
    return {"q": (agents, cells, len(ACTIONS), int(tables.memories.max()))}


LEARNER = Learner(
    name="iql",
    summary="all agents learn at once from the team reward (independent Q-learning)",
    settings=IqlSettings,
    block=IqlBlock,
    player=MemoryPlayer,
    shapes=_shapes,
    looks_at=LooksAt.MEMORY,
    devices=DEVICES,
    apart=kernels.train_independently,
    side_by_side=2,
)
