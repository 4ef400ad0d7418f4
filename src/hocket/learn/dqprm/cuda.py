"""DQPRM on a GPU: a thread for each lane, which keeps the q-values of its cell in registers between steps.

Lanes of machines with few states train so; lanes of larger machines, and teams whose agents wait for each other, train
by the plain loop of `train_team`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hocket.errors import SettingsError
from hocket.learn.cuda.block import DeviceBlock, DeviceJob, Runs, TeamBlock, rule_of
from hocket.learn.cuda.device import cuda, device_kernel, fetched, launch, placed, zeros
from hocket.learn.dqprm import kernel
from hocket.learn.dqprm.block import lane_tables, make_lanes, simulated_outcomes
from hocket.learn.episodes import pick_fields
from hocket.learn.kernels.actions import largest, load_rows, rates_at, softmax_action
from hocket.learn.kernels.arrays import Bools, Floats, Index, Ints, Numbers, UInts, u64
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.draws import first_number, second_number, slip_outcome, start_cell, sync_draw
from hocket.learn.kernels.vectors import load, load_row, pick, pick_each, row, store_row, where
from hocket.learn.learner import Arrays, machine_shapes
from hocket.task.tables import Tables

MOVES = kernel.ACTIONS * kernel.OUTCOMES
END_BITS, END_MASK = np.uint32(16), np.uint32(0xFFFF)


class LaneWorlds(NamedTuple):
    """The tables of P agents under some settings, or of one of them; see `LaneTables`."""

    arrive: UInts  # [P, D * S * A * K] the cell where a move ends, and the kind of the step in the bits from END_BITS
    limit: UInts  # [P, H, J - 1, U]
    next_state: UInts  # [P, H, J, U]
    reward: Floats  # [P, H, J, U]
    dynamics: UInts  # [P, U]
    is_final: Bools  # [P, U], or [P, U + 1]: the last stands for all final states, where they were left out
    distinct: Index  # [P]
    first_start: Index  # [P]
    starts: Index  # [P]
    initial: Index  # [P]
    slip_limit: int
    width: tuple[int, ...]


# The q-values of a cell are a vector over machine states for each of the five actions.


@inlined
def values_in(q: Numbers, u: Index) -> Numbers:
    """Take the values of the five actions in machine state u from those of a cell."""
    return (pick(q[0], u), pick(q[1], u), pick(q[2], u), pick(q[3], u), pick(q[4], u))


@inlined
def values_of(q: Numbers, action: Index) -> Numbers:
    """Take the values of an action in all machine states from those of a cell."""
    row = where(action == 1, q[1], q[0])
    row = where(action == 2, q[2], row)
    row = where(action == 3, q[3], row)
    return where(action == 4, q[4], row)


@inlined
def with_row(q: Numbers, action: Index, fresh: Numbers, is_here: bool) -> Numbers:
    """Replace the values of an action, if it was taken in this cell."""
    return (
        where(is_here and action == 0, fresh, q[0]),
        where(is_here and action == 1, fresh, q[1]),
        where(is_here and action == 2, fresh, q[2]),
        where(is_here and action == 3, fresh, q[3]),
        where(is_here and action == 4, fresh, q[4]),
    )


@inlined
def rows(q: Floats, lane: Index, cell: Index, world: LaneWorlds) -> Numbers:
    """Read the q-values of a cell."""
    states = u64(len(world.width))
    return load_rows(q, (lane * u64(q.shape[1]) + cell) * (kernel.ACTIONS * states), states, world.width, load_row)


@inlined
def targets(q: Numbers, kind: Index, draw: Index, world: LaneWorlds, discount: np.float32) -> tuple[Numbers, Numbers]:
    """Compute the targets and next states in all machine states, of a move that ends in a cell with these q-values."""
    best = largest(q)  # before outcomes are read: registers limit how many threads fit
    next_state, reward = kernel.outcomes(kind, u64(world.next_state.shape[1]), draw, world, load_row)
    return reward + discount * pick_each(best, next_state), next_state


class DqprmRuns(NamedTuple):
    """The lanes of runs."""

    lanes: kernel.DqprmLanes
    tables: Any  # LaneWorlds if a thread has a lane, LaneTables if it has a team
    runs: Runs
    fresh: Floats  # [teams, U] buffers for updated values


@inlined
def train_lane(thread: Index, about: DqprmRuns, begin: int, steps: int) -> None:
    """Train a thread's lane, if there is one, as `train_team` does; neighbouring threads have lanes of one agent."""
    lanes, worlds, runs, _ = about
    count, teams = u64(len(lanes.agent)), u64(len(runs.seed))
    if thread >= count:
        return
    run = thread % teams
    lane = run * (count // teams) + thread // teams
    world, rule = row(worlds, lanes.agent[lane]), rule_of(runs, run)
    q, key, cells, states, width = lanes.q, lanes.key[lane], u64(lanes.q.shape[1]), u64(len(world.width)), world.width
    cell, state, clock = np.uint32(lanes.cell[lane]), np.uint32(lanes.state[lane]), np.int64(lanes.clock[lane])
    here = rows(q, lane, u64(cell), world)
    for time in range(begin, begin + steps):
        alpha, beta = rates_at(rule, time)
        action = softmax_action(values_in(here, state), beta, first_number(key, time))
        old = values_of(here, action)  # before others are read: registers are few
        drawn = second_number(key, time)
        move = u64(3 * action + slip_outcome(drawn, world.slip_limit))
        draw = np.uint32(sync_draw(drawn))
        arrived = world.arrive[u64(cell) * MOVES + move]
        end = np.uint32(arrived & END_MASK)
        there = rows(q, lane, u64(end), world)
        target, next_states = targets(there, u64(arrived >> END_BITS), draw, world, rule.discount)
        next_cell, next_state = end, pick(next_states, state)
        for other in range(u64(1), u64(world.distinct)):
            arrived = world.arrive[(other * cells + u64(cell)) * MOVES + move]
            other_end = np.uint32(arrived & END_MASK)
            if other_end != end:
                has_other = load(world.dynamics, kernel.ZERO, width) == np.uint32(other)
                elsewhere = rows(q, lane, u64(other_end), world)
                other_target, next_states = targets(elsewhere, u64(arrived >> END_BITS), draw, world, rule.discount)
                target = where(has_other, other_target, target)
                if world.dynamics[u64(state)] == np.uint32(other):
                    next_cell, next_state = other_end, pick(next_states, state)
        fresh = old + alpha * (target - old)
        if not rule.counterfactual:
            fresh = where(load(kernel.STATES, kernel.ZERO, width) == state, fresh, old)
        store_row(q, ((lane * cells + u64(cell)) * kernel.ACTIONS + u64(action)) * states, fresh)
        clock += 1
        if clock >= rule.max_episode_steps or world.is_final[u64(next_state)]:
            start = start_cell(key, time + 1, world.first_start, world.starts, lanes.start_cell)
            next_cell, next_state, clock = np.uint32(start), np.uint32(world.initial), np.int64(0)
        here = rows(q, lane, u64(next_cell), world) if next_cell != end else with_row(there, action, fresh, end == cell)
        cell, state = next_cell, next_state
    lanes.cell[lane], lanes.state[lane], lanes.clock[lane] = cell, state, clock


@device_kernel
def train_lanes(about: DqprmRuns, begin: int, steps: int) -> None:
    """Train lanes whose machines have few states, each thread one."""
    train_lane(u64(cuda.grid(1)), about, begin, steps)


@inlined
def train_thread(team: Index, about: DqprmRuns, begin: int, steps: int) -> None:
    """Train a thread's team, if there is one."""
    lanes, tables, runs, fresh = about
    teams = u64(len(lanes.clock))
    if team < teams:
        rule = rule_of(runs, team * u64(len(runs.seed)) // teams)
        kernel.train_team(team, kernel.DqprmTraining(lanes, tables, rule), fresh[team], begin, steps)


@device_kernel
def train_teams(about: DqprmRuns, begin: int, steps: int) -> None:
    """Train teams whose machines have any number of states, each thread one."""
    train_thread(u64(cuda.grid(1)), about, begin, steps)


def without_final(tables: kernel.LaneTables) -> tuple[kernel.LaneTables, Ints]:
    """Leave out final states, in which nothing is learnt, if lanes become narrower by it. Also return the new index of
    each state, [P, U]; final ones are past the end, where all values are 0."""
    rows, states = tables.is_final.shape
    order = np.argsort(tables.is_final, axis=1, kind="stable")  # final states last
    width = kernel.padded(int((~tables.is_final).sum(axis=1).max()))
    every = np.arange(rows)
    if width > kernel.MANY or width >= states or tables.is_final[every, tables.initial].any():
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
        width=(0,) * width,
    )
    return narrow, column


def lane_worlds(tables: kernel.LaneTables) -> LaneWorlds:
    """Pack the cell where a move ends and the kind of the step into one number."""
    rows = len(tables.offset)
    end = tables.next_cell[tables.world]  # [rows, D, S, A * K]
    arrival = (end + tables.offset[:, None, :, None].astype(np.int64)).reshape(rows, -1)
    kind, end = np.take_along_axis(tables.kind, arrival, axis=1), end.reshape(rows, -1)
    return pick_fields(LaneWorlds, tables, arrive=end.astype(np.uint32) | (kind.astype(np.uint32) << END_BITS))


class DqprmDeviceBlock(TeamBlock):
    """Runs whose threads train a lane each, if machines have few states, or else a team."""

    by_memory = False
    common_settings = (*DeviceBlock.common_settings, "wait_for_team")

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        super().__init__(tables, jobs)
        if any(settings.team_review != "off" for settings in self.variants):
            raise SettingsError("team_review must be off on a graphics processor: teams are reviewed on the processor")
        agents, cells, actions, self.states = machine_shapes(tables)["q"]
        kinds = [(settings.sync_probability, settings.sync_literal) for settings in self.variants]
        outcomes = {kind: simulated_outcomes(tables, each) for kind, each in zip(kinds, self.variants, strict=True)}
        host = lane_tables(tables, [table for each in outcomes.values() for table in each])
        first = np.array([list(outcomes).index(kind) * agents for kind in kinds])  # rows of the settings
        column = np.tile(np.arange(self.states), (agents, 1))
        team_size = agents if self.variants[0].wait_for_team else 1
        is_small = team_size == 1 and max(host.offset.shape[1], host.limit.shape[1]) <= END_MASK  # both fit into a word
        if is_small:
            host, columns = without_final(host)
            column = columns[:agents, : self.states]
        self.column, self.host_column = placed(column), column
        states = host.dynamics.shape[1]
        self.q = zeros((len(jobs), agents, cells, actions, states))
        begun = make_lanes(tables, host, np.zeros(0, np.float32), self.seeds, team_size, first[self.variant])
        lanes = placed(begun)._replace(q=self.q.reshape(-1, cells, actions, states))
        self.is_fast = bool(is_small and host.width)
        self.threads = len(begun.agent if self.is_fast else begun.clock)
        fresh = zeros((1 if self.is_fast else self.threads, states))
        self.about = DqprmRuns(lanes, placed(lane_worlds(host) if self.is_fast else host), self.runs, fresh)

    @classmethod
    def size(cls, tables: Tables) -> int:
        agents, cells, actions, states = machine_shapes(tables)["q"]
        return agents * (4 * cells * actions * kernel.padded(states) + 64)

    def train(self, begin: int, steps: int) -> None:
        launch(train_lanes if self.is_fast else train_teams, self.threads, self.about, begin, steps)

    def arrays(self, index: int) -> Arrays:
        learnt = fetched(self.q[index])
        zero = np.zeros((*learnt.shape[:3], 1), np.float32)  # in final states, which have no column
        values = np.concatenate([learnt, zero], axis=3)
        column = np.minimum(self.host_column, learnt.shape[3])[:, None, None]
        return {"q": np.take_along_axis(values, column, axis=3)}
