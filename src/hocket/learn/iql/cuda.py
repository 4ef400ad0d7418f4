"""Independent q-learning on a GPU: a thread for each team."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from hocket.learn.cuda.block import DeviceJob, Runs, TeamBlock, make_teams, rule_of, team_bytes
from hocket.learn.cuda.device import cuda, device_kernel, fetched, launch, placed, zeros
from hocket.learn.episodes import require_settled, training_keys
from hocket.learn.iql import LEARNER
from hocket.learn.iql.kernel import IqlTraining, train_independently
from hocket.learn.kernels.arrays import Bools, Floats, Index, Ints
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.team import TeamState, TeamTables
from hocket.learn.kernels.vectors import column
from hocket.task.tables import Tables


class IqlRuns(NamedTuple):
    """The teams of all runs; see `IqlTraining`."""

    q: Floats  # [R, N, S, A, M]
    before: Ints  # [N, 3, R] buffer for each agent's cell, memory and action
    clock: Ints  # [1, R] steps of the current episode; -1: not begun
    settled: Bools  # [R] whether every step has settled
    teams: TeamState  # with an axis more, for runs
    tables: TeamTables
    runs: Runs


@inlined
def train_team(run: Index, about: IqlRuns, begin: int, steps: int) -> None:
    """Train a run's team, if there is one, unless a step of it has not settled before."""
    if run < len(about.settled) and about.settled[run]:
        before, clock = about.before[:, :, run], about.clock[:, run]
        training = IqlTraining(about.q[run], column(about.teams, run), before, clock)
        about.settled[run] = train_independently(training, about.tables, rule_of(about.runs, run), begin, steps)


@device_kernel
def train_independent_teams(about: IqlRuns, begin: int, steps: int) -> None:
    """Train teams of independent learners from step `begin` on."""
    train_team(cuda.grid(1), about, begin, steps)


class IqlDeviceBlock(TeamBlock):
    """Teams of independent learners."""

    by_memory = True

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        super().__init__(tables, jobs)
        shape, agents, count = LEARNER.shapes(tables)["q"], len(tables.start), len(jobs)
        self.q = zeros((count, *shape))
        keys = np.ascontiguousarray(training_keys(self.seeds, agents).T)
        none, teams = placed(np.full((agents, count), -1, np.int64)), make_teams(tables, count)
        teams = teams._replace(key=placed(keys), workspace=teams.workspace._replace(following=none))
        clock, settled = placed(np.full((1, count), -1, np.int64)), placed(np.ones(count, np.bool_))
        before = zeros((agents, 3, count), np.int64)
        self.about = IqlRuns(self.q, before, clock, settled, teams, self.world, self.runs)

    @classmethod
    def size(cls, tables: Tables) -> int:
        shape, agents = LEARNER.shapes(tables)["q"], len(tables.start)
        return 4 * prod(shape) + team_bytes(tables) + 24 * agents + 64

    def train(self, begin: int, steps: int) -> None:
        launch(train_independent_teams, len(self.seeds), self.about, begin, steps)
        require_settled(bool(fetched(self.about.settled).all()))
