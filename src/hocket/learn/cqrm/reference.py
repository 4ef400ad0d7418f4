"""Centralised q-learning with the team's reward machine, as one would write it on a page: all agents act as one.

s are the cells of all agents, a is a joint action, v a state of the team's reward machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hocket import random
from hocket.learn.cqrm import CqrmSettings
from hocket.learn.reference import softmax
from hocket.task.grid import ACTIONS, slip_outcome

f32 = np.float32  # all is computed in single precision, as in the kernel


class JointWorld(Protocol):
    """Agents in the team world, with numbered states of the team's machine."""

    cells: int
    states: int  # how many there are
    final: frozenset[int]
    starts: Sequence[Sequence[int]]  # of each agent cells, of which each is as likely
    initial: int
    slip_limit: int  # below which the draw of a slip makes a move slip

    def move(self, agent: int, s: int, v: int, a: int, outcome: int) -> int:
        """Return the cell in which an agent's action ends; its outcome is 0 as intended, 1 or 2 slipped."""

    def hold_apart(self, s: tuple[int, ...], s_next: tuple[int, ...]) -> tuple[int, ...]:
        """Leave agents with bodies where they are that would be in each other's way."""

    def settle(self, s: tuple[int, ...], s_next: tuple[int, ...], v: int) -> tuple[int, float]:
        """Return the team state after a step between some cells, and what the step pays."""


def train_as_one(world: JointWorld, settings: CqrmSettings, seed: int, steps: int) -> NDArray[np.float32]:
    """Train agents as one; return q [joint cells, joint actions, team states]."""
    n, everyone = len(world.starts), range(len(world.starts))
    keys = [random.stream_key(random.TRAINING, seed, pair) for pair in range((n + 1) // 2)]
    cells, actions = (world.cells,) * n, (len(ACTIONS),) * n
    q = np.zeros((world.cells**n, len(ACTIONS) ** n, world.states), f32)
    alpha, gamma, beta = f32(settings.learning_rate), f32(settings.discount), 1 / settings.temperature
    s, v, episode_steps = draw_starts(world, keys, 0), world.initial, 0
    for t in range(steps):
        here = np.ravel_multi_index(s, cells)
        a = softmax(q[here, :, v], beta, random.action_draw(keys[0], t))
        numbers = [random.number(key, random.PER_STEP * t + 1) for key in keys]  # whose halves decide who slips
        halves = [half for number in numbers for half in (number >> 32, number & 0xFFFFFFFF)]
        slips = [slip_outcome(half >> 1, world.slip_limit) for half in halves]
        best, following, each = q.max(axis=1), (s, v), np.unravel_index(a, actions)
        for u in range(world.states):
            if u in world.final or not (settings.counterfactual or u == v):
                continue
            s_next = world.hold_apart(s, tuple(world.move(i, s[i], u, int(each[i]), slips[i]) for i in everyone))
            u_next, reward = world.settle(s, s_next, u)
            target = f32(reward) + gamma * best[np.ravel_multi_index(s_next, cells), u_next]
            q[here, a, u] += alpha * (target - q[here, a, u])
            if u == v:
                following = s_next, u_next
        (s, v), episode_steps = following, episode_steps + 1
        if v in world.final or episode_steps >= settings.max_episode_steps:
            s, v, episode_steps = draw_starts(world, keys, t + 1), world.initial, 0
    return q


def draw_starts(world: JointWorld, keys: Sequence[int], t: int) -> tuple[int, ...]:
    """Choose cells to start in, for an episode that begins with step t; two agents share a key, one adds 1 to it."""
    drawn = [random.start_draw(keys[i // 2] + i % 2, t, len(starts)) for i, starts in enumerate(world.starts)]
    return tuple(starts[place] for starts, place in zip(world.starts, drawn, strict=True))
