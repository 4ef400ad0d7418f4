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

    def trace_states(self, tree: Tree) -> list[int]:
        """Say in which state each node of a tree is, all of whose edges the machine has."""
        states = [0] * len(tree)
        for node, children in enumerate(tree.children):  # parents come before their children
            for event, child in children.items():
                states[child] = self.moves[states[node], event]
        return states


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

    def exactly_one(self, literals: Sequence[int]) -> None:
        self.add(*literals)
        self.at_most_one(literals)

    def at_most_one(self, literals: Iterable[int]) -> None:
        for one, other in combinations(literals, 2):
            self.add(-one, -other)

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
        place = self.clauses.row(self.size)
        self.clauses.exactly_one(place)
        return place

    def accept(self, before: Place, event: str, after: Place, *unless: int) -> None:
        """Let an event lead from one place to another, unless one of some literals is true."""
        for state, here in enumerate(before):
            self.clauses.add(*unless, -here, self.is_defined[state, event])
            for move, there in zip(self.moves[state, event], after, strict=True):
                self.clauses.add(*unless, -here, -move, there)
                self.clauses.add(*unless, -here, -there, move)

    def refuse(self, place: Place, event: str, *unless: int) -> None:
        """Let an event be undefined in a place, unless one of some literals is true."""
        for state, here in enumerate(place):
            self.clauses.add(*unless, -here, -self.is_defined[state, event])

    def define(self, place: Place, event: str, *unless: int) -> None:
        """Let an event be defined in a place, unless one of some literals is true."""
        for state, here in enumerate(place):
            self.clauses.add(*unless, -here, self.is_defined[state, event])

    def complete(self, place: Place, *unless: int) -> None:
        """Let a place be final, unless one of some literals is true."""
        for here, final in zip(place, self.is_final, strict=True):
            self.clauses.add(*unless, -here, final)

    def go_on(self, place: Place, *unless: int) -> None:
        """Let a place not be final, unless one of some literals is true."""
        for here, final in zip(place, self.is_final, strict=True):
            self.clauses.add(*unless, -here, -final)

    def decode(self, true: set[int]) -> LocalMachine:
        """Read the machine off a solution."""
        moves = {
            key: state
            for key, targets in self.moves.items()
            for state, variable in enumerate(targets)
            if variable in true
        }
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
        first = len(self.places)
        for _ in range(first, len(self.tree)):
            self._add_place()
        for node, children in enumerate(self.tree.children):
            for event, child in children.items():
                if child >= first:
                    self.machine.accept(self.places[node], event, self.places[child])

    def _add_place(self) -> None:
        place, clauses = self.machine.place(), self.machine.clauses
        if not self.places:
            clauses.add(place[0])
            self.places.append(place)
            self.reached = place
            return
        reached = clauses.row(self.machine.size)
        for state, here in enumerate(place):
            clauses.add(-here, reached[state])
            clauses.add(-self.reached[state], reached[state])
            clauses.add(-reached[state], self.reached[state], here)
            if state:
                clauses.add(-here, self.reached[state - 1])
        self.places.append(place)
        self.reached = reached


def first_disagreement(
    facts: Facts, machines: Sequence[LocalMachine], episode: Episode, shows_refusals: bool = True
) -> int | None:
    """Say after how many attempts machines and an episode first disagree; None where they never do."""
    states = [0] * len(machines)
    for position, (event, accepted, done) in enumerate(episode.attempts, start=1):
        happens = not step(machines, states, facts.knowers[event], event)
        if shows_refusals and happens != accepted:
            return position
        if (happens and is_done(machines, states)) != done:
            return position
        if done and can_go_on(facts, machines, states):
            return position
    return None


def step(machines: Sequence[LocalMachine], states: list[int], knowers: Sequence[int], event: str) -> list[int]:
    """Move the states of all that know an event, or of none; list those that refuse it."""
    blocking = [index for index in knowers if (states[index], event) not in machines[index].moves]
    if not blocking:
        for index in knowers:
            states[index] = machines[index].moves[states[index], event]
    return blocking


def is_done(machines: Sequence[LocalMachine], states: Sequence[int]) -> bool:
    """Say whether all machines are final."""
    return all(state in machine.final for machine, state in zip(machines, states, strict=True))


def can_go_on(facts: Facts, machines: Sequence[LocalMachine], states: Sequence[int]) -> bool:
    """Say whether some event is defined for all that know it."""
    return any(
        all((states[index], event) in machines[index].moves for index in knowers)
        for event, knowers in facts.knowers.items()
    )


def load_solvers() -> tuple[ModuleType, Any]:
    """Load python-sat (MIT, like the one of its solvers that is used): its solvers, and RC2 for the smallest sum."""
    with needs_extra("inference", "infer"):
        from pysat import solvers
        from pysat.examples.rc2 import RC2
    return solvers, RC2
