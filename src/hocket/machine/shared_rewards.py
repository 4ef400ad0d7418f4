"""General rewards, shared out: local rewards that add up to the team's, or a proof that there are none.

The rewards r(u, e) of a team machine are shared out by local rewards with r(u, e) = sum of r_i([u]_i, e) over the
agents i that know e, for every reachable transition: for each event a system of linear equations with an unknown for
each pair of an agent that knows it and a local state. Rewards are read as decimals and the systems solved exactly, in
whole numbers of a unit that is small enough for all of them.
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
    """Transitions on one event, with weights which prove that their rewards are no sums of local ones.

    For every agent that knows the event, the weights of each local state add up to 0, so that local rewards cancel; the
    team's rewards do not.
    """

    event: int
    weights: tuple[tuple[int, int], ...]  # (transition, weight), nearest to the initial state first


class Amounts(NamedTuple):
    """The rewards of each agent's local transitions, in the order of its projection, in units."""

    of: dict[str, Objects]
    unit: int  # how many units make up 1

    def floats(self, agent: str) -> NDArray[np.float64]:
        """Give an agent's rewards as numbers."""
        return np.array([float(Fraction(amount, self.unit)) for amount in self.of[agent].tolist()], np.float64)


def payees_of(control: Mapping[str, Iterable[str]], event: str, knowers: Sequence[str]) -> list[str]:
    """List the agents that are paid for an event: those that control it, or else all that know it."""
    return [agent for agent in knowers if agent in control.get(event, ())] or list(knowers)


def share_rewards(team: RewardMachine, projections: Views, control: Known) -> Amounts | Refutation:
    """Share out the rewards of a machine whose states are all reachable, or prove that this is impossible.

    Where the equations leave a choice, the controllers of an event get equal parts of the reward of each transition and
    the other agents nothing, nearest transitions first, as long as amounts are still free.
    """
    decimals = Decimals(team)
    amounts = {agent: np.zeros(len(view.source), np.object_) for agent, view in projections.items()}
    refutations: list[Refutation] = []
    for event, name in enumerate(team.events):
        groups: dict[Projection, list[str]] = {}  # agents with the same projection could be paid for each other
        for agent, view in projections.items():
            if view.visible[event]:
                groups.setdefault(view, []).append(agent)
        if not groups or len(team.by_event[event]) == 0:
            continue
        payees = payees_of(control, name, [agent for agents in groups.values() for agent in agents])
        shares = [sum(agent in payees for agent in agents) for agents in groups.values()]
        solved = share_event(team, decimals, event, [view.classes for view in groups], shares)
        if isinstance(solved, Refutation):
            refutations.append(solved)
            continue
        for (view, agents), (classes, group_amounts) in zip(groups.items(), solved, strict=True):
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
    """Share out the rewards of one event among groups of agents with these classes of states, or refute that."""
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


def split(amount: Amount, count: int) -> list[Amount]:
    """Split an amount into equal parts; the remainder of a whole number of units goes to the first ones.

    >>> split(10, 4)
    [3, 3, 2, 2]
    """
    if isinstance(amount, Fraction):
        return [amount / count] * count
    part, remainder = divmod(amount, count)
    return [part + (index < remainder) for index in range(count)]


# One event.

Solution = list[tuple[Ints, list[Amount]]]  # for each group: its classes, ascending, and their amounts


def solve(
    columns: Sequence[Ints], codes: Ints, values: Sequence[int], shares: Sequence[int] | None
) -> Solution | dict[int, int]:
    """Solve the equations of one event, one for each transition: the amounts of its classes add up to its reward.

    `columns` are the classes of the transitions' sources, for each group; `shares` is how many equal parts of free
    amounts each group gets (None: the simplest solution). Returns the amounts, or the weights of a refutation.
    """
    if shares is not None and not (codes != codes[0]).any():
        parts = _targets(values[codes[0]], shares)
        return [(used := np.unique(column), [part] * len(used)) for column, part in zip(columns, parts, strict=True)]
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
        classes, at = np.unique(columns[0][rows], return_index=True)
        return [(classes, [values[code] for code in codes[rows[at]].tolist()])]
    offsets = np.cumsum([0, *(int(column.max()) + 1 for column in columns)])
    unknowns = np.stack([column[rows] + offset for column, offset in zip(columns, offsets, strict=False)], axis=1)
    equations = [(row, values[code]) for row, code in zip(unknowns.tolist(), codes[rows].tolist(), strict=True)]
    system = _System()
    independent: list[int] = []  # equations that do not follow from those before
    for number, equation in enumerate(equations):
        difference = system.add(*equation)
        if difference is None:
            independent.append(number)
        elif difference:
            weights = _weights([equations[each][0] for each in independent], equation[0])
            weighted = zip(rows[[*independent, number]].tolist(), weights, strict=True)
            return {row: weight for row, weight in weighted if weight}
    for row, reward in equations if shares is not None else ():
        # As long as amounts are free, controllers get equal parts and the other agents nothing.
        targets = _targets(reward, shares or ()) if any(map(system.is_free, row)) else ()
        for unknown, target in zip(row, targets, strict=False):
            if system.is_free(unknown):
                system.add([unknown], target)
    solution: Solution = []
    for column, offset in zip(columns, offsets, strict=False):
        classes = np.unique(column[rows])
        solution.append((classes, [system.value(number) for number in (classes + offset).tolist()]))
    return solution


