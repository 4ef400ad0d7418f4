"""Worlds of tasks that step, by the draws of a seed, for the learners in plain Python; and training in them.

s is a cell, or the cells of all agents as one number; a an action, u or v a machine state, t a training step.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from algorithm import DefinedTeam, DefinedWorld
from hocket import random
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.dqprm.reference import DqprmTeam
from hocket.learn.hil import HilSettings
from hocket.learn.hil.reference import HilAgent, HilTeam
from hocket.learn.iql import IqlSettings
from hocket.learn.iql.reference import IqlTeam
from hocket.learn.reference import Experience, JointStep, PlainLearner, QrmAgent
from hocket.task.episode import TeamEpisode
from hocket.task.grid import ACTIONS, slip_outcome
from hocket.task.individual import IndividualTable
from hocket.task.memory import memory_of
from hocket.task.tables import compile_task
from hocket.task.task import Task


class TableWorld:
    """An agent with simulated teammates, read from its table."""

    def __init__(self, table: IndividualTable) -> None:
        self.table, self.agent, self.slip_limit = table, table.place, table.slip_limit
        self.cells, self.states = table.cells, len(table.is_final)
        self.past = (table.offset // table.cells).tolist()
        self.final = frozenset(np.flatnonzero(table.is_final).tolist())
        self.starts, self.initial = tuple(table.starts.tolist()), table.initial

    def move(self, s: int, u: int, a: int, outcome: int) -> int:
        """Look up the cell in which an action ends."""
        return int(self.table.next_cell[self.table.dynamics[u], s, a, outcome])

    def settle(self, s: int, s_next: int, u: int, draw: int) -> tuple[int, float]:
        """Look up the machine state and the reward after a step."""
        kind = self.table.kind[self.table.offset[s] + s_next]
        case = int((draw >= self.table.limit[u, kind]).sum())
        return int(self.table.next_state[u, kind, case]), float(self.table.reward[u, kind, case])

    def outcomes(self, s: int, s_next: int, u: int) -> list[tuple[float, int, float]]:
        """Look up what may come of a step."""
        kind = self.table.kind[self.table.offset[s] + s_next]
        parts = (part[u, kind].tolist() for part in (self.table.chance, self.table.next_state, self.table.reward))
        return list(zip(*parts, strict=True))


class SimulatedWorld:
    """An agent of a task with simulated teammates, by the draws of a seed, as a world that steps."""

    def __init__(self, world: TableWorld | DefinedWorld, seed: int) -> None:
        self.world, self.agent, self.actions, self.observations = world, world.agent, len(ACTIONS), world.cells
        self.states, self.final = world.states, world.final
        self.key = random.stream_key(random.TRAINING, seed, world.agent)

    def reset(self, t: int) -> tuple[int, int]:
        """Put the agent where the draw says."""
        starts = self.world.starts
        return starts[random.start_draw(self.key, t, len(starts))], self.world.initial

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Move and settle, in each of the machine's states."""
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

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.tables, self.names = task, compile_task(task), list(task.agents)
        self.keys = [random.stream_key(random.TRAINING, seed, agent) for agent in range(len(self.names))]
        self.actions, self.observations = [len(ACTIONS)] * len(self.names), [task.grid.cells] * len(self.names)
        self.memory = memory_of(task)
        self.memories = max(1 << len(events) for events in self.memory.values())
        self.options = self.tables.option_bit.shape[1]

    def reset(self, t: int) -> list[tuple[int, int]]:
        """Put agents where the draws say."""
        self.episode = TeamEpisode(self.task, strict=False)
        self.episode.keys, self.episode.time = list(self.keys), t
        self.episode.put_at_starts()
        return self._seen()

    def _seen(self) -> list[tuple[int, int]]:
        cells, remembered = self.episode.cells, self.episode.memory
        bits = {
            name: sum(1 << events.index(event) for event in remembered[name]) for name, events in self.memory.items()
        }
        return [(cells[name], bits[name]) for name in self.names]

    def step(self, actions: Sequence[int]) -> JointStep:
        """Let what can happen happen."""
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


class TeamAsOne:
    """Agents in the team world as one that steps, by the draws of a seed; two agents share a number."""

    agent = 0

    def __init__(self, world: DefinedTeam, seed: int) -> None:
        self.world, self.n, self.states, self.final = world, len(world.starts), world.states, world.final
        self.cells, self.each = (world.cells,) * self.n, (len(ACTIONS),) * self.n
        self.observations, self.actions = world.cells**self.n, len(ACTIONS) ** self.n
        self.keys = [random.stream_key(random.TRAINING, seed, pair) for pair in range((self.n + 1) // 2)]

    def reset(self, t: int) -> tuple[int, int]:
        """Choose cells to start in; of two agents that share a key, one adds 1 to it."""
        starts = enumerate(self.world.starts)
        cells = [cells[random.start_draw(self.keys[i // 2] + i % 2, t, len(cells))] for i, cells in starts]
        return int(np.ravel_multi_index(cells, self.cells)), self.world.initial

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Move everyone and settle, in each state of the team's machine."""
        numbers = [random.number(key, random.PER_STEP * t + 1) for key in self.keys]  # whose halves decide who slips
        halves = [half for number in numbers for half in (number >> 32, number & 0xFFFFFFFF)]
        slips = [slip_outcome(half >> 1, self.world.slip_limit) for half in halves]
        here, actions = (tuple(map(int, np.unravel_index(*part))) for part in ((s, self.cells), (a, self.each)))
        others = [other for other in range(self.states) if other not in {u, *self.final}] if counterfactual else []
        experiences = []
        for v in (u, *others):
            moved = tuple(self.world.move(i, here[i], v, actions[i], slips[i]) for i in range(self.n))
            there = self.world.hold_apart(here, moved)
            v_next, reward = self.world.settle(here, there, v)
            s_next = int(np.ravel_multi_index(there, self.cells))
            experiences.append(Experience(v, s_next, v_next, reward, v_next in self.final))
        return experiences, experiences[0].is_end


def trained(team: PlainLearner, steps: int) -> PlainLearner:
    """Train for some steps."""
    for t in range(steps):
        team.train(t)
    return team


def train_agents(
    worlds: Sequence[TableWorld | DefinedWorld], settings: DqprmSettings, seed: int, steps: int
) -> list[QrmAgent]:
    """Train agents with simulated teammates; the `q` of each is [cells, actions, machine states]."""
    return trained(DqprmTeam([SimulatedWorld(world, seed) for world in worlds], settings, seed), steps).agents


def train_agent(world: TableWorld | DefinedWorld, settings: DqprmSettings, seed: int, steps: int) -> QrmAgent:
    """Train one agent, episode after episode."""
    return train_agents([world], settings, seed, steps)[0]


def train_as_one(world: DefinedTeam, settings: CqrmSettings, seed: int, steps: int) -> NDArray[np.float32]:
    """Train agents as one; return q [joint cells, joint actions, team states]."""
    return trained(QrmAgent(TeamAsOne(world, seed), settings, seed), steps).q


def train_iql(task: Task, settings: IqlSettings, seed: int, steps: int) -> NDArray[np.float32]:
    """Train all agents of a task; return q [agents, cells, actions, memories]."""
    team = trained(IqlTeam(TaskTeam(task, seed), settings, seed), steps)
    return np.stack([each["q"] for each in team.learnt()])


def train_hil(task: Task, settings: HilSettings, seed: int, steps: int) -> list[HilAgent]:
    """Train all agents of a task at once, in the team world."""
    return trained(HilTeam(TaskTeam(task, seed), settings, seed), steps).agents
