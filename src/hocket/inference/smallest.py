"""The smallest local machines that explain a log: the least sum of states, by incremental MaxSAT.

Only episodes that contradict the hypothesis so far are put to the solver. What it answers is checked against the whole
log, so the answer explains all of it, and no machines with fewer states (each of at most `size`) do.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, repeat
from threading import Timer
from typing import NamedTuple

from hocket.inference.encoding import SOLVER, Clauses, NodeStates, OneHot, UnknownMachine, load_solvers, state_of
from hocket.inference.facts import Facts
from hocket.inference.logs import Attempt, Episode, LogError
from hocket.inference.machines import LocalMachine, first_disagreement

FIRST_SIZE, MORE_STATES = 6, 4  # states that a machine may have at first, and how many more if they do not suffice
STATE_BITS = 8  # the cost of a state if the log may be wrong: about the length of its row of transitions


@dataclass(frozen=True)
class Smallest:
    """Local machines that explain a log."""

    machines: Mapping[str, LocalMachine]
    bound: int  # no machines of at most `size` states each that explain the log have fewer states in all
    size: int
    disbelieved: tuple[tuple[str, int], ...] = ()  # (episode, position) of attempts that count as wrong entries

    @property
    def total(self) -> int:
        """The states of all machines together."""
        return sum(len(machine.states) for machine in self.machines.values())


class MachineSearch(ABC):
    """A search for the smallest machines, which can be continued when the log has grown."""

    state_cost = 1
    refusals_observed = True  # whether the log says what was refused

    def __init__(self, facts: Facts, largest: int) -> None:
        self.facts, self.largest = facts, largest  # facts of the whole log, to which the caller adds episodes
        self.encoded: list[Episode] = []  # prefixes of episodes that are in clauses
        self.begin(min(FIRST_SIZE, largest))

    def begin(self, size: int) -> None:
        """Begin with machines of at most `size` states each."""
        self.size, self.clauses = size, Clauses()
        self.entries: dict[int, tuple[str, int]] = {}  # literal of a belief -> (episode, position) that may be wrong
        self.unknown = [UnknownMachine(self.clauses, self.facts.knows[agent], size) for agent in self.facts.agents]
        self.is_used = [self.clauses.row(size) for _ in self.unknown]
        self.soft: list[tuple[int, int]] = [(-used, self.state_cost) for row in self.is_used for used in row[1:]]
        self.prepare()
        for episode in self.encoded:
            self.encode(episode)
        _, rc2 = load_solvers()
        from pysat.formula import WCNF

        formula = WCNF()
        formula.extend(self.clauses.take())
        for literal, weight in self.soft:
            formula.append([literal], weight=weight)
        self.soft = []
        self.solver = rc2(formula, solver=SOLVER, adapt=True, exhaust=True, minz=True)

    def use(self, agent: int, state: OneHot) -> None:
        """Count a state among those that an agent's machine uses."""
        for here, used in zip(state, self.is_used[agent], strict=True):
            self.clauses.add(-here, used)

    def run(self, episodes: Iterable[Episode], seconds: float) -> Smallest:
        """Find the smallest machines that explain the episodes, which must be those of the facts. When the time is up,
        or no machines of the largest size do, answer without the solver, with the bound proved so far."""
        timer = Timer(seconds, lambda: self.solver.interrupt())
        timer.daemon = True
        timer.start()
        bound = len(self.unknown)
        try:
            while (true := self._solve()) is not None or (timer.is_alive() and self.size < self.largest):
                machines = [] if true is None else self.decode(true)
                is_tight = self.size < self.largest and any(len(machine.states) >= self.size for machine in machines)
                if true is None or is_tight:
                    self.begin(min(self.size + MORE_STATES, self.largest))
                    bound = len(self.unknown)
                    continue
                bound = max(bound, self.least_states())
                if (prefix := self.contradiction(machines, episodes)) is None:
                    named = dict(zip(self.facts.agents, machines, strict=True))
                    disbelieved = (entry for belief, entry in self.entries.items() if belief not in (true or ()))
                    return Smallest(named, bound, self.size, tuple(disbelieved))
                self.encoded.append(prefix)
                self.encode(prefix)
            self.begin(self.size)  # a solver that was interrupted is not used again
            return self.give_up(bound)
        finally:
            timer.cancel()

    def least_states(self) -> int:
        """Return the least number of states of machines that explain the prefixes encoded so far."""
        return len(self.unknown) + int(self.solver.cost)

    def _solve(self) -> set[int] | None:
        """Run the solver; None where there are no machines of this size, or the time is up."""
        for clause in self.clauses.take():
            self.solver.add_clause(clause)
        for literal, weight in self.soft:
            self.solver.add_clause([literal], weight=weight)
        self.soft = []
        model = self.solver.compute(expect_interrupt=True)
        return None if model is None else {literal for literal in model if literal > 0}

    def contradiction(self, machines: Sequence[LocalMachine], episodes: Iterable[Episode]) -> Episode | None:
        """Find the shortest prefix of an episode that machines do not explain."""
        lengths = ((first_disagreement(self.facts, machines, each, self.refusals_observed), each) for each in episodes)
        prefixes = (Episode(each.name, each.attempts[:length]) for length, each in lengths if length is not None)
        return min(prefixes, key=lambda prefix: len(prefix.attempts), default=None)

    @abstractmethod
    def prepare(self) -> None:
        """Encode the initial state."""

    @abstractmethod
    def encode(self, episode: Episode) -> None:
        """Add the clauses of an episode."""

    @abstractmethod
    def decode(self, true: set[int]) -> list[LocalMachine]:
        """Make the machines of a solution, with the transitions that the log exercises."""

    @abstractmethod
    def give_up(self, bound: int) -> Smallest:
        """Answer without the solver."""


