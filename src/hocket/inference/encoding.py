"""Unknown machines as propositional formulas: states are one-hot, transitions are partial and deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from types import ModuleType
from typing import Any, NamedTuple

from hocket.errors import needs_extra
from hocket.inference.facts import Facts, Tree
from hocket.inference.logs import Episode

SOLVER = "minisat22"  # under the MIT licence, as python-sat is, and it can be interrupted

Place = Sequence[int]  # a variable for each state of a machine, of which exactly one is true


class LocalMachine(NamedTuple):
    """A machine over numbered states, of which 0 is the initial one."""

    moves: Mapping[tuple[int, str], int]
    final: frozenset[int]

    @property
    def states(self) -> list[int]:
        return sorted({0, *(state for state, _ in self.moves), *self.moves.values()})

    def allows(self, state: int, event: str | None) -> bool:
        """Say whether an event is defined in a state; None: whether the state is final."""
        return state in self.final if event is None else (state, event) in self.moves

    def trace_states(self, tree: Tree) -> list[int]:
        """Say in which state each node of a tree is, all of whose edges the machine has."""
        states = [0] * len(tree)
        for node, children in enumerate(tree.children):  # parents come before their children
            for event, child in children.items():
                states[child] = self.moves[states[node], event]
        return states


def state_of(place: Place, true: set[int]) -> int:
    """Read off a solution which state a place has."""
    return next(state for state, here in enumerate(place) if here in true)


class Clauses:
    """Clauses over variables that are numbered from 1 on."""

    def __init__(self) -> None:
        self.variables = 0
        self.waiting: list[list[int]] = []  # that no solver has seen yet

    def variable(self) -> int:
        self.variables += 1
        return self.variables

    def row(self, count: int) -> list[int]:
        return [self.variable() for _ in range(count)]

    def add(self, *literals: int) -> None:
        self.waiting.append(list(literals))

    def one_of(self, count: int) -> list[int]:
        """Make variables of which exactly one is true."""
        row = self.row(count)
        self.add(*row)
        self.at_most_one(row)
        return row

    def at_most_one(self, literals: Iterable[int]) -> None:
        for one, other in combinations(literals, 2):
            self.add(-one, -other)

    def refused_by_some(
        self, machines: Mapping[int, UnknownMachine], places: Mapping[int, Place], event: str | None, *unless: int
    ) -> None:
        """Require of at least one machine that it refuses an event in its place; None: that it is not final there."""
        chosen = {index: self.variable() for index in places}
        self.add(*unless, *chosen.values())
        for index, place in places.items():
            machines[index].refuse(place, event, -chosen[index])

    def take(self) -> list[list[int]]:
        """Hand over the clauses that no solver has seen yet."""
        taken, self.waiting = self.waiting, []
        return taken


class UnknownMachine:
    """A machine of at most `size` states over some events, to be found by a solver."""

    def __init__(self, clauses: Clauses, events: Iterable[str], size: int) -> None:
        self.clauses, self.size = clauses, size
        self.is_final = clauses.row(size)
        self.is_defined = {(state, event): clauses.variable() for event in events for state in range(size)}
        self.moves = {key: clauses.row(size) for key in self.is_defined}
        for key, targets in self.moves.items():
            clauses.at_most_one(targets)
            clauses.add(-self.is_defined[key], *targets)
            for target in targets:
                clauses.add(-target, self.is_defined[key])

    def place(self) -> list[int]:
        """Make variables for a place in a run: which state the machine is in there."""
        return self.clauses.one_of(self.size)

    def accept(self, before: Place, event: str, after: Place, *unless: int) -> None:
        """Let an event lead from one place to another, unless one of some literals is true."""
        for state, here in enumerate(before):
            self.clauses.add(*unless, -here, self.is_defined[state, event])
            for move, there in zip(self.moves[state, event], after, strict=True):
                self.clauses.add(*unless, -here, -move, there)
                self.clauses.add(*unless, -here, -there, move)

    def allow(self, place: Place, event: str | None, *unless: int, sign: int = 1) -> None:
        """Let an event be defined in a place (None: let it be final), unless one of some literals is true."""
        for state, here in enumerate(place):
            fact = self.is_final[state] if event is None else self.is_defined[state, event]
            self.clauses.add(*unless, -here, sign * fact)

    def refuse(self, place: Place, event: str | None, *unless: int) -> None:
        """Let an event be undefined in a place (None: let it not be final), unless one of some literals is true."""
        self.allow(place, event, *unless, sign=-1)

    def decode(self, true: set[int]) -> LocalMachine:
        """Read the machine off a solution."""
        moves = {key: state_of(targets, true) for key, targets in self.moves.items() if not true.isdisjoint(targets)}
        reached = {0}
        while more := {end for (state, _), end in moves.items() if state in reached} - reached:
            reached |= more
        final = frozenset(state for state, variable in enumerate(self.is_final) if variable in true)
        return LocalMachine({key: end for key, end in moves.items() if key[0] in reached}, final & reached)


class TreePlaces:
    """The state of an unknown machine at each node of a tree. States are numbered in the order in which nodes first
    reach them, so that no two solutions differ in the numbering alone.
    """

    def __init__(self, machine: UnknownMachine, tree: Tree) -> None:
        self.machine, self.tree = machine, tree
        self.places: list[Place] = []
        self.reached: list[int] = []  # for each state, whether a node so far has it
        self.grow()

    def grow(self) -> None:
        """Make places for the nodes that have been added to the tree."""
        machine, clauses, first = self.machine, self.machine.clauses, len(self.places)
        for node in range(first, len(self.tree)):
            place = machine.place()
            self.places.append(place)
            if node == 0:
                clauses.add(place[0])
                self.reached = place
                continue
            before, self.reached = self.reached, clauses.row(machine.size)
            for state, (here, was, reached) in enumerate(zip(place, before, self.reached, strict=True)):
                clauses.add(-here, reached)
                clauses.add(-was, reached)
                clauses.add(-reached, was, here)
                if state:
                    clauses.add(-here, before[state - 1])
        for node, children in enumerate(self.tree.children):
            for event, child in children.items():
                if child >= first:
                    machine.accept(self.places[node], event, self.places[child])


def first_disagreement(
    facts: Facts, machines: Sequence[LocalMachine], episode: Episode, shows_refusals: bool = True
) -> int | None:
    """Say after how many attempts machines and an episode first disagree; None where they never do."""
    states = [0] * len(machines)
    for position, (event, accepted, done) in enumerate(episode.attempts, start=1):
        happens = not step(machines, states, facts.knowers[event], event)
        if (shows_refusals and happens != accepted) or (happens and is_done(machines, states)) != done:
            return position
        if done and not all(refusing(machines, states, agents, other) for other, agents in facts.knowers.items()):
            return position  # something could happen afterwards
    return None


def step(machines: Sequence[LocalMachine], states: list[int], knowers: Sequence[int], event: str) -> list[int]:
    """Move the states of all that know an event, or of none; list those that refuse it."""
    blocking = refusing(machines, states, knowers, event)
    if not blocking:
        for index in knowers:
            states[index] = machines[index].moves[states[index], event]
    return blocking


def refusing(machines: Sequence[LocalMachine], states: Sequence[int], knowers: Iterable[int], event: str) -> list[int]:
    """List those of the agents that know an event whose machines refuse it."""
    return [index for index in knowers if (states[index], event) not in machines[index].moves]


def is_done(machines: Sequence[LocalMachine], states: Sequence[int]) -> bool:
    """Say whether all machines are final."""
    return all(state in machine.final for machine, state in zip(machines, states, strict=True))


def load_solvers() -> tuple[ModuleType, Any]:
    """Load python-sat (MIT, like the one of its solvers that is used): its solvers, and RC2 for the smallest sum."""
    with needs_extra("inference", "infer"):
        from pysat import solvers
        from pysat.examples.rc2 import RC2
    return solvers, RC2
