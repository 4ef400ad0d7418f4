"""A whole team as a vector environment: a compiled step of many copies at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from hocket.adapters.individual import EPISODE_STEPS, CopiesEnv, Info, Ints
from hocket.adapters.observations import KINDS, Observation, ObservationEncoder
from hocket.errors import require_known
from hocket.lazy import renamed_arguments
from hocket.learn.episodes import make_teams, require_settled, team_tables
from hocket.learn.kernels.teams import Clock, Earned, begin_teams, step_teams
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS
from hocket.task.memory import with_team_machine
from hocket.task.tables import Bools, compile_task
from hocket.task.task import Task


@renamed_arguments(episode_steps="max_episode_steps")
def team_vector_env(
    task: Task | str | Path, num_envs: int = 1, *, observation: str = "onehot", max_episode_steps: int = EPISODE_STEPS
) -> TeamEnvs:
    """Make a Gymnasium vector environment of copies of a task's whole team (see `team_env`).

    Actions are an array [copies, agents], and so are observations; rewards and ends are those of the team. Copy i
    equals `team_env` with seed s + i, or with the i-th of the seeds that `reset` is given. A copy whose episode has
    ended begins the next one in the following step, whatever its actions.
    """
    return TeamEnvs(with_team_machine(as_task(task)), num_envs, observation, max_episode_steps)


class TeamEnvs(CopiesEnv):
    """Copies of a team. Agents are in the order of `agents`, events in that of `events`."""

    def __init__(self, task: Task, num_envs: int, observation: str, max_episode_steps: int) -> None:
        require_known(observation, KINDS, "observation")
        self.observation, self.agents, self.events = observation, tuple(task.agents), tuple(task.events)
        tables = compile_task(task)
        self.cells, self.states = tables.cells, tables.states.astype(np.int64)  # of each agent's machine: [N]
        acts = spaces.MultiDiscrete([len(ACTIONS)] * len(self.agents))
        super().__init__(task, num_envs, self._space(), acts, max_episode_steps)
        self._encoder = ObservationEncoder(spaces.Discrete(self.cells), int(self.states.max()), observation)
        self._tables, self._teams = team_tables(tables), make_teams(tables, num_envs)
        self._seeds, self._numbers = self._teams.seed, self._teams.number
        self._clock = Clock(np.zeros(num_envs, np.int64), np.zeros(num_envs, np.bool_))

    def _begin_all(self) -> tuple[Observation, Info]:
        begin_teams(self._teams, self._clock, self._tables)
        return self._observe(), self._info()

    def step(self, actions: NDArray[Any]) -> tuple[Observation, NDArray[np.float64], Bools, Bools, Info]:
        """Let every copy act, but for those that begin again."""
        chosen, copies = self._check(actions).astype(np.int16), self.num_envs
        earned = Earned(np.empty(copies), np.empty(copies, np.bool_), np.empty(copies, np.bool_))
        require_settled(step_teams(chosen, self._teams, self._clock, self._tables, self.max_episode_steps, earned))
        return self._observe(), *earned, self._info()

    def state(self) -> Ints:
        """Return the cells of all agents, and then the states of their machines: [copies, 2 N]."""
        return np.concatenate([self._teams.copies.cell, self._teams.copies.state], axis=1)

    def _space(self) -> Space[Any]:
        """Make the space of a team's observations: those of all its agents."""
        cells = np.full(len(self.agents), self.cells)
        if self.observation == "index":
            return spaces.MultiDiscrete(cells * self.states)
        if self.observation == "dict":
            return spaces.Dict(world=spaces.MultiDiscrete(cells), machine=spaces.MultiDiscrete(self.states))
        return spaces.Box(0.0, 1.0, (len(self.agents), self.cells + int(self.states.max())), np.float32)

    def _observe(self) -> Observation:
        cell, state = self._teams.copies.cell, self._teams.copies.state
        if self.observation == "index":
            return cell * self.states + state
        return self._encoder.encode_each(cell, state)

    def _info(self) -> Info:
        copies = self._teams.copies
        info = {"cell": copies.cell.copy(), "machine": copies.state.copy(), "happened": copies.event_time >= 0}
        return self._flagged(info)
