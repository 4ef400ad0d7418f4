"""Complete deterministic automata over events as integer arrays: minimising, products, and what events change.

Kinds of events are columns. An event without a column of its own behaves like all others do; so an automaton is as
wide as the events that matter to it, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import Flags, Ints, levels, make_graph, positions_in, ranges, search_tree
from hocket.machine.formulas.syntax import Limits

Longs = NDArray[np.int64]
Combine = Callable[[Flags, Flags], Flags]
Kinds = Mapping[int, int]  # event -> its column
Value = TypeVar("Value")
State = TypeVar("State", bound=Hashable)

AT_ONCE = 1 << 20  # moves of a product that are computed together
DENSE = 1 << 25  # pairs of states up to which a product keeps a table of all of them


class Automaton(NamedTuple):
    """A minimal automaton; state 0 is the initial one, and states are numbered breadth first."""

    move: Ints  # [states, kinds]
    accepts: Flags  # [states]
    kind: Kinds
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

    def is_absorbing(self, state: int) -> bool:
        """Whether a state is never left."""
        return bool((self.move[state] == state).all())

    def relevant(self) -> list[int]:
        """List the events that change some state."""
        return self._events_of(~np.asarray(loops(self.move).all(axis=0)))

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
        """Take a value along a shortest trace to each state, one event at a time: [states]."""
        rows, events = self.move.tolist(), self.examples()
        tree = search_tree(0, lambda state: ((event, rows[state][kind]) for kind, event in events.items()))
        values: dict[int, Value] = {}
        for state, reached_by in tree.items():
            values[state] = start if reached_by is None else step(values[reached_by[0]], reached_by[1])
        return [values[state] for state in range(self.states)]

    @property
    def dead_ends(self) -> Flags:
        """The states from which nothing is accepted, of which a minimal automaton has at most one: [states]."""
        return np.asarray(~self.accepts & loops(self.move).all(axis=1))

    @property
    def stays_accepting(self) -> bool:
        """Whether an accepted trace is still accepted after any further events."""
        return bool(self.accepts[self.move[self.accepts]].all())

    def breaking_events(self) -> list[int]:
        """List the events that lead from an accepting state to one that is not."""
        return self._events_of(~np.asarray(self.accepts[self.move[self.accepts]].all(axis=0)))

    def complement(self) -> Automaton:
        """Accept the traces that are not accepted."""
        return self._replace(accepts=~self.accepts)


def loops(move: Ints) -> Flags:
    """Flag the moves that lead from a state to itself."""
    return np.asarray(move == np.arange(len(move), dtype=np.int32)[:, None])


def make_automaton(move: Ints, accepts: Flags, kind: Kinds, others: int, events: int, limits: Limits) -> Automaton:
    """Minimise an automaton whose initial state is 0, and merge the kinds of events that do the same."""
    move, accepts = minimal(move, accepts, limits)
    first: dict[bytes, int] = {}  # equal columns have the same number
    column = [first.setdefault(np.ascontiguousarray(row).tobytes(), len(first)) for row in move.T]
    if len(first) < move.shape[1]:
        move = np.ascontiguousarray(move[:, np.unique(column, return_index=True)[1]])
    kind = {event: column[old] for event, old in kind.items()}
    others = column[others] if others >= 0 else -1
    if others < 0:  # let one kind stand for the rest: the events that change nothing, if there are any
        unchanging = np.flatnonzero(loops(move).all(axis=0))
        others = int(unchanging[0]) if len(unchanging) else -1
    kind = {event: number for event, number in kind.items() if number != others}
    return Automaton(move, accepts, kind, others, events)


def product(left: Automaton, right: Automaton, accept: Combine, limits: Limits, what: str) -> Automaton:
    """Run two automata in parallel, reachable pairs only; `accept` says which pairs accept."""
    columns: dict[tuple[int, int], int] = {}  # the kinds of an event in both -> its kind in the product
    kind, others = {}, -1
    for event in {**left.kind, **right.kind}:
        kind[event] = columns.setdefault((left.column(event), right.column(event)), len(columns))
    if len(kind) < left.events:
        others = columns.setdefault((left.others, right.others), len(columns))
    left_column, right_column = (np.array(part, np.intp) for part in zip(*columns, strict=True))
    representative = _representatives(left, right, accept)
    queue: list[Longs] = [representative(np.zeros(1, np.int64))]
    moves: list[Longs] = []
    seen = _Codes(left.states * right.states)
    seen.add(queue[0])
    count = 1
    for codes in queue:  # grows while it is read
        for code in np.array_split(codes, 1 + len(codes) * len(columns) // AT_ONCE):
            limits.check(what, count, len(columns))
            left_end = left.move[code // right.states][:, left_column].astype(np.int64)
            moves.append(representative(left_end * right.states + right.move[code % right.states][:, right_column]))
            new = seen.add(moves[-1].ravel())
            count += len(new)
            if len(new):
                queue.append(new)
    codes = np.concatenate(queue)
    move = np.concatenate([seen.positions(codes, ends) for ends in moves])
    accepts = accept(left.accepts[codes // right.states], right.accepts[codes % right.states])
    return make_automaton(move, accepts, kind, others, left.events, limits)


def _representatives(left: Automaton, right: Automaton, accept: Combine) -> Callable[[Longs], Longs]:
    """Make a function that maps equivalent pairs of states to one of them, where one side decides all that follows.

    That is so in a state that is never left, if what the product accepts does not depend on the other side.
    """
    chosen = []  # [states of the side] the code of the pair that represents all pairs with this state; -1: none
    for side, order, factor in ((left, 1, right.states), (right, -1, 1)):
        code = np.full(side.states, -1, np.int64)
        for state in np.flatnonzero(loops(side.move).all(axis=1)).tolist():
            verdict = accept(*(np.repeat(side.accepts[state], 2), np.array([False, True]))[::order])
            if verdict[0] == verdict[1]:
                code[state] = state * factor
        chosen.append(code)

    def representative(codes: Longs) -> Longs:
        for code, state in zip(chosen, (codes // right.states, codes % right.states), strict=True):
            if (code >= 0).any():
                codes = np.where(code[state] >= 0, code[state], codes)
        return codes

    return representative


class _Codes:
    """A set of codes, kept as flags of all codes unless there could be too many."""

    def __init__(self, size: int) -> None:
        self.flags = np.zeros(size, np.bool_) if size <= DENSE else None
        self.listed: set[int] = set()

    def add(self, codes: Longs) -> Longs:
        """Add codes; return those that are new, each once, in the order of their first appearance."""
        if self.flags is None:
            new = [code for code in dict.fromkeys(codes.tolist()) if code not in self.listed]
            self.listed.update(new)
            return np.array(new, np.int64)
        codes = codes[~self.flags[codes]]
        _, first = np.unique(codes, return_index=True)
        codes = codes[np.sort(first)]
        self.flags[codes] = True
        return codes

    def positions(self, codes: Longs, wanted: Longs) -> Ints:
        """Find the positions of the wanted ones in `codes`."""
        if self.flags is not None:
            return positions_in(codes, len(self.flags))[wanted]
        order = np.argsort(codes)
        return order[np.searchsorted(codes, wanted, sorter=order)].astype(np.int32)


def conjunction(parts: Sequence[Automaton], limits: Limits, what: str) -> Automaton:
    """Multiply automata, small ones and those that share events first, minimising as the product grows."""
    factors = list(parts)
    while len(factors) > 1:
        smallest, *others = sorted(factors, key=lambda factor: factor.states)
        costs = [other.states / (1 + 3 * len(smallest.kind.keys() & other.kind.keys())) for other in others]
        partner = others.pop(costs.index(min(costs)))  # events in common keep the product small
        factors = [*others, product(smallest, partner, np.logical_and, limits, what)]
    return factors[0]


def explore(
    start: State,
    step: Callable[[State, int], State],
    accepts: Callable[[int, State], bool],
    kinds: Sequence[int],
    events: int,
    limits: Limits,
    watch: Callable[[Sequence[State]], None],
) -> Automaton:
    """Make the automaton of all states that traces of the events in `kinds`, and of -1 for all others, lead to.

    `accepts` takes the number of a state, counted from the start, and the state. `watch` is called with all states so
    far before each one is expanded, and raises an error where they are too many.
    """
    others = len(kinds) if len(kinds) < events else -1
    columns = [*kinds] if others < 0 else [*kinds, -1]
    number = {start: 0}
    queue = [start]
    rows: list[list[int]] = []
    for state in queue:  # grows while it is read
        watch(queue)
        rows.append([])
        for event in columns:
            end = step(state, event)
            rows[-1].append(number.setdefault(end, len(queue)))
            if rows[-1][-1] == len(queue):
                queue.append(end)
    accepted = np.array([accepts(*pair) for pair in enumerate(queue)], np.bool_)
    kind = {event: column for column, event in enumerate(kinds)}
    return make_automaton(np.array(rows, np.int32), accepted, kind, others, events, limits)


# Minimising: merging equivalent states, a column at a time.


def minimal(move: Ints, accepts: Flags, limits: Limits) -> tuple[Ints, Flags]:
    """Merge equivalent states, and drop those that cannot be reached from state 0.

    Returns the moves and the acceptance of the classes, numbered breadth first.
    """
    reached = reachable(move, limits)
    if not np.array_equal(reached, np.arange(len(move))):
        move, accepts = positions_in(reached, len(move))[move[reached]], accepts[reached]
    classes = _coarsest_partition(move, accepts, limits)
    count = int(classes.max()) + 1
    if count == len(move):
        return move, accepts
    # The states are numbered breadth first, so ordering classes by their first states keeps it so.
    first = np.unique(classes, return_index=True)[1]
    order = np.argsort(first)
    number, first = positions_in(order, count), first[order]
    return number[classes][move[first]], accepts[first]


def reachable(move: Ints, limits: Limits) -> Ints:
    """List the states that can be reached from state 0, breadth first."""
    order = []
    for level in levels(len(move), np.zeros(1, np.int32), lambda level: move[level]):
        limits.check("this formula", len(move))
        order.append(level)
    return np.concatenate(order)


def _coarsest_partition(move: Ints, accepts: Flags, limits: Limits) -> Ints:
    """Refine classes by where events lead until they are stable (Moore's algorithm, a column at a time).

    It begins with the lengths of the shortest traces into and out of acceptance, which are the same for equivalent
    states; so it needs few rounds. Rounds compare hashes of rows, which may take two rows for one but never one for
    two; the last round compares the rows themselves, so that the answer is exact.
    """
    alike = accepts[move] == accepts[:, None]
    # How far each state is from one that is accepted differently: 0 if there is none, 1 if it is a step away, ...
    distance = distances(move, ~alike.all(axis=1), alike, limits) + 1
    classes, count = _numbered(distance * np.int64(2) + accepts)
    generator = np.random.default_rng(0)
    while True:
        limits.check("this formula", len(move))
        if count == len(move):
            return classes
        weight = generator.integers(0, np.iinfo(np.int64).max, size=(2, count), dtype=np.int64).astype(np.uint64)
        mixed = weight[0][classes]
        for kind in range(move.shape[1]):
            factor = np.uint64(generator.integers(0, np.iinfo(np.int64).max) | 1)
            mixed += (weight[1] * factor)[classes[move[:, kind]]]
        finer, finer_count = _numbered(mixed)
        if finer_count == count and _is_stable(move, classes, count):
            return classes
        classes, count = _numbered(classes.astype(np.int64) * finer_count + finer)


def _numbered(values: NDArray[np.int64 | np.uint64]) -> tuple[Ints, int]:
    distinct, classes = np.unique(values, return_inverse=True)
    return classes.astype(np.int32).ravel(), len(distinct)


def _is_stable(move: Ints, classes: Ints, count: int) -> bool:
    """Check that the members of a class go to the same classes."""
    member = np.empty(count, np.int64)
    member[classes] = np.arange(len(classes))
    ends = (classes[move[:, kind]] for kind in range(move.shape[1]))
    return all(np.array_equal(row[member[classes]], row) for row in ends)


def distances(move: Ints, goal: Flags, usable: Flags | None, limits: Limits) -> Longs:
    """Count the moves of a shortest path from each state to a goal, over usable moves; -1 where there is none."""
    states, kinds = move.shape
    moves = np.arange(move.size) if usable is None else np.flatnonzero(usable)
    source = (moves // kinds).astype(np.int32)
    (first, _, _, before), _ = make_graph(states, move.ravel()[moves], source, source)  # with each move reversed
    distance = np.full(states, -1, np.int64)
    goals = np.flatnonzero(goal).astype(np.int32)
    for count, level in enumerate(levels(states, goals, lambda level: before[ranges(first[level], first[level + 1])])):
        limits.check("this formula", states)
        distance[level] = count
    return distance
