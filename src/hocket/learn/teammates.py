"""Teammates that act in an episode, each by a policy over its cell and the state of its own machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError
from hocket.learn.actors import machine_values
from hocket.learn.catalogue import find_learner, references
from hocket.learn.learner import PolicyInput
from hocket.learn.policies import Policy
from hocket.task.episode import TeamEpisode, Teammates
from hocket.task.grid import ACTIONS
from hocket.task.tables import compile_task
from hocket.task.task import Task


def reference_teammates(task: Task, learner: str) -> Teammates:
    """Let every agent act by what a reference computes, such as optimal policies."""
    about = find_learner(learner)
    if not about.is_reference:
        raise SettingsError(f"{learner} has to learn first; without that act {', '.join(references())}")
    return _greedy(task, about.block(compile_task(task), about.settings(), (0,), 1).arrays(0)["q"])


def trained_teammates(task: Task, policies: Sequence[Policy]) -> Teammates:
    """Let every agent take the best action that it has learnt: by the first policy over cells and machine states."""
    usable = (policy for policy in policies if find_learner(policy.learner).policy_input is PolicyInput.MACHINE)
    policy = next(usable, policies[0])
    return _greedy(task, machine_values(task, policy.learner, policy.arrays))


def _greedy(task: Task, q: NDArray[np.float32]) -> Teammates:
    """Take the best action by values [N, S, A, U]."""
    best = q.argmax(axis=2)  # [N, S, U]
    places = {name: {state: u for u, state in enumerate(machine.states)} for name, machine in task.machines.items()}

    def choose(episode: TeamEpisode) -> dict[str, str]:
        return {
            name: ACTIONS[best[agent, episode.cells[name], places[name][episode.states[name]]]]
            for agent, name in enumerate(task.agents)
        }

    return choose
