"""Reward machines as arrays: pure functions that step any number of copies of a team at once.

Arrays are those of any library of the array API standard: NumPy, PyTorch, JAX, CuPy. Shapes are static and nothing
branches on values, so that the functions can be compiled, mapped and scanned. Any leading axes are allowed; N agents, U
states of the largest machine, E events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from hocket.arguments import whole
from hocket.errors import AssignmentError, SettingsError, TaskError, require_known
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.catalogue import as_task
from hocket.task.endless import StepKinds
from hocket.task.memory import with_team_machine
from hocket.task.tables import Bools, compile_task
from hocket.task.task import Task

ENCODINGS = ("onehot", "index")
MOST_ROWS = 2**16  # of a table
MOST_UNROLLED = 256  # rounds, each of which is unrolled when a library compiles them

Array = Any  # of any library
Library = Any
Device = Any
DType = Any
Ints = NDArray[np.int32]
Source = Task | Decomposition
Step = Callable[..., tuple[Any, ...]]  # from states, conditions that hold and, of agents alone, who is ready


class BatchedState(NamedTuple):
    """The states of copies of a team's machines."""

    agents: Array  # [..., N] of the agents' machines, by number
    team: Array  # [...] of the team machine, where its rewards depend on it; otherwise 0


class BatchedStep(NamedTuple):
    """The results of a step, of a team, or of agents that train alone with local machines."""

    state: Any  # a `BatchedState`; of agents alone the states of their machines, [..., N]
    happened: Array  # [..., E] whether each event happened; of agents alone [..., N, E], to each of them
    reward: Array  # [...] of the team machine; of agents alone [..., N], of their machines
    done: Array  # [...] whether all machines are final; of agents alone [..., N]


def batched(task: Task | Decomposition | str | Path, *, rounds: int | None = None) -> BatchedMachines:
    """Make array functions of a task's machines, or of those of a decomposition for any environment.

    A step settles in rounds; of a decomposition each event happens at most once in a step, as in `wrap`, and of a task
    each edge. So many `rounds` are computed in every step, by default as many as the machines can need.
    """
    source = task if isinstance(task, Decomposition) else with_team_machine(as_task(task))
    if isinstance(source, Decomposition) and not source.ok:
        raise AssignmentError(f"the machine must be decomposable: {source.explain()}")
    needed = most_rounds(source) if rounds is None else whole(rounds, "rounds", 1)
    return BatchedMachines(source, needed)


