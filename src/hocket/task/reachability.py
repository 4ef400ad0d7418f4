"""What each agent can reach if its teammates synchronise on any shared event that it proposes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import can_reach, flood
from hocket.machine.counterexample import listing
from hocket.task.conditions import ANYWHERE
from hocket.task.tables import Bools, Tables
from hocket.task.task import Task

Ints = NDArray[np.intp]

MOST_KEPT = 100_000_000  # machine states times cells, of explorations that are kept for other agents


class Exploration(NamedTuple):
    """What an agent can reach, if its teammates synchronise whenever it needs them."""

    ends: Bools  # [states] machine states in which it can end a step
    arrived: Bools  # [states, arrivals] of steps, in each, at their end or in a round
    fewest_steps: int  # to a final state; 0 if it never gets there


def find_unreachable(task: Task, tables: Tables) -> tuple[tuple[str, ...], int]:
    """List in sentences the events that agents can never propose, and find a lower bound on the steps of an episode."""
    events, is_shared, explored = tuple(task.events), shared_events(tables), dict[tuple[bytes, ...], Exploration]()
    problems, lower_bound = list[str](), 0
    for index, agent in enumerate(task.agents):
        inputs = _inputs(tables, index, is_shared)
        exploration = explored.get(inputs) or explore(tables, index, is_shared)
        if len(explored) * exploration.arrived.size < MOST_KEPT:
            explored[inputs] = exploration
        problems += _problems(task, tables, agent, index, events, exploration)
        lower_bound = max(lower_bound, exploration.fewest_steps)
    return tuple(problems), lower_bound


def _problems(
    task: Task, tables: Tables, agent: str, index: int, events: Sequence[str], exploration: Exploration
) -> list[str]:
    """List the events that an agent can never propose, even if its teammates synchronise on all others."""
    machine = task.machines[agent]
    ends, arrived, _ = exploration
    states, local_events = tuple(machine.states), tuple(machine.events)
    closed, gates = task.closed_regions(agent), task.gates[agent]
    can_complete = can_reach(machine.graph, machine.is_final)
    problems = []
    for state in np.flatnonzero(ends & ~machine.is_final).tolist():
        edges = slice(machine.graph.first[state], machine.graph.first[state + 1])
        kinds = np.unique(tables.kind[index, arrived[state]])
        possible = {events[event] for event in np.unique(tables.event[index, state, kinds]).tolist() if event >= 0}
        alone = [event for event in task.knows[agent] if event in possible and len(task.knowers[event]) == 1]
        for label, target in zip(machine.graph.label[edges].tolist(), machine.graph.target[edges], strict=True):
            event = local_events[label]
            if event in possible or (len(machine.final) and not can_complete[target]):
                continue  # an event after which the task cannot be completed need not be possible
            where = task.events[event].get(agent, ANYWHERE)
            gated = ", ".join(f"{region} is closed {gates[region]}" for region in closed[state])
            cause = f"no step that {where} is possible" if where.is_edge else f"no cell {where} is reachable"
            if alone and (_walk(tables, index, state, arrived[state]) & task.where(agent, event)).any():
                cause = f"{listing(alone, 'or')} happens before it {where if where.is_edge else f'is {where}'}"
            cause += f" ({gated})" if gated else ""
            problems.append(f"{agent} never proposes {event} in state {states[state]}: {cause}.")
    if len(machine.final) and not (ends & machine.is_final).any() and not problems:
        advice = _advise_on_dead_ends(task, agent, ends, can_complete)
        problems.append(f"The local reward machine of {agent} can never reach a final state{advice}.")
    return problems


def _advise_on_dead_ends(task: Task, agent: str, ends: Bools, can_complete: Bools) -> str:
    """Name events that happen twice while the agent stays, so that its task cannot be completed any more."""
    machine = task.machines[agent]
    reached, alive = ({*compress(machine.states, flags)} for flags in (ends, can_complete))
    repeated = dict.fromkeys(
        event
        for (state, event), target in machine.transitions.items()
        if state in reached and target in alive and event not in task.edges and len(task.knowers[event]) == 1
        and machine.step(target, event) not in {None, *alive}
    )  # fmt: skip
    return f"; {advise_edges([*repeated])}" if repeated else ""


def advise_edges(events: Sequence[str]) -> str:
    """Explain why events happen repeatedly, and propose edges instead."""
    holds = f"the condition of {listing(events, 'and')} holds for as long as an agent is there"
    return f"{holds}: say that it enters or leaves instead"


def _walk(tables: Tables, agent: int, state: int, arrived: Bools) -> Bools:
    """Flag the cells that an agent could walk to in a machine state if no event happened on its way: [cells]."""
    begin = np.flatnonzero(np.logical_or.reduce(arrived.reshape(-1, tables.cells)))
    ends = tables.next_cell[tables.world[agent], tables.dynamics[agent, state], :, :, 0]
    return flood(tables.cells, begin, lambda front: ends[front])


def shared_events(tables: Tables) -> Bools:
    """Flag the events that may be proposed and not happen: shared ones and edges, which happen once; last, no event."""
    return np.append((tables.knowers > 1) | tables.is_edge, True)


def _inputs(tables: Tables, agent: int, is_shared: Bools) -> tuple[bytes, ...]:
    """Collect all that an agent's exploration depends on; agents that differ only in names of events share it."""
    event, starts = tables.event[agent], tables.starts(agent)
    machine = (tables.next_state, tables.is_final, tables.initial, tables.states, tables.dynamics)
    rows = [table[agent] for table in (*machine, tables.world, tables.kind, tables.offset)]
    return tuple(part.tobytes() for part in (event >= 0, is_shared[event], starts, *rows))


