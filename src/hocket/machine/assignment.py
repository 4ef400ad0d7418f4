"""Minimum-cost local event sets under which a task is decomposable: repairing some, or finding them from control alone.

Decomposability is monotone: adding an event to a local event set preserves it. So an assignment that fails is a clause:
of the pairs (agent, event) that it lacks, at least one must be added. What is searched is the cheapest set of pairs
that hits all such clauses; see `hocket.hitting_set`.

A failure is an event in a state where the team machine forbids it, a state that is taken for final and is not, or an
event that happens and that nobody knows. An agent prevents a failure if its own machine forbids it, and a task is
decomposable if every failure is prevented by some agent. Sets of failures and of pairs (agent, event) are the bits of
integers. Rewards that are no sum of local ones are a failure of another kind, which no agent prevents alone: the
equations of each event are solved for the agents that know it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from hocket.errors import AssignmentError, InfeasibleError
from hocket.graphs import SMALL, Flags, Ints, flags_at
from hocket.hitting_set import Effort, as_set, elements_of, find_cheapest, take_what_fits
from hocket.machine.algebra import Projection, reachable_part
from hocket.machine.composition import Composition, Team, independent_parts, shares
from hocket.machine.counterexample import confuse, find_unshared_pairs
from hocket.machine.decomposition import Control, Knows, check_control, check_knows, enumerate_states
from hocket.machine.names import Known, Names, check_name
from hocket.machine.reward_machine import RewardMachine
from hocket.machine.shared_rewards import Decimals, Refutation, share_event

Costs = Mapping[tuple[str, str], float]  # (agent, event) -> the cost of the event in the agent's local event set
Pairs = Iterable[tuple[str, str]]  # (agent, event)
Pair = tuple[int, int]  # (agent, event), by their positions

DEFAULT_COST = 1.0
DEAREST = 1e300  # so that no sum of costs overflows
BURDEN, ODD_BURDEN = 1_000, 1_001  # between equally dear answers: few pairs, and of those few odd ones
EFFORT = 100_000_000  # five to eight seconds. Past it the answer may not be cheapest
EFFORT_FOR_A_HINT = 12_000_000  # less than a second, for a fix that nobody has asked for


class Assignment(dict[str, Names]):
    """Events per agent, with what they cost and whether that is proved minimal."""

    cost: float
    exact: bool  # proved to be cheapest
    bound: float  # no valid answer costs less

    def __init__(self, events: Mapping[str, Iterable[str]], cost: float, exact: bool, bound: float) -> None:
        super().__init__({agent: Names(names) for agent, names in events.items()})
        self.cost, self.exact, self.bound = cost, exact, bound

    def as_json(self) -> dict[str, object]:
        """Give the events to add, and what they cost, as a JSON document."""
        added = {agent: list(events) for agent, events in self.items()}
        return {"add": added, "cost": self.cost, "exact": self.exact, "bound": self.bound}


def repair(
    machine: RewardMachine | Composition,  # of the team
    knows: Knows,  # agent -> its local event set
    control: Control | None = None,  # event -> the agents that control it
    cost: Costs | None = None,  # (agent, event) -> cost of adding it, by default 1
    forbidden: Iterable[tuple[str, str]] = (),  # pairs (agent, event) that are never added
    effort: int = EFFORT,  # units of work after which the search stops
) -> Assignment:
    """Find the cheapest events to add to local event sets so that the task is decomposable.

    A pair (agent, event) costs 1 unless `cost` says otherwise; a forbidden pair is never added. Empty where nothing is
    needed. Agents get the events that they control. Of equally cheap answers, one in which agents get the events that
    they wait for: an event after which something of their own can happen where nothing could before.

    The search counts its work, some fifteen million units a second, and stops when it has spent its `effort`. Then
    `exact` is False, and `bound` is what every answer costs at least. No event can be left out of what is returned.

    >>> team = RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})
    >>> repair(team, {"A1": {"a"}, "A2": {"b"}})
    {'A2': {'a'}}
    >>> repair(team, {"A1": {"a"}, "A2": {"b"}}, cost={("A2", "a"): 5})
    {'A1': {'b'}}
    """
    known = check_knows(machine, knows)
    solution = _solve(machine, known, check_control(machine, known, control), cost, forbidden, effort)
    missing = {agent: names for agent, names in solution.items() if names}
    return Assignment(missing, solution.cost, solution.exact, solution.bound)


def cheapest_assignment(
    machine: Team,
    agents: Iterable[str],
    control: Control,
    cost: Costs | None = None,
    forbidden: Pairs = (),
    effort: int = EFFORT,
) -> Assignment:
    """Find the cheapest local event sets under which the task is decomposable, from who controls which event alone.

    Every local event set has the events that its agent controls. Costs, forbidden pairs and effort are as for `repair`,
    and so is the choice between equally cheap answers; a lower cost for the pairs that you prefer overrules it.
    """
    everyone = [check_name(agent, "an agent") for agent in ([agents] if isinstance(agents, str) else agents)]
    nobody = {agent: Names() for agent in everyone}
    if not nobody:
        raise AssignmentError("an assignment needs at least one agent, got none")
    controllers = check_control(machine, nobody, control)
    return _solve(machine, nobody, controllers, cost, forbidden, effort)


def _solve(team: Team, known: Known, control: Known, cost: Costs | None, forbidden: Pairs, effort: int) -> Assignment:
    """Find the cheapest events that are missing in some local event sets.

    Independent parts are solved one by one: pairs of different parts have nothing to do with each other. Where all
    pairs cost the same, it is enough to look at the agents that control or know something of a part: what any other
    agent would learn, one of them can learn instead.
    """
    parts = independent_parts(team)
    if parts is None:
        return _AssignmentSearch(enumerate_states(team), known, control, cost, forbidden).run(known, effort)
    owner = {event: name for name, part in parts.items() for event in part.events}
    special: dict[str, dict[tuple[str, str], float]] = {}
    for (agent, event), value in [*(cost or {}).items(), *((pair, math.inf) for pair in forbidden)]:
        special.setdefault(owner.get(event, next(iter(parts))), {})[agent, event] = value
    added: dict[str, list[str]] = {agent: [] for agent in known}
    solutions = []
    for name, share in shares(parts, known).items():
        controlled = {event: control[event] for event in parts[name].events if event in control}
        inside = {*share}.union(*controlled.values())
        agents = [agent for agent in known if agent in inside or name in special] or list(known)[:1]
        known_there = {agent: share.get(agent, Names()) for agent in agents}
        costs = special.get(name, {})  # what is forbidden costs infinitely much
        solutions.append(_solve(parts[name], known_there, controlled, costs, (), effort // len(parts)))
        for agent, events in solutions[-1].items():
            added[agent] += events
    spent, bound = math.fsum(each.cost for each in solutions), math.fsum(each.bound for each in solutions)
    return Assignment(added, spent, all(each.exact for each in solutions), bound)


class _AssignmentSearch:
    """What is asked for, in numbers."""

    def __init__(self, team: RewardMachine, known: Known, control: Known, cost: Costs | None, forbidden: Pairs) -> None:
        self.machine = reachable_part(team)
        self.agents, self.events = tuple(known), tuple(team.events)
        self.place = Names(self.agents)
        self.cost = self.check_costs(cost, forbidden)
        self.control = set(self.pairs_of({a: [e for e, agents in control.items() if a in agents] for a in known}))
        controlled = {event for _, event in self.control}
        waiting = self.waiting(self.control | {pair for pair in self.pairs_of(known) if pair[1] not in controlled})
        # Prices are costs in whole numbers, each with a burden that decides between pairs that cost the same.
        ratios = {pair: value.as_integer_ratio() for pair, value in self.cost.items() if not math.isinf(value)}
        self.scale = max((divisor for _, divisor in ratios.values()), default=1)  # all are powers of two
        self.unit = 1 + ODD_BURDEN * len(ratios)  # more than all burdens together
        burdens = {pair: BURDEN if pair in waiting else ODD_BURDEN for pair in ratios}
        units = {pair: above * (self.scale // below) for pair, (above, below) in ratios.items()}
        self.prices = {pair: count * self.unit + burdens[pair] for pair, count in units.items()}

    def check_costs(self, cost: Costs | None, forbidden: Iterable[tuple[str, str]]) -> dict[Pair, float]:
        """Give every pair its cost; what is forbidden costs infinitely much."""
        table = {(a, e): DEFAULT_COST for a in range(len(self.agents)) for e in range(len(self.events))}
        given: list[tuple[tuple[str, str], float]] = list((cost or {}).items())
        for key, value in given + [(key, math.inf) for key in forbidden]:
            is_pair = isinstance(key, tuple) and len(key) == 2
            if not is_pair or key[0] not in self.place or key[1] not in self.machine.events:
                raise AssignmentError(f"costs and forbidden pairs must be pairs (agent, event) that exist, got {key!r}")
            if not isinstance(value, int | float | np.number) or not (0 <= value <= DEAREST or value == math.inf):
                raise AssignmentError(f"the cost of {key!r} must be a number from 0 to {DEAREST:g}, got {value!r:.60}")
            table[self.place.index(key[0]), self.machine.events.index(key[1])] = float(value)
        return table

    def waiting(self, owners: Iterable[Pair]) -> set[Pair]:
        """Find who waits for what: pairs (agent, event) where none of the agent's own can happen before the event."""
        graph = self.machine.graph
        waits: set[Pair] = set()
        for agent in range(len(self.agents)):
            owned = flags_at([event for owner, event in owners if owner == agent], len(self.events))
            busy = flags_at(graph.source[owned[graph.label]], len(self.machine.states))
            begins = graph.label[busy[graph.target] & ~busy[graph.source]]
            waits.update((agent, event) for event in np.unique(begins).tolist())
        return waits

    def pairs_of(self, known: Mapping[str, Iterable[str]]) -> Iterable[Pair]:
        return ((self.place.index(a), self.machine.events.index(e)) for a, events in known.items() for e in events)

    def run(self, known: Mapping[str, Names], effort: int) -> Assignment:
        """Find the cheapest pairs to add to what is known already."""
        already = set(self.pairs_of(known))
        forced = self.control - already
        for agent, event in sorted(forced):
            if math.isinf(self.cost[agent, event]):
                why = f"{self.agents[agent]} must know {self.events[event]}, which it controls or waits for at a gate"
                raise InfeasibleError(f"{why}, but that is forbidden")
        failures = Failures(self.machine, len(self.agents), Effort(effort))
        base = as_set(failures.pair(*pair) for pair in already | forced)
        can_happen = set(self.machine.graph.label.tolist())
        useful = {
            failures.pair(*pair): price
            for pair, price in self.prices.items()
            if pair[1] in can_happen and pair not in already and pair not in forced
        }
        if not failures.are_prevented(base | as_set(useful)):
            raise self.impossible(failures, base | as_set(useful))
        solution = find_cheapest(
            lambda added: failures.are_prevented(base | added),
            lambda added: failures.explain(base | added),
            useful,
            failures.effort,
            guesses=failures.split(as_set(useful)),  # often it is best that one agent learns of nearly everything
        )
        added = forced | {divmod(number, failures.width) for number in elements_of(solution.chosen)}
        events: dict[str, list[str]] = {agent: [] for agent in self.agents}
        for agent, event in sorted(added):
            events[self.agents[agent]].append(self.events[event])
        price = sum(map(self.prices.__getitem__, added)) // self.unit
        bound = (sum(map(self.prices.__getitem__, forced)) + solution.bound) // self.unit
        return Assignment(events, price / self.scale, price == bound, bound / self.scale)

    def impossible(self, failures: Failures, known: int) -> InfeasibleError:
        """Name few forbidden pairs of which one would have to be allowed."""
        forbidden = [failures.pair(*pair) for pair, value in self.cost.items() if math.isinf(value)]
        useless = take_what_fits(forbidden, lambda more: not failures.are_prevented(known | more), 0)
        missing = (divmod(pair, failures.width) for pair in elements_of(as_set(forbidden) & ~(known | useless)))
        needed = ", ".join(f"{self.agents[agent]}: {self.events[event]}" for agent, event in missing)
        rule = "the task is not decomposable unless one of these pairs (agent: event) is allowed"
        return InfeasibleError(f"{rule}: {needed}")


