"""Value iteration over joint states: the least expected costs, all joint actions of a state at once.

A step costs 1 until the task is done. Where a task has rewards, a step costs what it pays, with its sign changed, and
later costs are discounted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import u64
from hocket.learn.kernels.team import hold_apart
from hocket.task.bodies import NO_BODIES

ACTIONS, TURNS = u64(5), u64(4)
STAY = 4

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


class JointModel(NamedTuple):
    """Joint states as numbers (see `hocket.task.teamwork.joint.JointSpace`)."""

    size: Ints  # [N] arrivals of each agent
    end: Ints  # [N, V, S, A] the arrival to which an action leads if it does not slip
    settled: NDArray[np.int32]  # [joint states] the joint state in which a step settles
    cost: Doubles  # [joint states] of a step before it settles there; [0]: every step costs 1
    discount: float
    straight: float  # chance that a move does not slip
    aside: float  # chance that it slips to a given side
    body_rule: int  # of `hocket.task.bodies`
    body: NDArray[np.int32]  # [cells of the map], or nothing
    cell: Ints  # [N, arrivals] the cell on the map


class JointBuffers(NamedTuple):
    """Room for what is worked out within a joint state."""

    place: Ints  # [N] the agents' cells, by their places in `JointModel`
    block: Doubles  # [A ** N] what joint actions are worth
    before: Ints  # [N] the agents' cells on the map ...
    after: Ints  # [N] ... and where they go
    held: Ints  # [N] marks of agents with bodies; -1 between steps
    claim: Ints  # [cells of the map] and of cells, if agents have bodies; zero between steps


@inlined
def gather(state: np.int64, model: JointModel, value: Doubles, room: JointBuffers) -> None:
    """Look up what every joint action is worth if nobody slips."""
    agents, place = len(model.size), room.place
    rest = state
    for index in range(agents):
        agent = agents - 1 - index
        place[agent] = rest % model.size[agent]
        rest //= model.size[agent]
    for joint in range(len(room.block)):
        if model.body_rule != NO_BODIES:
            number = np.int64(joint)
            for index in range(agents):
                agent = agents - 1 - index
                room.before[agent] = model.cell[agent, place[agent]]
                room.after[agent] = model.cell[agent, model.end[agent, rest, place[agent], number % 5]]
                number //= 5
            hold_apart(model.body_rule, model.body, room.before, room.after, room.held, room.claim)
        number, reached, factor = np.int64(joint), np.int64(0), np.int64(1)
        for index in range(agents):
            agent = agents - 1 - index
            end = model.end[agent, rest, place[agent], number % 5]
            if model.body_rule != NO_BODIES and room.after[agent] == room.before[agent]:
                end = model.end[agent, rest, place[agent], STAY]
            reached += end * factor
            factor *= model.size[agent]
            number //= 5
        reached += rest * factor
        room.block[joint] = value[model.settled[reached]]
        if len(model.cost) > 0:
            room.block[joint] = model.cost[reached] + model.discount * room.block[joint]


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
    value: Doubles,  # [joint states] expected costs
    action: NDArray[np.float32],  # [joint states] out: the best joint action
    most: float,  # steps that a failure counts as
    room: JointBuffers,
) -> float:
    """Look at joint states once, in order; return the largest relative change."""
    change, block = 0.0, room.block
    for place in range(len(order)):
        state = order[place]
        gather(state, model, value, room)
        if model.aside > 0:
            slip(model, block)
        best, least = 0, block[0]
        for joint in range(len(block)):
            if block[joint] < least - 1e-9:
                best, least = joint, block[joint]
        cost = least if len(model.cost) > 0 else min(1.0 + least, most)
        change = max(change, abs(cost - value[state]) / max(abs(cost), 1.0))
        value[state], action[state] = cost, best
    return change
