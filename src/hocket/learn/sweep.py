"""Prioritised sweeping: each agent learns how its moves turn out, hopes for the best where it does not know, and plans.

It trains with simulated teammates, as DQPRM does, and knows what DQPRM knows: its local reward machine, where on the
map its events happen, where gates are, and how likely simulated teammates are to be ready. How moves turn out (walls,
slips, what a gate closes) it learns from tries.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.episodes import ValuePlayer, machine_shapes
from hocket.learn.kernels import sweep as kernels
from hocket.learn.kernels.queue import make_queues
from hocket.learn.learner import Arrays, Learner, LooksAt
from hocket.learn.moves import Moves, list_moves
from hocket.learn.settings import SimulatedSettings, setting
from hocket.random import TRAINING, stream_key
from hocket.task.grid import OUTCOMES
from hocket.task.individual import IndividualTable, Simulation
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


class _Group(NamedTuple):
    """Agents that are alike but for where they start, of the first seed, then of the second, and so on."""

    agents: NDArray[np.int64]  # [agents] their numbers
    world: kernels.World
    best: NDArray[np.float64]  # [U] that may come of each machine state
    worst: NDArray[np.float64]  # [U]
    lanes: kernels.Lanes

    def of_seed(self, index: int) -> slice:
        """Say which lanes belong to a seed."""
        return slice(index * len(self.agents), (index + 1) * len(self.agents))


class SweepBlock:
    """Every agent of every seed, each with its model."""

    def __init__(self, tables: Tables, settings: SweepSettings, seeds: Sequence[int], threads: int = 1) -> None:
        self.shape, self.caution = machine_shapes(tables)["q"], settings.caution
        self.rule = kernels.Rule(
            settings.discount, settings.optimism, settings.backups, settings.least_change, settings.episode_steps
        )
        simulation, moves = Simulation(tables, settings.sync_probability, settings.sync_literal), _MovesOfWorlds(tables)
        self.groups = [_group(simulation, own, moves, settings.discount, seeds) for own in simulation.alike()]
        self.threads = max(1, min(threads, len(seeds) * self.shape[0]))
        self.planned: dict[int, Arrays] = {}  # by the tries so far

    def train(self, begin: int, steps: int) -> None:
        self.planned.clear()
        if self.threads == 1:
            for group in self.groups:
                self._train(group, range(len(group.lanes.cell)), begin, steps)
            return
        shares = [(own, part) for own in self.groups for part in _shares(len(own.lanes.cell), self.threads)]
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(lambda share: self._train(share[0], share[1], begin, steps), shares))

    def _train(self, group: _Group, part: range, begin: int, steps: int) -> None:
        room = np.zeros_like(group.best)
        kernels.train_lanes(group.lanes, group.world, self.rule, group.best, room, part.start, part.stop, begin, steps)

    def arrays(self, index: int) -> Arrays:
        """Plan by what the seed has tried, with caution; depends on nothing but that."""
        if index not in self.planned:
            self.planned[index] = self._plan(index)
        return self.planned[index]

    def _plan(self, index: int) -> Arrays:
        q = np.zeros(self.shape, np.float32)
        how = (self.caution, self.rule.discount, PRECISION, MOST_SWEEPS)
        for group in self.groups:
            room, is_waiting = _model(group.world, group.worst), np.zeros(len(group.world.kind), np.bool_)
            tries = group.lanes.tries[group.of_seed(index)]
            kernels.plan_lanes(tries, group.world, room, *how, is_waiting, group.agents, q)
        return {"q": q}


def _shares(lanes: int, threads: int) -> list[range]:
    """Cut lanes into as many ranges as there are threads, of about the same length.

    >>> _shares(5, 2)
    [range(0, 2), range(2, 5)]
    """
    edges = [lanes * part // threads for part in range(threads + 1)]
    return [range(first, stop) for first, stop in pairwise(edges) if first < stop]


class _MovesOfWorlds:
    """Lists the moves of each world once, for all that live in it."""

    def __init__(self, tables: Tables) -> None:
        self.world, self.made = tables.world, dict[tuple[int, int], Moves]()

    def of(self, table: IndividualTable) -> Moves:
        """Find the moves of an agent's world."""
        dynamics = int(table.dynamics.max()) + 1  # other agents may have more
        key = int(self.world[table.place]), dynamics
        if key not in self.made:
            self.made[key] = list_moves(table.next_cell[:dynamics])
        return self.made[key]


def _group(
    simulation: Simulation, agents: NDArray[np.int64], moves: _MovesOfWorlds, discount: float, seeds: Sequence[int]
) -> _Group:
    """Work out what agents that are alike have in common, and begin without a try."""
    table, tables = simulation.table(int(agents[0])), simulation.tables
    world, best = _world(table, moves.of(table)), bound(table, discount, best=True)
    keys = np.array([stream_key(TRAINING, seed, own) for seed in seeds for own in agents.tolist()], np.uint64)
    start, initial = (np.tile(own[agents], len(seeds)).astype(np.int64) for own in (tables.start, tables.initial))
    lanes = _lanes(world, best, keys, start, initial)
    return _Group(agents, world, best, bound(table, discount, best=False), lanes)


def _world(table: IndividualTable, moves: Moves) -> kernels.World:
    """Pick what kernels need."""
    return kernels.World(
        move=moves.move,
        dynamics=table.dynamics.astype(np.int32),
        end=moves.end,
        kind=table.kind.astype(np.int32),
        limit=table.limit,
        chance=table.chance,
        next_state=table.next_state.astype(np.int32),
        reward=table.reward.astype(np.float64),
        is_final=table.is_final,
        first_before=moves.first_before,
        before=moves.before,
        slip_limit=table.slip_limit,
    )


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
    """Make room for a model without tries."""
    moves, outcomes = world.end.shape
    return kernels.Model(
        tries=np.zeros((0, outcomes), np.int64),
        chance=np.zeros((moves, outcomes)),
        doubt=np.ones(moves),
        imagined=imagined,
        arrival=np.zeros((len(world.kind), len(imagined))),
        best=np.zeros_like(imagined),
    )


def _lanes(
    world: kernels.World,
    hope: NDArray[np.float64],
    keys: NDArray[np.uint64],
    start: NDArray[np.int64],
    initial: NDArray[np.int64],
) -> kernels.Lanes:
    """Begin without a try: everything is worth what is hoped for."""
    lanes, cells, (moves, outcomes) = len(keys), len(world.kind), world.end.shape
    return kernels.Lanes(
        tries=np.zeros((lanes, moves, outcomes), np.int64),
        chance=np.zeros((lanes, moves, outcomes)),
        doubt=np.ones((lanes, moves)),
        arrival=np.broadcast_to(hope, (lanes, cells, len(hope))).copy(),
        queue=make_queues(lanes, cells),
        cell=start.copy(),
        state=initial.copy(),
        clock=np.zeros(lanes, np.int64),
        key=keys,
        start=start,
        initial=initial,
    )


def _beside(tables: Tables) -> int:
    """Count the bytes of models and queues, and of room for planning."""
    agents, cells, actions, states = machine_shapes(tables)["q"]
    model = cells * (actions * (2 * OUTCOMES + 1) + states + 3) * 8
    return (agents + 1) * model


LEARNER = Learner(
    name="sweep",
    summary="each agent learns alone how its moves turn out, and plans with its local reward machine (model-based)",
    settings=SweepSettings,
    block=SweepBlock,
    player=ValuePlayer,
    shapes=machine_shapes,
    looks_at=LooksAt.MACHINE,
    beside=_beside,
    steps=25_000,
)
