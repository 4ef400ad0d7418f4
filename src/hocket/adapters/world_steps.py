"""Wrapped environments with numbered observations and actions, for plain learners, and learnt teams that play there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from math import prod
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hocket.adapters.convert import Action
from hocket.adapters.wrap_individual import IndividualView
from hocket.adapters.wrap_team import WrappedTeam
from hocket.errors import SettingsError
from hocket.learn.actors import key_text, observation_key, read_table
from hocket.learn.learner import Arrays, PolicyInput
from hocket.learn.reference import Experience, JointStep, PlainLearner, softmax
from hocket.machine.composition import Composition
from hocket.random import TEAM, action_draw, stream_key
from hocket.task.memory import derived_memory, latched_events, precondition

SEED_BITS = 31  # of the seed of an environment: some accept no more
MOST_STATES = 10_000  # of the machine of a team that acts as one
MOST_VALUES = 1_000_000  # of its actions in all these states


def world_seed(seed: int, place: int, number: int = 0) -> int:
    """Make the seed of an environment; few accept seeds as large as those of hocket."""
    return stream_key(TEAM, seed, place, number) & ((1 << SEED_BITS) - 1)


def team_key(env: WrappedTeam) -> Hashable:
    """Make a hashable key of the observations of all agents of a team; None is that of an agent that has left."""
    return observation_key([env.seen.get(agent) for agent in env.machines])


def require_discrete(agent: str, seen: spaces.Space[Any], acts: spaces.Space[Any]) -> None:
    """Refuse observations with real numbers, which hardly ever recur, and actions that are not discrete."""
    if _has_reals(seen):
        raise SettingsError(
            f"a table of values needs observations that come again, got {seen!r:.80} for {agent}: make them discrete, "
            "as gymnasium.wrappers.TransformObservation can"
        )
    if not isinstance(acts, spaces.Discrete):
        raise SettingsError(f"a table of values needs Discrete actions, got {acts!r:.80} for {agent}")


def _has_reals(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return any(map(_has_reals, space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces))
    return isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f"


Numbers = defaultdict[Hashable, int]  # the number of each observation, in order of first occurrence


class ViewSteps:
    """An agent's view of an environment, in the form that learners take (`hocket.learn.reference.SteppedWorld`)."""

    def __init__(self, view: IndividualView, seed: int, place: int, counterfactuals: bool) -> None:
        acts, machine = cast("spaces.Discrete", view.action_space), view.machine
        self.view, self.agent, self.actions, self._first = view, place, int(acts.n), int(acts.start)
        self.states, self.final = len(machine.states), frozenset(np.flatnonzero(machine.ends).tolist())
        self.seen, self._seed = Numbers(count().__next__), world_seed(seed, place)
        view.counterfactuals = counterfactuals

    @property
    def observations(self) -> int:
        """The number of different observations so far."""
        return len(self.seen)

    def reset(self, t: int) -> tuple[int, int]:
        """Begin an episode; the first one has a seed."""
        self.view.reset(seed=None if t else self._seed)
        return self._now()

    def _now(self) -> tuple[int, int]:
        return self.seen[observation_key(self.view.seen)], self.view.machine.states.index(self.view.state)

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Act; the view tells what the step would have been in other states."""
        _, reward, terminated, truncated, info = self.view.step(self._first + a)
        s_next, u_next = self._now()
        experiences = [Experience(u, s_next, u_next, reward, terminated)]
        if counterfactual:
            others = info["counterfactuals"]
            columns = (others.state, others.next_state, others.reward, others.terminated)
            for state, after, paid, is_end in zip(*(column.tolist() for column in columns), strict=True):
                experiences.append(Experience(state, s_next, after, paid, is_end))
        return experiences, terminated or truncated


class _NumberedTeam:
    """A team in a wrapped world, whose actions are numbered."""

    def __init__(self, env: WrappedTeam) -> None:
        self.env, self.names = env, list(env.machines)
        acts = [cast("spaces.Discrete", env.action_space(agent)) for agent in self.names]
        self.each, self._first = [int(each.n) for each in acts], [int(each.start) for each in acts]

    def name_actions(self, numbers: Sequence[int]) -> dict[str, Action]:
        """Give the action of everyone who is there; those who are not of the team act at random."""
        chosen = {agent: self._first[place] + numbers[place] for place, agent in enumerate(self.names)}
        there = self.env.agents
        return {agent: chosen[agent] if agent in chosen else self.env.action_space(agent).sample() for agent in there}


class _Episodes(_NumberedTeam):
    """Training episodes of a team in its world, in which tests are played, too."""

    def __init__(self, env: WrappedTeam, seed: int) -> None:
        super().__init__(env)
        self._seed, self._number, self._begun = seed, -1, -1

    @property
    def is_broken_off(self) -> bool:
        """Whether others have reset the environment since this episode began."""
        return self.env.episodes != self._begun

    def reset(self, t: int) -> Any:  # noqa: ANN401 (of one, or of each)
        """Begin the next episode; each has a seed of its own."""
        self._number += 1
        self.env.reset(seed=seed_others(self.env, world_seed(self._seed, len(self.names) + 1, self._number)))
        self._begun = self.env.episodes
        return self._now()

    def _now(self) -> Any:  # noqa: ANN401
        """Number the present observation, with the machine state or the memory."""
        raise NotImplementedError

    def act(self, actions: Sequence[int]) -> tuple[float, bool, bool]:
        """Let all present agents act; return the team's reward, whether no more can follow, and whether all is over."""
        _, rewards, terminated, _, _ = self.env.step(self.name_actions(actions))
        team = [agent for agent in self.names if agent in rewards]
        is_over = not any(agent in self.env.agents for agent in self.names)
        is_end = self.env.completed or (is_over and all(terminated[agent] for agent in team))
        return float(rewards[team[0]]), is_end, is_over


