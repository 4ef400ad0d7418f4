"""Test episodes in the team world: its tables, room for a team and its recording, and the player of q-functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels import team
from hocket.learn.kernels.primitives import Unsigned
from hocket.learn.kernels.team import Play, Recording, TeamState, TeamTables
from hocket.learn.learner import Arrays, LooksAt, Player, Shapes
from hocket.random import TRAINING, stream_key, threshold
from hocket.task.grid import ACTIONS, Numbers
from hocket.task.settling import EndlessError
from hocket.task.tables import Tables


def team_tables(tables: Tables) -> TeamTables:
    """Pick what the team world needs."""
    return TeamTables(
        tables.next_cell,
        tables.world,
        tables.dynamics,
        tables.kind,
        tables.event,
        tables.next_state,
        tables.is_final,
        tables.knowers,
        tables.first_knower,
        tables.knower,
        tables.first_memory,
        tables.memory_agent,
        tables.memory_bit,
        tables.start,
        tables.initial,
        threshold(tables.slip),
        tables.most_rounds,
    )


def unsigned(numbers: Numbers) -> Unsigned:
    """Let indices that are never negative be of a type that cannot be, and as short."""
    return numbers.astype(np.uint16) if numbers.dtype == np.int16 else numbers.astype(np.uint32)


def team_state(tables: Tables, seed: int = 0) -> TeamState:
    """Make room for a team, with the keys of its training streams."""
    agents, events = len(tables.start), len(tables.knowers)

    def room(size: int, filled: int = 0) -> NDArray[np.int64]:
        return np.full(size, filled, np.int64)

    keys = np.array([stream_key(TRAINING, seed, agent) for agent in range(agents)], np.uint64)
    return TeamState(
        room(agents), room(agents), room(agents), room(agents, -1), room(events), keys, room(agents), room(events)
    )


def recording(steps: int, agents: int) -> Recording:
    """Make room for what happens in an episode; of no steps, to record nothing."""
    return Recording(
        np.zeros((steps, agents), np.int32), np.zeros((steps, agents), np.int16), np.zeros((steps, agents), np.int16)
    )


def require_settled(settled: bool) -> None:
    """Refuse to go on where a step has not settled."""
    if not settled:
        raise EndlessError("events")


class TeamPlayer(Player):
    """Plays in the team world."""

    def __init__(self, tables: Tables, temperature: float, episode_steps: int) -> None:
        self.world, self.room = team_tables(tables), team_state(tables)
        self.beta, self.episode_steps = np.float32(1 / temperature), episode_steps
        self.finish, self.event_time = self.room.finish, self.room.event_time

    def how(self, seed: int, greedy: bool) -> Play:
        """Say how episodes are played, as kernels take it."""
        return Play(self.beta, greedy, seed, self.episode_steps)


class ValuePlayer(TeamPlayer):
    """Plays a q-function for each agent, over its cell and what it looks at: [N, S, A, U or M]."""

    looks_at = LooksAt.MACHINE

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        by_memory = self.looks_at is LooksAt.MEMORY
        how = self.how(seed, greedy)
        steps = team.play_episode(arrays["q"], by_memory, self.world, self.room, how, number, record)
        require_settled(steps != team.NEVER_SETTLED)
        return steps

    def play_many(
        self,
        arrays: Arrays,
        seed: int,
        first: int,
        greedy: bool,
        record: Recording,
        steps: NDArray[np.int64],
        finish: NDArray[np.int32],
    ) -> None:
        by_memory = self.looks_at is LooksAt.MEMORY
        how = self.how(seed, greedy)  # and not back to Python after each episode
        team.play_episodes(arrays["q"], by_memory, self.world, self.room, how, first, record, steps, finish)
        require_settled(bool((steps != team.NEVER_SETTLED).all()))


class MemoryPlayer(ValuePlayer):
    """Plays q-functions over the cell and memory."""

    looks_at = LooksAt.MEMORY


def machine_shapes(tables: Tables) -> Shapes:
    """Say which arrays make up q-functions over the cell and the machine state."""
    agents, states = tables.is_final.shape
    return {"q": (agents, tables.cells, len(ACTIONS), states)}
