"""An agent of a task: where it starts, what it knows, and which gates are closed to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hocket.lazy import explain_kinds
from hocket.machine.names import Names
from hocket.task.grid import parts_of


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