def seed_others(env: WrappedTeam, seed: int) -> int:
    """Seed the random actions of agents outside the team; return the seed."""
    for place, agent in enumerate(env.possible_agents):
        if agent not in env.machines:
            env.action_space(agent).seed(seed + place)
    return seed


class TeamMemory:
    """What agents without machines remember in a wrapped environment, and their options.

    They remember the events that must have happened in the present state of their machine. The goal of an option is an
    event that the agent controls; it is available once the event that always precedes it has happened.
    """

    def __init__(self, env: WrappedTeam) -> None:
        self.env, self.names = env, list(env.machines)
        rules, machines = env.rules, env.machines.values()
        self.events = [[event for event in machine.events if name in rules.parties[event]]
                       for name, machine in env.machines.items()]  # fmt: skip
        self.by_state, self._bits = [], list[list[int | None]]()
        for machine, events in zip(machines, self.events, strict=True):
            order = {event: place for place, event in enumerate(machine.events)}
            kept, latched = derived_memory(machine, order), latched_events(machine, order)
            flags = np.array([latched[event] for event in kept], np.int64).reshape(len(kept), len(machine.states))
            self.by_state.append((1 << np.arange(len(kept))) @ flags)  # [U]
            after = [precondition(machine, {name: latched[name] for name in kept}, event) for event in events]
            self._bits.append([None if event is None else kept.index(event) for event in after])
        self.memories = 1 + max(int(numbers.max()) for numbers in self.by_state)
        self.options = max(map(len, self.events))

    def of(self, agent: int) -> int:
        """Say what an agent remembers, as a number."""
        name = self.names[agent]
        return int(self.by_state[agent][self.env.machines[name].states.index(self.env.states[name])])

    def available(self, agent: int, m: int) -> list[int]:
        """List the available options of an agent; all of them if none is, because it has to choose one."""
        there = [option for option, bit in enumerate(self._bits[agent]) if bit is None or m >> bit & 1]
        return there or list(range(len(self.events[agent])))

    def reached(self, agent: int) -> Collection[int]:
        """List the options whose events were named in the last step."""
        named = self.env.named.get(self.names[agent], ())
        return {option for option, event in enumerate(self.events[agent]) if event in named}


class TeamSteps(_Episodes):
    """A wrapped world as a team that steps (`hocket.learn.reference.SteppedTeam`)."""

    def __init__(self, env: WrappedTeam, seed: int) -> None:
        super().__init__(env, seed)
        self.memory = TeamMemory(env)
        self.actions, self.memories, self.options = self.each, self.memory.memories, self.memory.options
        self.available, self.reached = self.memory.available, self.memory.reached
        self.seen = [Numbers(count().__next__) for _ in self.names]

    @property
    def observations(self) -> Sequence[int]:
        """The number of different observations of each agent so far."""
        return [len(seen) for seen in self.seen]

    def _now(self) -> list[tuple[int, int]]:
        keys = [observation_key(self.env.seen.get(name)) for name in self.names]
        return [(self.seen[agent][key], self.memory.of(agent)) for agent, key in enumerate(keys)]

    def step(self, actions: Sequence[int]) -> JointStep:
        """Let all agents act."""
        reward, is_end, is_over = self.act(actions)
        return JointStep(self._now(), reward, is_end, is_over)


class TeamStates:
    """The reachable states of a team machine, numbered, each with the states of the agents' machines."""

    def __init__(self, env: WrappedTeam) -> None:
        team: Any = env.decomposition.machine
        initial = {agent: machine.initial for agent, machine in env.machines.items()}
        self.local: dict[Any, Mapping[str, str]] = {team.initial: initial}
        waiting = [team.initial]
        for state in waiting:  # grows during the loop
            for event in team.events:
                after = team.step(state, event)
                if after is not None and after not in self.local:
                    local, knowers = self.local[state], env.rules.knowers[event]
                    moved = {agent: env.machines[agent].transitions[local[agent], event] for agent in knowers}
                    self.local[after] = {**local, **moved}
                    waiting.append(after)
            if len(waiting) > MOST_STATES:
                raise SettingsError(f"agents as one need a team machine of at most {MOST_STATES:,} states")
        self.states = waiting
        self.number = {state: number for number, state in enumerate(waiting)}
        is_final = team.is_final if isinstance(team, Composition) else team.final.__contains__
        self.final = frozenset(number for state, number in self.number.items() if is_final(state))


