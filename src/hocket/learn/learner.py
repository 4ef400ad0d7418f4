"""What a learner provides: training, playing its policies, and its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from math import prod
from typing import Any, Protocol

import numpy as np

from hocket.errors import SettingsError
from hocket.lazy import Lazy
from hocket.learn.kernels.arrays import Doubles, Floats, Ints
from hocket.learn.settings import DEVICES, Settings, SettingValue
from hocket.learn.testing import Recording, TestResults, recording
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables

Arrays = Mapping[str, Floats]
Shapes = Mapping[str, tuple[int, ...]]
ShapesOf = Callable[[str], Shapes | None]  # of the arrays of a learner, by its name; None if they are unknown


def machine_shapes(tables: Tables) -> Shapes:
    """List the arrays that make up q-functions over the cell and the machine state, with their shapes."""
    agents, states = tables.is_final.shape
    return {"q": (agents, tables.cells, len(ACTIONS), states)}


class PolicyInput(Enum):
    """What a policy depends on besides agents' cells. N agents, S cells, A actions, U machine states, M memories."""

    MACHINE = "the state of the agent's machine"  # one array, q [N, S, A, U]
    MEMORY = "the agent's memory"  # one array, q [N, S, A, M]
    TEAM = "the state of the team's machine"
    OPTION = "the agent's current option"


class Block(Protocol):
    """Several seeds of one learner that train together."""

    def train(self, begin: int, steps: int) -> None:
        """Train all seeds from step `begin` on."""

    def arrays(self, index: int) -> Arrays:
        """Return what the seed at `index` has learnt so far."""


class Player:
    """Plays test episodes; a subclass defines `play` or `play_many`. Each thread needs its own player."""

    finish: Ints  # [N] when each agent was first done in the last episode, in steps; -1: never
    event_time: Ints  # [E] when each event first happened in it, likewise; empty if that is not kept
    returns: Doubles  # [N] what each agent's machine paid in it; empty if only completion pays

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        """Play episode `number` of a seed; return its steps, or -1 if the task was not done."""
        results = self.play_many(arrays, seed, range(number, number + 1), greedy, record)
        self.finish[:], self.event_time[:] = results.finish[0], results.event_time[0]
        self.returns[:] = results.returns[0]
        return int(results.steps[0])

    def play_many(
        self, arrays: Arrays, seed: int, numbers: range, greedy: bool, record: Recording | None = None
    ) -> TestResults:
        """Play episodes of a seed, and record the first one."""
        results, nothing = self.make_results(len(numbers)), recording(0, len(self.finish))
        for index, number in enumerate(numbers):
            self._play_into(results, index, arrays, seed, number, greedy, nothing if index or not record else record)
        return results

    def count_visits(self, arrays: Arrays, seed: int, numbers: range, most_steps: int, visits: Ints) -> TestResults:
        """Play greedy episodes of a seed, of at most so many steps; count how often agents are in cells: [N, S]."""
        results, record = self.make_results(len(numbers)), recording(most_steps, len(self.finish))
        first = np.arange(len(visits)) * visits.shape[1]  # of each agent in `visits`, flattened
        for index, number in enumerate(numbers):
            steps = self._play_into(results, index, arrays, seed, number, True, record)
            paths = record.cell[: steps if steps >= 0 else most_steps] + first
            visits += np.bincount(paths.ravel(), minlength=visits.size).reshape(visits.shape)
        return results

    def _play_into(self, results: TestResults, index: int, *episode: Any) -> int:  # noqa: ANN401 (as `play` takes)
        steps = self.play(*episode)
        results.steps[index], results.returns[index] = steps, self.returns
        results.finish[index], results.event_time[index] = self.finish, self.event_time
        return steps

    def make_results(self, count: int) -> TestResults:
        """Make arrays for the results of so many episodes."""
        finish, event_time = (np.zeros((count, len(each)), np.int64) for each in (self.finish, self.event_time))
        return TestResults(np.zeros(count, np.int64), finish, event_time, np.zeros((count, len(self.returns))))

    def play_seeds(self, block: Block, seeds: Sequence[int], numbers: range, greedy: bool) -> TestResults:
        """Play episodes of each seed with what it has learnt so far."""
        each = [self.play_many(block.arrays(index), seed, numbers, greedy) for index, seed in enumerate(seeds)]
        return TestResults(*map(np.concatenate, zip(*each, strict=True)))


@dataclass(frozen=True)
class Learner:
    """An algorithm that trains teams, as training, tests, files, figures and reports see it."""

    name: str
    summary: str  # a sentence without its full stop
    settings: type[Settings]
    block: Callable[[Tables, Any, Sequence[int], int], Block]  # tables, settings, seeds, threads to spare
    player: Callable[[Tables, float, int], Player]  # tables, temperature, the most steps of an episode
    shapes: Callable[[Tables], Shapes]  # of the arrays that make up a policy, by name
    policy_input: PolicyInput
    check: Callable[[Tables, Any], None] = lambda tables, settings: None  # refuses tasks that it cannot train on
    is_reference: bool = False  # nothing is learnt, and figures draw it as a horizontal line
    steps: int = 250_000  # of training, by default
    train_kernel: Lazy | None = None  # if no other learner uses it, so that another process may compile it
    test_kernel: Lazy | None = None  # likewise
    devices: tuple[str, ...] = DEVICES[:1]  # on which it trains
    extra_bytes: Callable[[Tables], int] = lambda tables: 0  # of memory that a run needs besides its arrays
    begins_with_world: bool = False  # its blocks implement `learn.world.PlanningBlock` ...
    keeps_world: bool = False  # ... and `learn.world.WorldBlock`
    plain: Lazy | None = None  # its `PlainLearner`, which trains in wrapped environments ...
    needs: str = "it has no plain form"  # ... or why there is none, as the end of a sentence
    min_vector_seeds: int = 0  # from so many seeds on, training them together takes less time; 0: it never does

    def memory_bytes(self, tables: Tables) -> int:
        """Estimate the memory of a run: its arrays in training, in tests, and in its policy."""
        return 3 * sum(4 * prod(shape) for shape in self.shapes(tables).values()) + self.extra_bytes(tables)

    def check_policy(self, arrays: Arrays, settings: Mapping[str, SettingValue], tables: Tables) -> Settings:
        """Require finite arrays of the names and shapes that this learner has on a task; return the settings."""
        if {name: array.shape for name, array in arrays.items()} != dict(self.shapes(tables)):
            problem = f"this is not what {self.name} learns on this task"
            raise SettingsError(f"{problem}: its arrays have other names or shapes")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise SettingsError("a policy's values must be finite numbers")
        known = {field.name for field in fields(self.settings)}
        if not {"max_episode_steps", "temperature"} <= settings.keys() <= known:
            raise SettingsError("this policy does not say how it was trained")
        try:
            return self.settings(**settings)  # type: ignore[arg-type]
        except SettingsError as error:
            raise SettingsError(f"a policy's {error}") from None
