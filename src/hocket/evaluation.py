"""How good is a team? Success probabilities, the bounds of Theorem 3, and exact values where the world is small."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError
from hocket.learners.players import PLAYERS, check_arrays, play_many
from hocket.learners.policies import Policy, Run
from hocket.statistics import Share, wilson
from hocket.tables import Tables, compile_task
from hocket.task import Task
from hocket.taskfile import digest

CHUNK = 10_000  # episodes


@dataclass(frozen=True)
class Evaluation:
    """A team's success under one policy, and what its agents' successes say of it (Theorem 3)."""

    episodes: int
    policy: str  # softmax or greedy
    success: Share  # V
    agents: Mapping[str, Share]  # V_i
    lower: float  # max(0, sum of V_i - (N - 1))
    upper: float  # min V_i
    mean_steps: float  # of the episodes that succeeded
    quartiles: tuple[float, float, float]  # of the steps, a failure counting as the most steps

    @property
    def holds(self) -> bool:
        """Whether the estimate lies within the bounds that the same episodes give; it must."""
        return self.lower - 1e-12 <= self.success.value <= self.upper + 1e-12


def evaluate(
    task: Task,
    runs: Run | Policy | Iterable[Run | Policy],
    episodes: int = 1_000,
    *,
    greedy: bool = False,
    seed: int = 0,
    threads: int | None = None,
) -> list[Evaluation]:
    """Play test episodes with what was learnt; return an evaluation for each run or policy."""
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
        raise SettingsError(f"episodes must be at least 1, got {episodes!r}")
    tables, mark = compile_task(task), digest(task)
    given: Sequence[Run | Policy] = [runs] if isinstance(runs, Run | Policy) else list(runs)
    policies = [item.policy if isinstance(item, Run) else item for item in given]
    for policy in policies:
        if policy.digest != mark:
            raise SettingsError(f"this policy belongs to another task ({policy.task}, or another version of it)")
    return [_evaluate(task, tables, policy, episodes, greedy, seed, threads) for policy in policies]


def _evaluate(
    task: Task, tables: Tables, policy: Policy, episodes: int, greedy: bool, seed: int, threads: int | None
) -> Evaluation:
    check_arrays(policy.learner, policy.arrays, tables)
    if not {"episode_steps", "temperature"} <= policy.settings.keys():
        raise SettingsError("this policy does not say how it was trained")
    most_steps = int(policy.settings["episode_steps"])
    steps = np.zeros(episodes, np.int64)
    finish = np.zeros((episodes, len(task.agents)), np.int32)
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in policy.arrays.items()}

    def play(begin: int) -> None:
        part = slice(begin, min(begin + CHUNK, episodes))
        player = PLAYERS[policy.learner](tables, float(policy.settings["temperature"]), most_steps)
        play_many(player, arrays, seed, begin, greedy, steps[part], finish[part])

    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        list(pool.map(play, range(0, episodes, CHUNK)))
    return summarise(list(task.agents), steps, finish, most_steps, "greedy" if greedy else "softmax")


def summarise(
    agents: Sequence[str], steps: NDArray[np.int64], finish: NDArray[np.int32], most_steps: int, policy: str
) -> Evaluation:
    """Turn episodes into shares and bounds."""
    episodes = len(steps)
    done = steps >= 0
    own = {agent: wilson(int((finish[:, index] >= 0).sum()), episodes) for index, agent in enumerate(agents)}
    values = [share.value for share in own.values()]
    counted = np.where(done, steps, most_steps)
    low, middle, high = np.percentile(counted, (25, 50, 75)).tolist()
    return Evaluation(
        episodes=episodes,
        policy=policy,
        success=wilson(int(done.sum()), episodes),
        agents=own,
        lower=max(0.0, math.fsum(values) - (len(values) - 1)),
        upper=min(values),
        mean_steps=float(steps[done].mean()) if done.any() else math.nan,
        quartiles=(low, middle, high),
    )
