"""Worlds by definition, as numbers: what the references of learners train in, independently of a task's tables."""

import hocket as hk
from hocket import random
from hocket.machine.composition import SEPARATOR
from hocket.task.endless import Kinds
from interpreter import interpret, walk_apart
from worlds import Individual, own_states


class DefinedWorld:
    """An agent with simulated teammates (`hocket.learn.reference.IndividualWorld`), by definition."""

    def __init__(self, task: hk.Task, name: str, sync_probability: float = 0.3, *, literal: bool = False) -> None:
        self.world = Individual(task, name, sync_probability, literal=literal)
        self.names, self.agent = list(self.world.machine.states), self.world.index
        self.cells, self.states, self.slip_limit = task.grid.cells, len(self.names), random.threshold(task.slip)
        self.final = frozenset(map(self.names.index, self.world.over))
        self.starts, self.initial = task.agents[name].starts, self.names.index(self.world.machine.initial)
        self.past = (Kinds.of(task, name).offset // self.cells).tolist()

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