def _targets(reward: int, shares: Sequence[int]) -> list[int]:
    """Split a reward into equal parts, and add up as many for each group as its share."""
    parts = iter(split(reward, sum(shares)))
    return [sum(int(next(parts)) for _ in range(count)) for count in shares]


def _weights(independent: Sequence[list[int]], unknowns: list[int]) -> list[int]:
    """Find weights by which the unknowns of independent equations, and of one that follows from them, cancel."""
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
    """An unknown as a constant plus multiples of free unknowns."""

    constant: Amount
    multiples: dict[int, Amount]


class _System:
    """Linear equations with coefficients 1, solved one after the other by substitution.

    Every solved unknown is written in terms of free ones; each equation is solved for an unknown on which the fewest
    others depend. With two unknowns in each equation this is a union-find with differences.
    """

    def __init__(self) -> None:
        self._solved: dict[int, _Form] = {}
        self._users: dict[int, set[int]] = {}  # free unknown -> the solved ones that depend on it

    def add(self, unknowns: Iterable[int], total: Amount) -> Amount | None:
        """Require that some unknowns add up to a total; if their sum is known already, return how much is missing."""
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
        unknown = min(multiples, key=lambda each: (abs(multiples[each]) != 1, len(self._users.get(each, ()))))
        factor = multiples.pop(unknown)
        terms = {other: _divide(-multiple, factor) for other, multiple in multiples.items()}
        form = _Form(_divide(total, factor), terms)
        for user in self._users.pop(unknown, set()):
            before = self._solved[user]
            times = before.multiples.pop(unknown)
            _add(before.multiples, form.multiples, times)
            self._solved[user] = before._replace(constant=before.constant + times * form.constant)
            self._note_users(user, form.multiples)
        self._solved[unknown] = form
        self._note_users(unknown, form.multiples)
        return None

    def is_free(self, unknown: int) -> bool:
        """Say whether an unknown may still have any value."""
        form = self._solved.get(unknown)
        return form is None or bool(form.multiples)

    def value(self, unknown: int) -> Amount:
        """Return the value of an unknown if all free ones are 0."""
        form = self._solved.get(unknown)
        return 0 if form is None else form.constant

    def _note_users(self, unknown: int, others: Iterable[int]) -> None:
        depends_on = self._solved[unknown].multiples
        for other in others:
            if other in depends_on:
                self._users.setdefault(other, set()).add(unknown)
            elif other in self._users:
                self._users[other].discard(unknown)


def _add(to: dict[int, Amount], more: Mapping[int, Amount], times: Amount) -> None:
    """Add multiples, dropping those that become 0."""
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


# Payments between agents: an agent pays for events of its teammates from which it profits, and all sums stay the same.
#
# Rewards that add up to the team's may leave an agent without a reward for its part: if pressing a button is worth 0
# and a teammate's event behind the door is worth 1, the teammate gets the 1. So an agent that is rewarded pays those
# that bring it nearer to its rewards.


