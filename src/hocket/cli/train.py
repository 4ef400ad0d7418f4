"""train, learners, survey, bench: training, lists of learners and settings, exploring maps, and training speed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from tyro.conf import Positional

from hocket.cli.options import Flag, Json, MaybeNumber, MaybePath, MaybeText, Number, Words, flat, names, option
from hocket.cli.study import TrackedOptions
from hocket.cli.terminal import make_console, print_entries, print_json, print_table
from hocket.errors import SettingsError, printable, require_known
from hocket.learn.catalogue import LEARNERS, default_learner, find_learner, named_settings, require_setting
from hocket.learn.settings import DEVICES, NEW_NAMES, SettingInfo, SettingValue, describe_settings
from hocket.task.catalogue import load_task

if TYPE_CHECKING:
    from hocket.learn.benchmark import Measurement
    from hocket.learn.learner import Learner

ALGEBRA_AGENTS = 10  # of the task whose decomposition is timed
WIDTH, INDENT = 79, "      "  # of the text on settings, in columns
SET_FORM = "--set takes words of the form NAME=VALUE or NAME=VALUE,VALUE,..."


@dataclass(frozen=True)
class Train(TrackedOptions):
    """Train each agent alone (or a baseline), with regular tests of the team."""

    target: Annotated[Positional[tuple[str, ...]], option("TASK")]  # Names (buttons, rendezvous-3) or files.
    learner: Annotated[MaybeText, option("LEARNER,...")] = None
    """One or more of sweep, dqprm, cqrm, iql, hil and optimal, separated by commas (default: sweep; on cuda, dqprm)."""
    seeds: Number = 10  # Number of runs, each with its own seed.
    steps: MaybeNumber = None  # Training steps per run (default: 25000 for sweep, 250000 for the others).
    settings: Annotated[MaybeText, option("NAME")] = None  # A named set of settings instead of the defaults: "paper".
    world: Annotated[MaybePath, option("FOLDER")] = None
    """Begin with the world model that the runs in this folder have learnt; then --steps 0 plans without training."""
    set: Annotated[Words, option("NAME=VALUE,...")] = ()  # A setting; several values give several groups of runs.

    def run(self) -> int:
        from hocket.study.study import Study

        if not self.target:
            raise SettingsError("name a task to train on; `hocket tasks` lists those that come with hocket")
        default = default_learner(self.device)
        learners = [default] if self.learner is None else names(self.learner)
        tasks = [load_task(target) for target in self.target]
        named = {} if self.settings is None else named_settings(self.settings, learners)
        chosen = {**named, **parse_sweeps(self.set, learners)}
        study = Study(tasks, learners, self.seeds, self.steps, chosen, world=self.world)
        is_special = self.learner is None and default != default_learner(DEVICES[0])
        return self.execute(study, f"Training with {default}, the default on {self.device}." if is_special else "")


def parse_sweeps(words: Words, learners: Sequence[str]) -> dict[str, tuple[SettingValue, ...]]:
    """Read NAME=VALUE,... words by the types of the learners' settings."""
    kinds: dict[str, type] = {}
    for learner in learners:
        kinds |= {field.name: type(field.default) for field in fields(find_learner(learner).settings)}
    sweeps: dict[str, tuple[SettingValue, ...]] = {}
    if () in words:
        raise SettingsError(f"{SET_FORM}, got none")
    for word in flat(words):
        name, equals, text = word.partition("=")
        name = NEW_NAMES.get(name.replace("-", "_"), name.replace("-", "_"))
        if not equals:
            raise SettingsError(f"{SET_FORM}, got {word!r}")
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


