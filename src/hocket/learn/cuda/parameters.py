"""What runs side by side may differ in: settings, of which each run has one, and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import Index
from hocket.learn.kernels.team import PlayParameters
from hocket.learn.settings import Schedule, ScheduledSettings

Row = Any  # an array; numba finds out what its numbers are


class DeviceParameters(NamedTuple):
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


def make_parameters(variants: Sequence[ScheduledSettings], switch: str) -> DeviceParameters:
    """Gather the rules of some settings; `switch` names the learner's own."""
    rate, rate_decay, beta, beta_growth = np.array([settings.schedule for settings in variants], np.float32).T.copy()
    return DeviceParameters(
        rate,
        rate_decay,
        beta,
        beta_growth,
        np.array([settings.discount for settings in variants], np.float32),
        np.array([settings.max_episode_steps for settings in variants], np.int64),
        np.array([getattr(settings, switch) for settings in variants], np.bool_),
    )


@inlined
def schedule_at(parameters: DeviceParameters, variant: Index) -> Schedule:
    """Return how rates change under one of the settings."""
    return Schedule(
        parameters.rate[variant],
        parameters.rate_decay[variant],
        parameters.beta[variant],
        parameters.beta_growth[variant],
    )


@inlined
def play_at(parameters: DeviceParameters, runs: Runs, run: Index, greedy: bool) -> PlayParameters:
    """Say how tests of a run are played."""
    variant = runs.variant[run]
    return PlayParameters(parameters.beta[variant], greedy, runs.seed[run], parameters.max_episode_steps[variant])
