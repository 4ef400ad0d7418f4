"""Delays: may agents that merely hear of an event hear of it late, and if not, who has to agree on it?

The *deciders* of an event agree on it atomically; the other agents that know it hear of it, late, in causal order.
That is harmless if and only if, in every reachable state u of the team machine,

- (G) where all deciders of an event propose it, it is defined: no guard is silent;
- (D) two events that have no decider in common, and of which some agent knows both, can happen in either order, and
  lead to the same local states;
- (W) no event closes a gate to an agent that merely hears of it.

Neither who blocks an event where it is undefined, nor which events do not commute, nor which gates an event closes
depends on the deciders: a set of deciders is checked, and a cheapest one found, by set operations on these rules. The
proof is in docs/decomposition.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import AssignmentError, known_names, require_known
from hocket.graphs import Flags, Ints, flags_at
from hocket.hitting_set import Effort, as_set, elements_of, find_cheapest
from hocket.machine.algebra import reachable_part
from hocket.machine.composition import Composition, Parts, independent_parts, split_known
from hocket.machine.counterexample import listing, name_trace
from hocket.machine.decomposition import Control, Decomposition, decompose
from hocket.machine.names import Known, Names, invert
from hocket.machine.reward_machine import RewardMachine

EFFORT = 20_000_000  # of the search for the cheapest pairs, in the units of the hitting-set search
LARGEST_ENUMERATION = 300_000  # states of a composition that are listed for the check
SPARSE = 1_000  # times as many states, of which few may be reachable, are explored
LARGEST_SAMPLE = 20_000  # states of a few of its machines
LARGEST_CODE = 1 << 62  # of a tuple of states as one number
AT_ONCE = 1_000_000  # states times pairs of events that are compared at once
CHECK = 200  # effort for one set of deciders

Closed = Mapping[str, Sequence[frozenset[str]]]  # agent -> the regions closed to it in each state of its local machine
Pair = tuple[str, str]  # (agent, event)
Deciders = Mapping[str, Collection[str]]  # event -> agents
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class DelayCounterexample:
    """A shortest schedule that breaks the task: everything is heard at once, except the event of the last hearing."""

    kind: Literal["silent guard", "diamond", "gate"]
    trace: tuple[str, ...]  # of the team machine; everybody has heard of all of it
    event: str  # that its deciders then agree on
    deciders: tuple[str, ...]  # of the event
    other: str | None = None  # diamond: an event that is decided by agents who have not heard of the first
    other_deciders: tuple[str, ...] = ()
    agents: tuple[str, ...]  # who could tell (silent guard), is confused (diamond), or may walk on (gate)
    region: str | None = None  # gate: what closes
    state: str  # of the team machine after the trace
    is_trace: bool = False  # diamond: whether both orders are traces, after which somebody's states differ


class Rule(NamedTuple):
    """One of these agents has to be among the deciders of all these events.

    (G) One event, and who blocks it in some state. (D) Two events that do not commute in some state, and who knows
    both. (W) One event that closes a gate, and the agent to which it does.
    """

    events: tuple[str, ...]
    agents: Names
    witness: DelayCounterexample

    def clause(self, chosen: Deciders) -> list[Pair]:
        """List pairs of which one must be added to the deciders; none where it is satisfied."""
        if any(all(agent in chosen[event] for event in self.events) for agent in self.agents):
            return []
        return [(agent, event) for agent in self.agents for event in self.events if agent not in chosen[event]]


def find_rules(decomposition: Decomposition, chosen: Deciders, hearers: Known, closed: Closed) -> list[Rule]:
    """Find the rules of a decomposable task that deciders at least as many as the chosen ones might break."""
    rules: tuple[list[Rule], ...] = ([], [], [])
    for piece in _pieces(decomposition, chosen, hearers, closed):
        rules[0].extend(_guards(piece, chosen, hearers))
        rules[1].extend(_conflicts(piece, chosen, hearers))
        rules[2].extend(_gates(piece, chosen, hearers, closed))
    return [*chain(*rules)]


def cheapest(rules: list[Rule], chosen: Deciders, pairs: list[Pair], effort: int) -> tuple[tuple[Pair, ...], bool]:
    """Find the fewest pairs that satisfy all rules, and say whether that is proved."""
    number = {pair: index for index, pair in enumerate(pairs)}
    search_effort = Effort(effort)

    def failing(added: int) -> int:
        search_effort.left -= CHECK + len(rules)
        grown = {event: set(agents) for event, agents in chosen.items()}
        for index in elements_of(added):
            agent, event = pairs[index]
            grown[event].add(agent)
        clauses = (rule.clause(grown) for rule in rules)
        return as_set(number[pair] for pair in next(filter(None, clauses), []))

    best = find_cheapest(lambda added: not failing(added), failing, dict.fromkeys(range(len(pairs)), 1), search_effort)
    return tuple(pairs[index] for index in elements_of(best.chosen)), best.chosen.bit_count() == best.bound


@dataclass(frozen=True)
class _Piece:
    """A team machine, or a part of it that is independent of the rest; its states are ranked in breadth-first order."""

    team: RewardMachine
    machines: Mapping[str, RewardMachine]  # of the agents that know something of it
    classes: Mapping[str, Ints]  # [states] of the team machine: the state of each agent's machine

    @cached_property
    def targets(self) -> Ints:
        """Where each event leads, by ranks; -1 where it is undefined: [ranks, events]."""
        graph, rank = self.team.graph, self.team.rank
        used = rank[graph.source] >= 0
        table = np.full((len(self.team.reach.order), len(self.team.events)), -1, np.int32)
        table[rank[graph.source[used]], graph.label[used]] = rank[graph.target[used]]
        return table

    @cached_property
    def ranked(self) -> Mapping[str, Ints]:
        return {agent: classes[self.team.reach.order] for agent, classes in self.classes.items()}

    @cached_property
    def joint(self) -> NDArray[np.int64]:
        """Number the tuples of all agents' local states: [ranks]."""
        codes, size = np.zeros(len(self.team.reach.order), np.int64), 1
        for agent, classes in self.ranked.items():
            width = len(self.machines[agent].states)
            if size * width > LARGEST_CODE:
                codes, size = np.unique(codes, return_inverse=True)[1].ravel(), len(codes)
            codes, size = codes * width + classes, size * width
        return codes

    def accepts(self, agent: str, event: str) -> Flags:
        """Flag where an agent's machine has a transition on an event: [ranks]."""
        machine = self.machines[agent]
        proposing = machine.graph.source[machine.graph.label == machine.events.index(event)]
        return flags_at(proposing, len(machine.states))[self.ranked[agent]]

    def schedule(self, rank: int, event: str, chosen: Deciders) -> dict[str, Any]:
        """Tell of an event in a state: what a counterexample is that begins with it."""
        state, deciders = int(self.team.reach.order[rank]), tuple(chosen[event])
        trace, name = self.team.trace_to(state), self.team.states.at(state)
        return {"trace": trace, "event": event, "deciders": deciders, "state": name}


