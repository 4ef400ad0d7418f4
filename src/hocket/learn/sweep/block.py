"""Prioritised sweeping: each agent learns how its moves turn out, hopes for the best where it does not know, and plans.

It trains with simulated teammates, as DQPRM does, and knows its local reward machine, where on the map its events
happen, where gates are, how likely simulated teammates are to be ready, and that a step leads no farther than to the
next cell. How moves turn out (walls, slips, what a gate closes) it learns from tries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.background import in_threads
from hocket.learn.learner import Arrays, Block, machine_shapes
from hocket.learn.moves import MoveTable, list_moves
from hocket.learn.reviews import WorldReviewedBlock, is_reviewed, next_review
from hocket.learn.sweep import SweepSettings, kernel
from hocket.learn.sweep.beliefs import AgentModel, Beliefs, imagined_moves
from hocket.learn.sweep.planning import (
    PRECISION,
    LanePlan,
    machine_bounds,
    open_moves,
    optimistic_values,
    plan,
    sweep_tables,
)
from hocket.learn.sweep.practice import SHARE_PRACTISED, Actor, Practice
from hocket.learn.sweep.queue import make_queues
from hocket.learn.world import CommonTries, WorldModel
from hocket.random import TRAINING, stream_key
from hocket.task.grid import OUTCOMES
from hocket.task.individual import IndividualTable, Simulation
from hocket.task.tables import Tables, draw_starts
from hocket.task.teamwork.readiness import Readiness

SHARED_EVERY = 200  # steps after which agents that share their tries learn of each other's
LAST_RESORT = 1e-3  # part of the optimistic values by which an agent acts where it knows of no way to a reward


class _View(NamedTuple):
    """What agents go by who believe the same of their teammates."""

    world: kernel.SweepTables
    optimistic_value: NDArray[np.float64]  # [S, U] the best that may come of each cell and machine state
    arrival: NDArray[np.float64]  # [arrivals, U] what arrivals are worth by that
    pessimistic_value: NDArray[np.float64]  # [U] the worst that may come of each machine state


class _Group(NamedTuple):
    """Agents that are alike but for where they start, of the first seed, then of the second, and so on."""

    agents: NDArray[np.int64]  # [agents] their numbers
    moves: MoveTable
    common: _View
    special: dict[int, _View]  # of lanes that believe something else
    lanes: kernel.SweepLanes

    def lanes_of(self, index: int) -> list[tuple[int, int]]:
        """List the agents and lanes of a seed."""
        return [(agent, index * len(self.agents) + place) for place, agent in enumerate(self.agents.tolist())]

    def view(self, lane: int) -> _View:
        """Say what a lane goes by."""
        return self.special.get(lane, self.common)


def make_block(tables: Tables, settings: SweepSettings, seeds: Sequence[int], threads: int = 1) -> Block:
    """Make a block of seeds; where teams are reviewed in the world, each seed is trained by itself."""
    if settings.team_review != "world" or not is_reviewed(tables):
        return SweepBlock(tables, settings, seeds, threads)
    teams = [(seed, SweepBlock(tables, settings, [seed])) for seed in seeds]
    readiness = Readiness(tables, sync_literal=settings.sync_literal)
    return WorldReviewedBlock(readiness, settings, teams, threads)


class SweepBlock:
    """Every agent of every seed, each with its model."""

    def __init__(self, tables: Tables, settings: SweepSettings, seeds: Sequence[int], threads: int = 1) -> None:
        self.shape, self.caution, self.most_bouts = machine_shapes(tables)["q"], settings.caution, settings.practice
        self.parameters = kernel.SweepParameters(
            settings.discount,
            settings.optimism,
            settings.backups,
            settings.priority_threshold,
            settings.max_episode_steps,
        )
        self.prior, self.without_walls = settings.prior, open_moves(tables.cells, tables.columns, tables.torus)
        self.ahead = self.without_walls.end[self.without_walls.move[0], 0]  # [S, A] the next cell, where no wall is
        self.moves = dict[tuple[int, int], MoveTable]()  # of each world, for all that live in it
        simulation = Simulation(tables, settings.sync_probability, settings.sync_literal)
        self.beliefs: list[Beliefs] = []  # of each seed, where they are counted
        pick_table: Callable[[int], IndividualTable] = simulation.table
        if settings.team_review != "off" and is_reviewed(tables):
            readiness, chance = Readiness(tables, sync_literal=settings.sync_literal), settings.sync_probability
            if settings.team_review == "imagined":
                self.beliefs = [Beliefs(readiness, chance, seed, settings.max_episode_steps) for seed in seeds]
            pick_table = partial(readiness.table, chances=readiness.believe(chance))
        self.tables = tables
        self.groups = [self._group(pick_table(int(agents[0])), agents, seeds) for agents in simulation.alike()]
        self.threads = max(1, min(threads, len(seeds) * self.shape[0]))
        self.planned: dict[int, Arrays] = {}  # by the tries so far
        self.practices = dict[int, Practice]()  # of the seeds whose agents act together
        self.seeds, self.shares = range(len(seeds)), settings.share_world
        self.common = CommonTries([group.moves for group in self.groups], len(seeds))

    def _group(self, table: IndividualTable, agents: NDArray[np.int64], seeds: Sequence[int]) -> _Group:
        """Work out what agents that are alike have in common, and begin without a try."""
        tables, dynamics = self.tables, int(table.dynamics.max()) + 1  # other agents may have more
        world = int(tables.world[table.place]), dynamics
        if world not in self.moves:
            self.moves[world] = list_moves(table.next_cell[:dynamics])
        moves, who = self.moves[world], np.tile(agents, len(seeds))
        common, count = self._view(table, moves), len(moves.end)
        keys = np.array([stream_key(TRAINING, seed, agent) for seed in seeds for agent in agents.tolist()], np.uint64)
        initial = tables.initial[who].astype(np.int64)
        lanes = kernel.SweepLanes(
            tries=np.zeros((len(who), count, OUTCOMES), np.int64),
            chance=np.zeros((len(who), count, OUTCOMES)),
            prior_weight=np.ones((len(who), count)),
            arrival=np.tile(common.arrival, (len(who), 1, 1)),
            best=np.zeros((len(who), len(table.dynamics))),
            queue=make_queues(len(who), table.cells),
            cell=draw_starts(tables, keys, who),
            state=initial.copy(),
            clock=np.zeros(len(who), np.int64),
            key=keys,
            first_start=tables.first_start[who].astype(np.int64),
            starts=np.diff(tables.first_start)[who].astype(np.int64),
            start_cell=tables.start_cell,
            initial=initial,
        )
        return _Group(agents, moves, common, {}, lanes)

    def _view(self, table: IndividualTable, moves: MoveTable) -> _View:
        """Work out what an agent goes by; values are bounded by the distance to its events or, flat, by its machine."""
        discount = self.parameters.discount
        if self.prior == "distance":
            bound, arrival = optimistic_values(table, discount, self.without_walls)
        else:
            arrival = np.tile(machine_bounds(table, discount, np.max), (len(table.kind), 1))
            bound = arrival[: table.cells]
        return _View(sweep_tables(table, moves), bound, arrival, machine_bounds(table, discount, np.min))

    def train(self, begin: int, steps: int) -> None:
        self.planned.clear()
        stop = begin + steps
        while begin < stop:
            review = next_review(begin) if self.beliefs else stop + 1
            shared = begin - begin % SHARED_EVERY + SHARED_EVERY if self.shares else stop + 1
            until = min(stop, review, shared)
            resumed = {index: self._practise(index, begin, until) for index in sorted(self.practices)}
            parts = [(group, part) for group in self.groups for part in _shares(len(group.lanes.cell), self.threads)]
            in_threads(partial(self._train_part, begin, until, resumed), parts, self.threads)
            for index in self.seeds if until == shared else ():
                self.common.tries[index] = self._pool(index)
                self._plan_common(index)
            for index in self.seeds if until == review else ():
                self._review(index, until)
            begin = until

    def _train_part(
        self, begin: int, until: int, resumed: Mapping[int, int], lanes_of_group: tuple[_Group, range]
    ) -> None:
        """Train lanes until a step; those of some seeds from a later one on."""
        group, part = lanes_of_group
        alike = not (group.special or resumed)
        for lanes in [part] if alike else [range(lane, lane + 1) for lane in part]:
            view, first = group.view(lanes.start), resumed.get(lanes.start // len(group.agents), begin)
            value, steps = view.optimistic_value, until - first
            kernel.train_lanes(group.lanes, view.world, self.parameters, value, lanes.start, lanes.stop, first, steps)

    def _practise(self, index: int, begin: int, until: int) -> int:
        """Let the agents of a seed act together until a step, or as long as it takes; return the step that is next."""
        while begin < until and index in self.practices:
            practice = self.practices[index]
            begin = practice.train(begin, until)
            if practice.is_over:
                del self.practices[index]
                self._review(index, begin, practice.bout + 1)
        return begin

    def begin_with(self, world: WorldModel) -> None:
        """Begin with what was learnt before, and count what follows from it for teammates."""
        self.planned.clear()
        self.common.begin_with(world)
        for index in self.seeds:
            self._plan_common(index)
            if self.beliefs:
                self._review(index, 0)
                if (values := self.beliefs[index].values) is not None:
                    self.planned[index] = {"q": values}  # the very team that was imagined

    def learnt(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the moves of a seed's world, and how often its agents have tried them, without what they began with."""
        return self.common.move, self._pool(index) - self.common.first

    def _pool(self, index: int) -> NDArray[np.int64]:
        lanes = (
            (number, group.lanes.tries[lane])
            for number, group in enumerate(self.groups)
            for _, lane in group.lanes_of(index)
        )
        return self.common.pool(index, lanes)

    def _plan_common(self, index: int) -> None:
        """Let the agents of a seed go by what they know in common."""
        weight = self.parameters.optimism
        for group, place in zip(self.groups, self.common.place, strict=True):
            for _, lane in group.lanes_of(index):
                tries = group.lanes.tries[lane] = self.common.tries[index][place]
                total = tries.sum(axis=1) + weight
                group.lanes.chance[lane], group.lanes.prior_weight[lane] = tries / total[:, None], weight / total
                group.lanes.arrival[lane] = self._hopeful_plan(group, lane, group.view(lane)).arrival

    def _review(self, index: int, step: int, bout: int = 0) -> None:
        """Let the agents of a seed count what they believe of their teammates, and practise where that rests on hope.

        So many bouts of practice have been since the last review that was due.
        """
        lanes = {agent: (group, lane) for group in self.groups for agent, lane in group.lanes_of(index)}
        team = [lanes[agent] for agent in range(len(lanes))]
        models = [AgentModel(group.moves, group.lanes.tries[lane]) for group, lane in team]
        beliefs, ahead = self.beliefs[index], self.ahead
        hopeful = imagined_moves(models, ahead, self.parameters.optimism)
        cautious = imagined_moves(models, np.broadcast_to(np.arange(len(ahead))[:, None], ahead.shape), self.caution)
        for agent in beliefs.review(step, self.parameters.discount, cautious, hopeful):
            self.believe(beliefs.table(agent), index)
        self.practices.pop(index, None)
        if beliefs.is_hope and bout < self.most_bouts:
            views = [group.view(lane) for group, lane in team]
            actors = [
                Actor(group.lanes, lane, view.world, view.optimistic_value)
                for (group, lane), view in zip(team, views, strict=True)
            ]
            steps = max(1, step // SHARE_PRACTISED)
            self.practices[index] = Practice(self.tables, self.parameters, actors, bout, steps)

    def believe(self, table: IndividualTable, index: int = 0) -> None:
        """Let an agent of a seed go by another table from now on, and plan by it."""
        self.planned.clear()
        for group in self.groups:
            for agent, lane in group.lanes_of(index):
                if agent == table.place:
                    view = group.special[lane] = self._view(table, group.moves)
                    group.lanes.arrival[lane] = self._hopeful_plan(group, lane, view).arrival

    def _hopeful_plan(self, group: _Group, lane: int, view: _View) -> LanePlan:
        """Plan with what a lane has tried, and hope for the best where it has not."""
        optimism, discount = self.parameters.optimism, self.parameters.discount
        return plan(group.lanes.tries[lane], view.world, view.optimistic_value, optimism, discount)

    def _hope(self, group: _Group, lane: int) -> NDArray[np.float64]:
        """Value a lane's actions with optimism, as if those that it has not tried led to the next cell: [S, A, U]."""
        view = group.common
        values, arrival = self._hopeful_plan(group, lane, view)
        is_tried = (group.lanes.tries[lane].sum(axis=1) > 0)[group.moves.move[view.world.dynamics]]  # [U, S, A]
        return np.where(np.moveaxis(is_tried, 0, -1), values, arrival[self.ahead])

    def arrays(self, index: int) -> Arrays:
        """Plan by what the seed has tried, with caution; a team planned on a given world stays until it trains."""
        if index not in self.planned:
            self.planned[index] = self._plan(index)
        return self.planned[index]

    def _plan(self, index: int) -> Arrays:
        q = np.zeros(self.shape, np.float32)
        for group in self.groups:
            for agent, lane in group.lanes_of(index):
                view = group.view(lane)
                worst = np.tile(view.pessimistic_value, (self.shape[1], 1))
                values = plan(group.lanes.tries[lane], view.world, worst, self.caution, self.parameters.discount).q
                is_lost = (values.max(axis=1) <= worst) & (worst < group.common.optimistic_value - PRECISION)  # [S, U]
                if self.prior == "distance" and is_lost.any():
                    hoped = np.maximum(self._hope(group, lane) - worst[:, None], 0)
                    values = np.where(is_lost[:, None], values + LAST_RESORT * hoped, values)
                q[agent, ..., : values.shape[2]] = values
        return {"q": q}


def _shares(lanes: int, threads: int) -> list[range]:
    """Cut lanes into as many ranges as there are threads, of about the same length.

    >>> _shares(5, 2)
    [range(0, 2), range(2, 5)]
    """
    edges = [lanes * part // threads for part in range(threads + 1)]
    return [range(first, stop) for first, stop in pairwise(edges) if first < stop]


def extra_bytes(tables: Tables) -> int:
    """Count the bytes of models, hopes and queues, and of room for planning, also without walls."""
    agents, cells, actions, states = machine_shapes(tables)["q"]
    model = (cells * (actions * (2 * OUTCOMES + 1) + states + 3) + tables.arrivals * states) * 8
    without_walls = cells * actions * (states + OUTCOMES + 2) * 4
    return (agents + 1) * model + without_walls
