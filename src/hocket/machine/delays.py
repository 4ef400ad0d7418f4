"""Delays: whether agents that only hear of an event may hear of it late, and if not, which agents have to agree on it.

The *deciders* of an event agree on it atomically; the other agents that know it hear of it late, in causal order. This
is harmless if and only if, in every reachable state u of the team machine,

- (G) where all deciders of an event propose it, it is defined: no guard is silent;
- (D) two events that have no decider in common, and of which some agent knows both, can happen in either order, and
  lead to the same local states;
- (W) no event closes a gate to an agent that only hears of it.

Which agents block an event where it is undefined, which events do not commute and which gates an event closes does not
depend on the deciders: a set of deciders is checked, and a cheapest one found, by set operations on these rules. The
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
SPARSE = 1_000  # a composition may have this many times more states, as few of them may be reachable
LARGEST_SAMPLE = 20_000  # states of the composition of a few machines
LARGEST_CODE = 1 << 62  # of a tuple of states as one number
AT_ONCE = 1_000_000  # states times pairs of events that are compared at once
CHECK = 200  # effort for one set of deciders

Closed = Mapping[str, Sequence[frozenset[str]]]  # agent -> the regions closed to it in each state of its local machine
Pair = tuple[str, str]  # (agent, event)
Deciders = Mapping[str, Collection[str]]  # event -> agents
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class DelayCounterexample:
    """A shortest schedule that breaks the task: all events but the last are heard of at once."""

    kind: Literal["silent guard", "diamond", "gate"]
    trace: tuple[str, ...]  # of the team machine; all agents have heard of all of it
    event: str  # on which its deciders then agree
    deciders: tuple[str, ...]  # of the event
    other: str | None = None  # diamond: an event that is decided by agents that have not heard of the first
    other_deciders: tuple[str, ...] = ()
    agents: tuple[str, ...]  # that could block it (silent guard), hear of both (diamond), or may enter (gate)
    region: str | None = None  # gate: the region that closes
    state: str  # of the team machine after the trace
    is_trace: bool = False  # diamond: whether both orders are traces, after which local states of an agent differ


class Rule(NamedTuple):
    """One of these agents has to be among the deciders of all these events.

    (G) One event, and the agents that block it in some state. (D) Two events that do not commute in some state, and the
    agents that know both. (W) One event that closes a gate, and the agent to which it closes.
    """

    events: tuple[str, ...]
    agents: Names
    witness: DelayCounterexample

    def clause(self, chosen: Deciders) -> list[Pair]:
        """List pairs of which one must be added to the deciders; none if the rule is satisfied."""
        if any(all(agent in chosen[event] for event in self.events) for agent in self.agents):
            return []
        return [(agent, event) for agent in self.agents for event in self.events if agent not in chosen[event]]


def find_rules(decomposition: Decomposition, chosen: Deciders, hearers: Known, closed: Closed) -> list[Rule]:
    """Find the rules of a decomposable task that the chosen deciders or more might break."""
    rules: tuple[list[Rule], ...] = ([], [], [])
    for piece in _pieces(decomposition, chosen, hearers, closed):
        rules[0].extend(_guards(piece, chosen, hearers))
        rules[1].extend(_conflicts(piece, chosen, hearers))
        rules[2].extend(_gates(piece, chosen, hearers, closed))
    return [*chain(*rules)]


def cheapest(rules: list[Rule], chosen: Deciders, pairs: list[Pair], effort: int) -> tuple[tuple[Pair, ...], bool]:
    """Find the fewest pairs that satisfy all rules if added to the deciders, and say whether they are proved fewest."""
    number = {pair: index for index, pair in enumerate(pairs)}
    remaining = Effort(effort)

    def failing(added: int) -> int:
        remaining.left -= CHECK + len(rules)
        deciders = {event: set(agents) for event, agents in chosen.items()}
        for index in elements_of(added):
            agent, event = pairs[index]
            deciders[event].add(agent)
        clauses = (rule.clause(deciders) for rule in rules)
        return as_set(number[pair] for pair in next(filter(None, clauses), []))

    best = find_cheapest(lambda added: not failing(added), failing, dict.fromkeys(range(len(pairs)), 1), remaining)
    return tuple(pairs[index] for index in elements_of(best.chosen)), best.chosen.bit_count() == best.bound


@dataclass(frozen=True)
class _Piece:
    """A team machine, or a part of it that is independent of the rest; its states are ranked in breadth-first order."""

    team: RewardMachine
    machines: Mapping[str, RewardMachine]  # of the agents that know events of it
    classes: Mapping[str, Ints]  # [states] of the team machine: the state of each agent's machine

    @cached_property
    def targets(self) -> Ints:
        """The rank to which each event leads; -1 where it is undefined: [ranks, events]."""
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
        """Flag the states in which an agent's machine has a transition on an event: [ranks]."""
        machine = self.machines[agent]
        proposing = machine.graph.source[machine.graph.label == machine.events.index(event)]
        return flags_at(proposing, len(machine.states))[self.ranked[agent]]

    def schedule(self, rank: int, event: str, chosen: Deciders) -> dict[str, Any]:
        """Return the fields of a counterexample that begins with an event in a state."""
        state, deciders = int(self.team.reach.order[rank]), tuple(chosen[event])
        trace, name = self.team.trace_to(state), self.team.states.at(state)
        return {"trace": trace, "event": event, "deciders": deciders, "state": name}


