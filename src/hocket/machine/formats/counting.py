"""Transitions that count: an event that has to happen k times in a state before it leads on.

    shelf = { load = { to = "full", times = 3, otherwise = "road" } }

The first two times `load` leads from the shelf to the road, the third time to full. A machine that counts is written
out with copies of its states, one for each count that still matters there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hocket.errors import FormatError
from hocket.graphs import distances_from

MOST_TIMES = 1_000
MOST_COUNTERS = 16  # transitions that count, in one machine
MOST_COPIES = 10_000  # states that counting may add to a machine

Key = tuple[str, str]  # a state and an event
Counts = tuple[int, ...]  # how often each counting transition was taken since it last led on
Copy = tuple[str, Counts]


@dataclass(frozen=True)
class Counted:
    """A transition that leads to `to` every `times`-th time, and to `otherwise` before."""

    to: str
    times: int
    otherwise: str


class Counting:
    """A machine whose transitions may count."""

    def __init__(self, initial: str, moves: Mapping[Key, str | Counted], states: Sequence[str], at: str) -> None:
        self.initial, self.states = initial, states
        self.at = at  # where in a file the transitions stand
        self.counters = {key: target for key, target in moves.items() if isinstance(target, Counted)}
        if len(self.counters) > MOST_COUNTERS:
            rule = f"at most {MOST_COUNTERS} transitions of a machine may count, got {len(self.counters):,}"
            raise FormatError(rule, where=at)
        self.place = {key: place for place, key in enumerate(self.counters)}
        events = [event for _, event in self.counters]
        self.labels = [event if events.count(event) == 1 else f"{event} in {state}" for state, event in self.counters]
        self.rows: dict[str, list[tuple[str, str | Counted]]] = {}
        sources: dict[str, list[str]] = {}
        for (state, event), target in moves.items():
            self.rows.setdefault(state, []).append((event, target))
            for end in (target.to, target.otherwise) if isinstance(target, Counted) else (target,):
                sources.setdefault(end, []).append(state)
        # Of each counter: the states from which it can still be reached, so that it matters there.
        self.matters = [distances_from([state], lambda end: sources.get(end, ())) for state, _ in self.counters]
        self.copies = self._copies()

    @property
    def transitions(self) -> dict[Key, str]:
        """The transitions between copies, in the order of the states and events."""
        return {(self.name(copy), event): self.name(end) for copy in self.copies for event, end, _ in self.follow(copy)}

    def copies_of(self, states: Iterable[str]) -> list[str]:
        """List the names of all copies of some states."""
        wanted = {*states}
        return [self.name(copy) for copy in self.copies if copy[0] in wanted]

    def spread(self, rewards: Mapping[Key, float]) -> dict[Key, float]:
        """Give the copies of a transition its reward; one that counts has it when it leads on."""
        return {
            (self.name(copy), event): rewards[copy[0], event]
            for copy in self.copies
            for event, _, leads_on in self.follow(copy)
            if leads_on and (copy[0], event) in rewards
        }

    def _copies(self) -> list[Copy]:
        """List the states with all counts that some trace leads to, in the order of the states; each at least once."""
        none: Counts = (0,) * len(self.counters)
        reached = self._reach([(self.initial, none)])
        seen = {state for state, _ in reached}
        reached = self._reach([*reached, *((state, none) for state in self.states if state not in seen)])
        rank = {state: number for number, state in enumerate(self.states)}
        copies = sorted(reached, key=lambda copy: (rank[copy[0]], copy[1]))
        if len({self.name(copy) for copy in copies}) < len(copies):
            raise FormatError("a copy of a state would have the name of another state", where=self.at)
        return copies

    def _reach(self, roots: list[Copy]) -> Iterable[Copy]:
        room = iter(range(len(self.states) + MOST_COPIES))

        def ends(copy: Copy) -> Iterable[Copy]:
            if next(room, None) is None:
                rule = f"counting would add more than {MOST_COPIES:,} states to the machine"
                raise FormatError(f"{rule}: count less, or fewer things at a time", where=self.at)
            return (end for _, end, _ in self.follow(copy))

        return distances_from(roots, ends)

    def follow(self, copy: Copy) -> Iterable[tuple[str, Copy, bool]]:
        """List where events lead from a copy of a state, and whether they do not only count."""
        state, counts = copy
        for event, target in self.rows.get(state, ()):
            if isinstance(target, str):
                end, after, leads_on = target, counts, True
            else:
                place = self.place[state, event]
                leads_on = counts[place] + 1 == target.times
                end = target.to if leads_on else target.otherwise
                after = (*counts[:place], 0 if leads_on else counts[place] + 1, *counts[place + 1 :])
            kept = (count if end in states else 0 for count, states in zip(after, self.matters, strict=True))
            yield event, (end, tuple(kept)), leads_on

    def name(self, copy: Copy) -> str:
        """Name a copy after its state and what has been counted, as in "road, load 2 of 3"."""
        state, counts = copy
        rows = zip(self.labels, counts, self.counters.values(), strict=True)
        return ", ".join((state, *(f"{label} {count} of {counter.times}" for label, count, counter in rows if count)))
