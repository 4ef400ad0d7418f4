"""All learners by name; those of other packages are registered by a call, or are entry points (`hocket.learners`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points

from hocket.errors import HocketError, SettingsError, known_names, require_known, shown
from hocket.learn import cqrm, dqprm, hil, iql, optimal, optimal_team, sweep
from hocket.learn.learner import Learner, PolicyInput, ShapesOf
from hocket.learn.settings import DEFAULT_LEARNER, DEVICES, NAMED_SETTINGS, Settings, SettingValue, declared
from hocket.machine.names import check_name
from hocket.task.tables import compile_task
from hocket.task.task import Task

_FOLDERS = (dqprm, hil, iql, cqrm, optimal, sweep, optimal_team)  # in the order of their colours in figures
LEARNERS: dict[str, Learner] = {folder.LEARNER.name: folder.LEARNER for folder in _FOLDERS}

ALIASES = {"optimal-alone": optimal.LEARNER.name}
GROUP = "hocket.learners"  # of entry points


def check_learner(learner: object) -> Learner:
    """Require a learner whose name is free, or already its own, and whose settings are declared."""
    if not isinstance(learner, Learner):
        raise SettingsError(f"a learner is a value of hocket.learn.learner.Learner, got {shown(learner)}")
    check_name(learner.name, "a learner")
    if LEARNERS.get(learner.name, learner) != learner:
        raise SettingsError(f"there is another learner {shown(learner.name)} already")
    if not (isinstance(learner.settings, type) and issubclass(learner.settings, Settings)):
        kind = "a class derived from hocket.learn.settings.Settings"
        raise SettingsError(f"the settings of {learner.name} must be {kind}")
    declared(learner.settings)
    return learner


def load_plugins() -> None:
    """Add the learners of installed packages; warn of those that cannot be loaded, and leave them out."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            learner = check_learner(entry.load())
        except Exception as error:  # loading another package may raise anything
            reason = str(error) if isinstance(error, HocketError) else f"{type(error).__name__}: {error}"
            package = entry.dist.name if entry.dist else entry.value
            message = f"the learner {entry.name} of {package} is left out: {reason}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        else:
            LEARNERS[learner.name] = learner


load_plugins()


def register_learner(learner: Learner) -> Learner:
    """Register a learner by its name, in this process; return it.

    An installed package registers its learners everywhere, also for the command line and workers, by an entry point of
    the group `hocket.learners`.
    """
    LEARNERS[learner.name] = check_learner(learner)
    return learner


def find_learner(name: str) -> Learner:
    """Find a learner by its name."""
    if isinstance(name, str):
        name = ALIASES.get(name, name)
    if not isinstance(name, str) or name not in LEARNERS:
        raise SettingsError(f"learner {shown(name)} does not exist ({known_names(str(name), LEARNERS)})")
    return LEARNERS[name]


def default_learner(device: str) -> str:
    """Return the name of the default learner, or of the first that can train on the device."""
    require_known(device, DEVICES, "device")
    able = [name for name, learner in LEARNERS.items() if device in learner.devices]
    return DEFAULT_LEARNER if DEFAULT_LEARNER in able else able[0]


def require_setting(name: str, learners: Sequence[str]) -> None:
    """Refuse a setting that none of some learners has; say which learners have it, or suggest another name."""
    known = dict.fromkeys(setting for learner in learners for setting in declared(find_learner(learner).settings))
    if name in known:
        return
    name = str(name)
    everything = dict.fromkeys(setting for learner in LEARNERS.values() for setting in declared(learner.settings))
    near = next((setting for setting in everything if setting.replace("_", "") == name.replace("_", "")), name)
    others = [learner.name for learner in LEARNERS.values() if near in declared(learner.settings)]
    if near in known:
        hint = f"did you mean {near!r}?"
    elif others:
        hint = f"{'it' if near == name else near} is one of {', '.join(others)}"
    else:
        hint = known_names(name, known)
    raise SettingsError(f"{', '.join(learners)} {'has' if len(learners) == 1 else 'have'} no setting {name!r} ({hint})")


def named_settings(name: str, learners: Iterable[str]) -> dict[str, SettingValue]:
    """Return named settings, without those that none of some learners has.

    >>> named_settings("paper", ["optimal"])["sync_probability"]
    0.3
    """
    if name not in NAMED_SETTINGS:
        raise SettingsError(f"settings {name!r} do not exist ({known_names(name, NAMED_SETTINGS)})")
    known = {setting for learner in learners for setting in declared(find_learner(learner).settings)}
    return {setting: value for setting, value in NAMED_SETTINGS[name].items() if setting in known}


def shapes_on(task: Task) -> ShapesOf:
    """Return the shapes of each learner's arrays on a task; None for unknown learners."""
    tables = compile_task(task)
    return lambda name: LEARNERS[name].shapes(tables) if name in LEARNERS else None


def is_reference(name: str) -> bool:
    """Say whether a learner is a reference line; an unknown one is not."""
    return name in LEARNERS and LEARNERS[name].is_reference


def learners_with_input(*inputs: PolicyInput) -> list[str]:
    """List the learners whose policies depend on one of these inputs."""
    return [name for name, learner in LEARNERS.items() if learner.policy_input in inputs]


def references() -> list[str]:
    """List the learners that are reference lines."""
    return [name for name, learner in LEARNERS.items() if learner.is_reference]
