"""Trained policies in a user's loop: from observations to actions, without the learner or the compiler."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import index
from typing import Any, Protocol

import numpy as np

from hocket.errors import SettingsError, TaskError, known_names, printable, shown
from hocket.learn.catalogue import find_learner, learners_with_input
from hocket.learn.kernels.arrays import Floats
from hocket.learn.learner import Arrays, Learner, PolicyInput
from hocket.learn.settings import Settings
from hocket.machine.reward_machine import RewardMachine
from hocket.random import TEAM, action_draw, stream_key
from hocket.task.grid import ACTIONS
from hocket.task.task import Task

Situation = tuple[Hashable, int]  # a cell or the text of an observation, and the number of a machine state
Table = Mapping[Hashable, Floats]  # text of an observation -> values [A, U]


class TrainableWorld(Protocol):
    """A wrapped environment, whose agents have machines and can be trained."""

    @property
    def machines(self) -> Mapping[str, RewardMachine]: ...

    def action_space(self, agent: str) -> Any: ...  # noqa: ANN401 (a space of Gymnasium, which need not be loaded)

    def train(self, learner: Learner, settings: Settings, seeds: Sequence[int], steps: int, *more: object) -> list[Any]:
        """Train its agents, with the options of `train_world`; return a run for each seed that is not in the folder."""


def observation_key(observation: Any) -> Hashable:  # noqa: ANN401 (of any environment)
    """Convert an observation to something hashable; equal observations have equal keys.

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


def key_text(key: Hashable) -> str:
    """Write the key of an observation as a line of text, as in a policy's table."""
    return json.dumps(key, default=repr, separators=(",", ":"))


def read_table(arrays: Arrays, name: str, place: int, shape: tuple[int, ...]) -> Table:
    """Read a table of values of a shape for each observation."""
    seen, values = arrays.get(f"seen.{place}"), arrays.get(f"{name}.{place}")
    lines = [] if seen is None else seen.tobytes().decode(errors="replace").split("\n")
    if values is None or values.shape[1:] != shape or (len(lines) != len(values) and len(values)):
        raise SettingsError("this policy does not fit the machines of this world")
    return dict(zip(lines, values, strict=False))


def require_machine_input(learner: str) -> None:
    """Refuse a learner whose policies depend on more than an agent's observation and machine state."""
    policy_input = find_learner(learner).policy_input
    if policy_input is not PolicyInput.MACHINE:
        others = f"over cells and machine states are those of {', '.join(learners_with_input(PolicyInput.MACHINE))}"
        raise SettingsError(f"a policy of {learner} depends on {policy_input.value}; {others}")


def machine_values(task: Task, learner: str, arrays: Arrays) -> Floats:
    """Return a learner's q-function over cells and machine states, [N, S, A, U]; refuse arrays of other shapes."""
    require_machine_input(learner)
    q = arrays.get("q")
    states = max(len(machine.states) for machine in task.machines.values())
    if q is None or q.shape != (len(task.agents), task.grid.cells, len(ACTIONS), states):
        raise SettingsError(f"this policy of {learner} does not fit the task {printable(task.name)}")
    return q


class PolicyActor:
    """One agent's trained policy as a function: from an observation to the number of an action.

    The same seed and the same calls give the same choices: those of episode 0 of the seed in tests. `restart` begins
    another episode.
    """

    actions: tuple[str, ...] = ()  # their names, if they have any

    def __init__(self, agent: str, machine: RewardMachine, index: int, temperature: float | None) -> None:
        self.agent, self.machine, self.temperature, self._index = agent, machine, temperature, index  # None: greedy
        self._states = {name: number for number, name in enumerate(machine.states)}
        self._sums: dict[Situation, list[float]] = {}  # cumulative weights of the actions
        self._first = 0  # the number of the first action
        self.restart(0)

    def __repr__(self) -> str:
        kind = "greedy" if self.temperature is None else f"softmax at temperature {self.temperature:g}"
        return f"<policy of {self.agent}: {kind}>"

    def restart(self, seed: int, episode: int = 0) -> None:
        """Begin an episode of a seed, which determines the draws."""
        self._key = stream_key(TEAM, seed, self._index, episode)
        self._decisions = 0

    def __call__(self, observation: object) -> int:
        """Choose an action."""
        situation = self._situation(observation)
        if situation not in self._sums:
            values, scale = self._values(situation).tolist(), self.temperature
            best = max(values)
            weights = (value == best if scale is None else math.exp((value - best) / scale) for value in values)
            self._sums[situation] = list(accumulate(map(float, weights)))
        sums = self._sums[situation]
        drawn = action_draw(self._key, self._decisions)
        self._decisions += 1
        return self._first + bisect_right(sums, drawn * sums[-1])

    def q(self, observation: object) -> Floats:
        """Return the values of all actions, in their order."""
        return self._values(self._situation(observation)).copy()

    _situation: Callable[[Any], Situation]  # of an observation; a subclass defines it
    _values: Callable[[Any], Floats]  # of the actions in a situation; likewise

    def _state(self, name: object) -> int:
        """Look up the number of a machine state."""
        if name not in [*self._states]:
            problem = f"state {shown(name)} does not exist in the machine of {self.agent}"
            raise TaskError(f"{problem} ({known_names(str(name), self._states)})", key="observation")
        return self._states[name]


