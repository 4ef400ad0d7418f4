"""Explore a map without a machine, until every move on it was tried.

Agents take turns; each takes a move that was tried too seldom or goes to the nearest cell that has one, by the tries of
all agents. Gates are set by hand: all are closed, then each is open by itself, then all are open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hocket.arguments import whole
from hocket.graphs import flood, path_to, search_tree
from hocket.learn.kernels.arrays import Ints
from hocket.learn.world import CommonTries, WorldModel, list_moves
from hocket.random import TRAINING, slip_draw, stream_key, threshold
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS, Numbers, slip_outcome
from hocket.task.task import Task

TRIES = 4  # of each move, as moves may slip
UNTRIED = -1  # in place of a cell: where moves lead that have to be tried
PATIENCE = 100  # after so many times the fewest steps, a survey ends in any case


class Survey(NamedTuple):
    """The model of a map, and the steps that it took."""

    world: WorldModel
    steps: int  # of all agents together
    fewest_steps: int  # a lower bound: one for each try of each move
    is_complete: bool  # whether every move that agents can reach was tried often enough

    def __str__(self) -> str:
        ratio = f"{self.steps / max(1, self.fewest_steps):.2f} times as many as the optimal tour of all moves"
        missing = "" if self.is_complete else "; moves are left that were tried less often"
        return f"{self.steps:,} steps, {ratio} ({self.fewest_steps:,}){missing}"


def survey(task: Task | str | Path, tries: int = TRIES, *, seed: int = 0) -> Survey:
    """Explore the map of a task without its machine, until all moves were tried, each so many times.

    >>> survey("buttons", tries=1).is_complete
    True
    """
    task, tries = as_task(task), whole(tries, "tries", 1)
    starts = [cell for agent in task.agents.values() for cell in agent.starts]
    ends = [task.grid.outcomes(closed) for closed in _closings(task)]  # [S, A, K]
    known, slip_limit, steps = CommonTries([list_moves(end[None]) for end in ends], 1), threshold(task.slip), 0
    listed = [move.reshape(end.shape[:2]) for end, move in zip(ends, known.index, strict=True)]
    maps = [_ClosedMap(*each, known.tries[0], slip_limit) for each in zip(ends, listed, strict=True)]
    moves = [closed.move[closed.reached(starts)] for closed in maps]
    fewest = tries * len(np.unique(np.concatenate([move.ravel() for move in moves])))
    for number, closed in enumerate(maps):
        keys = (stream_key(TRAINING, seed, agent, number) for agent in range(len(starts)))
        explorers = deque(_Explorer(closed, tries, *each) for each in zip(starts, keys, strict=True))
        while explorers and steps < PATIENCE * fewest:
            explorer = explorers.popleft()
            if explorer.step():
                steps += 1
                explorers.append(explorer)
    is_complete = all((known.tries[0, move].sum(axis=-1) >= tries).all() for move in moves)
    return Survey(WorldModel.of(task, known.move, known.tries[0]), steps, fewest, is_complete)


def _closings(task: Task) -> Iterable[frozenset[int]]:
    """List the cells that gates close: all gates, all but one, none."""
    regions = sorted({region for gates in task.gates.values() for region in gates})
    places = [task.grid.places[region] for region in regions]
    but_one = (frozenset().union(*places[:skipped], *places[skipped + 1 :]) for skipped in range(len(places)))
    return dict.fromkeys([frozenset[int]().union(*places), *but_one, frozenset[int]()])


class _ClosedMap(NamedTuple):
    """The map with some cells closed, and the tries of its moves."""

    end: Numbers  # [S, A, K] where actions lead
    move: Ints  # [S, A] which move an action is, among those with any gates closed
    tries: Ints  # [moves, K]
    slip_limit: int

    def reached(self, starts: Iterable[int]) -> Ints:
        """List the cells that can be reached."""
        ends = self.end if self.slip_limit else self.end[..., :1]
        return np.flatnonzero(flood(len(self.end), np.array([*starts]), lambda front: ends[front]))


class _Explorer:
    """An agent that explores a map."""

    def __init__(self, closed: _ClosedMap, tries: int, start: int, key: int) -> None:
        self.map, self.tries, self.cell, self.key = closed, tries, start, key
        self.time, self.path = 0, list[tuple[int, int]]()  # cells and actions, in reverse, to a cell with moves to try

    def step(self) -> bool:
        """Take a step; return False if there are no moves to try."""
        action = self._untried(self.cell)
        if action >= 0:
            self.path = [(self.cell, action)]
        elif not self.path or self.path[-1][0] != self.cell:  # there is no path yet, or the agent has slipped
            self.path = self._find_path()
        if not self.path:
            return False
        _, action = self.path.pop()
        outcome = slip_outcome(slip_draw(self.key, self.time), self.map.slip_limit)
        self.map.tries[self.map.move[self.cell, action], outcome] += 1
        self.cell, self.time = int(self.map.end[self.cell, action, outcome]), self.time + 1
        return True

    def _untried(self, cell: int) -> int:
        """Return the action of a cell that was tried least; -1 if all were tried often enough."""
        total = self.map.tries[self.map.move[cell]].sum(axis=1)
        action = int(total.argmin())
        return action if total[action] < self.tries else -1

    def _find_path(self) -> list[tuple[int, int]]:
        """Find a path to the nearest cell with moves to try, by the most frequent outcomes; its first step is last."""

        def moves(cell: int) -> list[tuple[tuple[int, int], int]]:
            if (action := self._untried(cell)) >= 0:
                return [((cell, action), UNTRIED)]
            outcomes = self.map.tries[self.map.move[cell]].argmax(axis=1)
            ends = self.map.end[cell, range(len(ACTIONS)), outcomes].tolist()
            return [((cell, action), end) for action, end in enumerate(ends)]

        tree = search_tree(self.cell, moves, UNTRIED)
        return path_to(tree, UNTRIED)[-2::-1] if UNTRIED in tree else []
