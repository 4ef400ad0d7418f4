"""Complete deterministic automata over events as integer arrays: minimising, products, and what events change.

Kinds of events are columns. An event without a column of its own behaves like all others do; so an automaton is as
wide as the events that matter to it, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import Flags, Ints
from hocket.machine.formulas.limits import Limits
from hocket.machine.formulas.partition import minimal

Longs = NDArray[np.int64]
Value = TypeVar("Value")
Situation = TypeVar("Situation", bound=Hashable)

AT_ONCE = 1 << 20  # moves of a product that are worked out together
DENSE = 1 << 25  # pairs of states up to which a product keeps a table of all of them


class Automaton(NamedTuple):
    """A minimal automaton; state 0 is the initial one, and states are numbered breadth first."""

    move: Ints  # [states, kinds]
    accepts: Flags  # [states]
    kind: Mapping[int, int]  # event -> its column
    others: int  # the column of all other events; -1 if every event has its own
    events: int  # how many events there are

    @property
    def states(self) -> int:
        return len(self.accepts)

    def column(self, event: int) -> int:
        """The column of an event."""
        return self.kind.get(event, self.others)

    def step(self, state: int, event: int) -> int:
        return int(self.move[state, self.column(event)])

    @property
    def changing(self) -> Flags:
        """Which kinds of events change some state: [kinds]."""
        return np.asarray((self.move != np.arange(self.states, dtype=np.int32)[:, None]).any(axis=0))

    def relevant(self) -> list[int]:
        """List the events that change some state."""
        return self._events_of(self.changing)

    def _events_of(self, kinds: Flags) -> list[int]:
        """List the events of some kinds."""
        if self.others >= 0 and kinds[self.others]:
            return [event for event in range(self.events) if kinds[self.column(event)]]
        return sorted(event for event, kind in self.kind.items() if kinds[kind])

    def examples(self) -> dict[int, int]:
        """Give for each kind its first event."""
        first: dict[int, int] = {}
        for event, kind in sorted(self.kind.items()):
            first.setdefault(kind, event)
        if self.others >= 0 and self.others not in first:
            first[self.others] = next(event for event in range(self.events) if event not in self.kind)
        return dict(sorted(first.items(), key=lambda item: item[1]))

    def along(self, start: Value, step: Callable[[Value, int], Value]) -> list[Value]:
        """Take a value along a shortest trace to each state, an event at a time: [states]."""
        reached = {0: start}
        events = self.examples()
        queue = [0]
        for state in queue:  # grows while it is read
            for kind, event in events.items():
                end = int(self.move[state, kind])
                if end not in reached:
                    reached[end] = step(reached[state], event)
                    queue.append(end)
        return [reached[state] for state in range(self.states)]

    @property
    def hopeless(self) -> Flags:
        """The states from which nothing is accepted, of which a minimal automaton has at most one: [states]."""
        return np.asarray(~self.accepts & (self.move == np.arange(self.states, dtype=np.int32)[:, None]).all(axis=1))

    @property
    def lasts(self) -> bool:
        """Whether what is accepted stays accepted, whatever happens."""
        return bool(self.accepts[self.move[self.accepts]].all())

    def breaking(self) -> list[int]:
        """List the events by which something accepted becomes something that is not."""
        return self._events_of(~np.asarray(self.accepts[self.move[self.accepts]].all(axis=0)))

    def complement(self) -> Automaton:
        """Accept what is not accepted."""
        return self._replace(accepts=~self.accepts)


def make_automaton(
    move: Ints, accepts: Flags, kind: Mapping[int, int], others: int, events: int, limits: Limits
) -> Automaton:
    """Minimise an automaton whose initial state is 0, and merge the kinds of events that do the same."""
    return _with_kinds(*minimal(move, accepts, 0, limits)[:2], kind, others, events)


def _with_kinds(move: Ints, accepts: Flags, kind: Mapping[int, int], others: int, events: int) -> Automaton:
    """Merge the kinds of events that do the same."""
    move, column = _merge_columns(move)
    kind = {event: column[old] for event, old in kind.items()}
    others = column[others] if others >= 0 else -1
    if others < 0:  # let one kind stand for the rest: the events that change nothing, if there are any
        still = np.flatnonzero((move == np.arange(len(move), dtype=np.int32)[:, None]).all(axis=0))
        others = int(still[0]) if len(still) else -1
    kind = {event: number for event, number in kind.items() if number != others}
    used = sorted({*kind.values(), others} - {-1})
    if len(used) < move.shape[1]:
        place = {old: new for new, old in enumerate(used)}
        move = np.ascontiguousarray(move[:, used])
        kind, others = {event: place[number] for event, number in kind.items()}, place.get(others, -1)
    if len(kind) == events:
        others = -1
    return Automaton(move, accepts, kind, others, events)


def _merge_columns(move: Ints) -> tuple[Ints, list[int]]:
    """Keep one of each set of equal columns; say for each column which one stands for it."""
    first: dict[bytes, int] = {}
    kept: list[int] = []
    column: list[int] = []
    for index in range(move.shape[1]):
        number = first.setdefault(np.ascontiguousarray(move[:, index]).tobytes(), len(first))
        if number == len(kept):
            kept.append(index)
        column.append(number)
    return (move if len(kept) == move.shape[1] else np.ascontiguousarray(move[:, kept])), column


def product(
    left: Automaton, right: Automaton, accept: Callable[[Flags, Flags], Flags], limits: Limits, what: str
) -> Automaton:
    """Run two automata side by side, reachable pairs only; `accept` says which pairs accept."""
    kind, others, columns = _joint_kinds(left, right)
    left_column, right_column = (np.array(part, np.intp) for part in zip(*columns, strict=True))
    wide = right.states
    sinks = _sinks(left, right, accept)
    queue: list[Longs] = [sinks.settle(np.zeros(1, np.int64))]
    moves: list[Longs] = []
    seen = _Seen(left.states * wide)
    seen.fresh(queue[0])
    count = 1
    for codes in queue:  # grows while it is read
        for code in np.array_split(codes, 1 + len(codes) * len(columns) // AT_ONCE):
            limits.check(what, count, len(columns))
            ends = (
                left.move[code // wide][:, left_column].astype(np.int64) * wide
                + right.move[code % wide][:, right_column]
            )
            ends = sinks.settle(ends)
            moves.append(ends)
            fresh = seen.fresh(ends.ravel())
            count += len(fresh)
            if len(fresh):
                queue.append(fresh)
    codes = np.concatenate(queue)
    move = np.concatenate([seen.number(codes, ends) for ends in moves])
    accepts = accept(left.accepts[codes // wide], right.accepts[codes % wide])
    return make_automaton(move, accepts, kind, others, left.events, limits)


def _joint_kinds(left: Automaton, right: Automaton) -> tuple[dict[int, int], int, list[tuple[int, int]]]:
    """Find the pairs of kinds that events of two automata have together."""
    number: dict[tuple[int, int], int] = {}
    kind: dict[int, int] = {}
    for event in {**left.kind, **right.kind}:
        pair = (left.column(event), right.column(event))
        kind[event] = number.setdefault(pair, len(number))
    others = -1
    if len(kind) < left.events:
        others = number.setdefault((left.others, right.others), len(number))
    return kind, others, list(number)


class _Sinks(NamedTuple):
    """Pairs that are as good as a single pair, because one side alone decides all that follows."""

    left: Longs  # [states of the left side] the code of the pair that stands for all with this state; -1: none
    right: Longs  # [states of the right side]
    wide: int

    def settle(self, codes: Longs) -> Longs:
        """Replace pairs by those that stand for them."""
        for by, state in ((self.left, codes // self.wide), (self.right, codes % self.wide)):
            if (by >= 0).any():
                code = by[state]
                codes = np.where(code >= 0, code, codes)
        return codes


def _sinks(left: Automaton, right: Automaton, accept: Callable[[Flags, Flags], Flags]) -> _Sinks:
    """Find the states that are never left and that decide what a product accepts, whatever the other side does."""
    both = np.array([False, True])
    codes = []
    for side, order in ((left, 1), (right, -1)):
        still = (side.move == np.arange(side.states, dtype=np.int32)[:, None]).all(axis=1)
        code = np.full(side.states, -1, np.int64)
        for state in np.flatnonzero(still).tolist():
            mine = np.repeat(side.accepts[state], 2)
            verdict = accept(*(mine, both)[::order])
            if verdict[0] == verdict[1]:
                code[state] = state * right.states if order == 1 else state
        codes.append(code)
    return _Sinks(codes[0], codes[1], right.states)


class _Seen:
    """Which codes have been met, and after the search their numbers."""

    def __init__(self, size: int) -> None:
        self.flags = np.zeros(size, np.bool_) if size <= DENSE else None
        self.met: set[int] = set()

    def fresh(self, codes: Longs) -> Longs:
        """Add codes; return those that are new, each once, in the order of their first appearance."""
        if self.flags is None:
            new = [code for code in dict.fromkeys(codes.tolist()) if code not in self.met]
            self.met.update(new)
            return np.array(new, np.int64)
        codes = codes[~self.flags[codes]]
        _, first = np.unique(codes, return_index=True)
        codes = codes[np.sort(first)]
        self.flags[codes] = True
        return codes

    def number(self, codes: Longs, wanted: Longs) -> Ints:
        """Say which position in `codes` each of the wanted ones has."""
        if self.flags is not None:
            place = np.zeros(len(self.flags), np.int32)
            place[codes] = np.arange(len(codes), dtype=np.int32)
            return place[wanted]
        order = np.argsort(codes)
        return order[np.searchsorted(codes, wanted, sorter=order)].astype(np.int32)


def conjunction(parts: Sequence[Automaton], limits: Limits, what: str) -> Automaton:
    """Multiply automata, small ones and those that share events first, minimising as the product grows."""
    waiting = list(parts)
    while len(waiting) > 1:
        waiting.sort(key=lambda part: part.states)
        smallest = waiting.pop(0)
        partner = min(range(len(waiting)), key=lambda index: _burden(smallest, waiting[index]))
        waiting.append(product(smallest, waiting.pop(partner), np.logical_and, limits, what))
    return waiting[0]


def _burden(left: Automaton, right: Automaton) -> float:
    """Guess how large a product will be: events in common keep it small."""
    common = len(left.kind.keys() & right.kind.keys())
    return right.states / (1 + 3 * common)


def constant(value: bool, events: int) -> Automaton:
    """Accept everything, or nothing."""
    return Automaton(np.zeros((1, 1), np.int32), np.array([value]), {}, 0, events)


def explore(
    start: Situation,
    step: Callable[[Situation, int], Situation],
    accepts: Callable[[int, Situation], bool],
    kinds: Sequence[int],
    events: int,
    limits: Limits,
    watch: Callable[[Sequence[Situation]], None],
) -> Automaton:
    """Follow traces of the events in `kinds`, and of -1 for all others, and make the automaton of where they lead.

    `accepts` is asked of each situation and its number, counted from the start. `watch` is shown all situations so far
    whenever one of them is gone on from, and raises an error where they are too many.
    """
    letters = [*kinds, -1] if len(kinds) < events else [*kinds]
    number = {start: 0}
    queue = [start]
    rows: list[list[int]] = []
    for situation in queue:  # grows while it is read
        watch(queue)
        rows.append([])
        for letter in letters:
            end = step(situation, letter)
            rows[-1].append(number.setdefault(end, len(queue)))
            if rows[-1][-1] == len(queue):
                queue.append(end)
    accepted = np.array([accepts(*pair) for pair in enumerate(queue)], np.bool_)
    kind = {event: column for column, event in enumerate(kinds)}
    others = len(kinds) if len(kinds) < events else -1
    return make_automaton(np.array(rows, np.int32), accepted, kind, others, events, limits)
