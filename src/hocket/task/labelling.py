"""Team and local labelling functions, synchronisation, and the conditions on labelling functions.

The paper's supplement asks that (1) at most one event happens to an agent in a step, (2) an agent's own state tells it
which event that could be, and (3) an event that does not happen is ruled out by the own state of some agent that knows
it. As a step settles in rounds (see `settling`), each of which counts as a step in which nobody moves, every task meets
(1) and (2). (3) follows from decomposability and from every event being known by those that control it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hocket.task.task import Task


@dataclass(frozen=True)
class LabellingCheck:
    """Whether labelling functions are sound; if not, which condition fails and a witness in words."""

    ok: bool
    condition: int | None = None
    witness: str | None = None

    def as_json(self) -> dict[str, object]:
        """Give the answer as a JSON document."""
        return {"ok": self.ok, "condition": self.condition, "witness": self.witness}


def team_label(
    task: Task, cells: Mapping[str, int], state: object, before: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """List the events that happen after a step: defined in the team machine's state, with all conditions met."""
    return tuple(
        event
        for event, conditions in task.events.items()
        if task.machine.step(state, event) is not None  # type: ignore[arg-type]
        and all(task.holds(agent, event, cells[agent], (before or {}).get(agent)) for agent in conditions)
    )


def synchronize(knowers: Mapping[str, Collection[str]], proposals: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """List the events that happen: those that all who know them propose.

    `knowers` has the agents that know each event, `proposals` the events that each agent proposes.

    >>> synchronize({"meet": ("A1", "A2"), "ring": ("A1",)}, {"A1": ("meet",), "A2": ()})
    ()
    >>> synchronize({"meet": ("A1", "A2"), "ring": ("A1",)}, {"A1": ("meet",), "A2": ("meet",)})
    ('meet',)
    """
    proposed = {event for events in proposals.values() for event in events}
    return tuple(
        event
        for event, agents in knowers.items()
        if event in proposed and all(event in proposals[agent] for agent in agents)
    )


def check_labelling(task: Task) -> LabellingCheck:
    """Check the third condition, and name a witness where it fails; a step that settles meets the other two."""
    for event, controllers in task.controllers.items():
        for agent in controllers:
            if event not in task.knows[agent]:
                said = f"{agent} controls {event}, which is not in its local event set"
                return LabellingCheck(False, 3, said)
    if (
        not task.is_single_agent
        and not task.decomposition.ok
        and (example := task.decomposition.counterexample) is not None
    ):
        what = "completion" if example.event is None else example.event
        trace = ", ".join(example.trace) or "the empty trace"
        said = f"after {trace}, no agent rules out {what}: the task is not decomposable"
        return LabellingCheck(False, 3, said)
    return LabellingCheck(True)
