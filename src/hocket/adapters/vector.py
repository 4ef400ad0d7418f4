"""Many copies of an individual agent at once, each step a handful of array operations whatever their number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
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
from hocket.adapters.observations import Observation, ObservationEncoder
from hocket.deprecation import renamed_arguments
from hocket.errors import SettingsError, TaskError
from hocket.inputs import whole
from hocket.random import INDIVIDUAL, MASK, slip_draw, start_draw, stream_key, sync_draw
from hocket.task.catalogue import as_task
from hocket.task.episode import SYNC_PROBABILITY
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.task import Task

Bools = NDArray[np.bool_]
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
    copies, task = whole(num_envs, "num_envs", 1), as_task(task)
    world = individual_model(task, agent, sync_probability, sync_literal, shaping)
    return IndividualEnvs(task, agent, world, copies, observation, max_episode_steps, counterfactuals)


class IndividualEnvs(VectorEnv[Observation, NDArray[Any], NDArray[Any]]):
    """Copies of an individual agent, side by side."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(
        self,
        task: Task,
        agent: str,
        world: IndividualModel,
        num_envs: int,
        observation: str,
        max_episode_steps: int,
        counterfactuals: bool,
    ) -> None:
        self.task, self.agent, self.world, self.num_envs = task, agent, world, num_envs
        states = task.machines[agent].states
        self.sight = ObservationEncoder(spaces.Discrete(task.grid.cells), len(states), observation)
        self.single_observation_space, self.single_action_space = self.sight.space, spaces.Discrete(len(ACTIONS))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.max_episode_steps, self.counterfactuals = whole(max_episode_steps, "max_episode_steps", 1), counterfactuals
        self._states = np.array([*states], object)
        self._is_seeded = False
        self._seeds = np.zeros(num_envs, np.uint64)  # [copies], as is all that follows
        self._numbers = np.zeros(num_envs, np.uint64)
        self._keys = np.zeros(num_envs, np.uint64)
        self._time = np.zeros(num_envs, np.uint64)
        self._cell = np.full(num_envs, world.table.starts[0], np.int64)
        self._state = np.full(num_envs, world.table.initial, np.int64)
        self._is_over = np.zeros(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """Begin the next episode of every copy, or with a seed its first one."""
        check_options(options)
        super().reset(seed=seed if isinstance(seed, int) else None)
        give_seeds(seed, self._seeds, self._numbers, None if self._is_seeded else self.np_random)
        self._is_seeded = True
        self._begin(np.ones(self.num_envs, np.bool_))
        self._is_over = np.zeros(self.num_envs, np.bool_)
        nothing = np.full(self.num_envs, NOTHING, np.object_)
        return self.sight.show_each(self._cell, self._state), self._tell(nothing, nothing)

    def step(self, actions: NDArray[Any]) -> tuple[Observation, NDArray[np.float64], Bools, Bools, Info]:
        """Let every copy act, but for those that begin again."""
        if not self._is_seeded:
            raise ResetNeeded("an episode begins with reset()")
        chosen = check_actions(actions, self._seeds.shape)
        outcome = slip_outcome(slip_draw(self._keys, self._time), self.world.table.slip_limit)
        sync = sync_draw(self._keys, self._time)
        again, going = self._is_over, ~self._is_over
        compared = None
        if self.counterfactuals:
            compared = compare_states(self.world, self.sight, self._cell, self._state, chosen, outcome, sync)
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
        self._cell[copies] = starts[
            start_draw(self._keys[copies], 0, np.full(1, len(starts), np.uint64)).astype(np.int64)
        ]
        self._state[copies] = self.world.table.initial

    def _tell(self, proposed: NDArray[np.object_], events: NDArray[np.object_]) -> Info:
        """Say what has happened, in Gymnasium's way: for each key also which copies have it."""
        told: dict[str, Any] = {
            "events": events,
            "event": _last(events),
            "proposed": proposed,
            "machine_state": self._states[self._state],
        }
        return told | {f"_{key}": np.ones(self.num_envs, np.bool_) for key in told}


def _last(events: NDArray[np.object_]) -> NDArray[np.object_]:
    """Pick the last event of each copy, or None."""
    last = np.full(len(events), None, np.object_)
    for copy in np.flatnonzero(events != NOTHING).tolist():
        last[copy] = events[copy][-1]
    return last


# What environments with copies share.


def check_options(options: Info | None) -> None:
    """Refuse to begin with some copies only, which those who reset copies by themselves would ask for."""
    if options is not None and "reset_mask" in options:
        raise SettingsError(
            "reset_mask: all copies are reset at once, and each begins again by itself when it has ended"
        )


def check_actions(actions: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Require an action for each copy, or for each agent of each copy."""
    chosen = np.asarray(actions)
    if chosen.shape != shape or not np.issubdtype(chosen.dtype, np.integer):
        whose = (
            f"each of {shape[0]:,} copies" if len(shape) == 1 else f"each of {shape[1]:,} agents in {shape[0]:,} copies"
        )
        raise TaskError(f"there must be a number for {whose}", key="actions")
    if chosen.min() < 0 or chosen.max() >= len(ACTIONS):
        raise TaskError(f"must be from 0 to {len(ACTIONS) - 1}, got {chosen.min()} to {chosen.max()}", key="actions")
    return chosen


def give_seeds(
    seed: int | Sequence[int | None] | None,
    seeds: NDArray[np.uint64],  # [copies] to be filled
    numbers: NDArray[np.uint64],  # [copies] of the episodes, to be counted on
    rng: np.random.Generator | None,  # for copies that have no seeds yet
) -> None:
    """Give seeds to the copies that are told theirs, and to those that have none yet; number their next episodes."""
    is_one = seed is not None and (isinstance(seed, str) or not isinstance(seed, Sequence | np.ndarray))
    given: Any = range(first := check_seed(seed), first + len(seeds)) if is_one else seed
    told = [None] * len(seeds) if given is None else list(given)
    if len(told) != len(seeds):
        raise SettingsError(f"there must be a seed for each of {len(seeds):,} copies, got {len(told):,}")
    numbers += np.uint64(1)
    if rng is not None:
        seeds[:] = rng.integers(SEEDS, size=len(seeds), dtype=np.uint64)
        numbers[:] = 0
    for copy, number in enumerate(told) if given is not None else ():
        if number is not None:
            seeds[copy], numbers[copy] = check_seed(number) & MASK, 0
