"""Value iteration over joint states, with the least expected costs of all joint actions of a state at once.

A step costs 1 until the task is done. If a task has rewards, the cost of a step is its negative reward, and costs are
discounted. Without slips, a breadth-first search from the end finds the fewest steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hocket.learn.kernels.arrays import Doubles, Floats, Ints, Words, u64
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.team import hold_apart
from hocket.task.bodies import NO_BODIES

ACTIONS = u64(5)
STAY = 4
ENDS = 2  # nodes for all joint states in which the task is done (0), and in which it can never be done (1)
FULL = -1  # instead of the number of joint states, if there are too many for the arrays


class JointModel(NamedTuple):
    """Joint states as numbers (see `hocket.task.teamwork.joint.JointSpace`)."""

    size: Ints  # [N] arrivals of each agent
    stride: Ints  # [N] by how much the number of a joint state grows with an agent's arrival ...
    each: int  # ... and with the team state
    end: Ints  # [N, V, S, A] the arrival to which an action leads if it does not slip
    kind: Ints  # [N, arrivals] what an arrival adds to the number of the situation in which a step settles
    kinds: int  # by how much that number grows with the team state
    landing: Ints  # [N, arrivals] what the cell adds to the number of the joint state after the step
    settled: Ints  # [V x kinds of the first agent x ...] the team state in which a step settles
    cost: Doubles  # [likewise] of the step; [0]: every step costs 1
    discount: float
    straight: float  # chance that a move does not slip
    aside: float  # chance that it slips to a given side
    body_rule: int  # of `hocket.task.bodies`
    body: Words  # [cells of the map], or nothing
    cell: Ints  # [N, arrivals] the cell on the map


class JointBuffers(NamedTuple):
    """Buffers for what is computed about a joint state."""

    landing: Ints  # [N, A] what an agent's action adds to the number of the joint state that is reached ...
    kind: Ints  # [N, A] ... and to that of the situation
    goal: Ints  # [N, A] the cell on the map to which it leads
    reached: Ints  # [A ** N] the joint state to which a joint action leads
    situation: Ints  # [A ** N] and the situation
    block: Doubles  # [A ** N] expected costs of joint actions
    before: Ints  # [N] the agents' cells on the map ...
    after: Ints  # [N] ... and where they go
    held: Ints  # [N] marks of agents with bodies; -1 between steps
    claim: Ints  # [cells of the map] and of cells, if agents have bodies; zero between steps


@inlined
def follow(state: np.int64, model: JointModel, buffers: JointBuffers) -> None:
    """Find the joint state to which every joint action leads if nobody slips."""
    agents, team = len(model.size), np.int64(state) // model.each
    for agent in range(agents):
        arrival = np.int64(state) // model.stride[agent] % model.size[agent]
        buffers.before[agent] = model.cell[agent, arrival]
        for action in range(ACTIONS):
            end = model.end[agent, team, arrival, action]
            buffers.goal[agent, action] = model.cell[agent, end]
            buffers.landing[agent, action] = model.landing[agent, end]
            buffers.kind[agent, action] = model.kind[agent, end]
    for joint in range(len(buffers.reached)):
        if model.body_rule != NO_BODIES:
            number = u64(joint)
            for index in range(agents):
                agent = agents - 1 - index
                buffers.after[agent] = buffers.goal[agent, number % ACTIONS]
                number //= ACTIONS
            hold_apart(model.body_rule, model.body, buffers.before, buffers.after, buffers.held, buffers.claim)
        number, cells, situation = u64(joint), np.int64(0), team * model.kinds
        for index in range(agents):
            agent, action = agents - 1 - index, number % ACTIONS
            if model.body_rule != NO_BODIES and buffers.after[agent] == buffers.before[agent]:
                action = u64(STAY)
            cells += buffers.landing[agent, action]
            situation += buffers.kind[agent, action]
            number //= ACTIONS
        buffers.reached[joint], buffers.situation[joint] = model.settled[situation] * model.each + cells, situation


@inlined
def slip(model: JointModel, block: Doubles) -> None:
    """Account for slips: agent by agent, average the costs of an action and of those that it may slip into."""
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
    order: Ints,  # the joint states to update
    model: JointModel,
    value: Doubles,  # [joint states] expected costs
    action: Floats,  # [joint states] out: the best joint action
    most: float,  # the steps that count for a failure
    buffers: JointBuffers,
) -> float:
    """Update joint states once, in order; return the largest relative change."""
    change, block = 0.0, buffers.block
    for state in order:
        follow(state, model, buffers)
        for joint in range(len(block)):
            block[joint] = value[buffers.reached[joint]]
            if len(model.cost) > 0:
                block[joint] = model.cost[buffers.situation[joint]] + model.discount * block[joint]
        if model.aside > 0:
            slip(model, block)
        best = cheapest(block)
        cost = block[best] if len(model.cost) > 0 else min(1.0 + block[best], most)
        change = max(change, abs(cost - value[state]) / max(abs(cost), 1.0))
        value[state], action[state] = cost, best
    return change


@inlined
def cheapest(block: Doubles) -> int:
    """Find the first joint action that costs the least."""
    best, least = 0, block[0]
    for joint in range(len(block)):
        if block[joint] < least - 1e-9:
            best, least = joint, block[joint]
    return best


@kernel
def explore(
    order: Ints,  # [nodes at most] out: the joint states that can be reached, after the `ENDS`
    count: int,  # how many nodes there are already: the `ENDS`, and joint states in which the team may start
    node: Words,  # [joint states] index in `order`; -1: not reached yet
    following: Words,  # [nodes at most, A ** N] out: the nodes to which joint actions lead
    end: Words,  # [V] the node for all joint states of a team state; -1: each has its own
    model: JointModel,
    buffers: JointBuffers,
) -> int:
    """List the joint states that can be reached without slips, and their successors; return how many there are."""
    each = len(node) // len(end)
    here = ENDS
    while here < count:
        follow(order[here], model, buffers)
        for joint in range(len(buffers.reached)):
            state = buffers.reached[joint]
            if node[state] < 0:
                if end[state // each] >= 0:
                    node[state] = end[state // each]
                elif count == len(order):
                    return FULL
                else:
                    node[state], order[count] = count, state
                    count += 1
            following[here, joint] = node[state]
        here += 1
    return count


@kernel
def count_back(
    order: Ints,  # [nodes] as `explore` lists them
    following: Words,  # [nodes, A ** N]
    first: Ints,  # [nodes + 2] in: zeros; where the predecessors of a node begin ...
    leading: Words,  # ... in this list of predecessors
    queue: Words,  # [nodes] buffer
    steps: Words,  # [nodes] buffer
    value: Doubles,  # [all joint states] in: `most`; out: the fewest steps
    action: Floats,  # [all joint states] out: the best joint action
    most: float,
    buffers: JointBuffers,
) -> None:
    """Compute the fewest steps from each joint state to the end; if that cannot be reached, they stay `most`."""
    for here in range(ENDS, len(order)):
        for joint in range(following.shape[1]):
            first[following[here, joint] + 2] += 1
    for here in range(len(order)):
        first[here + 2] += first[here + 1]
        steps[here] = -1
    for here in range(ENDS, len(order)):
        for joint in range(following.shape[1]):
            to = following[here, joint] + 1
            leading[first[to]] = here
            first[to] += 1
    queue[0], steps[0], known = 0, 0, 1
    for turn in range(len(order)):
        if turn < known:
            here = queue[turn]
            for index in range(first[here], first[here + 1]):
                before = leading[index]
                if steps[before] < 0:
                    steps[before] = steps[here] + 1
                    value[order[before]] = min(value[order[before]], steps[before])
                    queue[known], known = before, known + 1
    for here in range(ENDS, len(order)):
        for joint in range(following.shape[1]):
            to = following[here, joint]
            buffers.block[joint] = value[order[to]] if to >= ENDS else most * to
        action[order[here]] = cheapest(buffers.block)
