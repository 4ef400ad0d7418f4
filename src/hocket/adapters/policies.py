"""Playing episodes with policies: functions, models with `predict`, and tables for wrapped environments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hocket.adapters.convert import Action
from hocket.adapters.observations import Observation
from hocket.adapters.team import TeamEnv, team_env
from hocket.adapters.wrap import WrappedTeam
from hocket.arguments import whole
from hocket.errors import SettingsError, require_known
from hocket.learn.actors import TeamActors, key_text, observation_key, read_table
from hocket.learn.catalogue import find_learner
from hocket.learn.learner import Arrays, PolicyInput
from hocket.learn.policies import Policy
from hocket.learn.reference import softmax
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.random import TEAM, action_draw, stream_key
from hocket.study.records import KINDS, Replay, TestSummary
from hocket.task.memory import default_memory, determined_events, precondition
from hocket.task.task import Task

NO_CELL = -1  # the cell in an environment without cells
EPISODES = 100  # of a test
MOST_TEAM_STATES = 10_000  # of the team machine, for agents that act as one


class TeamEnvironment(Protocol):
    """A PettingZoo ParallelEnv whose agents have machines: `team_env`, or another one with this protocol.

    An agent's info has `machine_state`, and `events` that took effect, in their order; `cell` if there are cells. For
    replays, an attribute `where` has the agents' positions (x, y), across and down from the map's corner.
    """

    possible_agents: list[str]
    agents: list[str]

    @property
    def machines(self) -> Mapping[str, RewardMachine]: ...

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]: ...

    def step(self, actions: dict[str, Action]) -> tuple[Any, Any, Any, Any, Any]: ...


class Model(Protocol):
    """A model of another library, with the method of Stable-Baselines3."""

    def predict(self, observation: Observation, *, deterministic: bool = False) -> tuple[Action, Any]:
        """Choose an action."""


Actor = Callable[[Observation], Action]
Policies = Mapping[str, Actor | Model] | Policy  # of each agent, or of all


class PlayedEpisode(NamedTuple):
    """A played episode of N agents and T steps; [T + 1] includes the start."""

    agents: tuple[str, ...]
    cells: NDArray[np.int64]  # [T + 1, N]; -1 in an environment without cells
    states: tuple[tuple[str, ...], ...]  # [T + 1][N] of the agents' machines
    events: tuple[tuple[str, ...], ...]  # [T] that took effect in each step
    finish: tuple[int, ...]  # [N] the step in which each agent's machine was first final; -1: never
    success: bool  # whether all machines were final at the end
    points: NDArray[np.float64] | None  # [T + 1, N, 2] positions, across and down, if they are known
    returns: tuple[float, ...] = ()  # [N] of each agent's machine; empty if only completion is rewarded
    proposed: tuple[tuple[tuple[str, ...], ...], ...] = ()  # [T][N] by each agent in each step, if known

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.events)

    @property
    def replay(self) -> Replay | None:
        """The episode as reports show it; None if positions are not known."""
        if self.points is None:
            return None
        events = [(step, event) for step, happened in enumerate(self.events, start=1) for event in happened]
        return Replay(self.success, self.points, self.states, tuple(events))


def play_episode(
    env: TeamEnvironment,
    policies: Mapping[str, Actor | Model] | Policy,
    seed: int | None = None,
    *,
    greedy: bool = False,
    max_steps: int | None = None,
) -> PlayedEpisode:
    """Play an episode: the first one of a seed, or without a seed the next one.

    `policies` has a function or a model with `predict` for each agent, or is a `Policy` for all agents, which draws
    actions in `team_env` as in the same episode of tests. `predict` is called as deterministic if `greedy`. The episode
    ends when all machines are final, after `max_steps`, or when the environment ends it.
    """
    team = make_team_actors(env, policies, greedy) if isinstance(policies, Policy) else policies
    actors = as_actors(env, team, greedy)
    names, machines = tuple(env.machines), env.machines  # agents outside of the team may act, too
    observations, infos = env.reset(seed=seed)
    if isinstance(team, TeamActors) and isinstance(env, TeamEnv) and env.episode_seed is not None:
        team.restart(env.episode_seed, env.number)
    all_infos, step_infos = [infos], list[Mapping[str, Mapping[str, Any]]]()
    positions = [getattr(env, "where", None) or {}]
    definition = getattr(env, "task", None) or getattr(env, "decomposition", None)
    rewarded = names if definition is not None and not definition.machine.has_completion_rewards else ()
    while env.agents and not _is_done(machines, infos) and (max_steps is None or len(step_infos) < max_steps):
        observations, *_, new_infos = env.step({name: actors[name](observations[name]) for name in env.agents})
        infos = {**infos, **new_infos}  # agents that have left keep their last ones
        all_infos.append(infos)
        positions.append({**positions[-1], **(getattr(env, "where", None) or {})})
        step_infos.append(new_infos)
    traces = {name: [event for step in step_infos for event in _events_of(step.get(name, {}))] for name in rewarded}
    states = tuple(tuple(infos[name]["machine_state"] for name in names) for infos in all_infos)
    is_final = [[state in machines[name].final for name, state in zip(names, row, strict=True)] for row in states]
    are_known = {*names} <= positions[0].keys()
    return PlayedEpisode(
        agents=names,
        cells=np.array([[infos[name].get("cell", NO_CELL) for name in names] for infos in all_infos], np.int64),
        states=states,
        events=tuple(_merge_events([_events_of(info) for info in step.values()]) for step in step_infos),
        finish=tuple(column.index(True) if any(column) else -1 for column in zip(*is_final, strict=True)),
        success=_is_done(machines, infos),
        points=np.array([[row[name] for name in names] for row in positions]) if are_known else None,
        returns=tuple(machines[name].run(trace, undefined="stay").reward for name, trace in traces.items()),
        proposed=tuple(tuple(step.get(name, {}).get("proposed", ()) for name in names) for step in step_infos),
    )


def make_team_actors(env: TeamEnvironment, policy: Policy, greedy: bool) -> Mapping[str, Actor]:
    """Convert a trained policy to a function for each agent; the environment must have the policy's task."""
    if "seen.0" in policy.arrays:
        if not isinstance(env, WrappedTeam):
            raise SettingsError(f"this policy was learnt in the wrapped environment {policy.task} and fits no other")
        policy.require_task(env.scene.digest)
        temperature = None if greedy else float(policy.settings["temperature"])
        team = TEAMS[find_learner(policy.learner).policy_input]
        return team(env, policy.arrays, temperature, policy.seed).actors
    if isinstance(env, TeamEnv):
        policy.require_task(env.task.digest)
        policy = replace(policy, definition=env.task)
    return policy.actors(greedy)


