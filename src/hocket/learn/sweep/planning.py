"""Planning by tries: what an agent's actions are worth, and bounds of that before anything was tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.episodes import pick_fields
from hocket.learn.moves import MoveTable, list_moves
from hocket.learn.sweep import kernel
from hocket.task.grid import ACTIONS, Grid
from hocket.task.individual import IndividualTable

PRECISION = 1e-9  # of the values by which policies are tested, as a part of each
MOST_SWEEPS = 10_000


class AgentView(NamedTuple):
    """What agents go by who believe the same of their teammates."""

    world: kernel.SweepTables
    optimistic_value: NDArray[np.float64]  # [S, U] the best that may come of each cell and machine state
    arrival: NDArray[np.float64]  # [arrivals, U] what arrivals are worth by that
    pessimistic_value: NDArray[np.float64]  # [U] the worst that may come of each machine state


@dataclass
class Sweeper:
    """An agent of a seed: its moves, what it goes by, what it has learnt and where it is."""

    moves: MoveTable
    place: NDArray[np.int64]  # [moves] of each among those of all agents
    first: AgentView  # by which it has begun
    view: AgentView
    lane: kernel.SweepLane

    @property
    def tries(self) -> NDArray[np.int64]:
        """How often its moves turned out so: [moves, K]."""
        return self.lane.model.tries


class LanePlan(NamedTuple):
    """What actions are worth, [S, A, U], and what it is worth to arrive, [arrivals, U]."""

    q: NDArray[np.float32]
    arrival: NDArray[np.float64]


def plan(
    tries: NDArray[np.int64],
    world: kernel.SweepTables,
    prior_value: NDArray[np.float64],
    weight: float,
    discount: float,
) -> LanePlan:
    """Plan with the tries of moves, [M, K], of which `weight` more are imagined to come to a prior value, [S, U]."""
    (cells, states), moves = prior_value.shape, len(world.end)
    result = LanePlan(np.zeros((cells, len(ACTIONS), states), np.float32), np.zeros((len(world.kind), states)))
    chance, prior_weight = np.zeros(world.end.shape), np.ones(moves)
    model = kernel.MoveModel(tries, chance, prior_weight, prior_value, result.arrival, np.zeros(states))
    kernel.plan_lane(world, model, weight, discount, PRECISION, MOST_SWEEPS, np.ones(cells, np.bool_), result.q)
    return result


def sweep_tables(table: IndividualTable, moves: MoveTable) -> kernel.SweepTables:
    """Pick what kernels need."""
    offset = np.zeros(len(moves.end), np.int32)  # of the cell in which a move begins
    offset[moves.move] = table.offset[:, None]
    return pick_fields(
        kernel.SweepTables,
        table,
        move=moves.move,
        dynamics=table.dynamics.astype(np.int32),
        end=moves.end + offset[:, None],
        kind=table.kind.astype(np.int32),
        next_state=table.next_state.astype(np.int32),
        reward=table.reward.astype(np.float64),
        first_before=moves.first_before,
        before=moves.before,
    )


def open_moves(cells: int, columns: int, torus: bool = False) -> MoveTable:
    """List the moves of a map that has no walls."""
    return list_moves(Grid(cells // columns, columns, torus=torus).outcomes()[None])


def optimistic_values(
    table: IndividualTable, discount: float, moves: MoveTable
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bound from above what cells and machine states are worth: as if there were no walls, gates and slips.

    That takes no knowledge but of how far a step leads. Returns what they are worth, [S, U], and what arrivals are
    worth, [arrivals, U]. They are planned from tries of which each has succeeded.
    """
    world = sweep_tables(table, moves)._replace(dynamics=np.zeros(len(table.dynamics), np.int32))
    tries = np.zeros(moves.end.shape, np.int64)
    tries[:, 0] = 1
    arrival = plan(tries, world, np.zeros((table.cells, len(table.dynamics))), 0.0, discount).arrival
    ends = world.end[moves.move[0], 0]  # [S, A]
    return reduce(np.maximum, (arrival[end] for end in ends.T)), arrival


def machine_bounds(
    table: IndividualTable, discount: float, pick: Callable[..., NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Bound what machine states are worth, wherever the agent is: from above (`np.max`) or from below (`np.min`), [U].

    It is as if the agent were put to the best or the worst of cells in each step. No knowledge of moves is needed, nor
    of where events happen.
    """
    kinds = np.unique(table.kind)
    chance, reward, target = (part[:, kinds] for part in (table.chance, table.reward, table.next_state))
    value = np.zeros(len(chance))
    for _ in range(MOST_SWEEPS):
        bound = pick((chance * (reward + discount * value[target])).sum(axis=2), axis=1)
        if np.abs(bound - value).max() <= PRECISION:
            break
        value = bound
    return np.where(table.is_final, 0.0, value)
