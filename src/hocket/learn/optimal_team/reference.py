"""The fewest expected steps of a team, as one would write it on a page: value iteration over joint states.

V(s) = 1 + min over joint actions a of the sum over s' of P(s' | s, a) V(s'), and 0 where the task is done; a failure
counts as the most steps of an episode. Where a task has rewards, V(s) is the largest discounted return: the max over a
of the sum over s' of P(s' | s, a) (r + discount V(s')).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from hocket.task.bodies import hold_apart
from hocket.task.grid import ACTIONS, OUTCOMES, outcome_chances
from hocket.task.settling import settle
from hocket.task.tables import compile_task
from hocket.task.task import Task

JointState = tuple[tuple[int, str], ...]  # the cell of each agent, and the state of its machine


class JointPlanner:
    """Plans for all agents as one."""

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
