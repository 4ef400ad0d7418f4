"""Test episodes in the team world: its tables, room for a team and its recording, and the player of q-functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels import team
from hocket.learn.kernels.primitives import Edges, Unsigned
from hocket.learn.kernels.team import PlayParameters, TeamState, TeamTables
from hocket.learn.kernels.teams import Choices, EpisodeRange, Learnt, Teams, make_choices, make_teams, play_teams
from hocket.learn.learner import Arrays, Block, Player, PolicyInput
from hocket.learn.testing import Recording, TestResults, recording
from hocket.random import TRAINING, stream_key, threshold
from hocket.task.grid import Numbers
from hocket.task.settling import EndlessError
from hocket.task.tables import Tables

AT_ONCE = 4096  # agents that play side by side, of however many teams


def team_tables(tables: Tables) -> TeamTables:
    """Pick what the team world needs."""
    return TeamTables(
        tables.next_cell,
        tables.world,
        tables.dynamics,
        tables.kind,
        tables.offset,
        tables.event,
        tables.next_state,
        tables.is_final,
        tables.knowers,
        tables.first_knower,
        tables.knower,
        tables.first_memory,
        tables.memory_agent,
        tables.memory_bit,
        tables.first_start,
        tables.start_cell,
        tables.initial,
        threshold(tables.slip),
        tables.is_edge,
        edges_of(tables),
        tables.most_rounds,
        tables.body_rule,
        tables.body,
        tables.reward,
        tables.has_rewards,
    )


def edges_of(tables: Tables) -> Edges:
    """Say whether a task has edges, in a form for which kernels are compiled."""
    return (0, 0) if tables.is_edge.any() else (0,)


def unsigned(numbers: Numbers) -> Unsigned:
    """Let indices that are never negative be of a type that cannot be, and as short."""
    return numbers.astype(np.uint16) if numbers.dtype == np.int16 else numbers.astype(np.uint32)


def team_state(tables: Tables, seed: int = 0) -> TeamState:
    """Make room for a team, with the keys of its training streams."""
    agents, events = len(tables.start), len(tables.knowers)

    def room(size: int, filled: int = 0) -> NDArray[np.int64]:
        return np.full(size, filled, np.int64)

    keys = np.array([stream_key(TRAINING, seed, agent) for agent in range(agents)], np.uint64)
    now = (room(agents), room(agents), room(agents), room(agents))
    bodies = (room(agents), room(len(tables.body)))
    return TeamState(*now, room(agents, -1), room(events), keys, room(agents), room(events), *bodies, np.zeros(agents))


def require_settled(settled: bool) -> None:
    """Refuse to go on where a step has not settled."""
    if not settled:
        raise EndlessError("events")


class TeamPlayer(Player):
    """Plays in the team world."""

    def __init__(self, tables: Tables, temperature: float, max_episode_steps: int) -> None:
        self.world, self.team = team_tables(tables), team_state(tables)
        self.beta, self.max_episode_steps = np.float32(1 / temperature), max_episode_steps
        self.finish, self.event_time = self.team.finish, self.team.event_time
        self.returns = self.team.earned[: len(tables.start) * tables.has_rewards]

    def how(self, seed: int, greedy: bool) -> PlayParameters:
        """Say how episodes are played, as kernels take it."""
        return PlayParameters(self.beta, greedy, seed, self.max_episode_steps)


class ValuePlayer(TeamPlayer):
    """Plays a q-function for each agent, over its cell and what it looks at: [N, S, A, U or M]."""

    policy_input = PolicyInput.MACHINE

    def __init__(self, tables: Tables, temperature: float, max_episode_steps: int) -> None:
        super().__init__(tables, temperature, max_episode_steps)
        self.side: tuple[Teams, Choices] | None = None  # room for teams side by side, as many as the last time

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        results = self.play_all(arrays["q"][None], [seed], range(number, number + 1), greedy, record)
        self.keep(results)
        return int(results.steps[0])

    def play_many(self, arrays: Arrays, seed: int, numbers: range, greedy: bool) -> TestResults:
        return self.play_all(arrays["q"][None], [seed], numbers, greedy, recording(0, len(self.finish)))

    def play_all(
        self, q: NDArray[np.float32], seeds: Sequence[int], numbers: range, greedy: bool, record: Recording
    ) -> TestResults:
        """Play episodes of each seed with its q-functions, some at a time; of the first of all, keep a record."""
        agents, count = len(self.finish), len(seeds) * len(numbers)
        results, size = self.make_results(count), max(1, min(count, AT_ONCE // agents))
        if self.side is None or len(self.side[0].seed) != size:
            self.side = make_teams(size, agents, len(self.event_time)), make_choices(size, agents)
        (teams, choices), learnt = self.side, Learnt(q, self.policy_input is PolicyInput.MEMORY)
        span, how = EpisodeRange(np.array(seeds, np.uint64), numbers.start, len(numbers)), self.how(0, greedy)
        for first in range(0, count, size):
            part = slice(first, min(first + size, count))
            play_teams(learnt, span, first, self.world, teams, self.team, choices, how, record, results.steps[part])
            used = part.stop - first
            results.finish[part], results.event_time[part] = teams.finish[:used], teams.event_time[:used]
            results.returns[part] = teams.earned[:used, : len(self.returns)]
        require_settled(results.steps.min(initial=0) > team.NEVER_SETTLED)
        return results


class Stack(Block, Protocol):
    """A block whose q-functions lie in one array."""

    q: NDArray[np.float32]  # [seeds, N, S, A, U or M, or a few more]


class StackPlayer(ValuePlayer):
    """Plays the q-functions of a block where they lie."""

    def play_seeds(self, block: Block, seeds: Sequence[int], numbers: range, greedy: bool) -> TestResults:
        return self.play_all(cast(Stack, block).q, seeds, numbers, greedy, recording(0, len(self.finish)))


class MemoryPlayer(StackPlayer):
    """Plays q-functions over the cell and memory."""

    policy_input = PolicyInput.MEMORY
