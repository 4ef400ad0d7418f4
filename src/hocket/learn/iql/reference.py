"""Independent q-learning, in plain Python: agents act together and learn from the team's reward."""

from __future__ import annotations

from hocket import random
from hocket.learn.iql import IqlSettings
from hocket.learn.kernels.arrays import Floats
from hocket.learn.reference import Rows, SteppedTeam, f32, rates, softmax


class IqlTeam:
    """Agents that learn at once, each by its observation and memory."""

    def __init__(self, world: SteppedTeam, settings: IqlSettings, seed: int) -> None:
        self.world, self.settings = world, settings
        self.keys = [random.stream_key(random.TRAINING, seed, agent) for agent in range(len(world.actions))]
        self.rows = [Rows(actions, world.memories) for actions in world.actions]
        self.restart(0)

    def restart(self, t: int) -> None:
        """Begin an episode with step t."""
        self.seen, self.episode_steps = self.world.reset(t), 0

    def learnt(self) -> list[dict[str, Floats]]:
        """Return the values of each agent."""
        return [{"q": q.array(count)} for q, count in zip(self.rows, self.world.observations, strict=True)]

    def train(self, t: int) -> None:
        """Act in training step t, and update q(s, a, m) of each agent."""
        settings, gamma, (alpha, beta) = self.settings, f32(self.settings.discount), rates(self.settings, t)
        before, each = self.seen, zip(self.rows, self.seen, self.keys, strict=True)
        actions = [softmax(q[s][:, m], beta, random.action_draw(key, t)) for q, (s, m), key in each]
        self.seen, reward, is_end, is_over = self.world.step(actions)
        for q, (s, m), a, (s_next, m_next) in zip(self.rows, before, actions, self.seen, strict=True):
            target = f32(reward)
            if not is_end or settings.bootstrap_past_end:
                target = target + gamma * q[s_next][:, m_next].max()
            q[s][a, m] += alpha * (target - q[s][a, m])
        self.episode_steps += 1
        if is_over or self.episode_steps >= settings.max_episode_steps:
            self.restart(t + 1)
