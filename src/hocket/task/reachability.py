"""What agents can reach: each alone, with teammates that synchronise on every event it may wait for."""

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

MOST_KEPT = 100_000_000  # machine states times cells, of explorations that other agents may share


class Exploration(NamedTuple):
    """Where an agent can get to, if its teammates synchronise as it likes."""

    ends: Bools  # [states] machine states in which it can end a step
    arrived: Bools  # [states, arrivals] of steps, in each, at their end or in a round
    fewest_steps: int  # to a final state; 0 if it never gets there


def find_unreachable(task: Task, tables: Tables) -> tuple[tuple[str, ...], int]:
    """Find what agents cannot do however they move, one sentence each, and a lower bound on an episode's steps.

    These are the events that agents can never propose, and the fewest steps in which each agent alone could finish.
    """
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
        row = slice(machine.graph.first[state], machine.graph.first[state + 1])
        kinds = np.unique(tables.kind[index, arrived[state]])
        possible = {events[event] for event in np.unique(tables.event[index, state, kinds]).tolist() if event >= 0}
        alone = [event for event in task.knows[agent] if event in possible and len(task.knowers[event]) == 1]
        for label, target in zip(machine.graph.label[row].tolist(), machine.graph.target[row].tolist(), strict=True):
            event = local_events[label]
            if event in possible or (len(machine.final) and not can_complete[target]):
                continue  # nobody needs an event after which the task cannot be completed
            where = task.events[event].get(agent, ANYWHERE)
            shut = [f"{region} is closed {gates[region]}" for region in closed[state]]
            why = f" ({', '.join(shut)})" if shut else ""
            cause = f"no step that {where} is possible" if where.is_edge else f"no cell {where} is reachable"
            if alone and (_walk(tables, index, state, arrived[state]) & task.where(agent, event)).any():
                cause = f"{listing(alone, 'or')} happens before it {where if where.is_edge else f'is {where}'}"
            problems.append(f"{agent} never proposes {event} in state {states[state]}: {cause}{why}.")
    if len(machine.final) and not (ends & machine.is_final).any() and not problems:
        problems.append(f"The local reward machine of {agent} can never reach a final state{_ruin(task, agent, ends)}.")
    return problems


def _ruin(task: Task, agent: str, ends: Bools) -> str:
    """Name events that happen again while the agent stays, after which its task cannot be completed."""
    machine = task.machines[agent]
    can_end = can_reach(machine.graph, machine.is_final)
    reached, hopeful = ({*compress(machine.states, flags)} for flags in (ends, can_end))
    again = dict.fromkeys(
        event
        for (state, event), once in machine.transitions.items()
        if state in reached and once in hopeful and event not in task.edges and len(task.knowers[event]) == 1
        and machine.step(once, event) not in {None, *hopeful}
    )  # fmt: skip
    return f"; {advise_edges([*again])}" if again else ""


def advise_edges(events: Sequence[str]) -> str:
    """Say why events happen again and again, and how to write them instead."""
    holds = f"the condition of {listing(events, 'and')} holds for as long as an agent is there"
    return f"{holds}: say that it enters or leaves instead"


def _walk(tables: Tables, agent: int, state: int, arrived: Bools) -> Bools:
    """Flag the cells that an agent could walk to in a machine state if nothing happened on its way: [cells]."""
    begin = np.flatnonzero(np.logical_or.reduce(arrived.reshape(-1, tables.cells)))
    ends = tables.next_cell[tables.world[agent], tables.dynamics[agent, state], :, :, 0]
    return flood(tables.cells, begin, lambda front: ends[front])


def shared_events(tables: Tables) -> Bools:
    """Flag the events that an agent may propose in vain: those that others know, too, and edges, which happen once.

    The last flag is for no event.
    """
    return np.append((tables.knowers > 1) | tables.is_edge, True)


def _inputs(tables: Tables, agent: int, is_shared: Bools) -> tuple[bytes, ...]:
    """All that decides where an agent can get to: the same for agents that differ in the names of events only."""
    event, starts = tables.event[agent], tables.starts(agent)
    machine = (tables.next_state, tables.is_final, tables.initial, tables.states, tables.dynamics)
    rows = [table[agent] for table in (*machine, tables.world, tables.kind, tables.offset)]
    return tuple(part.tobytes() for part in (event >= 0, is_shared[event], starts, *rows))


def explore(tables: Tables, agent: int, is_shared: Bools) -> Exploration:
    """Try all moves, with synchronisation or without; each pair of machine state and arrival is visited once.

    An edge may happen more than once in a step here, so that more counts as reachable than is.
    """
    states, cells, arrivals = int(tables.states[agent]), tables.cells, tables.arrivals
    next_cell, dynamics = tables.next_cell[tables.world[agent]], tables.dynamics[agent].astype(np.intp)
    arrived, rests = np.zeros(states * arrivals, np.bool_), np.zeros(states * cells, np.bool_)
    last = np.zeros(states * arrivals, np.intp)
    moving = int(tables.initial[agent]) * cells + tables.starts(agent).astype(np.intp)
    rests[moving] = True
    step = fewest = 0
    while len(moving):
        step += 1
        state, cell = np.divmod(moving, cells)
        end = next_cell[dynamics[state], cell].reshape(len(state), -1)
        begin = state * arrivals + tables.offset[agent, cell]
        reached, resting = _unseen((begin[:, None] + end).ravel(), arrived, last), []
        while len(reached):  # a round, in which whatever is proposed may happen
            state, arrival = np.divmod(reached, arrivals)
            kind = tables.kind[agent, arrival]
            event = tables.event[agent, state, kind]  # [here, C]
            may_rest = is_shared[event].all(axis=1)
            resting.append(state[may_rest] * cells + arrival[may_rest] % cells)
            here, slot = np.nonzero(event >= 0)
            target = tables.next_state[agent, state[here], kind[here], slot].astype(np.intp)
            reached = _unseen(target * arrivals + arrival[here], arrived, last)
        moving = _unseen(np.concatenate([moving[:0], *resting]), rests, last)
        if not fewest and tables.is_final[agent, moving // cells].any():
            fewest = step
    ends: Bools = np.logical_or.reduce(rests.reshape(states, cells), axis=1)
    return Exploration(ends, arrived.reshape(states, arrivals), fewest)


def _unseen(visited: Ints, seen: Bools, last: Ints) -> Ints:
    """List once each what has not been seen, and mark it as seen; `last` is scratch memory of the same length.

    There are a hundred small lists for every agent, for which sorting them would take longest.
    """
    unseen = visited[~seen[visited]]
    place = np.arange(len(unseen))
    seen[unseen], last[unseen] = True, place
    once: Ints = unseen[last[unseen] == place]
    return once
