"""How good is a team, as far as episodes can tell: shares with their limits, and the bounds of Theorem 3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NORMAL_95 = 1.959963984540054  # quantile for two-sided limits of 95 %


@dataclass(frozen=True)
class Share:
    """A share of episodes, with binomial confidence limits (Wilson's, 95 %)."""

    value: float
    low: float
    high: float


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


def wilson(successes: int, episodes: int) -> Share:
    """Estimate a share with Wilson's confidence limits.

    >>> share = wilson(8, 10)
    >>> round(share.low, 3), round(share.high, 3)
    (0.49, 0.943)
    """
    z2 = NORMAL_95**2
    value = successes / episodes
    centre = (value + z2 / (2 * episodes)) / (1 + z2 / episodes)
    half = NORMAL_95 / (1 + z2 / episodes) * math.sqrt(value * (1 - value) / episodes + z2 / (4 * episodes**2))
    return Share(value, max(0.0, centre - half), min(1.0, centre + half))


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
