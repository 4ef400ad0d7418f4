"""Evaluation of trained teams: test episodes with policies of hocket or other libraries, success rates and returns with
confidence limits, and the bounds of Theorem 3."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.background import gather
from hocket.errors import SettingsError, needs_extra, shown
from hocket.learn.policies import Policy, Run
from hocket.statistics import Interval, Quartiles, mean_interval, mean_share, quartiles, wilson
from hocket.study.policies import load_policies
from hocket.task.catalogue import as_task
from hocket.task.memory import with_team_machine
from hocket.task.tables import Tables, Words, compile_task
from hocket.task.task import Task

if TYPE_CHECKING:  # needs the extra gym
    from hocket.adapters.policies import Actor, Model, Policies, TeamEnvironment

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_EPISODES = 10**7  # whose steps are kept
MOST_SEED = 2**63  # too large for kernels
CHUNK = 10_000  # episodes that are played at once
CHUNK_STEPS = 10_000_000  # agent-steps at once, but for an episode that is longer


@dataclass(frozen=True)
class Bounds:
    """A team's success under one policy, and its bounds by the success of its agents (Theorem 3)."""

    policy: str  # softmax or greedy; of other libraries sampled or greedy
    episodes: int
    success: Interval  # V; limits are over the episodes of one policy, or over several runs
    agents: Mapping[str, Interval]  # V_i
    lower: float  # max(0, sum of V_i - (N - 1))
    upper: float  # min V_i

    @property
    def holds(self) -> bool:
        """Whether the estimate lies within the bounds that the same episodes give; it must."""
        return self.lower - 1e-12 <= self.success.value <= self.upper + 1e-12


@dataclass(frozen=True)
class Returns:
    """A team's returns in test episodes: its mean return V is the sum of its agents' V_i; limits over episodes."""

    value: Interval  # V
    agents: Mapping[str, Interval]  # V_i
    quartiles: tuple[float, float, float]  # of the team's returns


@dataclass(frozen=True)
class Evaluation(Bounds):
    """Results of a team's test episodes: success with its bounds, and steps; a failure counts as the step limit."""

    mean_steps: float  # of all episodes
    quartiles: tuple[float, float, float]  # of the same; the second is the median
    most_steps: int  # the step limit
    returns: Returns | None = None  # where a task has rewards


def team_bounds(values: Sequence[float]) -> tuple[float, float]:
    """Bound a team's success by that of its agents (Theorem 3): max(0, sum of V_i - (N - 1)) and min V_i.

    >>> team_bounds([0.75, 0.5])
    (0.25, 0.5)
    """
    return max(0.0, math.fsum((*values, 1 - len(values)))), min(values)


def bound_runs(policy: str, episodes: int, agents: Iterable[str], shares: Floats) -> Bounds:
    """Summarise runs by their shares of successes [runs, 1 + N], the team's first and then each agent's. Limits are
    over runs, which are independent, unlike their episodes."""
    team, *alone = map(mean_share, shares.T)
    lower, upper = team_bounds([share.value for share in alone])
    return Bounds(policy, episodes, team, dict(zip(agents, alone, strict=False)), lower, upper)


def evaluate_episodes(
    agents: Sequence[str], steps: Ints, finish: Words, most_steps: int, policy: str, returns: Floats | None = None
) -> Evaluation:
    """Turn episodes into an evaluation: [episodes] steps, -1 for a failure, [episodes, N] when agents finished and, if
    the task has rewards, [episodes, N] their returns."""
    success, *alone = (wilson(int(done.sum()), len(steps)) for done in (steps >= 0, *(finish >= 0).T))
    counted = np.where(steps >= 0, steps, most_steps)
    each, limits = dict(zip(agents, alone, strict=True)), team_bounds([share.value for share in alone])
    means = None
    if returns is not None:
        team, columns = returns.sum(axis=1), zip(agents, returns.T, strict=True)
        by_agent = {name: mean_interval(column) for name, column in columns}
        means = Returns(mean_interval(team), by_agent, _as_floats(quartiles(team)))
    mean, middle = float(counted.mean()), _as_floats(quartiles(counted))
    return Evaluation(policy, len(steps), success, each, *limits, mean, middle, most_steps, means)


def _as_floats(values: Quartiles) -> tuple[float, float, float]:
    return float(values.low), float(values.median), float(values.high)


