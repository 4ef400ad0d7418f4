"""Random numbers as in `hocket.random`, and what they decide: starts, slips, and whether teammates are ready."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket import random
from hocket.learn.kernels.arrays import Index, Numbers, u64
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.vectors import converted, counted

GOLDEN = np.uint64(random.GOLDEN)
MIX_1, MIX_2 = np.uint64(random.MIX_1), np.uint64(random.MIX_2)
CHANCE_SHIFT = np.uint64(64 - random.CHANCE_BITS)
CHANCE_MASK = np.uint64((1 << random.CHANCE_BITS) - 1)
CHANCE_BITS = np.uint64(random.CHANCE_BITS)
FIRST_START = np.uint64(random.STARTS + 1)
ACTION_SHIFT = np.uint64(64 - random.ACTION_BITS)
ACTION_UNIT = np.float32(2.0**-random.ACTION_BITS)
TWO = np.uint64(2)
ONE = np.uint64(1)


@inlined
def mix(value: Numbers) -> Numbers:
    """Hash 64 bits to 64 bits."""
    value = (value ^ (value >> np.uint64(30))) * MIX_1
    value = (value ^ (value >> np.uint64(27))) * MIX_2
    return value ^ (value >> np.uint64(31))


@inlined
def stream_key(purpose: int, seed: int, agent: Index, episode: int) -> Index:
    """Make the key of a stream."""
    key = mix(np.uint64(purpose) * GOLDEN)
    key = mix(key + np.uint64(seed) * GOLDEN + GOLDEN)
    key = mix(key + np.uint64(agent) * GOLDEN + GOLDEN)
    return mix(key + np.uint64(episode) * GOLDEN + GOLDEN)


@inlined
def first_number(key: Numbers, step: int) -> Numbers:
    """Draw the number that chooses the action in a step."""
    return mix(key + (np.uint64(step) * TWO + ONE) * GOLDEN)


@inlined
def second_number(key: Numbers, step: int) -> Numbers:
    """Draw the number that decides in a step whether a move slips and whether teammates are ready."""
    return mix(key + (np.uint64(step) * TWO + TWO) * GOLDEN)


@inlined
def start_cell(key: Index, step: int, first: Index, count: Index, cells: NDArray[np.integer[Any]]) -> Index:
    """Choose one of `count` cells in a list from `first` on, in which the episode that begins with a step starts."""
    index = u64(first)
    if count > 1:
        drawn = mix(key + (np.uint64(step) + FIRST_START) * GOLDEN) >> CHANCE_SHIFT
        index += (drawn * u64(count)) >> CHANCE_BITS
    return cells[index]


@inlined
def drawn_part(drawn: Numbers) -> Numbers:
    """Map a random number to [0, 1)."""
    return converted(converted(drawn >> ACTION_SHIFT, np.int32), np.float32) * ACTION_UNIT


@inlined
def slip_outcome(drawn: Numbers, limit: int) -> Numbers:
    """Choose the outcome of a move as `hocket.task.grid.slip_outcome` does: 0 as intended, 1 or 2 slipped."""
    slip = converted(drawn >> CHANCE_SHIFT, np.uint32)
    return counted(slip < np.uint32(limit)) + counted(slip < np.uint32(limit // 2))


@inlined
def sync_draw(drawn: np.uint64) -> np.int64:
    """Return the part of a number that decides whether simulated teammates are ready."""
    return np.int64(drawn & CHANCE_MASK)
