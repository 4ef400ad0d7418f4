"""What the agents of a team have tried together: moves are the same for all of them, whatever their machines are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.learn.moves import MoveTable
from hocket.learn.world import WorldModel, number_kept
from hocket.task.grid import OUTCOMES

SHARED_EVERY = 200  # steps after which agents that share their tries learn of each other's

Ints = NDArray[np.int64]


class CommonTries:
    """What each seed's agents know in common: what they began with and, where they share, what they have tried."""

    def __init__(self, tables: Sequence[MoveTable], seeds: int) -> None:
        numbers = [number_kept(table) for table in tables]
        self.move = np.unique(np.concatenate(numbers))
        self.place = [np.searchsorted(self.move, each) for each in numbers]  # of the moves of each table
        self.first = np.zeros((len(self.move), OUTCOMES), np.int64)
        self.tries = np.repeat(self.first[None], seeds, axis=0)

    def begin_with(self, world: WorldModel) -> None:
        """Begin with what was learnt before."""
        self.first = world.tries_of(self.move)
        self.tries[:] = self.first

    def pool(self, index: int, agents: Iterable[tuple[int, Ints]]) -> Ints:
        """Add up what a seed's agents know, each given by the number of its table and its tries."""
        known = self.tries[index]
        total: Ints = known.copy()
        for number, tries in agents:
            total[self.place[number]] += tries - known[self.place[number]]
        return total
