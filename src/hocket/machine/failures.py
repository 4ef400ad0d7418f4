"""What can go wrong when a team machine is split among agents, and what an agent prevents by what it knows.

A failure is an event in a state where the team machine forbids it, a state that is taken for final and is not, or an
event that happens and that nobody knows. An agent prevents a failure if its own machine forbids it, and a task splits
if every failure is prevented by some agent. Sets of failures and of pairs (agent, event) are the bits of integers, so
that a whole assignment is tested with one operation for each agent.
"""

from __future__ import annotations

import numpy as np

from hocket.graphs import Flags
from hocket.hitting_set import Effort
from hocket.machine.algebra import Projection
from hocket.machine.reward_machine import RewardMachine

MOST_KEPT = 250_000_000  # bytes for the failures that were once worked out

# Effort, in units of some 50 ns.
CHECK, PROJECTION, PER_TRANSITION = 40, 2_000, 4


class Failures:
    """The failures of a machine whose states are all reachable; agents and events are numbers.

    In a set of pairs, each agent has a row of `width` bits, with a bit for each event.
    """

    def __init__(self, machine: RewardMachine, agents: int, effort: Effort) -> None:
        self.machine, self.agents, self.effort = machine, agents, effort
        self.row_bytes = (len(machine.events) + 7) // 8
        self.width = 8 * self.row_bytes
        self._possible = self._possible_failures()
        self._happens = np.zeros(len(machine.events), np.bool_)
        self._happens[machine.graph.label] = True
        self._kept: dict[bytes, int] = {}
        self._size = (self._possible.size + self.width) // 8  # bytes of a set of failures

    def pair(self, agent: int, event: int) -> int:
        """Number a pair (agent, event)."""
        return agent * self.width + event

    def agent_and_event(self, pair: int) -> tuple[int, int]:
        return divmod(pair, self.width)

    def are_prevented(self, known: int) -> bool:
        """Say whether a set of pairs (agent, event) prevents all failures, that is, whether the task splits so."""
        rows = known.to_bytes(self.agents * self.row_bytes, "little")
        left = -1
        for start in range(0, len(rows), self.row_bytes):
            left &= self.left_by(rows[start : start + self.row_bytes])
        self.effort.spend(CHECK + self.agents * (2 + self._size // 256))
        return left == 0

    def left_by(self, row: bytes) -> int:
        """Collect the failures that an agent does not prevent, given its row of a set of pairs."""
        if (left := self._kept.get(row)) is None:
            if len(self._kept) * self._size > MOST_KEPT:
                self._kept.clear()
            self.effort.spend(PROJECTION + PER_TRANSITION * len(self.machine.graph.target) + self._size)
            left = self._kept[row] = self._work_out(row)
        return left

    def _possible_failures(self) -> Flags:
        """Flag what must not happen: [events + 1, states]; the last row is for completion."""
        graph = self.machine.graph
        possible = np.zeros((len(self.machine.events) + 1, len(self.machine.states)), np.bool_)
        possible[graph.label] = True  # events that happen nowhere can't happen where they should not
        possible[graph.label, graph.source] = False
        possible[-1] = ~self.machine.is_final
        return possible

    def _work_out(self, row: bytes) -> int:
        events = len(self.machine.events)
        visible = np.unpackbits(np.frombuffer(row, np.uint8), count=events, bitorder="little").view(np.bool_)
        projection = Projection(self.machine, visible)
        accepts = np.zeros((events + 1, len(projection.is_final)), np.bool_)  # [events + 1, classes]
        accepts[:-1][~visible] = True
        accepts[projection.label, projection.source] = True
        accepts[-1] = projection.is_final
        left = accepts[:, projection.classes] & self._possible
        parts = (np.packbits(flags, bitorder="little") for flags in (left, self._happens & ~visible))
        return int.from_bytes(b"".join(part.tobytes() for part in parts), "little")
