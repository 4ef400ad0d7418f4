"""How good is a team, as far as episodes can tell: shares with their limits, and the bounds of Theorem 3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.statistics import Share, wilson


@dataclass(frozen=True)
class Evaluation:
    """A team's success under one policy, and what its agents' successes say of it (Theorem 3)."""

    episodes: int
    policy: str  # softmax or greedy; of policies from elsewhere sampled or greedy
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


def team_bounds(values: Sequence[float]) -> tuple[float, float]:
    """Bound a team's success by its agents' own (Theorem 3): at least one less all failures, at most the least.

    >>> team_bounds([0.75, 0.5])
    (0.25, 0.5)
    """
    return max(0.0, math.fsum((*values, 1 - len(values)))), min(values)


def summarise(
    agents: Sequence[str], steps: NDArray[np.int64], finish: NDArray[np.int32], most_steps: int, policy: str
) -> Evaluation:
    """Turn episodes into shares and bounds."""
    episodes = len(steps)
    done = steps >= 0
    own = {agent: wilson(int((finish[:, index] >= 0).sum()), episodes) for index, agent in enumerate(agents)}
    values = [share.value for share in own.values()]
    lower, upper = team_bounds(values)
    counted = np.where(done, steps, most_steps)
    low, middle, high = np.percentile(counted, (25, 50, 75)).tolist()
    return Evaluation(
        episodes=episodes,
        policy=policy,
        success=wilson(int(done.sum()), episodes),
        agents=own,
        lower=lower,
        upper=upper,
        mean_steps=float(steps[done].mean()) if done.any() else math.nan,
        quartiles=(low, middle, high),
    )
