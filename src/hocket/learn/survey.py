"""Explore a map without any machine, until every move on it was tried.

Agents take turns; each takes a move that was tried too seldom or goes to the nearest cell that has one, by what all of
them have seen so far. Gates are set by hand: all are closed, then each is open by itself, then all of them are.
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

TRIES = 4  # of each move: one that slips now and then is known after a few
UNTRIED = -1  # in place of a cell: where moves lead that are left to try
PATIENCE = 100  # as many times the fewest steps, after which a survey ends in any case


class Survey(NamedTuple):
    """What was learnt of a map, and what it took."""

    world: WorldModel
    steps: int  # of all agents together
    fewest_steps: int  # no tour of all moves takes fewer: one for each try of each
    is_complete: bool  # whether every move that agents can get to was tried often enough

    def __str__(self) -> str:
        ratio = f"{self.steps / max(1, self.fewest_steps):.2f} times as many as the optimal tour of all moves"
        left = "" if self.is_complete else "; moves are left that were tried less often"
        return f"{self.steps:,} steps, {ratio} ({self.fewest_steps:,}){left}"


def survey(task: Task | str | Path, tries: int = TRIES, *, seed: int = 0) -> Survey:
    """Explore the map of a task without its machine, until all moves were tried, each so many times.

    >>> survey("buttons", tries=1).is_complete
    True
    """
    task, tries = as_task(task), whole(tries, "tries", 1)
    starts = [cell for agent in task.agents.values() for cell in agent.starts]
    ends = [task.grid.outcomes(closed) for closed in _closings(task)]  # [S, A, K]
    known, slip_limit, steps = CommonTries([list_moves(end[None]) for end in ends], 1), threshold(task.slip), 0
    places = [place.reshape(end.shape[:2]) for end, place in zip(ends, known.place, strict=True)]
    grounds = [_Ground(*ground, known.tries[0], slip_limit) for ground in zip(ends, places, strict=True)]
    moves = [ground.place[ground.reached(starts)] for ground in grounds]
    fewest = tries * len(np.unique(np.concatenate([place.ravel() for place in moves])))
    for number, ground in enumerate(grounds):
        walkers = deque(
            _Walker(ground, tries, start, stream_key(TRAINING, seed, agent, number))
            for agent, start in enumerate(starts)
        )
        while walkers and steps < PATIENCE * fewest:
            walker = walkers.popleft()
            if walker.step():
                steps += 1
                walkers.append(walker)
    is_complete = all((known.tries[0, place].sum(axis=-1) >= tries).all() for place in moves)
    return Survey(WorldModel.of(task, known.move, known.tries[0]), steps, fewest, is_complete)


def _closings(task: Task) -> Iterable[frozenset[int]]:
    """List which cells gates close: all of them, all but one, none."""
    regions = sorted({region for gates in task.gates.values() for region in gates})
    places = [task.grid.places[region] for region in regions]
    but_one = (frozenset().union(*places[:skipped], *places[skipped + 1 :]) for skipped in range(len(places)))
    return dict.fromkeys([frozenset[int]().union(*places), *but_one, frozenset[int]()])


class _Ground(NamedTuple):
    """The map with some cells closed: where moves lead, which they are, and how often anybody has tried them."""

    end: Numbers  # [S, A, K]
    place: Ints  # [S, A] of the moves, among all that there are
    tries: Ints  # [moves, K]
    slip_limit: int

    def reached(self, starts: Iterable[int]) -> Ints:
        """List the cells that somebody can get to."""
        ends = self.end if self.slip_limit else self.end[..., :1]
        return np.flatnonzero(flood(len(self.end), np.array([*starts]), lambda front: ends[front]))


class _Walker:
    """An agent on a ground."""

    def __init__(self, ground: _Ground, wanted: int, start: int, key: int) -> None:
        self.ground, self.wanted, self.cell, self.key = ground, wanted, start, key
        self.time, self.way = 0, list[tuple[int, int]]()  # cells and actions on the way to one that has moves left

    def step(self) -> bool:
        """Take a step; False where nothing is left to try."""
        action = self._wanting(self.cell)
        if action >= 0:
            self.way = [(self.cell, action)]
        elif not self.way or self.way[-1][0] != self.cell:  # nowhere to go yet, or it has slipped
            self.way = self._way()
        if not self.way:
            return False
        _, action = self.way.pop()
        outcome = slip_outcome(slip_draw(self.key, self.time), self.ground.slip_limit)
        self.ground.tries[self.ground.place[self.cell, action], outcome] += 1
        self.cell, self.time = int(self.ground.end[self.cell, action, outcome]), self.time + 1
        return True

    def _wanting(self, cell: int) -> int:
        """Find the action of a cell that was tried least; -1: all were tried often enough."""
        total = self.ground.tries[self.ground.place[cell]].sum(axis=1)
        action = int(total.argmin())
        return action if total[action] < self.wanted else -1

    def _way(self) -> list[tuple[int, int]]:
        """Find the way to the nearest cell that has moves left, the first step last, by where moves led most often."""

        def moves(cell: int) -> list[tuple[tuple[int, int], int]]:
            if (action := self._wanting(cell)) >= 0:
                return [((cell, action), UNTRIED)]
            outcomes = self.ground.tries[self.ground.place[cell]].argmax(axis=1)
            ends = self.ground.end[cell, range(len(ACTIONS)), outcomes].tolist()
            return [((cell, action), there) for action, there in enumerate(ends)]

        tree = search_tree(self.cell, moves, UNTRIED)
        return path_to(tree, UNTRIED)[-2::-1] if UNTRIED in tree else []
