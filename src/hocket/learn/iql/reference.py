"""Independent q-learning, as one would write it on a page: agents act together and learn from the team's reward."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hocket import random
from hocket.learn.iql import IqlSettings
from hocket.learn.reference import remembered, softmax, training_episode
from hocket.task.grid import ACTIONS
from hocket.task.memory import memory_of
from hocket.task.task import Task

f32 = np.float32  # all is computed in single precision, as in the kernel


def train_team(task: Task, settings: IqlSettings, seed: int, steps: int) -> NDArray[np.float32]:
    """Train all agents; return q [agents, cells, actions, memories]."""
    names, memories = list(task.agents), max(1 << len(bits) for bits in memory_of(task).values())
    keys = [random.stream_key(random.TRAINING, seed, agent) for agent in range(len(names))]
    q = np.zeros((len(names), task.grid.cells, len(ACTIONS), memories), f32)
    alpha, gamma, beta = f32(settings.learning_rate), f32(settings.discount), 1 / settings.temperature
    episode, begin = training_episode(task, keys, 0), 0
    for t in range(steps):
        before = list(zip(episode.cells.values(), remembered(task, episode), strict=True))
        actions = [
            softmax(q[agent, s, :, m], beta, random.action_draw(keys[agent], t)) for agent, (s, m) in enumerate(before)
        ]
        earned = sum(episode.earned.values())
        done = episode.step({name: ACTIONS[a] for name, a in zip(names, actions, strict=True)}).done
        reward = sum(episode.earned.values()) - earned if task.has_rewards else float(done)
        after = zip(episode.cells.values(), remembered(task, episode), strict=True)
        for agent, ((s, m), a, (s_next, m_next)) in enumerate(zip(before, actions, after, strict=True)):
            target = f32(reward)
            if not done or settings.bootstrap_past_end:
                target = target + gamma * q[agent, s_next, :, m_next].max()
            q[agent, s, a, m] += alpha * (target - q[agent, s, a, m])
        if done or t + 1 - begin >= settings.max_episode_steps:
            episode, begin = training_episode(task, keys, t + 1), t + 1
    return q
