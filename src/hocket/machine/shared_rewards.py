"""General rewards, shared out: local rewards that add up to the team's, or a proof that there are none.

A team machine that pays r(u, e) is shared out by local rewards with r(u, e) = sum of r_i([u]_i, e) over the agents i
that know e, for every reachable transition: for each event a system of linear equations with an unknown for each pair
of an agent that knows it and a local state. Rewards are read as decimals and solved exactly, in whole numbers of a unit
that is small enough for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.graphs import Ints, congruence, distances_from, make_graph
from hocket.machine.algebra import Projection, Views
from hocket.machine.names import Known
from hocket.machine.reward_machine import RewardMachine

Amount = int | Fraction  # in units
Objects = NDArray[np.object_]

SPARE_DIGITS = 6  # so that a reward of 1 is split among three as 0.333334, 0.333333 and 0.333333


class Refutation(NamedTuple):
    """Transitions on one event that no local rewards can pay for.

    Weighted, every agent that knows the event counts each of its local states as often with a plus as with a minus, so
    that whatever it is paid cancels; the team's rewards do not.
    """

    event: int
    weights: tuple[tuple[int, int], ...]  # (transition, weight), nearest to the initial state first


class Amounts(NamedTuple):
    """What each agent is paid on each of its local transitions, in the order of its projection's."""

    of: dict[str, Objects]
    unit: int  # units that make up 1

    def floats(self, agent: str) -> NDArray[np.float64]:
        """Give an agent's rewards as numbers."""
        return np.array([float(Fraction(amount, self.unit)) for amount in self.of[agent].tolist()], np.float64)


def payees_of(control: Mapping[str, Iterable[str]], event: str, knowers: Sequence[str]) -> list[str]:
    """List who is paid for an event: the agents that control it; all who know it, if no controller is given."""
    return [agent for agent in knowers if agent in control.get(event, ())] or list(knowers)


def share_rewards(team: RewardMachine, projections: Views, control: Known) -> Amounts | Refutation:
    """Share out the rewards of a machine whose states are all reachable; or refute that this is possible.

    Where the equations leave a choice, the transitions are gone through, nearest first, and on each the controllers of
    its event get equal parts of its reward and the others nothing, as far as amounts are still free.
    """
    decimals = Decimals(team)
    amounts = {agent: np.zeros(len(view.source), np.object_) for agent, view in projections.items()}
    refutations: list[Refutation] = []
    for event, name in enumerate(team.events):
        groups = _groups(projections, event)
        if not groups or len(team.by_event[event]) == 0:
            continue
        payees = payees_of(control, name, [agent for _, agents in groups for agent in agents])
        shares = [sum(agent in payees for agent in agents) for _, agents in groups]
        solved = share_event(team, decimals, event, [view.classes for view, _ in groups], shares)
        if isinstance(solved, Refutation):
            refutations.append(solved)
            continue
        for (view, agents), (classes, group_amounts) in zip(groups, solved, strict=True):
            at = np.searchsorted(view.enabling(event), classes) + int(np.searchsorted(view.label, event))
            paid = [agent for agent in agents if agent in payees] or agents
            parts = [split(amount, len(paid)) if len(paid) > 1 else [amount] for amount in group_amounts]
            for agent, part in zip(paid, zip(*parts, strict=True), strict=True):
                amounts[agent][at] = part
    if refutations:
        return min(refutations, key=lambda refutation: team.rank[team.graph.source[refutation.weights[0][0]]])
    return Amounts(amounts, decimals.unit)


def share_event(
    team: RewardMachine, decimals: Decimals, event: int, classes: Sequence[Ints], shares: Sequence[int] | None = None
) -> Solution | Refutation:
    """Share out, or refute, the rewards of one event among groups of agents with these classes of states."""
    edges = team.by_event[event]
    columns = [of_state[team.graph.source[edges]] for of_state in classes]
    solved = solve(columns, decimals.codes[edges], decimals.values, shares)
    if isinstance(solved, list):
        return solved
    return Refutation(event, tuple((int(edges[row]), weight) for row, weight in solved.items()))


class Decimals:
    """The rewards of a machine as exact whole numbers of units."""

    def __init__(self, team: RewardMachine) -> None:
        different, codes = np.unique(team.reward + 0.0, return_inverse=True)
        exact = [Decimal(repr(value)) for value in different.tolist()]
        digits = max((len(f"{value.normalize():f}".partition(".")[2]) for value in exact), default=0)
        self.unit = 10 ** (digits + SPARE_DIGITS)
        self.values = [int(Fraction(value) * self.unit) for value in exact]
        self.codes: Ints = codes.astype(np.int32)  # [transitions] the position of each reward in `values`


