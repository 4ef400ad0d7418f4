"""What the settings of all learners have in common, with the paper's values as defaults; checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from hocket.errors import SettingsError

DEFAULT_LEARNER = "dqprm"
DEFAULT_STEPS = 250_000  # of training

COLDEST = 1e-6  # temperature
FASTEST = 1e6  # decay
LARGEST = 10**15  # integer


def _check_kind(name: str, value: object, kind: type) -> None:
    """Require a truth value, an integer or a number, as the default is one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is bool and not isinstance(value, bool):
        raise SettingsError(f"{name} must be true or false, got {value!r}")
    if kind is int and (not is_number or not isinstance(value, int) or abs(value) > LARGEST):
        raise SettingsError(f"{name} must be an integer with absolute value at most 10^15, got {value!r}")
    if kind is float and (not is_number or not isinstance(value, int | float) or not math.isfinite(value)):
        raise SettingsError(f"{name} must be a finite number, got {value!r}")


@dataclass(frozen=True)
class Settings:
    """What all learners have in common."""

    discount: float = 0.9
    learning_rate: float = 0.8
    temperature: float = 0.02  # of softmax exploration and of softmax tests
    episode_steps: int = 1_000  # at most, in training and in tests
    test_every: int = 1_000  # training steps
    test_episodes: int = 1  # per test and kind of policy

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_kind(field.name, getattr(self, field.name), type(field.default))
        self._require(0 <= self.discount <= 1, "discount", "between 0 and 1")
        self._require(0 < self.learning_rate <= 1, "learning_rate", "above 0 and at most 1")
        self._require(self.temperature > 0, "temperature", "above 0")
        self._require(self.temperature >= COLDEST, "temperature", f"at least {COLDEST}")
        self._require(self.episode_steps >= 1, "episode_steps", "at least 1")
        self._require(self.test_every >= 1, "test_every", "at least 1")
        self._require(self.test_episodes >= 0, "test_episodes", "at least 0")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise SettingsError(f"{name} must be {rule}, got {getattr(self, name)!r}")


class Schedule(NamedTuple):
    """How the learning rate falls and the inverse temperature grows over training, as kernels take it."""

    learning_rate: np.float32
    learning_rate_decay: np.float32  # the rate at step t is learning_rate / (1 + decay * t)
    beta: np.float32  # inverse temperature
    beta_growth: np.float32  # at step t it is beta * (1 + growth * t)


@dataclass(frozen=True)
class ScheduledSettings(Settings):
    """Settings of learners whose rates may change over time."""

    learning_rate_decay: float = 0.0  # the rate at step t is learning_rate / (1 + decay * t)
    temperature_decay: float = 0.0  # the temperature at step t is temperature / (1 + decay * t)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.learning_rate_decay >= 0, "learning_rate_decay", "at least 0")
        self._require(self.temperature_decay >= 0, "temperature_decay", "at least 0")
        self._require(self.learning_rate_decay <= FASTEST, "learning_rate_decay", f"at most {FASTEST}")
        self._require(self.temperature_decay <= FASTEST, "temperature_decay", f"at most {FASTEST}")

    @property
    def schedule(self) -> Schedule:
        """How rates change over time, in single precision."""
        return Schedule(
            np.float32(self.learning_rate),
            np.float32(self.learning_rate_decay),
            np.float32(1 / self.temperature),
            np.float32(self.temperature_decay),
        )


@dataclass(frozen=True)
class SimulatedSettings(Settings):
    """Settings of learners that train each agent with simulated teammates."""

    sync_probability: float = 0.3  # chance per step that simulated teammates are ready
    sync_literal: bool = False  # also for events that the agent alone controls, as the paper's text has it

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(0 < self.sync_probability <= 1, "sync_probability", "above 0 and at most 1")
