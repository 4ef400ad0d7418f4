"""Minimum-cost local event sets under which a task is decomposable: repairing some, or finding them from control alone.

Decomposability is monotone: adding an event to a local event set preserves it. So an assignment that fails is a clause:
of the pairs (agent, event) that it lacks, at least one must be added. What is searched is the cheapest set of pairs
that hits all such clauses; see `hocket.hitting_set`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from hocket.errors import AssignmentError, InfeasibleError
from hocket.hitting_set import Effort, as_set, elements_of, find_cheapest, take_what_fits
from hocket.machine.algebra import reachable_part
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Control, Knows, check_control, check_knows, enumerate_states
from hocket.machine.failures import Failures
from hocket.machine.names import Names, check_name
from hocket.machine.reward_machine import RewardMachine
from hocket.machine.shares import independent_parts, shares

Costs = Mapping[tuple[str, str], float]  # (agent, event) -> the cost of the event in the agent's local event set
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
    if (parts := independent_parts(machine)) is not None:
        solve = partial(repair, effort=effort // len(parts))
        solution = _by_parts(parts, known, check_control(machine, known, control), cost, forbidden, solve)
        return Assignment(
            {agent: names for agent, names in solution.items() if names}, solution.cost, solution.exact, solution.bound
        )
    machine = enumerate_states(machine)
    search = _AssignmentSearch(machine, known, check_control(machine, known, control), cost, forbidden)
    return search.run(set(search.pairs_of(known)), {}, effort)


def cheapest_assignment(
    machine: RewardMachine | Composition,
    agents: Iterable[str],
    control: Control,
    cost: Costs | None = None,
    forbidden: Iterable[tuple[str, str]] = (),
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
    if (parts := independent_parts(machine)) is not None:
        solve = partial(cheapest_assignment, effort=effort // len(parts))
        return _by_parts(parts, nobody, check_control(machine, nobody, control), cost, forbidden, solve)
    machine = enumerate_states(machine)
    search = _AssignmentSearch(machine, nobody, check_control(machine, nobody, control), cost, forbidden)
    return search.run(set(), {agent: [] for agent in everyone}, effort)


class _Prices:
    """Costs in whole numbers, each with a burden that decides between sets of pairs that cost the same."""

    def __init__(self, cost: Mapping[Pair, float], waiting: set[Pair]) -> None:
        ratios = {pair: value.as_integer_ratio() for pair, value in cost.items()}
        self.scale = max((divisor for _, divisor in ratios.values()), default=1)  # all are powers of two
        self.unit = 1 + ODD_BURDEN * len(cost)  # more than all burdens together
        self.of = {
            pair: above * (self.scale // below) * self.unit + (BURDEN if pair in waiting else ODD_BURDEN)
            for pair, (above, below) in ratios.items()
        }

    def total(self, pairs: Iterable[Pair]) -> int:
        return sum(self.of[pair] for pair in pairs)

    def cost(self, price: int) -> float:
        return price // self.unit / self.scale

    def cost_the_same(self, one: int, other: int) -> bool:
        return one // self.unit == other // self.unit


def _by_parts(
    parts: Mapping[str, RewardMachine],
    known: Mapping[str, Names],
    control: Mapping[str, Names],
    cost: Costs | None,
    forbidden: Iterable[tuple[str, str]],
    solve: Callable[..., Assignment],
) -> Assignment:
    """Solve independent parts one by one: pairs of different parts have nothing to do with each other.

    Where all pairs cost the same, it is enough to look at the agents that control or know something of a part: what any
    other agent would learn, one of them can learn instead.
    """
    owner = {event: name for name, part in parts.items() for event in part.events}
    special: dict[str, dict[tuple[str, str], float]] = {}
    for (agent, event), value in [*(cost or {}).items(), *((pair, math.inf) for pair in forbidden)]:
        special.setdefault(owner.get(event, next(iter(parts))), {})[agent, event] = value
    added: dict[str, list[str]] = {agent: [] for agent in known}
    spent, exact, bounds = [0.0], True, [0.0]
    for name, share in shares(parts, known).items():
        part = parts[name]
        controlled = {event: control[event] for event in part.events if event in control}
        inside = Names([*share, *(agent for agents in controlled.values() for agent in agents)])
        team = [agent for agent in known if agent in inside] if inside else list(known)[:1]
        if name in special:
            team = list(known)
        prices = {pair: value for pair, value in special.get(name, {}).items() if not math.isinf(value)}
        barred = [pair for pair, value in special.get(name, {}).items() if math.isinf(value)]
        solved = solve(part, {agent: share.get(agent, ()) for agent in team}, controlled, prices, barred)
        for agent, events in solved.items():
            added[agent] += events
        spent.append(solved.cost)
        bounds.append(solved.bound)
        exact = exact and solved.exact
    return Assignment(added, math.fsum(spent), exact, math.fsum(bounds))


class _AssignmentSearch:
    """What is asked for, in numbers."""

    def __init__(
        self,
        machine: RewardMachine,
        known: Mapping[str, Names],
        control: Mapping[str, Names],
        cost: Costs | None,
        forbidden: Iterable[tuple[str, str]],
    ) -> None:
        self.machine = reachable_part(machine)
        self.agents, self.events = tuple(known), tuple(machine.events)
        self.place = Names(self.agents)
        self.cost = self.check_costs(cost, forbidden)
        self.control = set(self.pairs_of({a: [e for e, agents in control.items() if a in agents] for a in known}))
        controlled = {event for _, event in self.control}
        waiting = self.waiting(self.control | {pair for pair in self.pairs_of(known) if pair[1] not in controlled})
        self.prices = _Prices({pair: value for pair, value in self.cost.items() if not math.isinf(value)}, waiting)

    def check_costs(self, cost: Costs | None, forbidden: Iterable[tuple[str, str]]) -> dict[Pair, float]:
        """Give every pair its cost; what is forbidden costs infinitely much."""
        table = {(a, e): DEFAULT_COST for a in range(len(self.agents)) for e in range(len(self.events))}
        given: list[tuple[tuple[str, str], float]] = list((cost or {}).items())
        for key, value in given + [(key, math.inf) for key in forbidden]:
            if not (
                isinstance(key, tuple) and len(key) == 2 and key[0] in self.place and key[1] in self.machine.events
            ):
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
            owned = np.zeros(len(self.events), np.bool_)
            owned[[event for owner, event in owners if owner == agent]] = True
            busy = np.zeros(len(self.machine.states), np.bool_)
            busy[graph.source[owned[graph.label]]] = True
            begins = graph.label[busy[graph.target] & ~busy[graph.source]]
            waits.update((agent, event) for event in np.unique(begins).tolist())
        return waits

    def pairs_of(self, known: Mapping[str, Iterable[str]]) -> Iterable[Pair]:
        return ((self.place.index(a), self.machine.events.index(e)) for a, events in known.items() for e in events)

    def run(self, already: set[Pair], events: dict[str, list[str]], effort: int) -> Assignment:
        """Add the cheapest pairs to what is known already, and put their names into `events`."""
        forced = self.control - already
        self.refuse_forbidden(forced)
        failures = Failures(self.machine, len(self.agents), Effort(effort))
        base = as_set(failures.pair(*pair) for pair in already | forced)
        can_happen = set(self.machine.graph.label.tolist())
        useful = {
            failures.pair(*pair): price
            for pair, price in self.prices.of.items()
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
        added = forced | {failures.agent_and_event(number) for number in elements_of(solution.chosen)}
        for agent, event in sorted(added):
            events.setdefault(self.agents[agent], []).append(self.events[event])
        price, bound = self.prices.total(added), self.prices.total(forced) + solution.bound
        exact = self.prices.cost_the_same(price, bound)
        return Assignment(events, self.prices.cost(price), exact, self.prices.cost(bound))

    def refuse_forbidden(self, forced: Iterable[Pair]) -> None:
        for agent, event in sorted(forced):
            if math.isinf(self.cost[agent, event]):
                who, what = self.agents[agent], self.events[event]
                raise InfeasibleError(
                    f"{who} must know {what}, which it controls or waits for at a gate, but that is forbidden"
                )

    def impossible(self, failures: Failures, known: int) -> InfeasibleError:
        """Name few forbidden pairs of which one would have to be allowed."""
        forbidden = [failures.pair(*pair) for pair, value in self.cost.items() if math.isinf(value)]
        useless = take_what_fits(forbidden, lambda more: not failures.are_prevented(known | more), 0)
        missing = map(failures.agent_and_event, elements_of(as_set(forbidden) & ~(known | useless)))
        needed = ", ".join(f"{self.agents[agent]}: {self.events[event]}" for agent, event in missing)
        return InfeasibleError(
            f"the task is not decomposable unless one of these pairs (agent: event) is allowed: {needed}"
        )
