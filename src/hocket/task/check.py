"""What can be checked of a task before training: decomposability, completion, labelling, gates, and reachability."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import HocketError
from hocket.machine.completion import Completion, completes_without, find_completion, find_idle, leaving_warnings
from hocket.machine.decomposition import Decomposition
from hocket.task.conditions import ANYWHERE
from hocket.task.gates import closed_regions
from hocket.task.labelling import Verdict, check_labelling
from hocket.task.settling import EndlessError, order_notes, repeat_notes
from hocket.task.tables import Bools, Tables, compile_task
from hocket.task.task import Task

Ints = NDArray[np.intp]

MOST_TRIED = 20  # events that an agent might know, before one is proposed
MOST_KEPT = 100_000_000  # machine states times cells, of agents that others may be alike


@dataclass(frozen=True)
class Inspection:
    """What is right and wrong with a task."""

    task: Task
    labelling: Verdict
    endless: EndlessError | None  # a step that would never settle
    unreachable: tuple[str, ...]  # what agents cannot do however they move, one sentence each
    completion: Completion  # whether the team machine can be completed
    fewest_steps: int = 0  # no episode that completes has fewer

    @property
    def decomposition(self) -> Decomposition:
        return self.task.decomposition

    @property
    def ok(self) -> bool:
        """Whether the task is decomposable, its labelling is sound, and the team and every agent can complete."""
        is_sound = self.decomposition.ok and self.labelling.ok and self.endless is None
        return is_sound and not self.unreachable and not self.completion.problems

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a designer should know of, one sentence each: where the order of events matters, and what repeats."""
        return (*order_notes(self.task), *repeat_notes(self.task)) if self.ok else ()

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is legal and may be a mistake, one sentence each."""
        return (*self.completion.warnings, *leaving_warnings(self.task.machines), *self.idle)

    @cached_property
    def idle(self) -> tuple[str, ...]:
        """Who has no reason to do what the team waits for, one sentence each."""
        task = self.task
        if not self.decomposition.ok:
            return ()
        return tuple(_idle(task, *found) for found in find_idle(task.machine, task.machines, task.controls).items())

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each."""
        said = list(self.decomposition.problems)
        if self.endless is not None:
            said.append(f"{str(self.endless)[:1].upper()}{str(self.endless)[1:]}.")
        return (*said, *self.completion.problems, *self.unreachable)


def check_task(task: Task) -> Inspection:
    """Check a task: decomposability, completion, labelling, gates, and whether agents get to where they propose."""
    labelling, completion = check_labelling(task), find_completion(task.machine)
    if not labelling.ok or not task.decomposition.ok:
        return Inspection(task, labelling, None, (), completion)  # the rest builds on these
    try:
        tables = compile_task(task)
    except EndlessError as error:
        return Inspection(task, labelling, error, (), completion)
    events, stuck, fewest = tuple(task.events), list[str](), 0
    is_shared, known = shared_events(tables), dict[tuple[bytes, ...], Exploration]()
    for index, agent in enumerate(task.agents):
        view = _view(tables, index, is_shared)
        found = known.get(view) or _explore(tables, index, is_shared)
        if len(known) * found.arrived.size < MOST_KEPT:
            known[view] = found
        stuck += _stuck(task, tables, agent, index, events, found)
        fewest = max(fewest, found.fewest_steps)
    return Inspection(task, labelling, None, tuple(stuck), completion, fewest)


class Exploration(NamedTuple):
    """Where an agent can get to, if its teammates synchronise as it likes."""

    ends: Bools  # [states] machine states in which it can end a step
    arrived: Bools  # [states, cells] where it can be in each, at the end of a step or in a round of it
    fewest_steps: int  # to a final state; 0 if it never gets there


