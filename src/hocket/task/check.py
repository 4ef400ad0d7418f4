"""What can be checked of a task before training: decomposability, labelling, gates, and reachability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.machine.decomposition import Decomposition
from hocket.task.conditions import ANYWHERE
from hocket.task.gates import closed_regions
from hocket.task.labelling import Verdict, check_labelling
from hocket.task.tables import Bools, Tables, compile_task
from hocket.task.task import Task


@dataclass(frozen=True)
class Inspection:
    """What is right and wrong with a task."""

    task: Task
    labelling: Verdict
    unreachable: tuple[str, ...]  # what agents cannot do however they move, one sentence each

    @property
    def decomposition(self) -> Decomposition:
        return self.task.decomposition

    @property
    def ok(self) -> bool:
        """Whether the task is decomposable, its labelling is sound, and every agent can complete its sub-task."""
        return self.decomposition.ok and self.labelling.ok and not self.unreachable

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What has to be repaired, one sentence each."""
        said = list(self.decomposition.problems)
        if not self.labelling.ok and self.labelling.condition != 3:
            said.append(f"Labelling condition {self.labelling.condition} fails: {self.labelling.witness}.")
        return (*said, *self.unreachable)


def check_task(task: Task) -> Inspection:
    """Check a task: decomposability, labelling, gates, and whether agents can reach where they must propose events."""
    labelling = check_labelling(task)
    if not labelling.ok or not task.decomposition.ok:
        return Inspection(task, labelling, ())  # the rest builds on these
    tables = compile_task(task)
    stuck = [said for index in range(len(task.agents)) for said in _stuck(task, tables, index)]
    return Inspection(task, labelling, tuple(stuck))


def _stuck(task: Task, tables: Tables, index: int) -> list[str]:
    """List the events that an agent can never propose, even if its teammates synchronise on all others."""
    agent = list(task.agents)[index]
    machine = task.machines[agent]
    entered, arrived = _explore(tables, index)
    names, events = tuple(machine.states), tuple(task.events)
    closed, gates = closed_regions(task, agent), task.agents[agent].gates
    said = []
    for state in np.flatnonzero(entered & ~machine.is_final).tolist():
        row = slice(machine.graph.first[state], machine.graph.first[state + 1])
        possible = {
            events[event] for event in np.unique(tables.event[index, state, arrived[state]]).tolist() if event >= 0
        }
        for label in machine.graph.label[row].tolist():
            event = tuple(machine.events)[label]
            if event not in possible:
                where = task.events[event].get(agent, ANYWHERE)
                shut = [f"{region} is closed until {gates[region]}" for region in closed[state]]
                why = f" ({', '.join(shut)})" if shut else ""
                said.append(
                    f"{agent} never proposes {event} in state {names[state]}: no cell {where} is reachable{why}."
                )
    if len(machine.final) and not (entered & machine.is_final).any() and not said:
        said.append(f"The local reward machine of {agent} can never reach a final state.")
    return said


def _explore(tables: Tables, index: int) -> tuple[Bools, Bools]:
    """Try all moves, with synchronisation or without: the machine states that an agent can enter, and in which
    cells it can arrive while in each of them: [machine states], [machine states, cells].
    """
    states, cells = int(tables.states[index]), tables.event.shape[2]
    can_wait = np.append(tables.is_shared[index] & tables.has_partner[index], False)  # the last one is for no event
    arrived = np.zeros((states, cells), np.bool_)
    been = np.zeros((states, cells), np.bool_)
    been[tables.initial[index], tables.start[index]] = True
    frontier = been.copy()
    while frontier.any():
        fresh = np.zeros((states, cells), np.bool_)
        for state in np.flatnonzero(frontier.any(axis=1)).tolist():
            if tables.is_final[index, state]:
                continue
            moved = np.zeros(cells, np.bool_)
            moved[tables.next_cell[index, tables.dynamics[index, state], frontier[state]].ravel()] = True
            arrived[state] |= moved
            reached = np.flatnonzero(moved)
            event = tables.event[index, state, reached]
            fresh[tables.next_state[index, state, reached], reached] = True
            fresh[state, reached[(event < 0) | can_wait[event]]] = True
        frontier = fresh & ~been
        been |= frontier
    return np.logical_or.reduce(been, axis=1), arrived