def _pieces(decomposition: Decomposition, chosen: Deciders, hearers: Known, closed: Closed) -> Iterator[_Piece]:
    """Lay out the reachable states of a team machine, part by part if the parts are independent.

    If a composition is too large, nothing is yielded if a few machines at a time prove that delays are harmless, and
    otherwise it is an error.
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
    """Lay out the composition of some machines; None if it has more states than `most`."""
    team = Composition(parts)
    if team.most_states > SPARSE * most or (listed := team.reachable(most)) is None:
        return None
    states, machine = listed
    return _Piece(machine, parts, dict(zip(parts, np.ascontiguousarray(states.T), strict=True)))


def _is_harmless(parts: Parts, chosen: Deciders, hearers: Known, closed: Closed) -> bool:
    """Say whether a few machines at a time prove that delays are harmless; they may be harmless without such a proof.

    All machines of a composition together reach no other states than some of them do. Silent guards are excluded by the
    deciders and one hearer of an event, and events that do not commute by the machine of one agent.
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
    """Find the agents that block an event with hearers, in the states in which it is undefined."""
    for column, event in enumerate(piece.team.events):
        if not hearers[event] or not (piece.targets[:, column] >= 0).any():
            continue
        knowers = [agent for agent in piece.machines if agent in chosen[event] or agent in hearers[event]]
        undefined = np.flatnonzero(piece.targets[:, column] < 0)
        blocks = np.array([~piece.accepts(agent, event)[undefined] for agent in knowers])
        packed = np.packbits(blocks, axis=0, bitorder="little")  # [bytes, states]
        codes = np.ascontiguousarray(packed.T).view(np.dtype((np.void, len(packed)))).ravel()
        for first in sorted(np.unique(codes, return_index=True)[1].tolist()):
            agents = Names(agent for agent, is_one in zip(knowers, blocks[:, first].tolist(), strict=True) if is_one)
            begin = piece.schedule(int(undefined[first]), event, chosen)
            yield Rule((event,), agents, DelayCounterexample(kind="silent guard", **begin, agents=tuple(agents)))


