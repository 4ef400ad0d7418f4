"""What runs side by side may differ in: settings, of which each run has one, and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import Index
from hocket.learn.kernels.team import Play
from hocket.learn.settings import Schedule, ScheduledSettings

Row = Any  # an array; numba finds out what its numbers are


class Rules(NamedTuple):
    """Learning rules, one for each of V settings."""

    rate: Row  # [V] float32, and so are the next four
    rate_decay: Row
    beta: Row  # the inverse temperature, of tests too
    beta_growth: Row
    discount: Row
    max_episode_steps: Row  # [V] int64, at most
    switch: Row  # [V] bool the learner's own: counterfactual, or bootstrap_past_end


class Runs(NamedTuple):
    """Which runs there are."""

    variant: Row  # [R] uint32, its place among the settings
    seed: Row  # [R] int64


def make_rules(variants: Sequence[ScheduledSettings], switch: str) -> Rules:
    """Gather the rules of some settings; `switch` names the learner's own."""
    rate, rate_decay, beta, beta_growth = np.array([own.schedule for own in variants], np.float32).T.copy()
    return Rules(
        rate,
        rate_decay,
        beta,
        beta_growth,
        np.array([own.discount for own in variants], np.float32),
        np.array([own.max_episode_steps for own in variants], np.int64),
        np.array([getattr(own, switch) for own in variants], np.bool_),
    )


@inlined
def schedule_at(rules: Rules, variant: Index) -> Schedule:
    """Return how rates change under one of the settings."""
    return Schedule(rules.rate[variant], rules.rate_decay[variant], rules.beta[variant], rules.beta_growth[variant])


@inlined
def play_at(rules: Rules, runs: Runs, run: Index, greedy: bool) -> Play:
    """Say how tests of a run are played."""
    variant = runs.variant[run]
    return Play(rules.beta[variant], greedy, runs.seed[run], rules.max_episode_steps[variant])
