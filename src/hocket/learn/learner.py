"""What a learner is: how it trains, how its policies play, and what others have to know of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError
from hocket.learn.devices import DEVICES
from hocket.learn.kernels.team import Recording, recording
from hocket.learn.settings import Settings
from hocket.learn.trials import Episodes, make_episodes
from hocket.task.tables import Tables

Arrays = Mapping[str, NDArray[np.float32]]
Shapes = Mapping[str, tuple[int, ...]]


class LooksAt(Enum):
    """What a policy goes by beside where agents are. N agents, S cells, A actions, U machine states, M memories."""

    MACHINE = "the state of the agent's machine"  # one array, q [N, S, A, U]
    MEMORY = "the agent's memory"  # one array, q [N, S, A, M]
    TEAM = "the state of the team's machine"
    OPTION = "the agent's current option"


class Block(Protocol):
    """Several seeds of one learner, side by side."""

    def train(self, begin: int, steps: int) -> None:
        """Train all seeds from step `begin` on."""

    def arrays(self, index: int) -> Arrays:
        """Show what the seed at `index` has learnt so far."""


class Player(ABC):
    """Plays test episodes with a learner's policies; each thread needs its own."""

    finish: NDArray[np.int64]  # [N] when each agent was first done in the last episode, in steps; -1: never
    event_time: NDArray[np.int64]  # [E] when each event first happened in it, likewise; empty where nobody keeps it

    @abstractmethod
    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        """Play episode `number` of a seed; return its steps, or -1 where the task was not done."""

    def play_many(self, arrays: Arrays, seed: int, numbers: range, greedy: bool) -> Episodes:
        """Play episodes of a seed."""
        agents, events = len(self.finish), len(self.event_time)
        found, nothing = make_episodes(len(numbers), agents, events), recording(0, agents)
        for index, number in enumerate(numbers):
            found.steps[index] = self.play(arrays, seed, number, greedy, nothing)
            found.finish[index], found.event_time[index] = self.finish, self.event_time
        return found

    def play_seeds(self, block: Block, seeds: Sequence[int], numbers: range, greedy: bool) -> Episodes:
        """Play episodes of each seed with what it has learnt so far."""
        each = [self.play_many(block.arrays(index), seed, numbers, greedy) for index, seed in enumerate(seeds)]
        return Episodes(*map(np.concatenate, zip(*each, strict=True)))


@dataclass(frozen=True)
class Learner:
    """A way to train a team; all that training, tests, files, figures and reports need to know of it."""

    name: str
    summary: str  # a sentence without its full stop
    settings: type[Settings]
    block: Callable[[Tables, Any, Sequence[int], int], Block]  # tables, settings, seeds, threads to spare
    player: Callable[[Tables, float, int], Player]  # tables, temperature, the most steps of an episode
    shapes: Callable[[Tables], Shapes]  # of the arrays that make up a policy, by name
    looks_at: LooksAt
    check: Callable[[Tables, Any], None] = lambda tables, settings: None  # refuses what it cannot train on
    is_reference: bool = False  # nothing is learnt, and figures draw it as a line across
    steps: int = 250_000  # of training, where nobody says how many
    apart: object = None  # the kernel that trains, where no other learner has it: it may be compiled beside theirs
    tests_apart: object = None  # the kernel that tests, likewise
    devices: tuple[str, ...] = DEVICES[:1]  # on which it trains
    beside: Callable[[Tables], int] = lambda tables: 0  # bytes that a run needs beside what it learns, where it is much
    side_by_side: int = 0  # seeds from which on they take less time together than one by one; 0: they never do

    def room(self, tables: Tables) -> int:
        """Estimate how many bytes a run needs: for what it learns, as it is tested, and as it is kept."""
        return 3 * sum(4 * prod(shape) for shape in self.shapes(tables).values()) + self.beside(tables)

    def check_policy(self, arrays: Arrays, settings: Mapping[str, float | int | bool], tables: Tables) -> Settings:
        """Require arrays of the names and shapes that this learner has on a task, finite numbers, and known settings.

        Returns the settings with which the policy was trained.
        """
        if {name: array.shape for name, array in arrays.items()} != dict(self.shapes(tables)):
            raise SettingsError(
                f"this is not what {self.name} learns on this task: its arrays have other names or shapes"
            )
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise SettingsError("a policy's values must be finite numbers")
        if not {"episode_steps", "temperature"} <= settings.keys() <= {own.name for own in fields(self.settings)}:
            raise SettingsError("this policy does not say how it was trained")
        try:
            return self.settings(**settings)  # type: ignore[arg-type]
        except SettingsError as error:
            raise SettingsError(f"a policy's {error}") from None