@dataclass(frozen=True, repr=False)
class BatchedMachines:
    """The machines of a team, for any number of copies at once.

    `agents`, `events` and `states` name the entries of the axes of arrays. `holds` [..., N, E] says whether an agent's
    condition for an event holds; it is ignored for events that the agent does not control.
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
        tables = tabulate(self.source, self.events, self.once)
        sizes, controls = [len(states) for states in self.states.values()], tables.is_known & ~tables.is_told
        step, alone = (partial(rule, tables, dtype=np.float64) for rule in (self._settle, self._settle_alone))
        return tables._replace(
            team_lookup=team_lookup(sizes, len(tables.team_next), controls, step),
            alone_lookup=alone_lookup(max(sizes), controls, tables.waits, alone),
        )

    def reset(self, n: int | tuple[int, ...], like: Array = None) -> BatchedState:
        """Return the initial states of n copies (or of copies in an array of a shape), in the library of `like`."""
        xp, device = _library(like)
        shape = (n,) if isinstance(n, int) else tuple(n)
        start = xp.asarray(self.tables.initial, device=device)
        return BatchedState(
            xp.broadcast_to(start, (*shape, len(self.agents))) + xp.zeros((*shape, 1), dtype=xp.int32, device=device),
            xp.full(shape, self.tables.team_initial, dtype=xp.int32, device=device),
        )

    def restart(self, state: BatchedState, where: Array) -> BatchedState:
        """Reset the copies that are flagged, [...], to their initial states."""
        xp, constants = self._constants(state.agents)
        agents = xp.broadcast_to(constants.initial, state.agents.shape)
        team = xp.full_like(state.team, self.tables.team_initial)
        return BatchedState(xp.where(where[..., None], agents, state.agents), xp.where(where, team, state.team))

    def step(self, state: BatchedState, holds: Array, reward_dtype: DType = None) -> BatchedStep:
        """Let all possible events happen, in rounds: all agents that control an event and know it must be ready for it.

        Small machines have a table of the results of all steps.
        """
        xp, constants = self._constants(holds)
        dtype, table = reward_dtype or _real(xp), constants.team_lookup
        if table is None:
            return self._settle(constants, state, holds, dtype)
        row = xp.sum(state.agents * table.stride, axis=-1, dtype=xp.int32) + state.team * table.base
        row = row + xp.sum(xp.where(holds, table.weight, 0 * table.weight), axis=(-2, -1), dtype=xp.int32)
        agents, team, happened, reward, done = (_rows(xp, part, row) for part in table.after)
        return BatchedStep(BatchedState(agents, team), happened, xp.astype(reward, dtype), done)

    def _settle(self, constants: BatchedTables, state: tuple[Array, Array], holds: Array, dtype: DType) -> BatchedStep:
        """Compute all rounds of a step."""
        (xp, device), (now, team), is_paid = _library(holds), state, constants.team_next.shape[0]
        was_done = xp.all(_look_up(xp, constants.is_final, now), axis=-1)
        reward = xp.zeros(team.shape, dtype=dtype, device=device)
        is_ready = holds | constants.is_told  # [..., N, E]
        happened = xp.zeros((*team.shape, len(self.events)), dtype=xp.bool, device=device)
        for _ in range(self.rounds):
            after = _look_up(xp, constants.next_state, now)  # [..., N, E]
            can = xp.all(((after >= 0) & is_ready) | ~constants.is_known, axis=-2) & constants.has_knowers
            if self.once.any():
                can = can & ~(happened & constants.once)
            chosen = _choose(xp, constants.rivals, can)
            for event in range(len(self.events) if is_paid else 0):  # rewards are added in the order of the events
                happens = chosen[..., event]
                added = xp.astype(_rows(xp, constants.team_reward[:, event], team), reward.dtype)
                reward = xp.where(happens, reward + added, reward)
                team = xp.where(happens, _rows(xp, constants.team_next[:, event], team), team)
            following = _only(xp, chosen[..., None, :] & constants.is_known, after + 1)
            now, happened = xp.where(following > 0, following - 1, now), happened | chosen
            if compat.is_numpy_namespace(xp) and not chosen.any():
                break  # nothing can happen in later rounds either
        done = xp.all(_look_up(xp, constants.is_final, now), axis=-1)
        if not is_paid:
            reward = xp.astype(done & ~was_done, dtype)
        return BatchedStep(BatchedState(now, team), happened, reward, done)

    def step_alone(self, state: Array, holds: Array, ready: Array, reward_dtype: DType = None) -> BatchedStep:
        """Step agents that train alone, from machine states [..., N].

        An event that teammates control, too, happens only in the first round and where `ready`, [..., N, E] or [..., N,
        1], says that the simulated teammates are; events that an agent controls alone follow in rounds.
        """
        xp, constants = self._constants(holds)
        dtype, table = reward_dtype or _real(xp), constants.alone_lookup
        if table is None:
            return self._settle_alone(constants, state, holds, ready, dtype)
        row = table.base + state * table.stride
        for flags, weight in ((holds, table.weight), (ready, table.ready_weight)):
            row = row + xp.sum(xp.where(flags, weight, 0 * weight), axis=-1, dtype=xp.int32)
        after, happened, reward, done = (_rows(xp, part, row) for part in table.after)
        return BatchedStep(after, happened, xp.astype(reward, dtype), done)

    def _settle_alone(
        self, constants: BatchedTables, now: Array, holds: Array, ready: Array, dtype: DType
    ) -> BatchedStep:
        """Compute all rounds of a step of agents that train alone."""
        (xp, device), is_free = _library(holds), holds | constants.is_told
        visited = xp.zeros((*now.shape, constants.next_state.shape[1]), dtype=xp.bool, device=device)
        happened = xp.zeros((*now.shape, len(self.events)), dtype=xp.bool, device=device)
        reward = xp.zeros(now.shape, dtype=dtype, device=device)
        goes_on, is_able = ~_look_up(xp, constants.is_over, now), is_free & (ready | ~constants.waits)
        edges = int(self.once.sum()) if isinstance(self.source, Task) else 0
        for _ in range((constants.next_state.shape[1] + 1) * (1 + edges)):
            after = _look_up(xp, constants.next_state, now)
            can = (after >= 0) & is_able & constants.is_known & goes_on[..., None] & ~(happened & constants.once)
            first = can & (xp.cumulative_sum(xp.astype(can, xp.int32), axis=-1) == 1)  # in the order of the events
            reward = reward + _only(xp, first, xp.astype(_look_up(xp, constants.reward, now), reward.dtype))
            visited = visited | (constants.numbers == now[..., None])
            if edges:  # after which visited states may lead elsewhere
                visited = visited & ~xp.any(first & constants.once, axis=-1)[..., None]
            following = _only(xp, first, after + 1)
            now, happened = xp.where(following > 0, following - 1, now), happened | first
            again = xp.any(visited & (constants.numbers == now[..., None]), axis=-1)
            goes_on = (following > 0) & ~again & ~_look_up(xp, constants.is_over, now)
            is_able = is_free & ~constants.waits
        return BatchedStep(now, happened, reward, _look_up(xp, constants.is_over, now))

    def counterfactuals(self, holds: Array, ready: Array, reward_dtype: DType = None) -> BatchedStep:
        """Compute the same step of agents alone in every machine state: [..., U, N].

        `is_state` [U, N] says which of them an agent's machine has.
        """
        xp, constants = self._constants(holds)
        holds, ready = holds[..., None, :, :], ready[..., None, :, :]
        states = xp.broadcast_to(constants.numbers[:, None], (*holds.shape[:-3], *self.tables.is_state.shape))
        return self.step_alone(states, holds, ready, reward_dtype)

    @property
    def is_state(self) -> Bools:
        """Which numbers are states from which an agent's machine can go on: [U, N]."""
        return self.tables.is_state

    def encode(self, state: BatchedState | Array, encoding: str = "onehot") -> Array:
        """Encode the states of the agents' machines: [..., N, U] one-hot, or by number [..., N, 1]."""
        require_known(encoding, ENCODINGS, "encoding")
        agents = state.agents if isinstance(state, BatchedState) else state
        xp, constants = self._constants(agents)
        encoded = agents[..., None] if encoding == "index" else constants.numbers == agents[..., None]
        return xp.astype(encoded, _real(xp))

    def observe(self, observation: Array, state: BatchedState | Array, encoding: str = "onehot") -> Array:
        """Append the states of the agents' machines to their observations, [..., N, F]."""
        xp = compat.array_namespace(observation)
        return xp.concat([observation, xp.astype(self.encode(state, encoding), observation.dtype)], axis=-1)

    def holds(self, cells: Array, before: Array = None) -> Array:
        """Return which conditions hold in the agents' cells, [..., N] of a task's map: [..., N, E].

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
        """Return which cells of a task's map gates close to the agents in their machines' states: [..., N, S]."""
        agents = state.agents if isinstance(state, BatchedState) else state
        xp, device = _library(agents)
        return _look_up(xp, xp.asarray(self._gates, device=device), agents)

    @cached_property
    def _gates(self) -> Bools:
        """Which cells are closed to an agent in a state of its machine: [N, U, S]."""
        gates = np.zeros((*self.tables.next_state.shape[:2], self._task.grid.cells), np.bool_)
        for index, agent in enumerate(self.agents):
            for state, cells in enumerate(self._task.closed_cells(agent)):
                gates[index, state, list(cells)] = True
        return gates

    @property
    def _task(self) -> Task:
        if not isinstance(self.source, Task):
            raise SettingsError("a decomposition has no map: the environment decides which conditions hold")
        return self.source

    @cached_property
    def once(self) -> Bools:
        """Which events happen at most once in a step: all of a decomposition, and the edges of a task: [E]."""
        source = self.source
        return np.array([not isinstance(source, Task) or event in source.edges for event in self.events], np.bool_)

    def _constants(self, like: Array) -> tuple[Library, BatchedTables]:
        """Return the tables in the library and on the device of an array; those of PyTorch are kept."""
        xp, device = _library(like)
        if compat.is_numpy_namespace(xp):
            return xp, self.tables
        if not compat.is_torch_array(like):  # in a function that JAX compiles, constants belong to that function
            return xp, self.tables.to(xp, device)
        kept: dict[str, BatchedTables] = self.__dict__.setdefault("_kept", {})
        if str(device) not in kept:
            kept[str(device)] = self.tables.to(xp, device)
        return xp, kept[str(device)]


def _library(like: Array) -> tuple[Library, Device]:
    """Return the library of an array, and its device; numpy for None."""
    array = np.zeros(0) if like is None else like
    return compat.array_namespace(array), compat.device(array)


def _real(xp: Library) -> DType:
    """Return the library's default type for real numbers."""
    return xp.asarray(0.0).dtype