def pay_for_progress(team: RewardMachine, projections: Views, control: Known, amounts: Amounts) -> Amounts:
    """Let every agent that is rewarded pay the others for the events that they control and from which it profits.

    An agent's *prospect* in a local state is its largest reward on a transition that it can reach, less an equal part
    of the largest for every event that has to happen before: as many parts as events on the longest of the shortest
    paths to that reward, itself included, so that in a chain of events all agents get the same. When an event changes
    the prospect, as far as payer and payee can both tell, the agent pays the difference to the controllers of the
    event, or gets it back from them, except on the transition that has the reward. Agents without rewards pass on what
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
    """Payments of one agent to another."""

    payee: str
    changes: list[tuple[str, int, int]]  # either agent, one of its local transitions, the amount added to its reward
    is_gain: bool  # whether the payee gets more on some transition


class _Market:
    """The current rewards of agents, and the payments that follow from them."""

    def __init__(self, team: RewardMachine, projections: Views, control: Known, amounts: Amounts) -> None:
        self.projections = projections
        self.amounts: dict[str, Objects] = {agent: paid.copy() for agent, paid in amounts.of.items()}
        knowers = [[a for a, view in projections.items() if view.visible[event]] for event in range(len(team.events))]
        self.payees = [payees_of(control, name, agents) for name, agents in zip(team.events, knowers, strict=True)]

    def largest(self, agent: str) -> int:
        """Return the largest whole amount that an agent gets on a transition."""
        return max((int(amount) for amount in self.amounts[agent].tolist()), default=0)

    def payments(self, payer: str, others: Iterable[str]) -> list[_Payment]:
        """List the payments of an agent to others."""
        prospects, view, payments = self.prospects(payer), self.projections[payer], []
        for agent in others if any(prospects) else ():
            shared = view.visible & self.projections[agent].visible
            events = [event for event in np.flatnonzero(shared).tolist() if agent in self.payees[event]]
            if agent != payer and events:
                payments.append(self.payment(payer, prospects, agent, events))
        return payments

    def prospects(self, agent: str) -> list[int]:
        """Compute an agent's prospect in each of its local states: [classes]."""
        view, rewards = self.projections[agent], [int(amount) for amount in self.amounts[agent].tolist()]
        count = len(view.is_final)
        best, before = [0] * count, list[list[int]]([] for _ in range(count))
        for start, end, amount in zip(view.source.tolist(), view.target.tolist(), rewards, strict=True):
            before[end].append(start)
            best[start] = max(best[start], amount)
        largest = max(best, default=0)
        goals = (state for state in range(count) if best[state] == largest > 0)
        distance = distances_from(goals, before.__getitem__)
        part = largest // (1 + max(distance.values(), default=0))
        if part == 0:
            return [0] * count
        heap = [(-value, state) for state, value in enumerate(best) if value > 0]
        heapify(heap)
        while heap:
            negative, state = heappop(heap)
            if -negative == best[state]:
                for start in before[state]:
                    if best[start] < -negative - part:
                        best[start] = -negative - part
                        heappush(heap, (negative + part, start))
        return best

    def payment(self, payer: str, prospects: list[int], payee: str, events: list[int]) -> _Payment:
        """Compute the payment for events, as a function of the part of the team's state that both agents can tell."""
        view, other = self.projections[payer], self.projections[payee]
        # Projected onto the events that both know, the two local machines are the same machine, with these states.
        graph, _ = make_graph(len(view.is_final), view.source, view.label, view.target)
        common = congruence(graph, ~other.visible[graph.label]).classes
        prospect = [0] * (int(common.max()) + 1)
        for state, merged in enumerate(common.tolist()):
            prospect[merged] = max(prospect[merged], prospects[state])
        rows = {
            int(at): (int(view.label[at]), int(common[view.source[at]]), int(common[view.target[at]]))
            for at in np.flatnonzero(np.isin(view.label, events))
        }
        amounts = self.amounts[payer]
        rewarded = {(event, before) for at, (event, before, _) in rows.items() if amounts[at] >= prospect[before] > 0}
        owed: dict[tuple[int, int], int] = {}  # (event, common state) -> amount
        for event, before, after in rows.values():
            payees = [agent for agent in self.payees[event] if agent != payer]
            change = 0 if (event, before) in rewarded else prospect[after] - prospect[before]
            part = int(split(abs(change), len(payees))[payees.index(payee)])
            owed[event, before] = part if change > 0 else -part
        common_of_payee = np.empty(len(other.is_final), np.int32)  # [classes of the payee]
        common_of_payee[other.classes] = common[view.classes]
        received = {
            int(at): owed[int(other.label[at]), int(common_of_payee[other.source[at]])]
            for at in np.flatnonzero(np.isin(other.label, events))
        }
        paid = [(payer, at, -owed[event, before]) for at, (event, before, _) in rows.items()]
        gains = [(payee, at, amount) for at, amount in received.items()]
        return _Payment(payee, [*paid, *gains], any(amount > 0 for amount in received.values()))
