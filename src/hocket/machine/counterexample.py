"""Counterexample: a shortest trace after which local machines allow what the team machine does not, and its causes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from hocket.graphs import Flags, Ints, congruence, flags_at, hidden_path, hidden_reasons
from hocket.machine.algebra import Projection, Views
from hocket.machine.reward_machine import RewardMachine
from hocket.machine.shared_rewards import Refutation

Kind = Literal["phantom event", "premature completion", "reward"]
Merged = tuple[int, int, list[int]]  # two states, and the hidden events because of which they are merged


@dataclass(frozen=True)
class Confusion:
    """Two states that an agent's projection merges, and the events outside its local event set that merge them."""

    agent: str
    state: str  # of the team machine after the trace
    merged_with: str  # in which the event is defined, or which is final
    missing: tuple[str, ...]  # to separate the two, the local event set needs at least one of these


class Term(NamedTuple):
    """A transition in a proof that rewards cannot be shared out."""

    weight: int  # how often it is counted; the sign tells the side
    state: str  # in which the event happens
    reward: float


@dataclass(frozen=True)
class Counterexample:
    """A shortest trace after which the composition of the local machines allows what the team machine does not.

    Of the kind `reward`: an event whose rewards are no sum of local ones. Then `terms` are transitions with weights by
    which the local states of every agent that knows the event cancel, and the rewards do not.
    """

    trace: tuple[str, ...]  # of the team machine
    kind: Kind
    event: str | None  # the phantom event, or the event that is rewarded; None for a premature completion
    state: str  # where the team machine is after the trace
    confusions: tuple[Confusion, ...]  # of each agent that proposes the event, is in a final state, or would be paid
    remark: str = ""  # what that state means in the words of the formula, if the machine was made from one
    terms: tuple[Term, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the local machines allow after the trace, and what that means in the words of the formula."""
        return (self._failure, *([f"There, {self.remark}"] if self.remark else []))

    @property
    def merging(self) -> tuple[str, ...]:
        """Which states each projection merges, and which events would separate them."""
        how = "which is final" if self.event is None else f"where {self.event} is defined"
        if self.terms:
            how = f"in both of which {self.event} can happen"
        return tuple(
            f"The projection of {each.agent} merges {each.state} and {each.merged_with}, {how}; "
            f"to separate them, its local event set needs {listing(each.missing)}."
            for each in self.confusions
        )

    @property
    def _failure(self) -> str:
        """Say what the local machines allow after the trace, and the team machine does not."""
        after = f"Counterexample ({self.kind}): after {name_trace(self.trace)}"
        if self.terms:
            return f"{after}, {_describe_rewards(self)}."
        if self.event is None:
            but = f"but the team machine is in {self.state}, which is not"
            return f"{after}, every local reward machine is final, {but}."
        agents = [confusion.agent for confusion in self.confusions]
        why = f"nothing prevents {self.event}, which is in no local event set"
        if agents:
            why = f"{listing(agents, 'and')} {'proposes' if len(agents) == 1 else 'propose'} {self.event}"
        return f"{after}, {why}, but {self.event} is undefined in state {self.state}."

    def as_json(self) -> dict[str, object]:
        """Give the counterexample as a JSON document."""
        return {
            "trace": list(self.trace),
            "kind": self.kind,
            "event": self.event,
            "state": self.state,
            "remark": self.remark,
            "terms": [term._asdict() for term in self.terms],
            "confusions": [{**vars(each), "missing": list(each.missing)} for each in self.confusions],
        }


def _describe_rewards(example: Counterexample) -> str:
    """Say why no local rewards add up to the team's."""
    sides = [[term for term in example.terms if term.weight * sign > 0] for sign in (1, -1)]
    paid = [f"{float(sum(abs(term.weight) * Fraction(repr(term.reward)) for term in side)):g}" for side in sides]
    if [term.weight for term in example.terms] == [1, -1]:
        one, other = (term.state for term in example.terms)
        rule = f"no agent that knows {example.event} can tell {one} from {other}"
        return f"{example.event} is worth {paid[0]} in state {one}, but {paid[1]} in state {other}, and {rule}"
    often = {term: "" if abs(term.weight) == 1 else f"{abs(term.weight)} x " for term in example.terms}
    left, right = (listing((often[term] + term.state for term in side), "and") for side in sides)
    event, (pays, pays_too) = example.event, paid
    same = f"they get as much for it in {left} together as in {right}"
    return f"whatever the agents that know {event} are paid, {same}, but the team machine pays {pays} and {pays_too}"


def name_trace(trace: Sequence[str]) -> str:
    """Name a trace, leaving out the middle of a long one."""
    if not trace:
        return "the empty trace"
    if len(trace) > 24:
        return f"the trace {', '.join(trace[:12])}, … ({len(trace) - 24} more), {', '.join(trace[-12:])}"
    return f"the trace {', '.join(trace)}"


def listing(names: Iterable[str], joint: str = "or") -> str:
    """Join up to 12 names by commas and a word, and count the others."""
    listed = list(names)
    if len(listed) > 12:
        return f"{', '.join(listed[:12])} and {len(listed) - 12} more"
    return f" {joint} ".join((", ".join(listed[:-1]), listed[-1])) if len(listed) > 1 else "".join(listed)


def describe_structure(machine: RewardMachine, projections: Views, state: int, event: int) -> Counterexample:
    """Describe a phantom event, or a premature completion (-1), in a state."""

    def merged(view: Projection) -> list[Merged]:
        return [(state, *confuse(machine, view.visible, view.classes, state, event))]

    trace, confusions = machine.trace_to(state), _confusions(machine, projections, event, merged)
    remark = "" if machine.meaning is None else machine.meaning.say(trace)
    kind: Kind = "phantom event" if event >= 0 else "premature completion"
    name = machine.events.at(event) if event >= 0 else None
    return Counterexample(trace, kind, name, machine.states.at(state), confusions, remark)


def describe_unshared(machine: RewardMachine, projections: Views, refutation: Refutation) -> Counterexample:
    """Describe transitions whose rewards cannot be shared out."""

    def merged(view: Projection) -> list[Merged]:
        return find_unshared_pairs(machine, view.visible, view.classes, refutation)

    sources = [int(machine.graph.source[edge]) for edge, _ in refutation.weights]
    rows = zip(refutation.weights, map(machine.states.at, sources), strict=True)
    terms = tuple(Term(weight, state, float(machine.reward[edge])) for (edge, weight), state in rows)
    trace, event = machine.trace_to(sources[0]), machine.events.at(refutation.event)
    confusions = _confusions(machine, projections, refutation.event, merged)
    return Counterexample(trace, "reward", event, terms[0].state, confusions, terms=terms)


def _confusions(
    machine: RewardMachine, projections: Views, event: int, merged: Callable[[Projection], list[Merged]]
) -> tuple[Confusion, ...]:
    """Name the states that are merged by the projections of all agents that know an event (-1: of all agents)."""
    states, events = machine.states, machine.events
    return tuple(
        Confusion(agent, states.at(state), states.at(other), tuple(map(events.at, hidden)))
        for agent, view in projections.items()
        if event < 0 or view.visible[event]
        for state, other, hidden in merged(view)
    )


def find_unshared_pairs(team: RewardMachine, visible: Flags, classes: Ints, refutation: Refutation) -> list[Merged]:
    """Pair the states on both sides of a refutation that a projection merges."""
    unpaired: dict[int, list[tuple[int, int]]] = {}  # class -> states on one side, with their remaining weights
    pairs: dict[tuple[int, int], None] = {}
    for edge, weight in refutation.weights:
        state = int(team.graph.source[edge])
        group = unpaired.setdefault(int(classes[state]), [])
        while weight and group and group[-1][1] * weight < 0:
            other, other_weight = group.pop()
            pairs[other, state] = None
            weight += other_weight
            if other_weight * weight > 0:
                group.append((other, weight))
                weight = 0
        if weight:
            group.append((state, weight))
    states = len(team.states)
    return [(one, *_nearest_merged(team, visible, one, flags_at(other, states))) for one, other in pairs]


def confuse(team: RewardMachine, visible: Flags, classes: Ints, state: int, event: int) -> tuple[int, list[int]]:
    """Find a state that a projection merges with `state` and in which `event` is defined (-1: which is final).

    `classes` are those of the projection onto the `visible` events. Also returns the hidden events because of which
    the states are merged: unless one of them is added to the local event set, they stay merged. Prefers a state that is
    reached by few hidden events alone.
    """
    graph = team.graph
    goals = team.is_final if event < 0 else flags_at(graph.source[graph.label == event], graph.nodes)
    return _nearest_merged(team, visible, state, goals & (classes == classes[state]))


def _nearest_merged(team: RewardMachine, visible: Flags, state: int, goals: Flags) -> tuple[int, list[int]]:
    direct = hidden_path(team.graph, ~visible, state, goals)
    if direct is not None:
        other, labels = direct
        return other, list(dict.fromkeys(labels))
    other = int(np.flatnonzero(goals)[0])
    merges = congruence(team.graph, ~visible[team.graph.label]).merges
    return other, hidden_reasons(team.graph, merges, state, other)