class GridActor(PolicyActor):
    """An agent's policy on a task's map.

    It takes an observation of `individual_env` or `team_env`, of any kind, or the pair (cell, name of the state of its
    machine); a cell is a number or a pair (row, column). `actions` names the actions.
    """

    actions = ACTIONS

    def __init__(self, task: Task, agent: str, q: Floats, temperature: float | None) -> None:
        super().__init__(agent, task.machines[agent], list(task.agents).index(agent), temperature)
        self._grid, self._q = task.grid, q  # [N, S, A, U]

    def _values(self, situation: tuple[int, int]) -> Floats:
        cell, state = situation
        return self._q[self._index, cell, :, state]

    def _situation(self, observation: Any) -> Situation:  # noqa: ANN401 (whatever a user passes)
        cells, states, cell, u = self._grid.cells, len(self._states), -1, -1
        is_pair = isinstance(observation, tuple) and len(observation) == 2
        state = self._state(observation[1]) if is_pair else -1
        with suppress(TypeError, ValueError, KeyError):
            if is_pair:
                cell, u = self._cell(observation[0]), state
            elif isinstance(observation, Mapping):
                cell, u = index(observation["world"]), index(observation["machine"])
            elif not np.ndim(observation):
                cell, u = divmod(index(observation), states)
            elif len(observation) == cells + states:
                cell, second = np.flatnonzero(observation).tolist()
                u = second - cells
        if not (0 <= cell < cells and 0 <= u < states):
            rule = f"an observation of {self.agent} in this task ({cells} cells, {states} states) or a pair"
            raise TaskError(f"{rule} (cell, state name) is needed, got {shown(observation)}", key="observation")
        return cell, u

    def _cell(self, cell: Any) -> int:  # noqa: ANN401 (likewise)
        """Number a cell that is a number or a pair (row, column)."""
        if not isinstance(cell, tuple):
            return index(cell)
        row, column = map(index, cell)
        return self._grid.cell(row, column) if 0 <= column < self._grid.columns else -1


class TableActor(PolicyActor):
    """An agent's policy in a wrapped environment, by a table over observations; others have values of 0.

    It takes the pair (observation, name of the state of its machine), or `{"world": observation, "machine": number}`,
    as the wrapped environment returns it.
    """

    def __init__(self, world: TrainableWorld, agent: str, arrays: Arrays, temperature: float | None) -> None:
        machine, i, acts = world.machines[agent], list(world.machines).index(agent), world.action_space(agent)
        super().__init__(agent, machine, i, temperature)
        self._count, self._first = int(acts.n), int(acts.start)
        self._table = read_table(arrays, "q", i, (self._count, len(machine.states)))

    def _situation(self, observation: Any) -> Situation:  # noqa: ANN401
        state: Any = None
        if isinstance(observation, Mapping) and {*observation} == {"world", "machine"}:
            world, state = observation["world"], observation["machine"]
        elif isinstance(observation, tuple) and len(observation) == 2:
            world, state = observation[0], self._state(observation[1])
        if state not in range(len(self._states)):
            rule = f"a pair (observation, state name) of {self.agent} or its mapping of world and machine is needed"
            raise TaskError(f"{rule}, got {shown(observation)}", key="observation")
        return key_text(observation_key(world)), state

    def _values(self, situation: Situation) -> Floats:
        key, state = situation
        row = self._table.get(key)
        return np.zeros(self._count, np.float32) if row is None else row[:, state]


class TeamActors(dict[str, PolicyActor]):
    """The actors of all agents of a policy."""

    def restart(self, seed: int, episode: int = 0) -> None:
        """Begin an episode of a seed, which determines the draws."""
        for actor in self.values():
            actor.restart(seed, episode)


def make_actors(
    task: Task | TrainableWorld, learner: str, arrays: Arrays, temperature: float | None, seed: int
) -> TeamActors:
    """Make the actors of a learner's arrays: greedy ones, or softmax at a temperature."""
    if isinstance(task, Task):
        q = machine_values(task, learner, arrays)
        team = TeamActors({agent: GridActor(task, agent, q, temperature) for agent in task.agents})
    else:
        require_machine_input(learner)
        team = TeamActors({agent: TableActor(task, agent, arrays, temperature) for agent in task.machines})
    team.restart(seed)
    return team
