"""Trained policies in one's own loop: from what an agent sees to an action, without a learner or the compiler."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError, TaskError, known_names, printable, shown
from hocket.learn.catalogue import find_learner, learners_with_input
from hocket.learn.learner import Arrays, PolicyInput
from hocket.random import TEAM, action_draw, stream_key
from hocket.task.grid import ACTIONS
from hocket.task.task import Task

Spot = tuple[int, int]  # a cell, and a machine state by its number


def machine_values(task: Task, learner: str, arrays: Arrays) -> NDArray[np.float32]:
    """Return a learner's q-function over cells and machine states, [N, S, A, U]; refuse what is none on a task."""
    looks_at = find_learner(learner).policy_input
    if looks_at is not PolicyInput.MACHINE:
        fitting = ", ".join(learners_with_input(PolicyInput.MACHINE))
        raise SettingsError(
            f"a policy of {learner} depends on {looks_at.value}; over cells and machine states are those of {fitting}"
        )
    q = arrays.get("q")
    states = max(len(machine.states) for machine in task.machines.values())
    if q is None or q.shape != (len(task.agents), task.grid.cells, len(ACTIONS), states):
        raise SettingsError(f"this policy of {learner} does not fit the task {printable(task.name)}")
    return q


class PolicyActor:
    """One agent's trained policy as a function: from what the agent sees to the number of an action.

    What it sees is an observation of `individual_env` or `team_env`, of any kind, or the pair (cell, name of the state
    of its machine); a cell is a number or a pair (row, column). `actions` names the actions. The same seed and the same
    calls give the same choices: those of episode 0 of the seed in tests. `restart` begins another episode.
    """

    actions = ACTIONS

    def __init__(
        self, task: Task, agent: str, q: NDArray[np.float32], temperature: float | None, seed: int = 0
    ) -> None:
        self.agent, self.machine, self.temperature = agent, task.machines[agent], temperature  # None: greedy
        self._grid, self._place = task.grid, list(task.agents).index(agent)
        self._values = q  # [S, A, U]
        self._states = {name: number for number, name in enumerate(self.machine.states)}
        self._sums: dict[Spot, list[float]] = {}  # of the weights of the actions, where it has been
        self.restart(seed)

    def __repr__(self) -> str:
        kind = "greedy" if self.temperature is None else f"softmax at temperature {self.temperature:g}"
        return f"<policy of {self.agent}: {kind}>"

    def restart(self, seed: int, episode: int = 0) -> None:
        """Draw from now on what an episode of a seed draws."""
        self._key = stream_key(TEAM, seed, self._place, episode)
        self._decisions = 0

    def __call__(self, observation: object) -> int:
        """Choose an action."""
        spot = self._spot(observation)
        sums = self._sums.get(spot)
        if sums is None:
            sums = self._sums[spot] = list(accumulate(self._weights(self._values[spot[0], :, spot[1]].tolist())))
        drawn = action_draw(self._key, self._decisions)
        self._decisions += 1
        return bisect_right(sums, drawn * sums[-1])

    def q(self, observation: object) -> NDArray[np.float32]:
        """Return the values of all actions, in the order of `actions`."""
        cell, state = self._spot(observation)
        return self._values[cell, :, state].copy()

    def _weights(self, values: list[float]) -> list[float]:
        """Weigh actions: only the best ones, or by softmax."""
        best = max(values)
        if self.temperature is None:
            return [float(value == best) for value in values]
        return [math.exp((value - best) / self.temperature) for value in values]

    def _spot(self, observation: Any) -> Spot:  # noqa: ANN401 (whatever a user passes)
        """Find out in which cell and machine state the agent is."""
        try:
            if isinstance(observation, tuple):
                cell, name = observation
                spot = (
                    self._grid.cell(*map(index, cell)) if isinstance(cell, tuple) else index(cell),
                    self._states[name],
                )
                is_valid = not isinstance(cell, tuple) or 0 <= index(cell[1]) < self._grid.columns
            elif isinstance(observation, Mapping):
                spot = index(observation["world"]), index(observation["machine"])
                is_valid = True
            elif np.ndim(observation):
                first, second = np.flatnonzero(observation).tolist()
                spot = first, second - self._grid.cells
                is_valid = len(observation) == self._grid.cells + len(self._states)
            else:
                spot = divmod(index(observation), len(self._states))
                is_valid = True
        except (TypeError, ValueError, KeyError):
            is_valid = False
        if not is_valid or not (0 <= spot[0] < self._grid.cells and 0 <= spot[1] < len(self._states)):
            raise self._refusal(observation)
        return spot

    def _refusal(self, observation: object) -> TaskError:
        if isinstance(observation, tuple) and len(observation) == 2 and observation[1] not in [*self._states]:
            hint = known_names(str(observation[1]), self._states)
            return TaskError(
                f"state {shown(observation[1])} does not exist in the machine of {self.agent} ({hint})",
                key="observation",
            )
        rule = f"an observation of {self.agent} in this task ({self._grid.cells} cells, {len(self._states)} states)"
        return TaskError(f"{rule} or a pair (cell, state name) is needed, got {shown(observation)}", key="observation")


class TeamActors(dict[str, PolicyActor]):
    """The actors of all agents of a policy."""

    def restart(self, seed: int, episode: int = 0) -> None:
        """Let all of them draw what an episode of a seed draws."""
        for actor in self.values():
            actor.restart(seed, episode)


def make_actors(task: Task, learner: str, arrays: Arrays, temperature: float | None, seed: int) -> TeamActors:
    """Make the actors of a learner's arrays: greedy ones, or softmax at a temperature."""
    q = machine_values(task, learner, arrays)
    return TeamActors(
        (agent, PolicyActor(task, agent, q[place], temperature, seed)) for place, agent in enumerate(task.agents)
    )
