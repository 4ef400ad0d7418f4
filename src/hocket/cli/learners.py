"""learners: which learners there are, and every setting with its unit, default and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from hocket.cli.options import Flag, Json, option
from hocket.cli.terminal import make_console, print_entries, print_json
from hocket.learn.catalogue import LEARNERS, default_learner, find_learner
from hocket.learn.settings import DEVICES, SettingInfo, SettingValue, describe_settings

if TYPE_CHECKING:
    from hocket.learn.learner import Learner

WIDTH = 79  # columns
INDENT = "      "


@dataclass(frozen=True)
class ListLearners:
    """List the learners, or the settings of the learners that are named."""

    names: Annotated[Positional[tuple[str, ...]], option("LEARNER")] = ()
    """Learners whose settings to list."""
    markdown: Flag = False
    """Print the documentation page of all learners and settings."""
    json: Json = False

    def run(self) -> int:
        chosen = [find_learner(name) for name in self.names] or [*LEARNERS.values()]
        if self.json:
            return print_json({learner.name: _row(learner) for learner in chosen})
        if self.markdown:
            print(settings_page(chosen), end="")
            return 0
        console = make_console()
        for learner in chosen if self.names else ():
            print_entries(console, {learner.name: _in_a_sentence(learner)})
            for setting in describe_settings(learner.settings):
                print(_in_words(setting))
        if not self.names:
            print_entries(console, {learner.name: _in_a_sentence(learner) for learner in chosen})
            console.print("List the settings of a learner: hocket learners NAME", style="dim")
        return 0


def _row(learner: Learner) -> dict[str, object]:
    settings = [setting._asdict() for setting in describe_settings(learner.settings)]
    default_on = _default_on(learner)
    about = {"default": DEVICES[0] in default_on, "devices": list(learner.devices), "default_on": default_on}
    return {"summary": learner.summary, **about, "settings": settings}


def _default_on(learner: Learner) -> list[str]:
    """List the devices on which a learner trains where nobody names one."""
    return [device for device in DEVICES if default_learner(device) == learner.name]


def _in_a_sentence(learner: Learner) -> str:
    """Describe a learner, with the devices on which it trains."""
    here, *elsewhere = DEVICES
    default_on = _default_on(learner)
    remarks = ["the default"] if here in default_on else []
    for device in elsewhere:
        if device in learner.devices:
            remarks.append(f"also on {device}{', and the default there' if device in default_on else ''}")
    return "; ".join([learner.summary, *remarks])


def print_settings() -> None:
    """List the settings of all learners below the help of a command that takes them."""
    print("\nSettings for --set NAME=VALUE (all learners if none named):")
    for setting, names in shared_settings(LEARNERS.values()):
        print(_in_words(setting, () if len(names) == len(LEARNERS) else names))


def _in_words(setting: SettingInfo, names: Sequence[str] = ()) -> str:
    """Say all of a setting in a few lines.

    >>> discount = SettingInfo("discount", 0.9, "per step", "a number between 0 and 1", "what it is worth")
    >>> print(_in_words(discount, ["hil"]))
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
    """Write the page of docs that lists learners and settings."""
    rows = [
        f"| `{name}` | {as_written(default)} | {unit or '–'} | {meaning} | {rule} |"
        f" {'all' if len(names) == len(learners) else ', '.join(names)} |"
        for (name, default, unit, rule, meaning), names in shared_settings(learners)
    ]
    summaries = [f"- `{learner.name}`: {_in_a_sentence(learner)}." for learner in learners]
    return "\n".join([*PAGE, *summaries, "", "## Settings", "", *SETTINGS, "", *COLUMNS, *rows, ""])


PAGE = (
    "# Learners and settings",
    "",
    "`hocket learners` lists the learners, `hocket learners dqprm` the settings of one. This page is what",
    "`hocket learners --markdown` prints.",
    "",
    "## Learners",
    "",
)
SETTINGS = (
    "On the command line `--set learning_rate=0.5`, several values separated by commas; in a study's file under",
    '`[settings]`; in Python `hk.train(task, "dqprm", settings={"learning_rate": 0.5})`. A setting that no learner of',
    "those named has, or a value out of range, is an error; of several learners, those without it ignore it. Rewards",
    "are those of the task's machine: 1 for completing it, unless the task file gives others. A run keeps at most",
    "10,000,000 tests (of softmax and greedy policies together), and at most 500,000,000 numbers in them, one for each",
    "test and for each agent and event in it; more is an error before training starts.",
)
COLUMNS = ("| setting | default | unit | meaning | values | learners |", "| --- | --- | --- | --- | --- | --- |")
