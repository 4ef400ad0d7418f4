"""Delays in a task: what its team machine says, and its gates."""

from __future__ import annotations

from pathlib import Path

from hocket.machine.decomposition import Control, Decomposition
from hocket.machine.delays import EFFORT, DelayCheck, find_delays
from hocket.task.catalogue import as_task
from hocket.task.conditions import write_conditions
from hocket.task.gates import closed_regions
from hocket.task.task import Task
from hocket.task.verdict import Part, Verdict


def check_delays(
    subject: Task | Decomposition | str | Path, deciders: Control | None = None, effort: int = EFFORT
) -> DelayCheck:
    """Check whether events may be heard late by agents that know them and do not decide on them.

    Takes a task, its name or path, or a decomposition. Unless `deciders` (event -> agents) says otherwise, those who
    control an event decide on it together; an event that nobody controls is decided by all who know it. The answer has
    `tolerant`, a `counterexample`, and `agree`: the fewest pairs (agent, event) to add to the deciders.

    >>> check_delays("buttons").tolerant
    True
    >>> check_delays("drawbridge").agree
    (('A2', 'up'), ('A1', 'lift'))
    """
    if isinstance(subject, Decomposition):
        return find_delays(subject, deciders, effort=effort)
    task = as_task(subject)
    if not task.decomposition.ok:
        return find_delays(task.decomposition, deciders)  # which says what is wrong
    gated = [agent for agent, gates in task.gates.items() if gates]
    closed = {agent: [frozenset(regions) for regions in closed_regions(task, agent)] for agent in gated}
    sentences = {event: write_conditions(conditions) for event, conditions in task.events.items() if conditions}
    return find_delays(task.decomposition, deciders, closed, sentences, effort)


def with_delays(verdict: Verdict, *, is_required: bool = True, effort: int = EFFORT) -> Verdict:
    """Add to a verdict whether events may be heard late; nothing where the task is not decomposable.

    Where it is not required, the answer is one sentence, and never makes the verdict a bad one.
    """
    if verdict.decomposition is None or not verdict.decomposition.ok:
        return verdict.with_part(Part("delays", ok=True))
    check = check_delays(verdict.task or verdict.decomposition, effort=effort)
    answer, *problems = check.lines
    if not is_required:
        short = answer if check.tolerant else f"{answer} {problems[-1]}"
        return verdict.with_part(Part("delays", ok=True, answer=short, document=check.as_json()))
    return verdict.with_part(Part("delays", check.tolerant, answer, tuple(problems), document=check.as_json()))
