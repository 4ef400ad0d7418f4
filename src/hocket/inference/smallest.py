"""The smallest local machines that explain a log: the least sum of states, by incremental MaxSAT.

Only episodes that contradict the hypothesis so far are put to the solver. What it answers is checked against the whole
log, so the answer explains all of it, and no machines with fewer states (each of at most `size`) do.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Timer
from typing import Any

from hocket.inference.encoding import (
    SOLVER,
    Clauses,
    LocalMachine,
    Place,
    TreePlaces,
    UnknownMachine,
    first_disagreement,
    load_solvers,
)
from hocket.inference.facts import Facts
from hocket.inference.logs import Attempt, Episode, Log, LogError

FIRST_SIZE, MORE_STATES = 6, 4  # states that a machine may have at first, and how many more where they do not suffice
STATE_BITS = 8  # what a state costs, where the log may be wrong: about the length of its row of transitions


@dataclass(frozen=True)
class Smallest:
    """Local machines that explain a log."""

    machines: Mapping[str, LocalMachine]
    bound: int  # no machines of at most `size` states each that explain the log have fewer states in all
    size: int
    is_best: bool  # whether the search ended: no machines of at most `size` states each cost less
    disbelieved: tuple[tuple[str, int], ...] = ()  # (episode, position) of attempts that are taken for wrong entries

    @property
    def total(self) -> int:
        """The states of all machines together."""
        return sum(len(machine.states) for machine in self.machines.values())


class MachineSearch(ABC):
    """A search for the smallest machines, which goes on where it was when the log grows."""

    def __init__(self, facts: Facts, largest: int) -> None:
        self.facts, self.largest = facts, largest  # facts of the whole log, to which its owner adds episodes
        self.used: list[Episode] = []  # what the solver has been told of
        self.begin(min(FIRST_SIZE, largest))

    def begin(self, size: int) -> None:
        """Begin with machines of at most `size` states each."""
        self.size, self.clauses = size, Clauses()
        self.unknown = [UnknownMachine(self.clauses, self.facts.knows[agent], size) for agent in self.facts.agents]
        self.is_used = [self.clauses.row(size) for _ in self.unknown]
        self.soft: list[tuple[int, int]] = [(-used, self.state_cost) for row in self.is_used for used in row[1:]]
        self.prepare()
        for episode in self.used:
            self.tell(episode)
        self.solver = self._make_solver()

    def _make_solver(self) -> Any:  # noqa: ANN401 (python-sat has no types)
        _, rc2 = load_solvers()
        from pysat.formula import WCNF

        formula = WCNF()
        formula.extend(self.clauses.take())
        for literal, weight in self._take_soft():
            formula.append([literal], weight=weight)
        return rc2(formula, solver=SOLVER, adapt=True, exhaust=True, minz=True)

    def _take_soft(self) -> list[tuple[int, int]]:
        taken, self.soft = self.soft, []
        return taken

    def use(self, agent: int, place: Place) -> None:
        """Count the state that a machine has in a place among those that it uses."""
        for here, used in zip(place, self.is_used[agent], strict=True):
            self.clauses.add(-here, used)

    def run(self, episodes: Sequence[Episode], seconds: float) -> Smallest:
        """Find the smallest machines that explain the episodes, which the facts must be of.

        When the time is up, or no machines of the largest size do, the answer is what can be said without a solver,
        with the bound proved so far.
        """
        timer = Timer(seconds, lambda: self.solver.interrupt())
        timer.daemon = True
        timer.start()
        bound = len(self.unknown)
        try:
            while (true := self._solve()) is not None or (timer.is_alive() and self.size < self.largest):
                machines = None if true is None else self.decode(true)
                is_tight = machines is None or max(len(machine.states) for machine in machines) >= self.size
                if machines is None or true is None or (is_tight and self.size < self.largest):
                    self.begin(min(self.size + MORE_STATES, self.largest))
                    bound = len(self.unknown)
                    continue
                bound = max(bound, self.least_states())
                prefix = self.contradiction(machines, episodes)
                if prefix is None:
                    named = dict(zip(self.facts.agents, machines, strict=True))
                    return Smallest(named, bound, self.size, True, self.disbelieved(true))
                self.used.append(prefix)
                self.tell(prefix)
            self.begin(self.size)  # a solver that was interrupted is not used again
            return self.give_up(bound)
        finally:
            timer.cancel()

    def least_states(self) -> int:
        """Say how many states machines need at least that explain what the solver was told."""
        return len(self.unknown) + int(self.solver.cost)

    def _solve(self) -> set[int] | None:
        """Ask the solver; None where there are no machines of this size, or the time is up."""
        for clause in self.clauses.take():
            self.solver.add_clause(clause)
        for literal, weight in self._take_soft():
            self.solver.add_clause([literal], weight=weight)
        model = self.solver.compute(expect_interrupt=True)
        return None if model is None else {literal for literal in model if literal > 0}

    def contradiction(self, machines: Sequence[LocalMachine], episodes: Sequence[Episode]) -> Episode | None:
        """Find the shortest prefix of an episode that machines do not explain."""
        shortest: Episode | None = None
        for episode in episodes:
            limit = math.inf if shortest is None else len(shortest.attempts) - 1
            length = first_disagreement(self.facts, machines, episode, self.shows_refusals)
            if length is not None and length <= limit:
                shortest = Episode(episode.name, episode.attempts[:length])
        return shortest

    state_cost = 1
    shows_refusals = True  # whether the log says what was refused

    @abstractmethod
    def prepare(self) -> None:
        """Make what is needed before anything is told."""

    @abstractmethod
    def tell(self, episode: Episode) -> None:
        """Put an episode into clauses."""

    @abstractmethod
    def decode(self, true: set[int]) -> list[LocalMachine]:
        """Keep of a solution what the log exercises."""

    @abstractmethod
    def give_up(self, bound: int) -> Smallest:
        """Answer without the solver."""

    def disbelieved(self, true: set[int]) -> tuple[tuple[str, int], ...]:
        """List the attempts that are taken for wrong entries."""
        return ()


class TreeSearch(MachineSearch):
    """For logs that show what was accepted: accepted traces with equal projections share their places."""

    def prepare(self) -> None:
        self.told = Facts(self.facts.knows, self.facts.events)
        self.nodes = [TreePlaces(machine, tree) for machine, tree in zip(self.unknown, self.told.trees, strict=True)]
        self.blocks: dict[tuple[int, int, str], int] = {}
        self.opens: dict[tuple[int, int], int] = {}
        self.refused = self.done = self.not_done = 0  # how many of each are in clauses
        self._encode([0] * len(self.nodes))

    def tell(self, episode: Episode) -> None:
        before = [len(nodes.places) for nodes in self.nodes]
        self.told.add(episode)
        self._encode(before)

    def _encode(self, before: Sequence[int]) -> None:
        told, clauses = self.told, self.clauses
        for index, nodes in enumerate(self.nodes):
            nodes.grow()
            for place in nodes.places[before[index] :]:
                self.use(index, place)
        for event, nodes_of_knowers in islice(told.refused, self.refused, None):
            knowers = told.knowers[event]
            clauses.add(*(self._blocked(i, node, event) for i, node in zip(knowers, nodes_of_knowers, strict=True)))
        for ends in islice(told.done, self.done, None):
            for index, node in enumerate(ends):
                self.unknown[index].complete(self.nodes[index].places[node])
        for ends in islice(told.not_done, self.not_done, None):
            clauses.add(*(self._not_final(index, node) for index, node in enumerate(ends)))
        self.refused, self.done, self.not_done = len(told.refused), len(told.done), len(told.not_done)

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

    def decode(self, true: set[int]) -> list[LocalMachine]:
        machines = []
        for index, (nodes, tree) in enumerate(zip(self.nodes, self.told.trees, strict=True)):
            states = [next(state for state, here in enumerate(place) if here in true) for place in nodes.places]
            moves = {
                (states[node], event): states[child]
                for node, children in enumerate(tree.children)
                for event, child in children.items()
            }
            machines.append(LocalMachine(moves, frozenset(states[ends[index]] for ends in self.told.done)))
        return machines

    def give_up(self, bound: int) -> Smallest:
        """Take the trees of the log for machines."""
        machines = {}
        for index, agent in enumerate(self.facts.agents):
            tree = self.facts.trees[index]
            moves = {(node, e): child for node, children in enumerate(tree.children) for e, child in children.items()}
            machines[agent] = LocalMachine(moves, frozenset(ends[index] for ends in self.facts.done))
        return Smallest(machines, bound, self.size, False)


class AttemptSearch(MachineSearch):
    """For logs in which it is unknown, or may be wrong, what was accepted: every attempt has a variable for that.

    With `noise`, an entry is wrong with that probability: to disbelieve it costs -log2 of the odds, a state some bits.
    """

    def __init__(self, facts: Facts, largest: int, noise: float = 0.0) -> None:
        self.shows_refusals = False
        self.doubt = 0 if noise == 0 else max(1, round(math.log2((1 - noise) / noise)))
        self.state_cost = STATE_BITS if noise else 1
        super().__init__(facts, largest)

    def prepare(self) -> None:
        self.root = [machine.place() for machine in self.unknown]
        for index, place in enumerate(self.root):
            self.clauses.add(place[0])
            self.use(index, place)
        self._say_done(self.root, False, ())
        self.edges: dict[tuple[str, ...], tuple[list[Place], int]] = {}  # attempted events -> places, accepted
        self.entries: dict[int, tuple[str, int]] = {}  # literal of a belief -> episode, position

    def tell(self, episode: Episode) -> None:
        places: Sequence[Place] = self.root
        for position, attempt in enumerate(episode.attempts):
            word = (*(a.event for a in episode.attempts[: position + 1]), *([episode.name] if self.doubt else ()))
            if word not in self.edges:
                self.edges[word] = self._attempt(places, attempt)
            places, accepted = self.edges[word]
            self._observe(places, accepted, attempt, (episode.name, position))

    def _attempt(self, before: Sequence[Place], attempt: Attempt) -> tuple[list[Place], int]:
        """Let an event move all that know it if none of them refuses it."""
        clauses, knowers = self.clauses, self.facts.knowers[attempt.event]
        accepted, after = clauses.variable(), list(before)
        blocks = clauses.row(len(knowers))
        clauses.add(accepted, *blocks)
        for index, block in zip(knowers, blocks, strict=True):
            after[index] = self.unknown[index].place()
            self.use(index, after[index])
            self.unknown[index].accept(before[index], attempt.event, after[index], -accepted)
            self.unknown[index].refuse(before[index], attempt.event, -block)
            for here, there in zip(before[index], after[index], strict=True):
                clauses.add(accepted, -here, there)
        if not self.doubt:  # an event that changes nothing cannot be told from a refused one: take it for refused
            moves = clauses.row(len(knowers))
            clauses.add(-accepted, *moves)
            for index, move in zip(knowers, moves, strict=True):
                for here, there in zip(before[index], after[index], strict=True):
                    clauses.add(-move, -here, -there)
        return after, accepted

    def _observe(self, places: Sequence[Place], accepted: int, attempt: Attempt, entry: tuple[str, int]) -> None:
        """Hold the attempt to what the log says, where it says anything; at a price, if it may be wrong."""
        if not self.doubt:
            self._say_done(places, attempt.done, ())
            if attempt.done:
                self.clauses.add(accepted)
            return
        belief = self.clauses.variable()
        if belief not in self.entries:
            self.entries[belief] = entry
            self.soft.append((belief, self.doubt))
        self.clauses.add(-belief, accepted if attempt.accepted else -accepted)
        self._say_done(places, attempt.done, (-belief,))

    def _say_done(self, places: Sequence[Place], done: bool, unless: Sequence[int]) -> None:
        if done:
            for index, place in enumerate(places):
                self.unknown[index].complete(place, *unless)
            for event, knowers in self.facts.knowers.items():  # nothing happens after the task is done
                blocks = self.clauses.row(len(knowers))
                self.clauses.add(*unless, *blocks)
                for index, block in zip(knowers, blocks, strict=True):
                    self.unknown[index].refuse(places[index], event, -block)
            return
        opens = self.clauses.row(len(places))
        self.clauses.add(*unless, *opens)
        for index, (place, is_open) in enumerate(zip(places, opens, strict=True)):
            self.unknown[index].go_on(place, -is_open)

    def decode(self, true: set[int]) -> list[LocalMachine]:
        """Keep the transitions of accepted attempts, and the final states of those that complete the task."""
        moves: list[dict[tuple[int, str], int]] = [{} for _ in self.unknown]
        final: list[set[int]] = [set() for _ in self.unknown]
        complete = [machine.decode(true) for machine in self.unknown]
        for word, (places, accepted) in self.edges.items():
            before = self.edges[self._prefix(word)][0] if len(self._events(word)) > 1 else self.root
            event = self._events(word)[-1]
            if accepted in true:
                for index in self.facts.knowers[event]:
                    source, target = (
                        next(state for state, here in enumerate(place) if here in true)
                        for place in (before[index], places[index])
                    )
                    moves[index][source, event] = target
        for index, machine in enumerate(complete):
            reached = {0, *moves[index].values()}
            final[index] = {state for state in machine.final if state in reached}
        return [LocalMachine(row, frozenset(ends)) for row, ends in zip(moves, final, strict=True)]

    def _events(self, word: tuple[str, ...]) -> tuple[str, ...]:
        return word[:-1] if self.doubt else word

    def _prefix(self, word: tuple[str, ...]) -> tuple[str, ...]:
        return (*word[:-2], word[-1]) if self.doubt else word[:-1]

    def give_up(self, bound: int) -> Smallest:
        """Say that there is no answer: without the solver nothing is known of what was accepted."""
        known = "" if self.doubt else f"; they need at least {bound} states in all"
        raise LogError(f"no machines of at most {self.largest} states each that explain the log were found{known}")

    def least_states(self) -> int:
        return len(self.unknown) if self.doubt else super().least_states()

    def contradiction(self, machines: Sequence[LocalMachine], episodes: Sequence[Episode]) -> Episode | None:
        if not self.doubt:
            return super().contradiction(machines, episodes)
        told = {episode.name for episode in self.used}
        return next((episode for episode in episodes if episode.name not in told), None)  # all of them count

    def disbelieved(self, true: set[int]) -> tuple[tuple[str, int], ...]:
        return tuple(entry for belief, entry in self.entries.items() if belief not in true)


def make_search(log: Log, facts: Facts, largest: int, noise: float) -> MachineSearch:
    """Choose the search that fits what a log shows."""
    if log.observed == "reward" or noise:
        return AttemptSearch(facts, largest, noise)
    return TreeSearch(facts, largest)
