"""The paper's Algorithm 1 in plain Python, in single precision: agents that learn with simulated teammates."""

import math
from itertools import accumulate

import numpy as np

import hocket as hk
from hocket import random
from hocket.learn.dqprm import DqprmSettings
from hocket.task.grid import ACTIONS, slip_outcome
from worlds import Individual

f32 = np.float32


def softmax(q: np.ndarray, beta: float, drawn: float) -> int:
    """Choose an action as the definition has it."""
    best = max(q.tolist())
    sums = list(accumulate(math.exp(beta * (value - best)) for value in q.tolist()))
    return next(action for action, own in enumerate(sums) if drawn * sums[-1] < own)


class Alone:
    """An agent that learns with simulated teammates; its q-function is [cells, actions, states]."""

    def __init__(self, world: Individual, settings: DqprmSettings, seed: int) -> None:
        self.world, self.settings = world, settings
        self.states = list(world.machine.states)
        self.key = random.stream_key(random.TRAINING, seed, world.index)
        self.q = np.zeros((world.task.grid.cells, len(ACTIONS), len(self.states)), f32)
        self.restart()

    def restart(self) -> None:
        """Begin an episode."""
        self.cell, self.state = self.world.task.agents[self.world.name].start, self.world.machine.initial

    @property
    def finished(self) -> bool:
        return self.state in self.world.machine.final

    def step(self, time: int) -> None:
        """Move and learn; every state of the machine learns what would have happened in it, with the same draws."""
        world, settings, states, q = self.world, self.settings, self.states, self.q
        rate = f32(settings.learning_rate) / (f32(1) + f32(settings.learning_rate_decay) * f32(time))
        beta = f32(1 / settings.temperature) * (f32(1) + f32(settings.temperature_decay) * f32(time))
        cell, state = self.cell, self.state
        action = softmax(q[cell, :, states.index(state)], float(beta), random.action_draw(self.key, time))
        outcome = slip_outcome(random.slip_draw(self.key, time), random.threshold(world.task.slip))
        drawn, best = random.sync_draw(self.key, time), q.max(axis=1)
        for own, there in enumerate(states):
            if there in world.machine.final or not (settings.counterfactual or there == state):
                continue
            end = world.arrive(there, cell, action, outcome)
            target, reward = world.settle(there, end, lambda chance: drawn < random.threshold(chance))
            goal = f32(reward) + f32(settings.discount) * best[end, states.index(target)]
            q[cell, action, own] += rate * (goal - q[cell, action, own])
            if there == state:
                self.cell, self.state = end, target


def learn_alone(world: Individual, settings: DqprmSettings, seed: int, steps: int) -> tuple[np.ndarray, int, int]:
    """Learn for some steps, episode after episode; return q, the cell and the state."""
    agent, clock = Alone(world, settings, seed), 0
    for time in range(steps):
        agent.step(time)
        clock += 1
        if agent.finished or clock >= settings.max_episode_steps:
            agent.restart()
            clock = 0
    return agent.q, agent.cell, agent.states.index(agent.state)


def learn_waiting(task: hk.Task, settings: DqprmSettings, seed: int, steps: int) -> tuple[list[np.ndarray], int]:
    """Let all agents learn, those that have finished waiting for the others; return each q, and the steps waited."""
    agents = [Alone(Individual(task, name, settings.sync_probability), settings, seed) for name in task.agents]
    clock = waited = 0
    for time in range(steps):
        for agent in agents:
            if agent.finished:
                waited += 1
            else:
                agent.step(time)
        clock += 1
        if all(agent.finished for agent in agents) or clock >= settings.max_episode_steps:
            for agent in agents:
                agent.restart()
            clock = 0
    return [agent.q for agent in agents], waited
