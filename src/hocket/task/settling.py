"""How a step settles: with everyone's place fixed, events happen in rounds until nothing more can.

An event can happen if every agent that knows it proposes it. In a round they go in the order of the task; one happens
unless an agent that knows it has taken part in an event of this round already. So the events of a round have disjoint
knowers and commute, and a round is a step of the paper's model in which nobody moves: at most one event for each agent.
An event with an edge in its conditions (an agent enters, leaves or stays) happens at most once in a step.

Also the team's and the agents' labelling functions. The paper's supplement asks that (1) at most one event happens to
an agent in a step, (2) an agent's own state tells it which event that could be, and (3) an event that does not happen
is ruled out by the own state of some agent that knows it. As each round counts as a step in which nobody moves, every
task meets (1) and (2). (3) follows from decomposability and from every event being known by those that control it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hocket.errors import TaskError
from hocket.task.task import Task

Cells = Mapping[str, int]  # agent -> where it is


class Settled(NamedTuple):
    """What happened in a step, round by round, and the states of the agents' machines after it."""

    rounds: tuple[tuple[str, ...], ...]
    states: Mapping[str, str]

    @property
    def events(self) -> tuple[str, ...]:
        """What happened, in its order."""
        return tuple(event for events in self.rounds for event in events)


def propose(
    task: Task, agent: str, cell: int, state: str, before: int | None = None, spent: Collection[str] = ()
) -> tuple[str, ...]:
    """List the events that an agent proposes: not spent in this step, possible in its machine, its condition met."""
    machine = task.machines[agent]
    return tuple(
        event
        for event in task.knows[agent]
        if event not in spent and machine.step(state, event) is not None and task.holds(agent, event, cell, before)
    )


def choose_events(task: Task, proposals: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """List the events of a round: proposed by all who know them, in the order of the task, one for each agent."""
    return tuple(one_for_each(synchronize(task.knowers, proposals), task.knowers))


def one_for_each(events: Iterable[str], knowers: Mapping[str, Collection[str]]) -> list[str]:
    """Choose events in their order, of those that an agent knows one at most."""
    busy: set[str] = set()
    chosen = []
    for event in events:
        if busy.isdisjoint(knowers[event]):
            chosen.append(event)
            busy.update(knowers[event])
    return chosen


def settle(task: Task, cells: Cells, states: Mapping[str, str], before: Cells | None = None) -> Settled:
    """Let events happen after a step, if there was one, until nothing more can; refuse one that goes round for ever."""
    now, rounds, was = dict(states), list[tuple[str, ...]](), before or {}
    spent: set[str] = set()
    seen = {tuple(now.values()): 0}
    while events := choose_events(
        task, {agent: propose(task, agent, cells[agent], now[agent], was.get(agent), spent) for agent in now}
    ):
        for event in events:
            for agent in task.knowers[event]:
                now[agent] = task.machines[agent].transitions[now[agent], event]
        rounds.append(events)
        if not task.edges.isdisjoint(events):  # which cannot happen again: nothing goes round so far
            spent.update(task.edges.intersection(events))
            seen.clear()
        first = seen.setdefault(tuple(now.values()), len(rounds))
        if first < len(rounds):
            again = dict.fromkeys(event for turn in rounds[first:] for event in turn)
            agents = [agent for agent in task.agents if any(agent in task.events[event] for event in again)]
            places = " and ".join(f"{agent} {describe_cell(task, cells[agent])}" for agent in agents)
            raise EndlessError(f"with {places}, {', '.join(again)} can happen")
    return Settled(tuple(rounds), now)


class EndlessError(TaskError):
    """A step that would never settle."""

    def __init__(self, what: str) -> None:
        super().__init__(f"a step would never settle: {what} again and again while nobody moves", key="machine")


def describe_cell(task: Task, cell: int) -> str:
    """Say where a cell is, by the name of a place if it has one."""
    for name, cells in task.grid.places.items():
        if cell in cells:
            return f"at {name}"
    return f"at {task.grid.row_column(cell)}"


@dataclass(frozen=True)
class LabellingCheck:
    """Whether labelling functions are sound; if not, which condition fails and a witness in words."""

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
                return LabellingCheck(False, 3, f"{agent} controls {event}, which is not in its local event set")
    example = None if task.is_single_agent else task.decomposition.counterexample
    if example is not None:
        what = "completion" if example.event is None else example.event
        trace = ", ".join(example.trace) or "the empty trace"
        return LabellingCheck(False, 3, f"after {trace}, no agent rules out {what}: the task is not decomposable")
    return LabellingCheck(True)
