"""CQRM: centralised q-learning of two agents as one, by the team's reward machine."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError
from hocket.learn.cqrm import CqrmSettings, kernel, list_shapes
from hocket.learn.episodes import unsigned
from hocket.learn.kernels.team import PlayParameters
from hocket.learn.learner import Arrays, Player
from hocket.learn.testing import Recording
from hocket.random import TRAINING, stream_key, threshold
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables, settle


class CqrmBlock:
    """Two agents as one, with the team's machine."""

    def __init__(self, tables: Tables, settings: CqrmSettings, seeds: Sequence[int], threads: int = 1) -> None:
        check_size(tables, settings)
        shape = list_shapes(tables)["q"]
        self.q = [_zeros(shape) for _ in seeds]
        self.tables = joint_tables(tables)
        self.workspace = kernel.make_workspace(len(self.tables.dynamics), shape[2])
        self.parameters = kernel.CqrmParameters(
            settings.schedule, np.float32(settings.discount), settings.max_episode_steps, settings.counterfactual
        )
        start = [*tables.start.tolist(), tables.team_initial, 0]
        self.trainings = [
            kernel.CqrmTraining(
                q,
                np.array(start, np.int64),
                np.uint64(stream_key(TRAINING, seed, 0)),
            )
            for q, seed in zip(self.q, seeds, strict=True)
        ]

    def train(self, begin: int, steps: int) -> None:
        for training in self.trainings:
            kernel.train_jointly(training, self.tables, self.parameters, self.workspace, begin, steps)

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[index]}


class CqrmPlayer(Player):
    """Plays a q-function over the cells of two agents and the team machine's state."""

    def __init__(self, tables: Tables, temperature: float, max_episode_steps: int) -> None:
        self.world, self.workspace = joint_tables(tables), kernel.make_workspace()
        self.beta, self.max_episode_steps = np.float32(1 / temperature), max_episode_steps
        self.finish, self.event_time = np.zeros(2, np.int64), np.zeros(0, np.int64)

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        how = PlayParameters(self.beta, greedy, seed, self.max_episode_steps)
        return kernel.play_jointly(arrays["q"], self.world, self.workspace, self.finish, how, number, record)


def _zeros(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Make a q-function with a few more numbers past its end, which kernels may read and ignore."""
    size = prod(shape)
    return np.zeros(size + kernel.WIDTH, np.float32)[:size].reshape(shape)


def check_size(tables: Tables, settings: CqrmSettings) -> None:
    """Require two agents, and a team machine with all its states that leaves room for a q-function."""
    agents, cells = tables.kind.shape
    states = len(tables.team_final)
    needed = cells**agents * len(ACTIONS) ** agents * max(states, 1) * 4
    if agents != 2:
        raise SettingsError(f"cqrm trains two agents as one, got {agents}, which would need {needed:,} bytes a seed")
    if states == 0:
        raise SettingsError("cqrm needs the team machine with all its states, and this one is too large")
    if needed > settings.most_memory:
        raise SettingsError(f"cqrm would need {needed:,} bytes a seed; the limit is {settings.most_memory:,}")
    pairs, _ = dynamics_pairs(tables.dynamics, tables.team_class)
    if (workspace := kernel.workspace_bytes(len(pairs), states)) > settings.most_memory:
        limit = f"the limit is {settings.most_memory:,}"
        raise SettingsError(f"cqrm would need {workspace:,} bytes for {len(pairs):,} pairs of dynamics; {limit}")


def dynamics_pairs(
    dynamics: NDArray[np.int16], team_class: NDArray[np.int16]
) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    """List the pairs of two agents' dynamics that occur, and say which of them each team state has: [B, 2], [V]."""
    each = dynamics[np.arange(len(dynamics))[:, None], team_class].T
    pairs, pair = np.unique(each, axis=0, return_inverse=True)
    return pairs.astype(np.uint16), pair.ravel().astype(np.uint32)


def joint_tables(tables: Tables) -> kernel.JointTables:
    """Pick what two agents as one need."""
    agents = np.arange(len(tables.start))[:, None]
    dynamics, pair = dynamics_pairs(tables.dynamics, tables.team_class)
    return kernel.JointTables(
        unsigned(tables.next_cell[tables.world]),
        dynamics,
        pair,
        unsigned(tables.kind),
        np.ascontiguousarray(_settled(tables).transpose(1, 2, 0)),
        tables.team_final,
        np.ascontiguousarray(tables.team_class),
        np.ascontiguousarray(tables.is_final[agents, tables.team_class]),
        tables.start,
        tables.team_initial,
        threshold(tables.slip),
    )


def _settled(tables: Tables) -> NDArray[np.uint32]:
    """Tabulate the team state after a step; a final one leads to itself: [V, H, H]."""
    kinds = tables.event.shape[2]
    shape = (len(tables.team_final), kinds, kinds)
    team, one, other = np.unravel_index(np.arange(np.prod(shape)), shape)
    settled = settle(tables, np.stack((one, other), axis=1), tables.team_class[:, team].T, team).team
    return np.where(tables.team_final[team], team, settled).reshape(shape).astype(np.uint32)
