"""Reward machines as arrays: any number of copies of a team advance at once, as pure functions.

Arrays are those of any library of the array API standard: NumPy, PyTorch, JAX, CuPy. Shapes are static and nothing
branches on values, so that the functions can be compiled, mapped and scanned. Leading axes may be any; N agents, U
states of the largest machine, E events.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from hocket.adapters.batched_tables import (
    Array,
    BatchedTables,
    Device,
    Library,
    alone_lookup,
    most_rounds,
    tabulate,
    team_lookup,
)
from hocket.arguments import whole
from hocket.errors import AssignmentError, SettingsError, require_known
from hocket.machine.decomposition import Decomposition
from hocket.task.catalogue import as_task
from hocket.task.memory import with_team_machine
from hocket.task.tables import Bools
from hocket.task.task import Task

DType = Any  # of whichever library

ENCODINGS = ("onehot", "index")


class BatchedState(NamedTuple):
    """The states of copies of a team's machines."""

    agents: Array  # [..., N] of the agents' machines, by number
    team: Array  # [...] of the team machine, where its rewards depend on it; otherwise 0


class BatchedStep(NamedTuple):
    """What a step has led to, of a team, or of agents that train alone with their own machines."""

    state: Any  # a `BatchedState`; of agents alone the states of their machines, [..., N]
    happened: Array  # [..., E] whether each event happened; of agents alone [..., N, E], to each of them
    reward: Array  # [...] what the team machine pays; of agents alone [..., N], what their own machines pay
    done: Array  # [...] whether all machines are final; of agents alone [..., N]


def batched(task: Task | Decomposition | str | Path, *, rounds: int | None = None) -> BatchedMachines:
    """Make array functions of a task's machines, or of those of a decomposition for a world of one's own.

    A step settles in rounds, as everywhere; of a decomposition each event happens at most once in a step, as in `wrap`,
    and of a task each edge.
    So many `rounds` are computed in every step, by default as many as the machines can need.
    """
    source = task if isinstance(task, Decomposition) else with_team_machine(as_task(task))
    if isinstance(source, Decomposition) and not source.ok:
        raise AssignmentError(f"the machine must be decomposable: {source.explain()}")
    needed = most_rounds(source) if rounds is None else whole(rounds, "rounds", 1)
    return BatchedMachines(source, needed)


