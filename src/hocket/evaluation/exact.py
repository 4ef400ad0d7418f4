"""The exact success, duration and return of a team's task, by the Markov chain of all agents together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from hocket.errors import SettingsError, require_known
from hocket.evaluation.chains import UNIT, Bounded, reach, solve
from hocket.evaluation.elimination import Floats, Report
from hocket.evaluation.evaluate import team_bounds
from hocket.evaluation.joint_chain import MOST_WATCHED, NEVER, JointChain, explore, split_by_events, tabulate_moves
from hocket.learn.catalogue import find_learner, learners_with_input
from hocket.learn.learner import PolicyInput
from hocket.learn.policies import Policy
from hocket.task.catalogue import as_task
from hocket.task.tables import Tables, compile_task
from hocket.task.task import Task


@dataclass(frozen=True)
class Exact:
    """The solution of a team's Markov chain, each number with a bound on its error that is proved."""

    states: int  # joint states that can be reached
    success: float  # V: the probability that the task is completed at all; 1 or 0 without an error if it must be
    success_error: float
    failure: float  # 1 - V, with all its digits where it is small
    failure_error: float
    mean_steps: float  # expected steps to completion; infinite if the task may never be completed
    mean_steps_error: float
    mean_steps_if_done: float  # of the episodes that are completed; not a number if none is
    mean_steps_if_done_error: float
    agents: Mapping[str, Bounded] = field(kw_only=True)  # V_i: that the agent's machine is completed at all
    events: Mapping[str, Bounded] = field(kw_only=True)  # that it ever happens, for each of the given events
    returns: Mapping[str, Bounded] = field(kw_only=True)  # V_i where a task has rewards: of an episode

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of V by Theorem 3."""
        return team_bounds([agent.value for agent in self.agents.values()])

    @property
    def team_return(self) -> Bounded:
        """V where a task has rewards: the team's mean return of an episode, the sum of its agents' V_i."""
        values = self.returns.values()
        return Bounded(math.fsum(mean.value for mean in values), math.fsum(mean.error for mean in values))


def has_exact_value(learner: str) -> bool:
    """Say whether policies of a learner make a Markov chain of cells and machine states."""
    return learner in learners_with_input(PolicyInput.MACHINE)


def evaluate_exact(
    task: Task | str | Path,
    policy: Policy,
    *,
    greedy: bool = True,
    events: str | Iterable[str] = (),
    progress: Report = lambda _: None,
) -> Exact:
    """Compute V, every V_i and the expected completion time under a policy that depends on cells and machine states.

    Where a task has rewards, it computes the mean return of each agent in an episode of `max_episode_steps` steps; the
    team's is the sum. Of each of `events`, it also computes the probability that it ever happens. The bounds hold for
    the exact softmax of the policy's values, or for greedy actions of equal probability. A joint move with a
    probability below 1e-300 counts as impossible. Refuses what is too large, with its size.
    """
    task = as_task(task)
    names = check_events(task, events)
    tables, joint, input_error = explore_team(task, policy, greedy, names, progress)
    places = np.concatenate(np.divmod(joint.cell, task.grid.columns), axis=1)
    count = f"{joint.chain.states:,} joint states, {len(joint.chain.target):,} transitions"

    def report(text: str) -> None:
        progress(f"{count}: {text}")

    solution = solve(joint.chain, places, input_error, report)
    steps = (Bounded(time.value - joint.lead, time.error) for time in (solution.steps, solution.steps_if_reached))
    numbers = (solution.success, solution.failure, *steps)
    agents = dict.fromkeys(task.agents, solution.success)
    for agent, name in enumerate(task.agents if solution.success != Bounded(1.0) else ()):  # else all complete theirs
        goals = np.append(tables.is_final[agent, joint.state[:, agent]], True)
        agents[name] = reach(joint.chain, goals, places, input_error, report)
    happening = {}
    if names:
        team = split_by_events(joint)
        team_places = np.concatenate([places, np.zeros((1, places.shape[1]), places.dtype)])[team.joint]
        for bit, name in enumerate(names):
            goals = np.append(team.has_just_seen(bit), False)
            happening[name] = reach(team.chain, goals, team_places, input_error, report)
    parts = (part for number in numbers for part in (number.value, number.error))
    horizon = int(policy.settings["max_episode_steps"]) if tables.has_rewards else 0
    means = expected_returns(joint, horizon, input_error) if horizon else ()
    returns = dict(zip(task.agents, means, strict=False))
    return Exact(joint.chain.states, *parts, agents=agents, events=happening, returns=returns)


def expected_returns(joint: JointChain, horizon: int, input_error: float) -> list[Bounded]:
    """Compute each agent's mean return of so many steps, from the distribution over joint states in each. Its numbers
    are positive, so that errors are relative: in a step those of a move's probability, and a rounding for each move."""
    first, target, probability = joint.chain
    agents, states = joint.reward.shape[1], joint.chain.states
    if not states:
        return [Bounded(0.0)] * agents
    steps = csr_array((probability, target, first), shape=(states, states + 1)).T.tocsr()[:states]
    into, out = int(np.bincount(target).max()), int(np.diff(first).max())  # the most moves that a state has
    share, mean, error = np.zeros(states), np.zeros(agents), 0.0
    share[0] = 1.0
    for step in range(horizon + joint.lead):
        mean += share @ joint.reward
        roundings = (step + 1) * (input_error + (into + 2) * UNIT) + (out + states + horizon) * UNIT
        error += float(share.sum()) * roundings
        share = steps @ share
    return list(map(Bounded, mean.tolist(), (1.01 * error * joint.largest_reward).tolist()))


