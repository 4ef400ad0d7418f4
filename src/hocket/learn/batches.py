"""Seeds that train side by side, how long they train in one go, whom they tell of it, and what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import NamedTuple

from hocket.learn.learner import Arrays
from hocket.learn.policies import Policy, Run
from hocket.learn.settings import Settings, name_value
from hocket.learn.testing import TestTable
from hocket.learn.world import WorldModel
from hocket.task.task import Task

FIRST_PIECE = 100  # steps that are trained before anybody looks at the clock ...
FIRST_WORK = 10_000  # ... or as many as make up so many agent-steps
HARDLY_LESS = 0.75
MOMENT = 0.1  # seconds that a piece of training may take, so that a wish to stop is heard ...
LANE = 0.00005  # ... or so many for each agent of each seed, whose values have to be fetched from memory for a piece

Report = Callable[[int, Sequence[int]], None]  # is told of agent-steps that are done, and how many tests then took
StopSignal = Callable[[], bool]  # says whether somebody wishes that training ends


class Batch(NamedTuple):
    """Seeds of one learner on one task that one thread trains side by side."""

    task: Task
    learner: str
    settings: Settings
    seeds: Sequence[int]
    steps: int
    spare: int = 1  # threads that it may use
    world: WorldModel | None = None  # that training begins with

    @property
    def label(self) -> str:
        """Say which runs these are: task, learner and the settings that are not the default's."""
        usual = asdict(type(self.settings)())
        changed = [name_value(name, value) for name, value in asdict(self.settings).items() if value != usual[name]]
        return " ".join((self.task.name, self.learner, *changed))

    def make_run(
        self, seed: int, arrays: Arrays, tests: TestTable, steps: int, seconds: float, world: WorldModel | None = None
    ) -> Run:
        """Gather what has become of a seed."""
        about = (self.task.name, self.task.digest, self.learner, seed, asdict(self.settings))
        return Run(tests, Policy(*about, arrays, self.task), self.settings, steps, seconds, world)


class Pace:
    """Chooses how many steps to train in one go: as many as take a moment. What is learnt does not depend on it."""

    def __init__(self, lanes: int = 1) -> None:
        self.steps, self.least = max(1, min(FIRST_PIECE, FIRST_WORK // lanes)), 1
        self.moment = max(MOMENT, LANE * lanes)
        self.halved: tuple[int, float] | None = None  # the piece that was too long, and its seconds

    def take(self, steps: int, seconds: float) -> None:
        """Take note of how long a piece took; where half of it takes hardly less, smaller ones only cost more."""
        halved, self.halved = self.halved, None
        if halved is not None and steps == self.steps and seconds > HARDLY_LESS * halved[1]:
            self.steps = self.least = halved[0]
        elif seconds > self.moment and self.steps > self.least:
            self.halved = self.steps, seconds
            self.steps = max(self.least, self.steps // 2)
        elif steps >= self.steps and seconds < self.moment / 2:
            self.steps *= 2


def train_in_pieces(
    train: Callable[[int, int], None],  # from which step on, and how many
    test: Callable[[], None],
    tell: Callable[[int, bool], None],  # how many steps were trained, and whether a test followed
    settings: Settings,
    steps: int,
    pace: Pace,
    stop: StopSignal | None,
) -> int:
    """Train and test every so often, until all steps are done or `stop` says so; return the steps."""
    done, every = 0, settings.test_every
    while done < steps and not (stop is not None and stop()):
        piece, begin = min(every - done % every, steps - done, pace.steps), time.perf_counter()
        train(done, piece)
        pace.take(piece, time.perf_counter() - begin)
        done += piece
        if done % every == 0:
            test()
        tell(piece, done % every == 0)
    return done
