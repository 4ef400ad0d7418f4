"""Prioritised sweeping: each agent learns how its moves turn out, hopes for the best where it does not know, and plans.

It trains with simulated teammates, as DQPRM does, and knows what DQPRM knows: its local reward machine, where on the
map its events happen, where gates are, and how likely simulated teammates are to be ready. How moves turn out (walls,
slips, what a gate closes) it learns from tries.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.episodes import ValuePlayer, machine_shapes
from hocket.learn.kernels import sweep as kernels
from hocket.learn.kernels.queue import make_queue
from hocket.learn.learner import Arrays, Learner, LooksAt
from hocket.learn.settings import SimulatedSettings, setting
from hocket.random import TRAINING, stream_key
from hocket.task.grid import Numbers
from hocket.task.individual import IndividualTable, Simulation, view
from hocket.task.tables import Tables

PRECISION = 1e-9  # of the values by which policies are tested
MOST_SWEEPS = 10_000


@dataclass(frozen=True)
class SweepSettings(SimulatedSettings):
    """Prioritised sweeping over a learnt model."""

    unused = frozenset({"learning_rate"})

    optimism: float = setting(
        0.15, "in training, each move also has so many imagined tries that turned out best", "tries", above=0, most=1e6
    )
    caution: float = setting(
        0.03, "in tests, each move also has so many imagined tries that turned out worst", "tries", above=0, most=1e6
    )
    backups: int = setting(100, "how many cells are planned anew, at most", "cells per step", least=1, most=10**6)
    least_change: float = setting(
        1e-4, "the change of a value from which on it is passed on to other cells", "reward", least=0, most=1e6
    )


class _Agent(NamedTuple):
    """What all seeds have in common of an agent."""

    world: kernels.World
    best: NDArray[np.float64]  # [U] that may come of each machine state
    worst: NDArray[np.float64]  # [U]


class SweepBlock:
    """Every agent of every seed, each with its model."""

    def __init__(self, tables: Tables, settings: SweepSettings, seeds: Sequence[int], threads: int = 1) -> None:
        self.shape, self.caution = machine_shapes(tables)["q"], settings.caution
        simulation = Simulation(tables, settings.sync_probability, settings.sync_literal)
        self.agents = _agents(tables, simulation, settings.discount)
        self.rule = kernels.Rule(
            settings.discount, settings.optimism, settings.backups, settings.least_change, settings.episode_steps
        )
        self.models = [[_model(own.world, own.best) for own in self.agents] for _ in seeds]
        self.lanes = [
            [_lane(own.world, stream_key(TRAINING, seed, number)) for number, own in enumerate(self.agents)]
            for seed in seeds
        ]
        self.threads = max(1, min(threads, len(seeds) * len(self.agents)))
        self.planned: dict[int, Arrays] = {}  # by the tries so far

    def train(self, begin: int, steps: int) -> None:
        self.planned.clear()
        work = [
            (lane, own.world, model, self.rule, begin, steps)
            for lanes, models in zip(self.lanes, self.models, strict=True)
            for lane, own, model in zip(lanes, self.agents, models, strict=True)
        ]
        if self.threads == 1:
            for own in work:
                kernels.train_lane(*own)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(lambda own: kernels.train_lane(*own), work))

    def arrays(self, index: int) -> Arrays:
        """Plan by what the seed has tried, with caution; depends on nothing but that."""
        if index not in self.planned:
            self.planned[index] = self._plan(index)
        return self.planned[index]

    def _plan(self, index: int) -> Arrays:
        q = np.zeros(self.shape, np.float32)
        for own, agent, learnt in zip(q, self.agents, self.models[index], strict=True):
            world, discount = agent.world, self.rule.discount
            room = np.zeros((*own.shape[:2], len(agent.worst)), np.float32)
            model = _model(world, agent.worst)._replace(tries=learnt.tries)
            kernels.plan(world, model, self.caution, discount, PRECISION, MOST_SWEEPS, room)
            own[:, :, : len(agent.worst)] = room
        return {"q": q}


def _agents(tables: Tables, simulation: Simulation, discount: float) -> list[_Agent]:
    """Work out what seeds have in common of each agent, once for agents that are alike wherever they start."""
    made: dict[tuple[bytes, ...], _Agent] = {}
    agents = []
    for number in range(len(tables.start)):
        table = simulation.table(number)
        key = view(tables, table)
        if key not in made:
            made[key] = _agent(table, discount)
        own = made[key]
        agents.append(own._replace(world=own.world._replace(start=table.start, initial=table.initial)))
    return agents


def _agent(table: IndividualTable, discount: float) -> _Agent:
    return _Agent(_world(table), bound(table, discount, best=True), bound(table, discount, best=False))


def _world(table: IndividualTable) -> kernels.World:
    """Pick what kernels need, and number the moves."""
    next_cell, cells = table.next_cell[: table.dynamics.max() + 1], len(table.kind)  # other agents may have more
    move, end = number_moves(next_cell)
    pairs = np.unique(next_cell.astype(np.int64) * cells + np.arange(cells)[None, :, None, None])
    return kernels.World(
        move=np.ascontiguousarray(move[table.dynamics]),
        end=end,
        kind=table.kind.astype(np.int32),
        limit=table.limit,
        chance=table.chance,
        next_state=table.next_state.astype(np.int32),
        reward=table.reward.astype(np.float64),
        is_final=table.is_final,
        first_before=np.searchsorted(pairs // cells, np.arange(cells + 1)).astype(np.int32),
        before=(pairs % cells).astype(np.int32),
        start=table.start,
        initial=table.initial,
        slip_limit=table.slip_limit,
    )


def number_moves(next_cell: Numbers) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Number what actions in cells lead to, [D, S, A]; those that gates do not change are the same in all dynamics.

    Also returns where each leads: [moves, K].
    """
    cells, actions, outcomes = next_cell.shape[1:]
    move = np.broadcast_to(np.arange(cells * actions).reshape(cells, actions), next_cell.shape[:3])
    for outcome in range(outcomes):
        _, first, found = np.unique(move * cells + next_cell[..., outcome], return_index=True, return_inverse=True)
        move = found.reshape(next_cell.shape[:3])
    return move.astype(np.int32), next_cell.reshape(-1, outcomes)[first].astype(np.int32)


