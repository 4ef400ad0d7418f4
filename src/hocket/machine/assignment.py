"""Minimum-cost local event sets under which a task is decomposable: repairing some, or finding them from control alone.

Decomposability is monotone: adding an event to a local event set preserves it. So an assignment that fails is a clause:
of the pairs (agent, event) that it lacks, at least one must be added. `hocket.hitting_set` finds the cheapest set of
pairs that hits all such clauses.

A failure is an event in a state where the team machine forbids it, a state that is taken for final and is not, or an
event that can happen and that no agent knows. An agent prevents a failure if its local machine forbids it, and a task
is decomposable if every failure is prevented by some agent. Sets of failures and of pairs (agent, event) are the bits
of integers. Rewards that are no sum of local ones are a failure of another kind, which no agent prevents alone: the
equations of each event are solved for the agents that know it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import NamedTuple

import numpy as np

from hocket.errors import AssignmentError, InfeasibleError
from hocket.graphs import SMALL, Flags, Ints, flags_at
from hocket.hitting_set import Effort, as_set, elements_of, find_cheapest, take_what_fits
from hocket.machine.algebra import Projection, reachable_part
from hocket.machine.composition import Composition, Team, independent_parts, split_known
from hocket.machine.counterexample import confuse, find_unshared_pairs
from hocket.machine.decomposition import Control, Knows, check_control, check_knows, enumerate_states
from hocket.machine.names import Known, Names, check_name, invert
from hocket.machine.reward_machine import RewardMachine
from hocket.machine.shared_rewards import Decimals, Refutation, share_event

Costs = Mapping[tuple[str, str], float]  # (agent, event) -> the cost of the event in the agent's local event set
Pairs = Iterable[tuple[str, str]]  # (agent, event)
Pair = tuple[int, int]  # (agent, event), by their positions

DEFAULT_COST = 1.0
HIGHEST_COST = 1e300  # so that no sum of costs overflows
PENALTY, ODD_PENALTY = 1_000, 1_001  # decide between equally cheap answers: few pairs, and few of them not awaited
EFFORT = 100_000_000  # five to eight seconds; if the search needs more, the answer may not be cheapest
EFFORT_FOR_A_HINT = 12_000_000  # less than a second, for suggestions that the user has not requested


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

    A pair (agent, event) costs 1 unless `cost` says otherwise; a forbidden pair is never added. Empty if nothing has to
    be added. Agents get the events that they control. Of equally cheap answers, one is preferred in which agents get
    the events that they wait for: those after which an event that they know can happen where none could before.

    The search counts its work, some fifteen million units a second, and stops when it has spent its `effort`. Then
    `exact` is False, and `bound` is a lower bound on the cost. No event can be left out of the result.

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
    """Find the cheapest local event sets under which the task is decomposable, given only which agents control events.

    Every local event set has the events that its agent controls. Costs, forbidden pairs and effort are as for `repair`,
    and so is the choice between equally cheap answers; give the pairs that you prefer a lower cost to overrule it.
    """
    known = {check_name(agent, "an agent"): Names() for agent in ([agents] if isinstance(agents, str) else agents)}
    if not known:
        raise AssignmentError("an assignment needs at least one agent, got none")
    return _solve(machine, known, check_control(machine, known, control), cost, forbidden, effort)


def _solve(team: Team, known: Known, control: Known, cost: Costs | None, forbidden: Pairs, effort: int) -> Assignment:
    """Find the cheapest events to add, for independent parts one by one.

    If all pairs cost the same, only agents that control or know an event of a part are considered: what another agent
    would learn, one of them can learn instead.
    """
    parts = independent_parts(team)
    if parts is None:
        return _AssignmentSearch(enumerate_states(team), known, control, cost, forbidden).run(effort)
    part_of = {event: name for name, part in parts.items() for event in part.events}
    costs: dict[str, dict[tuple[str, str], float]] = {}  # of each part with pairs that do not cost the same
    for (agent, event), value in [*(cost or {}).items(), *((pair, math.inf) for pair in forbidden)]:
        costs.setdefault(part_of.get(event, next(iter(parts))), {})[agent, event] = value
    added: dict[str, list[str]] = {agent: [] for agent in known}
    solutions = []
    for name, share in split_known(parts, known).items():
        controlled = {event: control[event] for event in parts[name].events if event in control}
        involved = {*share}.union(*controlled.values())
        agents = [agent for agent in known if agent in involved or name in costs] or list(known)[:1]
        known_here = {agent: share.get(agent, Names()) for agent in agents}
        solutions.append(_solve(parts[name], known_here, controlled, costs.get(name), (), effort // len(parts)))
        for agent, events in solutions[-1].items():
            added[agent] += events
    total, bound = math.fsum(each.cost for each in solutions), math.fsum(each.bound for each in solutions)
    return Assignment(added, total, all(each.exact for each in solutions), bound)


class _AssignmentSearch:
    """A repair whose agents and events are numbers, and whose costs are whole numbers."""

    def __init__(self, team: RewardMachine, known: Known, control: Known, cost: Costs | None, forbidden: Pairs) -> None:
        self.machine = reachable_part(team)
        self.agents, self.events = Names(known), team.events
        self.cost = self.check_costs(cost, forbidden)
        self.known, self.control = self.pairs_of(known), self.pairs_of(invert(control, known))
        controlled = {event for _, event in self.control}
        awaited = self.awaited(self.control | {pair for pair in self.known if pair[1] not in controlled})
        # Prices are costs in whole numbers, each with a penalty that decides between pairs that cost the same.
        ratios = {pair: value.as_integer_ratio() for pair, value in self.cost.items() if not math.isinf(value)}
        self.scale = max((divisor for _, divisor in ratios.values()), default=1)  # all are powers of two
        self.unit = 1 + ODD_PENALTY * len(ratios)  # more than all penalties together
        penalties = {pair: PENALTY if pair in awaited else ODD_PENALTY for pair in ratios}
        units = {pair: above * (self.scale // below) for pair, (above, below) in ratios.items()}
        self.prices = {pair: count * self.unit + penalties[pair] for pair, count in units.items()}

    def check_costs(self, cost: Costs | None, forbidden: Pairs) -> dict[Pair, float]:
        """Give every pair its cost, infinity for a forbidden one."""
        table = {(a, e): DEFAULT_COST for a in range(len(self.agents)) for e in range(len(self.events))}
        given: list[tuple[tuple[str, str], float]] = list((cost or {}).items())
        for key, value in given + [(key, math.inf) for key in forbidden]:
            is_pair = isinstance(key, tuple) and len(key) == 2
            if not is_pair or key[0] not in self.agents or key[1] not in self.events:
                raise AssignmentError(f"costs and forbidden pairs must be pairs (agent, event) that exist, got {key!r}")
            if not isinstance(value, int | float | np.number) or not (0 <= value <= HIGHEST_COST or value == math.inf):
                rule = f"must be a number from 0 to {HIGHEST_COST:g}"
                raise AssignmentError(f"the cost of {key!r} {rule}, got {value!r:.60}")
            table[self.agents.index(key[0]), self.events.index(key[1])] = float(value)
        return table

    def awaited(self, pairs: Iterable[Pair]) -> set[Pair]:
        """List pairs (agent, event) where none of the agent's events, given by `pairs`, can happen before the event."""
        graph = self.machine.graph
        awaited: set[Pair] = set()
        for agent in range(len(self.agents)):
            its_events = flags_at([event for owner, event in pairs if owner == agent], len(self.events))
            can_act = flags_at(graph.source[its_events[graph.label]], len(self.machine.states))
            begins = graph.label[can_act[graph.target] & ~can_act[graph.source]]
            awaited.update((agent, event) for event in np.unique(begins).tolist())
        return awaited

    def pairs_of(self, known: Mapping[str, Iterable[str]]) -> set[Pair]:
        return {(self.agents.index(agent), self.events.index(e)) for agent, events in known.items() for e in events}

    def run(self, effort: int) -> Assignment:
        """Find the cheapest pairs to add."""
        forced = self.control - self.known
        for agent, event in sorted(forced):
            if math.isinf(self.cost[agent, event]):
                why = "which it controls or waits for at a gate, but that is forbidden"
                raise InfeasibleError(f"{self.agents.at(agent)} must know {self.events.at(event)}, {why}")
        failures = Failures(self.machine, len(self.agents), Effort(effort))
        given, can_happen = self.known | forced, set(self.machine.graph.label.tolist())
        base = as_set(failures.pair(*pair) for pair in given)
        choices = {pair: price for pair, price in self.prices.items() if pair[1] in can_happen and pair not in given}
        useful = {failures.pair(*pair): price for pair, price in choices.items()}
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
            events[self.agents.at(agent)].append(self.events.at(event))
        price = sum(map(self.prices.__getitem__, added)) // self.unit
        bound = (sum(map(self.prices.__getitem__, forced)) + solution.bound) // self.unit
        return Assignment(events, price / self.scale, price == bound, bound / self.scale)

    def impossible(self, failures: Failures, known: int) -> InfeasibleError:
        """Make an error that names few forbidden pairs of which one would have to be allowed."""
        forbidden = [failures.pair(*pair) for pair, value in self.cost.items() if math.isinf(value)]
        useless = take_what_fits(forbidden, lambda more: not failures.are_prevented(known | more), 0)
        missing = (divmod(pair, failures.width) for pair in elements_of(as_set(forbidden) & ~(known | useless)))
        needed = ", ".join(f"{self.agents.at(agent)}: {self.events.at(event)}" for agent, event in missing)
        rule = "the task is not decomposable unless one of these pairs (agent: event) is allowed"
        return InfeasibleError(f"{rule}: {needed}")


