"""Observations with the state of a machine, and counterfactual experiences: from machine states an agent was not in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from gymnasium import Space, spaces
from gymnasium.spaces.utils import flatten, flatten_space
from numpy.typing import ArrayLike, NDArray

from hocket.errors import SettingsError, require_known

KINDS = ("onehot", "index", "dict")

Observation = Any  # whatever a space holds: numbers, arrays, dictionaries of them
Key = TypeVar("Key")
Value = TypeVar("Value")


class Counterfactuals(NamedTuple):
    """The same step, with the same action and draws, in the M other machine states that are not final.

    Observations that are dictionaries have arrays of M rows as values. It is part of an `info` as "counterfactuals",
    and a learner may treat every row as an experience of its own.
    """

    observation: Observation  # [M, ...]
    reward: NDArray[np.float64]  # [M]
    next_observation: Observation  # [M, ...]
    terminated: NDArray[np.bool_]  # [M]
    state: NDArray[np.int64]  # [M] of the machine
    next_state: NDArray[np.int64]  # [M]

    def copy(self) -> Counterfactuals:
        """Copy all arrays."""
        parts: list[Any] = [
            {k: v.copy() for k, v in rows.items()} if isinstance(rows, dict) else rows.copy() for rows in self
        ]
        return Counterfactuals(*parts)


@dataclass(frozen=True)
class ObservationEncoder:
    """Joins observations of an environment and states of an agent's machine.

    `onehot` is a flat vector, the environment's part first (a discrete observation becomes one-hot, too). `index` is
    one number, for Discrete observations. `dict` has both as `world` and `machine`.

    >>> ObservationEncoder(spaces.Discrete(3), 2).encode(1, 0).tolist()
    [0.0, 1.0, 0.0, 1.0, 0.0]
    >>> ObservationEncoder(spaces.Discrete(3), 2, "index").space
    Discrete(6)
    """

    world: Space[Any]  # of observations of the environment
    states: int  # of the machine
    kind: str = "onehot"

    def __post_init__(self) -> None:
        require_known(self.kind, KINDS, "observation")
        world = type(self.world).__name__
        if self.kind == "index" and not isinstance(self.world, spaces.Discrete):
            raise SettingsError(f"an index needs a Discrete world, got {world}; use 'onehot' or 'dict'")
        if self.kind == "onehot" and not _is_flattenable(self.world):
            raise SettingsError(f"a {world} cannot be flattened to a vector; use 'dict'")

    @cached_property
    def space(self) -> Space[Any]:
        """The space of observations with machine states."""
        machine = spaces.Discrete(self.states)
        if self.kind == "dict":
            return spaces.Dict({"world": self.world, "machine": machine})
        if isinstance(self.world, spaces.Discrete) and self.kind == "index":
            return spaces.Discrete(int(self.world.n) * self.states)
        flat = flatten_space(self.world)
        assert isinstance(flat, spaces.Box)  # of what can be flattened to arrays
        with np.errstate(over="ignore"):  # a bound beyond single precision is as good as none
            low, high = (bound.astype(np.float32) for bound in (flat.low, flat.high))
        edge = np.ones(self.states, np.float32)
        return spaces.Box(np.append(low, 0 * edge), np.append(high, edge), dtype=np.float32)

    def fits(self, observation: Observation) -> bool:
        """Whether an observation has the shape that `encode` needs."""
        if self._numbers is not None:
            return observation in self._numbers if type(observation) is int else bool(self.world.contains(observation))
        if self.kind == "dict":
            return True  # it is kept as it is
        try:
            return self._flat(observation).size == self._width
        except (TypeError, ValueError, LookupError, AttributeError):
            return False

    def encode(self, observation: Observation, state: int) -> Observation:
        """Join an observation of the environment and a machine state."""
        numbers = self._numbers
        if self.kind == "dict":
            return {"world": observation if numbers is None else np.int64(observation), "machine": np.int64(state)}
        if numbers is not None and self.kind == "index":
            return np.int64((observation - numbers.start) * self.states + state)
        vector = np.zeros(self._width + self.states, np.float32)
        if numbers is not None:
            vector[observation - numbers.start] = 1
        else:
            with np.errstate(over="ignore"):
                vector[: self._width] = self._flat(observation)
        vector[self._width + state] = 1
        return vector

    def encode_each(self, observations: Sequence[Observation] | NDArray[Any], states: ArrayLike) -> Observation:
        """Join observations and as many machine states, row by row; Discrete observations without a loop."""
        machine = np.asarray(states, np.int64)
        if self._numbers is None:
            return stack(list(map(self.encode, observations, machine)), self.space)
        cells = np.asarray(observations, np.int64)
        if self.kind == "dict":
            return {"world": cells.copy(), "machine": machine.copy()}
        if self.kind == "index":
            return (cells - self._numbers.start) * self.states + machine
        vectors, rows = np.zeros((machine.size, self._width + self.states), np.float32), np.arange(machine.size)
        vectors[rows, (cells - self._numbers.start).ravel()] = 1
        vectors[rows, machine.ravel() + self._width] = 1
        return vectors.reshape(*machine.shape, vectors.shape[1])

    def _flat(self, observation: Observation) -> NDArray[Any]:
        """Flatten an observation; arrays take the quick way."""
        if type(observation) is np.ndarray and isinstance(self.world, spaces.Box):
            return observation.ravel()
        return np.asarray(flatten(self.world, observation))

    @cached_property
    def _numbers(self) -> range | None:
        """The values of a Discrete space."""
        if not isinstance(self.world, spaces.Discrete):
            return None
        return range(int(self.world.start), int(self.world.start + self.world.n))

    @cached_property
    def _width(self) -> int:
        """The number of entries of a flat vector that are the environment's."""
        return int(np.prod(self.space.shape or (0,))) - self.states


def _is_flattenable(space: Space[Any]) -> bool:
    """Say whether a space can be flattened to a Box; one that a user defined may claim it falsely."""
    try:
        return space.is_np_flattenable and isinstance(flatten_space(space), spaces.Box)
    except NotImplementedError:
        return False


def stack(rows: Sequence[Observation], space: Space[Any]) -> Observation:
    """Stack observations of a space into arrays, those of dictionaries and tuples part by part."""
    if isinstance(space, spaces.Dict):
        return {key: stack([row[key] for row in rows], part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stack([row[index] for row in rows], part) for index, part in enumerate(space.spaces))
    if space.shape is None or space.dtype is None:
        return list(rows)  # graphs, sequences, texts: no arrays
    return np.asarray(rows, space.dtype).reshape(len(rows), *space.shape)


def event_info(events: tuple[str, ...]) -> dict[str, Any]:
    """Make the info of the events that took effect in a step, in their order; `event` is the last one, or None.

    >>> event_info(("take", "open"))
    {'events': ('take', 'open'), 'event': 'open'}
    """
    return {"events": events, "event": events[-1] if events else None}


def copied(value: Observation) -> Observation:
    """Copy an observation or the memory of a label; ints stay as they are, and arrays are quick to copy."""
    if type(value) is int:
        return value
    return value.copy() if type(value) is np.ndarray and not value.dtype.hasobject else deepcopy(value)


class Memo(dict[Key, Value]):
    """The values of a function by its arguments, computed when first used; emptied when there are too many."""

    def __init__(self, function: Callable[[Key], Value], most: float = math.inf) -> None:
        super().__init__()
        self.function, self.most = function, most

    def __missing__(self, key: Key) -> Value:
        if len(self) >= self.most:
            self.clear()
        value = self[key] = self.function(key)
        return value
