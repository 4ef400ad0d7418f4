"""How many steps a second do the environments for other libraries make?

    python bench/environments.py [--others] [--out environments.json]

The rival is Gymnasium's own way to run copies of an environment in one process, `SyncVectorEnv`. What counts is
processor time; all take turns, and medians over rounds are shown. With --others it is environments of other people with
reward machines on top, against the same without: of JaxMARL, VMAS, MiniGrid and mpe2, those that are installed.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
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


# Environments of other people, with machines and without.

EXAMPLES = Path(__file__).parent.parent / "examples"
KITCHENS, WORLDS, LENGTH = 512, 1_024, 50  # copies of Overcooked and of navigation, and steps in one go


def overcooked(*, with_machines: bool) -> Callable[[], float]:
    """Step copies of a kitchen, compiled by JAX."""
    import jax
    import jaxmarl

    from overcooked import SPLIT, conditions

    env, machines = jaxmarl.make("overcooked"), hk.gym.batched(SPLIT)

    def step(carry, key):
        kitchen, state = carry
        keys = jax.random.split(key, KITCHENS + 1)
        drawn = jax.random.randint(keys[-1], (2, KITCHENS), 0, 6)
        acts = dict(zip(env.agents, drawn, strict=True))
        seen, kitchen, reward, done, info = jax.vmap(env.step)(keys[:-1], kitchen, acts)
        stacked = jax.numpy.stack([seen[agent].reshape(KITCHENS, -1) for agent in env.agents], axis=1)
        paid = reward["agent_0"]
        if with_machines:
            state, _, paid, completed = machines.step(state, jax.vmap(conditions)(kitchen, info))
            state = machines.restart(state, completed | done["__all__"])
            stacked = machines.observe(stacked, state)
        return (kitchen, state), stacked.sum() + paid.sum()

    run = jax.jit(lambda carry, key: jax.lax.scan(step, carry, jax.random.split(key, LENGTH)))
    kitchen = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), KITCHENS))[1]
    carry = (kitchen, machines.reset(KITCHENS, like=kitchen.agent_inv))
    keys = iter(jax.random.split(jax.random.key(1), 10_000))

    def work() -> float:
        nonlocal carry
        carry, _ = jax.block_until_ready(run(carry, next(keys)))
        return KITCHENS * LENGTH

    return work


def navigation(*, with_machines: bool) -> Callable[[], float]:
    """Step copies of a world of VMAS, in torch."""
    import torch
    import vmas

    from navigation import SPLIT, conditions

    env, machines = vmas.make_env("navigation", WORLDS, n_agents=2, seed=0), hk.gym.batched(SPLIT)
    state = machines.reset(WORLDS, like=env.reset()[0])
    actions = cycle([[torch.rand(WORLDS, 2) * 2 - 1 for _ in range(2)] for _ in range(8)])

    def work() -> float:
        nonlocal state
        for _ in range(LENGTH):
            seen, _, _, _ = env.step(next(actions))
            stacked = torch.stack(seen, 1)
            if with_machines:
                state, _, _, done = machines.step(state, conditions(env))
                state = machines.restart(state, done)
                machines.observe(stacked, state)
        return WORLDS * LENGTH

    return work


def parallel(env: object) -> Callable[[], float]:
    """Step a PettingZoo environment with actions that take turns."""
    names = env.possible_agents
    for place, name in enumerate(names):
        env.action_space(name).seed(place)
    actions = cycle([{name: env.action_space(name).sample() for name in names} for _ in range(DRAWN)])
    env.reset(seed=0)

    def step() -> None:
        if not env.agents:
            env.reset()
        env.step({name: act for name, act in next(actions).items() if name in env.agents})

    return steps(step, 1)


def others() -> dict[str, Callable[[], float]]:
    """Prepare environments of other people that are installed, each without and with machines."""
    sys.path.insert(0, str(EXAMPLES))
    found = {}
    for name, package, make in (("Overcooked", "jaxmarl", overcooked), ("navigation", "vmas", navigation)):
        if find_spec(package):
            found[f"{name} of {package}"] = make(with_machines=False)
            found[f"{name} of {package}, with machines"] = make(with_machines=True)
    if find_spec("minigrid"):
        from locked_room import make_team

        found["two rooms of MiniGrid"] = parallel(make_team().env)
        found["two rooms of MiniGrid, wrapped"] = parallel(make_team())
    if find_spec("mpe2"):
        from mpe2 import simple_spread_v3

        from meeting import KNOWS, MACHINE, label

        settings = {"N": 2, "max_cycles": 200, "continuous_actions": True}
        found["simple_spread of mpe2"] = parallel(simple_spread_v3.parallel_env(**settings))
        wrapped = hk.gym.wrap(
            simple_spread_v3.parallel_env(**settings), machine=MACHINE, knows=KNOWS, label=label, waits=["meet"]
        )
        found["simple_spread of mpe2, wrapped"] = parallel(wrapped)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=None, help="write the numbers as JSON")
    parser.add_argument("--others", action="store_true", help="environments of other people that are installed")
    options = parser.parse_args()
    found = processor_times(others()) if options.others else measure()
    print(f"steps per second of processor time; load {os.getloadavg()[0]:.1f}")
    for what, speed in found.items():
        print(f"{speed:>12,.0f}  {what}")
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
