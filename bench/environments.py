"""How many steps a second do the environments for other libraries make?

    python bench/environments.py [--out environments.json]

The rival is Gymnasium's own way to run copies of an environment in one process, `SyncVectorEnv`.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gymnasium.vector import SyncVectorEnv

import hocket as hk

TASK, AGENT, SECONDS = "buttons", "A2", 2.0
COPIES = (1, 1_000, 10_000)


def per_second(step: Callable[[], object], count: int) -> float:
    """Step for a while; return how many steps of one copy that makes a second."""
    begin, rounds = time.perf_counter(), 0
    while (taken := time.perf_counter() - begin) < SECONDS:
        step()
        rounds += 1
    return rounds * count / taken


def alone(observation: str, *, counterfactuals: bool) -> float:
    """Step one agent alone."""
    env = hk.gym.individual_env(TASK, AGENT, observation=observation, counterfactuals=counterfactuals)
    actions = iter(lambda: int(rng.integers(5)), None)
    rng = np.random.default_rng(0)
    env.reset(seed=0)

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(next(actions))
        if terminated or truncated:
            env.reset()

    return per_second(step, 1)


def copies(envs: object, count: int) -> float:
    """Step copies of it."""
    rng = np.random.default_rng(0)
    envs.reset(seed=0)
    return per_second(lambda: envs.step(rng.integers(0, 5, count)), count)


def team(name: str) -> float:
    """Step a team; a step of all its agents counts as one."""
    env = hk.gym.team_env(name, observation="index")
    rng = np.random.default_rng(0)
    env.reset(seed=0)

    def step() -> None:
        if not env.agents:
            env.reset()
        env.step(dict(zip(env.agents, rng.integers(0, 5, len(env.agents)).tolist(), strict=True)))

    return per_second(step, 1)


def measure() -> dict[str, float]:
    """Measure everything."""
    found = {}
    for kind in ("onehot", "index"):
        found[f"individual_env, {kind}, with counterfactuals"] = alone(kind, counterfactuals=True)
        found[f"individual_env, {kind}"] = alone(kind, counterfactuals=False)
        for count in COPIES:
            found[f"individual_envs, {kind}, {count:,}"] = copies(
                hk.gym.individual_envs(TASK, AGENT, count, observation=kind), count
            )
    single = [lambda: hk.gym.individual_env(TASK, AGENT, observation="index", counterfactuals=False)] * 100
    found["SyncVectorEnv, index, 100"] = copies(SyncVectorEnv(single), 100)
    for name in (TASK, "rendezvous-10", "rendezvous-1000"):
        found[f"team_env, index, {name}"] = team(name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    options = parser.parse_args()
    found = measure()
    for what, speed in found.items():
        print(f"{speed:>12,.0f}  {what}")
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
