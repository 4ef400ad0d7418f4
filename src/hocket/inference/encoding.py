"""Unknown machines as propositional formulas: states are one-hot, transitions are partial and deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from types import ModuleType
from typing import Any

from hocket.errors import needs_extra
from hocket.inference.facts import Tree
from hocket.inference.machines import LocalMachine

SOLVER = "minisat22"  # under the MIT licence, as python-sat is, and it can be interrupted

OneHot = Sequence[int]  # a variable for each state of a machine, of which exactly one is true


def state_of(variables: OneHot, true: set[int]) -> int:
    """Read a state off a solution."""
    return next(state for state, variable in enumerate(variables) if variable in true)


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
        self, machines: Mapping[int, UnknownMachine], states: Mapping[int, OneHot], event: str | None, *unless: int
    ) -> None:
        """Require that at least one machine refuses an event in its state; None: that one is not final there."""
        refuses = {index: self.variable() for index in states}
        self.add(*unless, *refuses.values())
        for index, state in states.items():
            machines[index].refuse(state, event, -refuses[index])

    def take(self) -> list[list[int]]:
        """Return the clauses that no solver has seen yet."""
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

    def accept(self, before: OneHot, event: str, after: OneHot, *unless: int) -> None:
        """Let an event lead from one state to another, unless one of some literals is true."""
        for state, here in enumerate(before):
            self.clauses.add(*unless, -here, self.is_defined[state, event])
            for move, there in zip(self.moves[state, event], after, strict=True):
                self.clauses.add(*unless, -here, -move, there)
                self.clauses.add(*unless, -here, -there, move)

    def allow(self, variables: OneHot, event: str | None, *unless: int, sign: int = 1) -> None:
        """Let an event be defined in a state (None: let it be final), unless one of some literals is true."""
        for state, here in enumerate(variables):
            is_allowed = self.is_final[state] if event is None else self.is_defined[state, event]
            self.clauses.add(*unless, -here, sign * is_allowed)

    def refuse(self, variables: OneHot, event: str | None, *unless: int) -> None:
        """Let an event be undefined in a state (None: let it not be final), unless one of some literals is true."""
        self.allow(variables, event, *unless, sign=-1)

    def decode(self, true: set[int]) -> LocalMachine:
        """Read the machine off a solution."""
        moves = {key: state_of(targets, true) for key, targets in self.moves.items() if not true.isdisjoint(targets)}
        reached = {0}
        while more := {end for (state, _), end in moves.items() if state in reached} - reached:
            reached |= more
        final = frozenset(state for state, variable in enumerate(self.is_final) if variable in true)
        return LocalMachine({key: end for key, end in moves.items() if key[0] in reached}, final & reached)


class NodeStates:
    """The state of an unknown machine at each node of a tree. States are numbered in the order in which nodes first
    reach them, so that no two solutions differ in the numbering alone."""

    def __init__(self, machine: UnknownMachine, tree: Tree) -> None:
        self.machine, self.tree = machine, tree
        self.states: list[OneHot] = []
        self.reached: list[int] = []  # for each state, whether a node so far has it
        self.grow()

    def grow(self) -> None:
        """Add the states of the nodes that have been added to the tree."""
        machine, clauses, first = self.machine, self.machine.clauses, len(self.states)
        for node in range(first, len(self.tree)):
            self.states.append(clauses.one_of(machine.size))
            if node == 0:
                clauses.add(self.states[0][0])
                self.reached = [*self.states[0]]
                continue
            before, self.reached = self.reached, clauses.row(machine.size)
            for state, (here, was, reached) in enumerate(zip(self.states[node], before, self.reached, strict=True)):
                clauses.add(-here, reached)
                clauses.add(-was, reached)
                clauses.add(-reached, was, here)
                if state:
                    clauses.add(-here, before[state - 1])
        for node, children in enumerate(self.tree.children):
            for event, child in children.items():
                if child >= first:
                    machine.accept(self.states[node], event, self.states[child])


def load_solvers() -> tuple[ModuleType, Any]:
    """Load python-sat (MIT, like the one of its solvers that is used): its solvers, and RC2 for the smallest sum."""
    with needs_extra("inference", "infer"):
        from pysat import solvers
        from pysat.examples.rc2 import RC2
    return solvers, RC2
