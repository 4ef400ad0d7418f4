"""CQRM: centralised q-learning of all agents as one, by the team's reward machine."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError, shown_count
from hocket.learn.cqrm import CqrmSettings, kernel, list_shapes
from hocket.learn.episodes import edges_of, pick_fields, unsigned
from hocket.learn.kernels.actions import PlayParameters
from hocket.learn.kernels.arrays import Doubles, Ints, Keys, Shorts, UInts
from hocket.learn.learner import Arrays, Player
from hocket.learn.testing import Recording
from hocket.random import MASK, TRAINING, stream_key, threshold
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables, draw_starts, settle


class CqrmBlock:
    """All agents as one, with the team's machine."""

    def __init__(self, tables: Tables, settings: CqrmSettings, seeds: Sequence[int], threads: int = 1) -> None:
        check_size(tables, settings)
        shape = list_shapes(tables)["q"]
        memory = [np.zeros(prod(shape) + kernel.WIDTH, np.float32) for _ in seeds]  # kernels may read past the end
        self.q = [numbers[: prod(shape)].reshape(shape) for numbers in memory]
        self.tables = joint_tables(tables)
        self.workspace = kernel.make_workspace(len(tables.start), len(tables.body), len(self.tables.dynamics), shape[2])
        self.rule = settings.rule
        each = zip(self.q, seeds, strict=True)
        self.trainings = [kernel.CqrmTraining(q, *begin_training(tables, seed)) for q, seed in each]

    def train(self, begin: int, steps: int) -> None:
        for training in self.trainings:
            kernel.train_jointly(training, self.tables, self.rule, self.workspace, begin, steps)

    def arrays(self, index: int) -> Arrays:
        return {"q": self.q[index]}


class CqrmPlayer(Player):
    """Plays a q-function over the cells of all agents and the team machine's state."""

    def __init__(self, tables: Tables, temperature: float, max_episode_steps: int) -> None:
        agents = len(tables.start)
        self.world = joint_tables(tables)
        self.workspace = kernel.make_workspace(agents, len(tables.body), len(self.world.dynamics))
        self.beta, self.max_episode_steps = np.float32(1 / temperature), max_episode_steps
        self.finish, self.event_time = self.workspace.finish, np.zeros(0, np.int64)
        self.returns = self.workspace.earned[: agents * tables.has_rewards]

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        how = PlayParameters(self.beta, greedy, seed, self.max_episode_steps)
        return kernel.play_jointly(arrays["q"], self.world, self.workspace, how, number, record)


def begin_training(tables: Tables, seed: int) -> tuple[Ints, Keys]:
    """Choose the start of the first episode; also return the keys of the streams, one for two agents."""
    agents = range(len(tables.start))
    keys = [stream_key(TRAINING, seed, pair) for pair in range((len(agents) + 1) // 2)]
    starts = draw_starts(tables, np.array([keys[agent // 2] + agent % 2 & MASK for agent in agents], np.uint64))
    return np.array([*starts.tolist(), tables.team_initial, 0]), np.array(keys, np.uint64)


def check_size(tables: Tables, settings: CqrmSettings) -> None:
    """Require that the team machine's states are listed, and that memory can hold the q-function."""
    agents, cells = tables.offset.shape
    states = len(tables.team_final)
    needed = cells**agents * len(ACTIONS) ** agents * max(states, 1) * 4
    who = f"{agents} agents as one" if agents > 1 else "one agent"
    limit = f"the limit is {shown_count(settings.most_memory)} (most_memory)"
    if states == 0:
        size = f"{shown_count(needed)} bytes a seed for {who} in each state of the team machine"
        raise SettingsError(f"cqrm would need {size}, of which there are too many to list; {limit}")
    if needed > settings.most_memory:
        raise SettingsError(f"cqrm would need {shown_count(needed)} bytes a seed for {who}; {limit}")
    different, _ = joint_dynamics(tables.dynamics, tables.team_class)
    if (workspace := 4 * len(different) * (states + kernel.WIDTH)) > settings.most_memory:  # but for a few bytes
        limit = f"the limit is {settings.most_memory:,}"
        raise SettingsError(f"cqrm would need {workspace:,} bytes for {len(different):,} joint dynamics; {limit}")


def joint_dynamics(dynamics: Shorts, team_class: Shorts) -> tuple[NDArray[np.uint16], UInts]:
    """List the combinations of agents' dynamics that occur, [B, N], and the combination of each team state, [V]."""
    each = dynamics[np.arange(len(dynamics))[:, None], team_class].T
    different, combination = np.unique(each, axis=0, return_inverse=True)
    return different.astype(np.uint16), combination.ravel().astype(np.uint32)


def joint_tables(tables: Tables) -> kernel.JointTables:
    """Make the tables of agents as one."""
    agents = np.arange(len(tables.start))[:, None]
    dynamics, combination = joint_dynamics(tables.dynamics, tables.team_class)
    settled, reward = _settled(tables)
    completes = tables.team_final[settled] & ~tables.team_final
    return pick_fields(
        kernel.JointTables,
        tables,
        next_cell=unsigned(tables.next_cell[tables.world]),
        dynamics=dynamics,
        combination=combination,
        kind=unsigned(tables.kind),
        offset=tables.offset.astype(np.uint32),
        edges=edges_of(tables),
        settled=settled,
        reward=reward.sum(axis=0).astype(np.float32) if tables.has_rewards else completes.astype(np.float32),
        agent_reward=reward,
        is_final=tables.team_final,
        local_state=np.ascontiguousarray(tables.team_class),
        is_local_final=np.ascontiguousarray(tables.is_final[agents, tables.team_class]),
        initial=tables.team_initial,
        slip_limit=threshold(tables.slip),
        kinds=tables.event.shape[2],
        agents=tuple(range(len(tables.start))),
    )


def _settled(tables: Tables) -> tuple[UInts, Doubles]:
    """Tabulate the team state after a step and what each agent is paid, where a task has rewards. A final state leads
    to itself and pays nothing: [H ** N, V], [N, H ** N, V]."""
    agents, states = len(tables.start), len(tables.team_final)
    shape = (*(tables.event.shape[2],) * agents, states)
    *kinds, team = np.unravel_index(np.arange(prod(shape)), shape)
    settled = settle(tables, np.stack(kinds, axis=1), tables.team_class[:, team].T, team)
    following = np.where(tables.team_final[team], team, settled.team).astype(np.uint32).reshape(-1, states)
    if not tables.has_rewards:
        return following, np.zeros((agents, 1, 1))
    return following, np.where(tables.team_final[team], 0.0, settled.reward.T).reshape(agents, -1, states)
