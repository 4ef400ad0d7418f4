"""Policies without learning: shortest ways of an agent through its world and its machine, as tables of actions."""

from collections import deque

import numpy as np

import hocket as hk
from hocket.task.grid import ACTIONS

STAY = ACTIONS.index("stay")


def shortest_actions(task: hk.Task) -> dict[str, np.ndarray]:
    """Tabulate, for each agent, the actions on shortest ways to its final states, if others are always ready."""
    return {agent: _shortest(task, agent) for agent in task.agents}


def _shortest(task: hk.Task, agent: str) -> np.ndarray:
    machine, closed, cells = task.machines[agent], task.closed_cells(agent), task.grid.cells
    states = len(machine.states)
    after = np.empty((states, cells, len(ACTIONS)), np.int64)  # [state, cell, action] -> state * cells + cell
    place = {state: number for number, state in enumerate(machine.states)}
    for state, name in enumerate(machine.states):
        for cell in range(cells):
            for action in range(len(ACTIONS)):
                target = task.grid.neighbor(cell, action, closed[state])
                moved = [place[end] for event, end in machine.moves.get(name, {}).items()
                         if end != name and task.holds(agent, event, target, cell)]  # fmt: skip
                after[state, cell, action] = (_nearest(machine, moved) if moved else state) * cells + target
    distance = np.full(states * cells, 1_000_000)
    before: dict[int, list[int]] = {}
    for source, ends in enumerate(after.reshape(-1, len(ACTIONS)).tolist()):
        for end in ends:
            before.setdefault(end, []).append(source)
    queue = deque()
    for state in np.flatnonzero(machine.is_final).tolist():
        for cell in range(cells):
            distance[state * cells + cell] = 0
            queue.append(state * cells + cell)
    while queue:
        here = queue.popleft()
        for source in before.get(here, ()):
            if distance[source] == 1_000_000:
                distance[source] = distance[here] + 1
                queue.append(source)
    ends = distance[after]  # [state, cell, action]
    best = np.where(ends == ends.min(axis=2, keepdims=True), 1 << np.arange(len(ACTIONS)), 0).sum(axis=2)
    at_end = machine.is_final[:, None] | (ends.min(axis=2) >= 1_000_000)
    return np.where(at_end, 1 << STAY, best).astype(np.uint8)


def _nearest(machine: hk.RewardMachine, states: list[int]) -> int:
    """Choose among the states that events would lead to the one that is nearest to completion."""
    goals = {int(state) for state in np.flatnonzero(machine.is_final)}

    def distance(state: int) -> int:
        seen, level, steps = {state}, {state}, 0
        while level and not level & goals:
            names = tuple(machine.states)
            level = {machine.states.index(end) for own in level for end in machine.moves.get(names[own], {}).values()}
            level -= seen
            seen |= level
            steps += 1
        return steps if level else 1_000_000

    return min(states, key=distance)
