"""What was learnt in wrapped worlds: values by observation, as the arrays of a policy and as a team that plays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hocket.adapters.convert import Action
from hocket.adapters.world_steps import TeamMemory, TeamStates, team_key
from hocket.adapters.wrap_team import WrappedTeam
from hocket.errors import SettingsError
from hocket.learn.actors import key_text, observation_key, read_table
from hocket.learn.catalogue import find_learner
from hocket.learn.learner import Arrays, PolicyInput
from hocket.learn.policies import Policy
from hocket.learn.reference import softmax
from hocket.random import TEAM, action_draw, stream_key


def write_seen(keys: Iterable[Hashable]) -> NDArray[np.uint8]:
    """Lay out what was seen for a policy: a line of text each."""
    return np.frombuffer("\n".join(map(key_text, keys)).encode(), np.uint8)


class LearntTeam:
    """A team that plays by tables over what each agent sees and the state of its machine.

    Where an agent has never been, it acts at random, as do agents that are not of the team.
    """

    def __init__(self, env: WrappedTeam, arrays: Arrays, temperature: float | None, seed: int = 0) -> None:
        self.env, self.names, self.beta = env, list(env.machines), None if temperature is None else 1 / temperature
        acts = [cast("spaces.Discrete", env.action_space(agent)) for agent in self.names]
        self.actions, self.first = [int(each.n) for each in acts], [int(each.start) for each in acts]
        self.read(arrays)
        self.restart(seed)

    def read(self, arrays: Arrays) -> None:
        """Read the tables."""
        states = [len(machine.states) for machine in self.env.machines.values()]
        self.read_tables(arrays, "q", states)

    def read_tables(self, arrays: Arrays, name: str, columns: Sequence[int]) -> None:
        """Read a table for each agent, over its actions and as many columns."""
        shapes = enumerate(zip(self.actions, columns, strict=True))
        self.tables = [read_table(arrays, name, place, shape) for place, shape in shapes]

    def restart(self, seed: int, number: int = 0) -> None:
        """Draw from now on what an episode of a seed draws."""
        self._key, self._draws, self._chosen = stream_key(TEAM, seed, 0, number), 0, dict[str, Action]()

    @property
    def actors(self) -> dict[str, Callable[[Any], Action]]:
        """A function for each agent of the world; they look at the world themselves."""
        return {agent: partial(self._act, agent) for agent in self.env.possible_agents}

    def _act(self, agent: str, _: object) -> Action:
        if agent not in self._chosen:
            each = zip(self.names, self.first, self.choose(), strict=True)
            chosen = {name: first + action for name, first, action in each}
            others = [other for other in self.env.agents if other not in chosen]
            self._chosen = chosen | {other: self.env.action_space(other).sample() for other in others}
        return self._chosen.pop(agent)

    def choose(self) -> Sequence[int]:
        """Choose an action for each agent of the team."""
        return [self.draw(self.values(place, self.column(place))) for place in range(len(self.names))]

    def column(self, place: int) -> int:
        """Say what an agent goes by beside what it sees."""
        name = self.names[place]
        return self.env.machines[name].states.index(self.env.states[name])

    def values(self, place: int, column: int) -> NDArray[np.float32]:
        """Look up what an agent's actions are worth."""
        row = self.tables[place].get(key_text(observation_key(self.env.seen.get(self.names[place]))))
        return np.zeros(self.actions[place], np.float32) if row is None else row[:, column]

    def draw(self, values: NDArray[np.float32]) -> int:
        """Choose by softmax, or any of the best."""
        self._draws += 1
        return softmax(values, self.beta, action_draw(self._key, self._draws))


class MemoryTeam(LearntTeam):
    """A team whose agents go by what they see and remember."""

    def read(self, arrays: Arrays) -> None:
        self.memory = TeamMemory(self.env)
        self.read_tables(arrays, "q", [self.memory.memories] * len(self.names))

    def column(self, place: int) -> int:
        return self.memory.of(place)


class OptionTeam(MemoryTeam):
    """A team whose agents choose options by what they remember, and actions by what they see and their option."""

    def read(self, arrays: Arrays) -> None:
        self.memory = TeamMemory(self.env)
        self.read_tables(arrays, "low", [self.memory.options] * len(self.names))
        self.meta = [arrays.get(f"meta.{place}", np.zeros(0, np.float32)) for place in range(len(self.names))]
        if any(values.shape != (self.memory.memories, self.memory.options) for values in self.meta):
            raise SettingsError("this policy does not fit the machines of this world")
        self.current: list[int | None] = [None] * len(self.names)

    def column(self, place: int) -> int:
        option = self.current[place]
        if option is None or self.env.time == 0 or option in self.memory.reached(place):
            m = self.memory.of(place)
            options = self.memory.available(place, m)
            option = self.current[place] = options[self.draw(self.meta[place][m, options])]
        return option


class JointTeam(LearntTeam):
    """A team that acts as one, by what all of its agents see and the state of the team machine."""

    def read(self, arrays: Arrays) -> None:
        self.team = TeamStates(self.env)
        self.table = read_table(arrays, "q", 0, (prod(self.actions), len(self.team.states)))

    def choose(self) -> Sequence[int]:
        row = self.table.get(key_text(team_key(self.env)))
        values = np.zeros(prod(self.actions), np.float32) if row is None else row[:, self.team.of(self.env)]
        return [int(action) for action in np.unravel_index(self.draw(values), self.actions)]


TEAMS = {
    PolicyInput.MACHINE: LearntTeam,
    PolicyInput.MEMORY: MemoryTeam,
    PolicyInput.OPTION: OptionTeam,
    PolicyInput.TEAM: JointTeam,
}


def table_actors(env: object, policy: Policy, greedy: bool) -> dict[str, Callable[[Any], Action]]:
    """Make functions of what was learnt in a wrapped world, for all of its agents."""
    if not isinstance(env, WrappedTeam):
        raise SettingsError(f"this policy was learnt in a wrapped world, {policy.task}, and plays nowhere else")
    policy.require_task(env.scene.digest)
    temperature = None if greedy else float(policy.settings["temperature"])
    team = TEAMS[find_learner(policy.learner).policy_input]
    return team(env, policy.arrays, temperature, policy.seed).actors
