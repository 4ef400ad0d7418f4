"""Tabular q-learning with reward machines (the paper's Algorithm 1), one agent with simulated teammates: a lane.

`train_team` trains the lanes of a team in plain numbers and arrays, also as a graphics processor's thread.
`train_group` trains many, a step of all of them at a time: random numbers and the choice of actions are vectors over
lanes, and what a lane learns in a step is a vector over the states of its machine. Both give the same bits.

Lanes of all agents and seeds lie in one array, teams one after the other. The lanes of a team begin their episodes
together, those that have finished waiting for the others; where nobody waits, every lane is a team of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.actions import largest, load_rows, rates_at, softmax_action, values_at
from hocket.learn.kernels.arrays import LANES, SIDE_BY_SIDE, Bools, Edges, Floats, Index, Numbers, Unsigned, Words, u64
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.draws import CHANCE_MASK, first_number, second_number, slip_outcome, start_cell, sync_draw
from hocket.learn.kernels.vectors import converted, load, store, take, where
from hocket.learn.settings import LearningRule

FEW, MANY = 4, 8  # machine states that learn at once

ZERO, ACTIONS, OUTCOMES, GROUP = u64(0), u64(5), u64(3), u64(LANES)

Learn = Callable[..., None]  # as `learn` does


class LaneTables(NamedTuple):
    """What agents that train with simulated teammates need of a task (see `hocket.task.individual.IndividualTable`).

    U are the states of the largest machine or a few more: those that an agent lacks lead to themselves and pay nothing,
    as final states do, so that their values stay 0.
    """

    next_cell: Unsigned  # [W, D, S, A * K]
    world: Words  # [N]
    dynamics: Words  # [N, U]
    distinct: Words  # [N] how many dynamics an agent has
    kind: Unsigned  # [N, arrivals]
    offset: Words  # [N, S]
    edges: Edges
    limit: Words  # [N, H, J - 1, U]
    next_state: Words  # [N, H, J, U]; J is at least 2
    reward: Floats  # [N, H, J, U]
    is_final: Bools  # [N, U]
    first_start: Words  # [N] where the cells begin in which an agent may start ...
    starts: Words  # [N] ... and how many they are, in a list of lanes
    initial: Words  # [N]
    slip_limit: int
    width: tuple[int, ...]  # as long as U where all states learn at once: kernels are compiled for it; otherwise empty


class DqprmLanes(NamedTuple):
    """Lanes that are at the same step of their training; all that is needed to go on."""

    q: Floats  # [lanes, S, A, U]
    agent: Words  # [lanes]
    cell: Words  # [lanes]
    state: Words  # [lanes] of the machine
    key: NDArray[np.uint64]  # [lanes and a few more] of the stream of random numbers
    clock: NDArray[np.int64]  # [teams] steps of the current episode
    start_cell: Words  # the cells in which agents may start


class DqprmTraining(NamedTuple):
    """Lanes that learn by a rule."""

    lanes: DqprmLanes
    tables: LaneTables
    rule: LearningRule


class LaneWorkspace(NamedTuple):
    """Room for what some lanes hand over within a step."""

    weight: Floats  # [A, LANES] values of the actions
    move: Words  # [LANES] chosen: an action and its outcome
    ready: Words  # [LANES] the draw that decides whether simulated teammates are
    fresh: Floats  # [U] what a lane has learnt


def padded(states: int) -> int:
    """Say how many machine states there is to be room for: as many as learn at once, where they are few."""
    return next((width for width in (FEW, MANY) if states <= width), states)


def make_workspace(states: int) -> LaneWorkspace:
    """Make room for machines of so many states."""
    numbers = (np.zeros(LANES, np.uint32), np.zeros(LANES, np.uint32))
    return LaneWorkspace(np.zeros((5, LANES), np.float32), *numbers, np.zeros(states, np.float32))


# One lane.


@inlined
def learn(lane: Index, move: Index, ready: Index, alpha: np.float32, training: DqprmTraining, fresh: Floats) -> None:
    """Move and learn from it for every machine state; `fresh` is room for that, [U]."""
    lanes, tables, rule = training
    q = lanes.q
    agent, cell, state = u64(lanes.agent[lane]), u64(lanes.cell[lane]), u64(lanes.state[lane])
    action = u64(move) // OUTCOMES
    world, next_cell, next_state = u64(tables.world[agent]), cell, state
    offset = u64(tables.offset[agent, cell]) if len(tables.edges) > 1 else ZERO
    for u in range(u64(q.shape[3])):
        end = u64(tables.next_cell[world, u64(tables.dynamics[agent, u]), cell, u64(move)])
        kind, case = u64(tables.kind[agent, offset + end]), ZERO
        for later in range(u64(tables.limit.shape[2])):  # a branch would be guesswork
            case += u64(ready >= tables.limit[agent, kind, later, u])
        target = u64(tables.next_state[agent, kind, case, u])
        old = q[lane, cell, action, u]
        goal = tables.reward[agent, kind, case, u] + rule.discount * largest(values_at(q, lane, end, target))
        fresh[u] = old + alpha * (goal - old)
        if u == state:
            next_cell, next_state = end, target
    for u in range(u64(q.shape[3])):
        if rule.counterfactual or u == state:
            q[lane, cell, action, u] = fresh[u]
    lanes.cell[lane], lanes.state[lane] = next_cell, next_state


@inlined
def pass_time(time: Index, team: Index, size: Index, training: DqprmTraining) -> None:
    """Count a step of a team, and begin its next episode if everyone has finished or the clock has run out."""
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
    """Train the lanes of a team, one after the other in every step, from step `begin` on."""
    lanes, tables, rule = training
    size = u64(len(lanes.agent)) // u64(len(lanes.clock))  # lanes that wait for each other; 1: nobody waits
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
        pass_time(time, team, size, training)


@kernel
def train_one_team(team: int, training: DqprmTraining, room: LaneWorkspace, begin: int, steps: int) -> None:
    """Train the lanes of a team, which are few, as `train_group` does."""
    train_team(u64(team), training, room.fresh, begin, steps)


# Many lanes.


@inlined
def goals(lane: Index, agent: Index, end: Index, offset: Index, ready: Index, training: DqprmTraining) -> Numbers:
    """Compute what to learn in every machine state, of a move that ends in a cell."""
    lanes, tables, rule = training
    q, cases, width = lanes.q, u64(tables.next_state.shape[2]), tables.width
    states = u64(len(width))
    best = largest(load_rows(q, (lane * u64(q.shape[1]) + end) * (ACTIONS * states), states, width))
    kinds = agent * u64(tables.limit.shape[1]) + u64(tables.kind[agent, offset + end])
    at, limit = kinds * cases * states, kinds * (cases - u64(1)) * states
    passed = ready >= load(tables.limit, limit, width)
    target = where(passed, load(tables.next_state, at + states, width), load(tables.next_state, at, width))
    reward = where(passed, load(tables.reward, at + states, width), load(tables.reward, at, width))
    for case in range(u64(2), cases):
        passed = ready >= load(tables.limit, limit + (case - u64(1)) * states, width)
        target = where(passed, load(tables.next_state, at + case * states, width), target)
        reward = where(passed, load(tables.reward, at + case * states, width), reward)
    return reward + rule.discount * take(best, target)


@inlined
def learn_at_once(
    lane: Index, move: Index, ready: Index, alpha: np.float32, training: DqprmTraining, _: Floats
) -> None:
    """Do as `learn` does for machines of few states, all of which learn at once."""
    lanes, tables, rule = training
    q, width = lanes.q, tables.width
    states = u64(len(width))
    agent, cell, state = u64(lanes.agent[lane]), u64(lanes.cell[lane]), u64(lanes.state[lane])
    action, world = u64(move) // OUTCOMES, u64(tables.world[agent])
    offset = u64(tables.offset[agent, cell]) if len(tables.edges) > 1 else ZERO
    end = u64(tables.next_cell[world, ZERO, cell, u64(move)])
    goal = goals(lane, agent, end, offset, ready, training)
    for other in range(u64(1), u64(tables.distinct[agent])):
        own_end = u64(tables.next_cell[world, other, cell, u64(move)])
        if own_end != end:
            mine = load(tables.dynamics, agent * states, width) == np.uint32(other)
            goal = where(mine, goals(lane, agent, own_end, offset, ready, training), goal)
    here = ((lane * u64(q.shape[1]) + cell) * ACTIONS + action) * states
    old = load(q, here, width)
    fresh = old + alpha * (goal - old)
    dynamics = u64(tables.dynamics[agent, state])
    end = u64(tables.next_cell[world, dynamics, cell, u64(move)])
    kind = u64(tables.kind[agent, offset + end])
    case = u64(ready >= tables.limit[agent, kind, ZERO, state])
    for later in range(u64(1), u64(tables.limit.shape[2])):
        case += u64(ready >= tables.limit[agent, kind, later, state])
    lanes.cell[lane], lanes.state[lane] = end, tables.next_state[agent, kind, case, state]
    if rule.counterfactual:
        store(q, here, fresh)
    else:
        store(q, here, where(load(STATES, ZERO, width) == np.uint32(state), fresh, old))


STATES = np.arange(MANY, dtype=np.uint32)


@inlined
def train_group(
    learn_by: Learn, training: DqprmTraining, room: LaneWorkspace, first: int, last: int, begin: int, steps: int
) -> None:
    """Train the lanes of some whole teams, from `first` to before `last`, from step `begin` on."""
    lanes, tables, rule = training
    q, cell, state, end = lanes.q, lanes.cell, lanes.state, u64(last)
    size = u64(len(lanes.agent)) // u64(len(lanes.clock))
    for time in range(begin, begin + steps):
        alpha, beta = rates_at(rule, time)
        for group in range(u64(first), end, GROUP):
            count = min(GROUP, end - group)
            for place in range(count):
                lane = group + place
                where_at, here_state = u64(cell[lane]), u64(state[lane])  # read once: stores may be to anywhere
                for action in range(ACTIONS):
                    room.weight[action, place] = q[lane, where_at, action, here_state]
            keys, values = load(lanes.key, group, LANES), load_rows(room.weight, ZERO, GROUP, SIDE_BY_SIDE)
            action, drawn = softmax_action(values, beta, first_number(keys, time)), second_number(keys, time)
            store(room.move, ZERO, action * np.uint32(3) + slip_outcome(drawn, tables.slip_limit))
            store(room.ready, ZERO, converted(drawn & CHANCE_MASK, np.uint32))
            for place in range(count):
                lane = group + place
                if size == 1 or not tables.is_final[u64(lanes.agent[lane]), u64(state[lane])]:
                    move, ready = room.move[place], room.ready[place]
                    learn_by(lane, move, ready, alpha, training, room.fresh)
        for team in range(u64(first) // size, end // size):
            pass_time(time, team, size, training)


@kernel
def train_narrow(training: DqprmTraining, room: LaneWorkspace, first: int, last: int, begin: int, steps: int) -> None:
    """Train lanes whose machines have few states."""
    train_group(learn_at_once, training, room, first, last, begin, steps)


@kernel
def train_wide(training: DqprmTraining, room: LaneWorkspace, first: int, last: int, begin: int, steps: int) -> None:
    """Train lanes whose machines have any number of states."""
    train_group(learn, training, room, first, last, begin, steps)
