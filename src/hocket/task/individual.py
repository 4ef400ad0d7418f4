"""One agent with simulated teammates, as arrays: the outcomes of its steps, one of which a random number chooses."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.random import threshold
from hocket.task.grid import Numbers
from hocket.task.tables import Bools, Shorts, Tables

MOST_HAPPENING = 50_000_000  # states x kinds of steps x outcomes x events that may follow each other in a step


class IndividualTable(NamedTuple):
    """The task of an agent that trains with simulated teammates; U are the states of its machine. One random number per
    step decides whether the teammates are ready: in a machine state and kind of step it selects one of up to J
    outcomes, the first if it lies below the first limit, and so on. A final state leads to itself without reward."""

    place: int  # of the agent among all
    next_cell: Numbers  # [D, S, A, K]
    dynamics: Shorts  # [U]
    kind: Numbers  # [arrivals] of steps
    offset: NDArray[np.int32]  # [S] of the cell in which a step begins: with the cell in which it ends, its arrival
    proposed: Numbers  # [U, H, C] the events that the agent proposes, or -1
    limit: NDArray[np.int64]  # [U, H, J - 1] ascending; above all random numbers if there are fewer outcomes
    chance: NDArray[np.float64]  # [U, H, J] probability of each outcome
    next_state: Shorts  # [U, H, J] its machine's state after it
    reward: NDArray[Any]  # [U, H, J] from its machine; kernels take single precision
    happened: Numbers  # [U, H, J, R] the events that happen, in their order, or -1
    is_final: Bools  # [U] its own episode ends
    starts: NDArray[np.int64]  # cells, all equally likely
    initial: int  # machine state
    slip: float  # probability that a move slips
    slip_limit: int  # the same as a threshold

    @property
    def cells(self) -> int:
        """S, how many cells there are."""
        return len(self.offset)


class Outcomes(NamedTuple):
    """The outcomes of steps, as in `IndividualTable`; agents that differ only in the names of events share them."""

    limit: NDArray[np.int64]  # [U, H, J - 1]
    chance: NDArray[np.float64]  # [U, H, J]
    next_state: Shorts  # [U, H, J]
    reward: NDArray[np.float64]  # [U, H, J]
    happened: NDArray[np.int64]  # [U, H, J, R] entries of the agent's table of proposed events, or -1


def individual_table(
    tables: Tables, agent: int, sync_probability: float, *, sync_literal: bool = False
) -> IndividualTable:
    """Make the table of an agent that trains with simulated teammates."""
    return Simulation(tables, sync_probability, sync_literal).table(agent)


class Simulation:
    """Simulated teammates: finds the outcomes of an agent's steps, once for all agents that are alike."""

    def __init__(self, tables: Tables, sync_probability: float, sync_literal: bool) -> None:
        self.tables, self.probability, self.literal = tables, sync_probability, sync_literal
        self._is_shared = np.append(tables.knowers > 1, False)  # the last one is for no event
        self._controller = np.append(tables.controller, -1)
        self._edge = np.append(np.where(tables.is_edge, np.arange(len(tables.is_edge)), -1), -1)
        self._outcomes: dict[tuple[bytes, ...], Outcomes] = {}

    def table(self, agent: int, *, one_each: bool = False) -> IndividualTable:
        """Make the table of an agent; `one_each` is as in `outcomes`."""
        tables, states = self.tables, int(self.tables.states[agent])
        outcomes, proposed = self.outcomes(agent, one_each=one_each), tables.event[agent, :states]
        happened = np.where(outcomes.happened < 0, -1, proposed.ravel()[outcomes.happened]).astype(proposed.dtype)
        return IndividualTable(
            place=agent,
            next_cell=tables.next_cell[tables.world[agent]],
            dynamics=tables.dynamics[agent, :states],
            kind=tables.kind[agent, : int(tables.offset[agent].max()) + tables.cells],  # others may have more arrivals
            offset=tables.offset[agent],
            proposed=proposed,
            is_final=tables.is_over[agent, :states],
            starts=tables.starts(agent).astype(np.int64),
            initial=int(tables.initial[agent]),
            slip=tables.slip,
            slip_limit=threshold(tables.slip),
            **outcomes._replace(happened=happened)._asdict(),
        )

    def outcomes(self, agent: int, *, one_each: bool = False) -> Outcomes:
        """Tabulate the outcomes of an agent's steps. With `one_each`, each event that it may propose has an outcome, in
        the order of its table, and the last one is that none happens; the caller sets their probabilities."""
        tables, states = self.tables, int(self.tables.states[agent])
        event = tables.event[agent, :states]
        next_state, reward = tables.next_state[agent, :states], tables.reward[agent, :states]
        chance, is_over = self.chances(np.array([agent]))[0, :states], tables.is_over[agent, :states]
        edge = np.unique(np.append(-1, self._edge[event]), return_inverse=True)[1][1:].reshape(event.shape)
        rule = _ProposalRule(event >= 0, chance, next_state, reward, is_over, edge)
        key = (bytes([one_each]), *(part.tobytes() for part in rule))
        if key not in self._outcomes:
            self._outcomes[key] = _tabulate(rule, one_each)
        return self._outcomes[key]

    def alike(self) -> list[NDArray[np.int64]]:
        """Group the agents that have the same tables except for their starts, and so the same optimal policy."""
        tables = self.tables
        rule = (tables.event >= 0, self.chances(np.arange(len(tables.start))), tables.next_state, tables.reward)
        edge = self._edge[tables.event]
        parts = (tables.world, tables.states, tables.dynamics, tables.kind, tables.offset, tables.is_over, edge, *rule)
        alike: dict[tuple[bytes, ...], list[int]] = {}
        for agent in range(len(tables.start)):
            alike.setdefault(tuple(part[agent].tobytes() for part in parts), []).append(agent)
        return [np.array(agents) for agents in alike.values()]

    def chances(self, agents: NDArray[np.int64]) -> NDArray[np.float64]:
        """Tabulate the probability per step that teammates are ready for an event; NaN if it does not wait for them:
        if it is not shared, or if the agent is its only controller (read literally, the paper has all shared events
        wait)."""
        tables, event = self.tables, self.tables.event[agents]  # [agents, U, H, C]
        is_other = self._controller[event] != agents[:, None, None, None]
        chance = np.where(self._is_shared[event] & (self.literal | is_other), self.probability, np.nan)
        first, stop = tables.first_sync[agents], tables.first_sync[agents + 1]
        for index in np.flatnonzero(first < stop).tolist():
            for entry in range(first[index], stop[index]):
                chance[index][event[index] == tables.sync_event[entry]] = tables.sync_chance[entry]
        return chance


