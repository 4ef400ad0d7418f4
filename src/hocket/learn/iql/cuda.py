"""Independent q-learning on the device: a thread for each team."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from hocket.learn.cuda.block import Job, TeamBlock
from hocket.learn.cuda.device import cuda, device_kernel, fetched, launch, placed, zeros
from hocket.learn.cuda.episodes import Teams, make_teams, team_at, team_bytes
from hocket.learn.cuda.rules import Rules, Runs, schedule_at
from hocket.learn.episodes import require_settled
from hocket.learn.iql import LEARNER
from hocket.learn.iql.kernel import Learning, Rule, train_independently
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import Bools, Floats, Index, Ints
from hocket.learn.kernels.team import TeamTables
from hocket.learn.learner import Arrays
from hocket.random import TRAINING, stream_key
from hocket.task.tables import Tables


class Learners(NamedTuple):
    """Teams that learn; all that is needed to go on beside where they are. See `Learning`."""

    q: Floats  # [R, N, S, A, M]
    before: Ints  # [N, 3, R] room for each agent's cell, memory and action
    clock: Ints  # [1, R] steps of the current episode; -1: not begun
    settled: Bools  # [R] whether every step has settled


@inlined
def train_team(
    run: Index,
    learners: Learners,
    teams: Teams,
    tables: TeamTables,
    rules: Rules,
    runs: Runs,
    begin: int,
    steps: int,
) -> None:
    """Train a run's team, if there is one, unless a step of it has not settled before."""
    if run < len(learners.settled) and learners.settled[run]:
        chosen, team = runs.variant[run], team_at(teams, run)
        schedule, limit = schedule_at(rules, chosen), rules.max_episode_steps[chosen]
        rule = Rule(schedule, rules.discount[chosen], limit, rules.switch[chosen])
        learning = Learning(learners.q[run], team, learners.before[:, :, run], learners.clock[:, run])
        learners.settled[run] = train_independently(learning, tables, rule, begin, steps)


@device_kernel
def train_independent_teams(
    learners: Learners,
    teams: Teams,  # one for each run
    tables: TeamTables,
    rules: Rules,
    runs: Runs,
    begin: int,
    steps: int,
) -> None:
    """Train teams of independent learners from step `begin` on."""
    train_team(cuda.grid(1), learners, teams, tables, rules, runs, begin, steps)


class IqlDeviceBlock(TeamBlock):
    """Teams of independent learners."""

    switch, by_memory = "bootstrap_past_end", True

    def __init__(self, tables: Tables, jobs: Sequence[Job]) -> None:
        super().__init__(tables, jobs)
        shape, agents, count = LEARNER.shapes(tables)["q"], len(tables.start), len(jobs)
        self.q = zeros((count, *shape))
        own, seeds = np.arange(agents, dtype=np.uint64)[:, None], self.seeds.astype(np.uint64)[None]
        keys = stream_key(TRAINING, np.repeat(seeds, agents, axis=0), np.repeat(own, count, axis=1))
        nobody = placed(np.full((agents, count), -1, np.int64))
        self.training = make_teams(agents, len(tables.knowers), count)._replace(key=placed(keys), following=nobody)
        clock, settled = np.full((1, count), -1, np.int64), np.ones(count, np.bool_)
        self.learners = Learners(self.q, zeros((agents, 3, count), np.int64), placed(clock), placed(settled))

    @classmethod
    def size(cls, tables: Tables) -> int:
        shape, agents = LEARNER.shapes(tables)["q"], len(tables.start)
        return 4 * prod(shape) + team_bytes(agents, len(tables.knowers)) + 24 * agents + 64

    def train(self, begin: int, steps: int) -> None:
        about = (self.world, self.rules, self.runs, begin, steps)
        launch(train_independent_teams, len(self.seeds), self.learners, self.training, *about)
        require_settled(bool(fetched(self.learners.settled).all()))

    def arrays(self, index: int) -> Arrays:
        return {"q": fetched(self.q[index])}
