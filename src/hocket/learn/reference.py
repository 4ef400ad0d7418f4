"""What the learners' references share: protocols of worlds, and q-learning with a reward machine, in plain Python.

Each learner has a `reference` module: its algorithm in the paper's symbols, written to be read. Tests compare the
compiled kernels with it, and it trains in wrapped environments: in anything that implements `SteppedWorld` or
`SteppedTeam`.

s is a cell, or the number of an observation; a an action, u a state of the agent's reward machine, m a memory, r a
reward, t a training step; s_next and u_next are s and u after a step (the paper's s' and u').
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np

from hocket import random
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.kernels.arrays import Floats
from hocket.learn.settings import Settings
from hocket.task.individual import IndividualTable

f32 = np.float32  # all values are computed in single precision, as in the kernels


class Rows(dict[int, Floats]):
    """Values by observation; those of new observations are 0."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = shape

    def __missing__(self, s: int) -> Floats:
        row = self[s] = np.zeros(self.shape, f32)
        return row

    def array(self, observations: int) -> Floats:
        """Return the values of the first so many observations as one array."""
        values = np.zeros((observations, *self.shape), f32)
        for s, row in self.items():
            values[s] = row
        return values


class Experience(NamedTuple):
    """The outcome of a step of the world in a state of the machine."""

    u: int
    s_next: int
    u_next: int
    r: float
    is_end: bool  # no reward can follow


