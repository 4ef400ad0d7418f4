"""A team's Markov chain in files for model checkers: Storm's explicit format (.drn), and PRISM's (.tra, .lab, .sta).

Labels are `init`, `done` (the task is completed), `done_A1` (A1's machine is), `A1_in_u` (A1's machine is in u), and
`event_e` (e happened in the step that led there). In .drn, the reward `steps` counts the steps to completion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from hocket.errors import SettingsError
from hocket.evaluation.elimination import Ints, Report
from hocket.evaluation.exact import check_events, explore_team
from hocket.evaluation.joint_chain import MOST_WATCHED, JointChain, TeamChain, split_by_events, transition_matrix
from hocket.files import write_many
from hocket.graphs import flags_at
from hocket.learn.policies import Policy
from hocket.task.catalogue import as_task
from hocket.task.tables import Bools, Tables
from hocket.task.task import Task

STORM, PRISM = (".drn",), (".tra", ".lab", ".sta")
PIECE = 10_000  # lines that are written in one go


@dataclass(frozen=True)
class Export:
    """The files that were written."""

    files: tuple[Path, ...]
    states: int
    transitions: int
    labels: Mapping[str, str]  # by what they mean
    never: tuple[str, ...]  # meanings that hold in no state; they have no label, as .drn cannot declare one


def export_team(
    task: Task | str | Path,
    policy: Policy,
    path: str | Path,
    *,
    greedy: bool = True,
    events: str | Iterable[str] | None = None,
    progress: Report = lambda _: None,
) -> Export:
    """Write the Markov chain of a team for model checkers: as .drn for Storm, or as .tra, .lab and .sta for PRISM.

    States tell which of `events` (all, where none are named) happened in the step that led there. Refuses what is too
    large, and policies that depend on more than cells and machine states; then nothing is written.
    """
    task, path = as_task(task), Path(path)
    if path.suffix.lower() not in STORM + PRISM:
        known = f"{', '.join(STORM)} for Storm, {', '.join(PRISM)} for PRISM"
        raise SettingsError(f"the suffix of the file to write must be one of {known}; got {path.name!r}")
    if events is None and len(task.events) > MOST_WATCHED:
        raise SettingsError(f"states can record {MOST_WATCHED} events, the task has {len(task.events):,}: name some")
    names = check_events(task, task.events if events is None else events)
    tables, joint, _ = explore_team(task, policy, greedy, names, progress)
    team = split_by_events(joint)
    matrix = transition_matrix(team)
    flags = state_flags(task, tables, joint, team, names)
    never = tuple(meaning for meaning, holds in flags.items() if not holds.any())
    meanings = [meaning for meaning in flags if meaning not in never]
    labels = dict(zip(meanings, identifiers(meanings), strict=True))
    by_label = {label: flags[meaning] for meaning, label in labels.items()}
    progress(f"{team.chain.states:,} states, {matrix.nnz:,} transitions: writing")
    costs = ~flags["done"]
    costs[: joint.lead] = False  # no step of an episode
    contents = {".drn": drn_lines(matrix, by_label, costs)}
    if path.suffix.lower() in PRISM:
        variables = state_variables(task, joint, team)
        contents = {".tra": tra_lines(matrix), ".lab": lab_lines(by_label), ".sta": sta_lines(variables)}
    files = {path.with_suffix(suffix): _in_pieces(lines) for suffix, lines in contents.items()}
    write_many(files.items())
    return Export(tuple(files), team.chain.states, int(matrix.nnz), labels, never)


def state_flags(
    task: Task, tables: Tables, joint: JointChain, team: TeamChain, events: Iterable[str]
) -> dict[str, Bools]:
    """Flag the states in which each label holds, by its meaning: [states] each."""
    done = team.joint == joint.chain.states
    flags = {"init": flags_at(0, len(done)), "done": done}
    for agent, name in enumerate(task.agents):
        state = np.append(joint.state[:, agent], 0)[team.joint]
        flags[f"done {name}"] = done | tables.is_final[agent, state]
        for number, machine_state in enumerate(task.machines[name].states):
            flags[f"{name} in {machine_state}"] = (state == number) & ~done
    return flags | {f"event {event}": team.has_just_seen(bit) for bit, event in enumerate(events)}


def state_variables(task: Task, joint: JointChain, team: TeamChain) -> dict[str, Ints]:
    """List the cells of agents in each state, and the states of their machines, by number; -1 when all is done."""
    nowhere = np.full((1, joint.cell.shape[1]), -1)
    cell, state = (np.concatenate([part, nowhere], dtype=np.int64)[team.joint] for part in (joint.cell, joint.state))
    row, column = np.where(cell < 0, -1, np.divmod(cell, task.grid.columns))
    columns: dict[str, Ints] = {}
    for agent, name in enumerate(task.agents):
        columns |= {f"{name} row": row[:, agent], f"{name} column": column[:, agent], f"{name} state": state[:, agent]}
    return dict(zip(identifiers(columns), columns.values(), strict=True))


def identifiers(names: Iterable[str]) -> list[str]:
    """Turn names into different ones of letters, digits and underscores, as model checkers require.

    >>> identifiers(["event Y", "event_Y", "1 done"])
    ['event_Y', 'event_Y_2', '_1_done']
    """
    taken: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"^(?=\d)|\W", "_", name, flags=re.ASCII)
        number, choice = 1, plain
        while choice in taken:
            number += 1
            choice = f"{plain}_{number}"
        taken[choice] = None
    return list(taken)


# Formats.


def drn_lines(matrix: csr_array, labels: Mapping[str, Bools], costs: Bools) -> Iterator[str]:
    """Write a chain in Storm's explicit format; a step from the states that are flagged in `costs` costs 1."""
    count = matrix.shape[0]
    yield f"@type: DTMC\n@parameters\n\n@reward_models\nsteps\n@nr_states\n{count}\n@nr_choices\n{count}\n@model\n"
    names, table = list(labels), np.stack([*labels.values()], axis=1)
    for state in range(count):
        listed = "".join(f" {names[index]}" for index in np.flatnonzero(table[state]))
        yield f"state {state} [{int(costs[state])}]{listed}\n\taction 0 [0]\n"
        yield from (f"\t\t{end} : {probability!r}\n" for end, probability in _row(matrix, state))


