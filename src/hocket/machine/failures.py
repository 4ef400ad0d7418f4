"""What can go wrong when a team machine is split among agents, and what an agent prevents by what it knows.

A failure is an event in a state where the team machine forbids it, a state that is taken for final and is not, or an
event that happens and that nobody knows. An agent prevents a failure if its own machine forbids it, and a task is
decomposable if every failure is prevented by some agent. Sets of failures and of pairs (agent, event) are the bits of
integers, so that a whole assignment is tested with one operation for each agent.

Rewards that are no sum of local ones are a failure of another kind, which no agent prevents alone: the equations of
each event are solved for the agents that know it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hocket.graphs import SMALL, Flags, Ints
from hocket.hitting_set import Effort, as_set
from hocket.machine.algebra import Projection
from hocket.machine.confusion import confuse, merged_pairs, why_merged
from hocket.machine.reward_machine import RewardMachine
from hocket.machine.shared_rewards import Decimals, Refutation, refute

MOST_KEPT = 250_000_000  # bytes for the failures that were once worked out

# Effort, in units of some 50 ns.
CHECK, PROJECTION, PER_TRANSITION = 40, 2_000, 6  # the last in small graphs, where numpy does not help
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
        self._happens = np.zeros(len(machine.events), np.bool_)
        self._happens[machine.graph.label] = True
        self._possible = self._possible_failures()
        self._unknown = (self._possible.size + 7) // 8  # bytes before the failures that are events nobody knows
        self._kept: dict[bytes, _View] = {}
        self._size = self._unknown + self.row_bytes + 4 * len(machine.states)  # bytes of a view
        self._decimals = None if machine.has_completion_rewards else Decimals(machine)
        self._refuted: dict[tuple[int, frozenset[bytes]], Refutation | None] = {}  # by event and who knows it

    def pair(self, agent: int, event: int) -> int:
        """Number a pair (agent, event)."""
        return agent * self.width + event

    def agent_and_event(self, pair: int) -> tuple[int, int]:
        return divmod(pair, self.width)

    def split(self, pairs: int) -> list[int]:
        """Split a set of pairs into those of each agent."""
        return [int.from_bytes(row, "little") << agent * self.width for agent, row in enumerate(self._rows(pairs))]

    def are_prevented(self, known: int) -> bool:
        """Say whether a set of pairs (agent, event) prevents all failures, that is, whether it is decomposable so."""
        self.effort.spend(CHECK + self.agents * (2 + self._size // 256))
        rows = self._rows(known)
        return self._left_by(rows) == 0 and self._find_unshared(rows) is None

    def explain(self, known: int) -> int:
        """Name pairs on the lack of which a failure rests: every larger set that prevents it has one of them."""
        rows = self._rows(known)
        if left := self._left_by(rows):
            state, event = self._locate(left)
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
            self.effort.spend(PROJECTION + PER_TRANSITION * min(transitions, SMALL) + transitions + self._size // 4)
            view = self._kept[row] = self._work_out(row)
        return view

    def _locate(self, failures: int) -> tuple[int, int]:
        """Choose a failure: its state (-1 if nobody knows its event) and its event (-1 if it is a completion)."""
        if unknown := failures >> 8 * self._unknown:
            return -1, _lowest(unknown)
        event, state = divmod(_lowest(failures), len(self.machine.states))
        return state, event if event < len(self.machine.events) else -1

    def _why(self, row: bytes, state: int, event: int) -> list[int]:
        """List events such that an agent does not prevent a failure as long as it knows none of them."""
        visible = self._visible(row)
        if state < 0 or (event >= 0 and not visible[event]):
            return [event]
        self.effort.spend(PROJECTION + len(self.machine.graph.target))
        return confuse(self.machine, visible, self._known_to(row).classes, state, event)[1]

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
                edges = len(self._decimals.edges(event))
                self.effort.spend(PROJECTION + PER_EQUATION * edges * len(key[1]))
                classes = [self._known_to(row).classes for row in sorted(key[1])]
                self._refuted[key] = refute(self.machine, self._decimals, event, classes)
            if (refutation := self._refuted[key]) is not None:
                return refutation
        return None

    def _why_unshared(self, row: bytes, refutation: Refutation) -> list[int]:
        """List events such that rewards stay refuted as long as an agent knows none of them."""
        visible = self._visible(row)
        if not visible[refutation.event]:
            return [refutation.event]
        pairs = merged_pairs(self.machine, self._known_to(row).classes, refutation)
        self.effort.spend((PROJECTION + len(self.machine.graph.target)) * len(pairs))
        why = (why_merged(self.machine, visible, state, other) for state, other in pairs)
        return list(dict.fromkeys(event for events in why for event in events))

    def _visible(self, row: bytes) -> Flags:
        events = len(self.machine.events)
        return np.unpackbits(np.frombuffer(row, np.uint8), count=events, bitorder="little").view(np.bool_)

    def _possible_failures(self) -> Flags:
        """Flag what must not happen: [events + 1, states]; the last row is for completion."""
        graph = self.machine.graph
        possible = np.zeros((len(self.machine.events) + 1, len(self.machine.states)), np.bool_)
        possible[:-1][self._happens] = True  # whoever knows an event that happens nowhere never accepts it
        possible[graph.label, graph.source] = False
        possible[-1] = ~self.machine.is_final
        return possible

    def _work_out(self, row: bytes) -> _View:
        visible = self._visible(row)
        projection = Projection(self.machine, visible)
        accepts = np.zeros((len(visible) + 1, len(projection.is_final)), np.bool_)  # [events + 1, classes]
        accepts[:-1][~visible] = True
        accepts[projection.label, projection.source] = True
        accepts[-1] = projection.is_final
        accepted = accepts[:, projection.classes] & self._possible
        parts = (np.packbits(flags, bitorder="little") for flags in (accepted, self._happens & ~visible))
        left = int.from_bytes(b"".join(part.tobytes() for part in parts), "little")
        return _View(projection.classes, left)


def _lowest(flags: int) -> int:
    return (flags & -flags).bit_length() - 1
