"""How many steps a second do the environments for other libraries make?

    python bench/environments.py [--out environments.json]

The rival is Gymnasium's own way to run copies of an environment in one process, `SyncVectorEnv`. What counts is
processor time; all take turns, and medians over rounds are shown.
"""

import argparse
import json
import os
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import numpy as np
from gymnasium.vector import SyncVectorEnv

import hocket as hk
from hocket.learn.benchmark import processor_times

TASK, AGENT = "buttons", "A2"
COPIES = (1, 1_000, 10_000)
DRAWN = 64  # actions that take turns, so that drawing them costs nothing


def steps(step: Callable[[], object], count: int) -> Callable[[], float]:
    """Make some steps of so many copies; say how many steps of one copy that is."""
    often = max(1, 1_000 // count)

    def work() -> float:
        for _ in range(often):
            step()
        return often * count

    return work


def alone(observation: str, *, counterfactuals: bool) -> Callable[[], float]:
    """Step one agent alone."""
    env = hk.gym.individual_env(TASK, AGENT, observation=observation, counterfactuals=counterfactuals)
    actions = cycle(np.random.default_rng(0).integers(0, 5, 100 * DRAWN).tolist())
    env.reset(seed=0)

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(next(actions))
        if terminated or truncated:
            env.reset()

    return steps(step, 1)


def copies(envs: object, count: int) -> Callable[[], float]:
    """Step copies of it, or of a team."""
    actions = cycle(np.random.default_rng(0).integers(0, 5, (DRAWN, *envs.action_space.shape)))
    envs.reset(seed=0)
    return steps(lambda: envs.step(next(actions)), count)


def team(name: str, kind: str) -> Callable[[], float]:
    """Step a team; a step of all its agents counts as one."""
    env = hk.gym.team_env(name, observation=kind)
    drawn = np.random.default_rng(0).integers(0, 5, (DRAWN, len(env.possible_agents))).tolist()
    actions = cycle([dict(zip(env.possible_agents, own, strict=True)) for own in drawn])
    env.reset(seed=0)

    def step() -> None:
        if not env.agents:
            env.reset()
        env.step(next(actions))

    return steps(step, 1)


def measure() -> dict[str, float]:
    """Measure everything: steps per second of processor time, rivals in turns."""
    found = {}
    for kind in ("onehot", "index"):
        found[f"individual_env, {kind}, with counterfactuals"] = alone(kind, counterfactuals=True)
        found[f"individual_env, {kind}"] = alone(kind, counterfactuals=False)
        for count in COPIES:
            found[f"individual_vector_env, {kind}, {count:,}"] = copies(
                hk.gym.individual_vector_env(TASK, AGENT, count, observation=kind), count
            )
    single = [lambda: hk.gym.individual_env(TASK, AGENT, observation="index", counterfactuals=False)] * 100
    found["SyncVectorEnv, index, 100"] = copies(SyncVectorEnv(single), 100)
    for kind in ("onehot", "index"):
        for name in (TASK, "rendezvous-10", "rendezvous-1000"):
            found[f"team_env, {kind}, {name}"] = team(name, kind)
        for count in COPIES:
            found[f"team_vector_env, {kind}, {count:,}"] = copies(
                hk.gym.team_vector_env(TASK, count, observation=kind), count
            )
    return processor_times(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    found = measure()
    print(f"steps per second of processor time; load {os.getloadavg()[0]:.1f}")
    for what, speed in found.items():
        print(f"{speed:>12,.0f}  {what}")
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
