"""Hierarchical independent learning, as one would write it on a page: agents choose among options, and learn each one.

An option is to reach its target. A meta-policy chooses it by the agent's memory m, from those that are available; the
option's policy then chooses actions until its target is reached or the task is done. Every step updates the policies of
all available options.
"""

from __future__ import annotations

import numpy as np

from hocket import random
from hocket.learn.hil import HilSettings, list_shapes
from hocket.learn.reference import remembered, softmax, training_episode
from hocket.task.grid import ACTIONS, STAY
from hocket.task.tables import Tables, compile_task
from hocket.task.task import Task

f32 = np.float32  # all is computed in single precision, as in the kernel


class HilAgent:
    """An agent with options; `low` is the q-function of its options, `meta` the value of choosing one."""

    def __init__(self, tables: Tables, settings: HilSettings, index: int) -> None:
        shapes = list_shapes(tables)
        self.low, self.meta = np.zeros(shapes["low"][1:], f32), np.zeros(shapes["meta"][1:], f32)
        self.target, self.bit = tables.option_target[index], tables.option_bit[index].tolist()
        self.settings, self.alpha, self.gamma = settings, f32(settings.learning_rate), f32(settings.discount)
        self.option: int | None = None

    def available(self, m: int) -> list[int]:
        """List the options that memory m makes available."""
        return [option for option, bit in enumerate(self.bit) if bit == -1 or (bit >= 0 and m >> bit & 1)]

    def act(self, s: int, m: int, option_draw: float, action_draw: float) -> int:
        """Choose an option where none is under way, and an action by its policy."""
        beta, options = 1 / self.settings.temperature, self.available(m)
        if self.option is None and options:
            self.option = options[softmax(self.meta[m, options], beta, option_draw)]
            self.chosen_in, self.age, self.earned = m, 0, 0.0
        return STAY if self.option is None else softmax(self.low[s, :, self.option], beta, action_draw)

    def learn(self, s: int, a: int, s_next: int, m: int, reward: float, done: bool) -> None:
        """Update the policies of available options, and where the current one ends, the value of having chosen it."""
        for option in self.available(m):
            is_reached = bool(self.target[option, s_next])
            target = f32(is_reached)
            if not is_reached or self.settings.bootstrap_past_end:
                target = target + self.gamma * self.low[s_next, :, option].max()
            self.low[s, a, option] += self.alpha * (target - self.low[s, a, option])
        if self.option is None:
            return
        self.age += 1
        self.earned += float(self.gamma) ** self.age * reward
        if done or self.target[self.option, s_next]:
            target = f32(self.earned)
            if not done or self.settings.bootstrap_past_end:
                target = target + f32(float(self.gamma) ** self.age) * max(
                    (self.meta[m, option] for option in self.available(m)), default=0
                )
            self.meta[self.chosen_in, self.option] += self.alpha * (target - self.meta[self.chosen_in, self.option])
            self.option = None


def train_team(task: Task, settings: HilSettings, seed: int, steps: int) -> list[HilAgent]:
    """Train all agents of a team at once, in the team world."""
    tables, names = compile_task(task), list(task.agents)
    keys = [random.stream_key(random.TRAINING, seed, index) for index in range(len(names))]
    agents = [HilAgent(tables, settings, index) for index in range(len(names))]
    episode, begin = training_episode(task, keys, 0), 0
    for t in range(steps):
        cells, actions = list(episode.cells.values()), list[int]()
        for agent, key, s, m in zip(agents, keys, cells, remembered(task, episode), strict=True):
            actions.append(agent.act(s, m, _option_draw(key, t), random.action_draw(key, t)))
        earned = sum(episode.earned.values())
        done = episode.step({name: ACTIONS[a] for name, a in zip(names, actions, strict=True)}).done
        reward = sum(episode.earned.values()) - earned if task.has_rewards else float(done)
        after = zip(episode.cells.values(), remembered(task, episode), strict=True)
        for agent, s, a, (s_next, m_next) in zip(agents, cells, actions, after, strict=True):
            agent.learn(s, a, s_next, m_next, reward, done)
        if done or t + 1 - begin >= settings.max_episode_steps:
            episode, begin = training_episode(task, keys, t + 1), t + 1
            for agent in agents:
                agent.option = None
    return agents


def _option_draw(key: int, t: int) -> float:
    """Draw from [0, 1) what chooses an option; in the team world the draw of synchronisation is free for it."""
    return min(random.sync_draw(key, t) * 2.0**-random.CHANCE_BITS, 1 - 2.0**-random.ACTION_BITS)
