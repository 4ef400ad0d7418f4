"""An agent of a task: its start, its local event set, and which gates are closed to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError, require_known
from hocket.graphs import path_to, search_tree
from hocket.lazy import explain_kinds
from hocket.machine.names import Names, check_name
from hocket.machine.reward_machine import RewardMachine
from hocket.task.conditions import parse_option
from hocket.task.grid import Grid, Picklable

LONGEST_NAME = 200  # characters of a task, an agent or a place
MOST_LATCHED = 10  # events in an agent's memory; it has two to the power of that many values


@dataclass(frozen=True)
class Option:
    """A subtask of the hierarchical baseline: go to a place; available always, or once an event has happened."""

    target: str
    after: str | None = None

    def __str__(self) -> str:
        return self.target + (f" after {self.after}" if self.after else "")


@explain_kinds
@dataclass(frozen=True)
class Gate:
    """Which events open a region to an agent, and which close it again; the last one that happened decides.

    It is closed at the start, unless no event opens it or `starts_open` says otherwise; without events it stays closed.

    >>> Gate("on", "off")
    Gate(opens=('on',), closes=('off',), starts_open=False)
    """

    opens: str | tuple[str, ...] = ()
    closes: str | tuple[str, ...] = ()
    starts_open: bool | None = None

    def __post_init__(self) -> None:
        for name in ("opens", "closes"):
            events = getattr(self, name)
            object.__setattr__(self, name, (events,) if isinstance(events, str) else tuple(events))
        if self.starts_open is None:
            object.__setattr__(self, "starts_open", not self.opens)

    @classmethod
    def of(cls, gate: Gate | str) -> Gate:
        """Take a gate as it is, or an event as the gate that it opens for good."""
        return cls(gate) if isinstance(gate, str) else gate

    @property
    def events(self) -> Names:
        """All events that open or close it."""
        return Names((*self.opens, *self.closes))

    @property
    def short(self) -> Gate | str:
        """The event that opens it for good, if that is all there is to the gate."""
        return self.opens[0] if self == Gate(self.opens[:1]) and self.opens else self

    def is_open(self, machine: RewardMachine, key: str) -> NDArray[np.bool_]:
        """Flag the states of an agent's machine in which the gate is open. All traces to a state have to agree on that,
        unless it is final; such a state, and one that no trace reaches, counts as closed."""
        if self == CLOSED:
            return np.zeros(len(machine.states), np.bool_)
        after = dict.fromkeys(self.opens, True) | dict.fromkeys(self.closes, False)

        def successors(node: tuple[str, bool]) -> Iterator[tuple[str, tuple[str, bool]]]:
            for event, target in machine.moves.get(node[0], {}).items():
                yield event, (target, after.get(event, node[1]))

        tree = search_tree((machine.initial, bool(self.starts_open)), successors)  # nodes: (state, whether it is open)
        reached = {is_open for _, is_open in tree}
        for is_open, verb, events in ((True, "open", self.opens), (False, "close", self.closes)):
            if is_open not in reached:
                why = f"{events[0]} never happens" if len(events) == 1 else f"none of {', '.join(events)} ever happens"
                why = why if events else "no event does that"
                raise TaskError(f"this gate can never {verb}: {why} in the agent's machine", key=key)
        for state, is_open in tree:
            if is_open and (state, False) in tree and state not in machine.final:
                closed, opened = (", ".join(path_to(tree, (state, flag))) or "nothing" for flag in (False, True))
                fact = f"{self.short} has happened" if isinstance(self.short, str) else "the gate is open"
                both = f"{closed} and {opened} both lead to {state}"
                raise TaskError(f"a state must tell whether {fact}, but {both}", key=key)
        return np.array([(state, True) in tree and (state, False) not in tree for state in machine.states], np.bool_)

    def __str__(self) -> str:
        opened = f"until {' or '.join(self.opens)}" if self.opens else "for good"
        if not self.closes:
            return opened
        again = f"from {' or '.join(self.closes)} on"
        if self.starts_open:
            return f"{again} {opened}" if self.opens else again
        return f"{opened}, and again {again}"


CLOSED = Gate(starts_open=False)  # for good


@dataclass(frozen=True)
class Agent(Picklable):
    """Where an agent starts, its local event set, and which regions are closed to it, and when."""

    start: int | tuple[int, ...]  # a cell, or several that are equally likely
    knows: Iterable[str]  # its local event set
    gates: Mapping[str, Gate | str] = field(default_factory=dict)  # region -> its gate, or the event that opens it
    memory: tuple[str, ...] = ()  # events that the baselines' agent remembers to have happened
    options: tuple[Option, ...] = ()
    sync: Mapping[str, float] = field(default_factory=dict)  # event -> probability per step, instead of the setting's

    @property
    def starts(self) -> tuple[int, ...]:
        """The cells in which it may start."""
        return (self.start,) if isinstance(self.start, int) else self.start


def check_tidy(name: str, key: str) -> None:
    """Require a name that can stand in a sentence: without blanks at its ends."""
    check_name(name, "an agent or place")
    if len(name) > LONGEST_NAME:
        raise TaskError(f"names of agents and places have at most {LONGEST_NAME} characters", key=key)
    if name != name.strip():
        raise TaskError(f"names of agents and places have no blanks at their ends, got {name!r}", key=key)


def checked(name: str, agent: Agent, grid: Grid, numbers: Mapping[str, int]) -> Agent:
    """Require that everything that an agent names exists, and normalise its fields; `numbers` are those of events."""
    key = f"agents.{name}"
    check_tidy(name, key)

    def require_event(event: str, key: str) -> None:
        require_known(event, numbers, "event", partial(TaskError, key=key), " in the machine")

    starts = tuple(sorted({*agent.starts}))
    if not starts:
        raise TaskError("an agent needs a cell to start in", key=f"{key}.start")
    for cell in starts:
        grid.check_cell(cell, f"{key}.start")
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
        where = f"{key}.options"
        grid.place(option.target, where)
        if option.after is not None and option.after not in agent.memory:
            raise TaskError(f"an option waits for an event in memory, got {option.after!r}", key=where)
        if parse_option(str(option), grid.places, agent.memory) != (option.target, option.after):
            raise TaskError(f"{str(option)!r} is ambiguous: it can be read as another option", key=where)
    for event, probability in agent.sync.items():
        require_event(event, f"{key}.sync")
        if event not in known or not 0 < probability <= 1:
            rule = "must give events that the agent knows a chance above 0 and at most 1"
            raise TaskError(f"{rule}, got {event!r}: {probability!r}", key=f"{key}.sync")
    start, knows = starts[0] if len(starts) == 1 else starts, Names(sorted(known, key=numbers.__getitem__))
    short = MappingProxyType({region: gate.short for region, gate in gates.items()})
    return Agent(start, knows, short, tuple(agent.memory), tuple(agent.options), MappingProxyType(dict(agent.sync)))
