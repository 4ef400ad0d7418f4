"""Planners as one would write them on a page, in lists and dictionaries: what the compiled ones are held to.

s is a cell or a joint state, a an action, u a machine state, t a training step.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from algorithm import DefinedWorld
from hocket import random
from hocket.learn.optimal import OptimalSettings
from hocket.learn.sweep import SweepSettings
from hocket.task.bodies import hold_apart
from hocket.task.grid import ACTIONS, OUTCOMES, outcome_chances, slip_outcome
from hocket.task.settling import settle
from hocket.task.tables import compile_task
from hocket.task.task import Task
from plain_worlds import TableWorld

Values = Sequence[Sequence[float]]  # by cell and machine state
JointState = tuple[tuple[int, str], ...]  # the cell of each agent, and the state of its machine


class SweepAgent:
    """An agent that learns a model of its moves and plans with it: prioritised sweeping.

    It counts the outcomes of its moves, and estimates a move's value from its counts and `optimism` pseudo-counts of
    the optimistic value: optimism in the face of uncertainty. After each step, the cell that it was taken in is backed
    up, and then those cells whose values may change most.

    `optimistic_value` bounds from above what a cell is worth in a machine state, `arrival` what it is worth to arrive
    in it from a cell of some past, before the step settles; planning changes the latter.
    """

    def __init__(
        self,
        world: TableWorld | DefinedWorld,
        settings: SweepSettings,
        seed: int,
        optimistic_value: Values,
        arrival: Values,
    ) -> None:
        self.world, self.settings, self.optimistic_value = world, settings, optimistic_value
        self.arrival = [list(row) for row in arrival]  # by past x cells + cell
        self.pasts = {past: s for s, past in reversed([*enumerate(world.past)])}  # with a cell of each
        self.key = random.stream_key(random.TRAINING, seed, world.agent)
        self.ends = cache(self._ends)
        self.counts: dict[object, list[int]] = {}  # of the outcomes of a move
        self.priority: dict[int, float] = {}  # of the cells that wait to be backed up
        self.predecessors: list[set[int]] = [set() for _ in range(world.cells)]
        for s, a, u in np.ndindex(world.cells, len(ACTIONS), world.states):
            for s_next in self.ends(s, u, a):
                self.predecessors[s_next].add(s)

    def _ends(self, s: int, u: int, a: int) -> tuple[int, ...]:
        """List where an action may end; actions that end alike in all machine states are one move."""
        return tuple(self.world.move(s, u, a, outcome) for outcome in range(OUTCOMES))

    def _start(self, t: int) -> int:
        """Choose a cell to start in, for an episode that begins with step t."""
        return self.world.starts[random.start_draw(self.key, t, len(self.world.starts))]

    def value(self, s: int, u: int, a: int) -> float:
        """Estimate what an action is worth."""
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
        """Back up a cell in all machine states; where it changes enough, its predecessors wait."""
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
        s, u, episode_steps = self._start(0), world.initial, 0
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
                s, u, episode_steps = self._start(t + 1), world.initial, 0
        return s, u


def iterate_values(world: TableWorld | DefinedWorld, slip: float, settings: OptimalSettings) -> NDArray[np.float64]:
    """Compute the optimal action values with simulated teammates: [cells, actions, machine states]."""
    gamma, slips = settings.discount, outcome_chances(slip)
    q = np.zeros((world.cells, len(ACTIONS), world.states))
    change = np.inf
    while change > settings.tolerance * (1 - gamma if gamma < 1 else 1):
        value = q.max(axis=1)
        change = 0.0
        for s, a, u in np.ndindex(q.shape):
            if u in world.final:
                continue
            ends = [(slips[outcome], world.move(s, u, a, outcome)) for outcome in range(OUTCOMES)]
            target = sum(
                p_slip * p * (r + gamma * value[s_next, u_next])
                for p_slip, s_next in ends
                for p, u_next, r in world.outcomes(s, s_next, u)
            )
            change = max(change, abs(target - q[s, a, u]))
            q[s, a, u] = target
    return q


class JointPlanner:
    """Plans for all agents as one: value iteration over joint states, for the fewest expected steps.

    V(s) = 1 + min over joint actions a of the sum over s' of P(s' | s, a) V(s'), and 0 where the task is done; a
    failure counts as the most steps of an episode. Where a task has rewards, V(s) is the largest discounted return: the
    max over a of the sum over s' of P(s' | s, a) (r + discount V(s')).
    """

    def __init__(self, task: Task, most_steps: int, discount: float = 1.0) -> None:
        self.discount = discount
        self.task, self.most_steps, self.tables = task, float(most_steps), compile_task(task)
        self.agents = [*task.agents]
        each = [[(cell, task.machines[agent].initial) for cell in task.agents[agent].starts] for agent in self.agents]
        self.starts: list[JointState] = list(product(*each))
        self.moves: dict[JointState, list[list[tuple[float, float, JointState]]]] = {}
        self.value: dict[JointState, float] = {}
        self._explore()

    def _is_done(self, state: JointState) -> bool:
        return all(u in self.task.machines[agent].final for agent, (_, u) in zip(self.agents, state, strict=True))

    def _explore(self) -> None:
        """List every joint state that can be reached, and what may come of every joint action there."""
        waiting = list(self.starts)
        while waiting:
            state = waiting.pop()
            if state in self.value:
                continue
            self.value[state] = 0.0 if self._is_done(state) or self.task.has_rewards else self.most_steps
            if not self._is_done(state):
                self.moves[state] = [
                    list(self._outcomes(state, actions)) for actions in product(range(len(ACTIONS)), repeat=len(state))
                ]
                waiting += [s for outcomes in self.moves[state] for _, _, s in outcomes]

    def _outcomes(self, state: JointState, actions: tuple[int, ...]) -> Iterator[tuple[float, float, JointState]]:
        """List what may come of a joint action, each with its probability and reward: everyone may slip."""
        chances = outcome_chances(self.task.slip)
        for slips in product(range(OUTCOMES), repeat=len(state)):
            probability = prod(chances[slip] for slip in slips)
            if probability:
                yield probability, *self._step(state, actions, slips)

    def _step(self, state: JointState, actions: tuple[int, ...], slips: tuple[int, ...]) -> tuple[float, JointState]:
        cells, states = dict[str, int](), dict[str, str]()
        for number, agent in enumerate(self.agents):
            cell, states[agent] = state[number]
            world = self.tables.next_cell[self.tables.world[number]]
            gates = self.tables.dynamics[number, self.task.machines[agent].states.index(states[agent])]
            cells[agent] = int(world[gates, cell, actions[number], slips[number]])
        before = {agent: cell for agent, (cell, _) in zip(self.agents, state, strict=True)}
        if self.task.bodies:
            cells = hold_apart(self.task.bodies, self.task.units, before, cells)
        reward, machines = 0.0, self.task.machines
        for event in settle(self.task, cells, states, before).events:
            for agent in self.task.knowers[event]:
                reward += machines[agent].rewards[states[agent], event]
                states[agent] = machines[agent].transitions[states[agent], event]
        return reward, tuple((cells[agent], states[agent]) for agent in self.agents)

    def solve(self, tolerance: float = 1e-9) -> float:
        """Iterate until nothing changes; return the expected steps, or the return, on average over starts."""
        change = 1.0
        while change > tolerance:
            change = 0.0
            for state, actions in self.moves.items():
                if self.task.has_rewards:
                    best = max(sum(p * (r + self.discount * self.value[s]) for p, r, s in each) for each in actions)
                else:
                    best = min(1 + min(sum(p * self.value[s] for p, _, s in each) for each in actions), self.most_steps)
                change = max(change, abs(best - self.value[state]))
                self.value[state] = best
        return sum(self.value[start] for start in self.starts) / len(self.starts)
