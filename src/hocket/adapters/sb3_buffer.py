"""Replay buffers for Stable-Baselines3 that also keep what the other machine states would have seen.

A step of an agent's individual environment is experience for every state of its machine, not only for the one it was
in: the same move, seen from each of them, has its own reward and its own next state. The environment tells them in
`info["counterfactuals"]`; the buffers of this module store them beside what really happened, and DQN, SAC and TD3
learn from both alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from hocket.errors import SettingsError

KEY = "counterfactuals"  # where an environment's info has them
TIMEOUT = "TimeLimit.truncated"  # where the info of a vectorised environment says that time ran out


class CounterfactualReplayBuffer(ReplayBuffer):
    """Keep counterfactual experiences beside real ones, each as a transition of its own.

    Use it as `DQN("MlpPolicy", env, replay_buffer_class=CounterfactualReplayBuffer)`; SAC and TD3 take it likewise.
    Where infos have no counterfactuals it keeps what a plain buffer keeps.

    Transitions of all environments share one sequence of `buffer_size` rows, first the real ones of a step and then
    the counterfactual ones, environment by environment. So a step may have any number of them, another one in each
    environment, and every transition, real or not, is drawn with the same chance.

    Rows are what the environment itself has seen. `VecNormalize` works, as it normalises what is drawn; any other
    wrapper that changes observations or rewards must change those in `info["counterfactuals"]`, too.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: Any = "auto",  # noqa: ANN401 - whatever torch takes for a device
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
    ) -> None:
        if optimize_memory_usage:
            raise SettingsError(
                "optimize_memory_usage must be False in a buffer with counterfactuals, got True: it takes each row for"
                " the successor of the one before"
            )
        if isinstance(observation_space, spaces.Dict) and not isinstance(self, DictReplayBuffer):
            raise SettingsError(
                "observations must be arrays in a CounterfactualReplayBuffer, got a Dict space (use a"
                " CounterfactualDictReplayBuffer)"
            )
        super().__init__(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs=1,  # one sequence for all
            handle_timeout_termination=handle_timeout_termination,
        )
        self.environments = n_envs

    def add(
        self,
        obs: Any,  # noqa: ANN401 - an array, or one for each key
        next_obs: Any,  # noqa: ANN401
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store a step of all environments, and its counterfactuals."""
        actions = action.reshape(self.environments, self.action_dim)
        timeouts = np.array([bool(info.get(TIMEOUT, False)) for info in infos])
        self._write(obs, next_obs, actions, reward, done, timeouts)
        for real, timeout, info in zip(actions, timeouts, infos, strict=True):
            rows = info.get(KEY)
            if rows is None or not len(rows.reward):
                continue
            # A counterfactual ends where its own machine state is final, whatever the real one's episode does; where
            # time ran out it did so for all of them.
            ends = np.asarray(rows.terminated, dtype=bool)
            self._write(
                rows.observation,
                rows.next_observation,
                np.broadcast_to(real, (len(ends), self.action_dim)),
                rows.reward,
                ends | timeout,
                timeout & ~ends,
            )

    def _write(
        self,
        observations: Any,  # noqa: ANN401
        next_observations: Any,  # noqa: ANN401
        actions: NDArray[Any],
        rewards: ArrayLike,
        dones: ArrayLike,
        timeouts: NDArray[np.bool_],
    ) -> None:
        """Write transitions into the next rows, over the oldest ones."""
        count = len(actions)
        rows = (self.pos + np.arange(count)) % self.buffer_size
        for store, values in ((self.observations, observations), (self.next_observations, next_observations)):
            for column, fitting in self._columns(store, values, count):
                column[rows, 0] = fitting
        self.actions[rows, 0] = actions
        self.rewards[rows, 0] = rewards
        self.dones[rows, 0] = dones
        if self.handle_timeout_termination:
            self.timeouts[rows, 0] = timeouts
        self.full = self.full or self.pos + count >= self.buffer_size
        self.pos = (self.pos + count) % self.buffer_size

    def _columns(
        self,
        store: Any,  # noqa: ANN401
        values: Any,  # noqa: ANN401
        count: int,
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Pair the buffer's arrays with what goes into them, which must have their shape."""
        if not isinstance(store, dict):
            store, values = {"": store}, {"": values}
        for key, column in store.items():
            shape, value = (count, *column.shape[2:]), np.asarray(values[key])
            if value.shape == (count,) and shape == (count, 1):  # observations that are single numbers
                value = value.reshape(shape)
            if value.shape != shape:
                raise SettingsError(
                    f"observations must have the shape {shape} in this buffer, got {value.shape} (a wrapper that"
                    f" changes observations must change those in info[{KEY!r}], too)"
                )
            yield column, value


class CounterfactualDictReplayBuffer(CounterfactualReplayBuffer, DictReplayBuffer):
    """Keep counterfactual experiences beside real ones where observations are dictionaries."""
