"""Hierarchical independent learning: agents choose among options by memory, and learn a policy for each option."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hocket.errors import SettingsError
from hocket.learn.episodes import TeamPlayer, require_settled, team_tables, training_teams
from hocket.learn.hil import HilSettings, kernel, list_shapes
from hocket.learn.kernels.arrays import Floats
from hocket.learn.kernels.teams import EpisodeRound, make_choices
from hocket.learn.learner import Arrays
from hocket.task.tables import Tables


class HilBlock:
    """The teams of all seeds."""

    def __init__(self, tables: Tables, settings: HilSettings, seeds: Sequence[int], threads: int = 1) -> None:
        shapes, count, agents = list_shapes(tables), len(seeds), len(tables.start)
        self.meta, self.low = (np.zeros((count, *shapes[name]), np.float32) for name in ("meta", "low"))
        self.tables, self.rule = team_tables(tables), settings.rule
        options, teams = make_options(tables, self.meta, self.low, count), training_teams(tables, seeds)
        before, clock = np.zeros(agents, np.int64), np.full(count, -1, np.int64)
        self.training = kernel.HilTraining(options, teams, make_choices(count, agents), before, clock)

    def train(self, begin: int, steps: int) -> None:
        require_settled(kernel.train_hierarchically(self.training, self.tables, self.rule, begin, steps))

    def arrays(self, index: int) -> Arrays:
        return {"meta": self.meta[index], "low": self.low[index]}


class HilPlayer(TeamPlayer):
    """Plays a meta-policy over options and a q-function of each option."""

    arrays = ("meta", "low")
    is_stacked = True

    def launch(self, learnt: Sequence[Floats], episodes: EpisodeRound) -> None:
        meta, low = learnt
        kernel.play_hierarchically(make_options(self.tables, meta, low, self.copies), episodes)


def make_options(tables: Tables, meta: Floats, low: Floats, copies: int) -> kernel.Options:
    """Make the options of some copies of the team, by what seeds have learnt of them."""
    check_options(tables)
    agents, options = tables.option_bit.shape
    current, chosen_in, age = np.full((3, copies, agents), -1, np.int64)
    earned, weight = np.zeros((copies, agents)), np.zeros(options, np.float32)
    return kernel.Options(meta, low, tables.option_target, tables.option_bit, current, chosen_in, earned, age, weight)


def check_options(tables: Tables, _: HilSettings | None = None) -> None:
    """Require options of every agent."""
    if tables.option_bit.shape[1] == 0 or (tables.option_bit[:, 0] == -2).any():
        raise SettingsError("hil needs a task in which every agent has options")
