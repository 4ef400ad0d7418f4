"""DQPRM, the paper's Algorithm 1, as one would write it on a page: q-learning of an agent with its projected machine.

The update of q is written in five places, and each has its reason:

- `QrmAgent` in `hocket.learn.reference` is to be read, and what tests compare the others with, bit for bit; it also
  trains in worlds that are not hocket's;
- `learn` in `kernel` is the same loop over machine states, compiled; it takes machines of any size, and runs on the
  processor and on graphics processors alike;
- `learn_at_once` there updates all states of a small machine as one vector, which is most of hocket's speed on a
  processor;
- `train` in `cuda` keeps the q-values of the agent's cell in the registers of a graphics processor's thread;
- `straightforward` in `hocket.learn.benchmark` is what one would write with numba and no further thought: what the
  benchmarks compare with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.learn.dqprm import DqprmSettings
from hocket.learn.reference import QrmAgent, SteppedWorld


class DqprmTeam:
    """Agents that train alone; with `wait_for_team` their episodes begin together, and who is done waits."""

    def __init__(self, worlds: Sequence[SteppedWorld], settings: DqprmSettings, seed: int) -> None:
        self.settings = settings
        self.agents = [QrmAgent(world, settings, seed) for world in worlds]
        self.groups = [self.agents] if settings.wait_for_team else [[agent] for agent in self.agents]

    def train(self, t: int) -> None:
        """Let every agent take training step t."""
        for group in self.groups:
            for agent in group:
                if agent.is_over:
                    agent.waited += 1
                else:
                    agent.step(t)
            longest = max(agent.episode_steps for agent in group)
            if all(agent.is_over for agent in group) or longest >= self.settings.max_episode_steps:
                for agent in group:
                    agent.restart(t + 1)

    def restart(self, t: int) -> None:
        """Begin an episode of every agent with step t."""
        for agent in self.agents:
            agent.restart(t)

    def learnt(self) -> list[dict[str, NDArray[np.float32]]]:
        """Give the values of each agent."""
        return [{"q": agent.q} for agent in self.agents]
