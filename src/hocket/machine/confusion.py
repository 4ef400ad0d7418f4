"""Where local machines cannot be right: which states projections merge, and on which hidden events that rests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hocket.graphs import Flags, Ints, hidden_path, hidden_reasons, prove_congruence
from hocket.machine.algebra import Projection
from hocket.machine.counterexample import Confusion, Counterexample, Term
from hocket.machine.reward_machine import RewardMachine
from hocket.machine.shared_rewards import Refutation


def describe_structure(
    machine: RewardMachine, projections: Mapping[str, Projection], state: int, event: int
) -> Counterexample:
    """Describe a phantom event or premature completion: the trace to its state, and what projections merge."""
    names, events = machine.states, tuple(machine.events)
    confusions = []
    for agent, projection in projections.items():
        if event < 0 or projection.visible[event]:
            other, hidden = confuse(machine, projection.visible, projection.classes, state, event)
            missing = tuple(events[label] for label in hidden)
            confusions.append(Confusion(agent, names.at(state), names.at(other), missing))
    trace = machine.trace_to(state)
    return Counterexample(
        trace=trace,
        kind="phantom event" if event >= 0 else "premature completion",
        event=events[event] if event >= 0 else None,
        state=names.at(state),
        confusions=tuple(confusions),
        remark="" if machine.meaning is None else machine.meaning.say(trace),
    )


def describe_unshared(
    machine: RewardMachine, projections: Mapping[str, Projection], refutation: Refutation
) -> Counterexample:
    """Describe rewards that cannot be shared out: the transitions that contradict each other, and what is merged."""
    names, events = machine.states, tuple(machine.events)
    confusions = []
    for agent, projection in projections.items():
        if projection.visible[refutation.event]:
            for state, other in merged_pairs(machine, projection.classes, refutation):
                missing = tuple(events[label] for label in why_merged(machine, projection.visible, state, other))
                confusions.append(Confusion(agent, names.at(state), names.at(other), missing))
    terms = tuple(
        Term(weight, names.at(int(machine.graph.source[edge])), float(machine.reward[edge]))
        for edge, weight in refutation.weights
    )
    return Counterexample(
        trace=machine.trace_to(int(machine.graph.source[refutation.weights[0][0]])),
        kind="reward",
        event=events[refutation.event],
        state=terms[0].state,
        confusions=tuple(confusions),
        terms=terms,
    )


def merged_pairs(machine: RewardMachine, classes: Ints, refutation: Refutation) -> list[tuple[int, int]]:
    """Match the states on both sides of a refutation that an agent takes for one another."""
    waiting: dict[int, list[tuple[int, int]]] = {}  # class -> states on one side, with what is left of their weights
    pairs: dict[tuple[int, int], None] = {}
    for edge, weight in refutation.weights:
        state = int(machine.graph.source[edge])
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
    return list(pairs)


def confuse(team: RewardMachine, visible: Flags, classes: Ints, state: int, event: int) -> tuple[int, list[int]]:
    """Find a state that a projection merges with `state` and in which `event` is defined (-1: which is final).

    `classes` are those of the projection onto the `visible` events. Returns the state with the hidden events on which
    the merging rests: as long as all of them stay hidden, the two states stay merged, whatever else is in the local
    event set. Prefers a state that few hidden events alone lead to.
    """
    return _nearest_merged(team, visible, state, _states_with(team, event) & (classes == classes[state]))


def why_merged(team: RewardMachine, visible: Flags, state: int, other: int) -> list[int]:
    """List the hidden events on which it rests that the projection onto the visible ones merges two states."""
    goals = np.zeros(len(team.states), np.bool_)
    goals[other] = True
    return _nearest_merged(team, visible, state, goals)[1]


def _nearest_merged(team: RewardMachine, visible: Flags, state: int, goals: Flags) -> tuple[int, list[int]]:
    direct = hidden_path(team.both_ways, ~visible, state, goals)
    if direct is not None:
        other, labels = direct
        return other, list(dict.fromkeys(labels))
    proof = prove_congruence(team.graph, ~visible[team.graph.label])
    other = int(np.flatnonzero(goals)[0])
    return other, hidden_reasons(team.graph, proof, state, other)


def _states_with(team: RewardMachine, event: int) -> Flags:
    if event < 0:
        return team.is_final
    flags = np.zeros(len(team.states), np.bool_)
    flags[team.graph.source[team.graph.label == event]] = True
    return flags
