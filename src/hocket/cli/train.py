"""train: tasks x learners x settings x seeds, from command-line arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import MaybeNumber, MaybePath, MaybeText, Number, Words, flat, names, option
from hocket.cli.runs import TrackedOptions
from hocket.errors import SettingsError
from hocket.learn.settings import DEVICES, NEW_NAMES, SettingValue


@dataclass(frozen=True)
class Train(TrackedOptions):
    """Train each agent alone (or a baseline), with regular tests of the team."""

    target: Annotated[Positional[tuple[str, ...]], option("TASK")]
    """Built-in names (buttons, rendezvous-3) or files (.toml, .json)."""
    learner: Annotated[MaybeText, option("LEARNER,...")] = None
    """One or more of sweep, dqprm, cqrm, iql, hil and optimal, separated by commas (default: sweep; on cuda, dqprm)."""
    seeds: Number = 10
    """Number of runs, each with its own seed."""
    steps: MaybeNumber = None
    """Training steps per run (default: 25000 for sweep, 250000 for the others)."""
    settings: Annotated[MaybeText, option("NAME")] = None
    """Named settings instead of the defaults: paper."""
    world: Annotated[MaybePath, option("FOLDER")] = None
    """Begin with what the runs in this folder have learnt of the same map; then --steps 0 plans without training."""
    set: Annotated[Words, option("NAME=VALUE,...")] = ()
    """A setting, such as sync_probability=1. Several values give several groups of runs."""

    def run(self) -> int:
        from hocket.learn.catalogue import default_learner, named_settings
        from hocket.study.study import Study
        from hocket.task.catalogue import load_task

        if not self.target:
            raise SettingsError("name a task to train on; `hocket tasks` lists those that come with hocket")
        usual = default_learner(self.device)
        learners = [usual] if self.learner is None else names(self.learner)
        tasks = [load_task(target) for target in self.target]
        named = {} if self.settings is None else named_settings(self.settings, learners)
        chosen = {**named, **parse_sweeps(self.set, learners)}
        study = Study(tasks, learners, self.seeds, self.steps, chosen, world=self.world)
        is_other = self.learner is None and usual != default_learner(DEVICES[0])
        return self.execute(study, f"Training with {usual}, the default on {self.device}." if is_other else "")


def parse_sweeps(words: Words, learners: Sequence[str]) -> dict[str, tuple[SettingValue, ...]]:
    """Read NAME=VALUE,... words by the types of the learners' settings."""
    from hocket.learn.catalogue import find_learner, require_setting

    kinds: dict[str, type] = {}
    for learner in learners:
        kinds |= {field.name: type(field.default) for field in fields(find_learner(learner).settings)}
    sweeps: dict[str, tuple[SettingValue, ...]] = {}
    if () in words:
        raise SettingsError("--set takes words of the form NAME=VALUE or NAME=VALUE,VALUE,..., got none")
    for word in flat(words):
        name, equals, text = word.partition("=")
        name = NEW_NAMES.get(name.replace("-", "_"), name.replace("-", "_"))
        if not equals:
            raise SettingsError(f"--set takes words of the form NAME=VALUE or NAME=VALUE,VALUE,..., got {word!r}")
        if "=" in text:
            raise SettingsError(f"--set takes several settings as words with blanks between them, got {word!r}")
        require_setting(name, learners)
        sweeps[name] = tuple(dict.fromkeys(_value(name, part.strip(), kinds[name]) for part in text.split(",")))
    return sweeps


def _value(name: str, text: str, kind: type) -> SettingValue:
    if kind is str:
        return text
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise SettingsError(f"{name} must be true or false, got {text!r}")
    try:
        return int(text.replace("_", "")) if kind is int else float(text)
    except ValueError:
        raise SettingsError(f"{name} must be {'an integer' if kind is int else 'a number'}, got {text!r}") from None