def _pieces(decomposition: Decomposition, chosen: Deciders, hearers: Known, closed: Closed) -> Iterator[_Piece]:
    """Lay out the reachable states of a team machine, part by part where the parts are independent.

    A composition of the agents' own machines may be too large to be listed. Then nothing is yielded if it can be seen
    from a few machines at a time that nothing can go wrong, and otherwise it is an error.
    """
    machine, machines = decomposition.machine, decomposition.machines
    if isinstance(machine, Composition) and machine.is_split_by(decomposition.knows):
        if (piece := _composed(machines, LARGEST_ENUMERATION)) is not None:
            yield piece
        elif not _is_harmless(machines, chosen, hearers, closed):
            size = machine.most_states_shown
            raise AssignmentError(f"delays of a composition of up to {size} states cannot be checked: it is too large")
    elif (parts := independent_parts(machine)) is not None:
        known = split_known(parts, decomposition.knows)
        yield from (_enumerated(decompose(parts[name], knows)) for name, knows in known.items() if knows)
    else:
        yield _enumerated(decomposition)


def _enumerated(decomposition: Decomposition) -> _Piece:
    assert isinstance(decomposition.machine, RewardMachine)
    machines = decomposition.machines
    classes = {agent: machine.origin.classes for agent, machine in machines.items() if machine.origin is not None}
    return _Piece(reachable_part(decomposition.machine), machines, classes)


def _composed(parts: Mapping[str, RewardMachine], most: int) -> _Piece | None:
    """Lay out the composition of some machines; None where it has more states than `most`."""
    team = Composition(parts)
    if team.most_states > SPARSE * most or (listed := team.reachable(most)) is None:
        return None
    states, machine = listed
    return _Piece(machine, parts, dict(zip(parts, np.ascontiguousarray(states.T), strict=True)))


def _is_harmless(parts: Parts, chosen: Deciders, hearers: Known, closed: Closed) -> bool:
    """Say whether nothing can go wrong, as far as a few machines at a time can tell; `False` does not mean that it can.

    What some machines of a composition reach together, all of them reach less of. An event's guards are looked for with
    its deciders and one hearer, and what does not commute in the machine of one agent.
    """
    for event, agents in hearers.items():
        for agent in agents:
            piece = _composed({a: parts[a] for a in (*chosen[event], agent)}, LARGEST_SAMPLE)
            if piece is None or closed.get(agent):
                return False
            proposed = np.logical_and.reduce([piece.accepts(decider, event) for decider in chosen[event]])
            if (proposed & ~piece.accepts(agent, event)).any():
                return False
    for machine in parts.values():
        for moves in machine.moves.values():
            for one, other in combinations(moves, 2):
                ends = machine.step(moves[one], other), machine.step(moves[other], one)
                if (None in ends or ends[0] != ends[1]) and not any(a in chosen[other] for a in chosen[one]):
                    return False
    return True


