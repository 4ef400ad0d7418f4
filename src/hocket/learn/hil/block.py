"""Hierarchical independent learning: agents choose among options by memory, and learn how to carry each one out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hocket.errors import SettingsError
from hocket.learn.episodes import TeamPlayer, require_settled, team_state, team_tables
from hocket.learn.hil import HilSettings, kernel, list_shapes
from hocket.learn.kernels.team import NEVER_SETTLED
from hocket.learn.learner import Arrays
from hocket.learn.testing import Recording
from hocket.task.tables import Tables


class HilBlock:
    """Agents with options, which learn at once in the team world."""

    def __init__(self, tables: Tables, settings: HilSettings, seeds: Sequence[int], threads: int = 1) -> None:
        shapes = list_shapes(tables)
        self.meta = np.zeros((len(seeds), *shapes["meta"]), np.float32)
        self.low = np.zeros((len(seeds), *shapes["low"]), np.float32)
        self.tables, self.rule = team_tables(tables), settings.rule
        before = np.zeros((len(tables.start), 2), np.int64)
        options = [kernel.Options(meta, low, *_room(tables)) for meta, low in zip(self.meta, self.low, strict=True)]
        self.trainings = [
            kernel.HilTraining(team_state(tables, seed), chosen, before, np.full(1, -1, np.int64))
            for chosen, seed in zip(options, seeds, strict=True)
        ]

    def train(self, begin: int, steps: int) -> None:
        for training in self.trainings:
            require_settled(kernel.train_hierarchically(training, self.tables, self.rule, begin, steps))

    def arrays(self, index: int) -> Arrays:
        return {"meta": self.meta[index], "low": self.low[index]}


class HilPlayer(TeamPlayer):
    """Plays a meta-policy over options and a q-function for each of them."""

    def __init__(self, tables: Tables, temperature: float, max_episode_steps: int) -> None:
        super().__init__(tables, temperature, max_episode_steps)
        self.options = _room(tables)

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        how, options = self.how(seed, greedy), kernel.Options(arrays["meta"], arrays["low"], *self.options)
        steps = kernel.play_hierarchically(options, self.world, self.team, how, number, record)
        require_settled(steps != NEVER_SETTLED)
        return steps


def _room(tables: Tables) -> tuple[Any, ...]:
    """List the options, with room for the agents' current ones: all of `kernel.Options` but for what is learnt."""
    check_options(tables)
    chosen = np.full(len(tables.start), -1, np.int64)
    return (
        tables.option_target,
        tables.option_bit,
        chosen,
        np.zeros_like(chosen),
        np.zeros(len(chosen)),
        np.zeros_like(chosen),
        np.zeros(tables.option_bit.shape[1], np.float32),
    )


def check_options(tables: Tables, _: HilSettings | None = None) -> None:
    """Require options of every agent."""
    if tables.option_bit.shape[1] == 0 or (tables.option_bit[:, 0] == -2).any():
        raise SettingsError("hil needs a task in which every agent has options")
