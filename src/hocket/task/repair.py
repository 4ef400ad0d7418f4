"""Repairing a task: events to add to local event sets so that the task passes all checks."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from hocket.errors import HocketError, InfeasibleError, TaskError
from hocket.machine.assignment import DEFAULT_COST, EFFORT, Assignment, Costs, repair
from hocket.machine.composition import Composition
from hocket.machine.decomposition import enumerate_states
from hocket.task.catalogue import as_task
from hocket.task.conditions import ANYWHERE
from hocket.task.task import Task
from hocket.task.teamwork.check import play_planned
from hocket.task.verdict import AGENT_STEPS_PER_TRY, check_task

MOST_TRIED = 60  # changes that are tried before one is proposed

Pairs = list[tuple[str, str]]  # of an agent and an event


@dataclass(frozen=True)
class TaskRepair:
    """A task that passes all checks, and the events that were added to its local event sets."""

    task: Task
    added: Assignment
    stall: str = ""  # where the team of planned policies still stalls, if no events were found that prevent it


def repair_task(
    task: Task | str | Path, cost: Costs | None = None, forbidden: Iterable[tuple[str, str]] = (), effort: int = EFFORT
) -> TaskRepair:
    """Find events to add to local event sets so that a task passes all checks.

    They are the cheapest events with which it is decomposable and, where needed, more events, so that each agent's
    state tells which gates are open, every agent can be rewarded, and a team of planned policies completes the task.
    None of these can be left out; a single pair that is cheaper than all of them is found by trying. If no events help,
    the error names the cause and proposes one change.
    """
    task, cost, never = as_task(task), cost or {}, {*forbidden}
    decomposing = _cheapest(task, cost, never, effort)
    pairs = [(agent, event) for agent, events in decomposing.items() for event in events]
    repaired = _add(task, pairs)
    more = [(agent, event) for agent in task.agents for event in _events_for_gates(repaired, agent, cost, never)]
    repaired = _add(repaired, more)
    verdict = check_task(repaired, play=False)
    if not verdict.ok:
        problem = verdict.problems[0].rstrip(".")
        raise InfeasibleError(f"no events in local event sets help: {problem}; {_propose_change(repaired)}")
    for_team, stall = _events_for_team(repaired, cost, never)
    more += for_team
    if not more:
        return TaskRepair(repaired, decomposing, stall)
    pairs, exact = (pairs + more, False) if stall else _compare(task, pairs + more, cost, never)
    added: dict[str, list[str]] = {}
    for agent, event in pairs:
        added.setdefault(agent, []).append(event)
    price = _price(pairs, cost)
    return TaskRepair(_add(task, pairs), Assignment(added, price, exact, price if exact else decomposing.bound), stall)


def _compare(task: Task, pairs: Pairs, cost: Costs, never: Collection[tuple[str, str]]) -> tuple[Pairs, bool]:
    """Try single pairs that are cheaper than a repair; return the cheapest repair, and whether it is proved cheapest,
    as two pairs or more cost no less than the two cheapest."""
    others = _list_pairs(task, cost, never)
    for pair in others[:MOST_TRIED]:
        if _price([pair], cost) >= _price(pairs, cost):
            break
        if _completes(task, [pair]):
            pairs = [pair]
    return pairs, len(others) <= MOST_TRIED and _price(pairs, cost) <= _price(others[:2], cost)


def _price(pairs: Pairs, cost: Costs) -> float:
    return math.fsum(cost.get(pair, DEFAULT_COST) for pair in pairs)


def _list_pairs(task: Task, cost: Costs, never: Collection[tuple[str, str]]) -> Pairs:
    """List the pairs of an agent and an event that may be added, the cheapest first."""
    pairs = ((agent, event) for agent in task.agents for event in task.events if event not in task.knows[agent])
    return sorted((pair for pair in pairs if pair not in never), key=lambda pair: cost.get(pair, DEFAULT_COST))


def _cheapest(task: Task, cost: Costs | None, never: Collection[tuple[str, str]], effort: int) -> Assignment:
    """Find the cheapest events with which a task is decomposable; without listing the states of a large team."""
    machine = task.machine
    if isinstance(machine, Composition) and not machine.is_independent:
        if machine.is_split_by(task.knows) and all({*agents} <= {*task.knowers[e]} for e, agents in task.needs.items()):
            return Assignment({}, 0.0, True, 0.0)
        machine = enumerate_states(machine)
    return repair(machine, task.knows, task.needs, cost, never, effort)


def _add(task: Task, pairs: Iterable[tuple[str, str]]) -> Task:
    """Add events to local event sets: pairs of an agent and an event."""
    knows: dict[str, list[str]] = {}
    for agent, event in pairs:
        knows.setdefault(agent, [*task.knows[agent]]).append(event)
    return task.with_knows(knows) if knows else task


def _events_for_team(task: Task, cost: Costs, never: Collection[tuple[str, str]]) -> tuple[Pairs, str]:
    """List pairs to add so that the team completes the task: the cheapest single one, or several that all are needed;
    if none help, also describe where the team stalls."""
    team = play_planned(task)
    if team.passes:
        return [], ""
    pairs = _list_pairs(task, cost, never)
    if len(pairs) > MOST_TRIED or not _completes(task, pairs):
        reasons = (state.describe(agent) for agent, state in team.unrewarded_states.items())
        return [], str(team.stall or "as " + "; ".join(reasons))
    for pair in pairs:
        if _completes(task, [pair]):
            return [pair], ""
    for pair in reversed(pairs):
        fewer = [other for other in pairs if other != pair]
        pairs = fewer if _completes(task, fewer) else pairs
    return pairs, ""


def _completes(task: Task, pairs: Pairs) -> bool:
    """Return whether the team completes its task with more events in local event sets."""
    try:
        changed = _add(task, pairs)
        return check_task(changed, play=False).ok and play_planned(changed, most_work=AGENT_STEPS_PER_TRY).passes
    except HocketError:
        return False


def _events_for_gates(task: Task, agent: str, cost: Costs, never: Collection[tuple[str, str]]) -> list[str]:
    """List the events that an agent has to know so that its state tells which gates are open; none if it does."""

    def problem(events: Sequence[str]) -> str | None:
        try:
            _add(task, [(agent, event) for event in events]).closed_regions(agent)
        except TaskError as error:
            return str(error)
        return None

    if problem(()) is None:
        return []
    events = [event for event in task.events if event not in task.knows[agent] and (agent, event) not in never]
    if (reason := problem(events)) is not None:
        advice = "let the traces lead to different states, or give the gate other events"
        raise InfeasibleError(f"no events in the local event set of {agent} help: {reason}; {advice}")
    for event in sorted(events, key=lambda event: -cost.get((agent, event), DEFAULT_COST)):
        fewer = [other for other in events if other != event]
        events = fewer if problem(fewer) is None else events
    return events


def _propose_change(task: Task) -> str:
    """Propose one change that makes a task pass its checks, found by trying: a gate less, or no condition."""
    for advice, changed in islice(_changes(task), MOST_TRIED):
        with suppress(HocketError):
            if check_task(changed, play=False).ok:
                return advice
    return "no change of one gate or condition is enough: check that all places are reachable and that events lead on"


def _changes(task: Task) -> Iterator[tuple[str, Task]]:
    for name, agent in task.agents.items():
        for region, gate in task.gates[name].items():
            fewer = {other: gate for other, gate in agent.gates.items() if other != region}
            advice = f"the cause is the gate at {region}, closed to {name} {gate}: open it with an earlier event"
            yield advice, replace(task, agents={**task.agents, name: replace(agent, gates=fewer)})
    for event, conditions in task.events.items():
        for name, condition in conditions.items():
            advice = f"the cause is the condition of {event}, {name} {condition}: choose a place that {name} can reach"
            yield advice, replace(task, events={**task.events, event: {**conditions, name: ANYWHERE}})
