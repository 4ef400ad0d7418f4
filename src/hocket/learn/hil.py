"""Hierarchical independent learning: agents choose among options by memory, and learn how to carry each one out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hocket.errors import SettingsError
from hocket.learn.episodes import TeamPlayer, require_settled, team_state, team_tables
from hocket.learn.kernels import hil as kernels
from hocket.learn.kernels.team import NEVER_SETTLED, Recording
from hocket.learn.learner import Arrays, Learner, LooksAt, Shapes
from hocket.learn.settings import Settings, setting
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables


@dataclass(frozen=True)
class HilSettings(Settings):
    """Hierarchical independent learning."""

    bootstrap_past_end: bool = setting(
        True, "add the next value also on the step that completes the task, as published; false: as in textbooks"
    )


class HilBlock:
    """Agents with options, which learn at once in the team world."""

    def __init__(self, tables: Tables, settings: HilSettings, seeds: Sequence[int], threads: int = 1) -> None:
        options = [_options(tables) for _ in seeds]
        shapes = _shapes(tables)
        self.meta = np.zeros((len(seeds), *shapes["meta"]), np.float32)
        self.low = np.zeros((len(seeds), *shapes["low"]), np.float32)
        self.rule = kernels.Rule(
            np.float32(settings.learning_rate),
            np.float32(settings.discount),
            np.float32(1 / settings.temperature),
            settings.episode_steps,
            settings.bootstrap_past_end,
        )
        self.tables = team_tables(tables)
        before = np.zeros((len(tables.start), 2), np.int64)
        self.learning = [
            kernels.Learning(meta, low, team_state(tables, seed), own, before, np.full(1, -1, np.int64))
            for meta, low, own, seed in zip(self.meta, self.low, options, seeds, strict=True)
        ]

    def train(self, begin: int, steps: int) -> None:
        for own in self.learning:
            require_settled(kernels.train_hierarchically(own, self.tables, self.rule, begin, steps))

    def arrays(self, index: int) -> Arrays:
        return {"meta": self.meta[index], "low": self.low[index]}


class HilPlayer(TeamPlayer):
    """Plays a meta-policy over options and a q-function for each of them."""

    def __init__(self, tables: Tables, temperature: float, episode_steps: int) -> None:
        super().__init__(tables, temperature, episode_steps)
        self.options = _options(tables)

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        meta, low, how = arrays["meta"], arrays["low"], self.how(seed, greedy)
        steps = kernels.play_hierarchically(meta, low, self.options, self.world, self.room, how, number, record)
        require_settled(steps != NEVER_SETTLED)
        return steps


def _options(tables: Tables) -> kernels.Options:
    """Make room for the agents' current options."""
    _check_options(tables)
    agents = len(tables.start)
    return kernels.Options(
        tables.option_target,
        tables.option_bit,
        np.full(agents, -1, np.int64),
        np.zeros(agents, np.int64),
        np.zeros(agents),
        np.zeros(agents, np.int64),
        np.zeros(tables.option_bit.shape[1], np.float32),
    )


def _check_options(tables: Tables, _: HilSettings | None = None) -> None:
    """Require options of every agent."""
    if tables.option_bit.shape[1] == 0 or (tables.option_bit[:, 0] == -2).any():
        raise SettingsError("hil needs a task in which every agent has options")


def _shapes(tables: Tables) -> Shapes:
    agents, cells = tables.kind.shape
    options = tables.option_bit.shape[1]
    return {"meta": (agents, int(tables.memories.max()), options), "low": (agents, cells, len(ACTIONS), options)}


LEARNER = Learner(
    name="hil",
    summary="all agents learn at once, choosing among options (hierarchical independent learners)",
    settings=HilSettings,
    block=HilBlock,
    player=HilPlayer,
    shapes=_shapes,
    looks_at=LooksAt.OPTION,
    check=_check_options,
    apart=kernels.train_hierarchically,
    tests_apart=kernels.play_hierarchically,
    side_by_side=2,
)
