"""Centralised q-learning with the team's reward machine, as one would write it on a page: two agents act as one.

s is a pair of cells, a a pair of actions, v a state of the team's reward machine.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hocket import random
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.reference import softmax
from hocket.task.grid import ACTIONS, slip_outcome

f32 = np.float32  # all is computed in single precision, as in the kernel


class JointWorld(Protocol):
    """Two agents in the team world, with numbered states of the team's machine."""

    cells: int
    states: int  # how many there are
    final: frozenset[int]
    start: tuple[int, int]
    initial: int
    slip_limit: int  # below which the draw of a slip makes a move slip

    def move(self, agent: int, s: int, v: int, a: int, outcome: int) -> int:
        """Return the cell in which an agent's action ends; its outcome is 0 as intended, 1 or 2 slipped."""

    def settle(self, s_next: tuple[int, int], v: int) -> int:
        """Return the team state after a step that ends in two cells."""


def train_pair(world: JointWorld, settings: CqrmSettings, seed: int, steps: int) -> NDArray[np.float32]:
    """Train two agents as one; return q [pairs of cells, pairs of actions, team states]."""
    key = random.stream_key(random.TRAINING, seed, 0)
    q = np.zeros((world.cells**2, len(ACTIONS) ** 2, world.states), f32)
    alpha, gamma, beta = f32(settings.learning_rate), f32(settings.discount), 1 / settings.temperature
    s, v, episode_steps = world.start, world.initial, 0
    for t in range(steps):
        here = s[0] * world.cells + s[1]
        a = softmax(q[here, :, v], beta, random.action_draw(key, t))
        number = random.number(key, random.PER_STEP * t + 1)  # its halves decide who slips
        slips = [slip_outcome(half >> 1, world.slip_limit) for half in (number >> 32, number & 0xFFFFFFFF)]
        best, following = q.max(axis=1), (s, v)
        for u in range(world.states):
            if u in world.final or not (settings.counterfactual or u == v):
                continue
            one, other = (world.move(i, s[i], u, divmod(a, len(ACTIONS))[i], slips[i]) for i in (0, 1))
            u_next = world.settle((one, other), u)
            target = f32(u_next in world.final) + gamma * best[one * world.cells + other, u_next]
            q[here, a, u] += alpha * (target - q[here, a, u])
            if u == v:
                following = (one, other), u_next
        (s, v), episode_steps = following, episode_steps + 1
        if v in world.final or episode_steps >= settings.max_episode_steps:
            s, v, episode_steps = world.start, world.initial, 0
    return q
