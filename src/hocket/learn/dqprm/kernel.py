"""Tabular q-learning with reward machines (the paper's Algorithm 1); a lane is one agent with simulated teammates.

`train_team` trains the lanes of a team in plain numbers and arrays, also in a thread of a GPU. `train_group` trains
many lanes step by step: random numbers and the choice of actions are vectors over lanes, and an update is a vector over
the states of the lane's machine. Both give the same bits.

Lanes of all agents and seeds lie in one array, teams one after the other. With `wait_for_team`, the lanes of a team
begin their episodes together; otherwise each lane is a team of its own.

s is a cell, u a machine state, and `target` what q(s, a, u) moves towards: r + discount * max over a' of q(s', a', u').
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hocket.learn.kernels.actions import Read, largest, load_rows, rates_at, softmax_action, values_at
from hocket.learn.kernels.arrays import LANES, SIMD, Bools, Floats, Index, Ints, Keys, Numbers, UInts, UWhole, u64
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.draws import CHANCE_MASK, first_number, second_number, slip_outcome, start_cell, sync_draw
from hocket.learn.kernels.vectors import converted, load, store, take, where
from hocket.learn.settings import LearningRule

FEW, MANY = 4, 8  # machine states that one vector holds

ZERO, ACTIONS, OUTCOMES, GROUP = u64(0), u64(5), u64(3), u64(LANES)

Learn = Callable[..., None]  # as `learn` does


class LaneTables(NamedTuple):
    """The tables of agents that train with simulated teammates (see `hocket.task.individual.IndividualTable`). U is the
    number of states of the largest machine, or a few more: states that an agent lacks lead to themselves and pay
    nothing, as final states do, so that their values stay 0."""

    next_cell: UWhole  # [W, D, S, A * K]
    world: UInts  # [N]
    dynamics: UInts  # [N, U]
    distinct: UInts  # [N] the number of dynamics that an agent has
    kind: UWhole  # [N, arrivals]
    offset: UInts  # [N, S]
    edges: tuple[int, ...]  # of length 2 if the task has edges, or else 1: kernels are compiled for either
    limit: UInts  # [N, H, J - 1, U]
    next_state: UInts  # [N, H, J, U]; J is at least 2
    reward: Floats  # [N, H, J, U]
    is_final: Bools  # [N, U]
    first_start: UInts  # [N] where the cells in which an agent may start begin in `DqprmLanes.start_cell` ...
    starts: UInts  # [N] ... and how many they are
    initial: UInts  # [N]
    slip_limit: int
    width: tuple[int, ...]  # of length U if an update is one vector, as kernels are compiled for U; otherwise empty


class DqprmLanes(NamedTuple):
    """The state of lanes that are at the same training step."""

    q: Floats  # [lanes, S, A, U]
    agent: UInts  # [lanes]
    cell: UInts  # [lanes]
    state: UInts  # [lanes] of the machine
    key: Keys  # [lanes and a few more] of the streams of random numbers
    clock: Ints  # [teams] steps of the current episode
    start_cell: UInts  # cells in which agents may start, one agent after the other


class DqprmTraining(NamedTuple):
    """Lanes, the tables of their agents and the learning rule."""

    lanes: DqprmLanes
    tables: LaneTables
    rule: LearningRule


class LaneBuffers(NamedTuple):
    """Buffers within a step of some lanes."""

    value: Floats  # [A, LANES] of the actions
    move: UInts  # [LANES] action x K + outcome
    draw: UInts  # [LANES] which decides whether simulated teammates are ready
    fresh: Floats  # [U] updated values of a lane


def padded(states: int) -> int:
    """Round the number of machine states up to the width of a vector, if they fit into one."""
    return next((width for width in (FEW, MANY) if states <= width), states)


def make_buffers(states: int) -> LaneBuffers:
    """Make buffers for machines of so many states."""
    move, draw = np.zeros((2, LANES), np.uint32)
    return LaneBuffers(np.zeros((5, LANES), np.float32), move, draw, np.zeros(states, np.float32))


# One lane.


@inlined
def learn(lane: Index, move: Index, draw: Index, alpha: np.float32, training: DqprmTraining, fresh: Floats) -> None:
    """Move, and update q(s, a, u) for every machine state u; `fresh` is a buffer, [U]."""
    lanes, tables, rule = training
    q = lanes.q
    agent, cell, state = u64(lanes.agent[lane]), u64(lanes.cell[lane]), u64(lanes.state[lane])
    action = u64(move) // OUTCOMES
    world, new_cell, new_state = u64(tables.world[agent]), cell, state
    offset = u64(tables.offset[agent, cell]) if len(tables.edges) > 1 else ZERO
    for u in range(u64(q.shape[3])):
        next_cell = u64(tables.next_cell[world, u64(tables.dynamics[agent, u]), cell, u64(move)])
        kind, case = u64(tables.kind[agent, offset + next_cell]), ZERO
        for later in range(u64(tables.limit.shape[2])):  # branches would be mispredicted
            case += u64(draw >= tables.limit[agent, kind, later, u])
        next_state, reward = u64(tables.next_state[agent, kind, case, u]), tables.reward[agent, kind, case, u]
        target = reward + rule.discount * largest(values_at(q, lane, next_cell, next_state))
        old = q[lane, cell, action, u]
        fresh[u] = old + alpha * (target - old)
        if u == state:
            new_cell, new_state = next_cell, next_state
    for u in range(u64(q.shape[3])):
        if rule.counterfactual or u == state:
            q[lane, cell, action, u] = fresh[u]
    lanes.cell[lane], lanes.state[lane] = new_cell, new_state


@inlined
def end_step(time: Index, team: Index, size: Index, training: DqprmTraining) -> None:
    """Count a step of a team; if all its lanes are in final states, or at the step limit, begin their next episode."""
    lanes, tables, rule = training
    begin, end = team * size, (team + u64(1)) * size
    lanes.clock[team] += 1
    if lanes.clock[team] < rule.max_episode_steps:
        for lane in range(begin, end):
            if not tables.is_final[u64(lanes.agent[lane]), u64(lanes.state[lane])]:
                return
    for lane in range(begin, end):
        agent = u64(lanes.agent[lane])
        first, count = tables.first_start[agent], tables.starts[agent]
        lanes.cell[lane] = start_cell(lanes.key[lane], time + 1, first, count, lanes.start_cell)
        lanes.state[lane] = tables.initial[agent]
    lanes.clock[team] = 0


@inlined
def train_team(team: Index, training: DqprmTraining, fresh: Floats, begin: int, steps: int) -> None:
    """Train the lanes of a team from step `begin` on."""
    lanes, tables, rule = training
    size = u64(len(lanes.agent)) // u64(len(lanes.clock))  # lanes that wait for each other; 1: none waits
    for time in range(begin, begin + steps):
        alpha, beta = rates_at(rule, time)
        for lane in range(team * size, (team + u64(1)) * size):
            cell, state = u64(lanes.cell[lane]), u64(lanes.state[lane])
            if size == 1 or not tables.is_final[u64(lanes.agent[lane]), state]:
                key = lanes.key[lane]
                action = softmax_action(values_at(lanes.q, lane, cell, state), beta, first_number(key, time))
                drawn = second_number(key, time)
                move = np.uint32(3 * action + slip_outcome(drawn, tables.slip_limit))
                learn(lane, move, np.uint32(sync_draw(drawn)), alpha, training, fresh)
        end_step(time, team, size, training)


@kernel
def train_one_team(team: int, training: DqprmTraining, buffers: LaneBuffers, begin: int, steps: int) -> None:
    """Train the lanes of a team, if they are too few for `train_group`."""
    train_team(u64(team), training, buffers.fresh, begin, steps)


# Many lanes.


@inlined
def outcomes(kind: Index, cases: Index, draw: Index, tables: Any, read: Read) -> tuple[Numbers, Numbers]:  # noqa: ANN401
    """Find the next states and rewards in all machine states, after a kind of step, by a draw for the teammates."""
    width = tables.width  # of LaneTables or LaneWorlds
    states = u64(len(width))
    at, limit = kind * cases * states, kind * (cases - u64(1)) * states
    passed = draw >= read(tables.limit, limit, width)  # there are at least two cases
    next_state = where(passed, read(tables.next_state, at + states, width), read(tables.next_state, at, width))
    reward = where(passed, read(tables.reward, at + states, width), read(tables.reward, at, width))
    for case in range(u64(2), cases):
        passed = draw >= read(tables.limit, limit + (case - u64(1)) * states, width)
        next_state = where(passed, read(tables.next_state, at + case * states, width), next_state)
        reward = where(passed, read(tables.reward, at + case * states, width), reward)
    return next_state, reward


@inlined
def targets(lane: Index, agent: Index, end: Index, offset: Index, draw: Index, training: DqprmTraining) -> Numbers:
    """Compute the targets in all machine states, of a move that ends in a cell."""
    lanes, tables, rule = training
    q, states = lanes.q, u64(len(tables.width))
    best = largest(load_rows(q, (lane * u64(q.shape[1]) + end) * (ACTIONS * states), states, tables.width, load))
    kind = agent * u64(tables.limit.shape[1]) + u64(tables.kind[agent, offset + end])
    next_state, reward = outcomes(kind, u64(tables.next_state.shape[2]), draw, tables, load)
    return reward + rule.discount * take(best, next_state)


@inlined
def learn_vector(lane: Index, move: Index, draw: Index, alpha: np.float32, training: DqprmTraining, _: Floats) -> None:
    """Move and update as `learn` does, for machines of few states: all of them are one vector."""
    lanes, tables, rule = training
    q, width = lanes.q, tables.width
    states = u64(len(width))
    agent, cell, state = u64(lanes.agent[lane]), u64(lanes.cell[lane]), u64(lanes.state[lane])
    action, world = u64(move) // OUTCOMES, u64(tables.world[agent])
    offset = u64(tables.offset[agent, cell]) if len(tables.edges) > 1 else ZERO
    end = u64(tables.next_cell[world, ZERO, cell, u64(move)])
    target = targets(lane, agent, end, offset, draw, training)
    for other in range(u64(1), u64(tables.distinct[agent])):
        other_end = u64(tables.next_cell[world, other, cell, u64(move)])
        if other_end != end:
            has_other = load(tables.dynamics, agent * states, width) == np.uint32(other)
            target = where(has_other, targets(lane, agent, other_end, offset, draw, training), target)
    here = ((lane * u64(q.shape[1]) + cell) * ACTIONS + action) * states
    old = load(q, here, width)
    fresh = old + alpha * (target - old)
    dynamics = u64(tables.dynamics[agent, state])
    end = u64(tables.next_cell[world, dynamics, cell, u64(move)])
    kind = u64(tables.kind[agent, offset + end])
    case = u64(draw >= tables.limit[agent, kind, ZERO, state])
    for later in range(u64(1), u64(tables.limit.shape[2])):
        case += u64(draw >= tables.limit[agent, kind, later, state])
    lanes.cell[lane], lanes.state[lane] = end, tables.next_state[agent, kind, case, state]
    if rule.counterfactual:
        store(q, here, fresh)
    else:
        store(q, here, where(load(STATES, ZERO, width) == np.uint32(state), fresh, old))


STATES = np.arange(MANY, dtype=np.uint32)


@inlined
def train_group(
    learn_by: Learn, training: DqprmTraining, buffers: LaneBuffers, first: int, last: int, begin: int, steps: int
) -> None:
    """Train the lanes `first` to `last` - 1, which are some whole teams, from step `begin` on."""
    lanes, tables, rule = training
    q, cell, state, end = lanes.q, lanes.cell, lanes.state, u64(last)
    size = u64(len(lanes.agent)) // u64(len(lanes.clock))
    for time in range(begin, begin + steps):
        alpha, beta = rates_at(rule, time)
        for group in range(u64(first), end, GROUP):
            count = min(GROUP, end - group)
            for index in range(count):
                lane = group + index
                s, u = u64(cell[lane]), u64(state[lane])  # read once: compilers assume that a store may change them
                for action in range(ACTIONS):
                    buffers.value[action, index] = q[lane, s, action, u]
            keys, values = load(lanes.key, group, LANES), load_rows(buffers.value, ZERO, GROUP, SIMD, load)
            action, drawn = softmax_action(values, beta, first_number(keys, time)), second_number(keys, time)
            store(buffers.move, ZERO, action * np.uint32(3) + slip_outcome(drawn, tables.slip_limit))
            store(buffers.draw, ZERO, converted(drawn & CHANCE_MASK, np.uint32))
            for index in range(count):
                lane = group + index
                if size == 1 or not tables.is_final[u64(lanes.agent[lane]), u64(state[lane])]:
                    learn_by(lane, buffers.move[index], buffers.draw[index], alpha, training, buffers.fresh)
        for team in range(u64(first) // size, end // size):
            end_step(time, team, size, training)


@kernel
def train_narrow(training: DqprmTraining, buffers: LaneBuffers, first: int, last: int, begin: int, steps: int) -> None:
    """Train lanes whose machines have few states."""
    train_group(learn_vector, training, buffers, first, last, begin, steps)


@kernel
def train_wide(training: DqprmTraining, buffers: LaneBuffers, first: int, last: int, begin: int, steps: int) -> None:
    """Train lanes whose machines have any number of states."""
    train_group(learn, training, buffers, first, last, begin, steps)
