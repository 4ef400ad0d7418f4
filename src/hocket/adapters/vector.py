"""Many copies of an individual agent at once, each step a handful of array operations whatever their number."""

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

from hocket.adapters.individual import (
    EPISODE_STEPS,
    SEEDS,
    IndividualModel,
    Info,
    advance,
    check_seed,
    compare_states,
    individual_model,
)
from hocket.adapters.observations import Observation
from hocket.arguments import whole
from hocket.errors import SettingsError, TaskError
from hocket.lazy import renamed_arguments
from hocket.random import INDIVIDUAL, MASK, slip_draw, start_draw, stream_key, sync_draw
from hocket.task.catalogue import as_task
from hocket.task.episode import SYNC_PROBABILITY
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.tables import Bools
from hocket.task.task import Task

NOTHING = np.empty((), np.object_)  # no events
NOTHING[()] = ()


@renamed_arguments(episode_steps="max_episode_steps")
def individual_vector_env(
    task: Task | str | Path,
    agent: str,
    num_envs: int = 1,
    *,
    observation: str = "onehot",
    sync_probability: float = SYNC_PROBABILITY,
    sync_literal: bool = False,
    shaping: float | None = None,
    max_episode_steps: int = EPISODE_STEPS,
    counterfactuals: bool = False,
) -> IndividualEnvs:
    """Make a Gymnasium vector environment of so many copies of an individual agent (see `individual_env`).

    Copy i equals `individual_env` with seed s + i, or with the i-th of the seeds that `reset` is given. A copy whose
    episode has ended begins the next one in the following step, whatever its action.
    """
    copies = whole(num_envs, "num_envs", 1)
    world = individual_model(as_task(task), agent, sync_probability, sync_literal, shaping, observation)
    return IndividualEnvs(world, copies, max_episode_steps, counterfactuals)


class CopiesEnv(VectorEnv[Observation, NDArray[Any], NDArray[Any]]):
    """Copies of a world, side by side; one that has ended begins again in the following step."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(self, task: Task, num_envs: int, seen: Space[Any], acts: Space[Any], max_episode_steps: int) -> None:
        self.task, self.num_envs = task, num_envs
        self.single_observation_space, self.single_action_space = seen, acts
        self.observation_space, self.action_space = batch_space(seen, num_envs), batch_space(acts, num_envs)
        self.max_episode_steps = whole(max_episode_steps, "max_episode_steps", 1)
        self._is_seeded = False
        self._seeds, self._numbers = np.zeros((2, num_envs), np.uint64)  # of seeds, and of episodes among theirs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """Begin the next episode of every copy, or with a seed its first one."""
        if options is not None and "reset_mask" in options:
            raise SettingsError(
                "reset_mask: all copies are reset at once, and each begins again by itself when it has ended"
            )
        super().reset(seed=seed if isinstance(seed, int) else None)
        self._give_seeds(seed)
        self._is_seeded = True
        return self._begin_all()

    def _give_seeds(self, seed: int | Sequence[int | None] | None) -> None:
        """Give seeds to copies that are told theirs, and to those that have none yet; number their next episodes."""
        is_one = seed is not None and (isinstance(seed, str) or not isinstance(seed, Sequence | np.ndarray))
        given: Any = range(first := check_seed(seed), first + self.num_envs) if is_one else seed
        told = [None] * self.num_envs if given is None else list(given)
        if len(told) != self.num_envs:
            raise SettingsError(f"there must be a seed for each of {self.num_envs:,} copies, got {len(told):,}")
        self._numbers += np.uint64(1)
        if not self._is_seeded:
            self._seeds[:] = self.np_random.integers(SEEDS, size=self.num_envs, dtype=np.uint64)
            self._numbers[:] = 0
        for copy, number in enumerate(told):
            if number is not None:
                self._seeds[copy], self._numbers[copy] = check_seed(number) & MASK, 0

    def _begin_all(self) -> tuple[Observation, Info]:
        """Begin an episode of every copy."""
        raise NotImplementedError

    def _check(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Require an action for each copy, or for each agent of each copy."""
        if not self._is_seeded:
            raise ResetNeeded("an episode begins with reset()")
        chosen, shape = np.asarray(actions), self.action_space.shape or ()
        if chosen.shape != shape or not np.issubdtype(chosen.dtype, np.integer):
            agents = "".join(f"{count:,} agents in " for count in shape[1:])
            raise TaskError(f"there must be a number for each of {agents}{self.num_envs:,} copies", key="actions")
        if chosen.min() < 0 or chosen.max() >= len(ACTIONS):
            limits = f"{chosen.min()} to {chosen.max()}"
            raise TaskError(f"must be from 0 to {len(ACTIONS) - 1}, got {limits}", key="actions")
        return chosen

    def _flagged(self, told: Info) -> Info:
        """Say in Gymnasium's way for each key which copies have it: all."""
        return told | {f"_{key}": np.ones(self.num_envs, np.bool_) for key in told}


