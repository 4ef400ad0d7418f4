"""Settings that learners share, with the paper's values as defaults; values are checked on construction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from hocket.errors import SettingsError, shown
from hocket.lazy import warn_deprecated

DEFAULT_LEARNER = "sweep"
DEVICES = ("cpu", "cuda")  # on which runs train
MOST_STEPS = 10**12  # of training
LONGEST_EPISODE = 10**6  # steps, as a recording has an entry for each

SettingValue = bool | int | float | str
Value = TypeVar("Value", bool, int, float, str)
Stored = TypeVar("Stored")  # a value, or several


@dataclass(frozen=True)
class Setting:
    """The meaning, unit and range of a setting, whose values are of its default's type."""

    default: SettingValue
    meaning: str  # without a full stop
    unit: str = ""  # in the plural; none for a plain number
    least: float = -math.inf
    most: float = math.inf
    above: float | None = None  # in place of `least`, which would be included
    choices: tuple[str, ...] = ()  # of a setting that is a word
    is_open: bool = False  # whether a digest is allowed, too

    def __post_init__(self) -> None:
        bounds = (self.least if self.above is None else self.above, self.most)
        if isinstance(self.default, str):
            if self.default not in self.choices:
                raise TypeError(
                    f"a setting that is a word has choices, and {self.meaning!r} has none for {self.default!r}"
                )
        elif not isinstance(self.default, bool) and any(map(math.isinf, bounds)):
            raise TypeError(f"a setting that is a number has a range, and {self.meaning!r} has none")

    def allows(self, value: object) -> bool:
        """Say whether a value is of the right type and in range."""
        kind = type(self.default)
        if kind is str:
            return isinstance(value, str) and (value in self.choices or (self.is_open and value.isalnum()))
        if kind is bool or isinstance(value, bool):
            return isinstance(value, bool) and kind is bool
        if not isinstance(value, int if kind is int else (int, float)):
            return False
        return value <= self.most and (value >= self.least if self.above is None else value > self.above)

    @property
    def rule(self) -> str:
        """The allowed values, in words.

        >>> Setting(0.9, "discount factor", "per step", least=0, most=1).rule
        'a number between 0 and 1'
        """
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return " or ".join((*self.choices, *["a digest"] * self.is_open))
        kind = "an integer" if isinstance(self.default, int) else "a number"
        least, most = map(_number, (self.least if self.above is None else self.above, self.most))
        words = "between {} and {}" if self.above is None else "above {} and at most {}"
        return f"{kind} {words.format(least, most)}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def setting(default: Value, meaning: str, unit: str = "", **allowed: Any) -> Value:  # noqa: ANN401 (see `Setting`)
    """Declare a field of a settings class; a number needs both ends of its range, a word its choices."""
    return field(default=default, metadata={"setting": Setting(default, meaning, unit, **allowed)})


def world_setting() -> str:
    """Declare the setting for the digest of the world that training begins with."""
    meaning = "digest of the world model that training begins with (set by --world)"
    return setting("none", meaning, choices=("none",), is_open=True)


def bootstrap_setting() -> bool:
    """Declare the setting of learners that may bootstrap on the last step of an episode."""
    return setting(True, "bootstrap also on the step that completes the task, as published; false: as in textbooks")


def declared(kind: type[Settings]) -> dict[str, Setting]:
    """List the settings of a learner by name, without those that it does not use.

    >>> declared(Settings)["discount"].most
    1
    """
    for field_ in fields(kind):
        if "setting" not in field_.metadata:
            raise TypeError(f"{kind.__name__}.{field_.name} must be declared with `setting`, which gives it a range")
    return {field_.name: field_.metadata["setting"] for field_ in fields(kind) if field_.name not in kind.unused}


def used_settings(settings: Settings) -> dict[str, SettingValue]:
    """Return the settings that a learner uses, by name."""
    return {name: getattr(settings, name) for name in declared(type(settings))}


def name_value(name: str, value: SettingValue) -> str:
    """Write a setting in a few characters.

    >>> name_value("discount", 0.9), name_value("prior", "flat")
    ('discount=0.9', 'prior=flat')
    """
    return f"{name}={value}" if isinstance(value, str) else f"{name}={value:g}"


class SettingInfo(NamedTuple):
    """A setting as users see it."""

    name: str
    default: SettingValue
    unit: str  # empty for plain numbers, words and Booleans
    rule: str  # the allowed values, in words
    meaning: str


def describe_settings(kind: type[Settings]) -> list[SettingInfo]:
    """List the settings of a learner."""
    return [SettingInfo(name, it.default, it.unit, it.rule, it.meaning) for name, it in declared(kind).items()]


class LearningRule(NamedTuple):
    """Settings as kernels take them; several rules are one of these, with arrays as fields."""

    learning_rate: np.float32
    learning_rate_decay: np.float32  # the rate at step t is learning_rate / (1 + decay * t)
    beta: np.float32  # inverse temperature
    beta_growth: np.float32  # at step t it is beta * (1 + growth * t)
    discount: np.float32
    max_episode_steps: int  # at most
    counterfactual: bool  # learn for all machine states in every step
    bootstrap_past_end: bool  # also on the step that completes the task