@dataclass(frozen=True, repr=False)
class BatchedMachines:
    """The machines of a team, for any number of copies at once.

    `agents`, `events` and `states` name what the axes of arrays stand for. `holds` [..., N, E] says whether an agent's
    own condition for an event holds; it is not looked at for events that the agent does not control.
    """

    source: Task | Decomposition
    rounds: int

    def __repr__(self) -> str:
        return f"<machines of {len(self.agents)} agents and {len(self.events)} events, {self.rounds} rounds a step>"

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The agents, in the order of the axis N."""
        return tuple(self.source.machines)

    @cached_property
    def events(self) -> tuple[str, ...]:
        """The events, in the order of the axis E."""
        return tuple(self.source.events if isinstance(self.source, Task) else self.source.machine.events)

    @cached_property
    def states(self) -> dict[str, tuple[str, ...]]:
        """The states of each agent's machine, by number."""
        return {agent: tuple(machine.states) for agent, machine in self.source.machines.items()}

    @cached_property
    def tables(self) -> BatchedTables:
        """The machines as arrays of numpy."""
        plain, (xp, _) = tabulate(self.source, self.events, self.once), _library(None)
        sizes, controls = [len(states) for states in self.states.values()], plain.is_known & ~plain.is_told
        step = partial(self._settle, xp, plain, dtype=np.float64)
        alone = partial(self._settle_alone, xp, plain, dtype=np.float64)
        return plain._replace(
            team_lookup=team_lookup(sizes, len(plain.team_next), controls, step),
            alone_lookup=alone_lookup(max(sizes), controls, plain.waits, alone),
        )

    def reset(self, n: int | tuple[int, ...], like: Array = None) -> BatchedState:
        """Put n copies (or an array of copies of some shape) in their initial states, in the library of `like`."""
        xp, device = _library(like)
        shape = (n,) if isinstance(n, int) else tuple(n)
        start = xp.asarray(self.tables.initial, device=device)
        return BatchedState(
            xp.broadcast_to(start, (*shape, len(self.agents))) + xp.zeros((*shape, 1), dtype=xp.int32, device=device),
            xp.full(shape, self.tables.team_initial, dtype=xp.int32, device=device),
        )

    def restart(self, state: BatchedState, where: Array) -> BatchedState:
        """Put the copies that are flagged, [...], back in their initial states."""
        xp, constants = self._constants(state.agents)
        fresh = xp.broadcast_to(constants.initial, state.agents.shape)
        team = xp.full_like(state.team, self.tables.team_initial)
        return BatchedState(xp.where(where[..., None], fresh, state.agents), xp.where(where, team, state.team))

    def step(self, state: BatchedState, holds: Array, reward_dtype: DType = None) -> BatchedStep:
        """Let what can happen happen, in rounds: all that control an event and know it must be ready for it.

        Small machines are looked up in a table of all that can come of a step.
        """
        xp, constants = self._constants(holds)
        dtype, table = reward_dtype or _real(xp), constants.team_lookup
        if table is None:
            return self._settle(xp, constants, state, holds, dtype)
        row = xp.sum(state.agents * table.stride, axis=-1, dtype=xp.int32) + state.team * table.base
        row = row + xp.sum(xp.where(holds, table.weight, 0 * table.weight), axis=(-2, -1), dtype=xp.int32)
        agents, team, happened, reward, done = (_rows(xp, part, row) for part in table.after)
        return BatchedStep(BatchedState(agents, team), happened, xp.astype(reward, dtype), done)

    def _settle(
        self, xp: Library, constants: BatchedTables, state: tuple[Array, Array], holds: Array, dtype: DType
    ) -> BatchedStep:
        """Compute all rounds of a step."""
        now, team = state
        was_done = xp.all(_look_up(xp, constants.is_final, now), axis=-1)
        reward = xp.zeros(team.shape, dtype=dtype, device=compat.device(holds))
        is_ready = holds | constants.is_told  # [..., N, E]
        happened = xp.zeros((*team.shape, len(self.events)), dtype=xp.bool, device=compat.device(holds))
        for _ in range(self.rounds):
            after = _look_up(xp, constants.next_state, now)  # [..., N, E]
            can = xp.all(((after >= 0) & is_ready) | ~constants.is_known, axis=-2) & constants.has_knowers
            if self.once.any():
                can = can & ~(happened & constants.once)
            chosen = _choose(xp, constants.rivals, can)
            if constants.team_next.shape[0]:
                team, reward = self._follow_team(xp, constants, chosen, team, reward)
            moves = chosen[..., None, :] & constants.is_known
            moved = _only(xp, moves, after + 1)
            now = xp.where(moved > 0, moved - 1, now)
            happened = happened | chosen
            if compat.is_numpy_namespace(xp) and not chosen.any():
                break  # as all rounds to come would be
        done = xp.all(_look_up(xp, constants.is_final, now), axis=-1)
        if not constants.team_next.shape[0]:
            reward = xp.astype(done & ~was_done, dtype)
        return BatchedStep(BatchedState(now, team), happened, reward, done)

    def step_alone(self, state: Array, holds: Array, ready: Array, reward_dtype: DType = None) -> BatchedStep:
        """Advance agents that train alone, from machine states [..., N].

        An event that teammates control, too, happens only in the first round and where `ready`, [..., N, E] or [..., N,
        1], says that the simulated teammates are; what an agent does by itself follows in rounds.
        """
        xp, constants = self._constants(holds)
        table = constants.alone_lookup
        if table is None:
            return self._settle_alone(xp, constants, state, holds, ready, reward_dtype or _real(xp))
        row = table.base + state * table.stride
        for flags, weight in ((holds, table.weight), (ready, table.ready_weight)):
            row = row + xp.sum(xp.where(flags, weight, 0 * weight), axis=-1, dtype=xp.int32)
        after, happened, reward, done = (_rows(xp, part, row) for part in table.after)
        return BatchedStep(after, happened, xp.astype(reward, reward_dtype or _real(xp)), done)

    def _settle_alone(
        self, xp: Library, constants: BatchedTables, state: Array, holds: Array, ready: Array, dtype: DType
    ) -> BatchedStep:
        """Compute all rounds of a step of agents that train alone."""
        now, is_free = state, holds | constants.is_told
        seen = xp.zeros((*now.shape, constants.next_state.shape[1]), dtype=xp.bool, device=compat.device(holds))
        reward = xp.zeros(now.shape, dtype=dtype, device=compat.device(holds))
        happened = xp.zeros((*now.shape, len(self.events)), dtype=xp.bool, device=compat.device(holds))
        goes_on, is_able = ~_look_up(xp, constants.is_over, now), is_free & (ready | ~constants.waits)
        edges = int(self.once.sum()) if isinstance(self.source, Task) else 0
        for _ in range((constants.next_state.shape[1] + 1) * (1 + edges)):
            after = _look_up(xp, constants.next_state, now)
            can = (after >= 0) & is_able & constants.is_known & goes_on[..., None] & ~(happened & constants.once)
            first = can & (xp.cumulative_sum(xp.astype(can, xp.int32), axis=-1) == 1)  # in the order of the events
            paid = xp.astype(_look_up(xp, constants.reward, now), reward.dtype)
            reward = reward + _only(xp, first, paid)
            seen = seen | (constants.one_state == now[..., None])
            if edges:  # after which states that were seen before may lead elsewhere
                seen = seen & ~xp.any(first & constants.once, axis=-1)[..., None]
            moved = _only(xp, first, after + 1)
            now, happened = xp.where(moved > 0, moved - 1, now), happened | first
            again = xp.any(seen & (constants.one_state == now[..., None]), axis=-1)
            goes_on = (moved > 0) & ~again & ~_look_up(xp, constants.is_over, now)
            is_able = is_free & ~constants.waits
        return BatchedStep(now, happened, reward, _look_up(xp, constants.is_over, now))

    def counterfactuals(self, holds: Array, ready: Array, reward_dtype: DType = None) -> BatchedStep:
        """Work out what the same step of the world would have meant in every machine state: [..., U, N].

        `is_state` [U, N] says which of them an agent's machine has.
        """
        xp, constants = self._constants(holds)
        holds, ready = holds[..., None, :, :], ready[..., None, :, :]
        everywhere = xp.broadcast_to(constants.one_state[:, None], (*holds.shape[:-3], *self.tables.is_state.shape))
        return self.step_alone(everywhere, holds, ready, reward_dtype)

    @property
    def is_state(self) -> Bools:
        """Which numbers are states from which an agent's machine can go on: [U, N]."""
        return self.tables.is_state

    def encode(self, state: BatchedState | Array, encoding: str = "onehot") -> Array:
        """Show the states of the agents' machines: [..., N, U] one-hot, or by number [..., N, 1]."""
        require_known(encoding, ENCODINGS, "encoding")
        agents = state.agents if isinstance(state, BatchedState) else state
        xp, constants = self._constants(agents)
        shown_as = agents[..., None] if encoding == "index" else constants.one_state == agents[..., None]
        return xp.astype(shown_as, _real(xp))

    def observe(self, observation: Array, state: BatchedState | Array, encoding: str = "onehot") -> Array:
        """Append the states of the agents' machines to what the agents observe, [..., N, F]."""
        xp = compat.array_namespace(observation)
        return xp.concat([observation, xp.astype(self.encode(state, encoding), observation.dtype)], axis=-1)

    def holds(self, cells: Array, before: Array = None) -> Array:
        """Say which conditions hold where the agents are, [..., N] cells of a task's map: [..., N, E].

        A task with edges (an agent enters, leaves or stays) needs the cells before the step, too.
        """
        task, (xp, constants) = self._task, self._constants(cells)
        holds = _look_up(xp, constants.where[0], cells)
        if len(constants.where) == 1:
            return holds
        if before is None:
            event = min(task.edges, key=self.events.index)
            raise SettingsError(f"{event} depends on the cells before the step: holds(cells, before)")
        for now, was in zip(constants.where[1::2], constants.where[2::2], strict=True):
            holds = holds | (_look_up(xp, now, cells) & _look_up(xp, was, before))
        return holds

    def closed(self, state: BatchedState | Array) -> Array:
        """Say which cells of a task's map gates close to the agents, in the states that they are in: [..., N, S]."""
        agents = state.agents if isinstance(state, BatchedState) else state
        xp, device = _library(agents)
        return _look_up(xp, xp.asarray(self._gates, device=device), agents)

    @cached_property
    def _gates(self) -> Bools:
        """Which cells are closed to an agent in a state of its machine: [N, U, S]."""
        gates = np.zeros((*self.tables.next_state.shape[:2], self._task.grid.cells), np.bool_)
        for place, agent in enumerate(self.agents):
            for state, cells in enumerate(self._task.closed_cells(agent)):
                gates[place, state, list(cells)] = True
        return gates

    @property
    def _task(self) -> Task:
        if not isinstance(self.source, Task):
            raise SettingsError("a decomposition has no map: whether conditions hold is the world's to say")
        return self.source

    @cached_property
    def once(self) -> Bools:
        """Which events happen at most once in a step: all of a decomposition, and the edges of a task: [E]."""
        source = self.source
        return np.array([not isinstance(source, Task) or event in source.edges for event in self.events], np.bool_)

    def _follow_team(
        self, xp: Library, constants: BatchedTables, chosen: Array, team: Array, reward: Array
    ) -> tuple[Array, Array]:
        """Let the team machine follow the events of a round, in their order, and add up what it pays."""
        for event in range(len(self.events)):
            here = chosen[..., event]
            paid = xp.astype(_rows(xp, constants.team_reward[:, event], team), reward.dtype)
            reward = xp.where(here, reward + paid, reward)
            team = xp.where(here, _rows(xp, constants.team_next[:, event], team), team)
        return team, reward

    def _constants(self, like: Array) -> tuple[Library, BatchedTables]:
        """Give the tables in the library and on the device of an array; kept where that costs a copy."""
        xp, device = _library(like)
        if compat.is_numpy_namespace(xp):
            return xp, self.tables
        if not compat.is_torch_array(like):  # under a compiler, constants are its own
            return xp, self.tables.to(xp, device)
        kept: dict[str, BatchedTables] = self.__dict__.setdefault("_kept", {})
        if str(device) not in kept:
            kept[str(device)] = self.tables.to(xp, device)
        return xp, kept[str(device)]