class IndividualEnvs(CopiesEnv):
    """Copies of an individual agent, side by side."""

    def __init__(self, world: IndividualModel, num_envs: int, max_episode_steps: int, counterfactuals: bool) -> None:
        self.world, self.agent, self.sight, self.counterfactuals = world, world.agent, world.sight, counterfactuals
        super().__init__(world.task, num_envs, self.sight.space, spaces.Discrete(len(ACTIONS)), max_episode_steps)
        self._states = np.array([*world.task.machines[world.agent].states], object)
        self._keys, self._time = np.zeros((2, num_envs), np.uint64)  # [copies], as is all that follows
        self._cell = np.full(num_envs, world.table.starts[0], np.int64)
        self._state = np.full(num_envs, world.table.initial, np.int64)
        self._is_over = np.zeros(num_envs, np.bool_)

    def _begin_all(self) -> tuple[Observation, Info]:
        self._begin(np.ones(self.num_envs, np.bool_))
        self._is_over = np.zeros(self.num_envs, np.bool_)
        nothing = np.full(self.num_envs, NOTHING, np.object_)
        return self.sight.show_each(self._cell, self._state), self._tell(nothing, nothing)

    def step(self, actions: NDArray[Any]) -> tuple[Observation, NDArray[np.float64], Bools, Bools, Info]:
        """Let every copy act, but for those that begin again."""
        chosen = self._check(actions)
        outcome = slip_outcome(slip_draw(self._keys, self._time), self.world.table.slip_limit)
        sync = sync_draw(self._keys, self._time)
        again, going = self._is_over, ~self._is_over
        compared = None
        if self.counterfactuals:
            compared = compare_states(self.world, self._cell, self._state, chosen, outcome, sync)
        moved = advance(self.world, self._cell, self._state, chosen, outcome, sync)
        self._cell, self._state = moved.cell, moved.state
        self._time += np.uint64(1)
        if again.any():
            self._numbers[again] += np.uint64(1)
            self._begin(again)
        terminated, truncated = moved.done & going, (self._time >= self.max_episode_steps) & going
        self._is_over = terminated | truncated
        info = self._tell(np.where(going, moved.proposed, NOTHING), np.where(going, moved.events, NOTHING))
        if compared is not None:
            info |= {"counterfactuals": compared, "_counterfactuals": going}
        reward = np.where(going, moved.reward, 0.0)
        return self.sight.show_each(self._cell, self._state), reward, terminated, truncated, info

    def _begin(self, copies: Bools) -> None:
        """Begin an episode of some copies."""
        place = np.full(int(copies.sum()), self.world.table.place, np.uint64)
        self._keys[copies] = stream_key(INDIVIDUAL, self._seeds[copies], place, self._numbers[copies])
        self._time[copies] = 0
        starts = self.world.table.starts
        drawn = start_draw(self._keys[copies], 0, np.full(1, len(starts), np.uint64))
        self._cell[copies] = starts[drawn.astype(np.int64)]
        self._state[copies] = self.world.table.initial

    def _tell(self, proposed: NDArray[np.object_], events: NDArray[np.object_]) -> Info:
        """Say what has happened."""
        last = np.full(len(events), None, np.object_)
        for copy in np.flatnonzero(events != NOTHING).tolist():
            last[copy] = events[copy][-1]
        names = self._states[self._state]
        return self._flagged({"events": events, "event": last, "proposed": proposed, "machine_state": names})
