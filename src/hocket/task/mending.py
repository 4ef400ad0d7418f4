"""Repairing a task: the events to add to local event sets so that `check_task` has nothing against it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hocket.errors import HocketError, InfeasibleError, TaskError
from hocket.machine.assignment import DEFAULT_COST, EFFORT, Assignment, Costs, repair
from hocket.machine.composition import Composition
from hocket.machine.decomposition import enumerate_states
from hocket.task.check import check_task
from hocket.task.conditions import ANYWHERE
from hocket.task.gates import closed_regions
from hocket.task.task import Task

MOST_TRIED = 60  # changes that are tried before one is proposed


@dataclass(frozen=True)
class Mended:
    """A task that passes every check, and what was added to its local event sets."""

    task: Task
    added: Assignment


def repair_task(
    task: Task, cost: Costs | None = None, forbidden: Iterable[tuple[str, str]] = (), effort: int = EFFORT
) -> Mended:
    """Find events to add to local event sets so that a task passes every check: control, gates, labelling and all.

    They are the cheapest under which it is decomposable, and where gates need more, no event more than they need. Where
    no events help, the error says what stands in the way, and proposes one change.
    """
    never = {*forbidden}
    fix = _cheapest(task, cost, never, effort)
    mended = _adding(task, fix)
    more: dict[str, list[str]] = {agent: [*own] for agent, own in fix.items()}
    extra = 0.0
    for agent in task.agents:
        for event in _told_by(mended, agent, cost or {}, never):
            more.setdefault(agent, []).append(event)
            extra += (cost or {}).get((agent, event), DEFAULT_COST)
    whole = Assignment(more, fix.cost + extra, fix.exact and not extra, fix.bound)
    mended = _adding(task, whole)
    inspection = check_task(mended)
    if not inspection.ok:
        said = inspection.problems[0].rstrip(".") if inspection.problems else str(inspection.labelling.witness)
        raise InfeasibleError(f"no events in local event sets help: {said}; {propose_change(mended)}")
    return Mended(mended, whole)


def _cheapest(task: Task, cost: Costs | None, never: Collection[tuple[str, str]], effort: int) -> Assignment:
    """Find the cheapest events under which a task is decomposable; a team of any size may need none."""
    machine = task.machine
    if isinstance(machine, Composition) and not machine.is_independent:
        as_parts = all(task.knows[agent] == part.events for agent, part in machine.parts.items())
        if as_parts and all(event in task.knows[agent] for event, own in task.needs.items() for agent in own):
            return Assignment({}, 0.0, True, 0.0)
        machine = enumerate_states(machine)
    return repair(machine, task.knows, task.needs, cost, never, effort)


def _adding(task: Task, events: Assignment) -> Task:
    if not events:
        return task
    return task.with_knows({agent: (*task.knows[agent], *own) for agent, own in events.items()})


def _told_by(task: Task, agent: str, cost: Costs, never: Collection[tuple[str, str]]) -> list[str]:
    """List the events that an agent has to know so that its state tells which gates are open; dear ones are spared."""
    problem = _gate_problem(task, agent, ())
    if problem is None:
        return []
    more = [event for event in task.events if event not in task.knows[agent] and (agent, event) not in never]
    problem = _gate_problem(task, agent, more)
    if problem is not None:
        advice = "let the traces lead to different states, or give the gate other events"
        raise InfeasibleError(f"no events in the local event set of {agent} help: {problem}; {advice}")
    for event in sorted(more, key=lambda event: -cost.get((agent, event), DEFAULT_COST)):
        fewer = [own for own in more if own != event]
        if _gate_problem(task, agent, fewer) is None:
            more = fewer
    return more


def _gate_problem(task: Task, agent: str, more: Sequence[str]) -> str | None:
    """Say why an agent that knows some more events cannot tell which of its gates are open."""
    try:
        closed_regions(task.with_knows({agent: (*task.knows[agent], *more)}) if more else task, agent)
    except TaskError as error:
        return str(error)
    return None


def propose_change(task: Task) -> str:
    """Propose one change that makes a task pass its checks, found by trying: a gate less, or a wider condition."""
    for tried, (said, changed) in enumerate(_changes(task)):
        if tried == MOST_TRIED:
            break
        try:
            if check_task(changed).ok:
                return said
        except HocketError:
            continue
    return "no single gate or condition is to blame: see that every place can be reached, and that events lead on"


def _changes(task: Task) -> Iterator[tuple[str, Task]]:
    for name, agent in task.agents.items():
        for region, gate in task.gates[name].items():
            fewer = {own: other for own, other in agent.gates.items() if own != region}
            changed = replace(task, agents={**task.agents, name: replace(agent, gates=fewer)})
            yield (
                f"the gate at {region} stands in the way, closed to {name} {gate}: open it with an earlier event",
                changed,
            )
    for event, conditions in task.events.items():
        for name, condition in conditions.items():
            wider = {**task.events, event: {**conditions, name: ANYWHERE}}
            said = (
                f"the condition of {event} stands in the way, {name} {condition}: choose a place that {name} can reach"
            )
            yield said, replace(task, events=wider)
