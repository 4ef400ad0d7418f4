"""How good is a team? Test episodes with what was learnt, here or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hocket.background import gather
from hocket.errors import SettingsError, needs_extra, shown
from hocket.evaluation.bounds import Evaluation, evaluate_episodes
from hocket.learn.policies import Policy, Run
from hocket.study.policies import load_policies
from hocket.task.catalogue import as_task
from hocket.task.memory import with_team_machine
from hocket.task.tables import Tables, compile_task
from hocket.task.task import Task

if TYPE_CHECKING:  # others do without what this needs
    from hocket.adapters.policies import Actor, Model, TeamWorld

MOST_EPISODES = 10**7  # whose steps are kept
MOST_SEED = 2**63  # which kernels do not count any more
CHUNK = 10_000  # episodes that are played in one go
CHUNK_STEPS = 10_000_000  # agent-steps in one go, but for an episode that is longer


def evaluate(
    task: Task | str | Path | TeamWorld,
    runs: Run | Policy | Iterable[Run | Policy] | str | Path | Mapping[str, Actor | Model],
    episodes: int = 1_000,  # of each run or policy
    *,
    greedy: bool = True,  # False: softmax
    seed: int = 0,  # added to that of each run
    threads: int | None = None,
) -> list[Evaluation]:
    """Play test episodes with trained policies; return an evaluation for each run or policy.

    `task` is a task, a built-in name or a path; `runs` are runs, policies, or a folder of runs. Policies are greedy, or
    with `greedy=False` by softmax at their temperature. Mean and quartiles of
    the steps are over all episodes; a failure counts as the step limit. A run of seed s plays the episodes of seed
    `seed` + s: runs of different seeds are independent, as confidence limits over runs assume, and learners are
    compared on the same episodes.

    A mapping from agents to functions (from an observation to an action) or to models with `predict` is one team, which
    plays in `team_env(task)`, or in the environment that is given in place of a task. There trained policies play, too.
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int) or not 1 <= episodes <= MOST_EPISODES:
        raise SettingsError(f"episodes must be at least 1 and at most {MOST_EPISODES:,}, got {shown(episodes)}")
    if isinstance(task, str | Path) or not hasattr(task, "possible_agents"):
        task = as_task(task)
    if isinstance(runs, Mapping):
        return [_evaluate_team(task, runs, episodes, greedy, seed)]
    if not isinstance(task, Task):
        world = cast("Any", task) if hasattr(task, "scene") else None  # a wrapped one knows its own
        given = load_policies(runs, world) if isinstance(runs, str | Path) else _listed(runs)
        return [_evaluate_team(task, policy, episodes, greedy, (seed + policy.seed) % MOST_SEED) for policy in given]
    task = with_team_machine(task)
    tables = compile_task(task)
    policies = load_policies(runs, task) if isinstance(runs, str | Path) else _listed(runs)
    for policy in policies:
        policy.require_task(task.digest)
    return [_evaluate(task, tables, policy, episodes, greedy, seed, threads) for policy in policies]


def _listed(runs: Run | Policy | Iterable[Run | Policy]) -> list[Policy]:
    """List the policies of runs."""
    given = [runs] if isinstance(runs, Run | Policy) or not isinstance(runs, Iterable) else list(runs)
    policies = [item.policy if isinstance(item, Run) else item for item in given]
    for policy in policies:
        if not isinstance(policy, Policy):
            raise SettingsError(f"runs, policies or a folder of runs are needed, got {type(policy).__name__}")
    return policies


def _evaluate(
    task: Task, tables: Tables, policy: Policy, episodes: int, greedy: bool, seed: int, threads: int | None
) -> Evaluation:
    from hocket.learn.catalogue import find_learner  # compiled, which others do without
    from hocket.learn.training import count_workers

    learner = find_learner(policy.learner)
    settings = learner.check_policy(policy.arrays, policy.settings, tables)
    most_steps = settings.max_episode_steps
    steps = np.zeros(episodes, np.int64)
    finish = np.zeros((episodes, len(task.agents)), np.int32)
    earned = np.zeros(finish.shape) if task.has_rewards else None
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in policy.arrays.items()}

    chunk = max(1, min(CHUNK, CHUNK_STEPS // (most_steps * len(task.agents))))
    waiting, own_seed = iter(range(0, episodes, chunk)), (seed + policy.seed) % MOST_SEED

    def play() -> Iterator[int]:
        player = learner.player(tables, settings.temperature, most_steps)
        for begin in waiting:
            part = slice(begin, min(begin + chunk, episodes))
            played = player.play_many(arrays, own_seed, range(part.start, part.stop), greedy)
            steps[part], finish[part] = played.steps, played.finish
            if earned is not None:
                earned[part] = played.returns
            yield begin

    list(gather([play() for _ in range(count_workers(threads))], Event()))
    return evaluate_episodes(list(task.agents), steps, finish, most_steps, "greedy" if greedy else "softmax", earned)


def _evaluate_team(
    world: Task | TeamWorld, policies: Mapping[str, Actor | Model] | Policy, episodes: int, greedy: bool, seed: int
) -> Evaluation:
    """Play episodes 0, 1, ... of a seed in an environment."""
    with needs_extra("another library's policy", "gym"):
        from hocket.adapters.policies import play_episode, team_actors
        from hocket.adapters.team import team_env
    env = team_env(world) if isinstance(world, Task) else world
    team = team_actors(env, policies, greedy) if isinstance(policies, Policy) else policies
    steps, finish = np.zeros(episodes, np.int64), np.zeros((episodes, len(env.machines)), np.int32)
    longest, limit, earned = 0, None, list[tuple[float, ...]]()
    if isinstance(policies, Policy) and not isinstance(world, Task) and hasattr(world, "scene"):
        limit = int(policies.settings["max_episode_steps"])
    for number in range(episodes):
        played = play_episode(env, team, seed if number == 0 else None, greedy=greedy, max_steps=limit)
        steps[number], finish[number] = played.steps if played.success else -1, played.finish
        longest = max(longest, played.steps)
        earned.append(played.returns)
    most_steps = getattr(env, "max_episode_steps", longest)
    kind = "greedy" if greedy else "softmax" if isinstance(policies, Policy) else "sampled"
    returns = np.array(earned) if earned[0] else None
    return evaluate_episodes(list(env.machines), steps, finish, most_steps, kind, returns)
