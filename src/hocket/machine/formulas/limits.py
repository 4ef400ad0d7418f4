"""Limits on the work that a formula may cause, so that what is too large is an error and neither hangs nor swaps."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from hocket.errors import FormulaError

MOST_STATES = 1_000_000  # each takes up to 400 bytes while automata are made
MOST_SECONDS = 8.0  # of the processor
MOST_MOVES = 10_000_000  # states x kinds of events of an automaton; each takes four bytes, and more while it grows


@dataclass
class Limits:
    """How large an automaton may become and how long its making may take; the clock starts with the first check."""

    states: int = MOST_STATES
    seconds: float = MOST_SECONDS
    _deadline: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.states, int) and self.states >= 1):
            raise FormulaError(f"most_states must be a whole number of at least 1, got {self.states!r:.60}")
        if not (isinstance(self.seconds, int | float) and self.seconds > 0):
            raise FormulaError(f"most_seconds must be a number above 0, got {self.seconds!r:.60}")

    def check(self, what: str, states: int, kinds: int = 1) -> None:
        """Raise an error that says how far the making of `what` has come, where that is too far or took too long."""
        now = time.thread_time()
        if self._deadline is None:
            self._deadline = now + self.seconds
        if states > self.states:
            raise FormulaError(
                f"{what} is too large: it needs more than {self.states:,} states, "
                f"the limit (most_states); {states:,} were reached"
            )
        if states * kinds > MOST_MOVES:
            raise FormulaError(
                f"{what} is too large: {states:,} states with {kinds:,} kinds of events "
                f"are more than {MOST_MOVES:,} transitions"
            )
        if now > self._deadline:
            raise FormulaError(
                f"{what} takes more than {self.seconds:g} seconds, the limit (most_seconds); "
                f"{states:,} states were reached"
            )
