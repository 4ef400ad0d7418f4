"""DQPRM, the paper's Algorithm 1, in plain Python: q-learning of an agent with its projected machine.

The update of q is written in five places:

- `QrmAgent` in `hocket.learn.reference` is written to be read; tests compare the others with it, bit for bit, and it
  also trains in wrapped environments;
- `learn` in `kernel` is the same loop over machine states, compiled, for machines of any size, on CPUs and GPUs;
- `learn_vector` there updates all states of a small machine as one vector, which makes most of the speed on a CPU;
- `train_lane` in `cuda` keeps the q-values of the agent's cell in the registers of a GPU thread;
- `straightforward` in `hocket.learn.benchmark` is a first version with numba, with which the benchmarks compare.
"""

from __future__ import annotations

from collections.abc import Sequence

from hocket.learn.dqprm import DqprmSettings
from hocket.learn.kernels.arrays import Floats
from hocket.learn.reference import QrmAgent, SteppedWorld


class DqprmTeam:
    """Agents that train alone; with `wait_for_team` their episodes begin together, and agents that are done wait."""

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

    def learnt(self) -> list[dict[str, Floats]]:
        """Return the values of each agent."""
        return [{"q": agent.q} for agent in self.agents]
