"""Hierarchical independent learning, in plain Python: agents choose among options, and learn a policy for each.

A meta-policy chooses an option by the agent's memory m, from those that are available; the option's policy then chooses
actions until its target is reached or the task is done. Every step updates the policies of all available options.
"""

from __future__ import annotations

import numpy as np

from hocket import random
from hocket.learn.hil import HilSettings
from hocket.learn.kernels.arrays import Floats
from hocket.learn.reference import Rows, SteppedTeam, f32, softmax
from hocket.task.grid import STAY


class HilAgent:
    """An agent with options; `low` is the q-function of its options, `meta` the value of choosing one."""

    def __init__(self, world: SteppedTeam, settings: HilSettings, index: int) -> None:
        self.world, self.index = world, index
        self.low = Rows(world.actions[index], world.options)
        self.meta = np.zeros((world.memories, world.options), f32)
        self.settings, self.alpha, self.gamma = settings, f32(settings.learning_rate), f32(settings.discount)
        self.option: int | None = None

    def act(self, s: int, m: int, key: int, t: int) -> int:
        """Choose an option if there is no current one, by the draw of synchronisation, and an action by its policy."""
        beta, options = 1 / self.settings.temperature, self.world.available(self.index, m)
        if self.option is None and options:
            drawn = min(random.sync_draw(key, t) * 2.0**-random.CHANCE_BITS, 1 - 2.0**-random.ACTION_BITS)
            self.option = options[softmax(self.meta[m, options], beta, drawn)]
            self.chosen_in, self.age, self.earned = m, 0, 0.0
        return STAY if self.option is None else softmax(self.low[s][:, self.option], beta, random.action_draw(key, t))

    def learn(self, s: int, a: int, s_next: int, m: int, reward: float, done: bool) -> None:
        """Update the policies of available options and, if the current one ends, the value of having chosen it."""
        options, reached = self.world.available(self.index, m), self.world.reached(self.index)
        for option in options:
            target = f32(option in reached)
            if option not in reached or self.settings.bootstrap_past_end:
                target = target + self.gamma * self.low[s_next][:, option].max()
            self.low[s][a, option] += self.alpha * (target - self.low[s][a, option])
        if self.option is None:
            return
        self.age += 1
        self.earned += float(self.gamma) ** self.age * reward
        if done or self.option in reached:
            target = f32(self.earned)
            if not done or self.settings.bootstrap_past_end:
                later = max((self.meta[m, option] for option in options), default=0)
                target = target + f32(float(self.gamma) ** self.age) * later
            self.meta[self.chosen_in, self.option] += self.alpha * (target - self.meta[self.chosen_in, self.option])
            self.option = None


class HilTeam:
    """Agents with options that act together and learn at once."""

    def __init__(self, world: SteppedTeam, settings: HilSettings, seed: int) -> None:
        self.world, self.settings = world, settings
        self.keys = [random.stream_key(random.TRAINING, seed, index) for index in range(len(world.actions))]
        self.agents = [HilAgent(world, settings, index) for index in range(len(world.actions))]
        self.restart(0)

    def restart(self, t: int) -> None:
        """Begin an episode with step t."""
        self.seen, self.episode_steps = self.world.reset(t), 0
        for agent in self.agents:
            agent.option = None

    def learnt(self) -> list[dict[str, Floats]]:
        """Return the values of each agent."""
        each = zip(self.agents, self.world.observations, strict=True)
        return [{"low": agent.low.array(count), "meta": agent.meta} for agent, count in each]

    def train(self, t: int) -> None:
        """Act in training step t; all agents learn from it."""
        before, each = self.seen, zip(self.agents, self.keys, self.seen, strict=True)
        actions = [agent.act(s, m, key, t) for agent, key, (s, m) in each]
        self.seen, reward, is_end, is_over = self.world.step(actions)
        for agent, (s, _), a, (s_next, m_next) in zip(self.agents, before, actions, self.seen, strict=True):
            agent.learn(s, a, s_next, m_next, reward, is_end)
        self.episode_steps += 1
        if is_over or self.episode_steps >= self.settings.max_episode_steps:
            self.restart(t + 1)
