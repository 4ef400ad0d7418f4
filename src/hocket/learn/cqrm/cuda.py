"""Centralised q-learning of all agents as one on the device: a thread for each run, and for each test episode."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.cqrm import LEARNER
from hocket.learn.cqrm.block import begin_training, joint_tables
from hocket.learn.cqrm.kernel import (
    LANES,
    WIDTH,
    CqrmParameters,
    CqrmTraining,
    JointTables,
    JointWorkspace,
    make_workspace,
    play_jointly,
    train_jointly,
)
from hocket.learn.cuda.block import DeviceBlock, DeviceJob
from hocket.learn.cuda.device import cuda, device_kernel, fetched, launch, placed, zeros
from hocket.learn.cuda.parameters import DeviceParameters, Row, Runs, play_at, schedule_at
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import Floats, Index, Ints
from hocket.learn.learner import Arrays
from hocket.learn.testing import Recording, TestResults
from hocket.task.tables import Tables


class DeviceWorkspaces(NamedTuple):
    """Room for what threads work out within a step; see `JointWorkspace`."""

    value: Floats  # [threads, ROOM]
    weight: Floats  # [threads, ROOM]
    best: Floats  # [threads, B, V and a few more]
    move: Ints  # [threads, 2, N]
    end: Ints  # [threads, 2, B]
    cell: Ints  # [threads, N]
    held: Ints  # [threads, N]
    claim: Ints  # [threads, S], if agents have bodies
    place: Ints  # [threads, N] the agents' cells in a test
    finish: Ints  # [threads, N] when each agent was first done in a test
    earned: NDArray[np.float64]  # [threads, N] what each agent was paid in a test


class JointTeams(NamedTuple):
    """Teams of agents that learn as one; all that is needed to go on. See `CqrmTraining`."""

    q: Floats  # [R, S ** N, A ** N, V]; a few more numbers may be read past its end
    place: Ints  # [R, N + 2] the agents' cells, the team state, the steps of the current episode
    key: Row  # [R, N / 2] uint64


@inlined
def workspace_at(workspaces: DeviceWorkspaces, thread: Index) -> JointWorkspace:
    """Give a thread its room."""
    value, weight, best = workspaces.value[thread], workspaces.weight[thread], workspaces.best[thread]
    apart = (workspaces.cell[thread], workspaces.held[thread], workspaces.claim[thread])
    return JointWorkspace(value, weight, best, workspaces.move[thread], workspaces.end[thread], *apart)


@inlined
def train_team(
    run: Index,
    teams: JointTeams,
    tables: JointTables,
    parameters: DeviceParameters,
    runs: Runs,
    workspaces: DeviceWorkspaces,
    begin: int,
    steps: int,
) -> None:
    """Train a run's team, if there is one."""
    if run < len(teams.key):
        chosen = runs.variant[run]
        schedule, limit = schedule_at(parameters, chosen), parameters.max_episode_steps[chosen]
        own_parameters = CqrmParameters(schedule, parameters.discount[chosen], limit, parameters.switch[chosen])
        workspace = workspace_at(workspaces, run)
        train_jointly(
            CqrmTraining(teams.q[run], teams.place[run], teams.key[run]),
            tables,
            own_parameters,
            workspace,
            begin,
            steps,
        )


@device_kernel
def train_teams(
    teams: JointTeams,
    tables: JointTables,
    parameters: DeviceParameters,
    runs: Runs,
    workspaces: DeviceWorkspaces,
    begin: int,
    steps: int,
) -> None:
    """Train teams of agents as one from step `begin` on."""
    train_team(cuda.grid(1), teams, tables, parameters, runs, workspaces, begin, steps)


@inlined
def play_team(
    thread: Index,
    teams: JointTeams,
    tables: JointTables,
    parameters: DeviceParameters,
    runs: Runs,
    workspaces: DeviceWorkspaces,
    number: int,
    episodes: int,
    begin: int,
    played: TestResults,
) -> None:
    """Play a thread's test episode, if there is one; a run's first has a number. Greedy ones come last."""
    index = begin + thread
    if thread < len(workspaces.value) and index < len(played.steps):
        run, finish = index // episodes % len(runs.seed), workspaces.finish[thread]
        earned = workspaces.earned[thread]
        workspace = workspace_at(workspaces, thread)
        play = play_at(parameters, runs, run, index >= len(runs.seed) * episodes)
        record = Recording(played.finish[:0], tables.own_state[:0], tables.own_state[:0])  # of no steps
        played.steps[index] = play_jointly(
            teams.q[run],
            tables,
            workspace,
            workspaces.place[thread],
            finish,
            earned,
            play,
            number + index % episodes,
            record,
        )
        for agent in range(len(finish)):
            played.finish[index, agent] = finish[agent]
            played.returns[index, agent] = earned[agent]


@device_kernel
def play_teams(
    teams: JointTeams,
    tables: JointTables,
    parameters: DeviceParameters,
    runs: Runs,
    workspaces: DeviceWorkspaces,
    number: int,
    episodes: int,
    begin: int,
    played: TestResults,
) -> None:
    """Play the test episodes from `begin` on, as many as there are rooms."""
    play_team(cuda.grid(1), teams, tables, parameters, runs, workspaces, number, episodes, begin, played)


class CqrmDeviceBlock(DeviceBlock):
    """Teams of agents that learn as one."""

    switch, keeps_events = "counterfactual", False

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        super().__init__(tables, jobs)
        shape, count = LEARNER.shapes(tables)["q"], len(jobs)
        size = count * prod(shape)
        q = zeros((size + WIDTH,))[:size].reshape(count, *shape)
        host = joint_tables(tables)
        self.world = placed(host)
        agents = len(tables.start)
        place, keys = (np.stack(part) for part in zip(*(begin_training(tables, job.seed) for job in jobs), strict=True))
        self.teams = JointTeams(q, placed(place), placed(keys))
        workspace = make_workspace(agents, max(1, len(tables.body)), len(host.dynamics), shape[2])
        arrays: list[Any] = [placed(np.stack([array] * count)) for array in workspace]
        kept = [zeros((count, agents), kind) for kind in (np.int64, np.int64, np.float64)]
        self.workspaces = DeviceWorkspaces(*arrays, *kept)

    @classmethod
    def size(cls, tables: Tables) -> int:
        shape = LEARNER.shapes(tables)["q"]
        return 4 * prod(shape) + 8 * (shape[1] + LANES) + (4 * (shape[2] + WIDTH) + 16) * shape[2] + 128

    def train(self, begin: int, steps: int) -> None:
        about = (self.world, self.parameters, self.runs, self.workspaces, begin, steps)
        launch(train_teams, len(self.seeds), self.teams, *about)

    def _play(self, number: int, episodes: int, begin: int, played: TestResults) -> int:
        how = (self.parameters, self.runs, self.workspaces, number, episodes, begin, played)
        launch(play_teams, len(self.seeds), self.teams, self.world, *how)
        return len(self.seeds)

    def arrays(self, index: int) -> Arrays:
        return {"q": fetched(self.teams.q[index])}
