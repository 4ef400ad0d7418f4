"""Delays: may agents that merely hear of an event hear of it late, and if not, who has to agree on it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from hocket.errors import AssignmentError, known_names, require_known
from hocket.machine.counterexample import listing, name_trace
from hocket.machine.decomposition import Control, Decomposition
from hocket.machine.delay_rules import NOTHING, Closed, DelayCounterexample, Pair, cheapest, find_rules
from hocket.machine.names import Names, invert

EFFORT = 20_000_000  # of the search for the cheapest pairs, in the units of the hitting-set search


@dataclass(frozen=True, repr=False)
class DelayCheck:
    """Whether a task tolerates that events are heard late, with the evidence."""

    deciders: Mapping[str, Names]  # of each event
    hearers: Mapping[str, Names]  # of each event: the other agents that know it
    counterexample: DelayCounterexample | None
    critical: tuple[Pair, ...] = ()  # pairs (agent, event): hearing it late breaks the task by itself
    agree: tuple[Pair, ...] = ()  # cheapest pairs (agent, event): these agents must be deciders as well
    exact: bool = True  # whether `agree` is proved to be cheapest
    sentences: Mapping[str, str] = field(default_factory=dict)  # event -> when it happens, where a task says so

    @property
    def tolerant(self) -> bool:
        """Whether every event may be heard late by all that do not decide on it."""
        return self.counterexample is None

    @property
    def agreed(self) -> Mapping[str, Names]:
        """The deciders with `agree` added: with these the task is tolerant."""
        more = {event: [agent for agent, agreed in self.agree if agreed == event] for event in self.deciders}
        return MappingProxyType({event: Names((*agents, *more[event])) for event, agents in self.deciders.items()})

    def __repr__(self) -> str:
        return f"<DelayCheck: {'tolerant' if self.tolerant else f'not tolerant, {len(self.agree)} pairs must agree'}>"

    def explain(self) -> str:
        """Give the verdict in sentences; if negative, a schedule that breaks the task, and who has to agree on what."""
        return "\n".join(self.lines)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The sentences of `explain`."""
        if self.counterexample is None:
            if not any(self.hearers.values()):
                return ("Delays: tolerant. Whoever knows an event decides on it, so nothing is heard late.",)
            return ("Delays: tolerant. An event may be heard late by agents that know it and do not decide on it.",)
        said = ["Delays: not tolerant.", _describe(self.counterexample, self.sentences)]
        if self.critical:
            said.append(f"Delay-critical, each by itself: {_pairs(self.critical)}.")
        how = "the fewest that will do" if self.exact else "which will do; fewer might"
        said.append(f"Must agree as well (agent: event; {how}): {_pairs(self.agree)}.")
        return tuple(said)

    def as_json(self) -> dict[str, object]:
        """Lay it out as plain data."""
        example = None
        if self.counterexample is not None:
            told = {key: value for key, value in vars(self.counterexample).items() if key != "is_trace"}
            example = {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()}
            example["explanation"] = _describe(self.counterexample, self.sentences)
        return {
            "tolerant": self.tolerant,
            "agree": [list(pair) for pair in self.agree],
            "critical": [list(pair) for pair in self.critical],
            "exact": self.exact,
            "counterexample": example,
        }