def bound(table: IndividualTable, discount: float, *, best: bool) -> NDArray[np.float64]:
    """Bound what each machine state may be worth: as if the agent could go anywhere in a step, or were put there.

    No knowledge of moves is needed. The worst counts what happens wherever the agent is, and no more.
    """
    kinds = np.unique(table.kind)
    chance, reward, target = (part[:, kinds] for part in (table.chance, table.reward, table.next_state))
    value = np.zeros(len(chance))
    for _ in range(MOST_SWEEPS):
        arrival = (chance * (reward + discount * value[target])).sum(axis=2)
        found = arrival.max(axis=1) if best else arrival.min(axis=1)
        if np.abs(found - value).max() <= PRECISION:
            break
        value = found
    return np.where(table.is_final, 0.0, value)


def _model(world: kernels.World, imagined: NDArray[np.float64]) -> kernels.Model:
    """Begin without a try: everything is worth what is imagined."""
    cells, states, moves = len(world.kind), len(imagined), len(world.end)
    return kernels.Model(
        tries=np.zeros((moves, world.end.shape[1]), np.int64),
        chance=np.zeros((moves, world.end.shape[1])),
        doubt=np.ones(moves),
        imagined=imagined,
        arrival=np.broadcast_to(imagined, (cells, states)).copy(),
        best=np.zeros(states),
    )


def _lane(world: kernels.World, key: int) -> kernels.Lane:
    cell, state = (np.full(1, own, np.int64) for own in (world.start, world.initial))
    return kernels.Lane(make_queue(len(world.kind)), cell, state, np.zeros(1, np.int64), np.array([key], np.uint64))


LEARNER = Learner(
    name="sweep",
    summary="each agent learns alone how its moves turn out, and plans with its local reward machine (model-based)",
    settings=SweepSettings,
    block=SweepBlock,
    player=ValuePlayer,
    shapes=machine_shapes,
    looks_at=LooksAt.MACHINE,
    one_by_one=True,
    steps=25_000,
)