class TreeSearch(MachineSearch):
    """For logs that show what was accepted: accepted traces with equal projections lead to the same state."""

    def prepare(self) -> None:
        self.known = Facts(self.facts.knows, self.facts.events)  # of the prefixes encoded so far
        self.nodes = [NodeStates(machine, tree) for machine, tree in zip(self.unknown, self.known.trees, strict=True)]
        self.refusals: dict[tuple[int, int, str | None], int] = {}
        self.refused = self.done = self.not_done = 0  # how many of each are in clauses
        self._encode_new([0] * len(self.nodes))

    def encode(self, episode: Episode) -> None:
        before = [len(nodes.states) for nodes in self.nodes]
        self.known.add(episode)
        self._encode_new(before)

    def _encode_new(self, before: Sequence[int]) -> None:
        known = self.known
        for index, nodes in enumerate(self.nodes):
            nodes.grow()
            for state in nodes.states[before[index] :]:
                self.use(index, state)
        for event, nodes_of_knowers in islice(known.refused, self.refused, None):
            self.clauses.add(*map(self._refusal, known.knowers[event], nodes_of_knowers, repeat(event)))
        for ends in islice(known.done, self.done, None):
            for index, node in enumerate(ends):
                self.unknown[index].allow(self.nodes[index].states[node], None)
        for ends in islice(known.not_done, self.not_done, None):
            self.clauses.add(*map(self._refusal, count(), ends, repeat(None)))
        self.refused, self.done, self.not_done = len(known.refused), len(known.done), len(known.not_done)

    def _refusal(self, agent: int, node: int, event: str | None) -> int:
        """Make a literal that is true only if an agent refuses an event at a node; None: if it is not final there."""
        key = (agent, node, event)
        if key not in self.refusals:
            self.refusals[key] = self.clauses.variable()
            self.unknown[agent].refuse(self.nodes[agent].states[node], event, -self.refusals[key])
        return self.refusals[key]

    def decode(self, true: set[int]) -> list[LocalMachine]:
        return _as_machines(self.known, [[state_of(state, true) for state in nodes.states] for nodes in self.nodes])

    def give_up(self, bound: int) -> Smallest:
        """Return the trees of the log as machines."""
        machines = _as_machines(self.facts, [range(len(tree)) for tree in self.facts.trees])
        return Smallest(dict(zip(self.facts.agents, machines, strict=True)), bound, self.size)


def _as_machines(facts: Facts, states: Sequence[Sequence[int]]) -> list[LocalMachine]:
    """Make machines of the trees of a log, given the state of each node."""
    machines = []
    for index, (tree, state) in enumerate(zip(facts.trees, states, strict=True)):
        edges = ((node, event, end) for node, children in enumerate(tree.children) for event, end in children.items())
        moves = {(state[node], event): state[end] for node, event, end in edges}
        machines.append(LocalMachine(moves, frozenset(state[ends[index]] for ends in facts.done)))
    return machines


