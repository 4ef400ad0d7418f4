"""Independent q-learning: all agents learn in the team world, each by its cell and memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hocket.learn.episodes import require_settled, team_tables, training_teams
from hocket.learn.iql import IqlSettings, kernel, list_shapes
from hocket.learn.kernels.team import TeamState
from hocket.learn.learner import Arrays
from hocket.task.tables import Tables


class IqlBlock:
    """The teams of all seeds."""

    def __init__(self, tables: Tables, settings: IqlSettings, seeds: Sequence[int], threads: int = 1) -> None:
        shape = list_shapes(tables)["q"]
        self.q = np.zeros((len(seeds), *shape), np.float32)
        self.tables, self.rule = team_tables(tables), settings.rule
        teams, before = training_teams(tables, seeds), np.zeros((shape[0], 3), np.int64)
        states = (TeamState._make((*team, teams.workspace)) for team in zip(*teams[:-1], strict=True))
        each = zip(self.q, states, np.full((len(seeds), 1), -1, np.int64), strict=True)
        self.trainings = [kernel.IqlTraining(q, team, before, clock) for q, team, clock in each]

    def train(self, begin: int, steps: int) -> None:
        for training in self.trainings:
            require_settled(kernel.train_independently(training, self.tables, self.rule, begin, steps))

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[index]}
