"""The next question: machines that explain the log as well and answer differently after some trace.

The machines of one agent, or of a few, are replaced by unknown ones with some spare states. The solver looks for such a
rival together with a run of the team, in rounds of events that have no agent in common, after which hypothesis and
rival disagree about an event or about completion. Fewer rounds are tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hocket.inference.encoding import SOLVER, Clauses, NodeStates, OneHot, UnknownMachine, load_solvers
from hocket.inference.facts import Facts, Nodes, after
from hocket.inference.machines import LocalMachine

Machines = Sequence[LocalMachine]
Trace = tuple[str, ...]
Group = tuple[int, ...]  # of agents, whose machines a rival may change
Candidates = dict[int, tuple[str | None, bool]]  # variable -> event in question, and the answer that is expected


class Tracker(NamedTuple):
    """A machine that refuses no event, and on whose state it depends whether an attempt is possible in a world."""

    machine: LocalMachine
    events: tuple[str, ...]


class Barred(NamedTuple):
    """An attempt that was impossible: an event after a trace, which led the agents that know it to some nodes, and the
    trackers to some states. It counts as impossible wherever the hypothesis and the trackers are in the same states."""

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
        """List the states of the trackers after a trace."""
        states = [0] * len(self.trackers)
        for event in trace:
            for index, tracker in enumerate(self.trackers):
                states[index] = tracker.machine.transitions.get((states[index], event), states[index])
        return tuple(states)


ANYTHING = World()


@dataclass(frozen=True)
class Question:
    """A trace to try, and the answers that distinguish the hypothesis from its rivals."""

    trace: tuple[str, ...]  # accepted by hypothesis and rival
    event: str | None  # about which they disagree after it; None: about whether the task is done
    expected: bool  # what the hypothesis answers
    rivals: Mapping[str, LocalMachine]  # agent -> a machine that explains the log as well and answers otherwise

    @property
    def attempts(self) -> tuple[str, ...]:
        """The events to attempt, one after the other."""
        return self.trace if self.event is None else (*self.trace, self.event)

    @property
    def surprise(self) -> str:
        """The answer that only the rivals expect, in words."""
        if self.event is None:
            return f"the task is {'not done' if self.expected else 'done'} {after(self.trace)}"
        return f"{self.event} is {'refused' if self.expected else 'accepted'} {after(self.trace)}"

    def explain(self) -> str:
        """Say what to try, and what the answer decides."""
        attempts = ", ".join(self.attempts)
        return f"{attempts}. These machines are wrong if {self.surprise}; others explain the log as well, and say so."


class RivalSearch:
    """A search for rivals that change the machines of some agents, from the nodes of all trees after a trace."""

    def __init__(
        self, facts: Facts, machines: Machines, changed: Group, spare: int, begin: Nodes, world: World, trace: Trace
    ) -> None:
        self.facts = facts
        self.machines = (*machines, *(tracker.machine for tracker in world.trackers))
        known_events = (facts.knows[agent] for agent in facts.agents)
        self.events = [*map(tuple, known_events), *(tracker.events for tracker in world.trackers)]  # of each machine
        self.clauses = Clauses()
        self.states = [machine.states_at_nodes(tree) for machine, tree in zip(machines, facts.trees, strict=True)]
        self.barred = [self._as_states(bar) for bar in world.barred]
        self.unknown = {
            index: UnknownMachine(self.clauses, facts.knows[facts.agents[index]], len(machines[index].states) + spare)
            for index in changed
        }
        self.nodes = {index: NodeStates(machine, facts.trees[index]) for index, machine in self.unknown.items()}
        self._explain()
        self.rounds: list[dict[str, int]] = []  # of each round: event -> whether it happens
        self.known = self._known_states()
        ends = [(index, self.states[index][node]) for index, node in enumerate(begin)]
        for row, state in zip(self.known, (*(state for _, state in ends), *world.track(trace)), strict=True):
            self.clauses.add(row[state])
        self.rival: dict[int, OneHot] = {index: nodes.states[begin[index]] for index, nodes in self.nodes.items()}
        self.is_over = all(state in machines[index].final for index, state in ends)

    def _as_states(self, bar: Barred) -> tuple[str, list[tuple[int, int]]]:
        """List the states, as (machine, state), in which an attempt is impossible."""
        knowers, first = self.facts.knowers[bar.event], len(self.facts.agents)
        states = [(index, self.states[index][node]) for index, node in zip(knowers, bar.nodes, strict=True)]
        return bar.event, [*states, *enumerate(bar.tracked, start=first)]

    def _leave_out_barred(self, event: str | None, unless: int) -> None:
        """Require that an event can be attempted, unless a literal is true."""
        for barred, states in self.barred:
            if barred == event and all(state in self.known[index] for index, state in states):
                self.clauses.add(unless, *(-self.known[index][state] for index, state in states))

    def _explain(self) -> None:
        """Require that the rival explains the observations that the unchanged machines do not explain."""
        for event, nodes, is_so, _ in self.facts.observations():
            unchanged = nodes.keys() - self.unknown.keys()
            states = {index: self.nodes[index].states[node] for index, node in nodes.items() if index in self.nodes}
            if is_so:
                for index, state in states.items():
                    self.unknown[index].allow(state, event)
            elif all(self.machines[index].allows(self.states[index][nodes[index]], event) for index in unchanged):
                self.clauses.refused_by_some(self.unknown, states, event)

    def _known_states(self) -> list[dict[int, int]]:
        """Make variables for the states of the known machines in a round."""
        return [dict(zip(each.states, self.clauses.one_of(len(each.states)), strict=True)) for each in self.machines]

    def search(self, rounds: int) -> Question | None:
        """Find a question after at most so many rounds; None where there is no rival within them."""
        return None if self.is_over else self._solve(self._disagreements, rounds)

    def reach(self, agent: int, state: int, event: str, rounds: int) -> tuple[str, ...] | None:
        """Find a run that ends with an event where an agent is in a state and the other knowers accept the event."""

        def candidates() -> Candidates:
            reached = self.clauses.variable()
            self.clauses.add(-reached, self.known[agent][state])
            for index in self.facts.knowers[event]:
                if index != agent:
                    self._known_allows(index, event, -reached)
            self._leave_out_barred(event, -reached)
            return {reached: (event, True)}

        question = self._solve(candidates, rounds)
        return None if question is None else question.attempts

    def _solve(self, add_candidates: Callable[[], Candidates], rounds: int) -> Question | None:
        """Find a run of the fewest rounds after which one of the candidates can be true."""
        solvers, _ = load_solvers()
        with solvers.Solver(name=SOLVER) as solver:
            for number in range(rounds + 1):
                candidates = add_candidates()
                one_is_true = self.clauses.variable()
                self.clauses.add(-one_is_true, *candidates)
                solver.append_formula(self.clauses.take())
                if solver.solve(assumptions=[one_is_true]):
                    true = {literal for literal in solver.get_model() if literal > 0}
                    answer = next(answer for variable, answer in candidates.items() if variable in true)
                    trace = (event for happens in self.rounds for event, literal in happens.items() if literal in true)
                    rivals = {self.facts.agents[index]: machine.decode(true) for index, machine in self.unknown.items()}
                    return Question(tuple(trace), *answer, rivals)
                if number < rounds:
                    self._unroll()
        return None

    def _disagreements(self) -> Candidates:
        """Make variables for the disagreements that are possible now: about an event or about completion."""
        candidates: Candidates = {}
        for event in (*self.facts.events, None):
            knowers = self.facts.knowers[event] if event is not None else range(len(self.facts.agents))
            changed = {index: self.rival[index] for index in knowers if index in self.unknown}
            for expected in (True, False) if changed else ():
                disagree = self.clauses.variable()
                candidates[disagree] = event, expected
                self._leave_out_barred(event, -disagree)
                for index in knowers:
                    if expected or index not in changed:
                        self._known_allows(index, event, -disagree)
                if expected:
                    self.clauses.refused_by_some(self.unknown, changed, event, -disagree)
                    continue
                refuses = {index: self.clauses.variable() for index in changed}
                self.clauses.add(-disagree, *refuses.values())
                for index, state in changed.items():
                    self._known_allows(index, event, -refuses[index], is_so=False)
                    self.unknown[index].allow(state, event, -disagree)
        return candidates

    def _known_allows(self, index: int, event: str | None, unless: int, *, is_so: bool = True) -> None:
        """Require that a known machine allows an event in its state, or not, unless a literal is true."""
        for state, here in self.known[index].items():
            if self.machines[index].allows(state, event) != is_so:
                self.clauses.add(unless, -here)

    def _unroll(self) -> None:
        """Add a round, in which each agent takes part in at most one event."""
        clauses = self.clauses
        happens = {event: clauses.variable() for event in self.facts.events}
        known = self._known_states()
        rival: dict[int, OneHot] = {index: clauses.one_of(machine.size) for index, machine in self.unknown.items()}
        for event, variable in happens.items():
            self._leave_out_barred(event, -variable)
        for index, events in enumerate(self.events):
            some_event = [happens[event] for event in events]
            clauses.at_most_one(some_event)
            moves = self.machines[index].transitions
            for state, here in self.known[index].items():
                clauses.add(*some_event, -here, known[index][state])
                for event in events:
                    target = moves.get((state, event))
                    clauses.add(-happens[event], -here, *([] if target is None else [known[index][target]]))
            if index in rival:
                for here, there in zip(self.rival[index], rival[index], strict=True):
                    clauses.add(*some_event, -here, there)
                for event in events:
                    self.unknown[index].accept(self.rival[index], event, rival[index], -happens[event])
        self.known, self.rival = known, rival
        self.rounds.append(happens)


def untried(facts: Facts, machines: Machines) -> Iterator[tuple[int, int, str]]:
    """List the (agent, state, event) of which the log shows neither that the event is accepted in the state nor that
    the agent alone refuses it there."""
    states = [machine.states_at_nodes(tree) for machine, tree in zip(machines, facts.trees, strict=True)]
    refused = set()
    for event, nodes in facts.refused:
        at_states = ((i, states[i][node]) for i, node in zip(facts.knowers[event], nodes, strict=True))
        refusing = [(i, state) for i, state in at_states if not machines[i].allows(state, event)]
        if len(refusing) == 1:
            refused.add((*refusing[0], event))
    for index, machine in enumerate(machines):
        for state in machine.states:
            for event in facts.knows[facts.agents[index]]:
                if (state, event) not in machine.transitions and (index, state, event) not in refused:
                    yield index, state, event
