"""What can be checked of a task before training: decomposability, completion, labelling, gates, and reachability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.machine.completion import Completion, find_completion, leaving_warnings
from hocket.machine.decomposition import Decomposition
from hocket.task.conditions import ANYWHERE
from hocket.task.gates import closed_regions
from hocket.task.labelling import Verdict, check_labelling
from hocket.task.settling import EndlessError, order_notes, repeat_notes
from hocket.task.tables import Bools, Tables, compile_task
from hocket.task.task import Task

Ints = NDArray[np.intp]


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
        return (*self.completion.warnings, *leaving_warnings(self.task.machines))

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
    for index, agent in enumerate(task.agents):
        found = _explore(tables, index)
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


def _explore(tables: Tables, agent: int) -> Exploration:
    """Try all moves, with synchronisation or without; each pair of machine state and cell is looked at once."""
    states, cells = int(tables.states[agent]), tables.cells
    next_cell, dynamics = tables.next_cell[tables.world[agent]], tables.dynamics[agent].astype(np.intp)
    is_shared = np.append(tables.knowers > 1, True)  # the last one is for no event
    arrived, rests = np.zeros(states * cells, np.bool_), np.zeros(states * cells, np.bool_)
    moving = np.array([int(tables.initial[agent]) * cells + int(tables.start[agent])])
    rests[moving] = True
    step = fewest = 0
    while len(moving):
        step += 1
        own, cell = np.divmod(moving, cells)
        after = next_cell[dynamics[own], cell].reshape(len(own), -1).astype(np.intp)
        reached, resting = _fresh((own[:, None] * cells + after).ravel(), arrived), []
        while len(reached):  # a round, in which whatever is proposed may happen
            own, cell = np.divmod(reached, cells)
            kind = tables.kind[agent, cell]
            event = tables.event[agent, own, kind]  # [here, C]
            resting.append(reached[is_shared[event].all(axis=1)])
            here, slot = np.nonzero(event >= 0)
            target = tables.next_state[agent, own[here], kind[here], slot].astype(np.intp)
            reached = _fresh(target * cells + cell[here], arrived)
        moving = _fresh(np.concatenate([moving[:0], *resting]), rests)
        if not fewest and tables.is_final[agent, moving // cells].any():
            fewest = step
    ends: Bools = np.logical_or.reduce(rests.reshape(states, cells), axis=1)
    return Exploration(ends, arrived.reshape(states, cells), fewest)


def _fresh(found: Ints, seen: Bools) -> Ints:
    """List once each what has not been seen, and note it as seen."""
    fresh = np.unique(found[~seen[found]])
    seen[fresh] = True
    return fresh
