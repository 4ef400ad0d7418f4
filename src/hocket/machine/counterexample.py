"""Counterexample: a shortest trace after which local machines allow what the team machine does not; what is merged."""

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
Merged = tuple[int, int, list[int]]  # two states, and the hidden events on which it rests that they are merged


@dataclass(frozen=True)
class Confusion:
    """Two states that an agent's projection merges, and the events outside its local event set that merge them."""

    agent: str
    state: str  # of the team machine after the trace
    merged_with: str  # in which the event is defined, or which is final
    missing: tuple[str, ...]  # to separate the two, the local event set needs at least one of these


class Term(NamedTuple):
    """A transition in a proof that rewards cannot be shared out."""

    weight: int  # how often it is counted, and on which side
    state: str  # in which the event happens
    reward: float


@dataclass(frozen=True)
class Counterexample:
    """A shortest trace after which the composition of the local machines allows what the team machine does not.

    Of the kind `reward`: an event whose rewards are no sum of local ones. Then `terms` are transitions, counted with
    weights so that local states cancel for every agent that knows the event, and rewards do not.
    """

    trace: tuple[str, ...]  # of the team machine
    kind: Kind
    event: str | None  # the phantom event, or the event that is rewarded; None for a premature completion
    state: str  # where the team machine is after the trace
    confusions: tuple[Confusion, ...]  # of each agent that proposes the event, is in a final state, or would be paid
    remark: str = ""  # what that state means in the words of the formula, where the machine comes from one
    terms: tuple[Term, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What goes wrong after which trace, and what that means in the words of the formula."""
        return (describe_failure(self), *([f"There, {self.remark}"] if self.remark else []))

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


def describe_failure(example: Counterexample) -> str:
    """Say what the local machines allow after which trace, and the team machine does not."""
    after = f"Counterexample ({example.kind}): after {name_trace(example.trace)}"
    if example.terms:
        return f"{after}, {_describe_rewards(example)}."
    if example.event is None:
        but = f"but the team machine is in {example.state}, which is not"
        return f"{after}, every local reward machine is final, {but}."
    agents = [confusion.agent for confusion in example.confusions]
    if not agents:
        why = f"nothing prevents {example.event}, which is in no local event set"
    else:
        why = f"{listing(agents, 'and')} {'proposes' if len(agents) == 1 else 'propose'} {example.event}"
    return f"{after}, {why}, but {example.event} is undefined in state {example.state}."


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


def describe_merging(example: Counterexample, confusion: Confusion) -> str:
    """Say which states a projection merges, and what would separate them."""
    how = "which is final" if example.event is None else f"where {example.event} is defined"
    if example.terms:
        how = f"in both of which {example.event} can happen"
    merges = f"The projection of {confusion.agent} merges {confusion.state} and {confusion.merged_with}, {how}"
    return f"{merges}; to separate them, its local event set needs {listing(confusion.missing)}."


def name_trace(trace: Sequence[str]) -> str:
    """Name a trace, the middle of a long one left out."""
    if not trace:
        return "the empty trace"
    if len(trace) > 24:
        return f"the trace {', '.join(trace[:12])}, … ({len(trace) - 24} more), {', '.join(trace[-12:])}"
    return f"the trace {', '.join(trace)}"


def listing(names: Iterable[str], joint: str = "or") -> str:
    """Join names by commas and a word, leaving out what would be too many."""
    listed = list(names)
    if len(listed) > 12:
        return f"{', '.join(listed[:12])} and {len(listed) - 12} more"
    return f" {joint} ".join((", ".join(listed[:-1]), listed[-1])) if len(listed) > 1 else "".join(listed)


def describe_structure(machine: RewardMachine, projections: Views, state: int, event: int) -> Counterexample:
    """Describe a phantom event or premature completion: the trace to its state, and what projections merge."""

    def merged(view: Projection) -> list[Merged]:
        return [(state, *confuse(machine, view.visible, view.classes, state, event))]

    trace, confusions = machine.trace_to(state), _confusions(machine, projections, event, merged)
    remark = "" if machine.meaning is None else machine.meaning.say(trace)
    kind: Kind = "phantom event" if event >= 0 else "premature completion"
    name = machine.events.at(event) if event >= 0 else None
    return Counterexample(trace, kind, name, machine.states.at(state), confusions, remark)


def describe_unshared(machine: RewardMachine, projections: Views, refutation: Refutation) -> Counterexample:
    """Describe rewards that cannot be shared out: the transitions that contradict each other, and what is merged."""

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
    """Name what the projections of all agents merge that know an event; of all, if it is none."""
    names, events = machine.states, machine.events
    return tuple(
        Confusion(agent, names.at(state), names.at(other), tuple(map(events.at, hidden)))
        for agent, view in projections.items()
        if event < 0 or view.visible[event]
        for state, other, hidden in merged(view)
    )


def find_unshared_pairs(team: RewardMachine, visible: Flags, classes: Ints, refutation: Refutation) -> list[Merged]:
    """Match the states on both sides of a refutation that an agent takes for one another."""
    waiting: dict[int, list[tuple[int, int]]] = {}  # class -> states on one side, with what is left of their weights
    pairs: dict[tuple[int, int], None] = {}
    for edge, weight in refutation.weights:
        state = int(team.graph.source[edge])
        group = waiting.setdefault(int(classes[state]), [])
        while weight and group and group[-1][1] * weight < 0:
            other, left = group.pop()
            pairs[other, state] = None
            weight += left
            if left * weight > 0:
                group.append((other, weight))
                weight = 0
        if weight:
            group.append((state, weight))
    states = len(team.states)
    return [(one, *_nearest_merged(team, visible, one, flags_at(other, states))) for one, other in pairs]


def confuse(team: RewardMachine, visible: Flags, classes: Ints, state: int, event: int) -> tuple[int, list[int]]:
    """Find a state that a projection merges with `state` and in which `event` is defined (-1: which is final).

    `classes` are those of the projection onto the `visible` events. Returns the state with the hidden events on which
    the merging rests: as long as all of them stay hidden, the two states stay merged, whatever else is in the local
    event set. Prefers a state that few hidden events alone lead to.
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
