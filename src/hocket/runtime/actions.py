"""Policies for processes: which actions are best in each state of an agent's machine and each cell, as small tables.

They are made once, when a run begins, so that an agent that comes back has to load neither a learner nor the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hocket.errors import FormatError, printable
from hocket.files import exists, listed
from hocket.learn.actors import machine_values
from hocket.learn.catalogue import learners_with_input
from hocket.learn.learner import PolicyInput
from hocket.learn.policies import Policy, load_policy, peek_policy
from hocket.task.task import Task

Actions = NDArray[np.uint8]  # [machine states, cells] the best actions, as bits


def load_actions(folder: str | Path, task: Task) -> dict[str, Actions]:
    """Read the greedy policy of the first run in a folder that is of a task; a table for each agent."""
    others, policies = [], dict[tuple[int, str], Path]()
    for path in listed(Path(folder), "policies/*.npz"):
        about = peek_policy(path)
        if about.digest != task.digest:
            others.append(about.task)
        elif about.learner in learners_with_input(PolicyInput.MACHINE):
            policies[about.seed, path.name] = path
        else:
            others.append(f"{about.learner}, which does not play by the local reward machines")
    if policies:
        return actions_of(load_policy(policies[min(policies)], task.digest), task)
    if not exists(Path(folder)):
        raise FormatError("is not a folder of runs", path=folder)
    if others:
        named = printable(", ".join(sorted(set(others))))
        raise FormatError(f"has no policy for {printable(task.name)}, only for others ({named})", path=folder)
    raise FormatError("has no policies in it", path=folder)


def actions_of(policy: Policy, task: Task) -> dict[str, Actions]:
    """Tabulate the best actions of a policy."""
    q = machine_values(task, policy.learner, policy.arrays)
    bits = (1 << np.arange(q.shape[2], dtype=np.uint8)).astype(np.uint8)
    best = np.where(q == q.max(axis=2, keepdims=True), bits[None, None, :, None], 0).sum(axis=2, dtype=np.uint8)
    return {
        agent: np.ascontiguousarray(best[place, :, : len(machine.states)].T)
        for place, (agent, machine) in enumerate(task.machines.items())
    }


def save_actions(folder: Path, actions: Mapping[str, Actions]) -> None:
    """Write the tables beside the logs."""
    for agent, table in actions.items():
        np.save(folder / f"{agent}.actions.npy", np.asarray(table, np.uint8), allow_pickle=False)
