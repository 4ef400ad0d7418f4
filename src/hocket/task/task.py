"""Task: a grid, agents, the events that they cause, and the team machine over these events."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hocket.documents import Document, is_one_line
from hocket.errors import TaskError, known_names, require_known
from hocket.lazy import explain_kinds, show_in_notebook
from hocket.machine.algebra import reachable_part
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.formats.schema import machine_to
from hocket.machine.names import Names, check_name, invert
from hocket.machine.reward_machine import RewardMachine
from hocket.task.agents import LONGEST_NAME, Agent, Gate, check_tidy, checked
from hocket.task.bodies import Bodies, check_bodies, units_of
from hocket.task.conditions import ANYWHERE, Condition, Lexicon, Mask, parse_conditions, write_conditions
from hocket.task.grid import FLOOR, WALL, Grid, Picklable, write_thin

MOST_REWARD = 10**9  # for a transition

Machine = RewardMachine | Composition


@explain_kinds
@dataclass(frozen=True, repr=False)
class Task(Picklable):
    """A team's task, complete and checked on construction; `check_task` checks what takes an analysis."""

    name: str
    grid: Grid
    agents: Mapping[str, Agent]
    events: Mapping[str, Mapping[str, Condition]]  # event -> who controls it, from where; in the order of a round
    machine: Machine
    slip: float = 0.02  # probability that a move slips a quarter turn, half of it to either side
    description: str = ""
    source: str = field(default="", compare=False)  # the name or path by which it was loaded
    bodies: Bodies = False  # whether two agents may not be in one cell nor swap cells; see `hocket.task.bodies`

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
            check_tidy(place, f"places.{place}")
        object.__setattr__(self, "machine", _in_order(self.machine, self.agents))
        _check_rewards(self.machine)
        self._check_events()
        agents = {name: checked(name, agent, self.grid, self.event_numbers) for name, agent in self.agents.items()}
        check_bodies(self.bodies, self.grid, agents)
        events = {event: MappingProxyType(dict(conditions)) for event, conditions in self.events.items()}
        object.__setattr__(self, "agents", MappingProxyType(agents))
        object.__setattr__(self, "events", MappingProxyType(events))

    def _check_events(self) -> None:
        """Require that the machine's events and those with conditions are the same, each controlled by agents."""
        check_conditions(self.machine.events, self.events)
        for event, conditions in self.events.items():
            refuse = partial(TaskError, key=f"events.{event}")
            if event not in self.machine.events:
                raise refuse(f"the machine has no such event ({known_names(event, self.machine.events)})")
            if not conditions:
                raise refuse("at least one agent must control an event")
            for agent, condition in conditions.items():
                require_known(agent, self.agents, "agent", refuse)
                for place in condition.places:
                    self.grid.place(place, f"events.{event}")

    def __repr__(self) -> str:
        return f"<Task {self.name!r}: {len(self.agents):,} agents, {self.grid.rows} x {self.grid.columns} cells>"

    def _repr_svg_(self) -> str | None:
        return show_in_notebook(self, "svg")

    @cached_property
    def controllers(self) -> Mapping[str, Names]:
        """The agents that control each event: those with a condition for it."""
        return MappingProxyType({event: Names(conditions) for event, conditions in self.events.items()})

    @property
    def control(self) -> Mapping[str, Names]:
        """The same as `controllers`, by the name of the argument of functions that take it."""
        return self.controllers

    @cached_property
    def controlled(self) -> Mapping[str, tuple[str, ...]]:
        """The events that each agent controls, in the order of the task."""
        return invert(self.controllers, self.agents)

    @cached_property
    def needs(self) -> Mapping[str, Names]:
        """The agents that must know each event: those that control it or have a gate that it opens or closes."""
        gated = {agent: [event for gate in row.values() for event in gate.events] for agent, row in self.gates.items()}
        by_gate = invert(gated, self.events)
        return MappingProxyType({event: Names((*agents, *by_gate[event])) for event, agents in self.control.items()})

    @cached_property
    def gates(self) -> Mapping[str, Mapping[str, Gate]]:
        """The gates of each agent, by region."""
        gates = {name: agent.gates.items() for name, agent in self.agents.items()}
        rows = {name: {region: Gate.of(gate) for region, gate in row} for name, row in gates.items()}
        return MappingProxyType({name: MappingProxyType(row) for name, row in rows.items()})

    @cached_property
    def knows(self) -> Mapping[str, Names]:
        """The local event set of each agent."""
        return MappingProxyType({name: Names(agent.knows) for name, agent in self.agents.items()})

    @cached_property
    def event_numbers(self) -> Mapping[str, int]:
        """The number of each event, in the order of the task."""
        return MappingProxyType({event: number for number, event in enumerate(self.events)})

    @cached_property
    def knowers(self) -> Mapping[str, tuple[str, ...]]:
        """The agents that know each event, in the order of the task."""
        return invert(self.knows, self.events)

    @cached_property
    def decomposition(self) -> Decomposition:
        """The local reward machines, and whether the task is decomposable."""
        return decompose(self.machine, self.knows, self.controllers)

    @cached_property
    def machines(self) -> Mapping[str, RewardMachine]:
        """The local reward machines without unreachable states; that of a single agent is the team machine."""
        if self.is_single_agent and isinstance(self.machine, RewardMachine):
            return MappingProxyType(dict.fromkeys(self.agents, reachable_part(self.machine)))
        return self.decomposition.machines

    @property
    def is_single_agent(self) -> bool:
        """Whether there is one agent, which knows every event, so that there is nothing to decompose."""
        return len(self.agents) == 1 and all(known == self.machine.events for known in self.knows.values())

    @property
    def has_rewards(self) -> bool:
        """Whether its rewards are other than 1 on entering a final state and 0 otherwise."""
        return not self.machine.has_completion_rewards

    @cached_property
    def is_continuing(self) -> bool:
        """Whether it has rewards and no end: an agent's machine has no final state."""
        return self.has_rewards and not all(machine.is_final.any() for machine in self.machines.values())

    def end_states(self, agent: str) -> NDArray[np.bool_]:
        """Flag the states in which an agent's own episode ends: final ones; with rewards, only those without events."""
        machine = self.machines[agent]
        return machine.ends if self.has_rewards and not self.is_single_agent else machine.is_final

    def closed_regions(self, agent: str) -> list[list[str]]:
        """List for each state of an agent's machine the regions that are closed to it."""
        machine = self.machines[agent]
        closed: list[list[str]] = [[] for _ in machine.states]
        for region, gate in self.gates[agent].items():
            key = f"gates.{region}.{agent}"
            for event in gate.events:
                if event not in machine.events:
                    subject = f"{event}, which {'opens' if event in gate.opens else 'closes'} the gate,"
                    raise TaskError(f"{subject} must be in the local event set of {agent}", key=key)
            for state in np.flatnonzero(~gate.is_open(machine, key)).tolist():
                closed[state].append(region)
        return closed

    def closed_cells(self, agent: str) -> list[frozenset[int]]:
        """List for each state of an agent's machine the cells that gates close to it."""
        closed = [tuple(regions) for regions in self.closed_regions(agent)]
        cells = {regions: frozenset[int]().union(*map(self.grid.places.__getitem__, regions)) for regions in {*closed}}
        return [cells[regions] for regions in closed]

    def with_knows(self, knows: Mapping[str, Iterable[str]]) -> Task:
        """Change the local event sets of some agents."""
        for name in knows:
            require_known(name, self.agents, "agent", partial(TaskError, key="knows"))
        changed = {name: replace(self.agents[name], knows=events) for name, events in knows.items()}
        return replace(self, agents={**self.agents, **changed})

    @cached_property
    def digest(self) -> str:
        """A hash of everything in it except its name, its description and the order of events."""
        document = self._document({})
        del document["name"], document["description"]
        machines = self.machine.parts if isinstance(self.machine, Composition) else {"": self.machine}
        document["machine"] = {name: _canonical(machine) for name, machine in machines.items()}
        document["order"] = list(self.agents)  # an agent's random numbers depend on its index
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def document(self) -> Document:
        """Write the task as nested tables, as in a file; places without letters are written as coordinates."""
        return self._document(self.grid.letters)

    def _document(self, letters: Mapping[str, str]) -> Document:
        grid, machine = self.grid, self.machine
        drawn = dict.fromkeys(grid.walls, WALL)
        legend = {letter: name for name, letter in reversed([*letters.items()])}
        for letter, name in sorted(legend.items(), key=lambda entry: -len(grid.places[entry[1]])):
            drawn |= dict.fromkeys(grid.places[name], letter)  # small places over large ones
        text = "".join(drawn.get(cell, FLOOR) for cell in range(grid.cells))
        lines = [text[start : start + grid.columns] for start in range(0, grid.cells, grid.columns)]
        document: Document = {"name": self.name, "description": self.description, "slip": float(self.slip)}
        if self.bodies:
            document["bodies"] = list(self.bodies) if isinstance(self.bodies, tuple) else self.bodies
        if grid.torus:
            document["torus"] = True
        document["map"] = "\n".join(write_thin(grid, lines) if grid.thin else lines) + "\n"
        if legend:
            document["legend"] = {letter: legend[letter] for letter in reversed(legend) if letter in text}
        listed = {
            name: [list(grid.row_column(cell)) for cell in sorted(cells) if legend.get(drawn.get(cell, "")) != name]
            for name, cells in grid.places.items()
        }
        document["places"] = {name: cells for name, cells in listed.items() if cells}
        document["agents"] = {name: _agent_to(agent, grid) for name, agent in self.agents.items()}
        gates: dict[str, dict[str, object]] = {}
        for name, agent in self.agents.items():
            for region, gate in agent.gates.items():
                gates.setdefault(region, {})[name] = gate if isinstance(gate, str) else _gate_to(gate)
        if gates:
            document["gates"] = gates
        lexicons = Lexicon(self.agents), Lexicon(grid.places)
        document["events"] = {event: self._sentence(event, lexicons) for event in self.events}
        if isinstance(machine, Composition):
            document["machine"] = {"parts": {agent: machine_to(part) for agent, part in machine.parts.items()}}
        else:
            document["machine"] = machine_to(machine)
        return document

    def _sentence(self, event: str, lexicons: tuple[Lexicon, Lexicon]) -> object:
        """Write the conditions of an event as a sentence, or by agent where names in a sentence would be misread."""
        conditions = dict(self.events[event])
        sentence = write_conditions(conditions)
        with suppress(TaskError):
            if parse_conditions(sentence, *lexicons, event) == conditions:
                return sentence
        by_agent = {agent: [str(way) for way in condition.ways] for agent, condition in conditions.items()}
        return {agent: texts if len(texts) > 1 else texts[0] for agent, texts in by_agent.items()}

    def __deepcopy__(self, memo: object) -> Task:
        return self  # nothing in it changes

    @cached_property
    def units(self) -> NDArray[np.int32]:
        """The number of the cell or region that holds one agent, for each cell; -1 where others may be, too: [S]."""
        return units_of(self.bodies, self.grid)

    @cached_property
    def edges(self) -> frozenset[str]:
        """The events that depend on where an agent was before a step; such an event happens at most once in a step."""
        return frozenset(event for event, row in self.events.items() if any(each.is_edge for each in row.values()))

    def masks(self, agent: str, event: str) -> tuple[Mask, ...]:
        """Flag the cells in which a step has to end, and to begin, for an agent that knows an event to propose it."""
        condition = self.events[event].get(agent, ANYWHERE)
        if condition not in self._masks:
            self._masks[condition] = condition.masks(self.grid, f"events.{event}")
        return self._masks[condition]

    @cached_property
    def _masks(self) -> dict[Condition, tuple[Mask, ...]]:
        return {}

    def where(self, agent: str, event: str) -> NDArray[np.bool_]:
        """Flag the cells in which an agent that knows an event may propose it, if it came from the right cell."""
        flags: NDArray[np.bool_] = np.logical_or.reduce([now for now, _ in self.masks(agent, event)])
        return flags

    def holds(self, agent: str, event: str, cell: int, before: int | None) -> bool:
        """Return whether an agent's condition of an event holds after a step; `before` is None if there was no step."""
        masks = self.masks(agent, event)
        return any(now[cell] and (was is None or (before is not None and was[before])) for now, was in masks)


