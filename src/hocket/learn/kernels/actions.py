"""The values of an agent's five actions, the choice of one of them, and the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hocket.learn.kernels.arrays import Floats, Index, Numbers, u64
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.draws import drawn_part
from hocket.learn.kernels.vectors import converted, counted, reinterpreted
from hocket.learn.settings import LearningRule

# In place of `greedy`; of the type of a value that is not a constant, so that nothing is compiled twice.
SOFTLY: Any = np.bool_(False)

# exp(x) for x <= 0 is 2^n * 2^f with f within half of 0: n becomes the exponent of a float, and 2^f is a polynomial (a
# Taylor series). No number, not even NaN, leads out of a table.
BIAS, EXPONENT_SHIFT = np.int32(127), np.int32(23)  # of the exponent in the bits of a 32-bit float
LOG2_E = np.float32(math.log2(math.e))
LEAST = np.float32(-126)
C1, C2, C3, C4, C5, C6 = (np.float32(math.log(2) ** n / math.factorial(n)) for n in range(1, 7))
NOTHING, HALF, UNIT = np.float32(0), np.float32(0.5), np.float32(1)

Read = Callable[..., Numbers]  # `load` or `load_row`
FAILED, NEVER_SETTLED = -1, -2  # in place of the steps of an episode


class PlayParameters(NamedTuple):
    """How test episodes are played."""

    beta: np.float32  # inverse temperature
    greedy: bool  # or by softmax
    seed: int
    most_steps: int  # of an episode


@inlined
def rates_at(rule: LearningRule, time: int) -> tuple[np.float32, np.float32]:
    """Compute the learning rate and the inverse temperature at a step of training."""
    now = np.float32(time)
    return rule.learning_rate / (UNIT + rule.learning_rate_decay * now), rule.beta * (UNIT + rule.beta_growth * now)


@inlined
def exponential(x: Numbers) -> Numbers:
    """Compute exp(x) for x <= 0 to single precision; nothing smaller than 2^-126."""
    scaled = max(LEAST, x * LOG2_E)  # in this order NaN becomes LEAST, too
    whole = converted(scaled - HALF, np.int32)
    f = scaled - converted(whole, np.float32)
    power = UNIT + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
    return power * reinterpreted(converted((whole + BIAS) << EXPONENT_SHIFT, np.int32), np.float32)


@inlined
def values_at(q: Floats, agent: Index, cell: Index, observed: Index) -> Numbers:
    """Look up the values of an agent's five actions, q(s, a, u): `observed` is a machine state, memory or option."""
    i, s, u = u64(agent), u64(cell), u64(observed)
    return (q[i, s, u64(0), u], q[i, s, u64(1), u], q[i, s, u64(2), u], q[i, s, u64(3), u], q[i, s, u64(4), u])


@inlined
def load_rows(array: Floats, first: Index, step: Index, width: tuple[int, ...], read: Read) -> Numbers:
    """Read a vector for each of five actions by `load` or `load_row`: from `first` on, and `step` numbers later."""
    return (
        read(array, first, width),
        read(array, first + step, width),
        read(array, first + u64(2) * step, width),
        read(array, first + u64(3) * step, width),
        read(array, first + u64(4) * step, width),
    )


@inlined
def largest(values: Numbers) -> Numbers:
    """Return the largest of the values of five actions."""
    return max(max(max(values[0], values[1]), max(values[2], values[3])), values[4])


@inlined
def softmax_action(values: Numbers, beta: np.float32, drawn: Numbers) -> Numbers:
    """Choose one of five actions with probabilities proportional to exp(beta * value)."""
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
    """Choose any of the best of five actions, each with the same probability."""
    best = largest(values)
    n0 = converted(values[0] == best, np.float32)
    n1 = n0 + converted(values[1] == best, np.float32)
    n2 = n1 + converted(values[2] == best, np.float32)
    n3 = n2 + converted(values[3] == best, np.float32)
    n4 = n3 + converted(values[4] == best, np.float32)
    mark = drawn_part(drawn) * n4
    return counted(mark >= n0) + counted(mark >= n1) + counted(mark >= n2) + counted(mark >= n3)


@inlined
def choose(values: Numbers, beta: np.float32, greedy: bool, drawn: Numbers) -> Numbers:
    """Choose one of five actions by their values."""
    return greedy_action(values, drawn) if greedy else softmax_action(values, beta, drawn)
