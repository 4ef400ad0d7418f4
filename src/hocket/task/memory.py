"""Memory and options of the agents of IQL and h-IL: as the task defines them, or derived from the agents' machines.

These baselines have no machine; without memory they could not tell before from after, and comparisons would be unfair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hocket.graphs import Flags
from hocket.machine.decomposition import enumerate_states
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import Option
from hocket.task.task import Task

MOST_AGENT_CELLS = 10_000_000  # agents times cells above which no options are derived
MOST_REMEMBERED = 6  # events in a derived memory, which has two to the power of that many states
MOST_EVENTS = 64  # of a machine from which a memory is derived


def memory_of(task: Task) -> dict[str, tuple[str, ...]]:
    """List the events that each agent of the baselines remembers: as in the task, or derived from its machine."""
    numbers = task.event_numbers
    return {name: agent.memory or default_memory(task.machines[name], numbers) for name, agent in task.agents.items()}


def options_of(task: Task) -> dict[str, tuple[Option, ...]]:
    """List the options of each agent of h-IL: as in the task, or derived from its machine."""
    if len(task.agents) * task.grid.cells > MOST_AGENT_CELLS:
        return {name: agent.options for name, agent in task.agents.items()}
    memory = memory_of(task)
    return {name: agent.options or _options(task, name, memory[name]) for name, agent in task.agents.items()}


def with_team_machine(task: Task) -> Task:
    """Return the task; if it is not decomposable, add all events to all local event sets, so that every agent has the
    team machine. Memory and options stay those of the old sets; without memory, an agent remembers its first event."""
    if task.is_single_agent or task.decomposition.ok:
        return task
    options, events = options_of(task), tuple(task.machine.events)
    memory = {name: remembered or tuple(task.knows[name])[:1] for name, remembered in memory_of(task).items()}
    agents = dict(task.agents)
    for name, agent in task.agents.items():
        agents[name] = replace(agent, knows=events, memory=memory[name], options=options[name])
    return replace(task, agents=agents, machine=enumerate_states(task.machine))


def determined_events(machine: RewardMachine, order: Mapping[str, int]) -> dict[str, Flags]:
    """List, in a given order, the events that the state determines, with flags of the states where they have happened.
    An event is omitted if some state is reached both with and without it."""
    if len(machine.events) > MOST_EVENTS:
        return {}
    events = sorted((event for event in machine.events if event in order), key=order.__getitem__)
    happened = {event: 1 << number for number, event in enumerate(events)}
    not_happened = {event: bit << len(events) for event, bit in happened.items()}
    bits_of = {machine.initial: sum(not_happened.values())}  # whether an event has happened, or has not, on some trace
    processed, queue = dict[str, int](), [machine.initial]
    for state in queue:  # grows while it is read
        if processed.get(state) == (bits := bits_of[state]):
            continue
        processed[state] = bits
        for event, target in machine.moves.get(state, {}).items():
            new_bits = (bits | happened.get(event, 0)) & ~not_happened.get(event, 0)
            if (old_bits := bits_of.get(target, 0)) | new_bits != old_bits:
                bits_of[target] = old_bits | new_bits
                queue.append(target)
    possible = ambiguous = 0
    for bits in bits_of.values():
        possible, ambiguous = possible | bits, ambiguous | bits & bits >> len(events)
    return {
        event: np.array([bits_of.get(state, 0) & bit > 0 for state in machine.states], np.bool_)
        for event, bit in happened.items()
        if possible & bit and not ambiguous & bit
    }


def default_memory(machine: RewardMachine, order: Mapping[str, int]) -> tuple[str, ...]:
    """Choose what an agent remembers: the first events that its machine's state determines, without events after which
    all states are final."""
    determined = determined_events(machine, order)
    return tuple(event for event, flags in determined.items() if (flags & ~machine.is_final).any())[:MOST_REMEMBERED]


def _options(task: Task, agent: str, memory: tuple[str, ...]) -> tuple[Option, ...]:
    """Choose the options of an agent: the places at which its events happen, each after a precondition in memory."""
    determined = determined_events(task.machines[agent], {event: bit for bit, event in enumerate(memory)})
    preconditions_at: dict[str, set[str | None]] = {}
    for event in task.controlled[agent]:
        for alternative in task.events[event][agent].ways:
            if alternative.inside and alternative.place is not None:
                condition = precondition(task.machines[agent], determined, event)
                preconditions_at.setdefault(alternative.place, set()).add(condition)
    return tuple(
        Option(place, condition)
        for place, conditions in preconditions_at.items()
        for condition in ((None,) if None in conditions else sorted(filter(None, conditions)))
    )


def precondition(machine: RewardMachine, determined: Mapping[str, Flags], event: str) -> str | None:
    """Find the latest of some events (see `determined_events`) that has happened in all states with a given event."""
    sources = [machine.states.index(source) for source, name in machine.transitions if name == event]
    candidates = [(flags.sum(), name) for name, flags in determined.items() if sources and flags[sources].all()]
    return min(candidates)[1] if candidates else None