def _look_up(xp: Library, table: Array, index: Array) -> Array:
    """Look up rows of a table [N, P, ...] by indices [..., N]: [..., N, ...]."""
    agents, count, *rest = table.shape
    offset = xp.arange(agents, dtype=index.dtype, device=compat.device(index)) * count
    return _rows(xp, xp.reshape(table, (agents * count, *rest)), index + offset)


def _only(xp: Library, flags: Array, values: Array) -> Array:
    """Return the value that is flagged along the last axis, at most one; 0 if there is none."""
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


# The machines as arrays of numpy.


class Lookup(NamedTuple):
    """The results of steps from every joint state of a team, or state of an agent alone, under all conditions: the row
    is the sum of a base, of strides times states, and of the weights of conditions that hold. Libraries that run one
    operation after the other, like PyTorch, look up a row as quickly as they compute one round."""

    base: Array  # [N] of agents alone: the first row of each; of a team []: the stride of the team machine's state
    stride: Array  # [N]
    weight: Array  # [N, E] of conditions that hold
    ready_weight: Array  # [N, E] of simulated teammates that are ready
    after: tuple[Array, ...]  # [L, ...] each: the result of a step of agents alone, or of a team


class BatchedTables(NamedTuple):
    """The machines as arrays, of numpy or of another library."""

    initial: Array  # [N]
    next_state: Array  # [N, U, E] or -1
    reward: Array  # [N, U, E] of the agent's machine
    is_final: Array  # [N, U]
    is_over: Array  # [N, U] whether an agent alone is done: final and, if a task has rewards, without transitions
    is_known: Array  # [N, E]
    is_told: Array  # [N, E] known, and controlled by others
    waits: Array  # [N, E] known, and controlled by others, too
    has_knowers: Array  # [E]
    numbers: Array  # [U] of states
    is_state: Bools  # [U, N] of a machine, and not over
    once: Array  # [E] whether it happens at most once in a step
    where: tuple[Array, ...]  # [N, S, E] where conditions hold; then, for edges, pairs of cells after and before a step
    rivals: tuple[tuple[int, ...], ...]  # of each event: earlier ones that exclude it in a round
    team_next: Array  # [V, E] or of no states where only completion pays
    team_reward: Array  # [V, E]
    team_initial: int
    team_lookup: Lookup | None = None  # where machines are small
    alone_lookup: Lookup | None = None

    def to(self, xp: Library, device: Device) -> BatchedTables:
        """Convert the arrays."""

        def move(value: Any) -> Any:  # noqa: ANN401 (an array, or a tuple of them)
            if not isinstance(value, tuple):
                return xp.asarray(value, device=device) if isinstance(value, np.ndarray | np.generic) else value
            parts = map(move, value)
            return Lookup(*parts) if isinstance(value, Lookup) else tuple(parts)

        return BatchedTables(*map(move, self))