class AttemptSearch(MachineSearch):
    """For logs that do not show what was accepted, or may be wrong about it: every attempt has a variable for that.
    With `noise`, an entry is wrong with that probability: to disbelieve it costs -log2 of the odds, a state some bits.
    """

    refusals_observed = False

    def __init__(self, facts: Facts, largest: int, noise: float = 0.0) -> None:
        self.entry_cost = 0 if noise == 0 else max(1, round(math.log2((1 - noise) / noise)))
        self.state_cost = STATE_BITS if noise else 1
        super().__init__(facts, largest)

    def prepare(self) -> None:
        self.root = [self.clauses.one_of(self.size) for _ in self.unknown]
        for index, state in enumerate(self.root):
            self.clauses.add(state[0])
            self.use(index, state)
        self._require_done(self.root, False)
        self.edges: dict[tuple[str, ...], _Edge] = {}  # by the events that were attempted up to it

    def encode(self, episode: Episode) -> None:
        states: Sequence[OneHot] = self.root
        word = (episode.name,) if self.entry_cost else ()  # where entries may be wrong, no two episodes share any
        for position, attempt in enumerate(episode.attempts):
            word = (*word, attempt.event)
            if word not in self.edges:
                self.edges[word] = self._attempt(states, attempt.event)
            states = self.edges[word].after
            self._observe(self.edges[word], attempt, (episode.name, position))

    def _attempt(self, before: Sequence[OneHot], event: str) -> _Edge:
        """Let an event move all that know it if none of them refuses it."""
        clauses, knowers = self.clauses, self.facts.knowers[event]
        accepted, after = clauses.variable(), list(before)
        blocks = clauses.row(len(knowers))
        clauses.add(accepted, *blocks)
        for index, block in zip(knowers, blocks, strict=True):
            after[index] = clauses.one_of(self.size)
            self.use(index, after[index])
            self.unknown[index].accept(before[index], event, after[index], -accepted)
            self.unknown[index].refuse(before[index], event, -block)
            for here, there in zip(before[index], after[index], strict=True):
                clauses.add(accepted, -here, there)
        if not self.entry_cost:  # an event that changes nothing looks like a refused one, and counts as refused
            moves = clauses.row(len(knowers))
            clauses.add(-accepted, *moves)
            for index, move in zip(knowers, moves, strict=True):
                for here, there in zip(before[index], after[index], strict=True):
                    clauses.add(-move, -here, -there)
        return _Edge(event, before, after, accepted)

    def _observe(self, edge: _Edge, attempt: Attempt, entry: tuple[str, int]) -> None:
        """Require that the attempt agrees with its entry in the log; at a cost, if entries may be wrong."""
        if not self.entry_cost:
            self._require_done(edge.after, attempt.done)
            if attempt.done:
                self.clauses.add(edge.accepted)
            return
        belief = self.clauses.variable()
        self.entries[belief] = entry
        self.soft.append((belief, self.entry_cost))
        self.clauses.add(-belief, edge.accepted if attempt.accepted else -edge.accepted)
        self._require_done(edge.after, attempt.done, -belief)

    def _require_done(self, states: Sequence[OneHot], done: bool, *unless: int) -> None:
        """Require that all machines are final and refuse all events, or that some machine is not final."""
        refused: list[tuple[str | None, Iterable[int]]] = [(None, range(len(states)))]
        if done:
            for index, state in enumerate(states):
                self.unknown[index].allow(state, None, *unless)
            refused = [*self.facts.knowers.items()]
        machines = dict(enumerate(self.unknown))
        for event, agents in refused:
            self.clauses.refused_by_some(machines, {index: states[index] for index in agents}, event, *unless)

    def decode(self, true: set[int]) -> list[LocalMachine]:
        """Keep the transitions of accepted attempts, and the final states of those that complete the task."""
        moves: list[dict[tuple[int, str], int]] = [{} for _ in self.unknown]
        for event, before, after, accepted in self.edges.values():
            for index in self.facts.knowers[event] if accepted in true else ():
                moves[index][state_of(before[index], true), event] = state_of(after[index], true)
        final = [machine.decode(true).final for machine in self.unknown]
        return [LocalMachine(row, ends & {0, *row.values()}) for row, ends in zip(moves, final, strict=True)]

    def give_up(self, bound: int) -> Smallest:
        """Raise an error: only the solver can say which attempts were accepted."""
        known = "" if self.entry_cost else f"; they need at least {bound} states in all"
        raise LogError(f"no machines of at most {self.largest} states each that explain the log were found{known}")

    def least_states(self) -> int:
        return len(self.unknown) if self.entry_cost else super().least_states()

    def contradiction(self, machines: Sequence[LocalMachine], episodes: Iterable[Episode]) -> Episode | None:
        if not self.entry_cost:
            return super().contradiction(machines, episodes)
        names = {episode.name for episode in self.encoded}
        return next((episode for episode in episodes if episode.name not in names), None)  # all of them are encoded


class _Edge(NamedTuple):
    """An attempt, and the states of all agents before and after it."""

    event: str
    before: Sequence[OneHot]
    after: Sequence[OneHot]
    accepted: int  # a literal: whether it happened
