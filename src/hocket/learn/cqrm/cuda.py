"""Centralised q-learning on a GPU: a thread for each run, and for each test episode."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from hocket.learn.cqrm import LEARNER, kernel
from hocket.learn.cqrm.block import begin_training, joint_tables
from hocket.learn.cuda.block import DeviceBlock, DeviceJob, DeviceTests, Runs, rule_of, test_at
from hocket.learn.cuda.device import cuda, device_kernel, launch, placed, zeros
from hocket.learn.kernels.arrays import Index
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.vectors import row
from hocket.learn.testing import Recording
from hocket.task.tables import Tables


class CqrmRuns(NamedTuple):
    """Teams of agents that learn as one, one for each run."""

    teams: kernel.CqrmTraining  # with an axis more, for runs
    tables: kernel.JointTables
    runs: Runs
    workspaces: kernel.JointWorkspace  # likewise, for threads


@inlined
def train_team(run: Index, about: CqrmRuns, begin: int, steps: int) -> None:
    """Train a run's team, if there is one."""
    teams, tables, runs, workspaces = about
    if run < len(teams.key):
        kernel.train_jointly(row(teams, run), tables, rule_of(runs, run), row(workspaces, run), begin, steps)


@device_kernel
def train_teams(about: CqrmRuns, begin: int, steps: int) -> None:
    """Train teams of agents as one from step `begin` on."""
    train_team(cuda.grid(1), about, begin, steps)


@inlined
def play_team(thread: Index, about: CqrmRuns, tests: DeviceTests) -> None:
    """Play a thread's test episode, if there is one."""
    teams, tables, runs, workspaces = about
    index, played = tests.begin + thread, tests.played
    if thread < len(workspaces.value) and index < len(played.steps):
        run, play, number = test_at(runs, index, tests)
        workspace = row(workspaces, thread)
        record = Recording(played.finish[:0], tables.local_state[:0], tables.local_state[:0])  # of no steps
        played.steps[index] = kernel.play_jointly(teams.q[run], tables, workspace, play, number, record)
        for agent in range(len(workspace.finish)):
            played.finish[index, agent] = workspace.finish[agent]
            played.returns[index, agent] = workspace.earned[agent]


@device_kernel
def play_teams(about: CqrmRuns, tests: DeviceTests) -> None:
    """Play as many test episodes as there are workspaces."""
    play_team(cuda.grid(1), about, tests)


class CqrmDeviceBlock(DeviceBlock):
    """Teams of agents that learn as one."""

    keeps_events = False

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        super().__init__(tables, jobs)
        shape, count = LEARNER.shapes(tables)["q"], len(jobs)
        size = count * prod(shape)
        self.q = zeros((size + kernel.WIDTH,))[:size].reshape(count, *shape)
        host = joint_tables(tables)
        begun = zip(*(begin_training(tables, job.seed) for job in jobs), strict=True)
        teams = kernel.CqrmTraining(self.q, *(placed(np.stack(part)) for part in begun))
        workspace = kernel.make_workspace(len(tables.start), max(1, len(tables.body)), len(host.dynamics), shape[2])
        workspaces = kernel.JointWorkspace._make(placed(np.stack([array] * count)) for array in workspace)
        self.about = CqrmRuns(teams, placed(host), self.runs, workspaces)

    @classmethod
    def size(cls, tables: Tables) -> int:
        shape = LEARNER.shapes(tables)["q"]
        per_state = 4 * (shape[2] + kernel.WIDTH) + 16 + 8 * len(tables.start)
        return 4 * prod(shape) + 8 * (shape[1] + kernel.LANES) + per_state * shape[2] + 128

    def train(self, begin: int, steps: int) -> None:
        launch(train_teams, len(self.seeds), self.about, begin, steps)

    def _play(self, tests: DeviceTests) -> int:
        launch(play_teams, len(self.seeds), self.about, tests)
        return len(self.seeds)