def check_events(task: Task, events: str | Iterable[str]) -> tuple[str, ...]:
    """Require events of a task, at most as many as can be watched."""
    names = (events,) if isinstance(events, str) else tuple(dict.fromkeys(events))
    for name in names:
        require_known(name, task.events, "event")
    if len(names) > MOST_WATCHED:
        raise SettingsError(f"at most {MOST_WATCHED} events can be evaluated at a time, got {len(names)}")
    return names


def explore_team(
    task: Task, policy: Policy, greedy: bool, events: Sequence[str], progress: Report
) -> tuple[Tables, JointChain, float]:
    """List the chain of a team, with events that are watched, and the relative error of its probabilities; refuse
    policies that do not define one."""
    if not isinstance(policy, Policy):
        raise SettingsError(f"a policy is needed, got {type(policy).__name__}")
    policy.require_task(task.digest)
    if not has_exact_value(policy.learner):
        fitting = " and ".join(learners_with_input(PolicyInput.MACHINE))
        raise SettingsError(f"the chain is solved for policies of {fitting}, got {policy.learner}")
    tables = compile_task(task)
    find_learner(policy.learner).check_policy(policy.arrays, policy.settings, tables)
    choice, exponent = _choices(policy, greedy)
    joint = explore(tables, tabulate_moves(tables, choice), progress, [task.event_numbers[name] for name in events])
    # Roundings of a joint move's probability: exponent, exponential, shares and sums, and the product over agents.
    return tables, joint, (2 * exponent + 32 + len(task.agents)) * UNIT


def _choices(policy: Policy, greedy: bool) -> tuple[Floats, float]:
    """Tabulate the probabilities of actions [N, S, A, U]; also return the largest exponent of one that matters."""
    q = np.asarray(policy.arrays["q"], np.float64)
    best = q.max(axis=2, keepdims=True)
    if greedy:
        weight, exponent = (q == best).astype(np.float64), 0.0
    else:
        power = (q - best) / float(policy.settings["temperature"])
        weight, exponent = np.exp(power), -float(np.maximum(power, math.log(NEVER)).min())
    return weight / weight.sum(axis=2, keepdims=True), exponent
