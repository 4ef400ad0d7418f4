"""Team episodes, many at once in numpy: greedy policies with the moves of the task, or with moves that were learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.random import ACTION_BITS, CHANCE_BITS, PER_STEP, PLANNING, number, stream_key, threshold
from hocket.task.bodies import hold_all_apart
from hocket.task.grid import STAY, Numbers
from hocket.task.tables import Bools, SettledCases, Tables, draw_starts, settle
from hocket.task.teamwork.readiness import Counts

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Values = NDArray[np.float32]  # [N, S, A, U] action values of each agent
# A team's policy chooses actions by cells, machine states and random numbers from [0, 1): [cases, N] each.
TeamPolicy = Callable[[Ints, Ints, NDArray[np.floating]], NDArray[np.int8]]
Watch = Callable[[Ints, Ints, NDArray[np.int8], SettledCases], None]


class TeamMoves(NamedTuple):
    """The outcomes of moves of each agent: W worlds, D sets of closed cells, S cells, A actions, K outcomes."""

    world: NDArray[np.integer]  # [N] which of the W worlds an agent has
    end: Numbers  # [W, D, S, A, K] where an action leads
    limit: Ints  # [W, D, S, A, K - 1] descending; the outcome is the number of limits above a random number

    @classmethod
    def true(cls, tables: Tables) -> TeamMoves:
        """Take the moves of the task."""
        limit = np.array([threshold(tables.slip), threshold(tables.slip) // 2])  # as in `task.grid.slip_outcome`
        return cls(tables.world, tables.next_cell, np.broadcast_to(limit, (*tables.next_cell.shape[:-1], len(limit))))

    def outcomes(self, agent: int) -> tuple[Numbers, Doubles]:
        """List the cells to which an agent's actions lead, and their probabilities: [D, S, A, K] each."""
        world = int(self.world[agent])
        above = self.limit[world] / threshold(1.0)
        chance = -np.diff(above, axis=-1, prepend=1.0, append=0.0)
        count = int(np.flatnonzero(chance.any(axis=(0, 1, 2)))[-1]) + 1  # one without slips
        return self.end[world][..., :count], chance[..., :count]


class PlayedEpisodes(NamedTuple):
    """The results of team episodes."""

    steps: Ints  # [B] to the completion of the task; -1: it was not completed
    counts: Counts
    cell: Ints  # [B, N] at the end
    state: Ints  # [B, N] of the agents' machines
    length: Ints  # [B] steps until the task was completed or the episode stopped
    returns: Doubles  # [B] of the team; [0] without rewards other than for completion

    def score(self, max_steps: int, remaining: Doubles | float = 0.0) -> tuple[float, float]:
        """Rate a team: by success or, in a task with rewards, by its mean return, then by mean steps, negated. A
        failure counts as the limit, and as more of it by the part of the task that is `remaining`."""
        done = self.steps >= 0
        first = self.returns if len(self.returns) else done
        return float(first.mean()), -float(np.where(done, self.steps, max_steps * (1 + remaining)).mean())


class GreedyPolicy:
    """Greedy policies as tables of the best actions."""

    def __init__(self, values: Values) -> None:
        is_best = values == values.max(axis=2, keepdims=True)
        self.action = np.argsort(~is_best, axis=2, kind="stable").astype(np.int8)  # the best ones come first
        self.count = is_best.sum(axis=2).astype(np.int8)  # [N, S, U]

    def choose(self, cell: Ints, state: Ints, drawn: NDArray[np.floating]) -> NDArray[np.int8]:
        """Choose uniformly among the best actions, by random numbers from [0, 1): [cases, N] each."""
        agents = np.arange(cell.shape[1])
        index = (drawn * self.count[agents, cell, state]).astype(np.intp)
        chosen: NDArray[np.int8] = self.action[agents, cell, index, state]
        return chosen


def patience_of(tables: Tables) -> int:
    """Return after how many steps without an event a team of greedy policies has stalled: longer than any path."""
    return int((tables.cells + 30) / max(1 - tables.slip, 0.1))


