"""Transitions as they are given: pairs, triples or rows of names, and as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from hocket.errors import MachineError
from hocket.machine.names import check_name

Transitions = Mapping[tuple[str, str], str] | Iterable[tuple[str, str, str]]


class Moves(NamedTuple):
    """Transitions as columns of names, and the names that they use in the order of their first use."""

    states: Mapping[str, None]
    events: Mapping[str, None]
    source: Iterable[str]  # each of them once for all of its transitions that stand together
    sizes: Sequence[int]  # how many these are
    label: Iterable[str]
    target: Iterable[str]
    total: int

    @classmethod
    def of_table(cls, table: Mapping[tuple[str, str], str]) -> Moves:
        """Read (state, event) -> state."""
        states = dict.fromkeys(state for (state, _), target in table.items() for state in (state, target))
        events = dict.fromkeys(event for _, event in table)
        sources, labels = (state for state, _ in table), (event for _, event in table)
        return cls(states, events, sources, [1] * len(table), labels, table.values(), len(table))

    def states_from(self, initial: str) -> Mapping[str, None]:
        """The states in use, the initial one first if it is one of them or the only one."""
        return {initial: None, **self.states} if initial in self.states or not self.states else self.states

    @classmethod
    def of_rows(cls, rows: Mapping[str, Mapping[str, str]]) -> Moves:
        """Read state -> event -> state, with as little as possible to do for each transition."""
        states: dict[str, None] = {}
        for state, row in rows.items():
            if row:
                states[state] = None
                states.update(dict.fromkeys(row.values()))
        sizes = [len(row) for row in rows.values()]
        return cls(
            states,
            dict.fromkeys(chain.from_iterable(rows.values())),
            rows,
            sizes,
            chain.from_iterable(rows.values()),
            chain.from_iterable(row.values() for row in rows.values()),
            sum(sizes),
        )


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
