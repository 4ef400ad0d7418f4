"""What the learners' references share: an agent's world in plain Python, and the choice of an action.

Each learner has a `reference` module: its algorithm as one would write it on a page, in the paper's symbols. It is
slow, and there to be read; tests hold the compiled kernels to it.

s is a cell, a an action, u a state of the agent's reward machine, r a reward, t a training step; s_next and u_next are
the cell and the state after a step (the paper's s' and u').
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hocket import random
from hocket.task.episode import TeamEpisode
from hocket.task.individual import IndividualTable
from hocket.task.memory import memory_of
from hocket.task.task import Task


class AgentWorld(Protocol):
    """An agent with simulated teammates. Machine states are numbered, and so are cells and actions."""

    agent: int  # its place among the agents
    cells: int
    past: Sequence[int]  # of each cell as one in which a step begins: steps of the same past settle alike
    final: frozenset[int]  # machine states
    states: int  # how many there are
    starts: Sequence[int]  # cells, of which each is as likely
    initial: int
    slip_limit: int  # below which the draw of a slip makes a move slip

    def move(self, s: int, u: int, a: int, outcome: int) -> int:
        """Return the cell in which an action ends; its outcome is 0 as intended, 1 or 2 slipped."""

    def settle(self, s: int, s_next: int, u: int, draw: int) -> tuple[int, float]:
        """Return the machine state and the reward after a step between two cells, by the draw of synchronisation."""

    def outcomes(self, s: int, s_next: int, u: int) -> list[tuple[float, int, float]]:
        """List what may come of such a step: probability, machine state and reward."""


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


def training_episode(task: Task, keys: Sequence[int], t: int) -> TeamEpisode:
    """Begin an episode of a team that trains; its draws are those of the training streams from step t on."""
    episode = TeamEpisode(task, strict=False)
    episode.keys, episode.time = list(keys), t
    episode.put_at_starts()
    return episode


def remembered(task: Task, episode: TeamEpisode) -> list[int]:
    """List the agents' memories as numbers, a bit for each event that an agent may remember."""
    memory = memory_of(task)
    return [sum(1 << memory[name].index(event) for event in events) for name, events in episode.memory.items()]


def draw_start(world: AgentWorld, key: int, t: int) -> int:
    """Choose a cell to start in, for an episode that begins with step t."""
    return world.starts[random.start_draw(key, t, len(world.starts))]


def softmax(q: NDArray[np.float32], beta: float, draw: float) -> int:
    """Choose an action with probability proportional to exp(beta q)."""
    best = max(q.tolist())
    sums = list(accumulate(math.exp(beta * (value - best)) for value in q.tolist()))
    return next(a for a, total in enumerate(sums) if draw * sums[-1] < total)
