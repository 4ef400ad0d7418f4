"""Are the worlds of tasks from the field those of their authors, step for step? Random walks in both, compared.

    python bench/originals.py record RECORDS [--tokens CONFIGS] [--office FOLDER] [--repairs FOLDER] [--steps N]
    python bench/originals.py compare RECORDS

The first command walks in the original, and runs where that is installed (hocket need not be); the second takes the
same actions in hocket. For tokens: `pip install dfa-gym pyyaml`, and CONFIGS is the folder acc_marl/config of the
repository rad-dfa/acc-marl, whose four files have the maps. For the office: numpy, and the folder reward_machines of
the repository RodrigoToroIcarte/reward_machines. For repairs: `pip install pettingzoo gymnasium matplotlib`, and the
folder of the repository thomasychen/LOTaD.
Prints how many steps agree: in where everyone is, on which token it stood last, and in which state the machine is.
"""

from __future__ import annotations

import argparse
import sys
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

COPIES = 1_000  # walks side by side
MONOLITHIC = "reward_machines/buttons/repairs_task/mono_repairs_task.txt"
TURNED = np.array([2, 1, 0, 3, 4])  # TokenEnv's actions are down, right, up, left, none


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("records", type=Path)
    parser.add_argument("--tokens", type=Path)
    parser.add_argument("--office", type=Path)
    parser.add_argument("--repairs", type=Path)
    parser.add_argument("--steps", type=int, default=1_000_000)
    options = parser.parse_args()
    options.records.mkdir(exist_ok=True)
    if options.what == "compare":
        compare(options.records)
    if options.office:
        for number in range(1, 5):
            walked = walk_office(options.office, number, options.steps // COPIES)
            np.savez_compressed(options.records / f"office-{number}.npz", **walked)
    if options.repairs:
        walked = walk_repairs(options.repairs, options.steps // COPIES)
        np.savez_compressed(options.records / "repairs.npz", **walked)
    if options.tokens:
        for config in sorted(options.tokens.glob("*.yaml")):
            kind = "rooms" if "rooms" in config.stem else "buttons"
            walked = walk_tokens(config, options.steps // COPIES)
            np.savez_compressed(options.records / f"token-{kind}-{config.stem[0]}.npz", **walked)


def walk_tokens(config: Path, steps: int) -> dict[str, Any]:
    """Walk at random in the original: actions, where everyone was (row and column), and on which token, or -1."""
    import jax
    import jax.numpy as jnp
    import yaml
    from dfa_gym import TokenEnv

    env = TokenEnv(layout=yaml.safe_load(config.read_text())["LAYOUT"], max_steps_in_episode=steps + 1)
    _, first = env.reset(jax.random.PRNGKey(0))
    key, agents = jax.random.PRNGKey(1), env.n_agents
    actions = jax.random.randint(key, (steps, COPIES, agents), 0, 5)

    def step(state: Any, chosen: Any) -> Any:
        _, after, _, _, _ = env.step_env(key, state, {name: chosen[i] for i, name in enumerate(env.agents)})
        tokens = env.label_f(after)
        return after, (after.agent_positions, jnp.stack([tokens[name] for name in env.agents]))

    walk = jax.jit(jax.vmap(lambda chosen: jax.lax.scan(step, first, chosen)[1], in_axes=1, out_axes=1))
    where, token = walk(actions)
    return {
        "action": TURNED[np.asarray(actions)].astype(np.int8),
        "where": np.asarray(where, np.int8),
        "token": np.asarray(token, np.int8),
        "start": np.asarray(first.agent_positions, np.int8),
    }


def walk_office(folder: Path, number: int, steps: int) -> dict[str, Any]:
    """Walk at random in the original: actions, where the agent was (row and column), the machine's state, and ends."""
    sys.path.insert(0, str(folder))
    from envs.grids.office_world import OfficeWorld
    from reward_machines.reward_machine import RewardMachine

    world, machine = OfficeWorld(), RewardMachine(str(folder / f"envs/grids/reward_machines/office/t{number}.txt"))
    action = np.random.default_rng(number).integers(0, 4, (steps, COPIES)).astype(np.int8)
    where, state = np.zeros((steps, COPIES, 2), np.int8), np.zeros((steps, COPIES), np.int8)
    done, broken, paid = np.zeros((3, steps, COPIES), np.bool_)
    for copy in range(COPIES):
        world.reset()
        u = machine.reset()
        for step in range(steps):
            world.execute_action(int(action[step, copy]))
            x, y = world.agent
            u, paid[step, copy], done[step, copy] = machine.step(u, world.get_true_propositions(), {})
            where[step, copy], state[step, copy] = (8 - y, x), u
            broken[step, copy] = "n" in world.get_true_propositions()
            if done[step, copy]:
                world.reset()
                u = machine.reset()
    return {"action": action, "where": where, "state": state, "done": done, "broken": broken, "paid": paid}


def compare_office(name: str, walked: Any) -> np.ndarray:
    """Take the same actions; states are compared by name, where the original ends by `done` or `broken`.

    What is paid is not compared for broken plants: from the last state the original pays 1 for them as for completion,
    as it keeps rewards by pairs of states (its pull request 51 is about that).
    """
    import hocket as hk
    from hocket.task.tables import compile_task, settle

    task = hk.load_task(name)
    tables, machine = compile_task(task), task.machine
    names = {"office-3": {0: "nothing", 2: "with mail", 3: "with coffee", 4: "with both"}}.get(
        name, {number: str(number) for number in range(5)}
    )
    number = {state: place for place, state in enumerate(machine.states)}
    steps, copies = walked["action"].shape
    cell, state = np.full(copies, int(tables.start[0])), np.full(copies, int(tables.initial[0]))
    agree = np.zeros((steps, copies), np.bool_)
    (final,) = machine.final
    told = np.array([number.get(names.get(u, ""), -1) for u in range(int(walked["state"].max()) + 1)])
    for step in range(steps):
        cell = tables.next_cell[0, 0, cell, walked["action"][step], 0].astype(np.int64)
        state = settle(tables, tables.kind[0, cell][:, None], state[:, None]).state[:, 0]
        done = walked["done"][step]
        end = np.where(walked["broken"][step], number["broken"], number[final])
        expected = np.where(done, end, told[np.maximum(walked["state"][step], 0)])
        is_paid = walked["broken"][step] | (walked["paid"][step] == (state == number[final]))
        agree[step] = (cell == walked["where"][step] @ np.array([12, 1])) & (state == expected) & is_paid
        cell, state = np.where(done, int(tables.start[0]), cell), np.where(done, int(tables.initial[0]), state)
    return agree


def walk_repairs(folder: Path, steps: int) -> dict[str, Any]:
    """Walk at random in the original: directions after slips, where everyone was, and the team machine's state.

    The original moves everyone twice in a step, first for labels and then for good, and draws a slip each time; here
    both have the same slip. Agents keep an action for two steps on average, to come farther.
    """
    sys.path.insert(0, str(folder))
    import mdps.repairs_task_mdp as world
    from mdp_label_wrappers.repairs_task_mdp_labeled import RepairsTaskLabeled
    from pettingzoo_product_env.buttons_product_env import ButtonsProductEnv
    from reward_machines.sparse_reward_machine import SparseRewardMachine

    taken = [0, 0, 0]

    class Watched(RepairsTaskLabeled):
        def get_next_state(self, s: int, a: int, agent_id: int) -> tuple[int, int]:
            s_next, taken[agent_id - 1] = super().get_next_state(s, a, agent_id)
            return s_next, taken[agent_id - 1]

    machines = [SparseRewardMachine(str(folder / MONOLITHIC)) for _ in range(2)]
    for machine in machines:
        machine.is_monolithic = True
    manager = SimpleNamespace(get_rm_assignments=lambda *_, **__: 0, update_rewards=lambda _: None)
    config = {"initial_mdp_states": [54, 77, 3], "initial_rm_states": [[0, 0, 0]], "gamma": 0.99}
    config["max_episode_length"] = steps + 1
    env = ButtonsProductEnv(manager, Watched, machines[0], config, 3, addl_mono_rm=machines[1])
    rng = np.random.default_rng(0)
    action, where = np.zeros((2, steps, COPIES, 3), np.int8)
    state, done = np.zeros((steps, COPIES), np.int8), np.zeros((steps, COPIES), np.bool_)
    for copy in range(COPIES):
        env.reset()
        chosen = rng.integers(0, 5, 3)
        for step in range(steps):
            chosen = np.where(rng.random(3) < 0.5, chosen, rng.integers(0, 5, 3))
            world.random = SimpleNamespace(random=cycle(rng.random(3).tolist()).__next__)
            _, _, ended, _, _ = env.step(dict(zip(env.possible_agents, chosen.tolist(), strict=True)))
            action[step, copy], where[step, copy] = taken, [*env.mdp_states.values()]
            state[step, copy], done[step, copy] = env.monolithic_rm_state, all(ended.values())
            if done[step, copy]:
                env.reset()
    return {"action": action, "where": where, "state": state, "done": done}


def compare_repairs(walked: Any) -> np.ndarray:
    """Take the same directions; the original's states with two agents at the headquarters pass within a step."""
    import hocket as hk
    from hocket.task.bodies import hold_all_apart
    from hocket.task.tables import compile_task, settle

    task = hk.load_task("repairs")
    tables, everyone = compile_task(task), np.arange(3)
    names = {0: "nobody", 1: "A1 in", 2: "A2 in", 3: "A3 in", 7: "reported", 8: "yellow", 9: "red", 10: "done"}
    numbers = {state: number for number, state in enumerate(task.machine.states)}
    told = np.array([numbers.get(names.get(u, ""), -1) for u in range(11)])
    states = [[numbers[state] for state in task.machines[name].states] for name in task.agents]  # everyone knows all
    steps, copies, _ = walked["action"].shape
    cell, state = (np.tile(first.astype(np.int64), (copies, 1)) for first in (tables.start, tables.initial))
    agree = np.zeros((steps, copies), np.bool_)
    for step in range(steps):
        after = tables.next_cell[0, tables.dynamics[everyone, state], cell, walked["action"][step], 0]
        before, cell = cell, hold_all_apart(tables.body_rule, tables.body, cell, after)
        state = settle(tables, tables.kinds(before, cell), state).state
        same_states = np.array(states)[everyone, state] == told[walked["state"][step]][:, None]
        agree[step] = ((cell == walked["where"][step]) & same_states).all(axis=1)
        done = walked["done"][step][:, None]
        cell, state = np.where(done, tables.start, cell), np.where(done, tables.initial, state)
    return agree


def compare(records: Path) -> None:
    """Take the recorded actions in hocket."""
    for path in sorted(records.glob("office-*.npz")):
        with np.load(path) as walked:
            agree = compare_office(path.stem, dict(walked))
        print(f"{path.stem}: {agree.sum():,} of {agree.size:,} steps agree")
    for path in sorted(records.glob("repairs.npz")):
        with np.load(path) as walked:
            agree = compare_repairs(dict(walked))
        print(f"{path.stem}: {agree.sum():,} of {agree.size:,} steps agree")
    for path in sorted(records.glob("token-*.npz")):
        with np.load(path) as walked:
            agree = compare_tokens(path.stem, walked)
        print(f"{path.stem}: {agree.sum():,} of {agree.size:,} steps agree")


def compare_tokens(name: str, walked: Any) -> np.ndarray:
    import hocket as hk
    from hocket.task.tokens import MAPS, token_task

    seen = ["none", *map(str, range(10))]
    moves = {(before, token): token for before in seen for token in seen[1:] if token != before}
    machine = hk.RewardMachine(initial="none", transitions=moves, final=())
    agents = [letter for letter in "ABCD" if letter in MAPS[name]]
    task = token_task(name, dict.fromkeys(agents, machine))
    action, where, token = walked["action"], walked["where"].astype(np.int64), walked["token"]
    steps, copies, count = action.shape
    envs = hk.gym.team_vector_env(task, copies, max_episode_steps=steps + 1)
    envs.reset(seed=0)
    assert envs.state()[0, :count].tolist() == (walked["start"].astype(int) @ [task.grid.columns, 1]).tolist()
    last = np.full((copies, count), -1)
    states = [[seen.index(state.split()[0]) - 1 for state in task.machines[name].states] for name in agents]
    agree = np.zeros((steps, copies), np.bool_)
    for step in range(steps):
        envs.step(action[step])
        cells, state = np.split(envs.state(), 2, axis=1)
        last = np.where(token[step] >= 0, token[step], last)
        told = np.stack([np.array(states[agent])[state[:, agent]] for agent in range(count)], axis=1)
        same = (cells == where[step] @ np.array([task.grid.columns, 1])) & (told == last)
        agree[step] = same.all(axis=1)
    return agree


if __name__ == "__main__":
    main()