class _ProposalRule(NamedTuple):
    """An agent's machine and its probabilities of synchronisation, for the slots of its table of proposed events."""

    is_event: Bools  # [U, H, C]
    chance: NDArray[np.float64]  # [U, H, C] that teammates are ready; NaN: it does not wait for them
    next_state: Shorts  # [U, H, C]
    reward: NDArray[np.float64]  # [U, H, C]
    is_final: Bools  # [U]
    edge: NDArray[np.int64]  # [U, H, C] which edge event of the agent it is, from 1; 0: none


def _tabulate(rule: _ProposalRule, one_each: bool) -> Outcomes:
    """Tabulate the outcomes of all kinds of steps in all machine states."""
    states, kinds, _ = rule.is_event.shape
    rows = {row: _first_events(rule, one_each, *row) for row in product(range(states), range(kinds))}
    shape = (states, kinds, max(map(len, rows.values())))
    limit, next_state = np.full(shape, np.iinfo(np.int64).max), np.zeros(shape, np.int16)
    chance, reward, happened = np.zeros(shape), np.zeros(shape), dict[tuple[int, ...], list[int]]()
    for row, outcomes in rows.items():
        below = 0.0
        for number, (total, slot) in enumerate(outcomes):
            at = (*row, number)
            if number < len(outcomes) - 1:
                limit[at] = threshold(total)
            chance[at], below = total - below, total
            next_state[at], reward[at], happened[at] = _settle_alone(rule, *row, slot)
    longest = max(map(len, happened.values()))
    if prod(shape) * longest > MOST_HAPPENING:
        allowed = f"a machine of {states:,} states must have fewer events in a row in one step while the agent stays"
        raise TaskError(f"{allowed}, got {longest:,}", key="machine")
    entries = np.full((*shape, longest), -1)
    for outcome, listed in happened.items():
        entries[outcome][: len(listed)] = listed
    return Outcomes(np.ascontiguousarray(limit[:, :, :-1]), chance, next_state, reward, entries)


def _first_events(rule: _ProposalRule, one_each: bool, state: int, kind: int) -> list[tuple[float, int | None]]:
    """List the events (or None) that may happen first in a kind of step, with cumulative probabilities; with
    `one_each`, all events that the agent may propose, with the same probability."""
    slots = np.flatnonzero(rule.is_event[state, kind] & ~rule.is_final[state]).tolist()
    if one_each:
        count = rule.is_event.shape[2] + 1
        even = [(slot + 1) / count for slot in range(count)]
        totals = [float(total == 1) for total in even] if rule.is_final[state] else even
        return [(total, slot if slot in slots else None) for slot, total in enumerate(totals)]
    first, covered = list[tuple[float, int | None]](), 0.0
    for slot in slots:
        total = float(np.nan_to_num(rule.chance[state, kind, slot], nan=1.0))
        if total > covered:
            first.append((total, slot))
            covered = total
    return first if covered == 1 else [*first, (1.0, None)]


def _settle_alone(rule: _ProposalRule, state: int, kind: int, slot: int | None) -> tuple[int, float, list[int]]:
    """Let a proposed event happen, and then in rounds those that do not wait for teammates (these need a step to notice
    that the agent is ready), until a machine state recurs; an edge happens once. Returns the state, the reward, and
    entries of the table of proposed events."""
    seen, spent, reward, entries = {state}, set[int](), 0.0, list[int]()
    _, kinds, slots = rule.is_event.shape
    while slot is not None:
        at = (state, kind, slot)
        entries.append((state * kinds + kind) * slots + slot)
        reward += float(rule.reward[at])
        if rule.edge[at]:
            spent.add(int(rule.edge[at]))
            seen.clear()
        state = int(rule.next_state[at])
        alone = np.flatnonzero(rule.is_event[state, kind] & np.isnan(rule.chance[state, kind])).tolist()
        alone = [other for other in alone if rule.edge[state, kind, other] not in spent]
        slot = alone[0] if alone and state not in seen and not rule.is_final[state] else None
        seen.add(state)
    return state, reward, entries