def _groups(projections: Views, event: int) -> list[tuple[Projection, list[str]]]:
    """Collect the agents that know an event by their projections: what is paid to one could be paid to the other."""
    groups: dict[int, tuple[Projection, list[str]]] = {}
    for agent, view in projections.items():
        if view.visible[event]:
            groups.setdefault(id(view), (view, []))[1].append(agent)
    return list(groups.values())


def split(amount: Amount, count: int) -> list[Amount]:
    """Split an amount into equal parts; what is left of a whole number of units goes to the first ones.

    >>> split(10, 4)
    [3, 3, 2, 2]
    """
    if isinstance(amount, Fraction):
        return [amount / count] * count
    each, more = divmod(amount, count)
    return [each + (place < more) for place in range(count)]


# One event.

Solution = list[tuple[Ints, list[Amount]]]  # for each group: its classes, ascending, and what each is paid


def solve(
    columns: Sequence[Ints], codes: Ints, values: Sequence[int], shares: Sequence[int] | None
) -> Solution | dict[int, int]:
    """Solve the equations of one event, one for each transition: the amounts of its classes add up to its reward.

    `columns` are the classes of the transitions' sources, for each group; `shares` says how many equal parts of what is
    free each group gets (None: whatever is simplest). Returns the amounts, or the weights of a refutation.
    """
    if shares is not None and not (codes != codes[0]).any():
        parts = _targets(values[codes[0]], shares)
        return [(kinds := np.unique(column), [part] * len(kinds)) for column, part in zip(columns, parts, strict=True)]
    key = columns[0].astype(np.int64)
    for column in columns[1:]:
        key = np.unique(key, return_inverse=True)[1] * np.int64(int(column.max()) + 1) + column
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    wrong = np.flatnonzero(codes[first][inverse] != codes)
    if len(wrong):
        row = int(wrong[0])
        return {int(first[inverse[row]]): 1, row: -1}
    rows = np.sort(first)
    if len(columns) == 1:
        kinds, at = np.unique(columns[0][rows], return_index=True)
        return [(kinds, [values[code] for code in codes[rows[at]].tolist()])]
    offsets = np.cumsum([0, *(int(column.max()) + 1 for column in columns)])
    unknowns = np.stack([column[rows] + offset for column, offset in zip(columns, offsets, strict=False)], axis=1)
    equations = [(row, values[code]) for row, code in zip(unknowns.tolist(), codes[rows].tolist(), strict=True)]
    system = _System()
    independent: list[int] = []  # equations that do not follow from those before
    for number, equation in enumerate(equations):
        missing = system.add(*equation)
        if missing is None:
            independent.append(number)
        elif missing:
            weights = _weights([equations[each][0] for each in independent], equation[0])
            weighted = zip(rows[[*independent, number]].tolist(), weights, strict=True)
            return {row: weight for row, weight in weighted if weight}
    for row, reward in equations if shares is not None else ():
        # Where amounts are still free, controllers get equal parts and the others nothing.
        targets = _targets(reward, shares or ()) if any(map(system.is_free, row)) else ()
        for unknown, target in zip(row, targets, strict=False):
            if system.is_free(unknown):
                system.add([unknown], target)
    kinds_of = [np.unique(column[rows]) for column in columns]
    values_of = (
        [system.value(number) for number in (kinds + offset).tolist()]
        for kinds, offset in zip(kinds_of, offsets, strict=False)
    )
    return list(zip(kinds_of, values_of, strict=True))


def _targets(reward: int, shares: Sequence[int]) -> list[int]:
    """Split a reward into equal parts, so many for each group."""
    parts = iter(split(reward, sum(shares)))
    return [sum(int(next(parts)) for _ in range(count)) for count in shares]