def tra_lines(matrix: csr_array) -> Iterator[str]:
    """Write transitions as PRISM reads them."""
    yield f"{matrix.shape[0]} {matrix.nnz}\n"
    for state in range(matrix.shape[0]):
        yield from (f"{state} {end} {probability!r}\n" for end, probability in _row(matrix, state))


def lab_lines(labels: Mapping[str, Bools]) -> Iterator[str]:
    """Write labels as PRISM reads them."""
    names = ["init", "deadlock", *(name for name in labels if name != "init")]
    yield " ".join(f'{number}="{name}"' for number, name in enumerate(names)) + "\n"
    count = len(labels["init"])
    table = np.stack([labels.get(name, np.zeros(count, np.bool_)) for name in names], axis=1)
    for state in np.flatnonzero(table.any(axis=1)).tolist():
        yield f"{state}: {' '.join(map(str, np.flatnonzero(table[state])))}\n"


def sta_lines(variables: Mapping[str, Ints]) -> Iterator[str]:
    """Write the values of variables in each state as PRISM reads them."""
    yield f"({','.join(variables)})\n"
    for state, values in enumerate(zip(*(column.tolist() for column in variables.values()), strict=True)):
        yield f"{state}:({','.join(map(str, values))})\n"


def _in_pieces(lines: Iterator[str]) -> Iterator[bytes]:
    while piece := "".join(islice(lines, PIECE)):
        yield piece.encode()


def _row(matrix: csr_array, state: int) -> Iterator[tuple[int, float]]:
    part = slice(*matrix.indptr[state : state + 2])
    return zip(matrix.indices[part].tolist(), matrix.data[part].tolist(), strict=True)
