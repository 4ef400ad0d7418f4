"""Centralised q-learning with the team's reward machine, in plain Python: all agents act as one.

The learner is `hocket.learn.reference.QrmAgent`, in a world whose cells and actions are joint cells and joint actions.

s are the cells of all agents, a is a joint action, v a state of the team's reward machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from hocket import random
from hocket.learn.reference import Experience
from hocket.task.grid import ACTIONS, slip_outcome


class JointWorld(Protocol):
    """Agents in the team world, with numbered states of the team's machine."""

    cells: int
    states: int  # how many there are
    final: frozenset[int]
    starts: Sequence[Sequence[int]]  # of each agent: cells with equal probability
    initial: int
    slip_limit: int  # below which the draw of a slip makes a move slip

    def move(self, agent: int, s: int, v: int, a: int, outcome: int) -> int:
        """Return the cell in which an agent's action ends; its outcome is 0 as intended, 1 or 2 slipped."""

    def hold_apart(self, s: tuple[int, ...], s_next: tuple[int, ...]) -> tuple[int, ...]:
        """Leave agents with bodies in their cells where they would be in each other's way."""

    def settle(self, s: tuple[int, ...], s_next: tuple[int, ...], v: int) -> tuple[int, float]:
        """Return the team state after a step between some cells, and what the step pays."""


class TeamAsOne:
    """Agents in the team world as one `SteppedWorld`, by the draws of a seed; two agents share a random number."""

    agent = 0

    def __init__(self, world: JointWorld, seed: int) -> None:
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
        """Move all agents and settle, in each state of the team machine."""
        numbers = [random.number(key, random.PER_STEP * t + 1) for key in self.keys]  # whose halves decide slips
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
