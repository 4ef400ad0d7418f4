"""Value iteration over joint states: the fewest expected steps, all joint actions of a state at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import u64

ACTIONS, TURNS = u64(5), u64(4)

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


class JointModel(NamedTuple):
    """Joint states as numbers (see `hocket.task.teamwork.joint.JointSpace`)."""

    size: Ints  # [N] cells of each agent
    end: Ints  # [N, V, S, A] where an action leads if it does not slip
    settled: NDArray[np.int32]  # [joint states] the joint state in which a step settles
    straight: float  # chance that a move does not slip
    aside: float  # chance that it slips to a given side


@inlined
def gather(state: np.int64, model: JointModel, value: Doubles, cell: Ints, block: Doubles) -> None:
    """Look up what every joint action is worth if nobody slips: block [A ** N]."""
    agents = len(model.size)
    rest = state
    for place in range(agents):
        agent = agents - 1 - place
        cell[agent] = rest % model.size[agent]
        rest //= model.size[agent]
    for joint in range(len(block)):
        number, reached, factor = np.int64(joint), np.int64(0), np.int64(1)
        for place in range(agents):
            agent = agents - 1 - place
            reached += model.end[agent, rest, cell[agent], number % 5] * factor
            factor *= model.size[agent]
            number //= 5
        block[joint] = value[model.settled[reached + rest * factor]]


@inlined
def slip(model: JointModel, block: Doubles) -> None:
    """Let everyone slip: mix, agent by agent, what its action is worth with what it turns into."""
    stride = 1
    for _ in range(len(model.size)):
        for first in range(len(block)):
            if first // stride % 5 == 0:
                north, east = block[first], block[first + stride]
                south, west = block[first + 2 * stride], block[first + 3 * stride]
                block[first] = model.straight * north + model.aside * (east + west)
                block[first + stride] = model.straight * east + model.aside * (south + north)
                block[first + 2 * stride] = model.straight * south + model.aside * (west + east)
                block[first + 3 * stride] = model.straight * west + model.aside * (north + south)
        stride *= 5


@kernel
def improve(
    order: Ints,  # the joint states to look at
    model: JointModel,
    value: Doubles,  # [joint states] expected steps
    action: NDArray[np.float32],  # [joint states] out: the best joint action
    most: float,  # steps that a failure counts as
    cell: Ints,  # [N] workspace
    block: Doubles,  # [A ** N] workspace
) -> float:
    """Look at joint states once, in order; return the largest relative change."""
    change = 0.0
    for place in range(len(order)):
        state = order[place]
        gather(state, model, value, cell, block)
        if model.aside > 0:
            slip(model, block)
        best, least = 0, block[0]
        for joint in range(len(block)):
            if block[joint] < least - 1e-9:
                best, least = joint, block[joint]
        steps = min(1.0 + least, most)
        change = max(change, abs(steps - value[state]) / max(steps, 1.0))
        value[state], action[state] = steps, best
    return change
