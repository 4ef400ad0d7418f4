"""Seeds that train together, in pieces of which length, and the runs that they become."""

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

FIRST_PIECE = 100  # steps of the first piece of training ...
FIRST_WORK = 10_000  # ... or fewer, so that it has at most so many agent-steps
HARDLY_LESS = 0.75
MOMENT = 0.1  # seconds that a piece may take, so that training can be stopped ...
LANE = 0.00005  # ... or so many for each agent of each seed, whose values a piece has to fetch from memory

Report = Callable[[int, Sequence[int]], None]  # takes how many agent-steps are done, and the steps of the last tests
StopSignal = Callable[[], bool]  # says whether training has to end


class Batch(NamedTuple):
    """Seeds of one learner on one task that one thread trains together."""

    task: Task
    learner: str
    settings: Settings
    seeds: Sequence[int]
    steps: int
    spare: int = 1  # threads that it may use
    world: WorldModel | None = None  # that training begins with

    @property
    def label(self) -> str:
        """The task, the learner and the settings that differ from the defaults."""
        usual = asdict(type(self.settings)())
        changed = [name_value(name, value) for name, value in asdict(self.settings).items() if value != usual[name]]
        return " ".join((self.task.name, self.learner, *changed))

    def make_run(
        self, seed: int, arrays: Arrays, tests: TestTable, steps: int, seconds: float, world: WorldModel | None = None
    ) -> Run:
        """Make the run of a seed."""
        about = (self.task.name, self.task.digest, self.learner, seed, asdict(self.settings))
        return Run(tests, Policy(*about, arrays, self.task), self.settings, steps, seconds, world)


class Pace:
    """Chooses how many steps to train in a piece: as many as take a moment. Results do not depend on it."""

    def __init__(self, lanes: int = 1) -> None:
        self.steps, self.least = max(1, min(FIRST_PIECE, FIRST_WORK // lanes)), 1
        self.moment = max(MOMENT, LANE * lanes)
        self.halved: tuple[int, float] | None = None  # the piece that was too long, and its seconds

    def take(self, steps: int, seconds: float) -> None:
        """Adapt to the seconds that a piece took; if half of it takes hardly less, pieces do not get smaller."""
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
    """Train, with a test every `test_every` steps, until all steps are done or `stop` is true; return the steps."""
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