def _conflicts(piece: _Piece, chosen: Deciders, hearers: Known) -> Iterator[Rule]:
    """Find pairs of events without a common decider, known to one agent, that do not commute in some state."""
    table, column = piece.targets, piece.team.events.index
    pairs = {
        (column(one), column(other)): None
        for machine in piece.machines.values()
        for one, other in combinations(machine.events, 2)
        if not any(agent in chosen[other] for agent in chosen[one])
    }
    listed, size = np.array([*pairs], np.intp).reshape(-1, 2), max(1, AT_ONCE // len(table))
    for begin in range(0, len(listed), size):
        some = listed[begin : begin + size]
        ranks, rows = np.nonzero((table[:, some[:, 0]] >= 0) & (table[:, some[:, 1]] >= 0))
        first, second = some[rows].T
        forth, back = table[table[ranks, first], second], table[table[ranks, second], first]
        are_traces = (forth >= 0) & (back >= 0)
        bad = np.flatnonzero(~are_traces | (piece.joint[forth] != piece.joint[back]))
        for index in bad[np.unique(rows[bad], return_index=True)[1]].tolist():  # the nearest state of each pair
            rank, is_trace = int(ranks[index]), bool(are_traces[index])
            one, other = map(piece.team.events.at, some[rows[index]].tolist())
            if not is_trace and forth[index] >= 0:
                one, other = other, one  # so that the counterexample has the order that is no trace
            knows = {event: {*chosen[event], *hearers[event]} for event in (one, other)}
            agents = Names(agent for agent in piece.machines if agent in knows[one] & knows[other])
            fields = piece.schedule(rank, one, chosen) | {"other": other, "other_deciders": tuple(chosen[other])}
            example = DelayCounterexample(kind="diamond", **fields, agents=tuple(agents), is_trace=is_trace)
            yield Rule((one, other), agents, example)


def _gates(piece: _Piece, chosen: Deciders, hearers: Known, closed: Closed) -> Iterator[Rule]:
    """Find the events that close a gate to an agent that only hears of them."""
    for column, event in enumerate(piece.team.events):
        for agent in hearers[event]:
            regions = closed.get(agent)
            if not regions or agent not in piece.machines:
                continue
            before = np.flatnonzero(piece.targets[:, column] >= 0)
            classes, ends = piece.ranked[agent].tolist(), piece.targets[before, column].tolist()
            for rank, end in zip(before.tolist(), ends, strict=True):
                if closing := sorted(regions[classes[end]] - regions[classes[rank]]):
                    fields = piece.schedule(rank, event, chosen) | {"agents": (agent,), "region": closing[0]}
                    yield Rule((event,), Names([agent]), DelayCounterexample(kind="gate", **fields))
                    break


# The check.


@dataclass(frozen=True, repr=False)
class DelayCheck:
    """Whether a task tolerates that events are heard late, with the evidence."""

    deciders: Mapping[str, Names]  # of each event
    hearers: Mapping[str, Names]  # of each event: the other agents that know it
    counterexample: DelayCounterexample | None
    critical: tuple[Pair, ...] = ()  # pairs (agent, event): that the agent hears of it late breaks the task by itself
    agree: tuple[Pair, ...] = ()  # cheapest pairs (agent, event): these agents must be deciders as well
    exact: bool = True  # whether `agree` is proved to be cheapest
    sentences: Mapping[str, str] = field(default_factory=dict)  # event -> its condition, in a task

    @property
    def tolerant(self) -> bool:
        """Whether all agents that do not decide on an event may hear of it late."""
        return self.counterexample is None

    @property
    def agreed(self) -> Mapping[str, Names]:
        """The deciders with `agree` added: with these the task is tolerant."""
        more = {event: [agent for agent, agreed in self.agree if agreed == event] for event in self.deciders}
        return MappingProxyType({event: Names((*agents, *more[event])) for event, agents in self.deciders.items()})

    def __repr__(self) -> str:
        return f"<DelayCheck: {'tolerant' if self.tolerant else f'not tolerant, {len(self.agree)} pairs must agree'}>"

    def explain(self) -> str:
        """Give the answer in sentences; if negative, a schedule that breaks the task, and the pairs that must agree."""
        return "\n".join(self.lines)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The sentences of `explain`."""
        if self.counterexample is None:
            late = "An event may be heard late by agents that know it and do not decide on it."
            at_once = "All agents that know an event decide on it, so no event is heard late."
            return (f"Delays: tolerant. {late if any(self.hearers.values()) else at_once}",)
        lines = ["Delays: not tolerant.", _describe(self.counterexample, self.sentences)]
        if self.critical:
            lines.append(f"Delay-critical, each by itself: {_list_pairs(self.critical)}.")
        how = "the fewest that will do" if self.exact else "which will do; fewer might"
        return (*lines, f"Must agree as well (agent: event; {how}): {_list_pairs(self.agree)}.")

    def as_json(self) -> dict[str, object]:
        """Return plain data for a JSON document."""
        example = None
        if self.counterexample is not None:
            fields = {key: value for key, value in vars(self.counterexample).items() if key != "is_trace"}
            example = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
            example["explanation"] = _describe(self.counterexample, self.sentences)
        pairs = {"agree": [list(pair) for pair in self.agree], "critical": [list(pair) for pair in self.critical]}
        return {"tolerant": self.tolerant, **pairs, "exact": self.exact, "counterexample": example}


def find_delays(
    decomposition: Decomposition,
    deciders: Control | None = None,
    closed: Closed = NOTHING,
    sentences: Mapping[str, str] = NOTHING,
    effort: int = EFFORT,
) -> DelayCheck:
    """Check whether events may be heard late; if not, find the cheapest pairs (agent, event) that must agree as well.

    By default the agents that control an event decide on it, and all agents that know an event without control.
    `closed` has the regions that gates close to an agent in the states of its local machine.

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
    rules = find_rules(decomposition, chosen, hearers, closed) if any(hearers.values()) else []
    broken = (rule.witness for rule in rules if rule.clause(chosen))
    first = min(broken, key=lambda witness: len(witness.trace), default=None)
    pairs = [(agent, event) for event, agents in hearers.items() for agent in agents]
    alone = {(rule.agents.at(0), event) for rule in rules if len(rule.agents) == 1 for event in rule.events}
    critical = tuple(pair for pair in pairs if pair in alone)
    agree, exact = cheapest(rules, chosen, pairs, effort)
    return DelayCheck(MappingProxyType(chosen), MappingProxyType(hearers), first, critical, agree, exact, sentences)


def find_deciders(decomposition: Decomposition, deciders: Control | None) -> dict[str, Names]:
    """Return the deciders of each event: all agents that control it, and only agents that know it."""
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
    """Describe the schedule of a counterexample."""

    def happening(event: str) -> str:
        return f"{event} ({sentences[event]})" if event in sentences else event

    def deciding(agents: Sequence[str]) -> str:
        return f"{'decides' if len(agents) == 1 else 'decide'} on"

    deciders = listing(example.deciders, "and")
    begin = f"after {name_trace(example.trace)}, {deciders} {deciding(example.deciders)} {happening(example.event)}"
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


def _list_pairs(pairs: Sequence[Pair]) -> str:
    return listing((f"{agent}: {event}" for agent, event in pairs), "and")