# Failures.

MOST_KEPT = 250_000_000  # bytes of memory for the failures that agents do not prevent
CHECK, PROJECTION = 40, 2_000  # effort, in units of some 50 ns
PER_TRANSITION = 6  # in small graphs, where numpy does not help
PER_EQUATION = 60  # and agent that would be paid


class _View(NamedTuple):
    """The projection of an agent, and the failures that it does not prevent."""

    classes: Ints  # [states]
    failures: int


class Failures:
    """The failures of a machine whose states are all reachable; agents and events are numbers, and in a set of pairs
    each agent has a row of `width` bits, with a bit for each event."""

    def __init__(self, machine: RewardMachine, agents: int, effort: Effort) -> None:
        self.machine, self.agents, self.effort = machine, agents, effort
        self.row_bytes = max(1, (len(machine.events) + 7) // 8)
        self.width = 8 * self.row_bytes
        self._happens = flags_at(machine.graph.label, len(machine.events))
        self._possible = np.zeros((len(machine.events) + 1, len(machine.states)), np.bool_)  # the last row: completion
        self._possible[:-1][self._happens] = True  # events that never happen: no agent that knows one accepts it
        self._possible[machine.graph.label, machine.graph.source] = False
        self._possible[-1] = ~machine.is_final
        self._unknown = (self._possible.size + 7) // 8  # bytes before the failures that are events which no agent knows
        self._kept: dict[bytes, _View] = {}
        self._size = self._unknown + self.row_bytes + 4 * len(machine.states)  # bytes of a view
        self._decimals = None if machine.has_completion_rewards else Decimals(machine)
        self._refuted: dict[tuple[int, frozenset[bytes]], Refutation | None] = {}  # by event and what its knowers know

    def pair(self, agent: int, event: int) -> int:
        """Number a pair (agent, event)."""
        return agent * self.width + event

    def split(self, pairs: int) -> list[int]:
        """Split a set of pairs into those of each agent."""
        return [int.from_bytes(row, "little") << agent * self.width for agent, row in enumerate(self._rows(pairs))]

    def are_prevented(self, known: int) -> bool:
        """Say whether a set of pairs (agent, event) prevents all failures, so that the task is decomposable."""
        self.effort.left -= CHECK + self.agents * (2 + self._size // 256)
        rows = self._rows(known)
        return self._failures(rows) == 0 and self._find_unshared(rows) is None

    def explain(self, known: int) -> int:
        """List missing pairs that cause a failure: every larger set that prevents it has one of them."""
        rows = self._rows(known)
        if failures := self._failures(rows):
            unknown = failures >> 8 * self._unknown
            lowest = ((bits := unknown or failures) & -bits).bit_length() - 1
            event, state = (lowest, -1) if unknown else divmod(lowest, len(self.machine.states))
            reasons = {row: self._why(row, state, event) for row in set(rows)}
        else:
            refutation = self._find_unshared(rows)
            reasons = {row: self._why_unshared(row, refutation) for row in set(rows)} if refutation else {}
        return as_set(self.pair(agent, hidden) for agent, row in enumerate(rows) for hidden in reasons.get(row, ()))

    def _rows(self, known: int) -> list[bytes]:
        rows = known.to_bytes(self.agents * self.row_bytes, "little")
        return [rows[start : start + self.row_bytes] for start in range(0, len(rows), self.row_bytes)]

    def _failures(self, rows: list[bytes]) -> int:
        return reduce(and_, (self._view(row).failures for row in rows))

    def _view(self, row: bytes) -> _View:
        """Project onto the events of an agent, once, and list the failures that it does not prevent."""
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
            failures = int.from_bytes(b"".join(part.tobytes() for part in parts), "little")
            view = self._kept[row] = _View(projection.classes, failures)
        return view

    def _why(self, row: bytes, state: int, event: int) -> list[int]:
        """List events of which an agent must know one to prevent a failure: an event in a state, the number after those
        of the events for completion, or -1 as the state if no agent knows the event."""
        visible, completes = self._visible(row), event == len(self.machine.events)
        if state < 0 or not (completes or visible[event]):
            return [event]
        self.effort.left -= PROJECTION + len(self.machine.graph.target)
        return confuse(self.machine, visible, self._view(row).classes, state, -1 if completes else event)[1]

    def _find_unshared(self, rows: list[bytes]) -> Refutation | None:
        """Find an event whose general rewards are no sum of local ones; with more events known, sums stay possible, as
        finer local states and further agents add unknowns to the equations."""
        if self._decimals is None:
            return None
        for event in np.flatnonzero(self._happens).tolist():
            key = event, frozenset(row for row in rows if self._visible(row)[event])
            if key not in self._refuted:
                if len(self._refuted) * self._size > MOST_KEPT:
                    self._refuted.clear()
                edges = len(self.machine.by_event[event])
                self.effort.left -= PROJECTION + PER_EQUATION * edges * len(key[1])
                classes = [self._view(row).classes for row in sorted(key[1])]
                solved = share_event(self.machine, self._decimals, event, classes)
                self._refuted[key] = solved if isinstance(solved, Refutation) else None
            if (refutation := self._refuted[key]) is not None:
                return refutation
        return None

    def _why_unshared(self, row: bytes, refutation: Refutation) -> list[int]:
        """List events of which an agent must know one before the rewards can be shared out."""
        visible = self._visible(row)
        if not visible[refutation.event]:
            return [refutation.event]
        merged = find_unshared_pairs(self.machine, visible, self._view(row).classes, refutation)
        self.effort.left -= (PROJECTION + len(self.machine.graph.target)) * len(merged)
        return list(dict.fromkeys(event for *_, events in merged for event in events))

    def _visible(self, row: bytes) -> Flags:
        events = len(self.machine.events)
        return np.unpackbits(np.frombuffer(row, np.uint8), count=events, bitorder="little").view(np.bool_)
