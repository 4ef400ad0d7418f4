"""All cheapest repairs of local event sets, a button each."""

from __future__ import annotations

from collections.abc import Iterator

from hocket.errors import HocketError, InfeasibleError
from hocket.machine.assignment import EFFORT_FOR_A_HINT, Assignment, repair
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Control, Knows, decompose, enumerate_states
from hocket.machine.formats.schema import Design
from hocket.machine.reward_machine import RewardMachine
from hocket.studio.pictures import Data
from hocket.task.repair import repair_task
from hocket.task.task import Task
from hocket.task.verdict import check_task

MOST_REPAIRS, MOST_SEARCHES = 6, 24

Pairs = frozenset[tuple[str, str]]  # (agent, event)


def cheapest_repairs(subject: Task | Design) -> Data:
    """Find the cheapest repairs; of a task, those under which it passes every check."""
    fixes: list[Assignment] = []
    if isinstance(subject, Task):
        if not subject.decomposition.ok:  # or else it is the team that stalls
            fixes = [fix for fix in _cheapest(subject.machine, subject.knows, subject.needs) if _passes(subject, fix)]
        fixes = fixes or [repair_task(subject).added]
    elif subject.knows and not decompose(subject.machine, subject.knows, subject.control).ok:
        fixes = list(_cheapest(subject.machine, subject.knows, subject.control))
    return {
        "repairs": [
            {"add": {agent: list(events) for agent, events in fix.items()}, "cost": fix.cost, "exact": fix.exact}
            for fix in fixes
            if fix
        ],
        "said": "",
    }


def _passes(task: Task, fix: Assignment) -> bool:
    try:
        known = {agent: (*task.knows[agent], *events) for agent, events in fix.items()}
        return check_task(task.with_knows(known), play=False).ok
    except HocketError:
        return False


def _cheapest(machine: RewardMachine | Composition, knows: Knows, needs: Control) -> Iterator[Assignment]:
    """List the cheapest repairs: another one lacks some pair of each that is known, so pairs are forbidden in turn."""
    if isinstance(machine, Composition) and not machine.is_independent:
        machine = enumerate_states(machine)
    seen: set[Pairs] = set()
    waiting: list[Pairs] = [frozenset()]
    tried: set[Pairs] = set()
    least: float | None = None
    while waiting and len(seen) < MOST_REPAIRS and len(tried) < MOST_SEARCHES:
        forbidden = waiting.pop(0)
        if forbidden in tried:
            continue
        tried.add(forbidden)
        try:
            fix = repair(machine, knows, needs, forbidden=forbidden, effort=EFFORT_FOR_A_HINT)
        except InfeasibleError:
            if not forbidden:
                raise
            continue
        least = fix.cost if least is None else least
        if fix.cost > least:
            continue
        pairs = frozenset((agent, event) for agent, events in fix.items() for event in events)
        if pairs not in seen:
            seen.add(pairs)
            yield fix
        waiting += [forbidden | {pair} for pair in sorted(pairs)]
