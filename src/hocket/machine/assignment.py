"""Minimum-cost local event sets under which a task is decomposable: repairing some, or finding them from control alone.

Decomposability is monotone: adding an event to a local event set preserves it. So a counterexample under some
assignment is a clause: of certain pairs (agent, event) at least one must be added. The cheapest set that hits all
clauses found so far is a lower bound; when it passes the check it is the answer, and until then it yields another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from hocket.errors import AssignmentError, InfeasibleError
from hocket.hitting_set import Clause, Pair, Price, hit_cheaply
from hocket.machine.algebra import Projection
from hocket.machine.composition import Composition
from hocket.machine.decomposition import (
    Control,
    Knows,
    check_control,
    check_knows,
    confuse,
    enumerate_states,
    find_failure,
    unknown_events,
)
from hocket.machine.names import Names, check_name
from hocket.machine.reward_machine import RewardMachine
from hocket.machine.shares import independent_parts, shares

Costs = Mapping[
    tuple[str, str], float
]  # (agent, event) -> what it costs to have the event in the agent's local event set

DEFAULT_COST = 1.0
BURDEN, ODD_BURDEN = 1_000, 1_001  # between equally dear answers: few pairs, and of those few odd ones
EFFORT = 200_000_000  # transitions looked at while searching; some ten seconds. Past it the answer may not be cheapest
LEAST_EFFORT = 2_000  # what one projection counts for at least
BRANCHINGS = 100_000  # per hitting set
CACHED_STATES = 50_000_000  # states over all projections that are kept


class Assignment(dict[str, Names]):
    """Events per agent, with what they cost and whether that is proved minimal."""

    cost: float
    exact: bool  # proved to be cheapest
    bound: float  # no valid answer costs less

    def __init__(self, events: Mapping[str, Iterable[str]], cost: float, exact: bool, bound: float) -> None:
        super().__init__({agent: Names(own) for agent, own in events.items()})
        self.cost, self.exact, self.bound = cost, exact, bound


def repair(
    machine: RewardMachine | Composition,
    knows: Knows,
    control: Control | None = None,
    cost: Costs | None = None,
    forbidden: Iterable[tuple[str, str]] = (),
) -> Assignment:
    """Find the cheapest events to add to local event sets so that the task is decomposable.

    A pair (agent, event) costs 1 unless `cost` says otherwise; a forbidden pair is never added. Empty where nothing is
    needed. Agents get the events that they control. Of equally cheap answers, one in which agents get the events that
    they wait for: an event after which something of their own can happen where nothing could before.

    >>> team = RewardMachine(initial="u0", transitions={("u0", "a"): "u1", ("u1", "b"): "u2"}, final={"u2"})
    >>> repair(team, {"A1": {"a"}, "A2": {"b"}})
    {'A2': {'a'}}
    >>> repair(team, {"A1": {"a"}, "A2": {"b"}}, cost={("A2", "a"): 5})
    {'A1': {'b'}}
    """
    known = check_knows(machine, knows)
    if (parts := independent_parts(machine)) is not None:
        found = _by_parts(parts, known, check_control(machine, known, control), cost, forbidden, repair)
        return Assignment({agent: own for agent, own in found.items() if own}, found.cost, found.exact, found.bound)
    machine = enumerate_states(machine) if isinstance(machine, Composition) else machine
    search = _Search(machine, known, check_control(machine, known, control), cost, forbidden)
    added, exact, bound = search.run(already=set(search.pairs_of(known)))
    events: dict[str, list[str]] = {}
    for agent, event in sorted(added):
        events.setdefault(search.agents[agent], []).append(search.events[event])
    return Assignment(events, search.total(added), exact, bound)


def cheapest(
    machine: RewardMachine | Composition,
    agents: Iterable[str],
    control: Control,
    cost: Costs | None = None,
    forbidden: Iterable[tuple[str, str]] = (),
) -> Assignment:
    """Find the cheapest local event sets under which the task is decomposable, from who controls which event alone.

    Every local event set has the events that its agent controls. Costs and forbidden pairs are as for `repair`, and so
    is the choice between equally cheap answers; a lower cost for the pairs that you prefer overrules it.
    """
    everyone = [check_name(agent, "an agent") for agent in ([agents] if isinstance(agents, str) else agents)]
    nobody = {agent: Names() for agent in everyone}
    if not nobody:
        raise AssignmentError("an assignment needs at least one agent, got none")
    if (parts := independent_parts(machine)) is not None:
        return _by_parts(parts, nobody, check_control(machine, nobody, control), cost, forbidden, _cheapest_of_part)
    machine = enumerate_states(machine) if isinstance(machine, Composition) else machine
    search = _Search(machine, nobody, check_control(machine, nobody, control), cost, forbidden)
    added, exact, bound = search.run(already=set())
    events: dict[str, list[str]] = {agent: [] for agent in everyone}
    for agent, event in sorted(added):
        events[search.agents[agent]].append(search.events[event])
    return Assignment(events, search.total(added), exact, bound)


def _cheapest_of_part(
    part: RewardMachine,
    knows: Knows,
    control: Control | None = None,
    cost: Costs | None = None,
    forbidden: Iterable[tuple[str, str]] = (),
) -> Assignment:
    return cheapest(part, knows, control or {}, cost, forbidden)


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
    found: dict[str, list[str]] = {agent: [] for agent in known}
    spent, exact, bounds = [0.0], True, [0.0]
    for name, own in shares(parts, known).items():
        part = parts[name]
        controlled = {event: control[event] for event in part.events if event in control}
        inside = Names([*own, *(agent for agents in controlled.values() for agent in agents)])
        team = [agent for agent in known if agent in inside] if inside else list(known)[:1]
        if name in special:
            team = list(known)
        prices = {pair: value for pair, value in special.get(name, {}).items() if not math.isinf(value)}
        barred = [pair for pair, value in special.get(name, {}).items() if math.isinf(value)]
        solved = solve(part, {agent: own.get(agent, ()) for agent in team}, controlled, prices, barred)
        for agent, events in solved.items():
            found[agent] += events
        spent.append(solved.cost)
        bounds.append(solved.bound)
        exact = exact and solved.exact
    return Assignment(found, math.fsum(spent), exact, math.fsum(bounds))


class _Search:
    """The implicit hitting set search; a pair is (position of the agent, position of the event)."""

    def __init__(
        self,
        machine: RewardMachine,
        known: Mapping[str, Names],
        control: Mapping[str, Names],
        cost: Costs | None,
        forbidden: Iterable[tuple[str, str]],
    ) -> None:
        self.machine = machine
        self.agents, self.events = tuple(known), tuple(machine.events)
        self.place = Names(self.agents)
        self.cost = self.check_costs(cost, forbidden)
        self.control = {
            (self.place.index(agent), machine.events.index(e)) for e, own in control.items() for agent in own
        }
        controlled = {event for _, event in self.control}
        waiting = self.waiting(self.control | {pair for pair in self.pairs_of(known) if pair[1] not in controlled})
        self.price = {pair: Price(own, BURDEN if pair in waiting else ODD_BURDEN) for pair, own in self.cost.items()}
        self.effort = EFFORT
        self.projections: dict[bytes, Projection] = {}

    def check_costs(self, cost: Costs | None, forbidden: Iterable[tuple[str, str]]) -> dict[Pair, float]:
        """Give every pair its cost; what is forbidden costs infinitely much."""
        table = {(a, e): DEFAULT_COST for a in range(len(self.agents)) for e in range(len(self.events))}
        given: list[tuple[tuple[str, str], float]] = list((cost or {}).items())
        for key, value in given + [(key, math.inf) for key in forbidden]:
            if not (
                isinstance(key, tuple) and len(key) == 2 and key[0] in self.place and key[1] in self.machine.events
            ):
                raise AssignmentError(f"costs and prohibitions are for pairs (agent, event) that exist, got {key!r}")
            if not isinstance(value, int | float | np.number) or not value >= 0:
                raise AssignmentError(f"the cost of {key!r} must be a number of at least 0, got {value!r}")
            table[self.place.index(key[0]), self.machine.events.index(key[1])] = float(value)
        return table

    def waiting(self, owners: Iterable[Pair]) -> set[Pair]:
        """Find who waits for what: pairs (agent, event) where none of the agent's own can happen before the event."""
        graph = self.machine.graph
        waits: set[Pair] = set()
        for agent in range(len(self.agents)):
            own = np.zeros(len(self.events), np.bool_)
            own[[event for owner, event in owners if owner == agent]] = True
            busy = np.zeros(len(self.machine.states), np.bool_)
            busy[graph.source[own[graph.label]]] = True
            begins = graph.label[busy[graph.target] & ~busy[graph.source]]
            waits.update((agent, event) for event in np.unique(begins).tolist())
        return waits

    def pairs_of(self, known: Mapping[str, Iterable[str]]) -> Iterable[Pair]:
        return ((self.place.index(a), self.machine.events.index(e)) for a, events in known.items() for e in events)

    def total(self, pairs: Iterable[Pair]) -> float:
        return math.fsum(self.cost[pair] for pair in pairs)

    def run(self, already: set[Pair]) -> tuple[set[Pair], bool, float]:
        """Return the pairs to add, whether nothing cheaper would do, and the lower bound that was proved."""
        forced = self.control - already
        for agent, event in sorted(forced):
            if math.isinf(self.cost[agent, event]):
                who, what = self.agents[agent], self.events[event]
                raise InfeasibleError(
                    f"{who} must know {what}, which it controls or waits for at a gate, but that is forbidden"
                )
        base = already | forced
        clauses: list[Clause] = []
        while True:
            hitting = hit_cheaply(clauses, self.price, BRANCHINGS)
            bound = self.total(forced | hitting.chosen if hitting.proved else forced)
            found = self.disjoint_clauses(base | hitting.chosen)
            if not found:
                return forced | hitting.chosen, hitting.proved, bound
            clauses += found
            if self.effort <= 0 or not hitting.proved:
                return forced | self.settle(base, set(hitting.chosen)), False, bound

    def disjoint_clauses(self, known: set[Pair]) -> list[Clause]:
        """Collect failures that have no pair in common, each found with all pairs of the earlier ones added."""
        found: list[Clause] = []
        while (clause := self.clause(known)) is not None:
            found.append(clause)
            known = known | clause
        return found

    def settle(self, base: set[Pair], added: set[Pair]) -> set[Pair]:
        """Add cheap pairs until all is well, then drop those that are not needed, dear ones first."""
        while (clause := self.clause(base | added)) is not None:
            added.add(min(clause, key=lambda pair: (self.price[pair], pair)))
        for pair in sorted(added, key=self.price.__getitem__, reverse=True):
            if self.clause(base | added - {pair}) is None:
                added.discard(pair)
        return added

    def clause(self, known: set[Pair]) -> Clause | None:
        """Check an assignment; if it fails, return pairs of which every valid larger assignment has at least one."""
        projections = self.views_of(known)
        if unknown := unknown_events(self.machine, projections):
            pairs = {(agent, unknown[0]) for agent in range(len(self.agents))}
        elif (failure := find_failure(self.machine, projections)) is not None:
            pairs = self.pairs_against(projections, *failure)
        else:
            return None
        allowed = frozenset(pair for pair in pairs if not math.isinf(self.cost[pair]))
        if not allowed:
            needed = ", ".join(f"{self.agents[agent]}: {self.events[event]}" for agent, event in sorted(pairs))
            raise InfeasibleError(
                f"the task is not decomposable unless one of these pairs (agent: event) is allowed: {needed}"
            )
        return allowed

    def pairs_against(self, projections: Sequence[Projection], state: int, event: int) -> set[Pair]:
        """List the pairs that could prevent a failure: they separate merged states, or make one more agent propose."""
        pairs: set[Pair] = set()
        for agent, projection in enumerate(projections):
            if event < 0 or projection.visible[event]:
                pairs.update((agent, hidden) for hidden in confuse(projection, state, event)[1])
            else:
                pairs.add((agent, event))
        return pairs

    def views_of(self, known: Iterable[Pair]) -> list[Projection]:
        """Take the agents' projections, of which most stay the same from one assignment to the next."""
        visible = np.zeros((len(self.agents), len(self.events)), np.bool_)
        if known:
            visible[tuple(np.array(list(known)).T)] = True
        self.effort -= LEAST_EFFORT + len(self.machine.states)
        return [self.projection(row) for row in visible]

    def projection(self, visible: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Projection:
        key = visible.tobytes()
        if key not in self.projections:
            if len(self.projections) * len(self.machine.states) > CACHED_STATES:
                self.projections.clear()
            self.effort -= max(LEAST_EFFORT, len(self.machine.graph.target))
            self.projections[key] = Projection(self.machine, visible)
        return self.projections[key]