def tabulate(source: Source, events: tuple[str, ...], once: Bools) -> BatchedTables:
    """Write the machines of a team as arrays of numpy."""
    number = {event: index for index, event in enumerate(events)}
    machines = list(source.machines.values())
    shape = (len(machines), max(len(machine.states) for machine in machines), len(events))
    next_state, reward = np.full(shape, -1, np.int32), np.zeros(shape)
    (is_final, is_over), known = np.zeros((2, *shape[:2]), np.bool_), np.zeros(shape[::2], np.bool_)
    ends_when_final = source.machine.has_completion_rewards or len(machines) == 1
    for index, (machine, knows) in enumerate(zip(machines, source.knows.values(), strict=True)):
        label = np.array([number[event] for event in machine.events], np.int64)
        at = (index, machine.graph.source, label[machine.graph.label])
        next_state[at], reward[at] = machine.graph.target, machine.reward
        is_final[index, : len(machine.states)] = machine.is_final
        is_over[index, : len(machine.states)] = machine.is_final if ends_when_final else machine.ends
        known[index, [number[event] for event in knows]] = True
    control = source.controllers if isinstance(source, Task) else source.control
    controls = known.copy()  # all that know an event control it, unless it says who does
    for event in events:
        if names := control.get(event):
            controls[:, number[event]] = [agent in names for agent in source.machines]
    waits = known & (controls.sum(axis=0) - controls > 0) & (known.sum(axis=0) > 1)
    if isinstance(source, Task):
        for index, agent in enumerate(source.agents.values()):
            waits[index, [number[event] for event in agent.sync]] = True
    is_state = (np.arange(shape[1])[:, None] < [len(machine.states) for machine in machines]) & ~is_over.T
    initial = np.array([machine.start for machine in machines], np.int32)
    told, has_knowers = known & ~controls, known.any(axis=0)
    possible, shared = (next_state >= 0).astype(np.int64), known[:, :, None] & known[:, None, :]
    together = np.einsum("nue,nuf->nef", possible, possible) > 0
    clash = shared.any(axis=0) & (together | ~shared).all(axis=0)  # events possible at once that share an agent
    rivals = tuple(tuple(np.flatnonzero(row[:event]).tolist()) for event, row in enumerate(clash))
    events_known = (known, told, waits, has_knowers, np.arange(shape[1], dtype=np.int32), is_state, once)
    fixed = (initial, next_state, reward, is_final, is_over, *events_known, _where(source, events))
    return BatchedTables(*fixed, rivals, *_team(source, number))


