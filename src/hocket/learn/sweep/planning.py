"""Planning by tries: the values of an agent's actions, and bounds of them before any try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from hocket.learn.episodes import pick_fields
from hocket.learn.kernels.arrays import Doubles, Floats, Ints
from hocket.learn.sweep import kernel
from hocket.learn.sweep.kernel import MOST_SWEEPS, PRECISION, MoveModel, SweepTables
from hocket.learn.world import MoveTable, list_moves
from hocket.task.grid import ACTIONS, Grid
from hocket.task.individual import IndividualTable


class AgentView(NamedTuple):
    """The tables and prior values of agents with the same beliefs."""

    world: SweepTables
    optimistic_value: Doubles  # [S, U] upper bounds
    arrival: Doubles  # [arrivals, U] upper bounds of arrivals
    pessimistic_value: Doubles  # [U] lower bounds


@dataclass
class Sweeper:
    """An agent of a seed."""

    moves: MoveTable
    index: Ints  # [moves] of each among those of all agents
    first: AgentView  # at the beginning
    view: AgentView  # now
    lane: kernel.SweepLane

    @property
    def tries(self) -> Ints:
        """How often each outcome of its moves was seen: [moves, K]."""
        return self.lane.model.tries


def plan(model: MoveModel, world: SweepTables, weight: float, discount: float) -> Floats:
    """Plan by a model's tries and `weight` pseudo-counts of prior values; return the values of actions, [S, A, U]."""
    cells, states = model.prior_value.shape
    q = np.zeros((cells, len(ACTIONS), states), np.float32)
    kernel.plan_lane(world, model, weight, discount, np.ones(cells, np.bool_), q)
    return q


def sweep_tables(table: IndividualTable, moves: MoveTable) -> SweepTables:
    """Make the kernels' tables."""
    offset = np.zeros(len(moves.end), np.int32)  # of the cell in which a move begins
    offset[moves.move] = table.offset[:, None]
    ends, rewards = moves.end + offset[:, None], table.reward.astype(np.float64)
    words = {name: getattr(table, name).astype(np.int32) for name in ("dynamics", "kind", "next_state")}
    return pick_fields(SweepTables, table, **{**moves._asdict(), "end": ends, "reward": rewards, **words})


def open_moves(cells: int, columns: int, torus: bool = False) -> MoveTable:
    """List the moves of a map without walls."""
    return list_moves(Grid(cells // columns, columns, torus=torus).outcomes()[None])


def optimistic_values(table: IndividualTable, discount: float, moves: MoveTable) -> tuple[Doubles, Doubles]:
    """Bound the values of cells and machine states, [S, U], and of arrivals from above: without walls, gates and slips,
    by planning as if each move had been tried and had succeeded."""
    world = sweep_tables(table, moves)._replace(dynamics=np.zeros(len(table.dynamics), np.int32))
    model = kernel.make_model(world, np.zeros((table.cells, len(table.dynamics))))
    model.tries[:, 0] = 1
    plan(model, world, 0.0, discount)
    ends = world.end[moves.move[0], 0]  # [S, A]
    return reduce(np.maximum, (model.arrival[end] for end in ends.T)), model.arrival


def machine_bounds(table: IndividualTable, discount: float, pick: Callable[..., Doubles]) -> Doubles:
    """Bound the values of machine states in any cell, [U], from above (`np.max`) or below (`np.min`): as if the agent
    were moved to the best or the worst cell in each step."""
    kinds = np.unique(table.kind)
    chance, reward, target = (part[:, kinds] for part in (table.chance, table.reward, table.next_state))
    value = np.zeros(len(chance))
    for _ in range(MOST_SWEEPS):
        bound = pick((chance * (reward + discount * value[target])).sum(axis=2), axis=1)
        if np.abs(bound - value).max() <= PRECISION:
            break
        value = bound
    return np.where(table.is_final, 0.0, value)


def make_view(prior: str, discount: float, open_map: MoveTable, table: IndividualTable, moves: MoveTable) -> AgentView:
    """Make an agent's view; values are bounded by the distance to its events or, flat, by its machine."""
    if prior == "distance":
        bound, arrival = optimistic_values(table, discount, open_map)
    else:
        arrival = np.tile(machine_bounds(table, discount, np.max), (len(table.kind), 1))
        bound = arrival[: table.cells]
    return AgentView(sweep_tables(table, moves), bound, arrival, machine_bounds(table, discount, np.min))
