"""Training, reviews and planning of every agent of every seed, each with its model (see `hocket.learn.sweep`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hocket.background import in_threads
from hocket.learn.episodes import pick_fields
from hocket.learn.learner import Arrays, Block, machine_shapes
from hocket.learn.moves import MoveTable, list_moves
from hocket.learn.reviews import WorldReviewedBlock, is_reviewed, next_review
from hocket.learn.sweep import SweepSettings, kernel
from hocket.learn.sweep.beliefs import FIRST_FULL_SEARCH, Beliefs, imagined_moves
from hocket.learn.sweep.planning import (
    PRECISION,
    AgentView,
    LanePlan,
    Sweeper,
    machine_bounds,
    open_moves,
    optimistic_values,
    plan,
    sweep_tables,
)
from hocket.learn.sweep.practice import SHARE_PRACTISED, Practice
from hocket.learn.world import CommonTries, WorldModel
from hocket.random import TRAINING, stream_key
from hocket.task.grid import OUTCOMES
from hocket.task.individual import IndividualTable, Simulation
from hocket.task.tables import Tables, draw_starts
from hocket.task.teamwork.readiness import Readiness

SHARED_EVERY = 200  # steps after which agents that share their tries learn of each other's
LAST_RESORT = 1e-3  # part of the optimistic values by which an agent acts where it knows of no way to a reward


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
        self.final_review = settings.final_review
        self.parameters = pick_fields(kernel.SweepParameters, settings)
        self.prior, self.without_walls = settings.prior, open_moves(tables.cells, tables.columns, tables.torus)
        self.ahead = self.without_walls.end[self.without_walls.move[0], 0]  # [S, A] the next cell, where no wall is
        simulation = Simulation(tables, settings.sync_probability, settings.sync_literal)
        self.beliefs: list[Beliefs] = []  # of each seed, where they are counted
        pick_table: Callable[[int], IndividualTable] = simulation.table
        if settings.team_review != "off" and is_reviewed(tables):
            readiness, chance = Readiness(tables, sync_literal=settings.sync_literal), settings.sync_probability
            if settings.team_review == "imagined":
                self.beliefs = [Beliefs(readiness, chance, seed, settings.max_episode_steps) for seed in seeds]
            pick_table = partial(readiness.table, chances=readiness.believe(chance))
        alike = simulation.alike()
        of_alike = [pick_table(int(agents[0])) for agents in alike]
        moves = _list_moves(tables, of_alike)
        self.common = CommonTries(moves, len(seeds))
        begun = dict[int, tuple[MoveTable, NDArray[np.int64], AgentView]]()
        for agents, table, listed, place in zip(alike, of_alike, moves, self.common.place, strict=True):
            begun |= dict.fromkeys(agents.tolist(), (listed, place, self._view(table, listed)))
        self.tables, self.shares = tables, settings.share_world
        self.teams = [[self._begin(seed, agent, *begun[agent]) for agent in range(len(begun))] for seed in seeds]
        self.threads = max(1, min(threads, len(seeds) * len(begun)))
        self.planned: dict[int, Arrays] = {}  # by the tries so far
        self.practices = dict[int, Practice]()  # of the seeds whose agents act together

    def _begin(self, seed: int, agent: int, moves: MoveTable, place: NDArray[np.int64], view: AgentView) -> Sweeper:
        """Put an agent where it starts, without a try: it is worth what is hoped for to arrive in a cell."""
        tables, key = self.tables, np.uint64(stream_key(TRAINING, seed, agent))
        (cell,), initial = draw_starts(tables, np.array([key]), np.array([agent])), int(tables.initial[agent])
        model = kernel.MoveModel(
            tries=np.zeros(moves.end.shape, np.int64),
            chance=np.zeros(moves.end.shape),
            prior_weight=np.ones(len(moves.end)),
            prior_value=view.optimistic_value,
            arrival=view.arrival.copy(),
            best=np.zeros(len(view.world.dynamics)),
        )
        starts, now = tables.starts(agent).astype(np.int64), np.array([cell, initial, 0])
        lane = kernel.SweepLane(model, kernel.make_queue(tables.cells), now, key, starts, initial)
        return Sweeper(moves, place, view, view, lane)

    def _view(self, table: IndividualTable, moves: MoveTable) -> AgentView:
        """Work out what an agent goes by; values are bounded by the distance to its events or, flat, by its machine."""
        discount = self.parameters.discount
        if self.prior == "distance":
            bound, arrival = optimistic_values(table, discount, self.without_walls)
        else:
            arrival = np.tile(machine_bounds(table, discount, np.max), (len(table.kind), 1))
            bound = arrival[: table.cells]
        return AgentView(sweep_tables(table, moves), bound, arrival, machine_bounds(table, discount, np.min))

    def train(self, begin: int, steps: int) -> None:
        self.planned.clear()
        stop = begin + steps
        while begin < stop:
            review = next_review(begin) if self.beliefs else stop + 1
            shared = begin - begin % SHARED_EVERY + SHARED_EVERY if self.shares else stop + 1
            until = min(stop, review, shared)
            resumed = [self._practise(index, begin, until) for index in range(len(self.teams))]
            turns = [(agent, first) for team, first in zip(self.teams, resumed, strict=True) for agent in team]
            in_threads(partial(self._train_agent, until), turns, self.threads)
            for index in range(len(self.teams)) if until == shared else ():
                self.common.tries[index] = self._pool(index)
                self._plan_common(index)
            for index in range(len(self.teams)) if until == review else ():
                self._review(index, until)
            begin = until

    def _train_agent(self, until: int, turn: tuple[Sweeper, int]) -> None:
        """Train an agent from a step on until another one."""
        agent, begin = turn
        kernel.train_lane(agent.lane, agent.view.world, self.parameters, begin, until - begin)

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
        for index in range(len(self.teams)):
            self._plan_common(index)
            if self.beliefs:
                self._review(index, 0)
                if (values := self.beliefs[index].values) is not None:
                    self.planned[index] = {"q": values}  # the very team that was imagined

    def finish(self, step: int) -> None:
        """Review the teams once more; one that never fails acts as it was imagined, where it knows a way."""
        for index, beliefs in enumerate(self.beliefs if self.final_review and step >= FIRST_FULL_SEARCH else ()):
            self._review(index, step, self.most_bouts, is_last=True)
            if beliefs.never_fails and not beliefs.is_hope and beliefs.values is not None:
                is_known = beliefs.values.max(axis=2, keepdims=True) > 0
                self.planned[index] = {"q": np.where(is_known, beliefs.values, self.arrays(index)["q"])}

    def learnt(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the moves of a seed's world, and how often its agents have tried them, without what they began with."""
        return self.common.move, self._pool(index) - self.common.first

    def _pool(self, index: int) -> NDArray[np.int64]:
        return self.common.pool(index, [(agent.place, agent.tries) for agent in self.teams[index]])

    def _plan_common(self, index: int) -> None:
        """Let the agents of a seed go by what they know in common."""
        weight = self.parameters.optimism
        for agent in self.teams[index]:
            model = agent.lane.model
            model.tries[:] = self.common.tries[index][agent.place]
            total = model.tries.sum(axis=1) + weight
            model.chance[:], model.prior_weight[:] = model.tries / total[:, None], weight / total
            model.arrival[:] = self._hopeful_plan(agent, agent.view).arrival

    def _review(self, index: int, step: int, bout: int = 0, is_last: bool = False) -> None:
        """Let the agents of a seed count what they believe of their teammates, and practise where that rests on hope.

        So many bouts of practice have been since the last review that was due.
        """
        team = self.teams[index]
        beliefs, ahead = self.beliefs[index], self.ahead
        hopeful = imagined_moves(team, ahead, self.parameters.optimism)
        cautious = imagined_moves(team, np.broadcast_to(np.arange(len(ahead))[:, None], ahead.shape), self.caution)
        for agent in beliefs.review(step, self.parameters.discount, cautious, hopeful, is_last):
            self.believe(beliefs.table(agent), index)
        self.practices.pop(index, None)
        if beliefs.is_hope and bout < self.most_bouts:
            steps = max(1, step // SHARE_PRACTISED)
            self.practices[index] = Practice(self.tables, self.parameters, team, bout, steps)

    def believe(self, table: IndividualTable, index: int = 0) -> None:
        """Let an agent of a seed go by another table from now on, and plan by it."""
        self.planned.pop(index, None)
        agent = self.teams[index][table.place]
        view = agent.view = self._view(table, agent.moves)
        model = agent.lane.model._replace(prior_value=view.optimistic_value)
        model.arrival[:] = self._hopeful_plan(agent, view).arrival
        agent.lane = agent.lane._replace(model=model)

    def _hopeful_plan(self, agent: Sweeper, view: AgentView) -> LanePlan:
        """Plan with what an agent has tried, and hope for the best where it has not."""
        optimism, discount = self.parameters.optimism, self.parameters.discount
        return plan(agent.tries, view.world, view.optimistic_value, optimism, discount)

    def _hope(self, agent: Sweeper) -> NDArray[np.float64]:
        """Value actions with optimism, as if those that the agent has not tried led to the next cell: [S, A, U]."""
        values, arrival = self._hopeful_plan(agent, agent.first)
        is_tried = (agent.tries.sum(axis=1) > 0)[agent.moves.move[agent.first.world.dynamics]]  # [U, S, A]
        return np.where(np.moveaxis(is_tried, 0, -1), values, arrival[self.ahead])

    def arrays(self, index: int) -> Arrays:
        """Plan by what the seed has tried, with caution; a team planned on a given world stays until it trains."""
        if index not in self.planned:
            self.planned[index] = self._plan(index)
        return self.planned[index]

    def _plan(self, index: int) -> Arrays:
        q = np.zeros(self.shape, np.float32)
        for number, agent in enumerate(self.teams[index]):
            view = agent.view
            worst = np.tile(view.pessimistic_value, (self.shape[1], 1))
            values = plan(agent.tries, view.world, worst, self.caution, self.parameters.discount).q
            is_lost = (values.max(axis=1) <= worst) & (worst < agent.first.optimistic_value - PRECISION)  # [S, U]
            if self.prior == "distance" and is_lost.any():
                hoped = np.maximum(self._hope(agent) - worst[:, None], 0)
                values = np.where(is_lost[:, None], values + LAST_RESORT * hoped, values)
            q[number, ..., : values.shape[2]] = values
        return {"q": q}


def _list_moves(tables: Tables, of_tables: Sequence[IndividualTable]) -> list[MoveTable]:
    """List the moves of agents, once for all that live in the same world."""
    moves = dict[tuple[int, int], MoveTable]()
    worlds = [(int(tables.world[table.place]), int(table.dynamics.max()) + 1) for table in of_tables]
    for world, table in zip(worlds, of_tables, strict=True):
        if world not in moves:
            moves[world] = list_moves(table.next_cell[: world[1]])  # others may have more dynamics
    return [moves[world] for world in worlds]


def extra_bytes(tables: Tables) -> int:
    """Count the bytes of models, hopes and queues, and of room for planning, also without walls."""
    agents, cells, actions, states = machine_shapes(tables)["q"]
    model = (cells * (actions * (2 * OUTCOMES + 1) + states + 3) + tables.arrivals * states) * 8
    without_walls = cells * actions * (states + OUTCOMES + 2) * 4
    return (agents + 1) * model + without_walls