def _guards(piece: _Piece, chosen: Deciders, hearers: Known) -> Iterator[Rule]:
    """Find who blocks each event that somebody merely hears of, in the states in which it is undefined."""
    for column, event in enumerate(piece.team.events):
        if not hearers[event] or not (piece.targets[:, column] >= 0).any():
            continue
        knowers = [agent for agent in piece.machines if agent in chosen[event] or agent in hearers[event]]
        places = np.flatnonzero(piece.targets[:, column] < 0)
        blocks = np.array([~piece.accepts(agent, event)[places] for agent in knowers])
        packed = np.packbits(blocks, axis=0, bitorder="little")  # [bytes, places]
        codes = np.ascontiguousarray(packed.T).view(np.dtype((np.void, len(packed)))).ravel()
        for first in sorted(np.unique(codes, return_index=True)[1].tolist()):
            agents = Names(agent for agent, is_one in zip(knowers, blocks[:, first].tolist(), strict=True) if is_one)
            what = piece.schedule(int(places[first]), event, chosen)
            yield Rule((event,), agents, DelayCounterexample(kind="silent guard", **what, agents=tuple(agents)))


def _conflicts(piece: _Piece, chosen: Deciders, hearers: Known) -> Iterator[Rule]:
    """Find the events without a decider in common, known to one agent, that do not commute somewhere."""
    column = {event: place for place, event in enumerate(piece.team.events)}
    pairs = {
        (column[one], column[other]): None
        for machine in piece.machines.values()
        for one, other in combinations(machine.events, 2)
        if not any(agent in chosen[other] for agent in chosen[one])
    }
    listed, size = np.array([*pairs], np.intp).reshape(-1, 2), max(1, AT_ONCE // len(piece.targets))
    for begin in range(0, len(listed), size):
        some, table = listed[begin : begin + size], piece.targets
        ranks, places = np.nonzero((table[:, some[:, 0]] >= 0) & (table[:, some[:, 1]] >= 0))
        first, second = some[places].T
        forth, back = table[table[ranks, first], second], table[table[ranks, second], first]
        are_traces = (forth >= 0) & (back >= 0)
        bad = np.flatnonzero(~are_traces | (piece.joint[forth] != piece.joint[back]))
        for index in bad[np.unique(places[bad], return_index=True)[1]].tolist():  # a first state for each pair
            rank, is_trace = int(ranks[index]), bool(are_traces[index])
            one, other = map(piece.team.events.at, some[places[index]].tolist())
            if not is_trace and forth[index] >= 0:
                one, other = other, one  # so that the order in which they are told is the one that is no trace
            knows = {event: {*chosen[event], *hearers[event]} for event in (one, other)}
            agents = Names(agent for agent in piece.machines if agent in knows[one] & knows[other])
            what = piece.schedule(rank, one, chosen) | {"other": other, "other_deciders": tuple(chosen[other])}
            example = DelayCounterexample(kind="diamond", **what, agents=tuple(agents), is_trace=is_trace)
            yield Rule((one, other), agents, example)


def _gates(piece: _Piece, chosen: Deciders, hearers: Known, closed: Closed) -> Iterator[Rule]:
    """Find the events that close a gate to an agent that merely hears of them."""
    for column, event in enumerate(piece.team.events):
        for agent in hearers[event]:
            shut = closed.get(agent)
            if not shut or agent not in piece.machines:
                continue
            before = np.flatnonzero(piece.targets[:, column] >= 0)
            classes, ends = piece.ranked[agent].tolist(), piece.targets[before, column].tolist()
            for rank, end in zip(before.tolist(), ends, strict=True):
                if closing := sorted(shut[classes[end]] - shut[classes[rank]]):
                    what = piece.schedule(rank, event, chosen) | {"agents": (agent,), "region": closing[0]}
                    yield Rule((event,), Names([agent]), DelayCounterexample(kind="gate", **what))
                    break


# The check.


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
            late = "An event may be heard late by agents that know it and do not decide on it."
            at_once = "Whoever knows an event decides on it, so nothing is heard late."
            return (f"Delays: tolerant. {late if any(self.hearers.values()) else at_once}",)
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
    rules = find_rules(decomposition, chosen, hearers, closed) if any(hearers.values()) else []
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
    among = {event: given.get(event) or control.get(event) or agents for event, agents in knowers.items()}
    return {event: Names(agent for agent in agents if agent in among[event]) for event, agents in knowers.items()}


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
        late = f"closes {example.region} to {others}; {others} has not heard of it"
        return f"Counterexample (gate): {begin}, which {late}."
    late = f"{listing(example.other_deciders, 'and')} {'has' if len(example.other_deciders) == 1 else 'have'} not heard"
    late = f"{late} and {deciding(example.other_deciders)} {happening(str(example.other))}"
    if example.is_trace:
        end = f"{others} may hear of them in either order, which lead to different local states"
    else:
        both = name_trace((*example.trace, example.event, str(example.other)))
        end = f"{both.removeprefix('the trace ')} is no trace of the team machine"
    return f"Counterexample (diamond): {begin}; {late}; {end}."


def _pairs(pairs: Sequence[Pair]) -> str:
    return listing((f"{agent}: {event}" for agent, event in pairs), "and")