def explore(tables: Tables, agent: int, is_shared: Bools) -> Exploration:
    """Try all moves, with synchronisation or without, visiting each pair of machine state and arrival once. Edges may
    here happen more than once in a step, so that too much may count as reachable, never too little."""
    states, cells, arrivals = int(tables.states[agent]), tables.cells, tables.arrivals
    next_cell, dynamics = tables.next_cell[tables.world[agent]], tables.dynamics[agent].astype(np.intp)
    arrived, ended = np.zeros(states * arrivals, np.bool_), np.zeros(states * cells, np.bool_)
    last = np.zeros(states * arrivals, np.intp)
    front = int(tables.initial[agent]) * cells + tables.starts(agent).astype(np.intp)  # pairs of a state and a cell
    ended[front] = True
    step = fewest = 0
    while len(front):
        step += 1
        state, cell = np.divmod(front, cells)
        end = next_cell[dynamics[state], cell].reshape(len(state), -1)
        begin = state * arrivals + tables.offset[agent, cell]
        reached, settled = _unseen((begin[:, None] + end).ravel(), arrived, last), [front[:0]]
        while len(reached):  # a round, in which any proposed event may happen
            state, arrival = np.divmod(reached, arrivals)
            kind = tables.kind[agent, arrival]
            event = tables.event[agent, state, kind]  # [reached, C]
            may_end = is_shared[event].all(axis=1)
            settled.append(state[may_end] * cells + arrival[may_end] % cells)
            row, slot = np.nonzero(event >= 0)
            target = tables.next_state[agent, state[row], kind[row], slot].astype(np.intp)
            reached = _unseen(target * arrivals + arrival[row], arrived, last)
        front = _unseen(np.concatenate(settled), ended, last)
        if not fewest and tables.is_final[agent, front // cells].any():
            fewest = step
    ends: Bools = np.logical_or.reduce(ended.reshape(states, cells), axis=1)
    return Exploration(ends, arrived.reshape(states, arrivals), fewest)


def _unseen(visited: Ints, seen: Bools, last: Ints) -> Ints:
    """List once each number that has not been seen, and mark it as seen; faster than sorting the many short lists of
    each agent. `last` is a workspace of the same length."""
    unseen = visited[~seen[visited]]
    position = np.arange(len(unseen))
    seen[unseen], last[unseen] = True, position
    once: Ints = unseen[last[unseen] == position]
    return once
