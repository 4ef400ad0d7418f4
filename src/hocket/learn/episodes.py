"""Test episodes in the team world: its tables, room for a team and its recording, and the player of q-functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels import team
from hocket.learn.kernels.primitives import Edges, Unsigned
from hocket.learn.kernels.team import PlayParameters, TeamRoom, TeamState, TeamTables
from hocket.learn.kernels.teams import Choices, EpisodeRange, Learnt, Teams, make_choices, play_teams
from hocket.learn.learner import Arrays, Block, Player, PolicyInput
from hocket.learn.testing import Recording, TestResults, recording
from hocket.random import TRAINING, stream_key, threshold
from hocket.task.grid import Numbers
from hocket.task.settling import EndlessError
from hocket.task.tables import Tables

Struct = TypeVar("Struct", bound=tuple[Any, ...])

AT_ONCE = 4096  # agents that play side by side, of however many teams


def team_tables(tables: Tables) -> TeamTables:
    """Pick what the team world needs."""
    return pick_fields(TeamTables, tables, slip_limit=threshold(tables.slip), edges=edges_of(tables))


def pick_fields(kind: type[Struct], source: NamedTuple, /, **others: object) -> Struct:
    """Make a struct of another one's fields of the same names, and of others."""
    names = [name for name in kind._fields if name not in others]  # type: ignore[attr-defined]
    return kind(**{name: getattr(source, name) for name in names}, **others)


def edges_of(tables: Tables) -> Edges:
    """Say whether a task has edges, in a form for which kernels are compiled."""
    return (0, 0) if tables.is_edge.any() else (0,)


def unsigned(numbers: Numbers) -> Unsigned:
    """Let indices that are never negative be of a type that cannot be, and as short."""
    return numbers.astype(np.uint16) if numbers.dtype == np.int16 else numbers.astype(np.uint32)


def team_state(tables: Tables, seed: int = 0, copies: int | None = None) -> TeamState:
    """Make room for a team, with the keys of its training streams, or for some copies of it."""
    agents, events, shape = len(tables.start), len(tables.knowers), () if copies is None else (copies,)
    cell, state, memory, finish = (np.zeros((*shape, agents), np.int64) for _ in range(4))
    keys = np.broadcast_to([np.uint64(stream_key(TRAINING, seed, agent)) for agent in range(agents)], cell.shape)
    room = TeamRoom(
        kind=np.zeros(agents, np.int64),
        following=np.full(agents, -1, np.int64),
        tally=np.zeros(events, np.int64),
        before=np.zeros(agents, np.int64),
        claim=np.zeros(len(tables.body), np.int64),
    )
    event_time, earned = np.full((*shape, events), -1, np.int64), np.zeros(cell.shape)
    return TeamState(cell, state, memory, keys.copy(), finish, event_time, earned, room)


def make_teams(tables: Tables, copies: int) -> Teams:
    """Make room for so many copies of a team."""
    return Teams(np.zeros(copies, np.uint64), np.zeros(copies, np.uint64), team_state(tables, copies=copies))


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
        self.tables = tables
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
            self.side = make_teams(self.tables, size), make_choices(size, agents)
        (teams, choices), learnt = self.side, Learnt(q, self.policy_input is PolicyInput.MEMORY)
        span, how = EpisodeRange(np.array(seeds, np.uint64), numbers.start, len(numbers)), self.how(0, greedy)
        for first in range(0, count, size):
            part = slice(first, min(first + size, count))
            play_teams(learnt, span, first, self.world, teams, choices, how, record, results.steps[part])
            used, played = part.stop - first, teams.copies
            results.finish[part], results.event_time[part] = played.finish[:used], played.event_time[:used]
            results.returns[part] = played.earned[:used, : len(self.returns)]
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
