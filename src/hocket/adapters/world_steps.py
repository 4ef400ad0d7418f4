"""Wrapped worlds as the learners' plain forms take them: what agents see, do and remember, by numbers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from hocket.adapters.wrap_individual import IndividualView
from hocket.adapters.wrap_team import WrappedTeam
from hocket.errors import SettingsError
from hocket.learn.actors import observation_key
from hocket.learn.reference import Experience, JointStep
from hocket.machine.composition import Composition
from hocket.random import TEAM, stream_key
from hocket.task.memory import derived_memory, latched_events, precondition

SEED_BITS = 31  # of the seed of a world: some take no more
MOST_STATES = 10_000  # of the machine of a team that acts as one
MOST_VALUES = 1_000_000  # of its actions in all these states


def world_seed(seed: int, place: int, number: int = 0) -> int:
    """Make the seed of a world, which few take as large as hocket does."""
    return stream_key(TEAM, seed, place, number) & ((1 << SEED_BITS) - 1)


def team_key(env: WrappedTeam) -> Hashable:
    """Make something hashable of what all agents of a team see; one that is gone sees nothing."""
    return observation_key([env.seen.get(agent) for agent in env.machines])


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


class SeenNumbers(dict[Hashable, int]):
    """Numbers what was seen, in the order in which it was seen first."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class ViewSteps:
    """An agent's view of a world, as one that steps (`hocket.learn.reference.SteppedWorld`)."""

    def __init__(self, view: IndividualView, seed: int, place: int, counterfactuals: bool) -> None:
        acts, machine = cast("spaces.Discrete", view.action_space), view.machine
        self.view, self.agent, self.actions, self._first = view, place, int(acts.n), int(acts.start)
        self.states, self.final = len(machine.states), frozenset(np.flatnonzero(machine.ends).tolist())
        self.seen, self._seed = SeenNumbers(), world_seed(seed, place)
        view.counterfactuals = counterfactuals

    @property
    def observations(self) -> int:
        """How many there are so far."""
        return len(self.seen)

    def reset(self, t: int) -> tuple[int, int]:
        """Begin an episode; the first one has a seed."""
        self.view.reset(seed=None if t else self._seed)
        return self._now()

    def _now(self) -> tuple[int, int]:
        return self.seen[observation_key(self.view.seen)], self.view.machine.states.index(self.view.state)

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Act; what the step would have been in other states is the view's to say."""
        _, reward, terminated, truncated, info = self.view.step(self._first + a)
        s_next, u_next = self._now()
        experiences = [Experience(u, s_next, u_next, reward, terminated)]
        if counterfactual:
            others = info["counterfactuals"]
            columns = (others.state, others.next_state, others.reward, others.terminated)
            for state, after, paid, is_end in zip(*(column.tolist() for column in columns), strict=True):
                experiences.append(Experience(state, s_next, after, paid, is_end))
        return experiences, terminated or truncated


class _Episodes:
    """Training episodes of a team in its world, in which tests are played, too."""

    def __init__(self, env: WrappedTeam, seed: int) -> None:
        self.env, self.names, self._seed, self._number, self._begun = env, list(env.machines), seed, -1, -1
        spaces_of = [cast("spaces.Discrete", env.action_space(agent)) for agent in self.names]
        self.each, self._first = [int(acts.n) for acts in spaces_of], [int(acts.start) for acts in spaces_of]

    @property
    def is_broken_off(self) -> bool:
        """Whether somebody else has played in the world since."""
        return self.env.episodes != self._begun

    def begin(self) -> None:
        """Begin the next episode; each has a seed of its own."""
        self._number += 1
        self.env.reset(seed=seed_others(self.env, world_seed(self._seed, len(self.names) + 1, self._number)))
        self._begun = self.env.episodes

    def act(self, actions: Sequence[int]) -> tuple[float, bool, bool]:
        """Let everyone act who is there: the team's reward, whether nothing more is to be gained, and all is over."""
        each = zip(self.names, self._first, actions, strict=True)
        chosen = {agent: first + action for agent, first, action in each if agent in self.env.agents}
        for agent in self.env.agents:
            if agent not in self.env.machines:
                chosen[agent] = self.env.action_space(agent).sample()
        _, rewards, terminated, _, _ = self.env.step(chosen)
        team = [agent for agent in self.names if agent in rewards]
        is_over = not any(agent in self.env.agents for agent in self.names)
        is_end = self.env.completed or (is_over and all(terminated[agent] for agent in team))
        return float(rewards[team[0]]), is_end, is_over


