"""What a task requires of its parts when it is made: names that exist, numbers in range, and nothing left unsaid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from hocket.documents import is_one_line
from hocket.errors import TaskError, known_names, require_known
from hocket.machine.composition import Composition
from hocket.machine.names import Names, check_name
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import CLOSED, Agent, Gate
from hocket.task.conditions import Condition, parse_option
from hocket.task.grid import Grid

LONGEST_NAME = 200  # characters of a task, an agent or a place
MOST_REWARD = 10**9  # for a transition
MOST_LATCHED = 10  # events in an agent's memory; it has two to the power of that many values

Machine = RewardMachine | Composition


def check_words(name: str, description: str) -> None:
    """Require a name and a description that can be printed and drawn."""
    check_name(name, "a task")
    if len(name) > LONGEST_NAME:
        raise TaskError(f"must have at most {LONGEST_NAME} characters, got {len(name):,}", key="name")
    if not is_one_line(description.replace("\n", "")):
        raise TaskError("must have no control characters", key="description")


def check_tidy(name: str, key: str) -> None:
    """Require a name that a sentence can carry: without blanks at its ends."""
    check_name(name, "an agent or place")
    if len(name) > LONGEST_NAME:
        raise TaskError(f"names of agents and places have at most {LONGEST_NAME} characters", key=key)
    if name != name.strip():
        raise TaskError(f"names of agents and places have no blanks at their ends, got {name!r}", key=key)


def in_order(machine: Machine, agents: Mapping[str, Agent]) -> Machine:
    """Require a part of a composition for each agent, and put the parts in the order of the agents."""
    if not isinstance(machine, Composition):
        return machine
    for name in machine.parts:
        require_known(name, agents, "agent", partial(TaskError, key=f"machine.parts.{name}"))
    for name in agents:
        if name not in machine.parts:
            raise TaskError("every agent needs a part of the composition", key=f"machine.parts.{name}")
    if list(machine.parts) == list(agents):
        return machine
    return Composition({name: machine.parts[name] for name in agents})


def check_rewards(machine: Machine) -> None:
    """Require rewards whose sums over all of training are 32-bit numbers."""
    for part in machine.parts.values() if isinstance(machine, Composition) else [machine]:
        for (state, event), reward in part.rewards.items() if not part.has_completion_rewards else ():
            if abs(reward) > MOST_REWARD:
                rule = f"must be between -{MOST_REWARD:,} and {MOST_REWARD:,}"
                raise TaskError(f"a reward {rule}, got {reward!r}", key=f"machine.rewards.{state}.{event}")


def check_conditions(used: Iterable[str], events: Collection[str]) -> None:
    """Require a condition for every event of the machine; one that has none may be misspelt there."""
    for event in used:
        if event not in events:
            hint = known_names(event, events)
            asked = f"; {hint}" if hint.startswith("did you mean") else ""
            raise TaskError(f"the machine has this event, but it has no condition{asked}", key=f"events.{event}")


def check_events(
    events: Mapping[str, Mapping[str, Condition]], machine: Machine, agents: Mapping[str, Agent], grid: Grid
) -> None:
    """Require that the machine's events and those with conditions are the same, each controlled by agents at places."""
    check_conditions(machine.events, events)
    for event, conditions in events.items():
        key = f"events.{event}"
        if event not in machine.events:
            raise TaskError(f"the machine has no such event ({known_names(event, machine.events)})", key=key)
        if not conditions:
            raise TaskError("at least one agent must control an event", key=key)
        for agent, condition in conditions.items():
            require_known(agent, agents, "agent", partial(TaskError, key=key))
            for place in condition.places:
                grid.place(place, key)


def checked(name: str, agent: Agent, grid: Grid, numbers: Mapping[str, int]) -> Agent:
    """Require of an agent that all it names exists, and lay it out in one way; `numbers` are those of events."""
    key = f"agents.{name}"
    check_tidy(name, key)

    def require_event(event: str, key: str) -> None:
        require_known(event, numbers, "event", partial(TaskError, key=key), " in the machine")

    starts = tuple(sorted({*agent.starts}))
    if not starts:
        raise TaskError("an agent needs a cell to start in", key=f"{key}.start")
    for start in starts:
        grid.check_cell(start, f"{key}.start")
    known = Names((agent.knows,) if isinstance(agent.knows, str) else agent.knows)
    for event in known:
        require_event(event, f"{key}.knows")
    gates = {region: Gate.of(gate) for region, gate in agent.gates.items()}
    for region, gate in gates.items():
        where = f"gates.{region}.{name}"
        grid.place(region, where)
        if not gate.events and gate != CLOSED:
            raise TaskError("a gate needs an event that opens or closes it", key=where)
        for event in gate.events:
            require_event(event, where)
            if event in gate.opens and event in gate.closes:
                raise TaskError(f"an event opens a gate or closes it, got {event!r} for both", key=where)
    if len(agent.memory) > MOST_LATCHED or len({*agent.memory}) < len(agent.memory):
        raise TaskError(f"an agent remembers at most {MOST_LATCHED} events, each once", key=f"{key}.memory")
    for event in agent.memory:
        require_event(event, f"{key}.memory")
    for option in agent.options:
        grid.place(option.target, f"{key}.options")
        if option.after is not None and option.after not in agent.memory:
            rule = f"an option waits for an event in memory, got {option.after!r}"
            raise TaskError(rule, key=f"{key}.options")
        if parse_option(str(option), grid.places, agent.memory) != (option.target, option.after):
            rule = f"{str(option)!r} is ambiguous: it can be read as another option"
            raise TaskError(rule, key=f"{key}.options")
    for event, chance in agent.sync.items():
        require_event(event, f"{key}.sync")
        if event not in known or not 0 < chance <= 1:
            rule = "must give events that the agent knows a chance above 0 and at most 1"
            raise TaskError(f"{rule}, got {event!r}: {chance!r}", key=f"{key}.sync")
    return Agent(
        starts[0] if len(starts) == 1 else starts,
        Names(sorted(known, key=numbers.__getitem__)),
        MappingProxyType({region: gate.short for region, gate in gates.items()}),
        tuple(agent.memory),
        tuple(agent.options),
        MappingProxyType(dict(agent.sync)),
    )
