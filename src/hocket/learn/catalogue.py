"""All learners by name, those of other packages among them.

These are registered by a call, or declared as entry points of the group `hocket.learners`.
"""

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

# In the order in which figures give out their colours; a new one comes last.
LEARNERS: dict[str, Learner] = {
    folder.LEARNER.name: folder.LEARNER for folder in (dqprm, hil, iql, cqrm, optimal, sweep, optimal_team)
}

ALIASES = {"optimal-alone": optimal.LEARNER.name}
GROUP = "hocket.learners"  # of entry points


def check_learner(learner: object) -> Learner:
    """Require a learner whose name is free, or its own, and whose settings are declared."""
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
    """Add the learners that installed packages declare; one that cannot be loaded is warned of and left out."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            learner = check_learner(entry.load())
        except Exception as error:  # whatever another package does, hocket goes on without it
            said = str(error) if isinstance(error, HocketError) else f"{type(error).__name__}: {error}"
            package = entry.dist.name if entry.dist else entry.value
            told = f"the learner {entry.name} of {package} is left out: {said}"
            warnings.warn(told, RuntimeWarning, stacklevel=2)
        else:
            LEARNERS[learner.name] = learner


load_plugins()


def register_learner(learner: Learner) -> Learner:
    """Make a learner of one's own known by its name, in this process; return it.

    An installed package makes its learners known everywhere, also to the command line and to workers, by an entry point
    of the group `hocket.learners`.
    """
    checked = check_learner(learner)
    LEARNERS[checked.name] = checked
    return checked


def find_learner(name: str) -> Learner:
    """Find a learner by its name."""
    if isinstance(name, str):
        name = ALIASES.get(name, name)
    if not isinstance(name, str) or name not in LEARNERS:
        raise SettingsError(f"learner {shown(name)} does not exist ({known_names(str(name), LEARNERS)})")
    return LEARNERS[name]


def default_learner(device: str) -> str:
    """Name the learner that trains where nobody names one: the usual one, or the first that the device has."""
    require_known(device, DEVICES, "device")
    able = [name for name, learner in LEARNERS.items() if device in learner.devices]
    return DEFAULT_LEARNER if DEFAULT_LEARNER in able else able[0]


def require_setting(name: str, learners: Sequence[str]) -> None:
    """Refuse a setting that none of some learners has; say who has it, or what it could have been."""
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
    """Find settings by their name; those that none of some learners has are left out.

    >>> named_settings("paper", ["optimal"])["sync_probability"]
    0.3
    """
    if name not in NAMED_SETTINGS:
        raise SettingsError(f"settings {name!r} do not exist ({known_names(name, NAMED_SETTINGS)})")
    known = {setting for learner in learners for setting in declared(find_learner(learner).settings)}
    return {setting: value for setting, value in NAMED_SETTINGS[name].items() if setting in known}


def shapes_on(task: Task) -> ShapesOf:
    """Say of a task which arrays learners learn; of a learner from elsewhere nobody knows."""
    tables = compile_task(task)
    return lambda name: LEARNERS[name].shapes(tables) if name in LEARNERS else None


def is_reference(name: str) -> bool:
    """Say whether a learner is a line to compare others with; one from elsewhere never is."""
    return name in LEARNERS and LEARNERS[name].is_reference


def learners_with_input(*inputs: PolicyInput) -> list[str]:
    """List the learners whose policies depend on one of these inputs."""
    return [name for name, learner in LEARNERS.items() if learner.policy_input in inputs]


def references() -> list[str]:
    """List the learners that learn nothing, and act well at once."""
    return [name for name, learner in LEARNERS.items() if learner.is_reference]
