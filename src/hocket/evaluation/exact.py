"""The exact success and duration of a team's task, by solving the Markov chain of all agents together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError
from hocket.evaluation.chains import UNIT, solve
from hocket.evaluation.joint_chain import NEVER, ExploredStates, explore, tabulate_moves
from hocket.learn.catalogue import find_learner, learners_with_input
from hocket.learn.learner import PolicyInput
from hocket.learn.policies import Policy
from hocket.task.catalogue import as_task
from hocket.task.tables import compile_task
from hocket.task.task import Task

Progress = Callable[[str], None]  # is told in words what is being done


@dataclass(frozen=True)
class Exact:
    """The solution of a team's Markov chain, each number with a bound on its error that is proved."""

    states: int  # joint states that can be reached
    success: float  # V: the probability that the task is completed at all; 1 or 0 without an error if it must be
    success_error: float
    failure: float  # 1 - V, with all its digits where it is small
    failure_error: float
    mean_steps: float  # expected steps to completion; infinite if it may never come
    mean_steps_error: float
    mean_steps_if_done: float  # of the episodes that are completed; not a number if none is
    mean_steps_if_done_error: float


def has_exact_value(learner: str) -> bool:
    """Say whether policies of a learner make a Markov chain of cells and machine states."""
    return learner in learners_with_input(PolicyInput.MACHINE)


def evaluate_exact(
    task: Task | str | Path, policy: Policy, *, greedy: bool = False, progress: Progress = lambda _: None
) -> Exact:
    """Compute V and the expected completion time under a policy that goes by cells and machine states.

    The bounds hold for the exact softmax of the policy's values. A joint move with a chance below 1e-300 counts as
    impossible. Refuses what is too large, with its size.
    """
    task = as_task(task)
    if not isinstance(policy, Policy):
        raise SettingsError(f"a policy is needed, got {type(policy).__name__}")
    policy.require_task(task.digest)
    if not has_exact_value(policy.learner):
        fitting = " and ".join(learners_with_input(PolicyInput.MACHINE))
        raise SettingsError(f"the chain is solved for policies of {fitting}, got {policy.learner}")
    tables = compile_task(task)
    find_learner(policy.learner).check_policy(policy.arrays, policy.settings, tables)
    choice, exponent = _choices(policy, greedy)

    def tell_states(explored: ExploredStates) -> None:
        progress(f"{explored.states:,} joint states found, {explored.expanded:,} of them done")

    joint = explore(tables, tabulate_moves(tables, choice), tell_states)
    # Roundings of a joint move's chance: exponent, exponential, shares and sums, and the product over agents.
    blur = (2 * exponent + 32 + len(task.agents)) * UNIT
    places = np.concatenate(np.divmod(joint.cell, task.grid.columns), axis=1)
    count = f"{joint.chain.states:,} joint states, {len(joint.chain.target):,} transitions"
    solution = solve(joint.chain, places, blur, lambda doing: progress(f"{count}: {doing}"))
    numbers = (solution.success, solution.failure, solution.steps, solution.steps_if_reached)
    return Exact(joint.chain.states, *(part for number in numbers for part in number))


def _choices(policy: Policy, greedy: bool) -> tuple[NDArray[np.float64], float]:
    """Tabulate the chances of actions [N, S, A, U]; also return the largest exponent of a chance that matters."""
    q = np.asarray(policy.arrays["q"], np.float64)
    best = q.max(axis=2, keepdims=True)
    if greedy:
        weight, exponent = (q == best).astype(np.float64), 0.0
    else:
        power = (q - best) / policy.settings["temperature"]
        weight, exponent = np.exp(power), -float(np.maximum(power, math.log(NEVER)).min())
    return weight / weight.sum(axis=2, keepdims=True), exponent
