"""Transitions as they are given: pairs, triples or rows of names, and as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from itertools import count as counter
from typing import NamedTuple

import numpy as np

from hocket.errors import MachineError
from hocket.graphs import Ints
from hocket.machine.names import check_name

Transitions = Mapping[tuple[str, str], str] | Iterable[tuple[str, str, str]]


class TransitionColumns(NamedTuple):
    """Transitions as columns of numbers, and the names that these stand for, in the order of their first use."""

    states: Mapping[str, int]
    events: Mapping[str, int]
    source: Ints
    label: Ints
    target: Ints

    @classmethod
    def of_table(cls, table: Mapping[tuple[str, str], str]) -> TransitionColumns:
        """Read (state, event) -> state."""
        ends = chain.from_iterable((state, target) for (state, _), target in table.items())
        states, places = _numbered(ends, 2 * len(table))
        events, label = _numbered((event for _, event in table), len(table))
        return cls(states, events, places[::2], label, places[1::2])

    @classmethod
    def of_rows(cls, rows: Mapping[str, Mapping[str, str]]) -> TransitionColumns:
        """Read state -> event -> state, looking at each name only once."""
        full = {state: row for state, row in rows.items() if row}
        sizes = np.fromiter(map(len, full.values()), np.int64, len(full))
        total = int(sizes.sum())
        ends = chain.from_iterable(chain((state,), row.values()) for state, row in full.items())
        states, places = _numbered(ends, total + len(full))
        first = np.cumsum(sizes + 1) - sizes - 1  # where the sources stand among their targets
        events, label = _numbered(chain.from_iterable(full.values()), total)
        return cls(states, events, np.repeat(places[first], sizes), label, np.delete(places, first))

    def states_from(self, initial: str) -> Iterable[str]:
        """The states in use, the initial one first if it is one of them or the only one."""
        return {initial: 0, **self.states} if initial in self.states or not self.states else self.states


def _numbered(names: Iterable[str], count: int) -> tuple[Mapping[str, int], Ints]:
    """Number so many names in the order of their first use; return the number of each name, and of all in a row."""
    number: defaultdict[str, int] = defaultdict(counter().__next__)
    places = np.fromiter(map(number.__getitem__, names), np.int32, count)
    number.default_factory = None
    return number, places


def as_table(transitions: Transitions) -> dict[tuple[str, str], str]:
    """Check the shape of the transitions and that none is given twice."""
    if isinstance(transitions, Mapping):
        table = dict(transitions)
        for key, target in table.items():
            if not (isinstance(key, tuple) and len(key) == 2):
                raise MachineError(f"a transition's key must be a pair (state, event), got {key!r:.60}")
            if not isinstance(target, str):
                check_name(target, "a state")
        return table
    if not isinstance(transitions, Iterable):
        raise MachineError(f"transitions must map (state, event) to a state, got {transitions!r:.60}")
    table = {}
    for triple in transitions:
        if not (isinstance(triple, tuple | list) and len(triple) == 3):
            raise MachineError(f"a transition must be (state, event, target), got {triple!r}")
        kinds = ("a state", "an event", "a state")
        state, event, target = (check_name(name, kind) for name, kind in zip(triple, kinds, strict=True))
        if (state, event) in table:
            raise MachineError(
                f"state {state!r} must have one transition on {event!r}, "
                f"got two: to {table[state, event]!r} and to {target!r}"
            )
        table[state, event] = target
    return table
