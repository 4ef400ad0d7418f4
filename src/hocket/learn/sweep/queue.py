"""A queue of cells, the most urgent first: a binary heap that knows where each cell is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import Index, Ints


class Queue(NamedTuple):
    """Cells in the order of a heap: none is more urgent than its parent. Of two alike the lower number goes first."""

    cell: Ints  # [S] of which the first `size` count
    place: Ints  # [S] where a cell is in it; -1: it is not
    urgency: NDArray[np.float64]  # [S]
    size: Ints  # [1]


def make_queue(cells: int) -> Queue:
    """Make room for cells in a queue that has none."""
    return Queue(np.zeros(cells, np.int64), np.full(cells, -1), np.zeros(cells), np.zeros(1, np.int64))


@inlined
def goes_before(queue: Queue, one: Index, other: Index) -> bool:
    """Say whether one cell is more urgent than another."""
    first, second = queue.urgency[one], queue.urgency[other]
    return bool(first > second or (first == second and one < other))


@inlined
def put(queue: Queue, place: Index, cell: Index) -> None:
    """Write a cell to a place."""
    queue.cell[place], queue.place[cell] = cell, place


@inlined
def enqueue(queue: Queue, cell: Index, urgency: float) -> None:
    """Put a cell into the queue, or make it more urgent."""
    place = queue.place[cell]
    if place < 0:
        place = queue.size[0]
        queue.size[0] += 1
    elif urgency <= queue.urgency[cell]:
        return
    queue.urgency[cell] = urgency
    while place > 0:
        parent = queue.cell[(place - 1) >> 1]
        if not goes_before(queue, cell, parent):
            break
        put(queue, place, parent)
        place = (place - 1) >> 1
    put(queue, place, cell)


@inlined
def dequeue(queue: Queue) -> Index:
    """Take the most urgent cell out of a queue that has one."""
    taken = queue.cell[0]
    queue.place[taken] = -1
    queue.size[0] -= 1
    size = queue.size[0]
    if size > 0:
        moved, place = queue.cell[size], np.int64(0)
        while 2 * place + 1 < size:
            child = 2 * place + 1
            if child + 1 < size and goes_before(queue, queue.cell[child + 1], queue.cell[child]):
                child += 1
            if not goes_before(queue, queue.cell[child], moved):
                break
            put(queue, place, queue.cell[child])
            place = child
        put(queue, place, moved)
    return taken
