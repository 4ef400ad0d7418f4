"""What a model of Stable-Baselines3 has learnt, as plain arrays: to keep in files without pickle, and to put back.

Stable-Baselines3's own files contain pickled objects, and whoever loads one runs what is in it. Arrays are only
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from hocket.errors import FormatError, known_names

Weights = Mapping[str, NDArray[np.float32]]  # by the name of the parameter
BETWEEN = "/"  # an agent's name and a parameter's


def get_weights(model: BaseAlgorithm) -> dict[str, NDArray[np.float32]]:
    """Copy the parameters of a model's networks."""
    return {name: value.detach().cpu().numpy().copy() for name, value in model.policy.state_dict().items()}


def set_weights(model: BaseAlgorithm, weights: Weights) -> None:
    """Put parameters into a model that was made for them: of the same algorithm, spaces and layers."""
    parameters: dict[str, torch.Tensor] = model.policy.state_dict()
    for name in weights:
        if name not in parameters:
            raise FormatError(f"parameter {name!r} does not exist in this model ({known_names(name, parameters)})")
    for name, value in parameters.items():
        if name not in weights:
            raise FormatError(f"parameter {name!r} of this model is missing")
        if weights[name].shape != tuple(value.shape):
            raise FormatError(
                f"parameter {name!r} must have the shape {tuple(value.shape)} in this model, got {weights[name].shape}"
            )
    model.policy.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})


def join_weights(team: Mapping[str, Weights]) -> dict[str, NDArray[np.float32]]:
    """Put the parameters of all agents side by side, as a `hocket.Policy` keeps them.

    >>> join_weights({"A1": {"bias": np.zeros(2, np.float32)}})
    {'A1/bias': array([0., 0.], dtype=float32)}
    """
    return {f"{agent}{BETWEEN}{name}": value for agent, weights in team.items() for name, value in weights.items()}


def split_weights(arrays: Mapping[str, NDArray[Any]], agent: str) -> dict[str, NDArray[np.float32]]:
    """Pick the parameters of one agent."""
    start = f"{agent}{BETWEEN}"
    parameters = {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
    if not parameters:
        hint = known_names(agent, dict.fromkeys(name.rpartition(BETWEEN)[0] for name in arrays))
        raise FormatError(f"has no parameters of {agent!r} ({hint})")
    return parameters
