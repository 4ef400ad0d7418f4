"""Many copies of a whole team at once, compiled: arrays of everyone's actions in, arrays of what comes of them out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hocket.adapters.individual import EPISODE_STEPS, Info
from hocket.adapters.observations import KINDS, Observation
from hocket.adapters.vector import Bools, check_actions, check_options, give_seeds
from hocket.deprecation import renamed_arguments
from hocket.errors import require_known
from hocket.inputs import whole
from hocket.learn.episodes import require_settled, team_state, team_tables
from hocket.learn.kernels.teams import Clock, Earned, begin_teams, make_teams, step_teams
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from hocket.task.task import Task

Ints = NDArray[np.int64]


@renamed_arguments(episode_steps="max_episode_steps")
def team_vector_env(
    task: Task | str | Path, num_envs: int = 1, *, observation: str = "onehot", max_episode_steps: int = EPISODE_STEPS
) -> TeamEnvs:
    """Make a Gymnasium vector environment of so many copies of a task's whole team (see `team_env`).

    Actions are an array [copies, agents], and so are observations; a reward and an end is the whole team's. Copy i
    equals `team_env` with seed s + i, or with the i-th of the seeds that `reset` is given. A copy whose episode has
    ended begins the next one in the following step, whatever its actions.
    """
    copies, steps = whole(num_envs, "num_envs", 1), whole(max_episode_steps, "max_episode_steps", 1)
    return TeamEnvs(as_task(task), copies, observation, steps)


class TeamEnvs(VectorEnv[Observation, NDArray[Any], NDArray[Any]]):
    """Copies of a team, side by side. Agents stand in the order of `agents`, events in that of `events`."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(self, task: Task, num_envs: int, observation: str, max_episode_steps: int) -> None:
        require_known(observation, KINDS, "observation")
        self.task, self.num_envs, self.observation = task, num_envs, observation
        self.max_episode_steps = max_episode_steps
        self.agents, self.events = tuple(task.agents), tuple(task.events)
        tables = compile_task(task)
        self.cells, self.states = tables.cells, tables.states.astype(np.int64)  # of each agent's machine: [N]
        self.single_observation_space = self._space()
        self.single_action_space = spaces.MultiDiscrete([len(ACTIONS)] * len(self.agents))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._world, self._room = team_tables(tables), team_state(tables)
        self._teams = make_teams(num_envs, len(self.agents), len(self.events))
        self._clock = Clock(np.zeros(num_envs, np.int64), np.zeros(num_envs, np.bool_))
        self._is_seeded = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """Begin the next episode of every copy, or with a seed its first one."""
        check_options(options)
        super().reset(seed=seed if isinstance(seed, int) else None)
        give_seeds(seed, self._teams.seed, self._teams.number, None if self._is_seeded else self.np_random)
        self._is_seeded = True
        begin_teams(self._teams, self._clock, self._room, self._world)
        return self._observe(), self._tell()

    def step(self, actions: NDArray[Any]) -> tuple[Observation, NDArray[np.float64], Bools, Bools, Info]:
        """Let every copy act, but for those that begin again."""
        if not self._is_seeded:
            raise ResetNeeded("an episode begins with reset()")
        chosen = check_actions(actions, self._teams.cell.shape).astype(np.int16)
        copies = self.num_envs
        earned = Earned(np.empty(copies), np.empty(copies, np.bool_), np.empty(copies, np.bool_))
        require_settled(
            step_teams(chosen, self._teams, self._clock, self._room, self._world, self.max_episode_steps, earned)
        )
        return self._observe(), *earned, self._tell()

    def state(self) -> Ints:
        """Where everyone is, and then everyone's machine state: [copies, 2 N]."""
        return np.concatenate([self._teams.cell, self._teams.state], axis=1)

    def _space(self) -> Space[Any]:
        """Say what a team sees: all that its agents see."""
        cells = np.full(len(self.agents), self.cells)
        if self.observation == "index":
            return spaces.MultiDiscrete(cells * self.states)
        if self.observation == "dict":
            return spaces.Dict(world=spaces.MultiDiscrete(cells), machine=spaces.MultiDiscrete(self.states))
        return spaces.Box(0.0, 1.0, (len(self.agents), self.cells + int(self.states.max())), np.float32)

    def _observe(self) -> Observation:
        cell, state = self._teams.cell, self._teams.state
        if self.observation == "dict":
            return {"world": cell.copy(), "machine": state.copy()}
        if self.observation == "index":
            return cell * self.states + state
        seen = np.zeros((cell.size, self.cells + int(self.states.max())), np.float32)
        rows = np.arange(cell.size)
        seen[rows, cell.ravel()] = 1
        seen[rows, state.ravel() + self.cells] = 1
        return seen.reshape(*cell.shape, seen.shape[1])

    def _tell(self) -> Info:
        """Say where everyone is and what has happened, in Gymnasium's way: for each key also which copies have it."""
        told: dict[str, Any] = {
            "cell": self._teams.cell.copy(),
            "machine": self._teams.state.copy(),
            "happened": self._teams.event_time >= 0,
        }
        return told | {f"_{key}": np.ones(self.num_envs, np.bool_) for key in told}
