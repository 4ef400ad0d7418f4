"""Task: a world, the agents in it, the events that they cause, and the team machine over those events."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError, known_names
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.names import Names, check_name
from hocket.machine.reward_machine import RewardMachine
from hocket.notebook_hook import shown
from hocket.task.grid import Grid

MOST_LATCHED = 10  # events in an agent's memory; it has two to the power of that many values

_CONDITION = re.compile(r"(?:not at|not in|at|in)(?:\s+|$)|anywhere(?=\s|,|$)")
_AND = re.compile(r"(?:\s+and\s+|\s*,\s*)")


@dataclass(frozen=True)
class Condition:
    """Where an agent has to be for an event: at a place, not at a place, or anywhere."""

    place: str | None = None  # None: anywhere
    inside: bool = True

    def cells(self, grid: Grid, key: str) -> NDArray[np.bool_]:
        """Flag the cells in which it holds."""
        if self.place is None:
            return grid.floor
        flags = np.zeros(grid.cells, np.bool_)
        flags[list(grid.place(self.place, key))] = True
        return flags if self.inside else grid.floor & ~flags

    def __str__(self) -> str:
        return "anywhere" if self.place is None else f"{'at' if self.inside else 'not at'} {self.place}"


ANYWHERE = Condition()


@dataclass(frozen=True)
class Option:
    """A subtask of the hierarchical baseline: go to a place; available always, or once an event has happened."""

    target: str
    after: str | None = None


@dataclass(frozen=True)
class Agent:
    """Where an agent starts, what it notices, and which regions are closed to it until an event."""

    start: int  # a cell
    knows: Iterable[str]
    gates: Mapping[str, str] = field(default_factory=dict)  # region -> the event that opens it
    memory: tuple[str, ...] = ()  # events that the baselines' agent remembers to have happened
    options: tuple[Option, ...] = ()
    sync: Mapping[str, float] = field(default_factory=dict)  # event -> chance per step, in place of the setting's

    def __reduce__(self) -> tuple[object, ...]:
        return Agent, (self.start, self.knows, dict(self.gates), self.memory, self.options, dict(self.sync))


@dataclass(frozen=True, repr=False)
class Task:
    """A team's task, complete and checked on construction; what only analysis can tell is left to `check_task`."""

    name: str
    grid: Grid
    agents: Mapping[str, Agent]
    events: Mapping[str, Mapping[str, Condition]]  # event -> the agents that control it, and where they have to be
    machine: RewardMachine | Composition
    slip: float = 0.02  # chance that a move goes a quarter turn astray, half of it to either side
    description: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "a task")
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in self.description.replace("\n", "")):
            raise TaskError("must have no control characters", key="description")
        if not 0 <= self.slip <= 1:
            raise TaskError(f"must be a probability, got {self.slip!r}", key="slip")
        if not self.agents:
            raise TaskError("a task needs at least one agent", key="agents")
        for place in self.grid.places:
            _check_tidy(place, f"places.{place}")
        self._check_parts()
        self._check_events()
        agents = {name: self._checked(name, agent) for name, agent in self.agents.items()}
        object.__setattr__(self, "agents", MappingProxyType(agents))
        ordered = {event: MappingProxyType(dict(self.events[event])) for event in self.machine.events}
        object.__setattr__(self, "events", MappingProxyType(ordered))

    def __repr__(self) -> str:
        return f"<Task {self.name!r}: {len(self.agents):,} agents, {self.grid.rows} x {self.grid.columns} cells>"

    def _repr_svg_(self) -> str | None:
        return shown(self, "svg")

    def _check_parts(self) -> None:
        """Require a part of a composition for each agent, and put the parts in the order of the agents."""
        if not isinstance(self.machine, Composition):
            return
        for name in self.machine.parts:
            if name not in self.agents:
                hint = known_names(name, self.agents)
                raise TaskError(f"agent {name!r} does not exist ({hint})", key=f"machine.parts.{name}")
        for name in self.agents:
            if name not in self.machine.parts:
                raise TaskError("every agent needs a part of the composition", key=f"machine.parts.{name}")
        if list(self.machine.parts) != list(self.agents):
            ordered = Composition({name: self.machine.parts[name] for name in self.agents})
            object.__setattr__(self, "machine", ordered)

    def _check_events(self) -> None:
        for event in self.machine.events:
            if event not in self.events:
                raise TaskError("the machine has this event, and nothing says when it happens", key=f"events.{event}")
        for event, conditions in self.events.items():
            key = f"events.{event}"
            if event not in self.machine.events:
                hint = known_names(event, self.machine.events)
                raise TaskError(f"the machine has no such event ({hint})", key=key)
            if not conditions:
                raise TaskError("at least one agent must control an event", key=key)
            for agent, condition in conditions.items():
                if agent not in self.agents:
                    raise TaskError(f"agent {agent!r} does not exist ({known_names(agent, self.agents)})", key=key)
                condition.cells(self.grid, key)

    def _checked(self, name: str, agent: Agent) -> Agent:
        _check_tidy(name, f"agents.{name}")
        key = f"agents.{name}"
        self.grid.check_cell(agent.start, f"{key}.start")
        own = Names((agent.knows,) if isinstance(agent.knows, str) else agent.knows)
        for event in own:
            self._require_event(event, f"{key}.knows")
        for region, event in agent.gates.items():
            gate = f"gates.{region}.{name}"
            self.grid.place(region, gate)
            self._require_event(event, gate)
        if len(agent.memory) > MOST_LATCHED or len(set(agent.memory)) < len(agent.memory):
            raise TaskError(f"an agent remembers at most {MOST_LATCHED} events, each once", key=f"{key}.memory")
        for event in agent.memory:
            self._require_event(event, f"{key}.memory")
        for option in agent.options:
            self.grid.place(option.target, f"{key}.options")
            if option.after is not None and option.after not in agent.memory:
                raise TaskError(f"an option waits for an event in memory, got {option.after!r}", key=f"{key}.options")
        for event, chance in agent.sync.items():
            self._require_event(event, f"{key}.sync")
            if event not in own or not 0 < chance <= 1:
                rule = "must give events that the agent knows a chance above 0 and at most 1"
                raise TaskError(f"{rule}, got {event!r}: {chance!r}", key=f"{key}.sync")
        return Agent(
            agent.start,
            Names(sorted(own, key=self.machine.events.index)),
            MappingProxyType(dict(agent.gates)),
            tuple(agent.memory),
            tuple(agent.options),
            MappingProxyType(dict(agent.sync)),
        )

    def _require_event(self, event: str, key: str) -> None:
        if event not in self.machine.events:
            hint = known_names(event, self.machine.events)
            raise TaskError(f"event {event!r} does not exist in the machine ({hint})", key=key)

    @cached_property
    def control(self) -> Mapping[str, Names]:
        """Who makes each event happen: the agents in its conditions."""
        return MappingProxyType({event: Names(conditions) for event, conditions in self.events.items()})

    @cached_property
    def needs(self) -> Mapping[str, Names]:
        """Who must know each event: the agents that control it, and those to whom it opens a gate."""
        waiting: dict[str, list[str]] = {event: list(own) for event, own in self.control.items()}
        for name, agent in self.agents.items():
            for event in agent.gates.values():
                waiting[event].append(name)
        return MappingProxyType({event: Names(own) for event, own in waiting.items()})

    @cached_property
    def knows(self) -> Mapping[str, Names]:
        """Which events each agent notices."""
        return MappingProxyType({name: Names(agent.knows) for name, agent in self.agents.items()})

    @cached_property
    def knowers(self) -> Mapping[str, tuple[str, ...]]:
        """Who knows each event, in the order of the agents."""
        found: dict[str, list[str]] = {event: [] for event in self.events}
        for agent, own in self.knows.items():
            for event in own:
                found[event].append(agent)
        return MappingProxyType({event: tuple(agents) for event, agents in found.items()})

    @cached_property
    def decomposition(self) -> Decomposition:
        """The agents' machines, and whether they make the whole."""
        return decompose(self.machine, self.knows, self.control)

    @cached_property
    def machines(self) -> Mapping[str, RewardMachine]:
        """Each agent's machine; an agent that is alone and knows everything has the team's, whatever it rewards."""
        if self.is_single_agent and isinstance(self.machine, RewardMachine):
            return MappingProxyType(dict.fromkeys(self.agents, self.machine))
        return self.decomposition.machines

    @property
    def is_single_agent(self) -> bool:
        """Whether there is one agent, which knows everything, so that nothing has to be split."""
        return len(self.agents) == 1 and all(own == self.machine.events for own in self.knows.values())

    def with_knows(self, knows: Mapping[str, Iterable[str]]) -> Task:
        """Change what some agents know."""
        for name in knows:
            if name not in self.agents:
                raise TaskError(f"agent {name!r} does not exist ({known_names(name, self.agents)})", key="knows")
        agents = {
            name: replace(agent, knows=knows[name]) if name in knows else agent for name, agent in self.agents.items()
        }
        return replace(self, agents=agents)

    def __deepcopy__(self, memo: object) -> Task:
        return self  # nothing in it changes

    def __reduce__(self) -> tuple[object, ...]:
        events = {event: dict(conditions) for event, conditions in self.events.items()}
        parts = (self.name, self.grid, dict(self.agents), events, self.machine, self.slip, self.description)
        return Task, parts

    def where(self, agent: str, event: str) -> NDArray[np.bool_]:
        """Flag the cells in which an agent that knows an event takes it for possible."""
        condition = self.events[event].get(agent, ANYWHERE)
        if condition not in self._cells:
            self._cells[condition] = condition.cells(self.grid, f"events.{event}")
        return self._cells[condition]

    @cached_property
    def _cells(self) -> dict[Condition, NDArray[np.bool_]]:
        return {}


