"""An agent of a task: where it starts, what it knows, and which gates are closed to it."""

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
from hocket.task.grid import Grid, parts_of

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
    """What opens a region to an agent, and what closes it again: the last of these events to happen decides.

    It is closed at the start, unless nothing opens it or `starts_open` says otherwise; closed for good without events.

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
        """All that opens or closes it."""
        return Names((*self.opens, *self.closes))

    @property
    def short(self) -> Gate | str:
        """The event that opens it for good, where there is no more to say."""
        return self.opens[0] if self == Gate(self.opens[:1]) and self.opens else self

    def is_open(self, machine: RewardMachine, key: str) -> NDArray[np.bool_]:
        """Flag the states of an agent's machine in which the last of its events to happen has opened it.

        It is the same on all traces to the state, or it is an error, unless the state is final: then it counts as
        closed, as does what no trace reaches.
        """
        if self == CLOSED:
            return np.zeros(len(machine.states), np.bool_)
        after = dict.fromkeys(self.opens, True) | dict.fromkeys(self.closes, False)

        def moves(here: tuple[str, bool]) -> Iterator[tuple[str, tuple[str, bool]]]:
            for event, target in machine.moves.get(here[0], {}).items():
                yield event, (target, after.get(event, here[1]))

        ways = search_tree((machine.initial, bool(self.starts_open)), moves)  # to states, with the gate open or closed
        told = {opened for _, opened in ways}
        for opened, does, events in ((True, "open", self.opens), (False, "close", self.closes)):
            if opened not in told:
                why = f"{events[0]} never happens" if len(events) == 1 else f"none of {', '.join(events)} ever happens"
                why = why if events else "no event does that"
                raise TaskError(f"this gate can never {does}: {why} in the agent's machine", key=key)
        for state, opened in ways:
            if opened and (state, False) in ways and state not in machine.final:
                closed, open_ = (", ".join(path_to(ways, (state, seen))) or "nothing" for seen in (False, True))
                plain = isinstance(self.short, str)
                what = f"whether {self.short} has happened" if plain else "whether the gate is open"
                raise TaskError(f"a state must tell {what}, but {closed} and {open_} both lead to {state}", key=key)
        return np.array([(state, True) in ways and (state, False) not in ways for state in machine.states], np.bool_)

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
class Agent:
    """Where an agent starts, its local event set, and which regions are closed to it, and when."""

    start: int | tuple[int, ...]  # a cell, or several, of which each is as likely
    knows: Iterable[str]  # its local event set
    gates: Mapping[str, Gate | str] = field(default_factory=dict)  # region -> its gate, or the event that opens it
    memory: tuple[str, ...] = ()  # events that the baselines' agent remembers to have happened
    options: tuple[Option, ...] = ()
    sync: Mapping[str, float] = field(default_factory=dict)  # event -> chance per step, in place of the setting's

    @property
    def starts(self) -> tuple[int, ...]:
        """The cells in which it may start."""
        return (self.start,) if isinstance(self.start, int) else self.start

    def __reduce__(self) -> tuple[object, ...]:
        return Agent, parts_of(self)


def check_tidy(name: str, key: str) -> None:
    """Require a name that a sentence can carry: without blanks at its ends."""
    check_name(name, "an agent or place")
    if len(name) > LONGEST_NAME:
        raise TaskError(f"names of agents and places have at most {LONGEST_NAME} characters", key=key)
    if name != name.strip():
        raise TaskError(f"names of agents and places have no blanks at their ends, got {name!r}", key=key)


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
    short = MappingProxyType({region: gate.short for region, gate in gates.items()})
    anywhere, known = starts[0] if len(starts) == 1 else starts, Names(sorted(known, key=numbers.__getitem__))
    return Agent(anywhere, known, short, tuple(agent.memory), tuple(agent.options), MappingProxyType(dict(agent.sync)))