def find_delays(
    decomposition: Decomposition,
    deciders: Control | None = None,
    closed: Closed = NOTHING,
    sentences: Mapping[str, str] = NOTHING,
    effort: int = EFFORT,
) -> DelayCheck:
    """Check whether events may be heard late; if not, find the cheapest pairs (agent, event) that must agree as well.

    Unless `deciders` says otherwise, those who control an event decide on it, and an event without control is decided
    by all who know it. `closed` says which regions gates close to an agent in the states of its local machine.

    >>> from hocket.machine.decomposition import decompose
    >>> from hocket.machine.reward_machine import RewardMachine
    >>> team = RewardMachine(initial="0", transitions={("0", "a"): "1", ("0", "b"): "2"}, final={"1", "2"})
    >>> both = decompose(team, {"A1": {"a", "b"}, "A2": {"a", "b"}}, {"a": {"A1"}, "b": {"A2"}})
    >>> find_delays(both).agree
    (('A2', 'a'),)
    """
    if not decomposition.ok:
        why = decomposition.problems[0] if decomposition.problems else "it is not"
        raise AssignmentError(f"only a decomposable task can be checked for delays: {why}")
    knowers, chosen = invert(decomposition.knows, decomposition.machine.events), find_deciders(decomposition, deciders)
    hearers = {event: Names(a for a in agents if a not in chosen[event]) for event, agents in knowers.items()}
    told = MappingProxyType(chosen), MappingProxyType(hearers)
    if not any(hearers.values()):
        return DelayCheck(*told, None, sentences=sentences)
    rules = find_rules(decomposition, chosen, hearers, closed)
    broken = [rule for rule in rules if rule.clause(chosen)]
    if not broken:
        return DelayCheck(*told, None, sentences=sentences)
    pairs = [(agent, event) for event, agents in hearers.items() for agent in agents]
    alone = {(rule.agents.at(0), event) for rule in rules if len(rule.agents) == 1 for event in rule.events}
    agree, exact = cheapest(rules, chosen, pairs, effort)
    first = min(broken, key=lambda rule: len(rule.witness.trace)).witness
    return DelayCheck(*told, first, tuple(pair for pair in pairs if pair in alone), agree, exact, sentences)


def find_deciders(decomposition: Decomposition, deciders: Control | None) -> dict[str, Names]:
    """Give every event its deciders, in the order of the agents: all who control it, and none who does not know it."""
    given, control = dict(deciders or {}), decomposition.control
    knowers = invert(decomposition.knows, decomposition.machine.events)
    for event, agents in given.items():
        require_known(event, knowers, "deciders: event", AssignmentError)
        given[event] = Names((agents,) if isinstance(agents, str) else agents)
        for agent in given[event]:
            if agent not in knowers[event]:
                rule = f"must know it ({known_names(str(agent), knowers[event])})"
                raise AssignmentError(f"a decider of {event!r} {rule}, got {agent!r}")
        for agent in control.get(event, ()):
            if agent not in given[event]:
                raise AssignmentError(f"{agent} controls {event!r} and must be among its deciders")
    chosen = {}
    for event, agents in knowers.items():
        among = given.get(event) or control.get(event) or agents
        chosen[event] = Names(agent for agent in agents if agent in among)
    return chosen


def _describe(example: DelayCounterexample, sentences: Mapping[str, str]) -> str:
    """Tell the schedule of a counterexample."""

    def happening(event: str) -> str:
        return f"{event} ({sentences[event]})" if event in sentences else event

    def deciding(agents: Sequence[str]) -> str:
        return f"{'decides' if len(agents) == 1 else 'decide'} on"

    who = listing(example.deciders, "and")
    begin = f"after {name_trace(example.trace)}, {who} {deciding(example.deciders)} {happening(example.event)}"
    others = listing(example.agents, "and")
    if example.kind == "silent guard":
        why = f"only {listing(example.agents)} could tell that it is undefined in state {example.state}"
        return f"Counterexample (silent guard): {begin}; {why}."
    if example.kind == "gate":
        return (
            f"Counterexample (gate): {begin}, which closes {example.region} to {others}; {others} has not heard of it."
        )
    late = f"{listing(example.other_deciders, 'and')} {'has' if len(example.other_deciders) == 1 else 'have'} not heard"
    late = f"{late} and {deciding(example.other_deciders)} {happening(str(example.other))}"
    if example.is_trace:
        end = f"{others} may hear of them in either order, which lead to different local states"
    else:
        end = f"{name_trace((*example.trace, example.event, str(example.other)))[4:]} is no trace of the team machine"
        end = end.removeprefix("trace ")
    return f"Counterexample (diamond): {begin}; {late}; {end}."


def _pairs(pairs: Sequence[Pair]) -> str:
    return listing((f"{agent}: {event}" for agent, event in pairs), "and")
