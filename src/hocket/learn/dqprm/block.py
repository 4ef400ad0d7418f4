"""DQPRM, the paper's Algorithm 1: each agent trains with simulated teammates, by its own projected reward machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.background import in_threads
from hocket.learn.dqprm import VECTOR_LANES, DqprmSettings, kernel
from hocket.learn.episodes import edges_of, training_keys, unsigned
from hocket.learn.kernels.arrays import LANES, Floats, Ints, UInts
from hocket.learn.learner import Arrays, Block, machine_shapes
from hocket.learn.reviews import LEAST_READY_MODEL_FREE, TableTeam, WorldReviewedBlock, is_reviewed
from hocket.learn.settings import SimulatedSettings
from hocket.random import threshold
from hocket.task.individual import IndividualTable, Outcomes, Simulation
from hocket.task.tables import Tables, draw_starts
from hocket.task.teamwork.readiness import Readiness


def make_block(tables: Tables, settings: DqprmSettings, seeds: Sequence[int], threads: int = 1) -> Block:
    """Make a block of seeds; if teams are reviewed in the world, each seed is trained by itself."""
    if settings.team_review == "off" or not is_reviewed(tables):
        return DqprmBlock(tables, settings, seeds, threads)
    readiness = Readiness(tables, sync_literal=settings.sync_literal)
    chances = readiness.believe(settings.sync_probability)
    shared = lane_tables(tables, [readiness.table(agent, chances) for agent in range(len(tables.start))])
    blocks = [(seed, DqprmBlock(tables, settings, [seed], shared=shared)) for seed in seeds]
    teams = [TableTeam(readiness, block, seed, LEAST_READY_MODEL_FREE) for seed, block in blocks]
    return WorldReviewedBlock(teams, settings, threads)


class DqprmBlock:
    """A lane for every agent of every seed; groups of lanes train independently."""

    def __init__(
        self,
        tables: Tables,
        settings: DqprmSettings,
        seeds: Sequence[int],
        threads: int = 1,
        shared: kernel.LaneTables | None = None,  # the lanes' tables, if other blocks begin with the same
    ) -> None:
        agents, cells, actions, self.states = machine_shapes(tables)["q"]
        self.tables = shared or lane_tables(tables, simulated_outcomes(tables, settings))
        self.q = np.zeros((len(seeds), agents, cells, actions, self.tables.is_final.shape[1]), np.float32)
        self.rule, self.team_size = settings.rule, agents if settings.wait_for_team else 1
        self.lanes = make_lanes(tables, self.tables, self.q.reshape(-1, *self.q.shape[2:]), seeds, self.team_size)
        lanes, size = agents * len(seeds), max(1, LANES // self.team_size) * self.team_size
        self.groups = [range(first, min(first + size, lanes)) for first in range(0, lanes, size)]  # of whole teams
        self.threads = max(1, min(threads, len(self.groups)))

    def train(self, begin: int, steps: int) -> None:
        shares = [self.groups[first :: self.threads] for first in range(self.threads)]
        in_threads(lambda share: self._train_groups(share, begin, steps), shares, self.threads)

    def _train_groups(self, groups: Sequence[range], begin: int, steps: int) -> None:
        buffers = kernel.make_buffers(self.q.shape[4])
        training = kernel.DqprmTraining(self.lanes, self.tables, self.rule)
        train = kernel.train_narrow if self.tables.width else kernel.train_wide
        for group in groups:
            if len(group) >= VECTOR_LANES or self.team_size > 1:
                train(training, buffers, group.start, group.stop, begin, steps)
            else:
                for lane in group:
                    kernel.train_one_team(lane, training, buffers, begin, steps)

    def believe(self, table: IndividualTable) -> None:
        """Let an agent train with teammates that are as ready as a table says from now on."""
        limit = self.tables.limit.copy()
        limit[table.place, ..., : len(table.dynamics)] = lane_limits(table)
        self.tables = self.tables._replace(limit=limit)

    def arrays(self, index: int) -> Arrays:
        return {"q": np.ascontiguousarray(self.q[index, ..., : self.states])}


def make_lanes(
    tables: Tables,
    world: kernel.LaneTables,
    q: Floats,
    seeds: Sequence[int] | Ints,
    team_size: int,
    first: NDArray[np.integer] | int = 0,  # [seeds] where a seed's rows begin in the world's tables
) -> kernel.DqprmLanes:
    """Put the lanes of each seed into their start cells."""
    index, keys = np.tile(np.arange(len(tables.start)), len(seeds)), training_keys(seeds, len(tables.start)).ravel()
    rows = (index.reshape(len(seeds), -1) + np.reshape(first, (-1, 1))).ravel()
    cells, start_cell = draw_starts(tables, keys, index).astype(np.uint32), tables.start_cell.astype(np.uint32)
    keys, clock = np.append(keys, np.zeros(LANES, np.uint64)), np.zeros(len(rows) // team_size, np.int64)
    return kernel.DqprmLanes(q, rows.astype(np.uint32), cells, world.initial[rows], keys, clock, start_cell)


def simulated_outcomes(tables: Tables, settings: SimulatedSettings) -> list[Outcomes]:
    """Tabulate the outcomes of each agent's steps, with teammates that are ready with a constant probability."""
    simulation = Simulation(tables, settings.sync_probability, settings.sync_literal)
    return [simulation.outcomes(agent) for agent in range(len(tables.start))]