@dataclass(frozen=True)
class Settings:
    """The settings of all learners; a learner names those that it does not use."""

    unused: ClassVar[frozenset[str]] = frozenset()  # fields that keep their defaults, and are part of a record's key
    added: ClassVar[Mapping[str, SettingValue]] = {}  # fields that are newer than stored runs, with the value of those

    discount: float = setting(
        0.9, "discount factor: what a reward is worth one step later", "per step", least=0, most=1
    )
    learning_rate: float = setting(0.8, "learning rate: how far a value moves towards its target", above=0, most=1)
    temperature: float = setting(
        0.02, "temperature of softmax policies, in tests and for exploration", "reward", least=1e-6, most=1e6
    )
    max_episode_steps: int = setting(
        1_000, "step limit of an episode, in training and in tests", "steps", least=1, most=LONGEST_EPISODE
    )
    test_every: int = setting(1_000, "training steps between tests", "training steps", least=1, most=MOST_STEPS)
    test_episodes: int = setting(
        1, "episodes per test of each kind of policy, softmax and greedy", "episodes", least=0, most=10**6
    )

    def __post_init__(self) -> None:
        for name, about in declared(type(self)).items():
            if not about.allows(value := getattr(self, name)):
                raise SettingsError(f"{name} must be {about.rule}, got {shown(value)}")
        for name in sorted(self.unused):
            value, usual = getattr(self, name), getattr(type(self), name)
            if value != usual:
                raise SettingsError(f"{name} is not used by this learner and stays {usual}, got {shown(value)}")

    @property
    def rule(self) -> LearningRule:
        """These settings as kernels take them, in single precision."""
        beta, rate, discount = map(np.float32, (1 / self.temperature, self.learning_rate, self.discount))
        decay, growth = (np.float32(getattr(self, f"{name}_decay", 0)) for name in ("learning_rate", "temperature"))
        flags = (getattr(self, name, False) for name in ("counterfactual", "bootstrap_past_end"))
        return LearningRule(rate, decay, beta, growth, discount, self.max_episode_steps, *flags)


def _decay_setting(what: str, name: str) -> float:
    meaning = f"decay: the {what} at step t is {name} / (1 + decay * t)"
    return setting(0.0, meaning, "per training step", least=0, most=1e6)


@dataclass(frozen=True)
class ScheduledSettings(Settings):
    """Settings of learners whose rates may change over time."""

    learning_rate_decay: float = _decay_setting("learning rate", "learning_rate")
    temperature_decay: float = _decay_setting("temperature", "temperature")


@dataclass(frozen=True)
class SimulatedSettings(Settings):
    """Settings of learners that train each agent with simulated teammates."""

    sync_probability: float = setting(
        0.3, "probability that simulated teammates are ready", "per step", above=0, most=1
    )
    sync_literal: bool = setting(
        False, "draw readiness also for shared events that only the agent controls, as the paper's text says"
    )


FORMER_NAMES = {"max_episode_steps": "episode_steps", "priority_threshold": "least_change"}
NEW_NAMES = {former: name for name, former in FORMER_NAMES.items()}
FORMER_VALUES: Mapping[str, Mapping[str, bool]] = {"team_review": {"imagined": True, "off": False}}  # by new value


def rename_settings(settings: Mapping[str, Stored], *, warn: bool = False) -> dict[str, Stored]:
    """Rename settings that have a former name or value, as older folders and study files have them.

    >>> rename_settings({"episode_steps": 50, "discount": 0.9, "team_review": False})
    {'max_episode_steps': 50, 'discount': 0.9, 'team_review': 'off'}
    """
    for former in NEW_NAMES.keys() & settings.keys() if warn else ():
        warn_deprecated(f"the setting {former} is deprecated: use {NEW_NAMES[former]}")
    return {NEW_NAMES.get(name, name): _rename_value(name, value) for name, value in settings.items()}


def _rename_value(name: str, value: Any) -> Any:  # noqa: ANN401
    """Replace a Boolean by its new word, also in a list of values."""
    if name in FORMER_VALUES and isinstance(value, list | tuple):
        return [_rename_value(name, each) for each in value]
    words = {str(former).lower(): word for word, former in FORMER_VALUES.get(name, {}).items()}
    return words.get(str(value).lower(), value) if isinstance(value, bool | str) else value


def former_settings(settings: Mapping[str, SettingValue], added: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """Return settings under their first names and values, of which the key of a run is made; settings that were added
    later (`Settings.added`) are left out where they have the value that all runs had before.

    >>> former_settings({"discount": 1, "prior": "distance", "team_review": "imagined"}, {"prior": "distance"})
    {'discount': 1, 'team_review': True}
    >>> former_settings({"max_episode_steps": 50, "team_review": "off"}, {"team_review": "off"})
    {'episode_steps': 50}
    """
    kept = [(name, value) for name, value in settings.items() if name not in added or value != added[name]]
    return {FORMER_NAMES.get(name, name): FORMER_VALUES.get(name, {}).get(str(value), value) for name, value in kept}


# Settings by name. Those that a learner does not have are left out.
NAMED_SETTINGS: Mapping[str, Mapping[str, SettingValue]] = {
    "paper": {
        "discount": 0.9,
        "learning_rate": 0.8,
        "temperature": 0.02,
        "sync_probability": 0.3,
        "max_episode_steps": 1_000,
        "test_every": 1_000,
        "test_episodes": 1,
        "wait_for_team": True,  # as in the public code, of which the published curves are
        "bootstrap_past_end": True,  # likewise
    },
}
