"""Tabular q-learning with reward machines (the paper's Algorithm 1), one agent with simulated teammates: a lane.

`train_lane` trains one lane in plain numbers and arrays, as a graphics processor's thread would run it. `train_lanes`
trains many, a step of all of them at a time: random numbers and the choice of actions are vectors over lanes, and what
a lane learns in a step is a vector over the states of its machine. Both give the same bits.

Lanes of all agents and seeds lie in one array, teams one after the other. The lanes of a team begin their episodes
together, those that have finished waiting for the others; where nobody waits, every lane is a team of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.primitives import (
    CHANCE_MASK,
    LANES,
    Bools,
    Edges,
    Floats,
    Index,
    Numbers,
    Unsigned,
    Words,
    beta_at,
    first_number,
    rate_at,
    second_number,
    slip_outcome,
    slip_outcomes,
    softmax_action,
    softmax_actions,
    start_cell,
    sync_draw,
    u64,
)
from hocket.learn.kernels.vectors import converted, load, store, take, where
from hocket.learn.settings import Schedule

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
    starts: Words  # [N] ... how many they are ...
    start_cell: Words  # ... in this list
    initial: Words  # [N]
    slip_limit: int


class DqprmLanes(NamedTuple):
    """Lanes that are at the same step of their training; all that is needed to go on."""

    q: Floats  # [lanes, S, A, U]
    agent: Words  # [lanes]
    cell: Words  # [lanes]
    state: Words  # [lanes] of the machine
    key: NDArray[np.uint64]  # [lanes and a few more] of the stream of random numbers
    clock: NDArray[np.int64]  # [teams] steps of the current episode


class DqprmParameters(NamedTuple):
    """Settings of the learning rule."""

    schedule: Schedule
    discount: np.float32
    max_episode_steps: int  # at most
    counterfactual: bool  # learn for all machine states in every step
    team_size: int  # lanes that wait for each other; 1: nobody waits


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
def learn(
    lane: Index,
    move: Index,
    ready: Index,
    alpha: np.float32,
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DqprmParameters,
    workspace: LaneWorkspace,
) -> None:
    """Move and learn from it for every machine state."""
    q, fresh = lanes.q, workspace.fresh
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
        left = max(q[lane, end, u64(0), target], q[lane, end, u64(1), target])
        right = max(q[lane, end, u64(2), target], q[lane, end, u64(3), target])
        best = max(max(left, right), q[lane, end, u64(4), target])
        old = q[lane, cell, action, u]
        goal = tables.reward[agent, kind, case, u] + parameters.discount * best
        fresh[u] = old + alpha * (goal - old)
        if u == state:
            next_cell, next_state = end, target
    for u in range(u64(q.shape[3])):
        if parameters.counterfactual or u == state:
            q[lane, cell, action, u] = fresh[u]
    lanes.cell[lane], lanes.state[lane] = next_cell, next_state


# Many lanes.


@inlined
def move_together(workspace: LaneWorkspace, keys: Numbers, time: int, beta: np.float32, slip_limit: int) -> None:
    """Choose an action for every lane from the values in `workspace`, and draw its outcome."""
    q0, q1 = load(workspace.weight, u64(0), LANES), load(workspace.weight, u64(LANES), LANES)
    q2, q3 = load(workspace.weight, u64(2 * LANES), LANES), load(workspace.weight, u64(3 * LANES), LANES)
    q4 = load(workspace.weight, u64(4 * LANES), LANES)
    action = softmax_actions(q0, q1, q2, q3, q4, beta, first_number(keys, time))
    drawn = second_number(keys, time)
    store(workspace.move, ZERO, action * np.uint32(3) + slip_outcomes(drawn, slip_limit))
    store(workspace.ready, ZERO, converted(drawn & CHANCE_MASK, np.uint32))


def _learn_at_once(width: int) -> Learn:
    """Make `learn` for machines of so many states, all of which learn at once."""
    states = u64(width)

    @inlined
    def goals(
        lane: Index,
        agent: Index,
        end: Index,
        offset: Index,
        ready: Index,
        lanes: DqprmLanes,
        tables: LaneTables,
        parameters: DqprmParameters,
    ) -> Numbers:
        """Compute what to learn in every machine state, of a move that ends in a cell."""
        q, cases = lanes.q, u64(tables.next_state.shape[2])
        first = (lane * u64(q.shape[1]) + end) * (ACTIONS * states)
        left = max(load(q, first, width), load(q, first + states, width))
        right = max(load(q, first + u64(2) * states, width), load(q, first + u64(3) * states, width))
        best = max(max(left, right), load(q, first + u64(4) * states, width))
        row = agent * u64(tables.limit.shape[1]) + u64(tables.kind[agent, offset + end])
        at, limit = row * cases * states, row * (cases - u64(1)) * states
        passed = ready >= load(tables.limit, limit, width)
        target = where(passed, load(tables.next_state, at + states, width), load(tables.next_state, at, width))
        reward = where(passed, load(tables.reward, at + states, width), load(tables.reward, at, width))
        for case in range(u64(2), cases):
            passed = ready >= load(tables.limit, limit + (case - u64(1)) * states, width)
            target = where(passed, load(tables.next_state, at + case * states, width), target)
            reward = where(passed, load(tables.reward, at + case * states, width), reward)
        return reward + parameters.discount * take(best, target)

    @inlined
    def learn_at_once(
        lane: Index,
        move: Index,
        ready: Index,
        alpha: np.float32,
        lanes: DqprmLanes,
        tables: LaneTables,
        parameters: DqprmParameters,
        workspace: LaneWorkspace,
    ) -> None:
        q = lanes.q
        agent, cell, state = u64(lanes.agent[lane]), u64(lanes.cell[lane]), u64(lanes.state[lane])
        action, world = u64(move) // OUTCOMES, u64(tables.world[agent])
        offset = u64(tables.offset[agent, cell]) if len(tables.edges) > 1 else ZERO
        end = u64(tables.next_cell[world, ZERO, cell, u64(move)])
        goal = goals(lane, agent, end, offset, ready, lanes, tables, parameters)
        for other in range(u64(1), u64(tables.distinct[agent])):
            own_end = u64(tables.next_cell[world, other, cell, u64(move)])
            if own_end != end:
                mine = load(tables.dynamics, agent * states, width) == np.uint32(other)
                goal = where(mine, goals(lane, agent, own_end, offset, ready, lanes, tables, parameters), goal)
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
        if parameters.counterfactual:
            store(q, here, fresh)
        else:
            store(q, here, where(load(STATES, ZERO, width) == np.uint32(state), fresh, old))

    return learn_at_once


STATES = np.arange(MANY, dtype=np.uint32)
learn_few, learn_many = _learn_at_once(FEW), _learn_at_once(MANY)


@inlined
def pass_time(time: Index, team: Index, lanes: DqprmLanes, tables: LaneTables, parameters: DqprmParameters) -> None:
    """Count a step of a team, and begin its next episode if everyone has finished or the clock has run out."""
    begin, end = team * u64(parameters.team_size), (team + u64(1)) * u64(parameters.team_size)
    lanes.clock[team] += 1
    if lanes.clock[team] < parameters.max_episode_steps:
        for lane in range(begin, end):
            if not tables.is_final[u64(lanes.agent[lane]), u64(lanes.state[lane])]:
                return
    for lane in range(begin, end):
        agent = u64(lanes.agent[lane])
        first, count = tables.first_start[agent], tables.starts[agent]
        lanes.cell[lane] = start_cell(lanes.key[lane], time + 1, first, count, tables.start_cell)
        lanes.state[lane] = tables.initial[agent]
    lanes.clock[team] = 0


@inlined
def train_group(
    learn_by: Learn,
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DqprmParameters,
    workspace: LaneWorkspace,
    first: int,
    last: int,
    begin: int,
    steps: int,
) -> None:
    """Train the lanes of some whole teams, from `first` to before `last`, from step `begin` on."""
    q, cell, state = lanes.q, lanes.cell, lanes.state
    end, waits = u64(last), parameters.team_size > 1
    teams = range(u64(first) // u64(parameters.team_size), end // u64(parameters.team_size))
    for time in range(begin, begin + steps):
        alpha, beta = rate_at(parameters.schedule, time), beta_at(parameters.schedule, time)
        for group in range(u64(first), end, GROUP):
            count = min(GROUP, end - group)
            for place in range(count):
                lane = group + place
                where_at, here_state = u64(cell[lane]), u64(state[lane])  # read once: stores may be to anywhere
                for action in range(ACTIONS):
                    workspace.weight[action, place] = q[lane, where_at, action, here_state]
            move_together(workspace, load(lanes.key, group, LANES), time, beta, tables.slip_limit)
            for place in range(count):
                lane = group + place
                if not (waits and tables.is_final[u64(lanes.agent[lane]), u64(state[lane])]):
                    learn_by(
                        lane, workspace.move[place], workspace.ready[place], alpha, lanes, tables, parameters, workspace
                    )
        for team in teams:
            pass_time(time, team, lanes, tables, parameters)


@kernel
def train_few(
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DqprmParameters,
    workspace: LaneWorkspace,
    first: int,
    last: int,
    begin: int,
    steps: int,
) -> None:
    """Train lanes whose machines have few states."""
    train_group(learn_few, lanes, tables, parameters, workspace, first, last, begin, steps)


@kernel
def train_many(
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DqprmParameters,
    workspace: LaneWorkspace,
    first: int,
    last: int,
    begin: int,
    steps: int,
) -> None:
    """Train lanes whose machines have some more states."""
    train_group(learn_many, lanes, tables, parameters, workspace, first, last, begin, steps)


@kernel
def train_any(
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DqprmParameters,
    workspace: LaneWorkspace,
    first: int,
    last: int,
    begin: int,
    steps: int,
) -> None:
    """Train lanes whose machines have any number of states."""
    train_group(learn, lanes, tables, parameters, workspace, first, last, begin, steps)


def train_lanes(
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DqprmParameters,
    workspace: LaneWorkspace,
    first: int,
    last: int,
    begin: int,
    steps: int,
) -> None:
    """Train the lanes of some whole teams, from `first` to before `last`, from step `begin` on."""
    train = {FEW: train_few, MANY: train_many}.get(lanes.q.shape[3], train_any)
    train(lanes, tables, parameters, workspace, first, last, begin, steps)


@kernel
def train_lane(
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DqprmParameters,
    workspace: LaneWorkspace,
    lane: int,
    begin: int,
    steps: int,
) -> None:
    """Train one lane, which waits for nobody, from step `begin` on, as `train_lanes` does."""
    q, key, place = lanes.q, lanes.key[lane], u64(lane)
    for time in range(begin, begin + steps):
        cell, state = u64(lanes.cell[place]), u64(lanes.state[place])
        action = softmax_action(
            q[place, cell, u64(0), state],
            q[place, cell, u64(1), state],
            q[place, cell, u64(2), state],
            q[place, cell, u64(3), state],
            q[place, cell, u64(4), state],
            beta_at(parameters.schedule, time),
            first_number(key, time),
        )
        drawn = second_number(key, time)
        move = np.uint32(3 * action + slip_outcome(drawn, tables.slip_limit))
        ready = np.uint32(sync_draw(drawn))
        learn(place, move, ready, rate_at(parameters.schedule, time), lanes, tables, parameters, workspace)
        pass_time(time, place, lanes, tables, parameters)
