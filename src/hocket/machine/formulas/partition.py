"""Minimising a complete deterministic automaton: which states no trace tells apart, found a column at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import Flags, Ints, ranges
from hocket.machine.formulas.limits import Limits

Longs = NDArray[np.int64]
Hashes = NDArray[np.uint64]


def minimal(move: Ints, accepts: Flags, start: int, limits: Limits) -> tuple[Ints, Flags, Ints]:
    """Merge the states that no trace tells apart, and drop those that no trace reaches.

    Returns the moves and the acceptance of the classes, numbered breadth first, and the class of each state, or -1
    where it is dropped.
    """
    reached = reachable(move, start, limits)
    place = np.full(len(move), -1, np.int32)
    place[reached] = np.arange(len(reached), dtype=np.int32)
    if len(reached) < len(move) or start != 0 or not np.array_equal(reached, np.arange(len(move))):
        move, accepts = place[move[reached]], accepts[reached]
    classes = _coarsest_partition(move, accepts, limits)
    count = int(classes.max()) + 1
    if count == len(move):
        return move, accepts, place
    # The states are numbered breadth first, so ordering classes by their first states keeps it so.
    first = np.full(count, len(classes), np.int64)
    np.minimum.at(first, classes, np.arange(len(classes)))
    order = np.argsort(first)
    number = np.empty(count, np.int32)
    number[order] = np.arange(count, dtype=np.int32)
    classes, first = number[classes], first[order]
    whole = np.full(len(place), -1, np.int32)
    whole[reached] = classes
    return classes[move[first]], accepts[first], whole


def reachable(move: Ints, start: int, limits: Limits) -> Ints:
    """List the states that can be reached, breadth first."""
    seen = np.zeros(len(move), np.bool_)
    seen[start] = True
    levels = [np.array([start], np.int32)]
    while len(levels[-1]):
        limits.check("this formula", len(move))
        ends = move[levels[-1]].ravel()
        ends = ends[~seen[ends]]
        if len(ends):
            ends = _distinct(ends, len(move))
        seen[ends] = True
        levels.append(ends)
    return np.concatenate(levels)


def _distinct(numbers: Ints, count: int) -> Ints:
    """List the distinct ones of some numbers below `count`, in the order of their first appearance."""
    if len(numbers) < 64:
        return np.array(list(dict.fromkeys(numbers.tolist())), np.int32)
    _, first = np.unique(numbers, return_index=True)
    return numbers[np.sort(first)]


def _coarsest_partition(move: Ints, accepts: Flags, limits: Limits) -> Ints:
    """Refine classes by where events lead until they are stable (Moore's algorithm, a column at a time).

    It begins with the lengths of the shortest ways into and out of acceptance, which are the same for states that no
    trace tells apart; so it needs few rounds. Rounds compare hashes of rows, which may take two rows for one but
    never one for two; the last round compares the rows themselves, so that the answer is exact.
    """
    classes = _distances(move, accepts, limits) * np.int64(2) + accepts
    classes, count = _numbered(classes)
    generator = np.random.default_rng(0)
    while True:
        limits.check("this formula", len(move))
        if count == len(move):
            return classes
        weight = generator.integers(0, np.iinfo(np.int64).max, size=(2, count), dtype=np.int64).astype(np.uint64)
        mixed = weight[0][classes]
        for kind in range(move.shape[1]):
            factor = np.uint64(generator.integers(0, np.iinfo(np.int64).max) | 1)
            mixed += (weight[1] * factor)[classes[move[:, kind]]]
        finer, finer_count = _numbered(mixed)
        if finer_count == count and _is_stable(move, classes, count):
            return classes
        classes, count = _both(classes, finer, count, finer_count)


def _both(left: Ints, right: Ints, left_count: int, right_count: int) -> tuple[Ints, int]:
    return (right, right_count) if left_count == 1 else _numbered(left.astype(np.int64) * right_count + right)


def _numbered(values: NDArray[np.int64] | Hashes) -> tuple[Ints, int]:
    distinct, classes = np.unique(values, return_inverse=True)
    return classes.astype(np.int32).ravel(), len(distinct)


def _is_stable(move: Ints, classes: Ints, count: int) -> bool:
    """Check that the members of a class go to the same classes."""
    member = np.empty(count, np.int64)
    member[classes] = np.arange(len(classes))
    example = member[classes]
    return all(
        np.array_equal(ends[example], ends) for ends in (classes[move[:, kind]] for kind in range(move.shape[1]))
    )


def _distances(move: Ints, accepts: Flags, limits: Limits) -> Longs:
    """Measure how far each state is from one that is accepted differently (0: never, 1: in the next step, ...)."""
    alike = accepts[move] == accepts[:, None]
    return distances(move, ~alike.all(axis=1), alike, limits) + 1


def distances(move: Ints, goal: Flags, usable: Flags | None, limits: Limits) -> Longs:
    """Count the moves of a shortest way from each state to a goal, over usable moves; -1 where there is none.

    It looks at each move once, backwards from the goals.
    """
    states, kinds = move.shape
    kept = np.arange(move.size) if usable is None else np.flatnonzero(usable)
    target = move.ravel()[kept]
    order = np.argsort(target, kind="stable")
    source = (kept[order] // kinds).astype(np.int32)
    begin = np.concatenate(([0], np.cumsum(np.bincount(target, minlength=states)))).astype(np.int32)
    distance = np.where(goal, np.int64(0), np.int64(-1))
    front, level = np.flatnonzero(goal).astype(np.int32), 0
    while len(front):
        limits.check("this formula", states)
        level += 1
        before = source[ranges(begin[front], begin[front + 1])]
        before = before[distance[before] < 0]
        distance[before] = level
        front = _distinct(before, states)
    return distance
