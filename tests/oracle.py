"""Brute-force answers, written straight from the definitions, for machines of a handful of states."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations, product
from typing import Any, NamedTuple

State = Hashable
Pair = tuple[str, str]  # (agent, event)
Knows = Mapping[str, Iterable[str]]
Trace = tuple[str, ...]


class Machine(NamedTuple):
    """The textbook tuple, with rewards on (state, event)."""

    states: frozenset[State]
    initial: State
    events: frozenset[str]
    transitions: dict[tuple[State, str], State]
    final: frozenset[State]
    rewards: dict[tuple[State, str], float]


class Evidence(NamedTuple):
    """One way in which the parts of a task allow what the team machine does not."""

    trace: Trace
    kind: str
    event: str | None


def plain(machine: Any) -> Machine:
    """Read the public fields of a reward machine into a plain tuple."""
    return Machine(
        frozenset(machine.states),
        machine.initial,
        frozenset(machine.events),
        dict(machine.transitions),
        frozenset(machine.final),
        dict(machine.rewards),
    )


def completion_rewards(
    transitions: Mapping[tuple[State, str], State], final: Iterable[State]
) -> dict[tuple[State, str], float]:
    """Reward 1 for entering the final states from outside and 0 for everything else."""
    return {
        (source, event): float(target in final and source not in final)
        for (source, event), target in transitions.items()
    }


def rename(machine: Machine, name: Callable[[State], State]) -> Machine:
    """Give every state another name."""
    return Machine(
        frozenset(name(state) for state in machine.states),
        name(machine.initial),
        machine.events,
        {(name(source), event): name(target) for (source, event), target in machine.transitions.items()},
        frozenset(name(state) for state in machine.final),
        {(name(source), event): reward for (source, event), reward in machine.rewards.items()},
    )


def run(machine: Machine, trace: Iterable[str]) -> State | None:
    """Follow a trace from the initial state, None where it leaves the domain of the transition function."""
    state: State | None = machine.initial
    for event in trace:
        if state is not None:
            state = machine.transitions.get((state, event))
    return state


def equivalence(machine: Machine, known: Iterable[str]) -> dict[State, frozenset[State]]:
    """Map every state to its class by applying the two rules to all pairs until nothing changes."""
    known = set(known)
    block = {state: frozenset([state]) for state in machine.states}

    def merge(one: State, other: State) -> None:
        joined = block[one] | block[other]
        for state in joined:
            block[state] = joined

    before = None
    while block != before:
        before = dict(block)
        for (source, event), target in machine.transitions.items():
            if event not in known:
                merge(source, target)
        for ((one, event), target), ((other, event_too), target_too) in combinations(machine.transitions.items(), 2):
            if event == event_too and event in known and block[one] == block[other]:
                merge(target, target_too)
    return block


def project(machine: Machine, known: Iterable[str]) -> Machine:
    """Build the quotient whose states are the classes themselves."""
    known = frozenset(known)
    block = equivalence(machine, known)
    transitions = {
        (block[source], event): block[target]
        for (source, event), target in machine.transitions.items()
        if event in known
    }
    final = frozenset(block[state] for state in machine.final)
    return Machine(
        frozenset(block.values()),
        block[machine.initial],
        known,
        transitions,
        final,
        completion_rewards(transitions, final),
    )


def synchronous_product(parts: Sequence[Machine]) -> Machine:
    """Build the parallel composition on every tuple of states, reachable or not."""
    states = list(product(*(part.states for part in parts)))
    events = frozenset(chain.from_iterable(part.events for part in parts))
    transitions = {}
    for state in states:
        for event in events:
            target = tuple(
                part.transitions.get((local, event)) if event in part.events else local
                for part, local in zip(parts, state, strict=True)
            )
            if None not in target:
                transitions[state, event] = target
    final = frozenset(
        state for state in states if all(local in part.final for part, local in zip(parts, state, strict=True))
    )
    return Machine(
        frozenset(states),
        tuple(part.initial for part in parts),
        events,
        transitions,
        final,
        completion_rewards(transitions, final),
    )


def reachable_states(machine: Machine) -> frozenset[State]:
    """Collect the states that some trace leads to."""
    found = {machine.initial}
    before = None
    while found != before:
        before = set(found)
        found |= {target for (source, _), target in machine.transitions.items() if source in before}
    return frozenset(found)


def reachable(machine: Machine) -> Machine:
    """Drop the states that no trace leads to."""
    kept = reachable_states(machine)
    return machine._replace(
        states=kept,
        transitions={key: target for key, target in machine.transitions.items() if key[0] in kept},
        final=machine.final & kept,
        rewards={key: reward for key, reward in machine.rewards.items() if key[0] in kept},
    )


def compose(parts: Sequence[Machine]) -> Machine:
    """Build the reachable part of the parallel composition, its states being tuples."""
    return reachable(synchronous_product(parts))


def distinguishing_lengths(one: Machine, other: Machine) -> dict[tuple[State, State], int]:
    """Give each pair of states that differ the length of a shortest trace that shows it."""
    events = one.events | other.events
    lengths = {
        (left, right): 0
        for left in one.states
        for right in other.states
        if (left in one.final) != (right in other.final)
    }
    for length in range(1, len(one.states) * len(other.states) + 1):
        known = set(lengths)
        for left, right in product(one.states, other.states):
            for event in events:
                here, there = (left, event), (right, event)
                defined, defined_too = here in one.transitions, there in other.transitions
                if (left, right) in known or not (defined or defined_too):
                    continue
                if (
                    defined != defined_too
                    or one.rewards[here] != other.rewards[there]
                    or (one.transitions[here], other.transitions[there]) in known
                ):
                    lengths[left, right] = length
        if len(known) == len(lengths):
            break
    return lengths


def distinguishing_length(one: Machine, other: Machine) -> int | None:
    """Find the length of a shortest trace on which two machines differ, None if they are bisimilar."""
    return distinguishing_lengths(one, other).get((one.initial, other.initial))


def bisimilar(one: Machine, other: Machine) -> bool:
    """Decide bisimilarity by the greatest fixpoint over pairs of states."""
    return distinguishing_length(one, other) is None


def bisimulation_classes(machine: Machine) -> frozenset[frozenset[State]]:
    """Partition the reachable states into those that no trace tells apart."""
    machine = reachable(machine)
    differ = distinguishing_lengths(machine, machine)
    return frozenset(
        frozenset(other for other in machine.states if (state, other) not in differ) for state in machine.states
    )


def decomposable(machine: Machine, knows: Knows) -> bool:
    """Compare the reachable part of the team machine with the product of its projections; rewards are not compared."""
    machine = reachable(machine._replace(rewards=completion_rewards(machine.transitions, machine.final)))
    return bisimilar(machine, compose([project(machine, known) for known in knows.values()]))


def shareable(machine: Machine, knows: Knows) -> bool:
    """Decide by Gaussian elimination over all transitions whether rewards, as decimals, are sums of local ones."""
    machine = reachable(machine)
    blocks = {agent: equivalence(machine, known) for agent, known in knows.items()}
    columns: dict[object, int] = {}
    rows = []
    for (state, event), reward in machine.rewards.items():
        paid = [(agent, blocks[agent][state], event) for agent, known in knows.items() if event in known]
        places = {columns.setdefault(key, len(columns)) for key in paid}
        rows.append((places, Fraction(repr(reward))))
    matrix = [[Fraction(place in places) for place in range(len(columns))] + [total] for places, total in rows]
    for column in range(len(columns)):
        pivot = next((row for row in matrix if row[column]), None)
        if pivot is not None:
            matrix = [
                [value - row[column] / pivot[column] * other for value, other in zip(row, pivot, strict=True)]
                for row in matrix
                if row is not pivot
            ]
    return not any(row[-1] for row in matrix)


def controllers_know(knows: Knows, control: Mapping[str, Iterable[str]]) -> bool:
    """Check that every agent that controls an event knows it."""
    return all(event in knows[agent] for event, agents in control.items() for agent in agents)


def evidence_after(machine: Machine, parts: Mapping[str, Machine], trace: Trace) -> Iterator[Evidence]:
    """List what the parts allow and the team machine forbids right after a trace of the team machine."""
    state = run(machine, trace)
    local = {agent: run(part, [event for event in trace if event in part.events]) for agent, part in parts.items()}
    if all(local[agent] in part.final for agent, part in parts.items()) and state not in machine.final:
        yield Evidence(trace, "premature completion", None)
    for event in machine.events:
        accepted = all(
            (local[agent], event) in part.transitions for agent, part in parts.items() if event in part.events
        )
        if accepted and (state, event) not in machine.transitions:
            yield Evidence(trace, "phantom event", event)


def shortest_evidence(machine: Machine, knows: Knows) -> set[Evidence]:
    """Collect all counterexamples of the least length by enumerating the traces of the team machine."""
    parts = {agent: project(reachable(machine), known) for agent, known in knows.items()}
    traces: list[Trace] = [()]
    for _ in machine.states:
        found = {evidence for trace in traces for evidence in evidence_after(machine, parts, trace)}
        if found:
            return found
        traces = [
            (*trace, event) for trace in traces for event in machine.events if run(machine, (*trace, event)) is not None
        ]
    return set()


def grow(knows: Knows, pairs: Iterable[Pair]) -> dict[str, frozenset[str]]:
    """Add (agent, event) pairs to an assignment."""
    pairs = list(pairs)
    return {
        agent: frozenset(known) | {event for name, event in pairs if name == agent} for agent, known in knows.items()
    }


def price(pairs: Iterable[Pair], cost: Mapping[Pair, float] | None) -> float:
    """Sum the costs of (agent, event) pairs, 1 each unless told otherwise."""
    return sum((cost or {}).get(pair, 1) for pair in pairs)


def minimum_repair(
    machine: Machine,
    knows: Knows,
    control: Mapping[str, Iterable[str]] | None = None,
    cost: Mapping[Pair, float] | None = None,
    forbidden: Iterable[Pair] = (),
) -> float | None:
    """Find the least cost of additions that make the task valid by trying all sets in order of cost."""
    forbidden = set(forbidden)
    addable = [
        (agent, event)
        for agent, known in knows.items()
        for event in machine.events
        if event not in known and (agent, event) not in forbidden
    ]
    choices = chain.from_iterable(combinations(addable, size) for size in range(len(addable) + 1))
    for choice in sorted(choices, key=lambda pairs: price(pairs, cost)):
        grown = grow(knows, choice)
        if controllers_know(grown, control or {}) and decomposable(machine, grown) and shareable(machine, grown):
            return price(choice, cost)
    return None
