"""Transitions that count: an event that has to happen k times in a state before it leads on.

    shelf = { load = { to = "full", times = 3, otherwise = "road" } }

The first two times `load` leads from the shelf to the road, the third time to full. A machine that counts is written
out with copies of its states, one for each count that still matters there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class Counting:
    """A machine whose transitions may count."""

    initial: str
    moves: Mapping[Key, str | Counted]
    states: Sequence[str]
    at: str = ""  # where in a file the transitions stand

    def __post_init__(self) -> None:
        if len(self.counters) > MOST_COUNTERS:
            raise FormatError(
                f"at most {MOST_COUNTERS} transitions of a machine may count, got {len(self.counters):,}", where=self.at
            )

    @cached_property
    def counters(self) -> dict[Key, Counted]:
        return {key: target for key, target in self.moves.items() if isinstance(target, Counted)}

    @cached_property
    def transitions(self) -> dict[Key, str]:
        """The transitions between copies, in the order of the states and events."""
        return {(self.name(copy), event): self.name(end) for copy in self.copies for event, end in self.follow(copy)}

    def copies_of(self, states: Iterable[str]) -> list[str]:
        """List the names of all copies of some states."""
        wanted = {*states}
        return [self.name(copy) for copy in self.copies if copy[0] in wanted]

    def spread(self, rewards: Mapping[Key, float]) -> dict[Key, float]:
        """Give the copies of a transition its reward; one that counts has it when it leads on."""
        return {
            (self.name(copy), event): reward
            for copy in self.copies
            for event, target in self._rows.get(copy[0], ())
            if (reward := rewards.get((copy[0], event))) is not None
            and (not isinstance(target, Counted) or copy[1][self._place[copy[0], event]] + 1 == target.times)
        }

    @cached_property
    def copies(self) -> list[Copy]:
        """The states with all counts that some trace leads to, in the order of the states; each at least once."""
        none: Counts = (0,) * len(self.counters)
        reached = self._reach([(self.initial, none)])
        seen = {state for state, _ in reached}
        reached = self._reach([*reached, *((state, none) for state in self.states if state not in seen)])
        rank = {state: number for number, state in enumerate(self.states)}
        copies = sorted(reached, key=lambda copy: (rank[copy[0]], copy[1]))
        names = {self.name(copy) for copy in copies}
        if len(names) < len(copies):
            raise FormatError("a copy of a state would have the name of another state", where=self.at)
        return copies

    def _reach(self, roots: list[Copy]) -> Iterable[Copy]:
        room = iter(range(len(self.states) + MOST_COPIES))

        def ends(copy: Copy) -> Iterable[Copy]:
            if next(room, None) is None:
                rule = f"counting would add more than {MOST_COPIES:,} states to the machine"
                raise FormatError(f"{rule}: count less, or fewer things at a time", where=self.at)
            return (end for _, end in self.follow(copy))

        return distances_from(roots, ends)

    def follow(self, copy: Copy) -> Iterable[tuple[str, Copy]]:
        """List where events lead from a copy of a state."""
        state, counts = copy
        for event, target in self._rows.get(state, ()):
            if isinstance(target, Counted):
                place = self._place[state, event]
                last = counts[place] + 1 == target.times
                after = (*counts[:place], 0 if last else counts[place] + 1, *counts[place + 1 :])
                yield event, self._tidy(target.to if last else target.otherwise, after)
            else:
                yield event, self._tidy(target, counts)

    def _tidy(self, state: str, counts: Counts) -> Copy:
        """Forget the counts that no longer matter in a state, as nothing leads back to where they are made."""
        matters = self._matters.get(state, frozenset())
        return state, tuple(count if place in matters else 0 for place, count in enumerate(counts))

    def name(self, copy: Copy) -> str:
        """Name a copy after its state and what has been counted, as in "road, load 2 of 3"."""
        state, counts = copy
        told = [
            f"{label} {count} of {counter.times}"
            for label, count, counter in zip(self._labels, counts, self.counters.values(), strict=True)
            if count
        ]
        return ", ".join((state, *told))

    @cached_property
    def _labels(self) -> list[str]:
        events = [event for _, event in self.counters]
        return [event if events.count(event) == 1 else f"{event} in {state}" for state, event in self.counters]

    @cached_property
    def _place(self) -> dict[Key, int]:
        return {key: place for place, key in enumerate(self.counters)}

    @cached_property
    def _rows(self) -> dict[str, list[tuple[str, str | Counted]]]:
        rows: dict[str, list[tuple[str, str | Counted]]] = {}
        for (state, event), target in self.moves.items():
            rows.setdefault(state, []).append((event, target))
        return rows

    @cached_property
    def _matters(self) -> dict[str, frozenset[int]]:
        """For each state: the counters that can still be reached from it."""
        sources: dict[str, list[str]] = {}
        for (state, _), target in self.moves.items():
            for end in (target.to, target.otherwise) if isinstance(target, Counted) else (target,):
                sources.setdefault(end, []).append(state)
        matters: dict[str, frozenset[int]] = {}
        for place, (state, _) in enumerate(self.counters):
            for earlier in distances_from([state], lambda end: sources.get(end, ())):
                matters[earlier] = matters.get(earlier, frozenset()) | {place}
        return matters
