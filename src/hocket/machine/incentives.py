"""Payments between agents: who needs what a teammate does pays for it, and all sums stay as they are.

Rewards that add up to the team's may leave an agent with nothing to do its part for: if pressing a button is worth
nothing and what a teammate does behind the door is worth 1, the teammate gets the 1. So an agent that earns something
pays those that bring it nearer to its earnings.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from hocket.graphs import Ints, congruence, distances_from, make_graph
from hocket.machine.algebra import Views
from hocket.machine.names import Known
from hocket.machine.reward_machine import RewardMachine
from hocket.machine.shared_rewards import Amounts, Objects, payees_of, split


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
    earners = [agent for agent in projections if market.largest(agent) > 0]
    reached = set(earners)
    payments = [payment for payer in earners for payment in market.payments(payer, projections)]
    while payments:
        market.make(payments)
        paid = [payment.payee for payment in payments if any(amount > 0 for amount in payment.arrives.values())]
        payers = [agent for agent in dict.fromkeys(paid) if agent not in reached and market.largest(agent) > 0]
        reached |= {*payers}
        unpaid = [agent for agent in projections if agent not in reached]
        payments = [payment for payer in payers for payment in market.payments(payer, unpaid)]
    return Amounts(market.amounts, amounts.unit)


class _Payment(NamedTuple):
    """What one agent pays another, on which transitions of either."""

    payer: str
    payee: str
    leaves: dict[int, int]  # local transition of the payer -> amount
    arrives: dict[int, int]  # local transition of the payee -> amount


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
        prospects = self.prospects(payer)
        if not any(prospects):
            return []
        paid_for = {
            agent: [event for event in self.shared(payer, agent) if agent in self.payees[event]]
            for agent in others
            if agent != payer
        }
        return [self.payment(payer, prospects, agent, events) for agent, events in paid_for.items() if events]

    def shared(self, one: str, other: str) -> list[int]:
        """List the events that two agents know."""
        both = self.projections[one].visible & self.projections[other].visible
        return np.flatnonzero(both).tolist()

    def prospects(self, agent: str) -> list[int]:
        """Tell what an agent can hope for in each of its local states: [classes]."""
        view, paid = self.projections[agent], [int(amount) for amount in self.amounts[agent].tolist()]
        count = len(view.is_final)
        source, target = view.source.tolist(), view.target.tolist()
        before: list[list[int]] = [[] for _ in range(count)]
        for start, end in zip(source, target, strict=True):
            before[end].append(start)
        best = [0] * count
        for start, amount in zip(source, paid, strict=True):
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
        common = self.common(payer, agent)
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
        return _Payment(payer, agent, {at: owed[event, kind] for at, (event, kind, _) in rows.items()}, arrives)

    def common(self, payer: str, agent: str) -> Ints:
        """Say which local states of a payer are the same as far as both agents can tell: [classes of the payer].

        Projected onto the events that both know, the two local machines are the same machine.
        """
        view = self.projections[payer]
        hidden = np.ones(len(view.visible), np.bool_)
        hidden[self.shared(payer, agent)] = False
        graph, _ = make_graph(len(view.is_final), view.source, view.label, view.target)
        return congruence(graph, hidden[graph.label]).classes

    def make(self, payments: Iterable[_Payment]) -> None:
        """Move the amounts from the payers to the others."""
        for payment in payments:
            for at, amount in payment.leaves.items():
                self.amounts[payment.payer][at] -= amount
            for at, amount in payment.arrives.items():
                self.amounts[payment.payee][at] += amount
