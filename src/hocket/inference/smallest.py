"""The smallest local machines that explain a log: the least sum of states, by incremental MaxSAT.

Only episodes that contradict the hypothesis so far are put to the solver. What it answers is checked against the whole
log, so the answer explains all of it, and no machines with fewer states (each of at most `size`) do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Timer
from typing import Any

from hocket.inference.encoding import SOLVER, Clauses, LocalMachine, TreePlaces, UnknownMachine, load_solvers
from hocket.inference.facts import Facts
from hocket.inference.logs import Episode

FIRST_SIZE, MORE_STATES = 6, 4  # states that a machine may have at first, and how many more where they do not suffice


@dataclass(frozen=True)
class Smallest:
    """Local machines that explain a log."""

    machines: Mapping[str, LocalMachine]
    total: int  # states, of all of them together
    bound: int  # no machines of at most `size` states each that explain the log have fewer in all
    size: int

    @property
    def is_minimal(self) -> bool:
        return self.total == self.bound


class SmallestSearch:
    """The search, which goes on where it was when the log grows."""

    def __init__(self, facts: Facts, largest: int) -> None:
        self.facts, self.largest = facts, largest  # facts of the whole log, to which its owner adds episodes
        self.used: list[Episode] = []  # what the solver has been told of
        self._begin(min(FIRST_SIZE, largest))

    def _begin(self, size: int) -> None:
        """Begin with machines of at most `size` states."""
        self.size = size
        self.told = Facts(self.facts.knows, self.facts.events)
        for episode in self.used:
            self.told.add(episode)
        clauses = self.clauses = Clauses()
        self.unknown = [UnknownMachine(clauses, self.facts.knows[agent], size) for agent in self.facts.agents]
        self.nodes = [TreePlaces(machine, tree) for machine, tree in zip(self.unknown, self.told.trees, strict=True)]
        self.is_used = [clauses.row(size) for _ in self.unknown]
        self.blocks: dict[tuple[int, int, str], int] = {}
        self.opens: dict[tuple[int, int], int] = {}
        self.encoded = [0, 0, 0, *(0 for _ in self.nodes)]
        self._encode()
        self.solver = self._make_solver()

    def _make_solver(self) -> Any:
        _, rc2 = load_solvers()
        from pysat.formula import WCNF

        formula = WCNF()
        formula.extend(self.clauses.take())
        for row in self.is_used:
            formula.extend([[-used] for used in row[1:]], weights=[1] * (len(row) - 1))
        return rc2(formula, solver=SOLVER, adapt=True, exhaust=True, minz=True)

    def _encode(self) -> None:
        """Put what was added to `told` into clauses."""
        told, clauses = self.told, self.clauses
        for index, nodes in enumerate(self.nodes):
            nodes.grow()
            for place in nodes.places[self.encoded[3 + index] :]:
                for here, used in zip(place, self.is_used[index], strict=True):
                    clauses.add(-here, used)
            self.encoded[3 + index] = len(nodes.places)
        for event, nodes_of_knowers in islice(told.refused, self.encoded[0], None):
            knowers = told.knowers[event]
            clauses.add(*(self._blocked(i, node, event) for i, node in zip(knowers, nodes_of_knowers, strict=True)))
        for ends in islice(told.done, self.encoded[1], None):
            for index, node in enumerate(ends):
                self.unknown[index].complete(self.nodes[index].places[node])
        for ends in islice(told.not_done, self.encoded[2], None):
            clauses.add(*(self._not_final(index, node) for index, node in enumerate(ends)))
        self.encoded[:3] = len(told.refused), len(told.done), len(told.not_done)

    def _blocked(self, agent: int, node: int, event: str) -> int:
        """Make a literal that is true only if an agent refuses an event at a node."""
        key = (agent, node, event)
        if key not in self.blocks:
            self.blocks[key] = self.clauses.variable()
            self.unknown[agent].refuse(self.nodes[agent].places[node], event, -self.blocks[key])
        return self.blocks[key]

    def _not_final(self, agent: int, node: int) -> int:
        """Make a literal that is true only if an agent's machine is not final at a node."""
        key = (agent, node)
        if key not in self.opens:
            self.opens[key] = self.clauses.variable()
            self.unknown[agent].go_on(self.nodes[agent].places[node], -self.opens[key])
        return self.opens[key]

    def run(self, episodes: Sequence[Episode], seconds: float) -> Smallest:
        """Find the smallest machines that explain the episodes, which the facts must be of and be explainable.

        When the time is up, the trees themselves are the answer, with the bound proved so far.
        """
        timer = Timer(seconds, lambda: self.solver.interrupt())
        timer.daemon = True
        timer.start()
        bound = 0
        try:
            while True:
                machines = self._solve()
                bound = max(bound, len(self.unknown) + self.solver.cost)
                if machines is None and not timer.is_alive():
                    return self._trees(bound)
                sizes = [0] if machines is None else [len(machine.states) for machine in machines]
                if (machines is None or max(sizes) >= self.size) and self.size < self.largest:
                    self._begin(min(self.size + MORE_STATES, self.largest))
                    bound = 0
                    continue
                if machines is None:
                    return self._trees(bound)
                prefix = _first_contradiction(self.facts, machines, episodes)
                if prefix is None:
                    named = dict(zip(self.facts.agents, machines, strict=True))
                    return Smallest(named, sum(sizes), len(sizes) + self.solver.cost, self.size)
                self.used.append(prefix)
                self.told.add(prefix)
                self._encode()
        finally:
            timer.cancel()

    def _solve(self) -> list[LocalMachine] | None:
        """Ask the solver; None where there are no machines of this size, or the time is up."""
        for clause in self.clauses.take():
            self.solver.add_clause(clause)
        model = self.solver.compute(expect_interrupt=True)
        if model is None:
            return None
        true = {literal for literal in model if literal > 0}
        return [self._decode(index, true) for index in range(len(self.unknown))]

    def _decode(self, agent: int, true: set[int]) -> LocalMachine:
        """Keep of a solution what the log exercises."""
        places, tree = self.nodes[agent].places, self.told.trees[agent]
        states = [next(state for state, here in enumerate(place) if here in true) for place in places]
        moves = {
            (states[node], event): states[child]
            for node, children in enumerate(tree.children)
            for event, child in children.items()
        }
        return LocalMachine(moves, frozenset(states[ends[agent]] for ends in self.told.done))

    def _trees(self, bound: int) -> Smallest:
        """Take the trees of the log for machines."""
        machines = {}
        for index, agent in enumerate(self.facts.agents):
            tree = self.facts.trees[index]
            moves = {(node, e): child for node, children in enumerate(tree.children) for e, child in children.items()}
            machines[agent] = LocalMachine(moves, frozenset(ends[index] for ends in self.facts.done))
        return Smallest(machines, sum(map(len, self.facts.trees)), bound, self.size)


