"""Memory and options of the agents of IQL and h-IL: as the task defines them, or derived from the agents' machines.

These baselines have no machine; without memory they could not tell before from after, and comparisons would be unfair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hocket.machine.decomposition import enumerate_states
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import Option
from hocket.task.task import Task

MOST_OPTIONS = 10_000_000  # agents times cells, beyond which none are derived
MOST_REMEMBERED = 6  # events in a derived memory, which has two to the power of that many states
MOST_EVENTS = 64  # of a machine from which a memory is derived

Bools = NDArray[np.bool_]


def memory_of(task: Task) -> dict[str, tuple[str, ...]]:
    """List the events that each agent of the baselines remembers: as in the task, or derived from its machine."""
    numbers = task.event_numbers
    return {name: agent.memory or derived_memory(task.machines[name], numbers) for name, agent in task.agents.items()}


def options_of(task: Task) -> dict[str, tuple[Option, ...]]:
    """List the options of each agent of h-IL: as in the task, or derived from its machine."""
    if len(task.agents) * task.grid.cells > MOST_OPTIONS:
        return {name: agent.options for name, agent in task.agents.items()}
    memory = memory_of(task)
    return {name: agent.options or _options(task, name, memory[name]) for name, agent in task.agents.items()}


def with_team_machine(task: Task) -> Task:
    """Give all agents the team machine, unless the task is decomposable, by adding all events to their local event
    sets. This is the task of the baselines, whose agents have no machines; an agent without memory remembers one
    event."""
    if task.is_single_agent or task.decomposition.ok:
        return task
    options, events = options_of(task), tuple(task.machine.events)
    memory = {name: remembered or tuple(task.knows[name])[:1] for name, remembered in memory_of(task).items()}
    agents = dict(task.agents)
    for name, agent in task.agents.items():
        agents[name] = replace(agent, knows=events, memory=memory[name], options=options[name])
    return replace(task, agents=agents, machine=enumerate_states(task.machine))


def latched_events(machine: RewardMachine, order: Mapping[str, int]) -> dict[str, Bools]:
    """List, in a given order, the events of which each state tells whether they have happened, and flag the states
    where they have. Left out are events with and without which some state is reached."""
    if len(machine.events) > MOST_EVENTS:
        return {}
    events = sorted((event for event in machine.events if event in order), key=order.__getitem__)
    happened = {event: 1 << number for number, event in enumerate(events)}
    absent = {event: bit << len(events) for event, bit in happened.items()}
    bits_of = {machine.initial: sum(absent.values())}  # whether an event has happened, or has not, on some trace
    visited, queue = dict[str, int](), [machine.initial]
    for state in queue:  # grows while it is read
        if visited.get(state) == (bits := bits_of[state]):
            continue
        visited[state] = bits
        for event, target in machine.moves.get(state, {}).items():
            after = (bits | happened.get(event, 0)) & ~absent.get(event, 0)
            if (known := bits_of.get(target, 0)) | after != known:
                bits_of[target] = known | after
                queue.append(target)
    ever = unclear = 0
    for bits in bits_of.values():
        ever, unclear = ever | bits, unclear | bits & bits >> len(events)
    return {
        event: np.array([bits_of.get(state, 0) & bit > 0 for state in machine.states], np.bool_)
        for event, bit in happened.items()
        if ever & bit and not unclear & bit
    }


def derived_memory(machine: RewardMachine, order: Mapping[str, int]) -> tuple[str, ...]:
    """Choose what an agent remembers: the first events of which its machine's states tell whether they have happened,
    without events after which all states are final."""
    latched = latched_events(machine, order)
    return tuple(event for event, after in latched.items() if (after & ~machine.is_final).any())[:MOST_REMEMBERED]


def _options(task: Task, agent: str, memory: tuple[str, ...]) -> tuple[Option, ...]:
    """Choose the options of an agent: the places at which its events happen, each after a precondition in memory."""
    latched = latched_events(task.machines[agent], {event: bit for bit, event in enumerate(memory)})
    targets: dict[str, set[str]] = {}
    for event in task.controlled[agent]:
        for way in task.events[event][agent].ways:
            if way.inside and way.place is not None:
                targets.setdefault(way.place, set()).add(precondition(task.machines[agent], latched, event) or "")
    return tuple(
        Option(place, after or None)
        for place, events in targets.items()
        for after in (("",) if "" in events else sorted(events))
    )


def precondition(machine: RewardMachine, latched: Mapping[str, Bools], event: str) -> str | None:
    """Find the latest of some events (see `latched_events`) that has happened in all states with a given event."""
    rows = [machine.states.index(source) for source, name in machine.transitions if name == event]
    earlier = [(after.sum(), name) for name, after in latched.items() if rows and after[rows].all()]
    return min(earlier)[1] if earlier else None
