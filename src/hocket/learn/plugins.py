"""Learners of other packages: registered by a call, or declared as entry points of the group `hocket.learners`."""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points

from hocket.errors import HocketError, SettingsError, shown
from hocket.learn.learner import Learner
from hocket.learn.settings import Settings, declared
from hocket.machine.names import check_name

GROUP = "hocket.learners"


def check_learner(learner: object, known: dict[str, Learner]) -> Learner:
    """Require a learner whose name is free, or its own, and whose settings are declared."""
    if not isinstance(learner, Learner):
        raise SettingsError(f"a learner is a value of hocket.learn.learner.Learner, got {shown(learner)}")
    check_name(learner.name, "a learner")
    if known.get(learner.name, learner) != learner:
        raise SettingsError(f"there is another learner {shown(learner.name)} already")
    if not (isinstance(learner.settings, type) and issubclass(learner.settings, Settings)):
        raise SettingsError(
            f"the settings of {learner.name} must be a class derived from hocket.learn.settings.Settings"
        )
    declared(learner.settings)
    return learner


def load_plugins(known: dict[str, Learner]) -> None:
    """Add the learners that installed packages declare; one that cannot be loaded is warned of and left out."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            learner = check_learner(entry.load(), known)
        except Exception as error:  # whatever another package does, hocket goes on without it
            _warn(entry, error)
        else:
            known[learner.name] = learner


def _warn(entry: EntryPoint, error: Exception) -> None:
    said = str(error) if isinstance(error, HocketError) else f"{type(error).__name__}: {error}"
    package = entry.dist.name if entry.dist else entry.value
    warnings.warn(f"the learner {entry.name} of {package} is left out: {said}", RuntimeWarning, stacklevel=3)