# Failures.

MOST_KEPT = 250_000_000  # bytes for the failures that were once worked out
CHECK, PROJECTION = 40, 2_000  # effort, in units of some 50 ns
PER_TRANSITION = 6  # in small graphs, where numpy does not help
PER_EQUATION = 60  # and agent that would be paid


class _View(NamedTuple):
    """What an agent makes of the events that it knows."""

    classes: Ints  # [states] of its projection
    left: int  # the failures that it does not prevent


class Failures:
    """The failures of a machine whose states are all reachable; agents and events are numbers.

    In a set of pairs, each agent has a row of `width` bits, with a bit for each event.
    """

    def __init__(self, machine: RewardMachine, agents: int, effort: Effort) -> None:
        self.machine, self.agents, self.effort = machine, agents, effort
        self.row_bytes = max(1, (len(machine.events) + 7) // 8)
        self.width = 8 * self.row_bytes
        self._happens = flags_at(machine.graph.label, len(machine.events))
        self._possible = np.zeros((len(machine.events) + 1, len(machine.states)), np.bool_)  # the last row: completion
        self._possible[:-1][self._happens] = True  # whoever knows an event that happens nowhere never accepts it
        self._possible[machine.graph.label, machine.graph.source] = False
        self._possible[-1] = ~machine.is_final
        self._unknown = (self._possible.size + 7) // 8  # bytes before the failures that are events nobody knows
        self._kept: dict[bytes, _View] = {}
        self._size = self._unknown + self.row_bytes + 4 * len(machine.states)  # bytes of a view
        self._decimals = None if machine.has_completion_rewards else Decimals(machine)
        self._refuted: dict[tuple[int, frozenset[bytes]], Refutation | None] = {}  # by event and who knows it

    def pair(self, agent: int, event: int) -> int:
        """Number a pair (agent, event)."""
        return agent * self.width + event

    def split(self, pairs: int) -> list[int]:
        """Split a set of pairs into those of each agent."""
        return [int.from_bytes(row, "little") << agent * self.width for agent, row in enumerate(self._rows(pairs))]

    def are_prevented(self, known: int) -> bool:
        """Say whether a set of pairs (agent, event) prevents all failures, that is, whether it is decomposable so."""
        self.effort.left -= CHECK + self.agents * (2 + self._size // 256)
        rows = self._rows(known)
        return self._left_by(rows) == 0 and self._find_unshared(rows) is None

    def explain(self, known: int) -> int:
        """Name pairs on the lack of which a failure rests: every larger set that prevents it has one of them."""
        rows = self._rows(known)
        if left := self._left_by(rows):
            if unknown := left >> 8 * self._unknown:
                state, event = -1, _lowest(unknown)
            else:
                event, state = divmod(_lowest(left), len(self.machine.states))
            reasons = {row: self._why(row, state, event) for row in set(rows)}
        else:
            refutation = self._find_unshared(rows)
            reasons = {row: self._why_unshared(row, refutation) for row in set(rows)} if refutation else {}
        return as_set(self.pair(agent, hidden) for agent, row in enumerate(rows) for hidden in reasons.get(row, ()))

    def _rows(self, known: int) -> list[bytes]:
        rows = known.to_bytes(self.agents * self.row_bytes, "little")
        return [rows[start : start + self.row_bytes] for start in range(0, len(rows), self.row_bytes)]

    def _left_by(self, rows: list[bytes]) -> int:
        left = -1
        for row in rows:
            left &= self._known_to(row).left
        return left

    def _known_to(self, row: bytes) -> _View:
        """Work out what an agent makes of its events, once."""
        if (view := self._kept.get(row)) is None:
            transitions = len(self.machine.graph.target)
            if len(self._kept) * self._size > MOST_KEPT:
                self._kept.clear()
            self.effort.left -= PROJECTION + PER_TRANSITION * min(transitions, SMALL) + transitions + self._size // 4
            visible = self._visible(row)
            projection = Projection(self.machine, visible)
            accepts = np.zeros((len(visible) + 1, len(projection.is_final)), np.bool_)  # [events + 1, classes]
            accepts[:-1][~visible] = True
            accepts[projection.label, projection.source] = True
            accepts[-1] = projection.is_final
            accepted = accepts[:, projection.classes] & self._possible
            parts = (np.packbits(flags, bitorder="little") for flags in (accepted, self._happens & ~visible))
            left = int.from_bytes(b"".join(part.tobytes() for part in parts), "little")
            view = self._kept[row] = _View(projection.classes, left)
        return view

    def _why(self, row: bytes, state: int, event: int) -> list[int]:
        """List events such that an agent does not prevent a failure as long as it knows none of them.

        The state is -1 if nobody knows the event, and there is one more event, for completion.
        """
        visible, completes = self._visible(row), event == len(self.machine.events)
        if state < 0 or not (completes or visible[event]):
            return [event]
        self.effort.left -= PROJECTION + len(self.machine.graph.target)
        return confuse(self.machine, visible, self._known_to(row).classes, state, -1 if completes else event)[1]

    def _find_unshared(self, rows: list[bytes]) -> Refutation | None:
        """Find an event whose rewards are no sum of local ones, where the machine has rewards of its own.

        More events keep it a sum: finer local states and further agents add unknowns to the equations.
        """
        if self._decimals is None:
            return None
        for event in np.flatnonzero(self._happens).tolist():
            key = event, frozenset(row for row in rows if self._visible(row)[event])
            if key not in self._refuted:
                if len(self._refuted) * self._size > MOST_KEPT:
                    self._refuted.clear()
                edges = len(self.machine.by_event[event])
                self.effort.left -= PROJECTION + PER_EQUATION * edges * len(key[1])
                classes = [self._known_to(row).classes for row in sorted(key[1])]
                solved = share_event(self.machine, self._decimals, event, classes)
                self._refuted[key] = solved if isinstance(solved, Refutation) else None
            if (refutation := self._refuted[key]) is not None:
                return refutation
        return None

    def _why_unshared(self, row: bytes, refutation: Refutation) -> list[int]:
        """List events such that rewards stay refuted as long as an agent knows none of them."""
        visible = self._visible(row)
        if not visible[refutation.event]:
            return [refutation.event]
        merged = find_unshared_pairs(self.machine, visible, self._known_to(row).classes, refutation)
        self.effort.left -= (PROJECTION + len(self.machine.graph.target)) * len(merged)
        return list(dict.fromkeys(event for *_, events in merged for event in events))

    def _visible(self, row: bytes) -> Flags:
        events = len(self.machine.events)
        return np.unpackbits(np.frombuffer(row, np.uint8), count=events, bitorder="little").view(np.bool_)


def _lowest(flags: int) -> int:
    return (flags & -flags).bit_length() - 1
