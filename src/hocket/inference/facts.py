"""What a log says about local machines: each agent's tree of accepted projections, what was refused where, and when
the task was done. From these it is decided, without a solver, whether machines over given local event sets can explain
the log at all.

A node of an agent's tree is the projection of an accepted trace onto the agent's local event set: traces with equal
projections lead its machine to the same state. Conversely the trees themselves, taken as machines, explain every log
that can be explained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hocket.errors import AssignmentError, InfeasibleError
from hocket.hitting_set import Effort, as_set, elements_of, find_cheapest
from hocket.inference.logs import Attempt, Episode, Log
from hocket.machine.assignment import EFFORT, Assignment
from hocket.machine.names import Names, invert

ROOT = 0

Nodes = tuple[int, ...]  # a node of each agent's tree


class Sighting(NamedTuple):
    """Where in the log something was seen first."""

    episode: Episode
    position: int  # how many attempts came before

    @property
    def trace(self) -> tuple[str, ...]:
        """The events that had happened by then."""
        return tuple(attempt.event for attempt in self.episode.attempts[: self.position] if attempt.accepted)


class Tree:
    """The accepted projections of a log onto one local event set."""

    def __init__(self) -> None:
        self.children: list[dict[str, int]] = [{}]  # of each node: event -> node
        self.sources: list[Sighting | None] = [None]  # where each node was first reached

    def child(self, node: int, event: str, source: Sighting) -> int:
        """Follow an event from a node; a node that was not there is added."""
        children = self.children[node]
        if event not in children:
            children[event] = len(self.children)
            self.children.append({})
            self.sources.append(source)
        return children[event]

    def __len__(self) -> int:
        return len(self.children)


@dataclass(frozen=True)
class Unexplained:
    """An observation that no machines over these local event sets can explain.

    No agent can tell `trace` from the look-alike traces, after which the opposite was observed.
    """

    trace: tuple[str, ...]
    event: str | None  # that was refused after the trace; None: the task was not done after it
    episode: str
    lookalikes: Mapping[str, Sighting]  # agent -> a trace that it cannot tell from this one

    def explain(self) -> str:
        """Say in sentences which traces nobody can tell apart."""
        after = f"after {', '.join(self.trace)}" if self.trace else "at the start"
        what, seen = "the task was not done", "the task was done"
        if self.event is not None:
            what, seen = f"{self.event} was refused", f"{self.event} was accepted"
        said = [f"Episode {self.episode}: {what} {after}."]
        for agent, sighting in self.lookalikes.items():
            other = f"where {seen} after {', '.join(sighting.trace) or 'nothing'}"
            said.append(f"{agent} cannot tell this from episode {sighting.episode.name}, {other}.")
        return " ".join(said)

    def as_json(self) -> dict[str, object]:
        """Give it as a JSON document."""
        alike = {agent: {"episode": s.episode.name, "trace": list(s.trace)} for agent, s in self.lookalikes.items()}
        return {"trace": list(self.trace), "event": self.event, "episode": self.episode, "lookalikes": alike}


class Facts:
    """A log as local machines see it. Grows by episodes; `attempts` say all there is to say of a prefix."""

    def __init__(self, knows: Mapping[str, Iterable[str]], events: Iterable[str] = ()) -> None:
        self.knows = {agent: Names(known) for agent, known in knows.items()}
        self.events = Names((*events, *(event for known in self.knows.values() for event in known)))
        self.agents = tuple(self.knows)
        if not self.agents:
            raise AssignmentError("there must be at least one agent, got no local event sets")
        self.knowers = dict(invert(dict(enumerate(self.knows.values())), self.events))
        for event, knowers in self.knowers.items():
            if not knowers:
                raise AssignmentError(f"every event must be in some local event set, got {event!r}, which is in none")
        self.trees = tuple(Tree() for _ in self.agents)
        self.refused: dict[tuple[str, Nodes], Sighting] = {}  # (event, nodes of its knowers) -> where it was seen
        self.done: dict[Nodes, Sighting] = {}
        self.not_done: dict[Nodes, Sighting] = {(ROOT,) * len(self.agents): Sighting(Episode("-", ()), 0)}

    def add(self, episode: Episode) -> None:
        """Add what an episode shows."""
        nodes = [ROOT] * len(self.agents)
        for position, attempt in enumerate(episode.attempts):
            self.add_attempt(nodes, attempt, Sighting(episode, position))

    def add_attempt(self, nodes: list[int], attempt: Attempt, source: Sighting) -> None:
        """Add what an attempt shows, and move the nodes if it was accepted."""
        event, accepted, done = attempt
        if not accepted:
            self.refuse(event, nodes, source)
            return
        for index in self.knowers[event]:
            nodes[index] = self.trees[index].child(nodes[index], event, source)
        after = Sighting(source.episode, source.position + 1)
        if not done:
            self.not_done.setdefault(tuple(nodes), after)
        elif tuple(nodes) not in self.done:
            self.done[tuple(nodes)] = after
            for other in self.events:  # nothing happens after the task is done
                self.refuse(other, nodes, after)

    def refuse(self, event: str, nodes: Sequence[int], source: Sighting) -> None:
        self.refused.setdefault((event, tuple(nodes[index] for index in self.knowers[event])), source)

    def unexplained(self) -> Unexplained | None:
        """Find an observation that no machines over these local event sets can explain; the shortest trace first."""
        # (agent, node) -> where the task was done first
        final = {end: source for ends, source in reversed(self.done.items()) for end in enumerate(ends)}
        shortest: Unexplained | None = None
        for event, nodes, is_so, source in self.observations():
            opposite: dict[str, Sighting] = {}
            for index, node in nodes.items():
                tree = self.trees[index]
                seen = final.get((index, node)) if event is None else tree.sources[tree.children[node].get(event, ROOT)]
                if seen is None or is_so:
                    break
                opposite[self.agents[index]] = seen
            else:
                if shortest is None or len(source.trace) < len(shortest.trace):
                    shortest = Unexplained(source.trace, event, source.episode.name, opposite)
        return shortest

    def observations(self) -> Iterator[tuple[str | None, dict[int, int], bool, Sighting]]:
        """List what somebody refused at the nodes of those that know it, and whether the task was done (None) there."""
        for (event, nodes), source in self.refused.items():
            yield event, dict(zip(self.knowers[event], nodes, strict=True)), False, source
        for is_done, rows in ((True, self.done), (False, self.not_done)):
            for ends, source in rows.items():
                yield None, dict(enumerate(ends)), is_done, source


def facts_of(log: Log, knows: Mapping[str, Iterable[str]]) -> Facts:
    """Read a whole log."""
    facts = Facts(knows, log.events)
    for episode in log.episodes:
        facts.add(episode)
    return facts


def cheapest_event_sets(log: Log, agents: Iterable[str], control: Mapping[str, Iterable[str]]) -> Assignment:
    """Find the smallest local event sets over which machines can explain a log, from who controls which event alone.

    What fails is a clause: to explain a refusal of e after w, somebody who cannot tell w from its look-alike must learn
    an event of either, or one more agent must know e. More events never make a log harder to explain.
    """
    everyone, events = tuple(agents), tuple(log.events)
    base = {agent: [event for event in events if agent in control.get(event, ())] for agent in everyone}
    for event in events:
        if not any(event in known for known in base.values()):
            raise AssignmentError(f"every event needs an agent that controls it, got none for {event!r}")
    pairs = [(agent, event) for agent in everyone for event in events if event not in base[agent]]
    number = {pair: index for index, pair in enumerate(pairs)}

    def known_with(added: int) -> dict[str, list[str]]:
        known = {agent: list(had) for agent, had in base.items()}
        for element in elements_of(added):
            known[pairs[element][0]].append(pairs[element][1])
        return known

    def failure(added: int) -> Unexplained | None:
        return facts_of(log, known_with(added)).unexplained()

    def explain(added: int) -> int:
        unexplained = failure(added)
        assert unexplained is not None  # it is asked of sets that fail
        clause = {(agent, unexplained.event) for agent in everyone}
        for agent, source in unexplained.lookalikes.items():
            clause |= {(agent, event) for event in {*unexplained.trace, *source.trace}}
        return as_set(number[pair] for pair in clause if pair in number and not added >> number[pair] & 1)

    everything = as_set(range(len(pairs)))
    if (unexplained := failure(everything)) is not None:
        raise InfeasibleError(f"the log contradicts itself, whoever knows what. {unexplained.explain()}")
    prices = dict.fromkeys(range(len(pairs)), 1)
    cheapest = find_cheapest(lambda added: failure(added) is None, explain, prices, Effort(EFFORT))
    known, size = known_with(cheapest.chosen), sum(map(len, base.values()))
    cost, bound = float(sum(map(len, known.values()))), float(size + cheapest.bound)
    return Assignment(known, cost, cost == bound, bound)
