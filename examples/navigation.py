"""Two robots of VMAS's navigation drive to their goals one after the other and then meet; PPO in one file learns it.

Robot 0 drives to its goal first, then robot 1, which knows this event, to its own, and then they meet. The reward
machines are tensors with a row for each copy of the environment; only `machines.step` is added to the loop.

    pip install torch vmas ".[gym]"
    python examples/navigation.py
"""

import time

import torch
import vmas
from torch import nn
from torch.distributions import Normal

import hocket as hk

COPIES, LENGTH, UPDATES, EPOCHS, BATCHES = 128, 100, 120, 4, 4
DISCOUNT, TRACE, CLIP, ENTROPY, RATE = 0.98, 0.95, 0.2, 0.001, 1e-3
EPISODE = 200  # steps at most
THERE, TOGETHER = 0.15, 0.3  # distances

WAY = {("start", "goal_0"): "first", ("first", "goal_1"): "second", ("second", "meet"): "met"}
MACHINE = hk.RewardMachine(initial="start", transitions=WAY, final={"met"})
KNOWS = {"agent_0": {"goal_0", "goal_1", "meet"}, "agent_1": {"goal_0", "goal_1", "meet"}}
SPLIT = hk.decompose(MACHINE, KNOWS, control={"goal_0": ["agent_0"], "goal_1": ["agent_1"]})


def distances(env):
    """Measure how far each robot is from its goal, and the robots from each other: [copies] each."""
    at = [agent.state.pos for agent in env.agents]
    to_goals = [(pos - agent.goal.state.pos).norm(dim=-1) for pos, agent in zip(at, env.agents, strict=True)]
    return *to_goals, (at[0] - at[1]).norm(dim=-1)


def conditions(env):
    """Compute which conditions hold: [copies, agents, events], in the order of the machine."""
    first, second, apart = distances(env)
    nothing, meets = torch.zeros_like(first, dtype=torch.bool), apart < TOGETHER
    return torch.stack(
        [torch.stack([first < THERE, nothing, meets], -1), torch.stack([nothing, second < THERE, meets], -1)], 1
    )


def ways_left(env, state):
    """Measure the distance to the next goal: for shaping, which does not change the optimal policies."""
    first, second, apart = distances(env)
    return torch.where(state == 0, first + second + apart, torch.where(state == 1, second + apart, apart))


class Robot(nn.Module):
    """The network that both robots share: the policy and the values."""

    def __init__(self, features):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mean, self.value, self.spread = nn.Linear(64, 2), nn.Linear(64, 1), nn.Parameter(torch.full((2,), -0.5))

    def forward(self, seen):
        hidden = self.body(seen)
        return Normal(torch.tanh(self.mean(hidden)), self.spread.exp()), self.value(hidden)[..., 0]


def see(env, machines, state, observations):
    teammate = (env.agents[1].state.pos - env.agents[0].state.pos)[:, None]
    places = torch.cat([teammate, -teammate], dim=1)
    return machines.observe(torch.cat([torch.stack(observations, 1)[..., :6], places], -1), state)


def main():
    torch.manual_seed(0)
    env = vmas.make_env("navigation", COPIES, device="cpu", n_agents=2, max_steps=None, collisions=False, seed=0)
    machines = hk.gym.batched(SPLIT)
    observations = env.reset()
    state = machines.reset(COPIES, like=observations[0])
    seen, age = see(env, machines, state, observations), torch.randint(0, EPISODE, (COPIES,))
    robot = Robot(seen.shape[-1])
    optimizer, begun, shares = torch.optim.Adam(robot.parameters(), RATE), time.perf_counter(), []
    for update in range(UPDATES):
        rows, completed, ended = [], 0, 0
        for _ in range(LENGTH):
            with torch.no_grad():
                policy, value = robot(seen)
                action = policy.sample()
                left = ways_left(env, state.agents[:, 0])
                observations, _, _, _ = env.step(list(action.clamp(-1, 1).unbind(1)))
                state, _, reward, done = machines.step(state, conditions(env))
                reward = 5 * reward + left - torch.where(done, 0.0, ways_left(env, state.agents[:, 0]))
                age += 1
                over = done | (age >= EPISODE)
                chance = policy.log_prob(action).sum(-1)
                rows.append((seen, action, chance, value, reward[:, None].expand(-1, 2), over[:, None].expand(-1, 2)))
                for copy in over.nonzero()[:, 0].tolist():
                    observations = env.reset_at(copy)
                state, age = machines.restart(state, over), torch.where(over, 0, age)
                seen = see(env, machines, state, observations)
                completed, ended = completed + int(done.sum()), ended + int(over.sum())
        learn(robot, optimizer, [torch.stack(part) for part in zip(*rows, strict=True)], seen)
        shares.append(completed / max(1, ended))
        if (update + 1) % (UPDATES // 6) == 0:
            steps, seconds = (update + 1) * LENGTH * COPIES, time.perf_counter() - begun
            print(f"{steps:>9,} steps, {seconds:3.0f} s: completed {shares[-1]:.0%}", flush=True)


def learn(robot, optimizer, moments, last):
    """Improve the policy by proximal policy optimisation."""
    seen, actions, chances, values, rewards, dones = moments
    with torch.no_grad():
        later, gain, gains = robot(last)[1], 0.0, torch.zeros_like(rewards)
        for t in reversed(range(len(rewards))):
            keep = 1.0 - dones[t].float()
            gain = rewards[t] + DISCOUNT * later * keep - values[t] + DISCOUNT * TRACE * keep * gain
            gains[t], later = gain, values[t]
        targets = gains + values
    data = [part.flatten(0, 2) for part in (seen, actions)] + [part.flatten() for part in (chances, gains, targets)]
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(data[0])).chunk(BATCHES):
            saw, acted, before, gained, aimed = (part[batch] for part in data)
            policy, value = robot(saw)
            ratio = (policy.log_prob(acted).sum(-1) - before).exp()
            gained = (gained - gained.mean()) / (gained.std() + 1e-8)
            surrogate = torch.minimum(ratio * gained, ratio.clamp(1 - CLIP, 1 + CLIP) * gained).mean()
            loss = 0.5 * (value - aimed).square().mean() - surrogate - ENTROPY * policy.entropy().sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(robot.parameters(), 0.5)
            optimizer.step()


if __name__ == "__main__":
    main()
