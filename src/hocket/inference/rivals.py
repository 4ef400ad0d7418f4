"""The next question: machines that explain the log as well and answer differently after some trace.

The machines of one agent, or of a few, are replaced by unknown ones with some spare states, the others stay. The solver
looks for such a rival together with a run of the team, in rounds of events that have no agent in common, after which
hypothesis and rival disagree about an event or about completion. Fewer rounds are tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hocket.inference.encoding import SOLVER, Clauses, LocalMachine, Place, TreePlaces, UnknownMachine, load_solvers
from hocket.inference.facts import Facts, Nodes

Machines = Sequence[LocalMachine]
Trace = tuple[str, ...]
Group = tuple[int, ...]  # of agents, whose machines a rival may change
Asked = dict[int, tuple[str | None, bool]]  # variable -> the event that is asked about, and the answer that is expected


class Tracker(NamedTuple):
    """A machine that refuses nothing, and whose state helps to tell whether an attempt is possible in a world."""

    machine: LocalMachine
    events: tuple[str, ...]


class Barred(NamedTuple):
    """An attempt that was impossible: an event after a trace, which led those that know it to some nodes, and all
    trackers to some states. It counts as impossible wherever the hypothesis and the trackers are in the same states.
    """

    event: str
    trace: tuple[str, ...]
    nodes: Nodes
    tracked: tuple[int, ...]


class World(NamedTuple):
    """What can be attempted."""

    trackers: tuple[Tracker, ...] = ()
    barred: tuple[Barred, ...] = ()
    assumed: int = 0  # attempts that were impossible and count as refused

    def track(self, trace: Iterable[str]) -> tuple[int, ...]:
        """Say in which states the trackers are after a trace."""
        states = [0] * len(self.trackers)
        for event in trace:
            for index, tracker in enumerate(self.trackers):
                states[index] = tracker.machine.moves.get((states[index], event), states[index])
        return tuple(states)


ANYTHING = World()


@dataclass(frozen=True)
class Question:
    """A trace to try, and what it decides."""

    trace: tuple[str, ...]  # accepted by hypothesis and rival alike
    event: str | None  # about which they disagree after it; None: about whether the task is done
    expected: bool  # what the hypothesis answers
    rivals: Mapping[str, LocalMachine]  # agent -> a machine that explains the log as well and answers otherwise

    @property
    def attempts(self) -> tuple[str, ...]:
        """What to attempt, one after the other."""
        return self.trace if self.event is None else (*self.trace, self.event)

    @property
    def surprise(self) -> str:
        """What the hypothesis does not expect, and the rivals do."""
        after = f"after {', '.join(self.trace)}" if self.trace else "at the start"
        if self.event is None:
            return f"the task is {'not done' if self.expected else 'done'} {after}"
        return f"{self.event} is {'refused' if self.expected else 'accepted'} {after}"

    def explain(self) -> str:
        """Say what to try, and what it decides."""
        attempts = ", ".join(self.attempts)
        return f"{attempts}. These machines are wrong if {self.surprise}; others explain the log as well, and say so."


class RivalSearch:
    """Rivals that change the machines of some agents, from the nodes of all agents' trees to which a trace has led."""

    def __init__(
        self, facts: Facts, machines: Machines, changed: Group, spare: int, begin: Nodes, world: World, trace: Trace
    ) -> None:
        self.facts = facts
        self.machines = (*machines, *(tracker.machine for tracker in world.trackers))
        known_events = (facts.knows[agent] for agent in facts.agents)
        self.events = [*map(tuple, known_events), *(tracker.events for tracker in world.trackers)]  # of each machine
        self.clauses = Clauses()
        self.states = [machine.trace_states(tree) for machine, tree in zip(machines, facts.trees, strict=True)]
        self.barred = [self._as_states(bar) for bar in world.barred]
        self.unknown = {
            index: UnknownMachine(self.clauses, facts.knows[facts.agents[index]], len(machines[index].states) + spare)
            for index in changed
        }
        self.nodes = {index: TreePlaces(machine, facts.trees[index]) for index, machine in self.unknown.items()}
        self._explain()
        self.rounds: list[dict[str, int]] = []  # of each round: event -> whether it happens
        self.known = self._known_places()
        ends = [(index, self.states[index][node]) for index, node in enumerate(begin)]
        for row, state in zip(self.known, (*(state for _, state in ends), *world.track(trace)), strict=True):
            self.clauses.add(row[state])
        self.rival: dict[int, Place] = {index: nodes.places[begin[index]] for index, nodes in self.nodes.items()}
        self.is_over = all(machines[index].allows(state, None) for index, state in ends)

    def _as_states(self, bar: Barred) -> tuple[str, list[tuple[int, int]]]:
        """Say in which states of which machines an attempt is impossible."""
        knowers, first = self.facts.knowers[bar.event], len(self.facts.agents)
        states = [(index, self.states[index][node]) for index, node in zip(knowers, bar.nodes, strict=True)]
        return bar.event, [*states, *enumerate(bar.tracked, start=first)]

    def _leave_out_barred(self, event: str | None, unless: int) -> None:
        """Require that an event can be attempted, unless a literal is true."""
        for barred, states in self.barred:
            if barred == event and all(state in self.known[index] for index, state in states):
                self.clauses.add(unless, *(-self.known[index][state] for index, state in states))

    def _explain(self) -> None:
        """Let the rival explain what the machines that stay do not explain already."""
        for event, nodes, is_so, _ in self.facts.observations():
            fixed = nodes.keys() - self.unknown.keys()
            places = {index: self.nodes[index].places[node] for index, node in nodes.items() if index in self.nodes}
            if is_so:
                for index, place in places.items():
                    self.unknown[index].allow(place, event)
            elif all(self.machines[index].allows(self.states[index][nodes[index]], event) for index in fixed):
                self.clauses.refused_by_some(self.unknown, places, event)

    def _known_places(self) -> list[dict[int, int]]:
        """Make variables for the states of the known machines in a round."""
        return [dict(zip(each.states, self.clauses.one_of(len(each.states)), strict=True)) for each in self.machines]

    def search(self, rounds: int) -> Question | None:
        """Find a question after at most so many rounds; None where there is no rival within them."""
        return None if self.is_over else self._solve(self._ask, rounds)

    def reach(self, agent: int, state: int, event: str, rounds: int) -> tuple[str, ...] | None:
        """Find a run to where an agent is in a state and the others that know an event accept it; it ends with it."""

        def ask() -> Asked:
            chosen = self.clauses.variable()
            self.clauses.add(-chosen, self.known[agent][state])
            for index in self.facts.knowers[event]:
                if index != agent:
                    self._known_allows(index, event, -chosen)
            self._leave_out_barred(event, -chosen)
            return {chosen: (event, True)}

        question = self._solve(ask, rounds)
        return None if question is None else question.attempts

    def _solve(self, ask: Callable[[], Asked], rounds: int) -> Question | None:
        """Look for a run of the fewest rounds after which one of some literals can be true."""
        solvers, _ = load_solvers()
        with solvers.Solver(name=SOLVER) as solver:
            for number in range(rounds + 1):
                asked = ask()
                chosen = self.clauses.variable()
                self.clauses.add(-chosen, *asked)
                solver.append_formula(self.clauses.take())
                if solver.solve(assumptions=[chosen]):
                    true = {literal for literal in solver.get_model() if literal > 0}
                    answer = next(asked[question] for question in asked if question in true)
                    trace = (event for happens in self.rounds for event, one in happens.items() if one in true)
                    rivals = {self.facts.agents[index]: machine.decode(true) for index, machine in self.unknown.items()}
                    return Question(tuple(trace), *answer, rivals)
                if number < rounds:
                    self._unroll()
        return None

    def _ask(self) -> Asked:
        """Make variables for the disagreements that are possible now: about an event or about completion."""
        asked: Asked = {}
        for event in (*self.facts.events, None):
            knowers = self.facts.knowers[event] if event is not None else range(len(self.facts.agents))
            changed = [index for index in knowers if index in self.unknown]
            for expected in (True, False) if changed else ():
                question = self.clauses.variable()
                asked[question] = event, expected
                self._leave_out_barred(event, -question)
                for index in knowers if expected else [index for index in knowers if index not in self.unknown]:
                    self._known_allows(index, event, -question)
                if expected:
                    rivals = {index: self.rival[index] for index in changed}
                    self.clauses.refused_by_some(self.unknown, rivals, event, -question)
                    continue
                doubts = {index: self.clauses.variable() for index in changed}
                self.clauses.add(-question, *doubts.values())
                for index in changed:
                    self._known_allows(index, event, -doubts[index], is_so=False)
                    self.unknown[index].allow(self.rival[index], event, -question)
        return asked

    def _known_allows(self, index: int, event: str | None, unless: int, *, is_so: bool = True) -> None:
        """Require of a known machine that it allows an event where it is, or not, unless a literal is true."""
        for state, here in self.known[index].items():
            if self.machines[index].allows(state, event) != is_so:
                self.clauses.add(unless, -here)

    def _unroll(self) -> None:
        """Add a round, in which each agent takes part in at most one event."""
        clauses = self.clauses
        happens = {event: clauses.variable() for event in self.facts.events}
        after = self._known_places()
        rival: dict[int, Place] = {index: machine.place() for index, machine in self.unknown.items()}
        for event, variable in happens.items():
            self._leave_out_barred(event, -variable)
        for index, events in enumerate(self.events):
            some = [happens[event] for event in events]
            clauses.at_most_one(some)
            moves = self.machines[index].moves
            for state, here in self.known[index].items():
                clauses.add(*some, -here, after[index][state])
                for event in events:
                    target = moves.get((state, event))
                    clauses.add(-happens[event], -here, *([] if target is None else [after[index][target]]))
            if index in rival:
                for here, there in zip(self.rival[index], rival[index], strict=True):
                    clauses.add(*some, -here, there)
                for event in events:
                    self.unknown[index].accept(self.rival[index], event, rival[index], -happens[event])
        self.known, self.rival = after, rival
        self.rounds.append(happens)


def untried(facts: Facts, machines: Machines) -> Iterator[tuple[int, int, str]]:
    """List the (agent, state, event) of which the log shows neither that the event is accepted in the state nor that
    the agent alone refuses it there.
    """
    states = [machine.trace_states(tree) for machine, tree in zip(machines, facts.trees, strict=True)]
    refused = set()
    for event, nodes in facts.refused:
        here = [(i, states[i][node]) for i, node in zip(facts.knowers[event], nodes, strict=True)]
        blocking = [(i, state) for i, state in here if (state, event) not in machines[i].moves]
        if len(blocking) == 1:
            refused.add((*blocking[0], event))
    for index, machine in enumerate(machines):
        for state in machine.states:
            for event in facts.knows[facts.agents[index]]:
                if (state, event) not in machine.moves and (index, state, event) not in refused:
                    yield index, state, event