def lane_limits(table: Outcomes | IndividualTable) -> UInts:
    """Return the limits of draws with the machine states last: [H, J - 1, U]."""
    return np.minimum(table.limit, np.iinfo(np.uint32).max).transpose(1, 2, 0).astype(np.uint32)


def lane_tables(tables: Tables, outcomes_of: Sequence[Outcomes | IndividualTable]) -> kernel.LaneTables:
    """Stack the tables of all agents, once or under several settings; states that an agent lacks lead to themselves."""
    rows, kinds, cases = len(outcomes_of), tables.event.shape[2], max(table.chance.shape[2] for table in outcomes_of)
    states = kernel.padded(int(tables.states.max()))
    shape = (rows, kinds, max(2, cases), states)
    limit = np.full((rows, kinds, shape[2] - 1, states), np.iinfo(np.uint32).max, np.uint32)
    next_state = np.broadcast_to(np.arange(states, dtype=np.uint32), shape).copy()
    reward, agents = np.zeros(shape, np.float32), np.arange(rows) % len(tables.start)
    dynamics, is_final = np.zeros((rows, states), np.uint32), np.ones((rows, states), np.bool_)
    for row, (agent, table) in enumerate(zip(agents, outcomes_of, strict=True)):
        count, _, cases = table.chance.shape
        limit[row, :, : cases - 1, :count] = lane_limits(table)
        next_state[row, :, :cases, :count] = table.next_state.transpose(1, 2, 0)
        reward[row, :, :cases, :count] = table.reward.transpose(1, 2, 0)
        dynamics[row, :count], is_final[row, :count] = tables.dynamics[agent, :count], tables.is_over[agent, :count]
    parts = ("world", "offset", "first_start", "initial")
    return kernel.LaneTables(
        **{name: getattr(tables, name)[agents].astype(np.uint32) for name in parts},
        next_cell=unsigned(tables.next_cell.reshape(*tables.next_cell.shape[:3], -1)),
        dynamics=dynamics,
        distinct=dynamics.max(axis=1) + np.uint32(1),
        kind=unsigned(tables.kind[agents]),
        edges=edges_of(tables),
        limit=limit,
        next_state=next_state,
        reward=reward,
        is_final=is_final,
        starts=np.diff(tables.first_start)[agents].astype(np.uint32),
        slip_limit=threshold(tables.slip),
        width=(0,) * states if states <= kernel.MANY else (),
    )