@dataclass(frozen=True)
class ListLearners:
    """List the learners, or the settings of the learners that are named."""

    names: Annotated[Positional[tuple[str, ...]], option("LEARNER")] = ()  # Learners whose settings are listed.
    markdown: Flag = False  # Print the documentation page of all learners and settings.
    json: Json = False

    def run(self) -> int:
        chosen = [find_learner(name) for name in self.names] or [*LEARNERS.values()]
        if self.json:
            return print_json({learner.name: _row(learner) for learner in chosen})
        if self.markdown:
            print(settings_page(chosen), end="")
            return 0
        console = make_console()
        if not self.names:
            print_entries(console, {learner.name: _describe(learner) for learner in chosen})
            console.print("List the settings of a learner: hocket learners NAME", style="dim")
            return 0
        for learner in chosen:
            print_entries(console, {learner.name: _describe(learner)})
            for setting in describe_settings(learner.settings):
                print(_describe_setting(setting))
        return 0


def _row(learner: Learner) -> dict[str, object]:
    settings = [setting._asdict() for setting in describe_settings(learner.settings)]
    default_on = _default_on(learner)
    about = {"default": DEVICES[0] in default_on, "devices": list(learner.devices), "default_on": default_on}
    return {"summary": learner.summary, **about, "settings": settings}


def _default_on(learner: Learner) -> list[str]:
    """List the devices on which a learner is the default."""
    return [device for device in DEVICES if default_learner(device) == learner.name]


def _describe(learner: Learner) -> str:
    """Describe a learner, with the devices on which it trains."""
    default_on = _default_on(learner)
    remarks = [learner.summary, *(["the default"] if DEVICES[0] in default_on else [])]
    for device in DEVICES[1:]:
        if device in learner.devices:
            remarks.append(f"also on {device}{', and the default there' if device in default_on else ''}")
    return "; ".join(remarks)


def print_settings() -> None:
    """List the settings of all learners below the help of a command that takes them."""
    print("\nSettings for --set NAME=VALUE (all learners if none named):")
    for setting, users in shared_settings(LEARNERS.values()):
        print(_describe_setting(setting, () if len(users) == len(LEARNERS) else users))


def _describe_setting(setting: SettingInfo, names: Sequence[str] = ()) -> str:
    """Describe a setting in a few lines.

    >>> discount = SettingInfo("discount", 0.9, "per step", "a number between 0 and 1", "what it is worth")
    >>> print(_describe_setting(discount, ["hil"]))
      discount=0.9 (per step; hil)
          what it is worth; a number between 0 and 1
    """
    remarks = "; ".join(filter(None, (setting.unit, ", ".join(names))))
    head = f"{setting.name}={as_written(setting.default)}{f' ({remarks})' if remarks else ''}"
    width = min(WIDTH, get_terminal_size((WIDTH, 24)).columns)
    lines = (("  ", head), (INDENT, f"{setting.meaning}; {setting.rule}"))
    return "\n".join(fill(line, width, initial_indent=first, subsequent_indent=INDENT) for first, line in lines)


def as_written(value: SettingValue) -> str:
    """Write a value as `--set` takes it.

    >>> as_written(True), as_written(4_000_000_000), as_written(1e-10), as_written("flat")
    ('true', '4000000000', '1e-10', 'flat')
    """
    return str(value).lower() if isinstance(value, bool | str) else repr(value)


def shared_settings(learners: Iterable[Learner]) -> list[tuple[SettingInfo, list[str]]]:
    """List every setting once, with the learners that have it; those of most learners come first."""
    users: dict[SettingInfo, list[str]] = {}
    for learner in learners:
        for setting in describe_settings(learner.settings):
            users.setdefault(setting, []).append(learner.name)
    return sorted(users.items(), key=lambda item: -len(item[1]))


def settings_page(learners: Sequence[Learner]) -> str:
    """Write the documentation page of learners and settings."""
    rows = [
        f"| `{name}` | {as_written(default)} | {unit or '–'} | {meaning} | {rule} |"
        f" {'all' if len(users) == len(learners) else ', '.join(users)} |"
        for (name, default, unit, rule, meaning), users in shared_settings(learners)
    ]
    summaries = [f"- `{learner.name}`: {_describe(learner)}." for learner in learners]
    page = files("hocket.cli").joinpath("settings.md").read_text("utf-8")
    return page % {"learners": "\n".join(summaries), "settings": "\n".join(rows)}