def parse_conditions(sentence: str, agents: Iterable[str], places: Iterable[str], key: str) -> dict[str, Condition]:
    """Read when an event happens: "A2 and A3 at red button and A1 not at home", "all at meeting point".

    Names are matched whole and longest first, so they may contain blanks.
    """
    reader = _Reader(sentence.strip(), key)
    everyone = list(agents)
    conditions: dict[str, Condition] = {}
    while True:
        named = reader.agents(everyone)
        word = reader.match(_CONDITION, "at, in, not at, not in or anywhere")
        condition = Condition()
        if word != "anywhere":
            condition = Condition(reader.name(places, "place"), inside=not word.startswith("not"))
        for agent in named:
            if agent in conditions:
                raise TaskError(f"agent {agent!r} has two conditions in {sentence!r}", key=key)
            conditions[agent] = condition
        if reader.at_end:
            return conditions
        reader.match(_AND, "'and'")


class _Reader:
    """Reads a sentence from left to right."""

    def __init__(self, text: str, key: str) -> None:
        self.text, self.key, self.position = text, key, 0

    @property
    def at_end(self) -> bool:
        return self.position == len(self.text)

    @property
    def rest(self) -> str:
        return self.text[self.position :]

    def match(self, pattern: re.Pattern[str], expected: str) -> str:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise TaskError(f"expected {expected} before {self.rest!r} in {self.text!r}", key=self.key)
        self.position = found.end()
        return found[0].strip()

    def agents(self, everyone: list[str]) -> list[str]:
        """Read "all", or agents joined by "and" or commas, up to the condition."""
        if (found := re.match(r"all\s+", self.rest)) and self.known(everyone) is None:
            self.position += found.end()
            return everyone
        named = [self.name(everyone, "agent")]
        while not re.match(r"\s+(not|at|in|anywhere)\b", self.rest):
            self.match(_AND, "'and', or where the agent has to be,")
            named.append(self.name(everyone, "agent"))
        self.position += len(self.rest) - len(self.rest.lstrip())
        return named

    def name(self, known: Iterable[str], what: str) -> str:
        """Read the longest known name that is not part of a longer word."""
        found = self.known(known)
        if found is not None:
            self.position += len(found)
            return found
        unknown = re.split(r"\s+(?:and|not|at|in|anywhere)\b|,", self.rest)[0]
        raise TaskError(f"{what} {unknown!r} does not exist ({known_names(unknown, known)})", key=self.key)

    def known(self, names: Iterable[str]) -> str | None:
        """Find the longest of some names that comes next."""
        for name in sorted(names, key=len, reverse=True):
            if self.rest.startswith(name) and re.match(r"\s|,|$", self.rest[len(name) :]):
                return name
        return None


def _check_tidy(name: str, key: str) -> None:
    """Require a name that a sentence can carry: without blanks at its ends."""
    check_name(name, "an agent or place")
    if name != name.strip():
        raise TaskError(f"names of agents and places have no blanks at their ends, got {name!r}", key=key)


def write_conditions(conditions: Mapping[str, Condition]) -> str:
    """Say when an event happens, agents with the same condition together."""
    together: dict[Condition, list[str]] = {}
    for agent, condition in conditions.items():
        together.setdefault(condition, []).append(agent)
    return " and ".join(f"{' and '.join(agents)} {condition}" for condition, agents in together.items())
