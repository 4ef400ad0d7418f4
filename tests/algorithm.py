"""Worlds as numbers, by definition and independently of a task's tables: the references of learners train in them."""

from collections.abc import Collection, Sequence

import numpy as np

import hocket as hk
from hocket import random
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.cqrm.reference import JointWorld, TeamAsOne
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.dqprm.reference import DqprmTeam
from hocket.learn.hil import HilSettings
from hocket.learn.hil.reference import HilAgent, HilTeam
from hocket.learn.iql import IqlSettings
from hocket.learn.iql.reference import IqlTeam
from hocket.learn.reference import Experience, JointStep, QrmAgent, draw_start
from hocket.machine.composition import SEPARATOR
from hocket.task.endless import StepKinds
from hocket.task.episode import TeamEpisode
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.memory import memory_of
from hocket.task.tables import compile_task
from interpreter import interpret, walk_apart
from worlds import Individual, own_states


class DefinedWorld:
    """An agent with simulated teammates (`hocket.learn.reference.TableWorld`), by definition."""

    def __init__(self, task: hk.Task, name: str, sync_probability: float = 0.3, *, literal: bool = False) -> None:
        self.world = Individual(task, name, sync_probability, literal=literal)
        self.names, self.agent = list(self.world.machine.states), self.world.index
        self.cells, self.states, self.slip_limit = task.grid.cells, len(self.names), random.threshold(task.slip)
        self.final = frozenset(map(self.names.index, self.world.over))
        self.starts, self.initial = task.agents[name].starts, self.names.index(self.world.machine.initial)
        self.past = (StepKinds.of(task, name).offset // self.cells).tolist()

    def move(self, s: int, u: int, a: int, outcome: int) -> int:
        return self.world.arrive(self.names[u], s, a, outcome)

    def settle(self, s: int, s_next: int, u: int, draw: int) -> tuple[int, float]:
        state, reward = self.world.settle(self.names[u], s_next, lambda chance: draw < random.threshold(chance), s)
        return self.names.index(state), reward

    def outcomes(self, s: int, s_next: int, u: int) -> list[tuple[float, int, float]]:
        outcomes = self.world.outcomes(self.names[u], s_next, s)
        return [(chance, self.names.index(state), reward) for chance, state, reward in outcomes]


class DefinedTeam:
    """Agents in the team world (`hocket.learn.cqrm.reference.JointWorld`), by definition."""

    def __init__(self, task: hk.Task) -> None:
        self.task, self.agents = task, [Individual(task, name) for name in task.agents]
        self.team = task.machine if isinstance(task.machine, hk.RewardMachine) else task.machine.machine()
        self.names, self.cells, self.slip_limit = list(self.team.states), task.grid.cells, random.threshold(task.slip)
        self.states, self.final = len(self.names), frozenset(map(self.names.index, self.team.final))
        self.starts = tuple(agent.starts for agent in task.agents.values())
        self.initial = self.names.index(self.team.initial)

    def local(self, v: int) -> tuple[str, ...]:
        """List the agents' states that stand for a team state."""
        is_composed = isinstance(self.task.machine, hk.Composition)
        return own_states(self.task, tuple(self.names[v].split(SEPARATOR)) if is_composed else self.names[v])

    def move(self, agent: int, s: int, v: int, a: int, outcome: int) -> int:
        return self.agents[agent].arrive(self.local(v)[agent], s, a, outcome)

    def hold_apart(self, s: tuple[int, ...], s_next: tuple[int, ...]) -> tuple[int, ...]:
        bodies = self.task.bodies
        if not bodies:
            return s_next
        regions = [{*self.task.grid.places[name]} for name in bodies] if isinstance(bodies, tuple) else None
        return tuple(walk_apart(bodies, regions or [{cell} for cell in range(self.cells)], list(s), list(s_next)))

    def settle(self, s: tuple[int, ...], s_next: tuple[int, ...], v: int) -> tuple[int, float]:
        before, cells, states = (dict(zip(self.task.agents, part, strict=True)) for part in (s, s_next, self.local(v)))
        state, reward = self.names[v], 0.0
        for events in interpret(self.task, cells, states, before)[0]:
            for event in events:
                reward += self.team.rewards[state, event]
                state = self.team.transitions[state, event]
        return self.names.index(state), reward


# Tasks as worlds that step, in which agents learn.


class SimulatedWorld:
    """An agent of a task with simulated teammates, by the draws of a seed, as a world that steps."""

    def __init__(self, world: DefinedWorld, seed: int) -> None:
        self.world, self.agent, self.actions, self.observations = world, world.agent, len(ACTIONS), world.cells
        self.states, self.final = world.states, world.final
        self.key = random.stream_key(random.TRAINING, seed, world.agent)

    def reset(self, t: int) -> tuple[int, int]:
        return draw_start(self.world, self.key, t), self.world.initial

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        outcome = slip_outcome(random.slip_draw(self.key, t), self.world.slip_limit)
        draw, experiences = random.sync_draw(self.key, t), list[Experience]()
        others = [other for other in range(self.states) if other not in {u, *self.final}] if counterfactual else []
        for state in (u, *others):
            s_next = self.world.move(s, state, a, outcome)
            u_next, r = self.world.settle(s, s_next, state, draw)
            experiences.append(Experience(state, s_next, u_next, r, u_next in self.final))
        return experiences, experiences[0].is_end


class TaskTeam:
    """The agents of a task in the team world, by the draws of a seed."""

    def __init__(self, task: hk.Task, seed: int) -> None:
        self.task, self.tables, self.names = task, compile_task(task), list(task.agents)
        self.keys = [random.stream_key(random.TRAINING, seed, agent) for agent in range(len(self.names))]
        self.actions, self.observations = [len(ACTIONS)] * len(self.names), [task.grid.cells] * len(self.names)
        self.memory = memory_of(task)
        self.memories = max(1 << len(events) for events in self.memory.values())
        self.options = self.tables.option_bit.shape[1]

    def reset(self, t: int) -> list[tuple[int, int]]:
        self.episode = TeamEpisode(self.task, strict=False)
        self.episode.keys, self.episode.time = list(self.keys), t
        self.episode.put_at_starts()
        return self._seen()

    def _seen(self) -> list[tuple[int, int]]:
        cells, memory = self.episode.cells, self.episode.memory
        bits = {name: {event: 1 << bit for bit, event in enumerate(events)} for name, events in self.memory.items()}
        return [(cells[name], sum(bits[name][event] for event in memory[name])) for name in self.names]

    def step(self, actions: Sequence[int]) -> JointStep:
        earned = sum(self.episode.earned.values())
        done = self.episode.step({name: ACTIONS[a] for name, a in zip(self.names, actions, strict=True)}).done
        reward = sum(self.episode.earned.values()) - earned if self.task.has_rewards else float(done)
        return JointStep(self._seen(), reward, done, done)

    def available(self, agent: int, m: int) -> list[int]:
        """List the options that always are, and those that come after an event that is remembered."""
        bits = enumerate(self.tables.option_bit[agent].tolist())
        return [option for option, bit in bits if bit == -1 or (bit >= 0 and m >> bit & 1)]

    def reached(self, agent: int) -> Collection[int]:
        """Look up in which targets an agent's cell is."""
        cell = self.episode.cells[self.names[agent]]
        return set(np.flatnonzero(self.tables.option_target[agent, :, cell]).tolist())


def train_team(worlds: Sequence[DefinedWorld], settings: DqprmSettings, seed: int, steps: int) -> list[QrmAgent]:
    """Train agents of a task; the `q` of each is [cells, actions, machine states]."""
    team = DqprmTeam([SimulatedWorld(world, seed) for world in worlds], settings, seed)
    for t in range(steps):
        team.train(t)
    return team.agents


def train_agent(world: DefinedWorld, settings: DqprmSettings, seed: int, steps: int) -> QrmAgent:
    """Train one agent, episode after episode."""
    return train_team([world], settings, seed, steps)[0]


def train_as_one(world: JointWorld, settings: CqrmSettings, seed: int, steps: int) -> np.ndarray:
    """Train agents as one; return q [joint cells, joint actions, team states]."""
    learner = QrmAgent(TeamAsOne(world, seed), settings, seed)
    for t in range(steps):
        learner.train(t)
    return learner.q


def train_iql(task: hk.Task, settings: IqlSettings, seed: int, steps: int) -> np.ndarray:
    """Train all agents of a task; return q [agents, cells, actions, memories]."""
    team = IqlTeam(TaskTeam(task, seed), settings, seed)
    for t in range(steps):
        team.train(t)
    return np.stack([each["q"] for each in team.learnt()])


def train_hil(task: hk.Task, settings: HilSettings, seed: int, steps: int) -> list[HilAgent]:
    """Train all agents of a task at once, in the team world."""
    team = HilTeam(TaskTeam(task, seed), settings, seed)
    for t in range(steps):
        team.train(t)
    return team.agents
