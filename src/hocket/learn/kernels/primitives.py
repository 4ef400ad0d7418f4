"""What all kernels share: random numbers as in `hocket.random`, schedules, and the choice of an action."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket import random
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.vectors import converted, counted, load, reinterpreted
from hocket.learn.settings import LearningRule

Floats = NDArray[np.float32]
Shorts = NDArray[np.int16]
Whole = NDArray[np.signedinteger[Any]]  # as short as the task allows
Unsigned = NDArray[np.unsignedinteger[Any]]  # likewise
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint32]
Index = Any  # a whole number; numba finds out of which type
Numbers = Any  # a number, or a vector of them
LANES = 16  # agents whose actions are chosen at once
SIDE_BY_SIDE = (0,) * LANES  # a tuple, whose length compiled functions know
Edges = tuple[int, ...]  # one number, or two where tasks have edges: kernels are compiled for either, and free without

u64: Any = np.uint64  # an index of this type is never taken for one from the end, which would cost time

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
# Not greedily; of the type of what is not known beforehand, so that nothing is compiled twice.
SOFTLY: Any = np.bool_(False)

# exp(x) for x <= 0 is 2^n * 2^f with f within half of 0: n becomes the exponent of a float, and 2^f is a polynomial (a
# Taylor series). No number, not even NaN, leads out of a table.
BIAS, EXPONENT_SHIFT = np.int32(127), np.int32(23)  # of the exponent in the bits of a 32-bit float
LOG2_E = np.float32(math.log2(math.e))
LEAST = np.float32(-126)
C1, C2, C3, C4, C5, C6 = (np.float32(math.log(2) ** n / math.factorial(n)) for n in range(1, 7))
NOTHING, HALF, UNIT = np.float32(0), np.float32(0.5), np.float32(1)


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
    """Draw the number that decides the chances in a step."""
    return mix(key + (np.uint64(step) * TWO + TWO) * GOLDEN)


@inlined
def start_cell(drawn_from: Index, step: int, first: Index, count: Index, cells: NDArray[np.integer[Any]]) -> Index:
    """Choose a cell to start in, of so many in a list from a place on, for an episode that begins with a step."""
    place = u64(first)
    if count > 1:
        drawn = mix(drawn_from + (np.uint64(step) + FIRST_START) * GOLDEN) >> CHANCE_SHIFT
        place += (drawn * u64(count)) >> CHANCE_BITS
    return cells[place]


@inlined
def rate_at(rule: LearningRule, time: int) -> np.float32:
    """Compute the learning rate at a step of training."""
    return rule.learning_rate / (UNIT + rule.learning_rate_decay * np.float32(time))


@inlined
def beta_at(rule: LearningRule, time: int) -> np.float32:
    """Compute the inverse temperature at a step of training."""
    return rule.beta * (UNIT + rule.beta_growth * np.float32(time))


@inlined
def exponential(x: Numbers) -> Numbers:
    """Compute exp(x) for x <= 0 to single precision; nothing smaller than 2^-126."""
    scaled = max(LEAST, x * LOG2_E)  # in this order NaN becomes LEAST, too
    whole = converted(scaled - HALF, np.int32)
    f = scaled - converted(whole, np.float32)
    power = UNIT + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
    return power * reinterpreted(converted((whole + BIAS) << EXPONENT_SHIFT, np.int32), np.float32)


@inlined
def load_rows(array: Floats, first: Index, step: Index, width: tuple[int, ...]) -> Numbers:
    """Read a vector for each of five actions, from a place on, that far from each other."""
    return (
        load(array, first, width),
        load(array, first + step, width),
        load(array, first + u64(2) * step, width),
        load(array, first + u64(3) * step, width),
        load(array, first + u64(4) * step, width),
    )


@inlined
def largest(values: Numbers) -> Numbers:
    """Return the largest of the values of five actions."""
    return max(max(max(values[0], values[1]), max(values[2], values[3])), values[4])


@inlined
def softmax_action(values: Numbers, beta: np.float32, drawn: Numbers) -> Numbers:
    """Choose one of five actions with chances proportional to exp(beta * value)."""
    best = largest(values)
    w0 = exponential(beta * (values[0] - best))
    w1 = w0 + exponential(beta * (values[1] - best))
    w2 = w1 + exponential(beta * (values[2] - best))
    w3 = w2 + exponential(beta * (values[3] - best))
    w4 = w3 + exponential(beta * (values[4] - best))
    mark = drawn_part(drawn) * w4
    return counted(mark >= w0) + counted(mark >= w1) + counted(mark >= w2) + counted(mark >= w3)


@inlined
def greedy_action(values: Numbers, drawn: Numbers) -> Numbers:
    """Choose evenly among the best of five actions."""
    best = largest(values)
    n0 = converted(values[0] == best, np.float32)
    n1 = n0 + converted(values[1] == best, np.float32)
    n2 = n1 + converted(values[2] == best, np.float32)
    n3 = n2 + converted(values[3] == best, np.float32)
    n4 = n3 + converted(values[4] == best, np.float32)
    mark = drawn_part(drawn) * n4
    return counted(mark >= n0) + counted(mark >= n1) + counted(mark >= n2) + counted(mark >= n3)


@inlined
def drawn_part(drawn: Numbers) -> Numbers:
    """Turn a random number into one from [0, 1)."""
    return converted(converted(drawn >> ACTION_SHIFT, np.int32), np.float32) * ACTION_UNIT


@inlined
def weight_of(value: np.float32, best: np.float32, beta: np.float32, greedy: bool) -> Numbers:
    """Weigh a choice by its value: exp(beta * value), or only the best where the choice is greedy."""
    if greedy:
        return UNIT if value == best else NOTHING
    return exponential(beta * (value - best))


@inlined
def slip_outcome(drawn: Numbers, limit: int) -> Numbers:
    """Choose the outcome of a move, as `hocket.task.grid.slip_outcome` does: 0 as intended, 1 or 2 astray."""
    slip = converted(drawn >> CHANCE_SHIFT, np.uint32)
    return counted(slip < np.uint32(limit)) + counted(slip < np.uint32(limit // 2))


@inlined
def sync_draw(drawn: np.uint64) -> np.int64:
    """Read off what decides whether simulated teammates are ready."""
    return np.int64(drawn & CHANCE_MASK)
