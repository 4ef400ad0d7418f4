"""The judge: an observer that sees all log entries of all agents, and checks each of them against the team machine.

It does not use the protocol: it follows the team machine and the local machines by the events alone, and causality by
sets of events. What it finds wrong is a `Violation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from hocket.machine.counterexample import name_trace
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Entry, Participant


class Violation(Exception):  # noqa: N818 - it is what a simulation looks for, not an error of the user
    """An invariant that does not hold."""


class Judge:
    """What has happened so far, and what every agent should therefore know."""

    def __init__(self, plan: Plan, start: Any, step: Callable[[Any, int], Any], conditions: list[int]) -> None:  # noqa: ANN401
        agents = len(plan.agents)
        self.plan, self.step = plan, step  # of the team machine: from a state and an event to a state, or None
        self.conditions = conditions  # of each agent: the events, as bits, whose conditions hold for it
        self.team_state = start
        self.states = [machine.start for machine in plan.machines]
        self.promises: list[tuple[int, int, int] | None] = [None] * agents  # (first, number, event)
        self.trace: list[int] = []  # events, in the order of decision
        # Sets of events are bits by indices in the trace.
        self.told: dict[int, list[int]] = {}  # pair of agents -> indices in the trace that have not been heard of yet
        self.pasts: list[int] = []  # of each event: those in its causal past
        self.known = [0] * agents  # of each agent: the events that it has decided or heard of
        self.seen = [0] * agents  # and those with all that is in their past
        self.concerns = [0] * agents  # and the events that it has to hear of
        self.transactions: set[tuple[int, int]] = set()  # that were decided

    def record(self, agent: int, entry: Entry) -> None:
        """Check an entry, and take note of it."""
        kind = entry[0]
        if kind == "hear":
            self._hear(agent, *entry[1:5])
        elif kind == "decide":
            self._decide(agent, *entry[1:4])
        elif kind == "promise":
            if self.promises[agent] is not None:
                self._fail(agent, "promises two events at once")
            self.promises[agent] = entry[1:4]
            self._check_condition(agent, entry[3])
        elif kind == "release":
            promise = self.promises[agent]
            if promise is None or promise[:2] != entry[1:3]:
                self._fail(agent, "is released from what it has not promised")
            if entry[1:3] in self.transactions:
                self._fail(agent, "is told that a transaction has failed, whose event has happened")
            self.promises[agent] = None

    def _decide(self, agent: int, first: int, number: int, event: int) -> None:
        plan, trace = self.plan, self.trace
        deciders, name = plan.deciders[event], plan.events[event]
        if deciders[-1] != agent:
            self._fail(agent, f"decides on {name}, of which it is not the last decider")
        past = 0
        for decider in deciders:
            past |= self.seen[decider]
            self._check_condition(decider, event)
            if decider != agent and self.promises[decider] != (first, number, event):
                self._fail(agent, f"decides on {name} without a promise of {plan.agents[decider]}")
            self._successor(decider, event)
        if self.promises[agent] is not None:
            self._fail(agent, f"decides on {name} while it has promised another event")
        if (first, number) in self.transactions:
            self._fail(agent, f"decides twice on {name}")
        if number:
            self.transactions.add((first, number))
        after = self.step(self.team_state, event)
        if after is None:
            before = name_trace([plan.events[earlier] for earlier in self.trace])
            raise Violation(f"after {before}, {name} is undefined in the team machine")
        for decider in deciders:
            if past & self.concerns[decider] & ~self.known[decider]:
                behind = plan.agents[decider]
                self._fail(agent, f"decides on {name} where {behind} has not heard what other deciders have")
        bit = 1 << len(trace)
        for other in plan.knowers[event]:
            self.concerns[other] |= bit
            if other != agent:
                self.told.setdefault(agent * len(plan.agents) + other, []).append(len(trace))
        trace.append(event)
        self.pasts.append(past)
        self.team_state = after
        self._apply(agent, event, past | bit)

    def _hear(self, agent: int, sender: int, first: int, number: int, event: int) -> None:
        pair, name = sender * len(self.plan.agents) + agent, self.plan.events[event]
        told = self.told.get(pair, [])
        if not told or self.trace[told[0]] != event:
            decider = self.plan.agents[sender]
            self._fail(agent, f"hears from {decider} of {name}, which {decider} has not decided, or hears of it twice")
        index = told.pop(0)
        if self.pasts[index] & self.concerns[agent] & ~self.known[agent]:
            self._fail(agent, f"hears of {name} before it hears of what came before")
        promise = self.promises[agent]
        if agent in self.plan.deciders[event]:
            if promise != (first, number, event):
                self._fail(agent, f"hears of {name}, which it has not promised")
            self.promises[agent] = None
        elif promise is not None:
            self._fail(agent, f"hears of {name} while it is bound by a promise")
        self._apply(agent, event, self.pasts[index] | 1 << index)

    def _apply(self, agent: int, event: int, seen: int) -> None:
        """Move an agent's machine, and note what it knows; the new event is the highest bit."""
        self.states[agent] = self._successor(agent, event)
        self.known[agent] |= 1 << seen.bit_length() - 1
        self.seen[agent] |= seen

    def _successor(self, agent: int, event: int) -> int:
        """Return the state of an agent's machine after an event, which must be defined."""
        state = self.plan.transitions[agent][self.states[agent]].get(event)
        if state is None:
            self._fail(agent, f"takes part in {self.plan.events[event]}, which is undefined in its machine there")
        return state

    def _check_condition(self, agent: int, event: int) -> None:
        if not self.conditions[agent] >> event & 1:
            self._fail(agent, f"agrees on {self.plan.events[event]} where its condition does not hold")

    def check_recovery(self, agent: int, node: Participant) -> None:
        """Require that a node that has recovered is in the state of its log."""
        promise = None if node.promise is None else node.promise[:3]
        if node.state != self.states[agent] or promise != self.promises[agent]:
            self._fail(agent, "comes back in another state than its log says")

    def end(self, nodes: list[Participant]) -> None:
        """Require that all agents know all events that concern them, and are in the states to which these lead."""
        for agent, node in enumerate(nodes):
            if missing := self.concerns[agent] & ~self.known[agent]:
                event = self.plan.events[self.trace[missing.bit_length() - 1]]
                self._fail(agent, f"never hears of {event}")
            state = self.plan.machines[agent].start
            for event_number in self.trace:
                if agent in self.plan.knowers[event_number]:
                    state = self.plan.transitions[agent][state].get(event_number, -1)
                    if state < 0:
                        self._fail(agent, "could not have followed the trace")
            if node.state != state:
                self._fail(agent, "is in a state that is not the projection of the team's")
            if node.promise is not None:
                self._fail(agent, "is bound for ever")

    def _fail(self, agent: int, reason: str) -> NoReturn:
        raise Violation(f"{self.plan.agents[agent]} {reason}")
