"""DQPRM: a thread for each lane. What a lane knows of the cell where it is stays in registers from step to step.

How many numbers a vector has must be known when it is compiled. So functions on vectors over machine states are made
twice, by `_reading`, `_aiming`, `_train_at_once` and `_train_lane`, for machines of FEW and of MANY states; lanes of
larger machines, and teams whose agents wait for each other, train by the plain loop of `train_team`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.cuda.device import Kernel, cuda, device_kernel
from hocket.learn.cuda.parameters import DeviceParameters, Runs, schedule_at
from hocket.learn.dqprm.kernel import (
    ACTIONS,
    FEW,
    MANY,
    OUTCOMES,
    STATES,
    ZERO,
    DqprmLanes,
    DqprmParameters,
    LaneTables,
    LaneWorkspace,
    padded,
    pass_time,
)
from hocket.learn.dqprm.kernel import learn as learn_any
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import (
    Floats,
    Index,
    Numbers,
    beta_at,
    first_number,
    rate_at,
    second_number,
    slip_outcome,
    softmax_action,
    start_cell,
    sync_draw,
    u64,
)
from hocket.learn.kernels.vectors import load, load_row, pick, pick_each, store_row, where

MOVES = ACTIONS * OUTCOMES
END_BITS, END_MASK = np.uint32(16), np.uint32(0xFFFF)

Words = NDArray[np.uint32]


class LaneWorld(NamedTuple):
    """What the lanes of one agent under one setting need of a task, flat; see `LaneTables`."""

    arrive: Words  # [D * S * A * K] where a move ends: the cell, and the kind of the step above END_BITS
    limit: Words  # [H * (J - 1) * U]
    next_state: Words  # [H * J * U]
    reward: Floats  # [H * J * U]
    dynamics: Words  # [U]
    is_final: Words  # [U], and of all final states at once where they were left out
    cells: int
    cases: int
    distinct: int
    first_start: int
    starts: int
    start_cell: Words  # [all cells in which agents may start]
    initial: int
    slip_limit: int


class Lane(NamedTuple):
    """Where a lane is."""

    cell: Index
    state: Index
    clock: Index


@inlined
def choose(known: Numbers, state: Index, beta: np.float32, number: np.uint64) -> Index:
    """Choose an action by what is known of a cell, in a machine state."""
    return softmax_action(
        pick(known[0], state),
        pick(known[1], state),
        pick(known[2], state),
        pick(known[3], state),
        pick(known[4], state),
        beta,
        number,
    )


@inlined
def row_of(known: Numbers, action: Index) -> Numbers:
    """Pick what is known of an action."""
    row = where(action == 1, known[1], known[0])
    row = where(action == 2, known[2], row)
    row = where(action == 3, known[3], row)
    return where(action == 4, known[4], row)


@inlined
def with_row(known: Numbers, action: Index, fresh: Numbers, is_here: bool) -> Numbers:
    """Put what was learnt of an action in its place, if it was learnt here."""
    return (
        where(is_here and action == 0, fresh, known[0]),
        where(is_here and action == 1, fresh, known[1]),
        where(is_here and action == 2, fresh, known[2]),
        where(is_here and action == 3, fresh, known[3]),
        where(is_here and action == 4, fresh, known[4]),
    )


def _reading(width: int) -> Callable[..., Numbers]:
    """Make the function that reads what is known of a cell, where machines have so many states."""
    states = np.uint64(width)

    @inlined
    def rows(q: Floats, lane: Index, cells: Index, cell: Index) -> Numbers:
        """Read a vector over machine states for each action."""
        first = (lane * cells + cell) * (ACTIONS * states)
        return (
            load_row(q, first, width),
            load_row(q, first + states, width),
            load_row(q, first + u64(2) * states, width),
            load_row(q, first + u64(3) * states, width),
            load_row(q, first + u64(4) * states, width),
        )

    return rows


def _aiming(width: int) -> Callable[..., Numbers]:
    """Make the function that computes what to learn, where machines have so many states."""
    states = np.uint64(width)

    @inlined
    def goals(known: Numbers, kind: Index, ready: Index, world: LaneWorld, discount: np.float32) -> Numbers:
        """Compute what to learn in every machine state, of a move that ends in a cell of which this is known."""
        left, right = max(known[0], known[1]), max(known[2], known[3])
        best = max(max(left, right), known[4])
        cases = u64(world.cases)
        at, limit = kind * cases * states, kind * (cases - u64(1)) * states
        target, reward = load_row(world.next_state, at, width), load_row(world.reward, at, width)
        for case in range(u64(1), cases):
            passed = ready >= load_row(world.limit, limit + (case - u64(1)) * states, width)
            target = where(passed, load_row(world.next_state, at + case * states, width), target)
            reward = where(passed, load_row(world.reward, at + case * states, width), reward)
        return reward + discount * pick_each(best, target), target

    return goals


def _train_at_once(width: int) -> Callable[..., Lane]:
    """Make the function that trains a lane whose machine has so many states, all of which learn at once."""
    states, rows, goals = np.uint64(width), _reading(width), _aiming(width)

    @inlined
    def train(
        q: Floats,
        lane: Index,
        key: np.uint64,
        place: Lane,
        world: LaneWorld,
        own_parameters: DqprmParameters,
        begin: int,
        steps: int,
    ) -> Lane:
        """Train a lane that waits for nobody, from step `begin` on, as `train_lane` does."""
        cells = u64(world.cells)
        cell, state, clock = np.uint32(place.cell), np.uint32(place.state), np.int64(place.clock)
        known = rows(q, lane, cells, u64(cell))
        for time in range(begin, begin + steps):
            alpha, beta = rate_at(own_parameters.schedule, time), beta_at(own_parameters.schedule, time)
            action = choose(known, state, beta, first_number(key, time))
            old = row_of(known, action)  # before others are read: registers are few
            drawn = second_number(key, time)
            move = u64(3 * action + slip_outcome(drawn, world.slip_limit))
            ready = np.uint32(sync_draw(drawn))
            arrived = world.arrive[u64(cell) * MOVES + move]
            end = np.uint32(arrived & END_MASK)
            there = rows(q, lane, cells, u64(end))
            goal, target = goals(there, u64(arrived >> END_BITS), ready, world, own_parameters.discount)
            next_cell, next_state = end, pick(target, state)
            for other in range(u64(1), u64(world.distinct)):
                arrived = world.arrive[(other * cells + u64(cell)) * MOVES + move]
                own_end = np.uint32(arrived & END_MASK)
                if own_end != end:
                    mine = load(world.dynamics, ZERO, width) == np.uint32(other)
                    elsewhere = rows(q, lane, cells, u64(own_end))
                    own_goal, own_target = goals(
                        elsewhere, u64(arrived >> END_BITS), ready, world, own_parameters.discount
                    )
                    goal = where(mine, own_goal, goal)
                    if world.dynamics[u64(state)] == np.uint32(other):
                        next_cell, next_state = own_end, pick(own_target, state)
            fresh = old + alpha * (goal - old)
            if not own_parameters.counterfactual:
                fresh = where(load(STATES, ZERO, width) == state, fresh, old)
            store_row(q, ((lane * cells + u64(cell)) * ACTIONS + u64(action)) * states, fresh)
            clock += 1
            if clock >= own_parameters.max_episode_steps or world.is_final[u64(next_state)] != 0:
                start = start_cell(key, time + 1, world.first_start, world.starts, world.start_cell)
                next_cell, next_state, clock = np.uint32(start), np.uint32(world.initial), np.int64(0)
            if next_cell != end:
                known = rows(q, lane, cells, u64(next_cell))
            else:
                known = with_row(there, action, fresh, end == cell)
            cell, state = next_cell, next_state
        return Lane(cell, state, clock)

    return train


class LaneWorlds(NamedTuple):
    """The worlds of all agents under all settings, P of them, one in each row; see `LaneWorld`."""

    arrive: Words  # [P, D * S * A * K]
    limit: Words  # [P, H * (J - 1) * U]
    next_state: Words  # [P, H * J * U]
    reward: Floats  # [P, H * J * U]
    dynamics: Words  # [P, U]
    is_final: Words  # [P, U or U + 1]
    distinct: Words  # [P]
    first_start: Words  # [P]
    starts: Words  # [P]
    start_cell: Words  # [all cells in which agents may start]
    initial: Words  # [P]
    cells: int
    cases: int
    slip_limit: int


def is_small(tables: LaneTables) -> bool:
    """Say whether a cell and its kind fit into one word."""
    return bool(max(tables.offset.shape[1], tables.limit.shape[1]) <= END_MASK)


def without_final(tables: LaneTables) -> tuple[LaneTables, NDArray[np.int64]]:
    """Leave out final states, in which nothing is learnt, where lanes become narrower by it.

    Also say where each state is now: [P, U]. Final ones are past the end, where all values are 0.
    """
    rows, states = tables.is_final.shape
    order = np.argsort(tables.is_final, axis=1, kind="stable")  # those that are not final come first
    width = padded(int((~tables.is_final).sum(axis=1).max()))
    every = np.arange(rows)
    if width not in lanes_kernels or width >= states or tables.is_final[every, tables.initial].any():
        return tables, np.tile(np.arange(states), (rows, 1))
    column = np.where(tables.is_final, width, np.argsort(order, axis=1))
    kept = order[:, None, None, :width]
    next_state = column[every[:, None, None, None], np.take_along_axis(tables.next_state, kept, axis=3)]
    narrow = tables._replace(
        dynamics=np.take_along_axis(tables.dynamics, order[:, :width], axis=1),
        limit=np.take_along_axis(tables.limit, kept, axis=3),
        next_state=next_state.astype(np.uint32),
        reward=np.take_along_axis(tables.reward, kept, axis=3),
        is_final=np.broadcast_to(np.arange(width + 1) == width, (rows, width + 1)).copy(),
        initial=column[every, tables.initial].astype(np.uint32),
    )
    return narrow, column


def lane_worlds(tables: LaneTables) -> LaneWorlds:
    """Lay tables out in rows, the kind of a step beside the cell where it ends."""
    rows, cells = tables.offset.shape
    end = tables.next_cell[tables.world]  # [rows, D, S, A * K]
    arrival = (end + tables.offset[:, None, :, None].astype(np.int64)).reshape(rows, -1)
    kind, end = np.take_along_axis(tables.kind, arrival, axis=1), end.reshape(rows, -1)
    return LaneWorlds(
        end.astype(np.uint32) | (kind.astype(np.uint32) << END_BITS),
        tables.limit.reshape(rows, -1),
        tables.next_state.reshape(rows, -1),
        tables.reward.reshape(rows, -1),
        tables.dynamics,
        tables.is_final.astype(np.uint32),
        tables.distinct,
        tables.first_start,
        tables.starts,
        tables.start_cell,
        tables.initial,
        cells,
        tables.next_state.shape[2],
        tables.slip_limit,
    )


def _train_lane(width: int) -> Callable[..., None]:
    """Make the function that trains a thread's lane, where machines have so many states."""
    train = _train_at_once(width)

    @inlined
    def train_lane(
        thread: Index,
        lanes: DqprmLanes,
        worlds: LaneWorlds,
        parameters: DeviceParameters,
        runs: Runs,
        begin: int,
        steps: int,
    ) -> None:
        """Train a thread's lane, if there is one; neighbouring threads have lanes of the same agent."""
        count, teams = u64(len(lanes.agent)), u64(len(runs.seed))
        if thread >= count:
            return
        run = thread % teams
        lane = run * (count // teams) + thread // teams
        row, chosen = lanes.agent[lane], runs.variant[run]
        world = LaneWorld(
            worlds.arrive[row],
            worlds.limit[row],
            worlds.next_state[row],
            worlds.reward[row],
            worlds.dynamics[row],
            worlds.is_final[row],
            worlds.cells,
            worlds.cases,
            worlds.distinct[row],
            worlds.first_start[row],
            worlds.starts[row],
            worlds.start_cell,
            worlds.initial[row],
            worlds.slip_limit,
        )
        schedule, limit = schedule_at(parameters, chosen), parameters.max_episode_steps[chosen]
        own_parameters = DqprmParameters(schedule, parameters.discount[chosen], limit, parameters.switch[chosen], 1)
        place = Lane(lanes.cell[lane], lanes.state[lane], lanes.clock[lane])
        place = train(lanes.q, lane, lanes.key[lane], place, world, own_parameters, begin, steps)
        lanes.cell[lane], lanes.state[lane], lanes.clock[lane] = place.cell, place.state, place.clock

    return train_lane


train_lane_of_few, train_lane_of_many = _train_lane(FEW), _train_lane(MANY)


@device_kernel
def train_few(
    lanes: DqprmLanes, worlds: LaneWorlds, parameters: DeviceParameters, runs: Runs, begin: int, steps: int
) -> None:
    """Train lanes whose machines have few states, each thread one."""
    train_lane_of_few(u64(cuda.grid(1)), lanes, worlds, parameters, runs, begin, steps)


@device_kernel
def train_many(
    lanes: DqprmLanes, worlds: LaneWorlds, parameters: DeviceParameters, runs: Runs, begin: int, steps: int
) -> None:
    """Train lanes whose machines have some more states, each thread one."""
    train_lane_of_many(u64(cuda.grid(1)), lanes, worlds, parameters, runs, begin, steps)


lanes_kernels: dict[int, Kernel] = {FEW: train_few, MANY: train_many}  # by the number of machine states


class Fresh(NamedTuple):
    """Room for what lanes have learnt within a step."""

    q: Floats  # [teams, U]


@inlined
def train_team(
    team: Index,
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DeviceParameters,
    runs: Runs,
    fresh: Fresh,
    team_size: int,
    begin: int,
    steps: int,
) -> None:
    """Train the lanes of a team, if there is one, which may wait for each other, as `train_lanes` does."""
    teams, size, q = u64(len(lanes.clock)), u64(team_size), lanes.q
    if team >= teams:
        return
    chosen = runs.variant[team * u64(len(runs.seed)) // teams]
    schedule, limit = schedule_at(parameters, chosen), parameters.max_episode_steps[chosen]
    own_parameters = DqprmParameters(schedule, parameters.discount[chosen], limit, parameters.switch[chosen], team_size)
    workspace = LaneWorkspace(fresh.q, lanes.agent, lanes.agent, fresh.q[team])
    for time in range(begin, begin + steps):
        alpha, beta = rate_at(schedule, time), beta_at(schedule, time)
        for lane in range(team * size, (team + u64(1)) * size):
            cell, state = u64(lanes.cell[lane]), u64(lanes.state[lane])
            if team_size == 1 or not tables.is_final[u64(lanes.agent[lane]), state]:
                action = softmax_action(
                    q[lane, cell, u64(0), state],
                    q[lane, cell, u64(1), state],
                    q[lane, cell, u64(2), state],
                    q[lane, cell, u64(3), state],
                    q[lane, cell, u64(4), state],
                    beta,
                    first_number(lanes.key[lane], time),
                )
                drawn = second_number(lanes.key[lane], time)
                move = np.uint32(3 * action + slip_outcome(drawn, tables.slip_limit))
                learn_any(lane, move, np.uint32(sync_draw(drawn)), alpha, lanes, tables, own_parameters, workspace)
        pass_time(time, team, lanes, tables, own_parameters)


@device_kernel
def train_teams(
    lanes: DqprmLanes,
    tables: LaneTables,
    parameters: DeviceParameters,
    runs: Runs,
    fresh: Fresh,
    team_size: int,
    begin: int,
    steps: int,
) -> None:
    """Train teams whose machines have any number of states, each thread one."""
    train_team(u64(cuda.grid(1)), lanes, tables, parameters, runs, fresh, team_size, begin, steps)
