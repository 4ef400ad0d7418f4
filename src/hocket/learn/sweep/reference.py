"""Prioritised sweeping over a learnt model, in plain Python.

The agent counts the outcomes of its moves, and estimates a move's value from its counts and `optimism` pseudo-counts of
the optimistic value. After each step, the cell in which it was taken is backed up, and then the cells whose values may
change most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np

from hocket import random
from hocket.learn.reference import TableWorld, draw_start
from hocket.learn.sweep import SweepSettings
from hocket.task.grid import ACTIONS, OUTCOMES, slip_outcome

Values = Sequence[Sequence[float]]  # by cell and machine state


class SweepAgent:
    """An agent that learns a model of its moves and plans with it. `optimistic_value` bounds the values of cells and
    machine states from above, `arrival` those of arrivals before the step settles; planning changes the latter."""

    def __init__(
        self, world: TableWorld, settings: SweepSettings, seed: int, optimistic_value: Values, arrival: Values
    ) -> None:
        self.world, self.settings, self.optimistic_value = world, settings, optimistic_value
        self.arrival = [list(row) for row in arrival]  # by past x cells + cell
        self.pasts = {past: s for s, past in reversed([*enumerate(world.past)])}  # with a cell of each
        self.key = random.stream_key(random.TRAINING, seed, world.agent)
        self.ends = cache(self._ends)
        self.counts: dict[object, list[int]] = {}  # of the outcomes of a move
        self.priority: dict[int, float] = {}  # of the cells that wait for a backup
        self.predecessors: list[set[int]] = [set() for _ in range(world.cells)]
        for s, a, u in np.ndindex(world.cells, len(ACTIONS), world.states):
            for s_next in self.ends(s, u, a):
                self.predecessors[s_next].add(s)

    def _ends(self, s: int, u: int, a: int) -> tuple[int, ...]:
        """List where an action may end; actions that end alike in all machine states are one move."""
        return tuple(self.world.move(s, u, a, outcome) for outcome in range(OUTCOMES))

    def value(self, s: int, u: int, a: int) -> float:
        """Estimate the value of an action."""
        ends, weight = self.ends(s, u, a), self.settings.optimism
        counts = self.counts.get((s, a, ends), [0] * OUTCOMES)
        total = weight
        for count in counts:
            total += count
        value = weight / total * self.optimistic_value[s][u]
        for count, s_next in zip(counts, ends, strict=True):
            value += count / total * self.arrival[self.world.past[s] * self.world.cells + s_next][u]
        return value

    def back_up(self, s: int) -> None:
        """Back up a cell in all machine states; if that changes it enough, queue its predecessors."""
        states, change = range(self.world.states), 0.0
        best = [max(self.value(s, u, a) for a in range(len(ACTIONS))) for u in states]
        for (past, before), u in product(self.pasts.items(), states):
            value, here = 0.0, self.arrival[past * self.world.cells + s]
            for p, u_next, r in self.world.outcomes(before, s, u):
                value += p * (r + self.settings.discount * best[u_next])
            size = max(abs(value), abs(here[u]))
            change = max(change, abs(value - here[u]) / size if size > 1e-50 else 0.0)
            here[u] = value
        if change > self.settings.priority_threshold:
            for before in self.predecessors[s]:
                self.priority[before] = max(change, self.priority.get(before, change))

    def train(self, steps: int) -> tuple[int, int]:
        """Train episode after episode; return the cell and the machine state in the end."""
        world, settings = self.world, self.settings
        s, u, episode_steps = draw_start(world, self.key, 0), world.initial, 0
        for t in range(steps):
            values = [np.float32(self.value(s, u, a)) for a in range(len(ACTIONS))]
            ties = [a for a, value in enumerate(values) if value == max(values)]
            a = ties[int(random.action_draw(self.key, t) * len(ties))]
            outcome = slip_outcome(random.slip_draw(self.key, t), world.slip_limit)
            ends = self.ends(s, u, a)
            self.counts.setdefault((s, a, ends), [0] * OUTCOMES)[outcome] += 1
            self.priority[s] = math.inf
            for _ in range(settings.backups):
                if self.priority:
                    first = max(self.priority, key=lambda cell: (self.priority[cell], -cell))
                    del self.priority[first]
                    self.back_up(first)
            u, _ = world.settle(s, ends[outcome], u, random.sync_draw(self.key, t))
            s = ends[outcome]
            episode_steps += 1
            if u in world.final or episode_steps >= settings.max_episode_steps:
                s, u, episode_steps = draw_start(world, self.key, t + 1), world.initial, 0
        return s, u