def seed_others(env: WrappedTeam, seed: int) -> int:
    """Let those who are not of the team do the same in each episode of a seed; return it."""
    for place, agent in enumerate(env.possible_agents):
        if agent not in env.machines:
            env.action_space(agent).seed(seed + place)
    return seed


class TeamMemory:
    """What agents without machines go by in a wrapped world.

    They remember the events of which the state of their machine tells that they have happened. An option is to bring
    about that an event is named which the agent controls; it is there once what always comes before has happened.
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
        """List the options of an agent; all of them where none is there yet, for it has to do something."""
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
        self.seen = [SeenNumbers() for _ in self.names]

    @property
    def observations(self) -> Sequence[int]:
        """How many each agent has, so far."""
        return [len(seen) for seen in self.seen]

    def reset(self, t: int) -> list[tuple[int, int]]:
        """Begin an episode."""
        self.begin()
        return self._now()

    def _now(self) -> list[tuple[int, int]]:
        keys = [observation_key(self.env.seen.get(name)) for name in self.names]
        return [(self.seen[agent][key], self.memory.of(agent)) for agent, key in enumerate(keys)]

    def step(self, actions: Sequence[int]) -> JointStep:
        """Let all agents act."""
        reward, is_end, is_over = self.act(actions)
        return JointStep(self._now(), reward, is_end, is_over)


class TeamStates:
    """The states that a team machine can reach, by number, and those of the agents' machines that stand for each."""

    def __init__(self, env: WrappedTeam) -> None:
        team: Any = env.decomposition.machine
        initial = {agent: machine.initial for agent, machine in env.machines.items()}
        self.local: dict[Any, Mapping[str, str]] = {team.initial: initial}
        waiting = [team.initial]
        for state in waiting:  # which grows
            for event in team.events:
                after = team.step(state, event)
                if after is not None and after not in self.local:
                    local = dict(self.local[state])
                    for agent in env.rules.knowers[event]:
                        local[agent] = env.machines[agent].transitions[local[agent], event]
                    self.local[after] = local
                    waiting.append(after)
            if len(waiting) > MOST_STATES:
                raise SettingsError(f"agents as one need a team machine of at most {MOST_STATES:,} states")
        self.states = waiting
        self.number = {state: number for number, state in enumerate(waiting)}
        is_final = team.is_final if isinstance(team, Composition) else team.final.__contains__
        self.final = frozenset(number for state, number in self.number.items() if is_final(state))

    def of(self, env: WrappedTeam) -> int:
        """Say in which state the team machine is."""
        return self.number[env.team_state]


class WrappedAsOne(_Episodes):
    """A wrapped world in which all agents act as one (`hocket.learn.reference.SteppedWorld`)."""

    agent = 0

    def __init__(self, env: WrappedTeam, seed: int, counterfactuals: bool) -> None:
        super().__init__(env, seed)
        self.team, self.seen, self.actions = TeamStates(env), SeenNumbers(), prod(self.each)
        self.states, self.final = len(self.team.states), self.team.final
        if self.actions * self.states > MOST_VALUES:
            each = f"{self.actions:,} joint actions in {self.states:,} states of the team machine"
            raise SettingsError(f"agents as one would have too many values for each observation: {each}")
        env.counterfactuals = counterfactuals

    @property
    def observations(self) -> int:
        """How many there are so far."""
        return len(self.seen)

    def reset(self, t: int) -> tuple[int, int]:
        """Begin an episode."""
        self.begin()
        return self._now()

    def _now(self) -> tuple[int, int]:
        return self.seen[team_key(self.env)], self.team.of(self.env)

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
