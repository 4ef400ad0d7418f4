"""A whole team as a PettingZoo environment: everyone moves at once and synchronises on shared events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from hocket.adapters.individual import EPISODE_STEPS, SEEDS, Info, check_action, check_steps
from hocket.adapters.observations import Observation, Sight, tell_events
from hocket.draw.pixels import MODES, Frames
from hocket.errors import TaskError
from hocket.random import MASK, TEAM, slip_draw, stream_key, threshold
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.tables import compile_task, settle
from hocket.task.task import Task

Ints = NDArray[np.int64]


def team_env(
    task: Task | str | Path,
    *,
    observation: str = "onehot",
    episode_steps: int = EPISODE_STEPS,
    render_mode: str | None = None,
) -> TeamEnv:
    """Make a PettingZoo environment (a ParallelEnv) of a task's whole team.

    Everyone is rewarded as the team is, and all end together: terminated when every agent's machine is final,
    truncated after `episode_steps`.
    """
    return TeamEnv(as_task(task), observation, episode_steps, render_mode)


parallel_env = team_env  # the name that PettingZoo's modules have for it


class TeamEnv(ParallelEnv):  # type: ignore[misc]  # PettingZoo says nothing of its types
    """A team at work. `reset(seed=s)` begins episode number 0 of a seed, the next reset number 1, and so on.

    Each equals `hocket.TeamEpisode(task, s, number)` under the same actions. `state()` is where everyone is and then in
    which state everyone's machine is.
    """

    metadata = {  # noqa: RUF012 (as PettingZoo declares it)
        "name": "hocket_team_v0", "render_modes": list(MODES), "render_fps": 8, "is_parallelizable": True,
    }  # fmt: skip

    def __init__(self, task: Task, observation: str, episode_steps: int, render_mode: str | None) -> None:
        self.task, self.machines, self.tables = task, task.machines, compile_task(task)
        self.possible_agents = list(task.agents)
        self.agents: list[str] = []
        self.episode_steps = check_steps(episode_steps)
        self.render_mode, self._frames = render_mode, Frames(task, render_mode)
        cells, sizes = task.grid.cells, self.tables.states.tolist()
        self.sights = {
            name: Sight(spaces.Discrete(cells), size, observation)
            for name, size in zip(self.possible_agents, sizes, strict=True)
        }
        self.observation_spaces = {name: sight.space for name, sight in self.sights.items()}
        self.action_spaces = {name: spaces.Discrete(len(ACTIONS)) for name in self.possible_agents}
        self.state_space = spaces.MultiDiscrete([cells] * len(sizes) + sizes)
        self.episode_seed: int | None = None  # of the episodes since it was given
        self.number = -1  # of the episode among those
        self.time = 0
        self.cell, self.own_state = self.tables.start.astype(np.int64), self.tables.initial.astype(np.int64)  # [N]
        self._keys = np.zeros(len(sizes), np.uint64)
        self._events = tuple(task.events)
        self._states = [tuple(machine.states) for machine in self.machines.values()]
        self._everyone = np.arange(len(sizes))

    def observation_space(self, agent: str) -> Space[Any]:
        """The space of what an agent sees."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """The space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Begin the next episode, or with a seed its first one."""
        if seed is not None or self.episode_seed is None:
            self.episode_seed = int(seeding.np_random()[0].integers(SEEDS)) if seed is None else seed
            self.number = -1
        self.number += 1
        seeds, numbers = (np.full(len(self._keys), part & MASK, np.uint64) for part in (self.episode_seed, self.number))
        self._keys = stream_key(TEAM, seeds, self._everyone.astype(np.uint64), numbers)
        self.agents, self.time = self.possible_agents[:], 0
        self.cell, self.own_state = self.tables.start.astype(np.int64), self.tables.initial.astype(np.int64)
        return self._observe(), self._tell([()] * len(self._keys), ())

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """Let all agents act at once."""
        if not self.agents:
            raise ResetNeeded("an episode begins with reset(), also after one has ended")
        self._move(self._choose(actions))
        proposed, events, reward = self._settle()
        self.time += 1
        terminated, truncated = self.is_done, self.time >= self.episode_steps
        if terminated or truncated:
            self.agents = []
        return (
            self._observe(),
            dict.fromkeys(self.possible_agents, reward),
            dict.fromkeys(self.possible_agents, terminated),
            dict.fromkeys(self.possible_agents, truncated),
            self._tell(proposed, events),
        )

    @property
    def is_done(self) -> bool:
        """Whether every agent's machine is final."""
        return bool(self.tables.is_final[self._everyone, self.own_state].all())

    @property
    def cells(self) -> dict[str, int]:
        """Where everyone is."""
        return dict(zip(self.possible_agents, self.cell.tolist(), strict=True))

    @property
    def where(self) -> dict[str, tuple[float, float]]:
        """Where on the map everyone is: across and down from its corner, in cells."""
        rows, columns = np.divmod(self.cell, self.task.grid.columns)
        points = zip((columns + 0.5).tolist(), (rows + 0.5).tolist(), strict=True)
        return dict(zip(self.possible_agents, points, strict=True))

    @property
    def states(self) -> dict[str, str]:
        """In which state everyone's machine is."""
        own = zip(self._states, self.own_state.tolist(), strict=True)
        return dict(zip(self.possible_agents, (names[state] for names, state in own), strict=True))

    def state(self) -> Ints:
        """Where everyone is, and then everyone's machine state: [2 N]."""
        return np.concatenate([self.cell, self.own_state])

    def render(self) -> str | NDArray[np.uint8] | None:
        """Draw where everyone is: as text, or as an array of pixels."""
        return self._frames.draw(self.cells, self.states, self.time)

    def _choose(self, actions: Mapping[str, int]) -> Ints:
        missing = [name for name in self.agents if name not in actions]
        if missing:
            raise TaskError(f"every agent needs an action, got none for {missing[0]}", key="actions")
        return np.array([check_action(actions[name]) for name in self.agents])

    def _move(self, action: Ints) -> None:
        """Move everyone."""
        slip = slip_draw(self._keys, np.full(len(action), self.time, np.uint64))
        outcome = slip_outcome(slip, threshold(self.tables.slip))
        dynamics = self.tables.dynamics[self._everyone, self.own_state]
        self.cell = self.tables.next_cell[self._everyone, dynamics, self.cell, action, outcome].astype(np.int64)

    def _settle(self) -> tuple[list[tuple[int, ...]], tuple[int, ...], float]:
        """Let events happen; return what everyone proposed, what has happened, and what the team's machine pays."""
        was_done, kind = self.is_done, self.tables.kind[self._everyone, self.cell]
        proposed = self.tables.event[self._everyone, self.own_state, kind].tolist()
        settled = settle(self.tables, kind[None], self.own_state[None])
        self.own_state = settled.state[0]
        reward = float(self.is_done and not was_done)
        if self.task.is_single_agent:  # only then may the machine reward more than completion
            reward = float(settled.reward[0, 0])
        own = [tuple(event for event in row if event >= 0) for row in proposed]
        return own, tuple(settled.events()[0]), reward

    def _observe(self) -> dict[str, Observation]:
        own = zip(self.sights.items(), self.cell.tolist(), self.own_state.tolist(), strict=True)
        return {name: sight.show(cell, state) for (name, sight), cell, state in own}

    def _tell(self, proposed: Sequence[Sequence[int]], events: Sequence[int]) -> dict[str, Info]:
        happened = [self._events[event] for event in events]
        rows = zip(self.states.items(), self.cell.tolist(), proposed, strict=True)
        return {
            name: {
                **tell_events(tuple(event for event in happened if event in self.task.knows[name])),
                "proposed": tuple(self._events[event] for event in own),
                "machine_state": state,
                "cell": cell,
            }
            for (name, state), cell, own in rows
        }