def _agent_to(agent: Agent, grid: Grid) -> Document:
    cells = [list(grid.row_column(cell)) for cell in agent.starts]
    row: Document = {"start": cells[0] if len(cells) == 1 else cells, "knows": list(agent.knows)}
    optional: Document = {
        "memory": list(agent.memory),
        "options": [str(option) for option in agent.options],
        "sync": {event: float(probability) for event, probability in agent.sync.items()},
    }
    return row | {key: value for key, value in optional.items() if value}


def _gate_to(gate: Gate) -> Document:
    """Write a gate as in a file, without what is the default."""
    lists = {"open": gate.opens, "close": gate.closes}
    row: Document = {key: events[0] if len(events) == 1 else list(events) for key, events in lists.items() if events}
    if gate.starts_open != (not gate.opens):
        row["starts_open"] = gate.starts_open
    return row


def _canonical(machine: RewardMachine) -> object:
    moves = sorted([*key, target, machine.rewards[key]] for key, target in machine.transitions.items())
    states = sorted(machine.states)
    order = [] if list(machine.states) == states else [list(machine.states)]  # policies have arrays in this order
    return [machine.initial, states, sorted(machine.events), sorted(machine.final), moves, *order]


def _in_order(machine: Machine, agents: Mapping[str, Agent]) -> Machine:
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


def _check_rewards(machine: Machine) -> None:
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
            hint = f"; {hint}" if hint.startswith("did you mean") else ""
            raise TaskError(f"the machine has this event, but it has no condition{hint}", key=f"events.{event}")
