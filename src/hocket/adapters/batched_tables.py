"""The machines of a team as arrays of numpy, for `batched`."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hocket.adapters.lookup import AloneLookup, TeamLookup
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.task import Task

Array = Any  # of whichever library
Library = Any
Device = Any
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Source = Task | Decomposition
Lookup = TypeVar("Lookup", TeamLookup, AloneLookup)


class BatchedTables(NamedTuple):
    """The machines as arrays, of numpy or of another library."""

    initial: Array  # [N]
    next_state: Array  # [N, U, E] or -1
    reward: Array  # [N, U, E] what the agent's own machine pays
    is_final: Array  # [N, U]
    is_over: Array  # [N, U] where an agent alone is done: final and, where a task has rewards, nothing leads on
    is_known: Array  # [N, E]
    is_told: Array  # [N, E] known, and controlled by others
    waits: Array  # [N, E] known, and controlled by others, too
    has_knowers: Array  # [E]
    one_state: Array  # [U] their numbers
    is_state: Bools  # [U, N] of a machine, and not over; of numpy
    once: Array  # [E] whether it happens at most once in a step
    where: tuple[Array, ...]  # [N, S, E] where conditions hold; then, for edges, pairs of cells after and before a step
    rivals: tuple[tuple[int, ...], ...]  # of each event: those before it that it may lose an agent to
    team_next: Array  # [V, E] or of no states where completion is all that is paid for
    team_reward: Array  # [V, E]
    team_initial: int
    team_lookup: TeamLookup | None = None  # of what comes of every step, where machines are small
    alone_lookup: AloneLookup | None = None

    def to(self, xp: Library, device: Device) -> BatchedTables:
        """Convert the arrays."""
        fixed = {"is_state", "where", "rivals", "team_initial", "team_lookup", "alone_lookup"}
        arrays = {name: value for name, value in self._asdict().items() if name not in fixed}
        moved = {name: xp.asarray(value, device=device) for name, value in arrays.items()}
        moved["where"] = tuple(xp.asarray(part, device=device) for part in self.where)

        def move(table: Lookup | None) -> Lookup | None:
            return None if table is None else type(table)(*(xp.asarray(part, device=device) for part in table))

        return self._replace(**moved, team_lookup=move(self.team_lookup), alone_lookup=move(self.alone_lookup))


def tabulate(source: Source, events: tuple[str, ...], once: Bools) -> BatchedTables:
    """Lay the machines of a team out as arrays of numpy."""
    number = {event: place for place, event in enumerate(events)}
    parts = list(source.machines.values())
    shape = (len(parts), max(len(part.states) for part in parts), len(events))
    next_state, reward = np.full(shape, -1, np.int32), np.zeros(shape)
    (is_final, is_over), known = np.zeros((2, *shape[:2]), np.bool_), np.zeros(shape[::2], np.bool_)
    for place, part in enumerate(parts):
        label = np.array([number[event] for event in part.events], np.int64)
        at = (place, part.graph.source, label[part.graph.label])
        next_state[at], reward[at] = part.graph.target, part.reward
        ends = part.is_final if source.machine.has_completion_rewards or len(parts) == 1 else part.ends
        is_final[place, : len(part.states)], is_over[place, : len(part.states)] = part.is_final, ends
    for place, knows in enumerate(source.knows.values()):
        known[place, [number[event] for event in knows]] = True
    controls = _controls(source, events)
    waits = known & (controls.sum(axis=0) - controls > 0) & (known.sum(axis=0) > 1)
    if isinstance(source, Task):
        for place, agent in enumerate(source.agents.values()):
            waits[place, [number[event] for event in agent.sync]] = True
    sizes = np.array([len(part.states) for part in parts])
    is_state = (np.arange(shape[1])[:, None] < sizes) & ~is_over.T
    initial = np.array([part.start for part in parts], np.int32)
    told, owned = known & ~controls, known.any(axis=0)
    rivals = _rivals(next_state, known)
    numbers, where = np.arange(shape[1], dtype=np.int32), _where(source, events)
    fixed = (initial, next_state, reward, is_final, is_over, known, told, waits, owned, numbers, is_state, once, where)
    return BatchedTables(*fixed, rivals, *_team(source, number))


def _controls(source: Source, events: tuple[str, ...]) -> Bools:
    """Say who controls what: [N, E]; in a decomposition that does not say it of an event, all that know it do."""
    control = source.controllers if isinstance(source, Task) else source.control
    return np.array(
        [
            [agent in (control.get(event) or [name for name in source.knows if event in source.knows[name]])
             for event in events]
            for agent in source.machines
        ],
        np.bool_,
    )  # fmt: skip


def _where(source: Source, events: tuple[str, ...]) -> tuple[Bools, ...]:
    """Tabulate where conditions hold: [N, S, E], and for edges, as many as a condition has, after and before a step."""
    if not isinstance(source, Task):
        return ()
    shape = (len(source.machines), source.grid.cells, len(events))
    where = [np.zeros(shape, np.bool_)]
    for place, agent in enumerate(source.machines):
        for number, event in enumerate(events):
            masks = source.masks(agent, event) if event in source.knows[agent] else ()
            for now in (now for now, was in masks if was is None):
                where[0][place, :, number] |= now
            flags = [flag for now, was in masks if was is not None for flag in (now, was)]
            where += [np.zeros(shape, np.bool_) for _ in range(len(flags) + 1 - len(where))]
            for table, flag in zip(where[1:], flags, strict=False):
                table[place, :, number] = flag
    return tuple(where)


def _rivals(next_state: Ints, known: Bools) -> tuple[tuple[int, ...], ...]:
    """List for each event those before it that can be possible with it, and share an agent."""
    possible = next_state >= 0  # [N, U, E]
    together = np.einsum("nue,nuf->nef", possible.astype(np.int64), possible.astype(np.int64)) > 0
    shared = known[:, :, None] & known[:, None, :]
    clash = shared.any(axis=0) & (together | ~shared).all(axis=0)
    return tuple(tuple(np.flatnonzero(row[:event]).tolist()) for event, row in enumerate(clash))


def _team(source: Source, number: dict[str, int]) -> tuple[Ints, NDArray[np.float64], int]:
    """Tabulate the team machine, where it pays for more than completion."""
    team, events = source.machine, len(number)
    if team.has_completion_rewards:
        return np.zeros((0, events), np.int32), np.zeros((0, events)), 0
    listed = team if isinstance(team, RewardMachine) else team.machine()
    following = np.full((len(listed.states), events), -1, np.int32)
    reward = np.zeros(following.shape)
    at = (listed.graph.source, np.array([number[event] for event in listed.events])[listed.graph.label])
    following[at], reward[at] = listed.graph.target, listed.reward
    return following, reward, listed.start
