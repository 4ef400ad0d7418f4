"""Independent Q-learning with a thousand copies of a team at once, in `hk.gym.team_vector_env`.

    python examples/crowd.py

Every agent has a q-table over its observations (its cell and the state of its machine) and gets the team reward.
"""

import numpy as np

import hocket as hk

COPIES, STEPS, RATE, DISCOUNT, EXPLORE = 1_000, 2_000, 0.2, 0.9, 0.3


def learn(task):
    """Train a table for each agent: [agents, observations, actions]."""
    envs = hk.gym.team_vector_env(task, COPIES, observation="index", max_episode_steps=200)
    rng, agents = np.random.default_rng(0), np.arange(len(envs.agents))
    tables = np.zeros((len(agents), int(envs.single_observation_space.nvec.max()), 5), np.float32)
    seen, _ = envs.reset(seed=0)
    begins = np.zeros(COPIES, bool)  # copies whose next step starts an episode: it gives no experience
    for _ in range(STEPS):
        best = (tables[agents, seen] + 1e-6 * rng.random((*seen.shape, 5))).argmax(axis=2)  # ties are broken at random
        actions = np.where(rng.random(seen.shape) < EXPLORE, rng.integers(0, 5, seen.shape), best)
        after, reward, terminated, truncated, _ = envs.step(actions)
        worth = reward[:, None] + DISCOUNT * ~terminated[:, None] * tables[agents, after].max(axis=2)
        learns = ~begins
        at = (np.broadcast_to(agents, seen.shape)[learns], seen[learns], actions[learns])
        tables[at] += RATE * (worth[learns] - tables[at])
        seen, begins = after, terminated | truncated
    return dict(zip(envs.agents, tables, strict=True))


def main():
    for name in ("rendezvous-2", "buttons"):
        tables = learn(name)
        policies = {agent: lambda seen, table=table: table[seen].argmax() for agent, table in tables.items()}
        (team,) = hk.evaluate(hk.gym.team_env(name, observation="index"), policies, episodes=50)
        print(f"{name}: {COPIES * STEPS:,} team steps, success {team.success.value:.2f}, {team.mean_steps:.1f} steps")


if __name__ == "__main__":
    main()
