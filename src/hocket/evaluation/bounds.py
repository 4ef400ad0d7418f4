"""Success rates and returns of a team in test episodes, with confidence limits, and the bounds of Theorem 3."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.statistics import Interval, mean_interval, mean_share, wilson


@dataclass(frozen=True)
class Bounds:
    """A team's success under one policy, and what its agents' own successes say of it (Theorem 3)."""

    policy: str  # softmax or greedy; of policies from elsewhere sampled or greedy
    episodes: int
    success: Interval  # V; limits are over the episodes of one policy, or over runs where there are several
    agents: Mapping[str, Interval]  # V_i
    lower: float  # max(0, sum of V_i - (N - 1))
    upper: float  # min V_i

    @property
    def holds(self) -> bool:
        """Whether the estimate lies within the bounds that the same episodes give; it must."""
        return self.lower - 1e-12 <= self.success.value <= self.upper + 1e-12


@dataclass(frozen=True)
class Returns:
    """What a team earned in test episodes: its mean return V is the sum of its agents' V_i; limits over episodes."""

    value: Interval  # V
    agents: Mapping[str, Interval]  # V_i
    quartiles: tuple[float, float, float]  # of the team's returns


@dataclass(frozen=True)
class Evaluation(Bounds):
    """What test episodes show of a team: success with its bounds, and steps; a failure counts as the step limit.

    Where a task has rewards, also what the team earned.
    """

    mean_steps: float  # of all episodes
    quartiles: tuple[float, float, float]  # of the same; the second is the median
    most_steps: int  # what a failure counts as
    returns: Returns | None = None  # where a task has rewards


def team_bounds(values: Sequence[float]) -> tuple[float, float]:
    """Bound a team's success by that of its agents (Theorem 3): max(0, sum of V_i - (N - 1)) and min V_i.

    >>> team_bounds([0.75, 0.5])
    (0.25, 0.5)
    """
    return max(0.0, math.fsum((*values, 1 - len(values)))), min(values)


def bound_success(policy: str, episodes: int, completed: int, counts: Mapping[str, int]) -> Bounds:
    """Turn counts of successes, the team's and each agent's own, into shares and bounds."""
    agents = {agent: wilson(count, episodes) for agent, count in counts.items()}
    lower, upper = team_bounds([share.value for share in agents.values()])
    return Bounds(policy, episodes, wilson(completed, episodes), agents, lower, upper)


def bound_runs(policy: str, episodes: int, agents: Iterable[str], shares: NDArray[np.float64]) -> Bounds:
    """Put runs together: [runs, 1 + N] shares of successes, the team's first and then each agent's own.

    All shares are means over runs, and their limits are over runs, which are independent as their episodes are not.
    """
    team, *alone = map(mean_share, shares.T)
    lower, upper = team_bounds([share.value for share in alone])
    return Bounds(policy, episodes, team, dict(zip(agents, alone, strict=False)), lower, upper)


def mean_returns(agents: Sequence[str], earned: NDArray[np.float64]) -> Returns:
    """Turn what agents earned in episodes into means with their confidence limits: [episodes, N]."""
    low, middle, high = np.percentile(earned.sum(axis=1), (25, 50, 75)).tolist()
    each = {agent: mean_interval(column) for agent, column in zip(agents, earned.T, strict=True)}
    return Returns(mean_interval(earned.sum(axis=1)), each, (low, middle, high))


def evaluate_episodes(
    agents: Sequence[str],
    steps: NDArray[np.int64],
    finish: NDArray[np.int32],
    most_steps: int,
    policy: str,
    earned: NDArray[np.float64] | None = None,
) -> Evaluation:
    """Turn episodes into an evaluation: [episodes] steps, -1 for a failure, and [episodes, N] when agents finished.

    Where a task has rewards, also [episodes, N] what agents earned.
    """
    done = steps >= 0
    counts = dict(zip(agents, (finish >= 0).sum(axis=0).tolist(), strict=True))
    bounds = bound_success(policy, len(steps), int(done.sum()), counts)
    counted = np.where(done, steps, most_steps)
    low, middle, high = np.percentile(counted, (25, 50, 75)).tolist()
    return Evaluation(
        **vars(bounds),
        mean_steps=float(counted.mean()),
        quartiles=(low, middle, high),
        most_steps=most_steps,
        returns=None if earned is None else mean_returns(agents, earned),
    )
