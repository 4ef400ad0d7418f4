"""What can be checked of a task before training: decomposability, completion, labelling, gates, and reachability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hocket.machine.completion import Completion, find_completion, leaving_warnings
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
    found = [_explore(tables, index) for index in range(len(task.agents))]
    stuck = [said for index, own in enumerate(found) for said in _stuck(task, tables, index, own)]
    return Inspection(task, labelling, None, tuple(stuck), completion, max(own.fewest_steps for own in found))


class Exploration(NamedTuple):
    """Where an agent can get to, if its teammates synchronise as it likes."""

    ends: Bools  # [states] machine states in which it can end a step
    arrived: Bools  # [states, cells] where it can be in each, at the end of a step or in a round of it
    fewest_steps: int  # to a final state; 0 if it never gets there


def _stuck(task: Task, tables: Tables, index: int, found: Exploration) -> list[str]:
    """List the events that an agent can never propose, even if its teammates synchronise on all others."""
    agent = list(task.agents)[index]
    machine = task.machines[agent]
    ends, arrived, _ = found
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


def _explore(tables: Tables, agent: int) -> Exploration:
    """Try all moves, with synchronisation or without."""
    states = int(tables.states[agent])
    can_wait = np.append(tables.is_shared[agent], True)  # the last one is for no event
    arrived = np.zeros((states, tables.cells), np.bool_)
    rests = np.zeros_like(arrived)
    rests[tables.initial[agent], tables.start[agent]] = True
    moving = rests.copy()
    is_final = tables.is_final[agent, :states]
    step = fewest = 0
    while moving.any():
        step += 1
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
        if moving[is_final].any() and not rests[is_final].any():
            fewest = step
        rests |= moving
    return Exploration(np.logical_or.reduce(rests, axis=1), arrived, fewest)
