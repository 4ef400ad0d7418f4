"""train: tasks x learners x settings x seeds, from words of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from tyro.conf import Positional, UseAppendAction

from hocket.cli.runs import OnRuns
from hocket.cli.terminal import MaybeNumber, Number, Words, option
from hocket.errors import SettingsError
from hocket.learn.devices import DEVICES
from hocket.learn.settings import NEW_NAMES

Value = float | int | bool


@dataclass(frozen=True)
class Train(OnRuns):
    """Train each agent alone (or a baseline), and test the team every so often."""

    target: Annotated[Positional[tuple[str, ...]], option("TASK")]
    """Built-in names (buttons, rendezvous-3) or files (.toml, .json)."""
    learner: Annotated[str | None, option("LEARNER,...")] = None
    """sweep, dqprm, cqrm, iql, hil or optimal; several, separated by commas. If none, sweep; on cuda, dqprm."""
    seeds: Number = 10
    """How many runs."""
    steps: MaybeNumber = None
    """Training steps of each run; if not given, 25000 of sweep and 250000 of the others."""
    settings: Annotated[str | None, option("NAME")] = None
    """Settings by name, in place of the defaults: paper."""
    set: Annotated[UseAppendAction[Words], option("NAME=VALUE,...")] = ()
    """Settings one by one, such as sync_probability=1; of several values each has its runs."""

    def run(self) -> int:
        from hocket.learn.catalogue import default_learner, named_settings  # loads the compiler
        from hocket.study.study import Study
        from hocket.task.catalogue import load_task

        if not self.target:
            raise SettingsError("name a task to train on; `hocket tasks` lists those that come with hocket")
        usual = default_learner(self.device)
        learners = [usual] if self.learner is None else [name.strip() for name in self.learner.split(",")]
        tasks = [load_task(target) for target in self.target]
        named = {} if self.settings is None else named_settings(self.settings, learners)
        chosen = {**named, **parse_sweeps(self.set, learners)}
        study = Study(tasks, learners, self.seeds, self.steps, chosen)
        is_other = self.learner is None and usual != default_learner(DEVICES[0])
        return self.report(study, f"The learner is {usual}, the default on {self.device}." if is_other else "")


def parse_sweeps(words: Words, learners: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Read NAME=VALUE,... words by the types of the learners' settings."""
    from hocket.learn.catalogue import find_learner, require_setting  # loads the compiler

    kinds: dict[str, type] = {}
    for learner in learners:
        kinds |= {field.name: type(field.default) for field in fields(find_learner(learner).settings)}
    sweeps: dict[str, tuple[Value, ...]] = {}
    if () in words:
        raise SettingsError("--set takes words of the form NAME=VALUE or NAME=VALUE,VALUE,..., got none")
    for word in (word for group in words for word in group):
        name, equals, text = word.partition("=")
        name = NEW_NAMES.get(name.replace("-", "_"), name.replace("-", "_"))
        if not equals:
            raise SettingsError(f"--set takes words of the form NAME=VALUE or NAME=VALUE,VALUE,..., got {word!r}")
        require_setting(name, learners)
        sweeps[name] = tuple(dict.fromkeys(_value(name, part.strip(), kinds[name]) for part in text.split(",")))
    return sweeps


def _value(name: str, text: str, kind: type) -> Value:
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise SettingsError(f"{name} must be true or false, got {text!r}")
    try:
        return int(text.replace("_", "")) if kind is int else float(text)
    except ValueError:
        raise SettingsError(f"{name} must be {'an integer' if kind is int else 'a number'}, got {text!r}") from None
