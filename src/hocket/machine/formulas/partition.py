"""Minimising a complete deterministic automaton: which states no trace tells apart, found a column at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import Flags, Ints
from hocket.machine.formulas.limits import Limits

Longs = NDArray[np.int64]
Hashes = NDArray[np.uint64]


def minimal(move: Ints, accepts: Flags, start: int, limits: Limits) -> tuple[Ints, Flags, Ints]:
    """Merge the states that no trace tells apart, and drop those that no trace reaches.

    Returns the moves and the acceptance of the classes, numbered breadth first, and the class of each state, or -1
    where it is dropped.
    """
    reached = reachable(move, start)
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


def reachable(move: Ints, start: int) -> Ints:
    """List the states that can be reached, breadth first."""
    seen = np.zeros(len(move), np.bool_)
    seen[start] = True
    levels = [np.array([start], np.int32)]
    while len(levels[-1]):
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
    classes = _distances(move, accepts) * np.int64(2) + accepts
    classes, count = _numbered(classes)
    generator = np.random.default_rng(0)
    while True:
        limits.check("this formula", len(move), 1)
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


def _distances(move: Ints, accepts: Flags) -> Longs:
    """Measure how far each state is from one that is accepted differently (as far as there are states: never)."""
    distance = np.full(len(move), -1, np.int64)
    here = accepts
    level = 0
    open_states = np.arange(len(move))
    while len(open_states):
        # Invariant: `distance` is known of all states nearer than `level`; `open_states` are those that are not.
        ends = move[open_states]
        if level == 0:
            near = (here[ends] != here[open_states, None]).any(axis=1)
        else:
            near = ((distance[ends] == level - 1) & (here[ends] == here[open_states, None])).any(axis=1)
        if not near.any():
            break
        distance[open_states[near]] = level
        open_states = open_states[~near]
        level += 1
    return distance + 1
