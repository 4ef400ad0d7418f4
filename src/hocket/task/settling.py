"""How a step settles: after all agents have moved, events happen in rounds until no more are possible.

An event is possible if every agent that knows it proposes it. In a round, possible events happen in the order of the
task, at most one for each agent that knows them. So the events of a round commute, and a round is a step of the paper's
model in which all agents stay where they are. An event with an edge in its conditions (an agent enters, leaves or
stays) happens at most once in a step.

Also the labelling functions of the team and of agents. The paper's supplement requires that (1) at most one event
happens to an agent in a step, (2) an agent's state tells it which event that could be, and (3) an event that does not
happen is ruled out by the state of some agent that knows it. As each round counts as a step, every task meets (1) and
(2). (3) follows from decomposability and from every event being known by the agents that control it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hocket.errors import TaskError
from hocket.task.task import Task

Cells = Mapping[str, int]  # of each agent


class Settled(NamedTuple):
    """The events of a step, round by round, and the states of the agents' machines after it."""

    rounds: tuple[tuple[str, ...], ...]
    states: Mapping[str, str]

    @property
    def events(self) -> tuple[str, ...]:
        """All events, in the order in which they happened."""
        return tuple(event for events in self.rounds for event in events)


def propose(
    task: Task, agent: str, cell: int, state: str, before: int | None = None, spent: Collection[str] = ()
) -> tuple[str, ...]:
    """List the events that an agent proposes: defined in its state, its condition met, and no edge that is spent."""
    defined = task.machines[agent].moves.get(state, ())
    return tuple(
        event
        for event in task.knows[agent]
        if event in defined and event not in spent and task.holds(agent, event, cell, before)
    )


def choose_events(task: Task, proposals: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """List the events of a round: proposed by all agents that know them, at most one for each agent."""
    return tuple(one_for_each(synchronize(task.knowers, proposals), task.knowers))


def one_for_each(events: Iterable[str], knowers: Mapping[str, Collection[str]]) -> list[str]:
    """Choose events in their order, such that no agent knows two of them."""
    busy, chosen = set[str](), list[str]()
    for event in events:
        if busy.isdisjoint(knowers[event]):
            chosen.append(event)
            busy.update(knowers[event])
    return chosen


def settle(task: Task, cells: Cells, states: Mapping[str, str], before: Cells | None = None) -> Settled:
    """Let events happen in rounds until no more are possible, after a step from the cells `before`, if there was one;
    refuse a step in which a joint state recurs."""
    now, rounds, was, spent = dict(states), list[tuple[str, ...]](), before or {}, set[str]()
    seen = {tuple(now.values()): 0}
    while events := choose_events(
        task, {agent: propose(task, agent, cells[agent], now[agent], was.get(agent), spent) for agent in now}
    ):
        for event in events:
            for agent in task.knowers[event]:
                now[agent] = task.machines[agent].transitions[now[agent], event]
        rounds.append(events)
        if edges := task.edges.intersection(events):  # they cannot happen again, so that this is no cycle yet
            spent |= edges
            seen.clear()
        first = seen.setdefault(tuple(now.values()), len(rounds))
        if first < len(rounds):
            cycle = dict.fromkeys(event for events in rounds[first:] for event in events)
            agents = [agent for agent in task.agents if any(agent in task.events[event] for event in cycle)]
            where = " and ".join(f"{agent} {describe_cell(task, cells[agent])}" for agent in agents)
            raise EndlessError(f"with {where}, {', '.join(cycle)} can happen")
    return Settled(tuple(rounds), now)


class EndlessError(TaskError):
    """A step that would never settle."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"a step would never settle: {cause} repeatedly while no agent moves", key="machine")


def describe_cell(task: Task, cell: int) -> str:
    """Name a cell by a place that contains it, or else by its row and column."""
    places = (name for name, cells in task.grid.places.items() if cell in cells)
    return f"at {next(places, task.grid.row_column(cell))}"


@dataclass(frozen=True)
class LabellingCheck:
    """Whether the labelling functions are sound; if not, which condition fails and why, in a sentence."""

    ok: bool
    condition: int | None = None
    witness: str | None = None


def team_label(task: Task, cells: Cells, state: object, before: Cells | None = None) -> tuple[str, ...]:
    """List the events that happen after a step: defined in the team machine's state, with all conditions met."""
    return tuple(
        event
        for event, conditions in task.events.items()
        if task.machine.step(state, event) is not None  # type: ignore[arg-type]
        and all(task.holds(agent, event, cells[agent], (before or {}).get(agent)) for agent in conditions)
    )


def synchronize(knowers: Mapping[str, Collection[str]], proposals: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """List the events that all agents that know them propose, from the knowers of events and proposals of agents.

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
    """Check the third condition, with a witness if it fails; every step that settles meets the other two."""
    for event, controllers in task.controllers.items():
        for agent in controllers:
            if event not in task.knows[agent]:
                return LabellingCheck(False, 3, f"{agent} controls {event}, which is not in its local event set")
    if task.is_single_agent or (example := task.decomposition.counterexample) is None:
        return LabellingCheck(True)
    trace, event = ", ".join(example.trace) or "the empty trace", example.event or "completion"
    return LabellingCheck(False, 3, f"after {trace}, no agent rules out {event}: the task is not decomposable")
