"""What the learners' references share: worlds that step, in plain Python, and q-learning with a reward machine.

Each learner has a `reference` module: its algorithm as one would write it on a page, in the paper's symbols. It is
there to be read, tests hold the compiled kernels to it, and it trains in worlds that are not hocket's: in anything that
keeps to `SteppedWorld` or `SteppedTeam`.

s is a cell, or the number of an observation; a an action, u a state of the agent's reward machine, m a memory, r a
reward, t a training step; s_next and u_next are what s and u are after a step (the paper's s' and u').
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket import random
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.settings import Settings
from hocket.task.individual import IndividualTable

f32 = np.float32  # all values are computed in single precision, as in the kernels


class Rows(dict[int, NDArray[np.float32]]):
    """Values by observation; those of one that was never seen are 0."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = shape

    def __missing__(self, s: int) -> NDArray[np.float32]:
        row = self[s] = np.zeros(self.shape, f32)
        return row

    def array(self, observations: int) -> NDArray[np.float32]:
        """Lay them out for so many observations."""
        values = np.zeros((observations, *self.shape), f32)
        for s, row in self.items():
            values[s] = row
        return values


class Experience(NamedTuple):
    """What a step of the world means in a state of the machine."""

    u: int
    s_next: int
    u_next: int
    r: float
    is_end: bool  # nothing is to be gained afterwards


class SteppedWorld(Protocol):
    """Anything in which a learner with a reward machine can act; what it sees, does and is in is numbered."""

    agent: int  # its place among the agents
    actions: int  # how many there are
    states: int  # of the machine
    final: frozenset[int]  # those from which no step is taken

    @property
    def observations(self) -> int:
        """How many there are, so far."""

    def reset(self, t: int) -> tuple[int, int]:
        """Begin an episode with step t: an observation and a machine state."""

    def step(self, s: int, u: int, a: int, t: int, counterfactual: bool) -> tuple[list[Experience], bool]:
        """Act, and say whether the episode is over; the first experience is of the state that the machine is in.

        The others, if asked for, are what the same step would have been in other states.
        """


class PlainLearner(Protocol):
    """A learner in plain Python."""

    def train(self, t: int) -> None:
        """Take training step t, in the next episode where one is over."""

    def restart(self, t: int) -> None:
        """Begin an episode with step t."""

    def learnt(self) -> list[dict[str, NDArray[np.float32]]]:
        """Give the arrays of each agent, or of all as one, by name; [observations, ...] but for `meta`."""


class QrmAgent:
    """Q-learning with a reward machine, by softmax."""

    def __init__(self, world: SteppedWorld, settings: DqprmSettings | CqrmSettings, seed: int) -> None:
        self.world, self.settings = world, settings
        self.key = random.stream_key(random.TRAINING, seed, world.agent)
        self.rows, self.waited, self.episode_steps = Rows(world.actions, world.states), 0, 0
        self.restart(0)

    @property
    def q(self) -> NDArray[np.float32]:
        """The values: [observations, actions, machine states]."""
        return self.rows.array(self.world.observations)

    def restart(self, t: int) -> None:
        (self.s, self.u), self.episode_steps = self.world.reset(t), 0
        self.is_over = self.u in self.world.final

    def step(self, t: int) -> None:
        """Act, and update q; with counterfactual updates in all states of the machine, by the same action and draws."""
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

    def learnt(self) -> list[dict[str, NDArray[np.float32]]]:
        return [{"q": self.q}]

    def train(self, t: int) -> None:
        if not self.is_over:
            self.step(t)
        if self.is_over or self.episode_steps >= self.settings.max_episode_steps:
            self.restart(t + 1)


class TableWorld:
    """An agent of a task with simulated teammates. Machine states are numbered, and so are cells and actions."""

    def __init__(self, table: IndividualTable) -> None:
        self.table, self.agent = table, table.place  # its place among the agents
        self.slip_limit = table.slip_limit  # below which the draw of a slip makes a move slip
        self.cells, self.states = table.cells, len(table.is_final)
        self.past = (table.offset // table.cells).tolist()  # of each cell: steps that begin in one past settle alike
        self.final = frozenset(np.flatnonzero(table.is_final).tolist())
        self.starts: Sequence[int] = tuple(table.starts.tolist())  # cells, of which each is as likely
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
        """List what may come of such a step: probability, machine state and reward."""
        kind = self.table.kind[self.table.offset[s] + s_next]
        parts = (part[u, kind].tolist() for part in (self.table.chance, self.table.next_state, self.table.reward))
        return list(zip(*parts, strict=True))


class JointStep(NamedTuple):
    """What a step of a team has led to."""

    seen: list[tuple[int, int]]  # by each agent: its observation, and its memory
    reward: float  # of the team
    is_end: bool  # nothing is to be gained afterwards
    is_over: bool  # the episode is


class SteppedTeam(Protocol):
    """Anything in which agents can act together that have a memory in place of a machine."""

    actions: list[int]  # how many each agent has
    memories: int  # the most of any agent
    options: int  # likewise; an option is to reach its target

    @property
    def observations(self) -> Sequence[int]:
        """How many each agent has, so far."""

    def reset(self, t: int) -> list[tuple[int, int]]:
        """Begin an episode with step t: each agent's observation and memory."""

    def step(self, actions: Sequence[int]) -> JointStep:
        """Let all agents act."""

    def available(self, agent: int, m: int) -> list[int]:
        """List the options that a memory makes available to an agent."""

    def reached(self, agent: int) -> Collection[int]:
        """List the options of whose targets an agent is at one."""


def draw_start(world: TableWorld, key: int, t: int) -> int:
    """Choose a cell to start in, for an episode that begins with step t."""
    return world.starts[random.start_draw(key, t, len(world.starts))]


def rates(settings: Settings, t: int) -> tuple[np.float32, float]:
    """Compute the learning rate and the inverse temperature at training step t."""
    alpha, alpha_decay, beta, beta_growth, *_ = settings.rule
    return alpha / (f32(1) + alpha_decay * f32(t)), float(beta * (f32(1) + beta_growth * f32(t)))


def softmax(q: NDArray[np.float32], beta: float | None, draw: float) -> int:
    """Choose an action with probability proportional to exp(beta q), or (None) any of the best."""
    values = q.tolist()
    best = max(values)
    weights = (float(value == best) if beta is None else math.exp(beta * (value - best)) for value in values)
    sums = list(accumulate(weights))
    return bisect_right(sums, draw * sums[-1])