def evaluate(
    task: Task | str | Path | TeamEnvironment,
    runs: Run | Policy | Iterable[Run | Policy] | str | Path | Mapping[str, Actor | Model],
    episodes: int = 1_000,  # of each run or policy
    *,
    greedy: bool = True,  # False: softmax
    seed: int = 0,  # is added to that of each run
    threads: int | None = None,
) -> list[Evaluation]:
    """Play test episodes with trained policies; return an evaluation for each run or policy.

    `task` is a task, a built-in name or a path; `runs` are runs, policies, or a folder of runs. Policies are greedy, or
    with `greedy=False` by softmax at their temperature. Mean and quartiles of the steps are over all episodes; a
    failure counts as the step limit. A run of seed s plays the episodes of seed `seed` + s: runs of different seeds are
    independent, as confidence limits over runs assume, and learners are compared on the same episodes.

    A mapping from agents to functions (from an observation to an action) or to models with `predict` is one team, which
    plays in `team_env(task)`, or in the environment that is given in place of a task, as trained policies can.
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int) or not 1 <= episodes <= MOST_EPISODES:
        raise SettingsError(f"episodes must be at least 1 and at most {MOST_EPISODES:,}, got {shown(episodes)}")
    if isinstance(task, str | Path) or not hasattr(task, "possible_agents"):
        task = as_task(task)
    if isinstance(runs, Mapping):
        return [_play_team(task, runs, episodes, greedy, seed)]
    if not isinstance(task, Task):
        world = cast("Any", task) if hasattr(task, "scene") else None  # a wrapped one, which policies are checked for
        policies = load_policies(runs, world) if isinstance(runs, str | Path) else _listed(runs)
        return [_play_team(task, policy, episodes, greedy, (seed + policy.seed) % MOST_SEED) for policy in policies]
    task = with_team_machine(task)
    tables = compile_task(task)
    policies = load_policies(runs, task) if isinstance(runs, str | Path) else _listed(runs)
    for policy in policies:
        policy.require_task(task.digest)
    return [_evaluate(task, tables, policy, episodes, greedy, seed, threads) for policy in policies]


def _listed(runs: Run | Policy | Iterable[Run | Policy]) -> list[Policy]:
    """List the policies of runs."""
    items = [runs] if isinstance(runs, Run | Policy) or not isinstance(runs, Iterable) else list(runs)
    policies = [item.policy if isinstance(item, Run) else item for item in items]
    for policy in policies:
        if not isinstance(policy, Policy):
            raise SettingsError(f"runs, policies or a folder of runs are needed, got {type(policy).__name__}")
    return policies


def _evaluate(
    task: Task, tables: Tables, policy: Policy, episodes: int, greedy: bool, seed: int, threads: int | None
) -> Evaluation:
    from hocket.learn.catalogue import find_learner  # loads the compiler
    from hocket.learn.training import count_workers

    learner = find_learner(policy.learner)
    settings = learner.check_policy(policy.arrays, policy.settings, tables)
    most_steps = settings.max_episode_steps
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in policy.arrays.items()}

    chunk = max(1, min(CHUNK, CHUNK_STEPS // (most_steps * len(task.agents))))
    waiting, policy_seed = iter(range(0, episodes, chunk)), (seed + policy.seed) % MOST_SEED

    def play() -> Iterator[tuple[Any, ...]]:
        player = learner.player(tables, settings.temperature, most_steps)
        for begin in waiting:
            played = player.play_many(arrays, policy_seed, range(begin, min(begin + chunk, episodes)), greedy)
            yield begin, played.steps, played.finish, played.returns

    _, *columns = zip(*sorted(gather([play() for _ in range(count_workers(threads))], Event())), strict=True)
    steps, finish, returns = map(np.concatenate, columns)
    kind, paid = "greedy" if greedy else "softmax", returns if task.has_rewards else None
    return evaluate_episodes(list(task.agents), steps, finish, most_steps, kind, paid)


def _play_team(task: Task | TeamEnvironment, policies: Policies, episodes: int, greedy: bool, seed: int) -> Evaluation:
    """Play episodes 0, 1, ... of a seed in an environment."""
    with needs_extra("another library's policy", "gym"):
        from hocket.adapters.policies import play_episodes
    limit = None
    if isinstance(policies, Policy) and not isinstance(task, Task) and hasattr(task, "scene"):
        limit = int(policies.settings["max_episode_steps"])
    env, played = play_episodes(task, policies, episodes, greedy, seed, limit)
    steps, finish = np.zeros(episodes, np.int64), np.zeros((episodes, len(env.machines)), np.int32)
    longest, returns = 0, list[tuple[float, ...]]()
    for number, episode in enumerate(played):
        steps[number], finish[number] = episode.steps if episode.success else -1, episode.finish
        longest = max(longest, episode.steps)
        returns.append(episode.returns)
    kind = "greedy" if greedy else "softmax" if isinstance(policies, Policy) else "sampled"
    most_steps, paid = getattr(env, "max_episode_steps", longest), np.array(returns) if returns[0] else None
    return evaluate_episodes(list(env.machines), steps, finish, most_steps, kind, paid)