def _where(source: Source, events: tuple[str, ...]) -> tuple[Bools, ...]:
    """Tabulate where conditions hold: [N, S, E], and for edges, as many as a condition has, after and before a step."""
    if not isinstance(source, Task):
        return ()
    shape = (len(source.machines), source.grid.cells, len(events))
    where = [np.zeros(shape, np.bool_)]
    for index, agent in enumerate(source.machines):
        for number, event in enumerate(events):
            masks = source.masks(agent, event) if event in source.knows[agent] else ()
            for now in (now for now, was in masks if was is None):
                where[0][index, :, number] |= now
            flags = [flag for now, was in masks if was is not None for flag in (now, was)]
            where += [np.zeros(shape, np.bool_) for _ in range(len(flags) + 1 - len(where))]
            for table, flag in zip(where[1:], flags, strict=False):
                table[index, :, number] = flag
    return tuple(where)


def _team(source: Source, number: dict[str, int]) -> tuple[Ints, NDArray[np.float64], int]:
    """Tabulate the team machine, unless only completion pays."""
    team, events = source.machine, len(number)
    if team.has_completion_rewards:
        return np.zeros((0, events), np.int32), np.zeros((0, events)), 0
    machine = team if isinstance(team, RewardMachine) else team.machine()
    following = np.full((len(machine.states), events), -1, np.int32)
    reward = np.zeros(following.shape)
    at = (machine.graph.source, np.array([number[event] for event in machine.events])[machine.graph.label])
    following[at], reward[at] = machine.graph.target, machine.reward
    return following, reward, machine.start


# Steps as tables.