def play_team(
    tables: Tables,
    team: Values | TeamPolicy,
    moves: TeamMoves,
    *,
    episodes: range,
    max_steps: int,
    patience: int | None = None,
    seed: int = 0,
    purpose: int = PLANNING,
    watch: Watch | None = None,
) -> PlayedEpisodes:
    """Play episodes of a policy, or of greedy policies for action values; count events that are proposed or happen. An
    episode stops after `patience` steps without an event, by default more than any path takes. With the purpose and
    seed of tests it plays the same episodes as a compiled test. `watch` is called after each step, with the episodes
    that are going, their cells and actions, and how it settled; without it, episodes in which all agents wait forever
    are stopped early, with the same counts and lengths."""
    agents, patience = np.arange(len(tables.start)), patience_of(tables) if patience is None else patience
    counter, waits = _Counter(tables), None
    if isinstance(team, np.ndarray):
        policy = GreedyPolicy(team)
        team, waits = policy.choose, _waits(tables, policy, moves) if watch is None else None
    seeds = np.full((len(episodes), 1), seed, np.uint64)
    key = stream_key(purpose, seeds, agents.astype(np.uint64)[None], np.array(episodes, np.uint64)[:, None])
    cell, state = draw_starts(tables, key), np.tile(tables.initial.astype(np.int64), (len(episodes), 1))
    steps, (last_event, length) = np.full(len(episodes), -1), np.zeros((2, len(episodes)), np.int64)
    is_over, returns = _is_done(tables, state), np.zeros(len(episodes) * tables.has_rewards)
    steps[is_over] = 0
    for step in range(max_steps):
        going = np.flatnonzero(~is_over)
        if not len(going):
            break
        positions = [np.full((1, 1), step * PER_STEP + index, np.uint64) for index in range(PER_STEP)]
        first, second = (number(key[going], position) for position in positions)
        action = team(cell[going], state[going], (first >> np.uint64(64 - ACTION_BITS)) * 2.0**-ACTION_BITS)
        is_stalled = None if waits is None else waits[agents, cell[going], state[going]].all(axis=1)
        at = (moves.world, tables.dynamics[agents, state[going]], cell[going], action)
        drawn = (second >> np.uint64(64 - CHANCE_BITS)).astype(np.int64)
        outcome = (drawn[..., None] < moves.limit[at]).sum(axis=2)
        before, cell[going] = cell[going], moves.end[(*at, outcome)]
        if len(tables.body):
            cell[going] = hold_all_apart(tables.body_rule, tables.body, before, cell[going])
        kind = tables.kinds(before, cell[going])
        settled = settle(tables, kind, state[going])
        counter.add_proposed(state[going], kind)
        counter.add_happened(settled)
        if watch is not None:
            watch(going, cell[going], action, settled)
        state[going] = settled.state
        if tables.has_rewards:
            returns[going] += settled.reward.sum(axis=1)
        for cases, _ in settled.rounds[:1]:
            last_event[going[cases]] = step + 1
        is_done = _is_done(tables, settled.state)
        steps[going[is_done]], length[going] = step + 1, step + 1
        is_over[going] = is_done | (step + 1 - last_event[going] >= patience)
        if is_stalled is not None and is_stalled.any():
            is_stalled &= ~is_over[going] & (last_event[going] <= step)  # no event has happened in this step
            cases = going[is_stalled]
            remaining = np.minimum(last_event[cases] + patience, max_steps) - step - 1
            counter.add_proposed(state[cases], kind[is_stalled], remaining)
            length[cases], is_over[cases] = length[cases] + remaining, True
    return PlayedEpisodes(steps, counter.counts(), cell, state, length, returns)


def _waits(tables: Tables, policy: GreedyPolicy, moves: TeamMoves) -> Bools:
    """Flag where an agent surely stays until an event happens, or has no event to propose: [N, S, U]."""
    cells = np.arange(tables.cells)
    is_fixed: Bools = np.logical_and.reduce(moves.end[..., STAY, :] == cells[:, None], axis=-1)  # [W, D, S]
    stays = (policy.count == 1) & (policy.action[:, :, 0] == STAY)  # [N, S, U]
    is_idle: Bools = np.logical_and.reduce(tables.event < 0, axis=(2, 3))  # [N, U]
    flags: Bools = stays & is_fixed[moves.world[:, None], tables.dynamics].transpose(0, 2, 1) | is_idle[:, None]
    return flags


def _is_done(tables: Tables, state: Ints) -> Bools:
    done: Bools = np.logical_and.reduce(tables.is_final[np.arange(state.shape[1]), state], axis=1)
    return done


class _Counter:
    """Counts the events that agents propose in a step, and those that happen. An event of a later round counts as
    proposed when it happens."""

    def __init__(self, tables: Tables) -> None:
        self.event = tables.event
        self.steps = np.zeros(tables.event[..., 0].size, np.int64)  # of each agent, machine state and kind of step
        self.first, self.later = np.zeros((2, tables.event.size), np.int64)  # events that happened, by rounds

    def add_proposed(self, state: Ints, kind: NDArray[np.integer], times: Ints | int = 1) -> None:
        """Count a step of some cases, or several that are the same."""
        row = np.ravel_multi_index((np.arange(state.shape[1]), state, kind), self.event.shape[:3])
        np.add.at(self.steps, row.T.ravel(), np.broadcast_to(times, row.T.shape).ravel())

    def add_happened(self, settled: SettledCases) -> None:
        for index, at in enumerate(settled.slots):
            np.add.at(self.later if index else self.first, np.ravel_multi_index(at, self.event.shape), 1)

    def counts(self) -> Counts:
        shape = self.event.shape
        later, steps = self.later.reshape(shape), self.steps.reshape(*shape[:3], 1)
        return Counts(np.where(self.event >= 0, steps, 0) + later, self.first.reshape(shape) + later)
