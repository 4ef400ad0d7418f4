"""Q-values over what agents see in worlds that others wrote: tables by observation, machine state and action."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hocket.adapters.observations import Observation
from hocket.errors import SettingsError, known_names, shown
from hocket.machine.reward_machine import RewardMachine
from hocket.random import action_draw

Row = list[list[float]]  # [U][A] the values of one observation


def observation_key(observation: Observation) -> Hashable:
    """Make something hashable of what is seen; two observations that are equal have one key.

    >>> observation_key({"at": np.array([[1, 2]]), "door": np.int64(0)})
    (('at', (1, 2)), ('door', 0))
    """
    if isinstance(observation, np.ndarray):
        return tuple(observation.ravel().tolist())
    if isinstance(observation, np.generic):
        return observation.item()  # type: ignore[no-any-return]
    if isinstance(observation, Mapping):
        return tuple((name, observation_key(observation[name])) for name in sorted(observation))
    if isinstance(observation, tuple | list):
        return tuple(map(observation_key, observation))
    if not isinstance(observation, Hashable):
        raise SettingsError(f"a table of values needs observations that are hashable, got {shown(observation)}")
    return observation


def require_discrete(agent: str, seen: spaces.Space[Any], acts: spaces.Space[Any]) -> None:
    """Refuse observations that hardly ever come again, and actions that cannot be numbered."""
    if any(isinstance(part, spaces.Box) and part.dtype is not None and part.dtype.kind == "f" for part in _parts(seen)):
        raise SettingsError(
            f"a table of values needs observations that come again, got {seen!r:.80} for {agent}: make them discrete, "
            "as gymnasium.wrappers.TransformObservation can"
        )
    if not isinstance(acts, spaces.Discrete):
        raise SettingsError(f"a table of values needs Discrete actions, got {acts!r:.80} for {agent}")


def _parts(space: spaces.Space[Any]) -> Iterable[spaces.Space[Any]]:
    inner: Sequence[spaces.Space[Any]] = ()
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)
    return [space, *(part for each in inner for part in _parts(each))]


class QTable:
    """The values of an agent's actions, for what it has seen."""

    def __init__(self, actions: int, states: int) -> None:
        self.actions, self.states = actions, states
        self.rows: dict[Hashable, Row] = {}

    def row(self, key: Hashable) -> Row:
        """Look up what was seen; what was not has values of 0."""
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = [[0.0] * self.actions for _ in range(self.states)]
        return row

    def arrays(self, place: int) -> dict[str, NDArray[Any]]:
        """Lay it out for a policy: what was seen, a line of text each, and q [K, A, U]."""
        lines = "\n".join(map(key_text, self.rows)).encode()
        values = np.array(list(self.rows.values()), np.float32).reshape(-1, self.states, self.actions)
        return {
            f"seen.{place}": np.frombuffer(lines, np.uint8),
            f"q.{place}": np.ascontiguousarray(values.transpose(0, 2, 1)),
        }


def key_text(key: Hashable) -> str:
    """Write a key in a line, by which a policy knows it."""
    return json.dumps(key, default=repr, separators=(",", ":"))


def choose(values: Sequence[float], beta: float | None, draw: float) -> int:
    """Choose an action by softmax at an inverse temperature, or (None) any of the best."""
    best = max(values)
    if beta is None:
        sums = list(accumulate(float(value == best) for value in values))
    else:
        sums = list(accumulate(math.exp(beta * (value - best)) for value in values))
    return bisect_right(sums, draw * sums[-1])


class TableActor:
    """An agent's table as a function: from what it sees to an action of its space.

    What it sees is the pair (the world's observation, the name of its machine's state), or a dictionary with both as
    `world` and `machine`, as a wrapped world shows it. Where it has never been, it acts at random.
    """

    def __init__(
        self, machine: RewardMachine, table: Mapping[str, NDArray[np.float32]], first: int, beta: float | None, key: int
    ) -> None:
        self.machine, self.beta, self._table, self._first, self._key = machine, beta, table, first, key
        self._decisions = 0
        self._actions = next((row.shape[0] for row in table.values()), 1)

    def q(self, seen: Observation) -> NDArray[np.float32]:
        """Return the values of all actions; 0 where it has never been."""
        observation, state = (seen["world"], seen["machine"]) if isinstance(seen, Mapping) else seen
        if isinstance(state, str) and state not in self.machine.states:
            raise SettingsError(f"state {shown(state)} does not exist ({known_names(state, self.machine.states)})")
        number = self.machine.states.index(state) if isinstance(state, str) else int(state)
        row = self._table.get(key_text(observation_key(observation)))
        return np.zeros(self._actions, np.float32) if row is None else row[:, number]

    def __call__(self, seen: Observation) -> int:
        """Choose an action."""
        self._decisions += 1
        return self._first + choose(self.q(seen).tolist(), self.beta, action_draw(self._key, self._decisions))


def read_tables(arrays: Mapping[str, NDArray[Any]], machines: Sequence[RewardMachine]) -> list[dict[str, NDArray[Any]]]:
    """Read the table of each agent from a policy's arrays: text of what was seen -> q [A, U]."""
    tables = []
    for place, machine in enumerate(machines):
        seen, q = arrays.get(f"seen.{place}"), arrays.get(f"q.{place}")
        lines = [] if seen is None else seen.tobytes().decode(errors="replace").split("\n")
        if q is None or q.ndim != 3 or (len(lines) != len(q) and len(q)) or q.shape[2] != len(machine.states):
            raise SettingsError("this policy does not fit the machines of this world")
        tables.append(dict(zip(lines, q, strict=False)))
    return tables