@dataclass(frozen=True)
class SurveyMap:
    """Explore the map of a task, without its machine, until every move was tried; then tasks on it can be planned."""

    target: Annotated[Positional[str], option("TASK")]  # A name or a file; only its map, gates and starts are used.
    out: Annotated[MaybePath, option("FOLDER", "-o")] = None  # Save the world model here, for `hocket train --world`.
    draw: Annotated[MaybePath, option("FILE")] = None  # Draw the world model (.svg, .png, .pdf).
    tries: Number = 4  # Number of times to try each move; 1 is enough if moves never slip.
    seed: Number = 0  # Random seed of slips.
    json: Json = False

    def run(self) -> int:
        from hocket.learn.survey import survey
        from hocket.study.store import keep_world

        task = load_task(self.target)
        done = survey(task, self.tries, seed=self.seed)
        if self.out is not None:
            keep_world(self.out, task, done.world, f"survey-{self.seed}")
        if self.draw is not None:
            from hocket.report.figures.maps import draw_world  # loads matplotlib

            draw_world(done.world, self.draw)
        if self.json:
            counts = {"moves": len(done.world.move), "steps": done.steps, "fewest_steps": done.fewest_steps}
            return print_json({"task": task.name, **counts, "complete": done.is_complete}, ok=done.is_complete)
        console = make_console()
        console.print(f"Surveyed the map of {printable(task.name)}: {len(done.world.move):,} moves in {done}.")
        next_step = "Nothing was saved. Save the world model with --out FOLDER."
        if self.out is not None:
            folder = shlex.quote(printable(str(self.out)))
            next_step = f"Plan any task on this map without training: hocket train TASK --world {folder} --steps 0"
        console.print(next_step, style="dim")
        return 0 if done.is_complete else 1


@dataclass(frozen=True)
class Bench:
    """Measure training speed on this machine, and its ratio to a plain loop measured in the same run."""

    tasks: Annotated[tuple[str, ...], option("TASK")] = ("rendezvous-2", "buttons")  # Tasks to train on.
    device: Annotated[str, option("DEVICE")] = "cpu"  # cpu, or cuda to compare a GPU with one CPU core.
    json: Json = False

    def run(self) -> int:
        require_known(self.device, DEVICES, "device")
        return self._on_cpu() if self.device == "cpu" else self._on_device()

    def _on_cpu(self) -> int:
        from hocket.learn.benchmark import ROUNDS, measure_algebra, measure_learning  # loads the compiler

        rows = [row for name in self.tasks for row in measure_learning(name)]
        seconds, task = measure_algebra(ALGEBRA_AGENTS), f"rendezvous-{ALGEBRA_AGENTS}"
        if self.json:
            return print_json({"learning": [asdict(row) for row in rows], f"decompose {task} (s)": seconds})
        console = make_console()
        _print_speeds(console, rows, "program, on one core")
        console.print(f"Decomposing {task} with all its states takes {seconds * 1000:.1f} ms.")
        load = f" Load average: {os.getloadavg()[0]:.1f}." if hasattr(os, "getloadavg") else ""
        method = f"CPU time; median of {ROUNDS} rounds, alternating between the compared programs.{load}"
        console.print(method, style="dim")
        return 0

    def _on_device(self) -> int:
        from hocket.learn.benchmark import measure_device  # loads the compiler and CUDA

        results = [measure_device(name) for name in self.tasks]
        if self.json:
            return print_json({name: asdict(result) for name, result in zip(self.tasks, results, strict=True)})
        console = make_console()
        _print_speeds(console, [row for result in results for row in result.speeds], f"program, on {results[0].device}")
        same = all(result.same_bits for result in results)
        console.print(f"The learnt values {'equal' if same else 'DIFFER from'} those of the CPU, bit for bit.")
        return 0 if same else 1


def _print_speeds(console: Console, rows: Sequence[Measurement], title: str) -> None:
    cells = [(f"{row.per_second / 1e6:,.1f}", f"{row.ratio:,.2f}", row.what) for row in rows]
    print_table(console, ("M agent-steps/s", "ratio", title), cells)