def _stuck(task: Task, tables: Tables, agent: str, index: int, events: Sequence[str], found: Exploration) -> list[str]:
    """List the events that an agent can never propose, even if its teammates synchronise on all others."""
    machine = task.machines[agent]
    ends, arrived, _ = found
    names, own_events = tuple(machine.states), tuple(machine.events)
    closed, gates = closed_regions(task, agent), task.gates[agent]
    said = []
    for state in np.flatnonzero(ends & ~machine.is_final).tolist():
        row = slice(machine.graph.first[state], machine.graph.first[state + 1])
        kinds = np.unique(tables.kind[index, arrived[state]])
        possible = {events[event] for event in np.unique(tables.event[index, state, kinds]).tolist() if event >= 0}
        for label in machine.graph.label[row].tolist():
            event = own_events[label]
            if event not in possible:
                where = task.events[event].get(agent, ANYWHERE)
                shut = [f"{region} is closed {gates[region]}" for region in closed[state]]
                why = f" ({', '.join(shut)})" if shut else ""
                said.append(
                    f"{agent} never proposes {event} in state {names[state]}: no cell {where} is reachable{why}."
                )
    if len(machine.final) and not (ends & machine.is_final).any() and not said:
        said.append(f"The local reward machine of {agent} can never reach a final state.")
    return said


def _idle(task: Task, agent: str, events: Sequence[str]) -> str:
    """Say that an agent is not rewarded for events that its team needs, and which event it should know instead."""
    why = f"its own local reward machine is completed without {', '.join(events)}, and the team's task is not"
    for event in [own for own in task.events if own not in task.knows[agent]][:MOST_TRIED]:
        told = task.with_knows({agent: (*task.knows[agent], event)})
        with suppress(HocketError):  # gates that it cannot tell open, or parts that would have to be listed
            if not any(completes_without(told.machines[agent], own) for own in events) and check_task(told).ok:
                return f"{agent} may not learn its part: {why}; with {event} in its local event set it would."
    return f"{agent} may not learn its part: {why}; let it know what it has to wait for."


def shared_events(tables: Tables) -> Bools:
    """Flag the events that more than one agent knows; the last flag is for no event."""
    return np.append(tables.knowers > 1, True)


def _view(tables: Tables, agent: int, is_shared: Bools) -> tuple[bytes, ...]:
    """All that decides where an agent can get to; agents whose events have other names may be alike."""
    event = tables.event[agent]
    own = (event >= 0, is_shared[event], tables.dynamics[agent], tables.kind[agent], tables.next_state[agent])
    place = (tables.world[agent], tables.states[agent], tables.initial[agent], tables.start[agent])
    return tuple(part.tobytes() for part in (*own, tables.is_final[agent], *place))


def _explore(tables: Tables, agent: int, is_shared: Bools) -> Exploration:
    """Try all moves, with synchronisation or without; each pair of machine state and cell is looked at once."""
    states, cells = int(tables.states[agent]), tables.cells
    next_cell, dynamics = tables.next_cell[tables.world[agent]], tables.dynamics[agent].astype(np.intp)
    arrived, rests = np.zeros(states * cells, np.bool_), np.zeros(states * cells, np.bool_)
    last = np.zeros(states * cells, np.intp)
    moving = np.array([int(tables.initial[agent]) * cells + int(tables.start[agent])])
    rests[moving] = True
    step = fewest = 0
    while len(moving):
        step += 1
        own, cell = np.divmod(moving, cells)
        after = next_cell[dynamics[own], cell].reshape(len(own), -1).astype(np.intp)
        reached, resting = _fresh((own[:, None] * cells + after).ravel(), arrived, last), []
        while len(reached):  # a round, in which whatever is proposed may happen
            own, cell = np.divmod(reached, cells)
            kind = tables.kind[agent, cell]
            event = tables.event[agent, own, kind]  # [here, C]
            resting.append(reached[is_shared[event].all(axis=1)])
            here, slot = np.nonzero(event >= 0)
            target = tables.next_state[agent, own[here], kind[here], slot].astype(np.intp)
            reached = _fresh(target * cells + cell[here], arrived, last)
        moving = _fresh(np.concatenate([moving[:0], *resting]), rests, last)
        if not fewest and tables.is_final[agent, moving // cells].any():
            fewest = step
    ends: Bools = np.logical_or.reduce(rests.reshape(states, cells), axis=1)
    return Exploration(ends, arrived.reshape(states, cells), fewest)


def _fresh(found: Ints, seen: Bools, last: Ints) -> Ints:
    """List once each what has not been seen, and note it as seen; `last` is room for where each was listed last.

    There are a hundred small lists for every agent, for which sorting them would take longest.
    """
    fresh = found[~seen[found]]
    place = np.arange(len(fresh))
    seen[fresh], last[fresh] = True, place
    once: Ints = fresh[last[fresh] == place]
    return once
