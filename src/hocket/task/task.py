"""Task: a world, the agents in it, the events that they cause, and the team machine over those events."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError, known_names
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.formats.schema import Document, machine_to
from hocket.machine.names import Names, check_name, is_one_line
from hocket.machine.reward_machine import RewardMachine
from hocket.notebook_hook import shown
from hocket.task.conditions import ANYWHERE, Condition, Lexicon, parse_conditions, parse_option, write_conditions
from hocket.task.grid import FLOOR, WALL, Grid

LONGEST_NAME = 200  # characters of a task, an agent or a place
MOST_REWARD = 10**9  # for a transition
MOST_LATCHED = 10  # events in an agent's memory; it has two to the power of that many values


@dataclass(frozen=True)
class Option:
    """A subtask of the hierarchical baseline: go to a place; available always, or once an event has happened."""

    target: str
    after: str | None = None

    def __str__(self) -> str:
        return self.target + (f" after {self.after}" if self.after else "")


@dataclass(frozen=True)
class Gate:
    """What opens a region to an agent, and what closes it again: the last of these events to happen decides.

    It is closed at the start, unless nothing opens it or `starts_open` says otherwise.

    >>> Gate("on", "off")
    Gate(opens=('on',), closes=('off',), starts_open=False)
    """

    opens: str | tuple[str, ...] = ()
    closes: str | tuple[str, ...] = ()
    starts_open: bool | None = None

    def __post_init__(self) -> None:
        for name in ("opens", "closes"):
            own = getattr(self, name)
            object.__setattr__(self, name, (own,) if isinstance(own, str) else tuple(own))
        if self.starts_open is None:
            object.__setattr__(self, "starts_open", not self.opens)

    @classmethod
    def of(cls, gate: Gate | str) -> Gate:
        """Take a gate as it is, or an event as the gate that it opens for good."""
        return cls(gate) if isinstance(gate, str) else gate

    @property
    def events(self) -> Names:
        """All that opens or closes it."""
        return Names((*self.opens, *self.closes))

    @property
    def short(self) -> Gate | str:
        """The event that opens it for good, where there is no more to say."""
        return self.opens[0] if self == Gate(self.opens[:1]) and self.opens else self

    def __str__(self) -> str:
        opened = f"until {' or '.join(self.opens)}" if self.opens else "for good"
        if not self.closes:
            return opened
        again = f"from {' or '.join(self.closes)} on"
        if self.starts_open:
            return f"{again} {opened}" if self.opens else again
        return f"{opened}, and again {again}"


@dataclass(frozen=True)
class Agent:
    """Where an agent starts, its local event set, and which regions are closed to it, and when."""

    start: int  # a cell
    knows: Iterable[str]  # its local event set
    gates: Mapping[str, Gate | str] = field(default_factory=dict)  # region -> its gate, or the event that opens it
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
    events: Mapping[
        str, Mapping[str, Condition]
    ]  # event -> who controls it from where; of several the first happens first
    machine: RewardMachine | Composition
    slip: float = 0.02  # chance that a move goes a quarter turn astray, half of it to either side
    description: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "a task")
        if len(self.name) > LONGEST_NAME:
            raise TaskError(f"must have at most {LONGEST_NAME} characters, got {len(self.name):,}", key="name")
        if not is_one_line(self.description.replace("\n", "")):
            raise TaskError("must have no control characters", key="description")
        if not 0 <= self.slip <= 1:
            raise TaskError(f"must be a probability, got {self.slip!r}", key="slip")
        if not self.agents:
            raise TaskError("a task needs at least one agent", key="agents")
        for place in self.grid.places:
            _check_tidy(place, f"places.{place}")
        self._check_parts()
        self._check_rewards()
        self._check_events()
        agents = {name: self._checked(name, agent) for name, agent in self.agents.items()}
        object.__setattr__(self, "agents", MappingProxyType(agents))
        events = {event: MappingProxyType(dict(conditions)) for event, conditions in self.events.items()}
        object.__setattr__(self, "events", MappingProxyType(events))

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

    def _check_rewards(self) -> None:
        """Require rewards whose sums over all of training are 32-bit numbers."""
        machines = self.machine.parts.values() if isinstance(self.machine, Composition) else [self.machine]
        for machine in machines:
            for (state, event), reward in machine.rewards.items() if not machine.has_completion_rewards else ():
                if abs(reward) > MOST_REWARD:
                    rule = f"must be between -{MOST_REWARD:,} and {MOST_REWARD:,}"
                    raise TaskError(f"a reward {rule}, got {reward!r}", key=f"machine.rewards.{state}.{event}")

    def _check_events(self) -> None:
        for event in self.machine.events:
            if event not in self.events:
                raise TaskError(
                    "the machine has this event, and no condition says when it happens", key=f"events.{event}"
                )
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
                for place in condition.places:
                    self.grid.place(place, key)

    def _checked(self, name: str, agent: Agent) -> Agent:
        _check_tidy(name, f"agents.{name}")
        key = f"agents.{name}"
        self.grid.check_cell(agent.start, f"{key}.start")
        own = Names((agent.knows,) if isinstance(agent.knows, str) else agent.knows)
        for event in own:
            self._require_event(event, f"{key}.knows")
        for region, gate in agent.gates.items():
            self._check_gate(region, Gate.of(gate), f"gates.{region}.{name}")
        if len(agent.memory) > MOST_LATCHED or len(set(agent.memory)) < len(agent.memory):
            raise TaskError(f"an agent remembers at most {MOST_LATCHED} events, each once", key=f"{key}.memory")
        for event in agent.memory:
            self._require_event(event, f"{key}.memory")
        for option in agent.options:
            self.grid.place(option.target, f"{key}.options")
            if option.after is not None and option.after not in agent.memory:
                raise TaskError(f"an option waits for an event in memory, got {option.after!r}", key=f"{key}.options")
            if parse_option(str(option), self.grid.places, agent.memory) != (option.target, option.after):
                raise TaskError(f"{str(option)!r} must not mean another option, too", key=f"{key}.options")
        for event, chance in agent.sync.items():
            self._require_event(event, f"{key}.sync")
            if event not in own or not 0 < chance <= 1:
                rule = "must give events that the agent knows a chance above 0 and at most 1"
                raise TaskError(f"{rule}, got {event!r}: {chance!r}", key=f"{key}.sync")
        return Agent(
            agent.start,
            Names(sorted(own, key=self.event_numbers.__getitem__)),
            MappingProxyType({region: Gate.of(gate).short for region, gate in agent.gates.items()}),
            tuple(agent.memory),
            tuple(agent.options),
            MappingProxyType(dict(agent.sync)),
        )

    def _check_gate(self, region: str, gate: Gate, key: str) -> None:
        self.grid.place(region, key)
        if not gate.events:
            raise TaskError("a gate needs an event that opens or closes it", key=key)
        for event in gate.events:
            self._require_event(event, key)
            if event in gate.opens and event in gate.closes:
                raise TaskError(f"an event opens a gate or closes it, got {event!r} for both", key=key)

    def _require_event(self, event: str, key: str) -> None:
        if event not in self.machine.events:
            hint = known_names(event, self.machine.events)
            raise TaskError(f"event {event!r} does not exist in the machine ({hint})", key=key)

    @cached_property
    def control(self) -> Mapping[str, Names]:
        """Who makes each event happen: the agents in its conditions."""
        return MappingProxyType({event: Names(conditions) for event, conditions in self.events.items()})

    @cached_property
    def controls(self) -> Mapping[str, tuple[str, ...]]:
        """The events that each agent controls, in the order of the task."""
        found: dict[str, list[str]] = {agent: [] for agent in self.agents}
        for event, conditions in self.events.items():
            for agent in conditions:
                found[agent].append(event)
        return MappingProxyType({agent: tuple(own) for agent, own in found.items()})

    @cached_property
    def needs(self) -> Mapping[str, Names]:
        """Who must know each event: the agents that control it, and those to whom it opens or closes a gate."""
        waiting: dict[str, list[str]] = {event: list(own) for event, own in self.control.items()}
        for name, gates in self.gates.items():
            for gate in gates.values():
                for event in gate.events:
                    waiting[event].append(name)
        return MappingProxyType({event: Names(own) for event, own in waiting.items()})

    @cached_property
    def gates(self) -> Mapping[str, Mapping[str, Gate]]:
        """The gates of each agent, by region."""
        return MappingProxyType(
            {
                name: MappingProxyType({region: Gate.of(gate) for region, gate in agent.gates.items()})
                for name, agent in self.agents.items()
            }
        )

    @cached_property
    def knows(self) -> Mapping[str, Names]:
        """The local event set of each agent."""
        return MappingProxyType({name: Names(agent.knows) for name, agent in self.agents.items()})

    @cached_property
    def event_numbers(self) -> Mapping[str, int]:
        """The place of each event in the order of the task."""
        return MappingProxyType({event: number for number, event in enumerate(self.events)})

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
        """The local reward machines, and whether the task is decomposable."""
        return decompose(self.machine, self.knows, self.control)

    @cached_property
    def machines(self) -> Mapping[str, RewardMachine]:
        """The local reward machines; a single agent that knows every event has the team machine, whatever it pays."""
        if self.is_single_agent and isinstance(self.machine, RewardMachine):
            return MappingProxyType(dict.fromkeys(self.agents, self.machine))
        return self.decomposition.machines

    @property
    def is_single_agent(self) -> bool:
        """Whether there is one agent, which knows every event, so that nothing has to be decomposed."""
        return len(self.agents) == 1 and all(own == self.machine.events for own in self.knows.values())

    def with_knows(self, knows: Mapping[str, Iterable[str]]) -> Task:
        """Change the local event sets of some agents."""
        for name in knows:
            if name not in self.agents:
                raise TaskError(f"agent {name!r} does not exist ({known_names(name, self.agents)})", key="knows")
        agents = {
            name: replace(agent, knows=knows[name]) if name in knows else agent for name, agent in self.agents.items()
        }
        return replace(self, agents=agents)

    @cached_property
    def digest(self) -> str:
        """The fingerprint of all that it says, except how it is described and how states and events are ordered."""
        document = {key: own for key, own in self.document().items() if key not in ("name", "description", "machine")}
        machines = self.machine.parts if isinstance(self.machine, Composition) else {"": self.machine}
        document["machine"] = {name: _canonical(machine) for name, machine in machines.items()}
        document["order"] = list(self.agents)  # an agent's random numbers depend on its place
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def document(self) -> Document:
        """Lay the task out as nested tables, as a file has it; places stand in it by their coordinates."""
        grid, machine = self.grid, self.machine
        letters = [WALL if cell in grid.walls else FLOOR for cell in range(grid.cells)]
        lines = ["".join(letters[row * grid.columns : (row + 1) * grid.columns]) for row in range(grid.rows)]
        document: Document = {"name": self.name, "description": self.description, "slip": float(self.slip)}
        document["map"] = "\n".join(lines) + "\n"
        document["places"] = {
            name: [list(grid.row_column(cell)) for cell in sorted(own)] for name, own in grid.places.items()
        }
        document["agents"] = {name: _agent_to(agent, grid) for name, agent in self.agents.items()}
        gates: dict[str, dict[str, object]] = {}
        for name, agent in self.agents.items():
            for region, gate in agent.gates.items():
                gates.setdefault(region, {})[name] = gate if isinstance(gate, str) else _gate_to(gate)
        if gates:
            document["gates"] = gates
        document["events"] = {event: self._sentence(event) for event in self.events}
        if isinstance(machine, Composition):
            document["machine"] = {"parts": {agent: machine_to(part) for agent, part in machine.parts.items()}}
        else:
            document["machine"] = machine_to(machine)
        return document

    def _sentence(self, event: str) -> object:
        """Say when an event happens: a sentence, or a table of them where names in a sentence would be misread."""
        conditions = dict(self.events[event])
        sentence = write_conditions(conditions)
        try:
            if parse_conditions(sentence, *self._lexicons, event) == conditions:
                return sentence
        except TaskError:
            pass
        halves = {agent: [str(way) for way in condition.ways] for agent, condition in conditions.items()}
        return {agent: own if len(own) > 1 else own[0] for agent, own in halves.items()}

    @cached_property
    def _lexicons(self) -> tuple[Lexicon, Lexicon]:
        return Lexicon(self.agents), Lexicon(self.grid.places)

    def __deepcopy__(self, memo: object) -> Task:
        return self  # nothing in it changes

    def __reduce__(self) -> tuple[object, ...]:
        events = {event: dict(conditions) for event, conditions in self.events.items()}
        parts = (self.name, self.grid, dict(self.agents), events, self.machine, self.slip, self.description)
        return Task, parts

    def where(self, agent: str, event: str) -> NDArray[np.bool_]:
        """Flag the cells in which an agent that knows an event proposes it."""
        condition = self.events[event].get(agent, ANYWHERE)
        if condition not in self._cells:
            self._cells[condition] = condition.cells(self.grid, f"events.{event}")
        return self._cells[condition]

    @cached_property
    def _cells(self) -> dict[Condition, NDArray[np.bool_]]:
        return {}


def _check_tidy(name: str, key: str) -> None:
    """Require a name that a sentence can carry: without blanks at its ends."""
    check_name(name, "an agent or place")
    if len(name) > LONGEST_NAME:
        raise TaskError(f"names of agents and places have at most {LONGEST_NAME} characters", key=key)
    if name != name.strip():
        raise TaskError(f"names of agents and places have no blanks at their ends, got {name!r}", key=key)


def _agent_to(agent: Agent, grid: Grid) -> Document:
    row: Document = {"start": list(grid.row_column(agent.start)), "knows": list(agent.knows)}
    if agent.memory:
        row["memory"] = list(agent.memory)
    if agent.options:
        row["options"] = [str(own) for own in agent.options]
    if agent.sync:
        row["sync"] = {event: float(chance) for event, chance in agent.sync.items()}
    return row


def _gate_to(gate: Gate) -> Document:
    """Lay a gate out as a file has it, leaving out what goes without saying."""
    lists = {"open": gate.opens, "close": gate.closes}
    row: Document = {key: own[0] if len(own) == 1 else list(own) for key, own in lists.items() if own}
    if gate.starts_open != (not gate.opens):
        row["starts_open"] = gate.starts_open
    return row


def _canonical(machine: RewardMachine) -> object:
    moves = sorted([*key, target, machine.rewards[key]] for key, target in machine.transitions.items())
    return [machine.initial, sorted(machine.states), sorted(machine.events), sorted(machine.final), moves]
