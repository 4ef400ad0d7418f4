"""From tables to what kernels take, and test episodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.lanes import LaneTables
from hocket.learn.kernels.team import Recording, TeamState, TeamTables
from hocket.random import TRAINING, stream_key, threshold
from hocket.task.tables import Tables, sync_chances


def team_tables(tables: Tables) -> TeamTables:
    """Pick what the team world needs."""
    return TeamTables(
        tables.next_cell,
        tables.dynamics,
        tables.event,
        tables.next_state,
        tables.is_final,
        tables.knowers,
        tables.memory_bit,
        tables.start,
        tables.initial,
        threshold(tables.slip),
    )


def team_state(tables: Tables, seed: int = 0) -> TeamState:
    """Make room for a team, with the keys of its training streams."""
    agents, events = len(tables.start), len(tables.knowers)

    def room(size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.zeros(size, np.int64)

    keys = np.array([stream_key(TRAINING, seed, agent) for agent in range(agents)], np.uint64)
    return TeamState(
        room(agents), room(agents), room(agents), room(agents), room(events), keys, room(agents), room(events)
    )


def recording(steps: int, agents: int) -> Recording:
    """Make room for what happens in an episode; of no steps, to record nothing."""
    return Recording(
        np.zeros((steps, agents), np.int16), np.zeros((steps, agents), np.int16), np.zeros((steps, agents), np.int16)
    )


def lane_tables(tables: Tables, sync_probability: float, literal: bool) -> list[LaneTables]:
    """Pick what each agent needs that trains alone; final states lead to themselves and pay nothing."""
    chances = np.round(sync_chances(tables, sync_probability, literal=literal) * float(threshold(1.0))).astype(np.int64)
    return [_lane_table(tables, agent, chances[agent]) for agent in range(len(tables.start))]


def _lane_table(tables: Tables, agent: int, limit: NDArray[np.int64]) -> LaneTables:
    states = int(tables.states[agent])
    is_final = tables.is_final[agent, :states]
    own = np.arange(states, dtype=np.int16)[:, None]
    return LaneTables(
        tables.next_cell[agent],
        tables.dynamics[agent, :states].copy(),
        np.where(is_final[:, None], own, tables.next_state[agent, :states]),
        np.where(is_final[:, None], 0.0, tables.reward[agent, :states]).astype(np.float32),
        limit[:states].copy(),
        is_final.copy(),
        int(tables.start[agent]),
        int(tables.initial[agent]),
    )
