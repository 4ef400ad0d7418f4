"""The judge: an observer who sees everything, and holds every log entry of every agent against the team machine.

It knows nothing of the protocol: it follows the team machine and the local machines by the events alone, and causality
by sets of events. What it finds wrong is a `Violation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hocket.machine.counterexample import name_trace
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import Entry, Participant


class Violation(Exception):  # noqa: N818 - it is what a simulation looks for, and no mistake of a user
    """An invariant that does not hold."""


class Judge:
    """What has happened so far, and what every agent should therefore know."""

    def __init__(self, plan: Plan, start: Any, step: Callable[[Any, int], Any], bodies: list[int]) -> None:  # noqa: ANN401
        agents = len(plan.agents)
        self.plan, self.step = plan, step  # of the team machine: from a state and an event to a state, or None
        self.bodies = bodies  # of each agent: the events, as bits, whose conditions hold for it
        self.team_state = start
        self.states = [machine.start for machine in plan.machines]
        self.promises: list[tuple[int, int, int] | None] = [None] * agents  # (first, number, event)
        self.trace: list[int] = []  # events, in the order of decision
        self.told: dict[int, list[int]] = {}  # pair of agents -> places in the trace
        self.heard: dict[int, int] = {}  # pair of agents -> how many of these
        self.pasts: list[int] = []  # of each event: places in the trace, as bits
        self.known = [0] * agents  # what each has decided or heard
        self.seen = [0] * agents  # what is in the past of that
        self.concerns = [0] * agents  # what it knows the event of
        self.transactions: set[tuple[int, int]] = set()  # that were decided

    def record(self, agent: int, entry: Entry) -> None:
        """Hold an entry against what has happened."""
        kind = entry[0]
        if kind == "hear":
            self._hear(agent, *entry[1:5])
        elif kind == "decide":
            self._decide(agent, *entry[1:4])
        elif kind == "promise":
            if self.promises[agent] is not None:
                self._complain(agent, "promises two events at once")
            self.promises[agent] = entry[1:4]
            if not self.bodies[agent] >> entry[3] & 1:
                self._complain(agent, f"agrees on {self.plan.events[entry[3]]} where its condition does not hold")
        elif kind == "release":
            if self.promises[agent] is None or self.promises[agent][:2] != entry[1:3]:  # type: ignore[index]
                self._complain(agent, "is released from what it has not promised")
            if entry[1:3] in self.transactions:
                self._complain(agent, "is told that nothing came of an event that has happened")
            self.promises[agent] = None

    def _decide(self, agent: int, first: int, number: int, event: int) -> None:
        plan, trace = self.plan, self.trace
        deciders, name = plan.deciders[event], plan.events[event]
        if deciders[-1] != agent:
            self._complain(agent, f"decides on {name}, which is not its to decide")
        past = 0
        for decider in deciders:
            past |= self.seen[decider]
            if not self.bodies[decider] >> event & 1:
                self._complain(decider, f"agrees on {name} where its condition does not hold")
            if decider != agent and self.promises[decider] != (first, number, event):
                self._complain(agent, f"decides on {name} without a promise of {plan.agents[decider]}")
            if event not in plan.moves[decider][self.states[decider]]:
                self._complain(decider, f"takes part in {name}, which is undefined in its machine there")
        if self.promises[agent] is not None:
            self._complain(agent, f"decides on {name} while it has promised something else")
        if (first, number) in self.transactions:
            self._complain(agent, f"decides twice on {name}")
        if number:
            self.transactions.add((first, number))
        after = self.step(self.team_state, event)
        if after is None:
            before = name_trace([plan.events[earlier] for earlier in self.trace])
            raise Violation(f"after {before}, {name} is undefined in the team machine")
        for decider in deciders:
            if past & self.concerns[decider] & ~self.known[decider]:
                who = plan.agents[decider]
                self._complain(agent, f"decides on {name} where {who} has not heard what the others have")
        place = 1 << len(trace)
        for other in plan.knowers[event]:
            self.concerns[other] |= place
            if other != agent:
                self.told.setdefault(agent * len(plan.agents) + other, []).append(len(trace))
        trace.append(event)
        self.pasts.append(past)
        self.team_state = after
        self._apply(agent, event, past | place)

    def _hear(self, agent: int, sender: int, first: int, number: int, event: int) -> None:
        pair, name = sender * len(self.plan.agents) + agent, self.plan.events[event]
        count = self.heard.get(pair, 0)
        told = self.told.get(pair, ())
        if count >= len(told) or self.trace[told[count]] != event:
            who = self.plan.agents[sender]
            self._complain(agent, f"hears from {who} of {name}, which {who} has not decided, or hears of it twice")
        place = told[count]
        self.heard[pair] = count + 1
        if self.pasts[place] & self.concerns[agent] & ~self.known[agent]:
            self._complain(agent, f"hears of {name} before it hears of what came before")
        promise = self.promises[agent]
        if agent in self.plan.deciders[event]:
            if promise != (first, number, event):
                self._complain(agent, f"hears of {name}, which it has not promised")
            self.promises[agent] = None
        elif promise is not None:
            self._complain(agent, f"hears of {name} while it is bound by a promise")
        self._apply(agent, event, self.pasts[place] | 1 << place)

    def _apply(self, agent: int, event: int, more: int) -> None:
        """Move an agent's machine, and note what it knows of; the new event is the highest place."""
        state = self.plan.moves[agent][self.states[agent]].get(event)
        if state is None:
            name = self.plan.events[event]
            self._complain(agent, f"takes part in {name}, which is undefined in its machine there")
        self.states[agent] = state  # type: ignore[assignment]
        self.known[agent] |= 1 << more.bit_length() - 1
        self.seen[agent] |= more

    def came_back(self, agent: int, node: Participant) -> None:
        """Require that a node that was made of its log is what the log says."""
        promise = None if node.promise is None else node.promise[:3]
        if node.state != self.states[agent] or promise != self.promises[agent]:
            self._complain(agent, "comes back in another state than its log says")

    def end(self, nodes: list[Participant]) -> None:
        """Require that everybody knows everything that concerns it, and is in the state that this leads to."""
        for agent, node in enumerate(nodes):
            if missing := self.concerns[agent] & ~self.known[agent]:
                event = self.plan.events[self.trace[missing.bit_length() - 1]]
                self._complain(agent, f"never hears of {event}")
            state = self.plan.machines[agent].start
            for event_number in self.trace:
                if agent in self.plan.knowers[event_number]:
                    state = self.plan.moves[agent][state].get(event_number, -1)
                    if state < 0:
                        self._complain(agent, "could not have followed the trace")
            if node.state != state:
                self._complain(agent, "is in a state that is not the projection of the team's")
            if node.promise is not None:
                self._complain(agent, "is bound for ever")

    def _complain(self, agent: int, what: str) -> None:
        raise Violation(f"{self.plan.agents[agent]} {what}")