def _first_contradiction(
    facts: Facts, machines: Sequence[LocalMachine], episodes: Sequence[Episode]
) -> Episode | None:
    """Find the shortest prefix of an episode that machines do not explain."""
    shortest: Episode | None = None
    for episode in episodes:
        limit = len(episode.attempts) if shortest is None else len(shortest.attempts) - 1
        length = first_disagreement(facts, machines, episode)
        if length is not None and length <= limit:
            shortest = Episode(episode.name, episode.attempts[:length])
    return shortest


def first_disagreement(facts: Facts, machines: Sequence[LocalMachine], episode: Episode) -> int | None:
    """Say after how many attempts machines and an episode first disagree; None where they never do."""
    states = [0] * len(machines)
    for position, (event, accepted, done) in enumerate(episode.attempts, start=1):
        targets = [machines[index].moves.get((states[index], event)) for index in facts.knowers[event]]
        if (None not in targets) != accepted:
            return position
        if accepted:
            for index, target in zip(facts.knowers[event], targets, strict=True):
                assert target is not None
                states[index] = target
            if is_done(machines, states) != done or (done and can_go_on(facts, machines, states)):
                return position
    return None


def is_done(machines: Sequence[LocalMachine], states: Sequence[int]) -> bool:
    """Say whether all machines are final."""
    return all(state in machine.final for machine, state in zip(machines, states, strict=True))


def can_go_on(facts: Facts, machines: Sequence[LocalMachine], states: Sequence[int]) -> bool:
    """Say whether some event is defined for all that know it."""
    return any(
        all((states[index], event) in machines[index].moves for index in knowers)
        for event, knowers in facts.knowers.items()
    )
