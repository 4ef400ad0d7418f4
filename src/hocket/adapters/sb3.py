"""Stable-Baselines3: replay buffers with counterfactual experience, and weights as arrays.

A step of an agent's individual environment is experience for every state of its machine, not only for the one it was
in: with the reward and the next state that it has there. The environment returns them in `info["counterfactuals"]`; the
buffers of this module store them with the real transitions, and DQN, SAC and TD3 learn from both.

Stable-Baselines3's own files contain pickled objects, whose code is run when they are loaded. Arrays are only numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from hocket.errors import FormatError, SettingsError, known_names, require_known

KEY = "counterfactuals"  # in infos
TIMEOUT = "TimeLimit.truncated"  # in infos of a vectorised environment
SEPARATOR = "/"  # between the names of an agent and a parameter

Array = NDArray[Any]
Rows = Any  # an array, or one for each key
Device = Any  # of torch
Weights = Mapping[str, NDArray[np.float32]]  # by the name of the parameter


class CounterfactualReplayBuffer(ReplayBuffer):
    """Keep counterfactual experiences in addition to real ones, each as a transition of its own.

    Use it as `DQN("MlpPolicy", env, replay_buffer_class=CounterfactualReplayBuffer)`; SAC and TD3 take it likewise.
    Where infos have no counterfactuals it keeps what a plain buffer keeps.

    Transitions of all environments share one sequence of `buffer_size` rows, first the real ones of a step and then the
    counterfactual ones, environment by environment. So a step may have any number of them in each environment, and
    every transition, real or not, is drawn with the same probability.

    Rows are as the environment returns them. `VecNormalize` works, as it normalises what is drawn; any other wrapper
    that changes observations or rewards must change those in `info["counterfactuals"]`, too.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: Device = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
    ) -> None:
        if optimize_memory_usage:
            problem = "optimize_memory_usage must be False in a buffer with counterfactuals, got True"
            raise SettingsError(f"{problem}: it takes each row for the successor of the one before")
        if isinstance(observation_space, spaces.Dict) and not isinstance(self, DictReplayBuffer):
            problem = "observations must be arrays in a CounterfactualReplayBuffer, got a Dict space"
            raise SettingsError(f"{problem} (use a CounterfactualDictReplayBuffer)")
        super().__init__(  # as of a single environment: one sequence for all
            buffer_size, observation_space, action_space, device, handle_timeout_termination=handle_timeout_termination
        )
        self.environments = n_envs

    def add(
        self, obs: Rows, next_obs: Rows, action: Array, reward: Array, done: Array, infos: Sequence[Mapping[str, Any]]
    ) -> None:
        """Store a step of all environments, and its counterfactuals."""
        actions = action.reshape(self.environments, self.action_dim)
        timeouts = np.array([bool(info.get(TIMEOUT, False)) for info in infos])
        self._write(obs, next_obs, actions, reward, done, timeouts)
        for real, timeout, info in zip(actions, timeouts, infos, strict=True):
            rows = info.get(KEY)
            if rows is None or not len(rows.reward):
                continue
            # A counterfactual terminates where its own machine state is final, whatever the real episode does; a
            # timeout is one for all of them.
            ends = np.asarray(rows.terminated, dtype=bool)
            taken = np.broadcast_to(real, (len(ends), self.action_dim))
            self._write(rows.observation, rows.next_observation, taken, rows.reward, ends | timeout, timeout & ~ends)

    def _write(
        self, first: Rows, following: Rows, actions: Array, rewards: ArrayLike, dones: ArrayLike, timeouts: Array
    ) -> None:
        """Write transitions into the next rows, over the oldest ones."""
        count = len(actions)
        rows = (self.pos + np.arange(count)) % self.buffer_size
        for store, values in ((self.observations, first), (self.next_observations, following)):
            columns, by_key = (store, values) if isinstance(store, dict) else ({"": store}, {"": values})
            for key, column in columns.items():
                column[rows, 0] = _fit(np.asarray(by_key[key]), (count, *column.shape[2:]))
        self.actions[rows, 0] = actions
        self.rewards[rows, 0] = rewards
        self.dones[rows, 0] = dones
        if self.handle_timeout_termination:
            self.timeouts[rows, 0] = timeouts
        self.full = self.full or self.pos + count >= self.buffer_size
        self.pos = (self.pos + count) % self.buffer_size


def _fit(values: Array, shape: tuple[int, ...]) -> Array:
    """Require that observations have the shape of the buffer's arrays."""
    if values.shape == shape[:1] and shape[1:] == (1,):  # observations that are single numbers
        return values.reshape(shape)
    if values.shape != shape:
        problem = f"observations must have the shape {shape} in this buffer, got {values.shape}"
        raise SettingsError(f"{problem} (a wrapper that changes observations must change those in info[{KEY!r}], too)")
    return values


class CounterfactualDictReplayBuffer(CounterfactualReplayBuffer, DictReplayBuffer):
    """Keep counterfactual experiences in addition to real ones, where observations are dictionaries."""


def get_weights(model: BaseAlgorithm) -> dict[str, NDArray[np.float32]]:
    """Copy the parameters of a model's networks."""
    return {name: value.detach().cpu().numpy().copy() for name, value in model.policy.state_dict().items()}


def set_weights(model: BaseAlgorithm, weights: Weights) -> None:
    """Put parameters into a model that was made for them: of the same algorithm, spaces and layers."""
    parameters: dict[str, torch.Tensor] = model.policy.state_dict()
    for name in weights:
        require_known(name, parameters, "parameter", FormatError, " in this model")
    for name, value in parameters.items():
        if name not in weights:
            raise FormatError(f"parameter {name!r} of this model is missing")
        if (shape := weights[name].shape) != (expected := tuple(value.shape)):
            raise FormatError(f"parameter {name!r} must have the shape {expected} in this model, got {shape}")
    model.policy.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})


def join_weights(team: Mapping[str, Weights]) -> dict[str, NDArray[np.float32]]:
    """Join the parameters of all agents, as the arrays of a `hocket.Policy`.

    >>> join_weights({"A1": {"bias": np.zeros(2, np.float32)}})
    {'A1/bias': array([0., 0.], dtype=float32)}
    """
    return {f"{agent}{SEPARATOR}{name}": value for agent, weights in team.items() for name, value in weights.items()}


def split_weights(arrays: Mapping[str, NDArray[Any]], agent: str) -> dict[str, NDArray[np.float32]]:
    """Pick the parameters of one agent."""
    start = f"{agent}{SEPARATOR}"
    parameters = {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
    if not parameters:
        hint = known_names(agent, dict.fromkeys(name.rpartition(SEPARATOR)[0] for name in arrays))
        raise FormatError(f"has no parameters of {agent!r} ({hint})")
    return parameters