class WrappedAsOne(_Episodes):
    """A wrapped world in which all agents act as one (`hocket.learn.reference.SteppedWorld`)."""

    agent = 0

    def __init__(self, env: WrappedTeam, seed: int, counterfactuals: bool) -> None:
        super().__init__(env, seed)
        self.team, self.seen, self.actions = TeamStates(env), Numbers(count().__next__), prod(self.each)
        self.states, self.final = len(self.team.states), self.team.final
        if self.actions * self.states > MOST_VALUES:
            each = f"{self.actions:,} joint actions in {self.states:,} states of the team machine"
            raise SettingsError(f"agents as one would have too many values for each observation: {each}")
        env.counterfactuals = counterfactuals

    @property
    def observations(self) -> int:
        """The number of different observations so far."""
        return len(self.seen)

    def _now(self) -> tuple[int, int]:
        return self.seen[team_key(self.env)], self.team.number[self.env.team_state]

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Let all agents act; the labelling function says what the step would have been in other team states."""
        reward, is_end, is_over = self.act([int(part) for part in np.unravel_index(a, self.each)])
        s_next, u_next = self._now()
        experiences = [Experience(u, s_next, u_next, reward, is_end)]
        is_lost = is_end and not self.env.completed  # the world has ended
        for other in range(self.states) if counterfactual else ():
            if other != u and other not in self.final:
                after, paid = self.env.imagine(self.team.states[other], self.team.local[self.team.states[other]])
                v_next = self.team.number[after]
                experiences.append(Experience(other, s_next, v_next, paid, is_lost or v_next in self.final))
        return experiences, is_over


# What was learnt: values by observation, as the arrays of a policy and as a team that plays.


def arrays_of(learner: PlainLearner, seen: Sequence[Iterable[Hashable]]) -> Arrays:
    """Name observations and learnt values by the index of the agent, as in a policy."""
    arrays: dict[str, Any] = {}
    for place, keys in enumerate(seen):  # a line of text each
        arrays[f"seen.{place}"] = np.frombuffer("\n".join(map(key_text, keys)).encode(), np.uint8)
    for place, learnt in enumerate(learner.learnt()):
        arrays |= {f"{name}.{place}": array for name, array in learnt.items()}
    return arrays


class LearntTeam(_NumberedTeam):
    """A team that plays by tables over what each agent sees and the state of its machine.

    Where an agent has never been, it acts at random, as do agents that are not of the team.
    """

    def __init__(self, env: WrappedTeam, arrays: Arrays, temperature: float | None, seed: int = 0) -> None:
        super().__init__(env)
        self.beta = None if temperature is None else 1 / temperature
        self.read(arrays)
        self.restart(seed)

    def read(self, arrays: Arrays) -> None:
        """Read the tables."""
        states = [len(machine.states) for machine in self.env.machines.values()]
        self.read_tables(arrays, "q", states)

    def read_tables(self, arrays: Arrays, name: str, columns: Sequence[int]) -> None:
        """Read a table for each agent, over its actions and as many columns."""
        shapes = enumerate(zip(self.each, columns, strict=True))
        self.tables = [read_table(arrays, name, place, shape) for place, shape in shapes]

    def restart(self, seed: int, number: int = 0) -> None:
        """Restart the random draws, as for an episode of a seed."""
        self._key, self._draws, self._chosen = stream_key(TEAM, seed, 0, number), 0, dict[str, Action]()

    @property
    def actors(self) -> dict[str, Callable[[Any], Action]]:
        """A function for each agent of the world; they look at the world themselves."""
        return {agent: partial(self._act, agent) for agent in self.env.possible_agents}

    def _act(self, agent: str, _: object) -> Action:
        if agent not in self._chosen:
            self._chosen = self.name_actions(self.choose())
        return self._chosen.pop(agent)

    def choose(self) -> Sequence[int]:
        """Choose an action for each agent of the team."""
        return [self.draw(self.values(place, self.column(place))) for place in range(len(self.names))]

    def column(self, place: int) -> int:
        """Choose the column of an agent's table, here the state of its machine."""
        name = self.names[place]
        return self.env.machines[name].states.index(self.env.states[name])

    def values(self, place: int, column: int) -> NDArray[np.float32]:
        """Look up what an agent's actions are worth."""
        row = self.tables[place].get(key_text(observation_key(self.env.seen.get(self.names[place]))))
        return np.zeros(self.each[place], np.float32) if row is None else row[:, column]

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
        self.table = read_table(arrays, "q", 0, (prod(self.each), len(self.team.states)))

    def choose(self) -> Sequence[int]:
        row = self.table.get(key_text(team_key(self.env)))
        values = np.zeros(prod(self.each), np.float32) if row is None else row[:, self.team.number[self.env.team_state]]
        return [int(action) for action in np.unravel_index(self.draw(values), self.each)]


TEAMS = {
    PolicyInput.MACHINE: LearntTeam,
    PolicyInput.MEMORY: MemoryTeam,
    PolicyInput.OPTION: OptionTeam,
    PolicyInput.TEAM: JointTeam,
}
