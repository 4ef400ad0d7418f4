"""DQPRM, the paper's Algorithm 1, as one would write it on a page: q-learning of an agent with its projected machine.

The update of q is written in five places, and each has its reason:

- `step` here is to be read, and what tests compare the others with, bit for bit;
- `learn` in `kernel` is the same loop over machine states, compiled; it takes machines of any size, and runs on the
  processor and on graphics processors alike;
- `learn_few` and `learn_many` there update all states of a small machine at once, as one vector, which is most of
  hocket's speed on a processor;
- `train` in `cuda_kernel` keeps the q-values of the agent's cell in the registers of a graphics processor's thread;
- `straightforward` in `hocket.learn.benchmark` is what one would write with numba and no further thought: what the
  benchmarks compare with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hocket import random
from hocket.learn.dqprm import DqprmSettings
from hocket.learn.reference import AgentWorld, draw_start, softmax
from hocket.task.grid import ACTIONS, slip_outcome

f32 = np.float32  # all is computed in single precision, as in the kernels


class DqprmAgent:
    """An agent that trains with simulated teammates."""

    def __init__(self, world: AgentWorld, settings: DqprmSettings, seed: int) -> None:
        self.world, self.settings = world, settings
        self.key = random.stream_key(random.TRAINING, seed, world.agent)
        self.q = np.zeros((world.cells, len(ACTIONS), world.states), f32)
        self.waited = 0
        self.restart(0)

    @property
    def is_done(self) -> bool:
        return self.u in self.world.final

    def restart(self, t: int) -> None:
        """Begin an episode with step t."""
        self.s, self.u = draw_start(self.world, self.key, t), self.world.initial

    def step(self, t: int) -> None:
        """Act, and update q.

        With counterfactual updates every state of the machine learns what would have happened in it, from the same
        action and the same draws.
        """
        world, settings, q, s = self.world, self.settings, self.q, self.s
        alpha = f32(settings.learning_rate) / (f32(1) + f32(settings.learning_rate_decay) * f32(t))
        beta = f32(1 / settings.temperature) * (f32(1) + f32(settings.temperature_decay) * f32(t))
        gamma = f32(settings.discount)
        a = softmax(q[s, :, self.u], float(beta), random.action_draw(self.key, t))
        outcome = slip_outcome(random.slip_draw(self.key, t), world.slip_limit)
        draw = random.sync_draw(self.key, t)
        best, following = q.max(axis=1), (s, self.u)
        for u in range(world.states):
            if u in world.final or not (settings.counterfactual or u == self.u):
                continue
            s_next = world.move(s, u, a, outcome)
            u_next, r = world.settle(s, s_next, u, draw)
            q[s, a, u] += alpha * (f32(r) + gamma * best[s_next, u_next] - q[s, a, u])
            if u == self.u:
                following = s_next, u_next
        self.s, self.u = following


def train_agent(world: AgentWorld, settings: DqprmSettings, seed: int, steps: int) -> DqprmAgent:
    """Train one agent that waits for nobody, episode after episode; its `q` is [cells, actions, machine states]."""
    return train_team([world], settings, seed, steps)[0]


def train_team(worlds: Sequence[AgentWorld], settings: DqprmSettings, seed: int, steps: int) -> list[DqprmAgent]:
    """Train agents whose episodes begin together: those that are done wait for the others (`wait_for_team`)."""
    agents, episode_steps = [DqprmAgent(world, settings, seed) for world in worlds], 0
    for t in range(steps):
        for agent in agents:
            if agent.is_done:
                agent.waited += 1
            else:
                agent.step(t)
        episode_steps += 1
        if all(agent.is_done for agent in agents) or episode_steps >= settings.max_episode_steps:
            for agent in agents:
                agent.restart(t + 1)
            episode_steps = 0
    return agents
