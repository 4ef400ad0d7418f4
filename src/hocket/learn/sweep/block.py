"""Training, reviews and planning of the agents of all seeds (see `hocket.learn.sweep`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from hocket.background import in_threads
from hocket.learn.episodes import pick_fields
from hocket.learn.kernels.arrays import Doubles, Floats, Ints
from hocket.learn.learner import Arrays, Block, machine_shapes
from hocket.learn.reviews import TableTeam, WorldReviewedBlock, believed_table, is_reviewed, next_review
from hocket.learn.sweep import SweepSettings, kernel
from hocket.learn.sweep.beliefs import FIRST_FULL_SEARCH, Beliefs, imagined_moves
from hocket.learn.sweep.kernel import MoveModel, SweepParameters
from hocket.learn.sweep.planning import AgentView, Sweeper, make_view, open_moves, plan
from hocket.learn.world import CommonTries, MoveTable, WorldModel, list_moves
from hocket.random import TRAINING, start_draw, stream_key
from hocket.task.bodies import hold_all_apart
from hocket.task.grid import OUTCOMES
from hocket.task.individual import IndividualTable, Simulation
from hocket.task.tables import Tables, draw_starts, settle
from hocket.task.teamwork.play import patience_of
from hocket.task.teamwork.readiness import Readiness

SHARED_EVERY = 200  # steps after which agents that share their tries add them up
EPISODES = 4  # in a bout of practice, at most
SHARE_PRACTISED = 16  # a bout takes at most the steps so far over this; then the team is reviewed again
LAST_RESORT = 1e-3  # weight of optimistic values in tests, in cells without a known path to a reward


class Practice:
    """A bout of practice: a few team episodes of one seed, which can be interrupted after every step. An agent that
    trains with simulated teammates may never reach cells that it visits in the team: the simulated teammates are ready
    sooner, or its own task is complete from the start. So all agents of a team that relies on moves that no agent has
    tried take training steps together. Each acts by its optimistic values and updates its model as in training alone,
    but events need the actual teammates."""

    def __init__(self, tables: Tables, rule: SweepParameters, team: Sequence[Sweeper], bout: int, begin: int) -> None:
        self.tables, self.rule, self.team, self.bout = tables, rule, team, bout
        self.steps_left, self.episodes_left = max(1, begin // SHARE_PRACTISED), EPISODES
        self.patience, self.quiet = patience_of(tables), 0  # steps without an event: the limit, and so far
        self._restart(begin)

    @property
    def is_over(self) -> bool:
        """Whether all steps were taken, or all episodes played."""
        return not (self.steps_left and self.episodes_left)

    def train(self, begin: int, stop: int) -> int:
        """Train until step `stop`, or until the bout is over; return the next step."""
        while begin < stop and not self.is_over:
            self._step(begin)
            begin += 1
        if self.is_over:
            self._restart(begin)
        return begin

    def _step(self, time: int) -> None:
        """Let all agents act once."""
        tables, team = self.tables, self.team
        before, state = (np.array([[agent.lane.now[part] for agent in team]]) for part in range(2))
        arrival = [kernel.act_lane(agent.lane, agent.view.world, self.rule, time) for agent in team]
        cell = np.array([arrival], np.int64) % tables.cells
        if len(tables.body):
            cell = hold_all_apart(tables.body_rule, tables.body, before, cell)
        settled = settle(tables, tables.kinds(before, cell), state)
        for index, agent in enumerate(team):
            agent.lane.now[:2] = cell[0, index], settled.state[0, index]
        self.steps_left, self.quiet = self.steps_left - 1, 0 if settled.rounds else self.quiet + 1
        if tables.is_final[np.arange(len(team)), settled.state[0]].all() or self.quiet >= self.patience:
            self.episodes_left -= 1
            self._restart(time + 1)

    def _restart(self, begin: int) -> None:
        """Begin the next episode with a step."""
        self.quiet = 0
        for lane in (agent.lane for agent in self.team):
            lane.now[:] = lane.starts[start_draw(int(lane.key), begin, len(lane.starts))], lane.initial, 0


def make_block(tables: Tables, settings: SweepSettings, seeds: Sequence[int], threads: int = 1) -> Block:
    """Make a block of seeds; if teams are reviewed in the world, each seed is trained by itself."""
    if settings.team_review != "world" or not is_reviewed(tables):
        return SweepBlock(tables, settings, seeds, threads)
    readiness = Readiness(tables, sync_literal=settings.sync_literal)
    teams = [TableTeam(readiness, SweepBlock(tables, settings, [seed]), seed) for seed in seeds]
    return WorldReviewedBlock(teams, settings, threads)


class SweepBlock:
    """The agents of all seeds, each with its model."""

    def __init__(self, tables: Tables, settings: SweepSettings, seeds: Sequence[int], threads: int = 1) -> None:
        self.tables, self.shape, self.prior = tables, machine_shapes(tables)["q"], settings.prior
        self.caution, self.most_bouts, self.shares = settings.caution, settings.practice, settings.share_world
        self.parameters, self.final_review = pick_fields(SweepParameters, settings), settings.final_review
        without_walls = open_moves(tables.cells, tables.columns, tables.torus)
        self.make_view = partial(make_view, settings.prior, settings.discount, without_walls)
        self.ahead = without_walls.end[without_walls.move[0], 0]  # [S, A] the next cell, without walls
        simulation = Simulation(tables, settings.sync_probability, settings.sync_literal)
        self.beliefs: list[Beliefs] = []  # of each seed, if reviews are imagined
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
        begun = dict[int, tuple[MoveTable, Ints, AgentView]]()
        for agents, table, listed, index in zip(alike, of_alike, moves, self.common.index, strict=True):
            begun |= dict.fromkeys(agents.tolist(), (listed, index, self.make_view(table, listed)))
        self.teams = [[self._begin(seed, agent, *begun[agent]) for agent in range(len(begun))] for seed in seeds]
        self.threads = max(1, min(threads, len(seeds) * len(begun)))
        self.planned: dict[int, Arrays] = {}  # by the tries so far
        self.practices = dict[int, Practice]()  # of the seeds whose agents act together

    def _begin(self, seed: int, agent: int, moves: MoveTable, index: Ints, view: AgentView) -> Sweeper:
        """Make an agent in its start cell, without tries: arrivals have their optimistic values."""
        tables, key = self.tables, np.uint64(stream_key(TRAINING, seed, agent))
        (cell,), initial = draw_starts(tables, np.array([key]), np.array([agent])), int(tables.initial[agent])
        model = kernel.make_model(view.world, view.optimistic_value)
        model.arrival[:] = view.arrival
        starts, now = tables.starts(agent).astype(np.int64), np.array([cell, initial, 0])
        lane = kernel.SweepLane(model, kernel.make_queue(tables.cells), now, key, starts, initial)
        return Sweeper(moves, index, view, view, lane)

    def train(self, begin: int, steps: int) -> None:
        self.planned.clear()
        stop = begin + steps
        while begin < stop:
            review = next_review(begin) if self.beliefs else stop + 1
            shared = begin - begin % SHARED_EVERY + SHARED_EVERY if self.shares else stop + 1
            until = min(stop, review, shared)
            resumed = [self._practise(index, begin, until) for index in range(len(self.teams))]
            turns = [(agent, first) for team, first in zip(self.teams, resumed, strict=True) for agent in team]
            lanes = [(agent.lane, agent.view.world, self.parameters, first, until - first) for agent, first in turns]
            in_threads(lambda lane: kernel.train_lane(*lane), lanes, self.threads)
            for index in range(len(self.teams)) if until == shared else ():
                self.common.tries[index] = self._pool(index)
                self._plan_common(index)
            for index in range(len(self.teams)) if until == review else ():
                self._review(index, until)
            begin = until

    def _practise(self, index: int, begin: int, until: int) -> int:
        """Let the agents of a seed practise until a step, or until they are done; return the next step."""
        while begin < until and index in self.practices:
            practice = self.practices[index]
            begin = practice.train(begin, until)
            if practice.is_over:
                del self.practices[index]
                self._review(index, begin, practice.bout + 1)
        return begin

    def begin_with(self, world: WorldModel) -> None:
        """Begin with the tries of a world, and review the teams."""
        self.planned.clear()
        self.common.begin_with(world)
        for index in range(len(self.teams)):
            self._plan_common(index)
            if self.beliefs:
                self._review(index, 0)
                if (values := self.beliefs[index].values) is not None:
                    self.planned[index] = {"q": values}  # the team that was imagined

    def finish(self, step: int) -> None:
        """Review the teams once more; one that never fails keeps its imagined values where they are positive."""
        is_due = self.final_review and step >= FIRST_FULL_SEARCH
        for index, beliefs in enumerate(self.beliefs if is_due else ()):
            self._review(index, step, self.most_bouts, is_last=True)
            if beliefs.never_fails and not beliefs.is_hope and beliefs.values is not None:
                is_known = beliefs.values.max(axis=2, keepdims=True) > 0
                self.planned[index] = {"q": np.where(is_known, beliefs.values, self.arrays(index)["q"])}

    def learnt(self, index: int) -> tuple[Ints, Ints]:
        """List the moves of a seed's world, and the tries of its agents, without those that they began with."""
        return self.common.move, self._pool(index) - self.common.first

    def _pool(self, index: int) -> Ints:
        return self.common.pool(index, [(agent.index, agent.tries) for agent in self.teams[index]])

    def _plan_common(self, index: int) -> None:
        """Give the agents of a seed their common tries, and plan."""
        for agent in self.teams[index]:
            agent.tries[:] = self.common.tries[index][agent.index]
            self._plan_optimistically(agent.lane.model, agent.view)

    def _review(self, index: int, step: int, bout: int = 0, is_last: bool = False) -> None:
        """Review a seed's team; if it relies on untried moves, begin another bout of practice."""
        team, beliefs = self.teams[index], self.beliefs[index]
        hopeful = imagined_moves(team, self.ahead, self.parameters.optimism)
        here = np.broadcast_to(np.arange(len(self.ahead))[:, None], self.ahead.shape)
        cautious = imagined_moves(team, here, self.caution)
        for agent in beliefs.review(step, self.parameters.discount, cautious, hopeful, is_last):
            self.believe(believed_table(beliefs.readiness, agent, beliefs.chances), index)
        self.practices.pop(index, None)
        if beliefs.is_hope and bout < self.most_bouts:
            self.practices[index] = Practice(self.tables, self.parameters, team, bout, step)

    def believe(self, table: IndividualTable, index: int = 0) -> None:
        """Replace an agent's table, and plan by it."""
        self.planned.pop(index, None)
        agent = self.teams[index][table.place]
        agent.view = self.make_view(table, agent.moves)
        model = agent.lane.model._replace(prior_value=agent.view.optimistic_value)
        agent.lane = agent.lane._replace(model=model)
        self._plan_optimistically(model, agent.view)

    def _plan_optimistically(self, model: MoveModel, view: AgentView) -> Floats:
        """Plan by the agent's tries with optimism: values of actions, [S, A, U]."""
        return plan(model, view.world, self.parameters.optimism, self.parameters.discount)

    def _optimistic_ahead(self, agent: Sweeper) -> Doubles:
        """Plan with optimism, as if untried moves led to the next cell: values of actions, [S, A, U]."""
        model = kernel.make_model(agent.first.world, agent.first.optimistic_value, agent.tries)
        values = self._plan_optimistically(model, agent.first)
        is_tried = (agent.tries.sum(axis=1) > 0)[agent.moves.move[agent.first.world.dynamics]]  # [U, S, A]
        return np.where(np.moveaxis(is_tried, 0, -1), values, model.arrival[self.ahead])

    def arrays(self, index: int) -> Arrays:
        """Plan by the seed's tries with caution, unless that was done since the last training."""
        if index not in self.planned:
            self.planned[index] = self._plan(index)
        return self.planned[index]

    def _plan(self, index: int) -> Arrays:
        q = np.zeros(self.shape, np.float32)
        for number, agent in enumerate(self.teams[index]):
            world, hope = agent.view.world, agent.first.optimistic_value
            worst = np.tile(agent.view.pessimistic_value, (self.shape[1], 1))
            model = kernel.make_model(world, worst, agent.tries)
            values = plan(model, world, self.caution, self.parameters.discount)
            is_lost = (values.max(axis=1) <= worst) & (worst < hope - kernel.PRECISION)  # [S, U]
            if self.prior == "distance" and is_lost.any():
                hoped = np.maximum(self._optimistic_ahead(agent) - worst[:, None], 0)
                values = np.where(is_lost[:, None], values + LAST_RESORT * hoped, values)
            q[number, ..., : values.shape[2]] = values
        return {"q": q}


def _list_moves(tables: Tables, of_tables: Sequence[IndividualTable]) -> list[MoveTable]:
    """List the moves of agents, once for all agents in the same world."""
    worlds = [(int(tables.world[table.place]), int(table.dynamics.max()) + 1) for table in of_tables]
    of_worlds = dict(zip(worlds, of_tables, strict=True))
    moves = {world: list_moves(table.next_cell[: world[1]]) for world, table in of_worlds.items()}  # others have more
    return [moves[world] for world in worlds]


def extra_bytes(tables: Tables) -> int:
    """Estimate the bytes of models, optimistic values and queues, and of planning, also without walls."""
    agents, cells, actions, states = machine_shapes(tables)["q"]
    model = (cells * (actions * (2 * OUTCOMES + 1) + states + 3) + tables.arrivals * states) * 8
    without_walls = cells * actions * (states + OUTCOMES + 2) * 4
    return (agents + 1) * model + without_walls
