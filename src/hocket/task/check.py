"""What can be checked of a task before training: decomposability, labelling, gates, and reachability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.machine.decomposition import Decomposition
from hocket.task.conditions import ANYWHERE
from hocket.task.gates import closed_regions
from hocket.task.labelling import Verdict, check_labelling
from hocket.task.settling import EndlessError, order_notes, repeat_notes
from hocket.task.tables import Bools, Tables, compile_task
from hocket.task.task import Task


@dataclass(frozen=True)
class Inspection:
    """What is right and wrong with a task."""

    task: Task
    labelling: Verdict
    endless: EndlessError | None  # a step that would never settle
    unreachable: tuple[str, ...]  # what agents cannot do however they move, one sentence each

    @property
    def decomposition(self) -> Decomposition:
        return self.task.decomposition

    @property
    def ok(self) -> bool:
        """Whether the task is decomposable, its labelling is sound, and every agent can complete its sub-task."""
        return self.decomposition.ok and self.labelling.ok and self.endless is None and not self.unreachable

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a designer should know of, one sentence each: where the order of events matters, and what repeats."""
        return (*order_notes(self.task), *repeat_notes(self.task)) if self.ok else ()

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each."""
        said = list(self.decomposition.problems)
        if self.endless is not None:
            said.append(f"{str(self.endless)[:1].upper()}{str(self.endless)[1:]}.")
        return (*said, *self.unreachable)


def check_task(task: Task) -> Inspection:
    """Check a task: decomposability, labelling, gates, and whether agents can reach where they must propose events."""
    labelling = check_labelling(task)
    if not labelling.ok or not task.decomposition.ok:
        return Inspection(task, labelling, None, ())  # the rest builds on these
    try:
        tables = compile_task(task)
    except EndlessError as error:
        return Inspection(task, labelling, error, ())
    stuck = [said for index in range(len(task.agents)) for said in _stuck(task, tables, index)]
    return Inspection(task, labelling, None, tuple(stuck))


def _stuck(task: Task, tables: Tables, index: int) -> list[str]:
    """List the events that an agent can never propose, even if its teammates synchronise on all others."""
    agent = list(task.agents)[index]
    machine = task.machines[agent]
    ends, arrived = _explore(tables, index)
    names, events = tuple(machine.states), tuple(task.events)
    closed, gates = closed_regions(task, agent), task.gates[agent]
    said = []
    for state in np.flatnonzero(ends & ~machine.is_final).tolist():
        row = slice(machine.graph.first[state], machine.graph.first[state + 1])
        kinds = np.unique(tables.kind[index, arrived[state]])
        possible = {events[event] for event in np.unique(tables.event[index, state, kinds]).tolist() if event >= 0}
        for label in machine.graph.label[row].tolist():
            event = tuple(machine.events)[label]
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


def _explore(tables: Tables, agent: int) -> tuple[Bools, Bools]:
    """Try all moves, with synchronisation or without: the machine states in which an agent can end a step, and in
    which cells it can be while in each state, at the end of a step or in a round of it: [states], [states, cells].
    """
    states = int(tables.states[agent])
    can_wait = np.append(tables.is_shared[agent], True)  # the last one is for no event
    arrived = np.zeros((states, tables.cells), np.bool_)
    rests = np.zeros_like(arrived)
    rests[tables.initial[agent], tables.start[agent]] = True
    moving = rests.copy()
    while moving.any():
        reached, resting = np.zeros_like(arrived), np.zeros_like(arrived)
        for state in np.flatnonzero(moving.any(axis=1)).tolist():
            ends = tables.next_cell[agent, tables.dynamics[agent, state], moving[state]]
            reached[state, ends.ravel()] = True
        while (reached := reached & ~arrived).any():  # a round, in which whatever is proposed may happen
            arrived |= reached
            own, cell = np.nonzero(reached)
            kind = tables.kind[agent, cell]
            event = tables.event[agent, own, kind]  # [here, C]
            stays = can_wait[event].all(axis=1)
            resting[own[stays], cell[stays]] = True
            here, slot = np.nonzero(event >= 0)
            reached[tables.next_state[agent, own[here], kind[here], slot], cell[here]] = True
        moving = resting & ~rests
        rests |= moving
    return np.logical_or.reduce(rests, axis=1), arrived
