"""Seeds that train side by side, how long they train in one go, and whom they tell of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from hocket.learn.settings import Settings
from hocket.learn.trials import Trial
from hocket.task.task import Task

FIRST_PIECE = 100  # steps that are trained before anybody looks at the clock
MOMENT = 0.1  # seconds that a piece of training may take, so that a wish to stop is heard

Report = Callable[[int, Sequence[Trial]], None]  # is told of agent-steps that are done, and of the tests after them


class Stop(Protocol):
    """Whoever may wish that training ends."""

    def is_set(self) -> bool:
        """Say whether it should."""


class Batch(NamedTuple):
    """Seeds of one learner on one task that one thread trains side by side."""

    task: Task
    learner: str
    settings: Settings
    seeds: Sequence[int]
    steps: int
    spare: int = 1  # threads that it may use


class Pace:
    """Chooses how many steps to train in one go: as many as take a moment. What is learnt does not depend on it."""

    def __init__(self) -> None:
        self.steps = FIRST_PIECE

    def take(self, steps: int, seconds: float) -> None:
        """Take note of how long a piece took."""
        if seconds > MOMENT:
            self.steps = max(1, self.steps // 2)
        elif steps >= self.steps and seconds < MOMENT / 2:
            self.steps *= 2