def team_lookup(sizes: Sequence[int], team_states: int, controls: Bools, step: Step) -> Lookup | None:
    """Tabulate the steps of a team; None where there are too many. `controls` [N, E] are the conditions that matter."""
    bits, sizes = int(controls.sum()), (*sizes, max(1, team_states))
    if bits > 32 or np.prod(sizes, dtype=np.float64) * 2.0**bits > MOST_ROWS:
        return None
    row, weight = np.arange(np.prod(sizes, dtype=np.int64) << bits), _weights(controls.ravel()).reshape(controls.shape)
    *states, team = (part.astype(np.int32) for part in np.unravel_index(row >> bits, sizes))
    holds = (row[:, None, None] & weight) > 0
    state, *rest = step((np.stack(states, axis=-1), team), holds)
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int32) << bits
    return Lookup(strides[-1], strides[:-1], weight, weight, (*state, *rest))


def alone_lookup(size: int, controls: Bools, waits: Bools, step: Step) -> Lookup | None:
    """Tabulate the steps of each agent alone, in so many states; None where there are too many."""
    flags = np.concatenate([controls, waits], axis=1)
    bits = flags.sum(axis=1)
    rows = size * 2.0**bits
    if bits.max(initial=0) > 32 or rows.sum() > MOST_ROWS:
        return None
    weight, ready_weight = np.split(_weights(flags), 2, axis=1)
    parts = []
    for agent, shift in enumerate(bits.tolist()):
        row = np.arange(size << shift)
        states = np.repeat((row >> shift).astype(np.int32)[:, None], len(bits), axis=1)
        holds, ready = ((row[:, None, None] & each) > 0 for each in (weight, ready_weight))
        parts.append([part[:, agent] for part in step(states, holds, ready)])
    base, stride = (np.cumsum(rows) - rows).astype(np.int32), (1 << bits).astype(np.int32)
    return Lookup(base, stride, weight, ready_weight, tuple(map(np.concatenate, zip(*parts, strict=True))))


def _weights(flags: Bools) -> Ints:
    """Number the flags that are set as bits, along the last axis."""
    ones = flags.astype(np.int32)
    return ones << (np.cumsum(ones, axis=-1, dtype=np.int32) - ones)


# How many rounds a step may have.


def most_rounds(source: Task | Decomposition) -> int:
    """Bound the rounds of a step in which events happen.

    Of a decomposition each event happens at most once in a step, and of a task each edge. Of a task a round moves at
    least one machine. While its agent stays in a cell, a machine goes, between two edges, at most along its longest
    path of other events that are possible there; if it has a cycle of these, the team machine is never in the same
    state twice between two edges.
    """
    if isinstance(source, Decomposition):
        return max(1, len(source.machine.events))
    compile_task(source)  # which refuses tasks in which a step never settles
    team, edges = source.machine, len(source.edges)
    joint = team.most_states if isinstance(team, Composition) else len(team.states)
    most = joint - 1 if not edges else (edges + 1) * joint
    rounds = int(min(most, sum(_longest_path(source, agent) for agent in source.agents)))
    if rounds > MOST_UNROLLED:
        raise TaskError(f"a step could need {rounds:,} rounds: say how many are enough (rounds=)", key="machine")
    return max(1, rounds)


def _longest_path(task: Task, agent: str) -> float:
    """Count the transitions on a longest path of an agent's machine while it stays; infinite if there is a cycle."""
    machine, kinds = task.machines[agent], StepKinds.of(task, agent)
    if not len(machine.graph.source):
        return 0
    where = np.stack([kinds.where(event) for event in machine.events])  # [events, kinds]
    is_edge, longest = np.array([event in task.edges for event in machine.events]), 0.0
    for allowed in np.unique(where.T, axis=0):
        edges, steps = int((allowed & is_edge).sum()), _longest_walk(machine, (allowed & ~is_edge)[machine.graph.label])
        longest = max(longest, (edges + 1) * steps + edges)
    return longest


def _longest_walk(machine: RewardMachine, is_allowed: NDArray[np.bool_]) -> float:
    """Count the transitions of a longest walk along allowed ones; infinite if there is a cycle."""
    source, target = machine.graph.source[is_allowed], machine.graph.target[is_allowed]
    steps = np.zeros(len(machine.states), np.int64)
    for _ in range(len(machine.states)):
        longer = np.zeros_like(steps)
        np.maximum.at(longer, source, steps[target] + 1)
        if np.array_equal(longer, steps):
            return float(steps.max())
        steps = longer
    return math.inf
