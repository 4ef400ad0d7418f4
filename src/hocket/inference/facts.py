"""The facts that a log shows of local machines: each agent's tree of accepted projections, what was refused where, and
when the task was done. They decide, without a solver, whether machines over given local event sets can explain the log.

A node of an agent's tree is the projection of an accepted trace onto the agent's local event set: traces with equal
projections lead its machine to the same state. Conversely the trees, as machines, explain every log that can be
explained.
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
    """The first observation of a fact in the log."""

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
    """An observation that no machines over these local event sets can explain: no agent can distinguish `trace` from
    the look-alike traces, after which the opposite was observed."""

    trace: tuple[str, ...]
    event: str | None  # that was refused after the trace; None: the task was not done after it
    episode: str
    lookalikes: Mapping[str, Sighting]  # agent -> a trace that it cannot distinguish from this one

    def explain(self) -> str:
        """Say in sentences which traces no agent can distinguish."""
        observed, opposite = "the task was not done", "the task was done"
        if self.event is not None:
            observed, opposite = f"{self.event} was refused", f"{self.event} was accepted"
        sentences = [f"Episode {self.episode}: {observed} {after(self.trace)}."]
        for agent, sighting in self.lookalikes.items():
            other = f"where {opposite} after {', '.join(sighting.trace) or 'nothing'}"
            sentences.append(f"{agent} cannot tell this from episode {sighting.episode.name}, {other}.")
        return " ".join(sentences)

    def as_json(self) -> dict[str, object]:
        """Give it as a JSON document."""
        alike = {agent: {"episode": s.episode.name, "trace": list(s.trace)} for agent, s in self.lookalikes.items()}
        return {"trace": list(self.trace), "event": self.event, "episode": self.episode, "lookalikes": alike}


def after(trace: Sequence[str]) -> str:
    """Write when something is observed: after a trace."""
    return f"after {', '.join(trace)}" if trace else "at the start"


class Facts:
    """The facts that a log shows of local machines over some local event sets; it grows by episodes."""

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
        """Add the facts that an episode shows."""
        nodes = [ROOT] * len(self.agents)
        for position, attempt in enumerate(episode.attempts):
            self.add_attempt(nodes, attempt, Sighting(episode, position))

    def add_attempt(self, nodes: list[int], attempt: Attempt, source: Sighting) -> None:
        """Add the facts that an attempt shows, and move the nodes if it was accepted."""
        event, accepted, done = attempt
        if not accepted:
            self.refuse(event, nodes, source)
            return
        for index in self.knowers[event]:
            nodes[index] = self.trees[index].child(nodes[index], event, source)
        source = Sighting(source.episode, source.position + 1)
        if not done:
            self.not_done.setdefault(tuple(nodes), source)
        elif tuple(nodes) not in self.done:
            self.done[tuple(nodes)] = source
            for other in self.events:  # nothing happens after the task is done
                self.refuse(other, nodes, source)

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
        """List the nodes at which an event was refused, and those at which the task was done or not (event None)."""
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
    """Find the smallest local event sets over which machines can explain a log, given who controls which event.

    An assignment that fails gives a clause: to explain a refusal of e after w, an agent that cannot distinguish w from
    its look-alike must know an event of either, or one more agent must know e. More events never make a log harder to
    explain.
    """
    everyone, events = tuple(agents), tuple(log.events)
    base = {agent: [event for event in events if agent in control.get(event, ())] for agent in everyone}
    for event in events:
        if not any(event in known for known in base.values()):
            raise AssignmentError(f"every event needs an agent that controls it, got none for {event!r}")
    pairs = [(agent, event) for agent in everyone for event in events if event not in base[agent]]
    number = {pair: index for index, pair in enumerate(pairs)}

    def known_with(added: int) -> dict[str, list[str]]:
        known = {agent: list(controlled) for agent, controlled in base.items()}
        for agent, event in map(pairs.__getitem__, elements_of(added)):
            known[agent].append(event)
        return known

    def failure(added: int) -> Unexplained | None:
        return facts_of(log, known_with(added)).unexplained()

    def explain(added: int) -> int:
        unexplained = failure(added)
        assert unexplained is not None  # only sets that fail are explained
        clause = {(agent, unexplained.event) for agent in everyone}
        for agent, source in unexplained.lookalikes.items():
            clause |= {(agent, event) for event in {*unexplained.trace, *source.trace}}
        return as_set(number[pair] for pair in clause if pair in number and not added >> number[pair] & 1)

    everything = as_set(range(len(pairs)))
    if (unexplained := failure(everything)) is not None:
        raise InfeasibleError(f"the log contradicts itself for all local event sets. {unexplained.explain()}")
    prices = dict.fromkeys(range(len(pairs)), 1)
    cheapest = find_cheapest(lambda added: failure(added) is None, explain, prices, Effort(EFFORT))
    known, size = known_with(cheapest.chosen), sum(map(len, base.values()))
    cost, bound = float(sum(map(len, known.values()))), float(size + cheapest.bound)
    return Assignment(known, cost, cost == bound, bound)