def _weights(independent: Sequence[list[int]], unknowns: list[int]) -> list[int]:
    """Say with which weights the unknowns of independent equations, and of one that follows from them, cancel."""
    columns: dict[int, list[int]] = {unknown: [] for unknown in unknowns}  # unknown -> the equations that have it
    for number, row in enumerate(independent):
        for unknown in row:
            columns.setdefault(unknown, []).append(number)
    system = _System()
    for unknown, numbers in columns.items():
        system.add(numbers, int(unknown in unknowns))
    weights = [*(Fraction(system.value(number)) for number in range(len(independent))), Fraction(-1)]
    scale = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * scale) for weight in weights]
    common = math.gcd(*whole) * (1 if next(filter(None, whole)) > 0 else -1)
    return [weight // common for weight in whole]


class _Form(NamedTuple):
    """An unknown in terms of others that are free: a constant plus multiples of them."""

    constant: Amount
    multiples: dict[int, Amount]


class _System:
    """Linear equations whose unknowns are all counted once, solved one after the other by substitution.

    Every solved unknown is written in terms of free ones, and an unknown is solved for where fewest others depend on
    it. With two unknowns in each equation this is a union-find with differences.
    """

    def __init__(self) -> None:
        self._solved: dict[int, _Form] = {}
        self._users: dict[int, set[int]] = {}  # free unknown -> the solved ones that depend on it

    def add(self, unknowns: Iterable[int], total: Amount) -> Amount | None:
        """Require that some unknowns add up to a total; if their sum is settled already, say what it lacks."""
        multiples: dict[int, Amount] = {}
        for unknown in unknowns:
            form = self._solved.get(unknown)
            if form is None:
                multiples[unknown] = multiples.get(unknown, 0) + 1
                continue
            total -= form.constant
            _add(multiples, form.multiples, 1)
        multiples = {unknown: factor for unknown, factor in multiples.items() if factor}
        if not multiples:
            return total
        easiest = min(multiples, key=lambda each: (abs(multiples[each]) != 1, len(self._users.get(each, ()))))
        self._solve_for(easiest, multiples, total)
        return None

    def is_free(self, unknown: int) -> bool:
        """Say whether an unknown may still have any value."""
        form = self._solved.get(unknown)
        return form is None or bool(form.multiples)

    def value(self, unknown: int) -> Amount:
        """Give an unknown's value where all free ones are 0."""
        form = self._solved.get(unknown)
        return 0 if form is None else form.constant

    def _solve_for(self, unknown: int, multiples: dict[int, Amount], total: Amount) -> None:
        factor = multiples.pop(unknown)
        terms = {other: _divide(-multiple, factor) for other, multiple in multiples.items()}
        form = _Form(_divide(total, factor), terms)
        for user in self._users.pop(unknown, set()):
            before = self._solved[user]
            times = before.multiples.pop(unknown)
            _add(before.multiples, form.multiples, times)
            self._solved[user] = before._replace(constant=before.constant + times * form.constant)
            self._note(user, form.multiples)
        self._solved[unknown] = form
        self._note(unknown, form.multiples)

    def _note(self, unknown: int, multiples: Iterable[int]) -> None:
        depends = self._solved[unknown].multiples
        for other in multiples:
            if other in depends:
                self._users.setdefault(other, set()).add(unknown)
            elif other in self._users:
                self._users[other].discard(unknown)


def _add(to: dict[int, Amount], more: Mapping[int, Amount], times: Amount) -> None:
    """Add multiples, leaving out what becomes 0."""
    for key, amount in more.items():
        if total := to.get(key, 0) + times * amount:
            to[key] = total
        else:
            del to[key]


def _divide(amount: Amount, by: Amount) -> Amount:
    if by in (1, -1):
        return amount * int(by)
    divided = Fraction(amount) / by
    return divided.numerator if divided.denominator == 1 else divided


# Payments between agents: who needs what a teammate does pays for it, and all sums stay as they are.
#
# Rewards that add up to the team's may leave an agent with nothing to do its part for: if pressing a button is worth
# nothing and what a teammate does behind the door is worth 1, the teammate gets the 1. So an agent that earns something
# pays those that bring it nearer to its earnings.


def pay_for_progress(team: RewardMachine, projections: Views, control: Known, amounts: Amounts) -> Amounts:
    """Let every agent that earns something pay the others for what they control and it profits from.

    An agent's *prospect* in a local state is the most that it can earn on a transition, less an equal part of its
    largest reward for every event that has to happen before. There are as many parts as events on the longest of the
    shortest ways to that reward, itself included, so that in a chain of events everyone gets the same. When an event
    changes the prospect, as far as both can tell, the agent pays the difference to the controllers of the event, or
    gets it back from them; except when it earns what it hoped for. Agents that earn nothing themselves pass on what
    they are paid in the same way, to those that are not paid yet.
    """
    market = _Market(team, projections, control, amounts)
    payers = [agent for agent in projections if market.largest(agent) > 0]
    reached, unpaid = {*payers}, [*projections]
    while payments := [payment for payer in payers for payment in market.payments(payer, unpaid)]:
        for payment in payments:
            for agent, at, amount in payment.changes:
                market.amounts[agent][at] += amount
        paid = dict.fromkeys(payment.payee for payment in payments if payment.is_gain)
        payers = [agent for agent in paid if agent not in reached and market.largest(agent) > 0]
        reached |= {*payers}
        unpaid = [agent for agent in projections if agent not in reached]
    return Amounts(market.amounts, amounts.unit)


class _Payment(NamedTuple):
    """What one agent pays another."""

    payee: str
    changes: list[tuple[str, int, int]]  # either agent, one of its local transitions, what it gets on it
    is_gain: bool  # whether the payee gets more on some transition


class _Market:
    """What agents are paid so far, and their prospects."""

    def __init__(self, team: RewardMachine, projections: Views, control: Known, amounts: Amounts) -> None:
        self.projections = projections
        self.amounts: dict[str, Objects] = {agent: paid.copy() for agent, paid in amounts.of.items()}
        self.payees = [
            payees_of(control, name, [agent for agent, view in projections.items() if view.visible[event]])
            for event, name in enumerate(team.events)
        ]

    def largest(self, agent: str) -> int:
        """Give the largest whole amount that an agent is paid on a transition."""
        return max((int(amount) for amount in self.amounts[agent].tolist()), default=0)

    def payments(self, payer: str, others: Iterable[str]) -> list[_Payment]:
        """Work out what an agent pays to which others, by what it is paid now."""
        prospects, view, payments = self.prospects(payer), self.projections[payer], []
        for agent in others if any(prospects) else ():
            shared = view.visible & self.projections[agent].visible
            events = [event for event in np.flatnonzero(shared).tolist() if agent in self.payees[event]]
            if agent != payer and events:
                payments.append(self.payment(payer, prospects, agent, events))
        return payments

    def prospects(self, agent: str) -> list[int]:
        """Tell what an agent can hope for in each of its local states: [classes]."""
        view, paid = self.projections[agent], [int(amount) for amount in self.amounts[agent].tolist()]
        count = len(view.is_final)
        best, before = [0] * count, list[list[int]]([] for _ in range(count))
        for start, end, amount in zip(view.source.tolist(), view.target.tolist(), paid, strict=True):
            before[end].append(start)
            best[start] = max(best[start], amount)
        largest = max(best, default=0)
        goals = (state for state in range(count) if best[state] == largest > 0)
        distance = distances_from(goals, before.__getitem__)
        step = largest // (1 + max(distance.values(), default=0))
        if step == 0:
            return [0] * count
        heap = [(-value, state) for state, value in enumerate(best) if value > 0]
        heapify(heap)
        while heap:
            value, state = heappop(heap)
            if -value == best[state]:
                for start in before[state]:
                    if best[start] < -value - step:
                        best[start] = -value - step
                        heappush(heap, (value + step, start))
        return best

    def payment(self, payer: str, prospects: list[int], agent: str, events: list[int]) -> _Payment:
        """Work out what a payer owes one agent, by what both of them can tell of the team's state."""
        view, other = self.projections[payer], self.projections[agent]
        # Which local states of the payer are the same as far as both can tell: projected onto the events that both
        # know, the two local machines are the same machine.
        graph, _ = make_graph(len(view.is_final), view.source, view.label, view.target)
        common = congruence(graph, ~other.visible[graph.label]).classes
        prospect = [0] * (int(common.max()) + 1)
        for state, kind in enumerate(common.tolist()):
            prospect[kind] = max(prospect[kind], prospects[state])
        rows = {
            int(at): (int(view.label[at]), int(common[view.source[at]]), int(common[view.target[at]]))
            for at in np.flatnonzero(np.isin(view.label, events))
        }
        hoped_for = {
            (event, kind) for at, (event, kind, _) in rows.items() if self.amounts[payer][at] >= prospect[kind] > 0
        }
        owed: dict[tuple[int, int], int] = {}  # (event, what both can tell) -> amount
        for event, kind, after in rows.values():
            payees = [payee for payee in self.payees[event] if payee != payer]
            change = 0 if (event, kind) in hoped_for else prospect[after] - prospect[kind]
            part = int(split(abs(change), len(payees))[payees.index(agent)])
            owed[event, kind] = part if change > 0 else -part
        as_seen = np.empty(len(other.is_final), np.int32)  # [classes of the payee]
        as_seen[other.classes] = common[view.classes]
        arrives = {
            int(at): owed[int(other.label[at]), int(as_seen[other.source[at]])]
            for at in np.flatnonzero(np.isin(other.label, events))
        }
        leaves = [(payer, at, -owed[event, kind]) for at, (event, kind, _) in rows.items()]
        gains = [(agent, at, amount) for at, amount in arrives.items()]
        return _Payment(agent, [*leaves, *gains], any(amount > 0 for amount in arrives.values()))