def _library(like: Array) -> tuple[Library, Device]:
    """Find the library of an array, and its device; numpy without one."""
    array = np.zeros(0) if like is None else like
    return compat.array_namespace(array), compat.device(array)


def _real(xp: Library) -> DType:
    """The library's own type for real numbers."""
    return xp.asarray(0.0).dtype


def _look_up(xp: Library, table: Array, place: Array) -> Array:
    """Look up rows of a table [N, P, ...] at places [..., N]: [..., N, ...]."""
    agents, places, *rest = table.shape
    flat = xp.reshape(table, (agents * places, *rest))
    at = place + xp.arange(agents, dtype=place.dtype, device=compat.device(place)) * places
    return _rows(xp, flat, at)


def _only(xp: Library, flags: Array, values: Array) -> Array:
    """Pick the value that is flagged along the last axis, where one at most is; 0 where none is."""
    return xp.sum(xp.where(flags, values, xp.zeros_like(values)), axis=-1, dtype=values.dtype)


def _choose(xp: Library, rivals: tuple[tuple[int, ...], ...], can: Array) -> Array:
    """Choose the events of a round: in their order, one for each agent."""
    chosen: list[Array] = []
    for event, before in enumerate(rivals):
        happens = can[..., event]
        for rival in before:
            happens = happens & ~chosen[rival]
        chosen.append(happens)
    return xp.stack(chosen, axis=-1) if any(rivals) else can


def _rows(xp: Library, table: Array, row: Array) -> Array:
    """Look up rows of a table [L, ...] for numbers [...]."""
    return xp.reshape(xp.take(table, xp.reshape(row, (-1,)), axis=0), (*row.shape, *table.shape[1:]))