class SteppedWorld(Protocol):
    """A world for one learner with a reward machine; observations, actions and machine states are numbers."""

    agent: int  # its index among the agents
    actions: int  # how many there are
    states: int  # of the machine
    final: frozenset[int]  # those from which no step is taken

    @property
    def observations(self) -> int:
        """How many different observations there were so far."""

    def reset(self, t: int) -> tuple[int, int]:
        """Begin an episode with step t; return an observation and a machine state."""

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Act; return the experience in the machine's state and, if `counterfactual`, those that the same step would
        have been in other states; also return whether the episode is over."""


class PlainLearner(Protocol):
    """A learner in plain Python."""

    def train(self, t: int) -> None:
        """Take training step t; if the episode is over then, begin the next one."""

    def restart(self, t: int) -> None:
        """Begin an episode with step t."""

    def learnt(self) -> list[dict[str, Floats]]:
        """Return the arrays of each agent, or of all as one, by name: [observations, ...], except `meta`."""


class QrmAgent:
    """Q-learning with a reward machine, by softmax."""

    def __init__(self, world: SteppedWorld, settings: DqprmSettings | CqrmSettings, seed: int) -> None:
        self.world, self.settings = world, settings
        self.key = random.stream_key(random.TRAINING, seed, world.agent)
        self.rows, self.waited, self.episode_steps = Rows(world.actions, world.states), 0, 0
        self.restart(0)

    @property
    def q(self) -> Floats:
        """The values: [observations, actions, machine states]."""
        return self.rows.array(self.world.observations)

    def restart(self, t: int) -> None:
        (self.s, self.u), self.episode_steps = self.world.reset(t), 0
        self.is_over = self.u in self.world.final

    def step(self, t: int) -> None:
        """Act, and update q(s, a, u): in the present machine state or, with counterfactual updates, in all of them."""
        settings, row, gamma = self.settings, self.rows[self.s], f32(self.settings.discount)
        alpha, beta = rates(settings, t)
        a = softmax(row[:, self.u], beta, random.action_draw(self.key, t))
        experiences, self.is_over = self.world.step(self.s, self.u, a, t, settings.counterfactual)
        best = {s: self.rows[s].max(axis=0) for s in {experience.s_next for experience in experiences}}
        for u, s_next, u_next, r, is_end in experiences:
            target = f32(r) if is_end else f32(r) + gamma * best[s_next][u_next]
            row[a, u] += alpha * (target - row[a, u])
        _, self.s, self.u, _, _ = experiences[0]
        self.episode_steps += 1

    def learnt(self) -> list[dict[str, Floats]]:
        return [{"q": self.q}]

    def train(self, t: int) -> None:
        if not self.is_over:
            self.step(t)
        if self.is_over or self.episode_steps >= self.settings.max_episode_steps:
            self.restart(t + 1)


class TableWorld:
    """An agent of a task with simulated teammates. Machine states are numbered, and so are cells and actions."""

    def __init__(self, table: IndividualTable) -> None:
        self.table, self.agent = table, table.place  # its index among the agents
        self.slip_limit = table.slip_limit  # below which the draw of a slip makes a move slip
        self.cells, self.states = table.cells, len(table.is_final)
        self.past = (table.offset // table.cells).tolist()  # of each cell: steps from cells with one past settle alike
        self.final = frozenset(np.flatnonzero(table.is_final).tolist())
        self.starts: Sequence[int] = tuple(table.starts.tolist())  # cells with equal probability
        self.initial = table.initial

    def move(self, s: int, u: int, a: int, outcome: int) -> int:
        """Return the cell in which an action ends; its outcome is 0 as intended, 1 or 2 slipped."""
        return int(self.table.next_cell[self.table.dynamics[u], s, a, outcome])

    def settle(self, s: int, s_next: int, u: int, draw: int) -> tuple[int, float]:
        """Return the machine state and the reward after a step between two cells, by the draw of synchronisation."""
        kind = self.table.kind[self.table.offset[s] + s_next]
        case = int((draw >= self.table.limit[u, kind]).sum())
        return int(self.table.next_state[u, kind, case]), float(self.table.reward[u, kind, case])

    def outcomes(self, s: int, s_next: int, u: int) -> list[tuple[float, int, float]]:
        """List the outcomes of such a step: probability, machine state and reward."""
        kind = self.table.kind[self.table.offset[s] + s_next]
        parts = (part[u, kind].tolist() for part in (self.table.chance, self.table.next_state, self.table.reward))
        return list(zip(*parts, strict=True))


class JointStep(NamedTuple):
    """The outcome of a step of a team."""

    seen: list[tuple[int, int]]  # each agent's observation and memory
    reward: float  # of the team
    is_end: bool  # no reward can follow
    is_over: bool  # the episode is over


class SteppedTeam(Protocol):
    """A world for agents that act together, with a memory in place of a machine."""

    actions: list[int]  # the number of actions of each agent
    memories: int  # the largest number of any agent
    options: int  # likewise; an option ends in its target

    @property
    def observations(self) -> Sequence[int]:
        """How many different observations each agent had so far."""

    def reset(self, t: int) -> list[tuple[int, int]]:
        """Begin an episode with step t; return each agent's observation and memory."""

    def step(self, actions: Sequence[int]) -> JointStep:
        """Let all agents act."""

    def available(self, agent: int, m: int) -> list[int]:
        """List the options that a memory makes available to an agent."""

    def reached(self, agent: int) -> Collection[int]:
        """List the options whose target an agent has reached."""


def draw_start(world: TableWorld, key: int, t: int) -> int:
    """Choose the start cell of an episode that begins with step t."""
    return world.starts[random.start_draw(key, t, len(world.starts))]


def rates(settings: Settings, t: int) -> tuple[np.float32, float]:
    """Compute the learning rate and the inverse temperature at training step t."""
    alpha, alpha_decay, beta, beta_growth, *_ = settings.rule
    return alpha / (f32(1) + alpha_decay * f32(t)), float(beta * (f32(1) + beta_growth * f32(t)))


def softmax(q: Floats, beta: float | None, draw: float) -> int:
    """Choose an action with probability proportional to exp(beta q), or (None) any of the best."""
    values = q.tolist()
    best = max(values)
    weights = (float(value == best) if beta is None else math.exp(beta * (value - best)) for value in values)
    sums = list(accumulate(weights))
    return bisect_right(sums, draw * sums[-1])