def _events_of(info: Mapping[str, Any]) -> Sequence[str]:
    """Return the events that took effect: `events`, or from an environment with one at a time `event`."""
    last = info.get("event")
    events: Sequence[str] = info.get("events", () if last is None else (last,))
    return events


def _merge_events(heard: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Merge the events that agents heard in a step, each as often as in the list that has it most often.

    >>> _merge_events([("a", "meet"), ("meet", "b")])
    ('a', 'meet', 'b')
    """
    happened: list[str] = []
    for events in heard:
        position = 0
        for event in events:
            if event in happened[position:]:
                position = happened.index(event, position)
            else:
                happened.insert(position, event)
            position += 1
    return tuple(happened)


def play_tests(
    world: Task | TeamEnvironment,
    policies: Mapping[str, Actor | Model] | Policy,
    episodes: int = EPISODES,
    *,
    greedy: bool = True,
    seed: int = 0,
    max_steps: int | None = None,
) -> TestSummary:
    """Play episodes 0, 1, ... of a seed, and count successes and visits of cells; record a replay of the first one."""
    whole(episodes, "episodes", 1)
    env, episodes_played = play_episodes(world, policies, episodes, greedy, seed, max_steps)
    played = list(episodes_played)
    kind, visits = KINDS[greedy], np.zeros((len(env.machines), 0), np.int64)  # in an environment without cells
    if isinstance(env, TeamEnv):  # after each step
        paths = np.concatenate([episode.cells[1:] for episode in played])  # [steps, N]
        visits = np.stack([np.bincount(path, minlength=env.task.grid.cells) for path in paths.T])
    return TestSummary(
        episodes,
        sum(episode.success for episode in played),
        tuple((np.array([episode.finish for episode in played]) >= 0).sum(axis=0).tolist()),
        visits,
        {} if played[0].replay is None else {kind: played[0].replay},
        kind,
        tuple(np.mean([episode.returns for episode in played], axis=0).tolist()) if played[0].returns else (),
    )


def play_episodes(
    world: Task | TeamEnvironment, policies: Policies, episodes: int, greedy: bool, seed: int, max_steps: int | None
) -> tuple[TeamEnvironment, Iterator[PlayedEpisode]]:
    """Return the environment of a team, and an iterator that plays episodes 0, 1, ... of a seed."""
    env = team_env(world) if isinstance(world, Task) else world
    team = make_team_actors(env, policies, greedy) if isinstance(policies, Policy) else policies
    seeds = (None if number else seed for number in range(episodes))  # without a seed, the next episode follows
    return env, (play_episode(env, team, start, greedy=greedy, max_steps=max_steps) for start in seeds)


def as_actors(env: TeamEnvironment, policies: Mapping[str, Actor | Model], greedy: bool) -> dict[str, Actor]:
    """Convert each policy to a function; require one for each agent."""
    for name in policies:
        require_known(name, env.possible_agents, "agent")
    for name in env.possible_agents:
        if name not in policies:
            raise SettingsError(f"every agent needs a policy, got none for {name}")
    return {name: _as_actor(name, policy, greedy) for name, policy in policies.items()}


def _as_actor(name: str, policy: object, greedy: bool) -> Actor:
    predict = getattr(policy, "predict", None)
    if callable(predict):
        return lambda observation: predict(observation, deterministic=greedy)[0]
    if callable(policy):
        return policy
    raise SettingsError(f"a policy is a function or has predict(), got {type(policy).__name__} for {name}")


def _is_done(machines: Mapping[str, RewardMachine], infos: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(infos[name]["machine_state"] in machine.final for name, machine in machines.items())


# Teams that have learnt tables over observations in a wrapped environment.


class TeamActions:
    """The numbered actions of a team in a wrapped environment."""

    def __init__(self, env: WrappedTeam) -> None:
        self.env, self.names = env, list(env.machines)
        acts = [cast("spaces.Discrete", env.action_space(agent)) for agent in self.names]
        self.action_counts, self._first = [int(space.n) for space in acts], [int(space.start) for space in acts]

    def actions_by_agent(self, numbers: Sequence[int]) -> dict[str, Action]:
        """Return the actions of all present agents; agents outside of the team act at random."""
        team = {name: self._first[index] + numbers[index] for index, name in enumerate(self.names)}
        return {name: team[name] if name in team else self.env.action_space(name).sample() for name in self.env.agents}


class TeamMemory:
    """The memories of agents without machines in a wrapped environment, and their options. Agents remember the events
    that must have happened in the present state of their machine. The goal of an option is an event that the agent
    controls; it is available once the event that always precedes it has happened."""

    def __init__(self, env: WrappedTeam) -> None:
        self.env, self.names = env, list(env.machines)
        controllers, machines = env.synchronisation.controllers, env.machines
        self.events = [[e for e in machine.events if name in controllers[e]] for name, machine in machines.items()]
        self.memory_of_state, self._precondition_bits = [], list[list[int | None]]()
        for machine, events in zip(machines.values(), self.events, strict=True):
            order = {event: number for number, event in enumerate(machine.events)}
            remembered, determined = default_memory(machine, order), determined_events(machine, order)
            known = {event: determined[event] for event in remembered}
            flags = np.array([*known.values()], np.int64).reshape(len(known), len(machine.states))
            self.memory_of_state.append((1 << np.arange(len(known))) @ flags)  # [U]
            preconditions = [precondition(machine, known, event) for event in events]
            self._precondition_bits.append([None if e is None else remembered.index(e) for e in preconditions])
        self.memory_count = 1 + max(int(numbers.max()) for numbers in self.memory_of_state)
        self.option_count = max(map(len, self.events))

    def memory_number(self, agent: int) -> int:
        """Return the number of an agent's memory."""
        return int(self.memory_of_state[agent][self.env.state_number(self.names[agent])])

    def available(self, agent: int, memory: int) -> list[int]:
        """List the available options of an agent; all of them if none is, because it has to choose one."""
        bits = enumerate(self._precondition_bits[agent])
        return [option for option, bit in bits if bit is None or memory >> bit & 1] or [*range(len(self.events[agent]))]

    def terminated_options(self, agent: int) -> Collection[int]:
        """List the options whose events were named in the last step."""
        named = self.env.named.get(self.names[agent], ())
        return {option for option, event in enumerate(self.events[agent]) if event in named}


class TeamStates:
    """The reachable states of a team machine, numbered, each with the states of the agents' machines."""

    def __init__(self, env: WrappedTeam) -> None:
        self.env = env
        team: Any = env.decomposition.machine
        initial = {agent: machine.initial for agent, machine in env.machines.items()}
        self.local: dict[Any, Mapping[str, str]] = {team.initial: initial}
        self.states = [team.initial]
        for state in self.states:  # grows during the loop
            for event in team.events:
                successor = team.step(state, event)
                if successor is not None and successor not in self.local:
                    local, knowers = self.local[state], env.synchronisation.knowers[event]
                    moved = {agent: env.machines[agent].transitions[local[agent], event] for agent in knowers}
                    self.local[successor] = {**local, **moved}
                    self.states.append(successor)
            if len(self.states) > MOST_TEAM_STATES:
                raise SettingsError(f"agents as one need a team machine of at most {MOST_TEAM_STATES:,} states")
        self.index_of = {state: number for number, state in enumerate(self.states)}
        is_final = team.is_final if isinstance(team, Composition) else team.final.__contains__
        self.final = frozenset(number for state, number in self.index_of.items() if is_final(state))

    def current_key_and_state(self) -> tuple[Hashable, int]:
        """Return a key of all agents' observations (None: the agent has left), and the number of the team's state."""
        observations = [self.env.seen.get(agent) for agent in self.env.machines]
        return observation_key(observations), self.index_of[self.env.team_state]


class LearntTeam(TeamActions):
    """A team that acts by tables over observations and machine states, at random after unknown observations."""

    def __init__(self, env: WrappedTeam, arrays: Arrays, temperature: float | None, seed: int = 0) -> None:
        super().__init__(env)
        self.beta = None if temperature is None else 1 / temperature
        self.load(arrays)
        self.restart(seed)

    def load(self, arrays: Arrays) -> None:
        self.read_tables(arrays, "q", [len(machine.states) for machine in self.env.machines.values()])

    def read_tables(self, arrays: Arrays, name: str, column_counts: Sequence[int]) -> None:
        """Read a table for each agent, with a row for each of its actions, and its number of columns."""
        shapes = enumerate(zip(self.action_counts, column_counts, strict=True))
        self.tables = [read_table(arrays, name, agent, shape) for agent, shape in shapes]

    def restart(self, seed: int, episode: int = 0) -> None:
        """Begin the random numbers of an episode of a seed."""
        self._stream, self._draws, self._chosen = stream_key(TEAM, seed, 0, episode), 0, dict[str, Action]()

    @property
    def actors(self) -> dict[str, Callable[[Any], Action]]:
        """A function for each agent, to be called once per step; it reads the observations from the environment."""
        return {agent: partial(self._act, agent) for agent in self.env.possible_agents}

    def _act(self, agent: str, _: object) -> Action:
        if agent not in self._chosen:
            self._chosen = self.actions_by_agent(self.choose())
        return self._chosen.pop(agent)

    def choose(self) -> Sequence[int]:
        """Choose an action for each agent of the team."""
        chosen = []
        for agent, name in enumerate(self.names):
            column, key = self.column(agent), observation_key(self.env.seen.get(name))
            row = self.tables[agent].get(key_text(key))
            values = np.zeros(self.action_counts[agent], np.float32) if row is None else row[:, column]
            chosen.append(self.sample(values))
        return chosen

    def column(self, agent: int) -> int:
        """Choose the column of an agent's table, here the state of its machine."""
        return self.env.state_number(self.names[agent])

    def sample(self, values: NDArray[np.float32]) -> int:
        """Draw an index by softmax, or uniformly from the best if there is no temperature."""
        self._draws += 1
        return softmax(values, self.beta, action_draw(self._stream, self._draws))


class MemoryTeam(LearntTeam):
    """A team whose agents act by their observations and memories."""

    def load(self, arrays: Arrays) -> None:
        self.memory = TeamMemory(self.env)
        self.read_tables(arrays, "q", [self.memory.memory_count] * len(self.names))

    def column(self, agent: int) -> int:
        return self.memory.memory_number(agent)


class OptionTeam(LearntTeam):
    """A team whose agents choose options by their memories, and actions by their observations and options."""

    def load(self, arrays: Arrays) -> None:
        self.memory = TeamMemory(self.env)
        self.read_tables(arrays, "low", [self.memory.option_count] * len(self.names))
        self.meta = [arrays.get(f"meta.{agent}", np.zeros(0, np.float32)) for agent in range(len(self.names))]
        if any(values.shape != (self.memory.memory_count, self.memory.option_count) for values in self.meta):
            raise SettingsError("this policy does not fit the machines of this environment")
        self.current: list[int | None] = [None] * len(self.names)

    def column(self, agent: int) -> int:
        option = self.current[agent]
        if option is None or self.env.time == 0 or option in self.memory.terminated_options(agent):
            memory = self.memory.memory_number(agent)
            options = self.memory.available(agent, memory)
            option = self.current[agent] = options[self.sample(self.meta[agent][memory, options])]
        return option


class JointTeam(LearntTeam):
    """A team that acts as one, by the observations of all of its agents and the state of the team machine."""

    def load(self, arrays: Arrays) -> None:
        self.team_states = TeamStates(self.env)
        self.table = read_table(arrays, "q", 0, (prod(self.action_counts), len(self.team_states.states)))

    def choose(self) -> Sequence[int]:
        key, state = self.team_states.current_key_and_state()
        row = self.table.get(key_text(key))
        values = np.zeros(prod(self.action_counts), np.float32) if row is None else row[:, state]
        return [int(action) for action in np.unravel_index(self.sample(values), self.action_counts)]


TEAMS = {
    PolicyInput.MACHINE: LearntTeam,
    PolicyInput.MEMORY: MemoryTeam,
    PolicyInput.OPTION: OptionTeam,
    PolicyInput.TEAM: JointTeam,
}
