"""learners: which learners there are, and every setting with its unit, default and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tyro.conf import Positional

from hocket.cli.terminal import Flag, make_console, option, print_entries, print_json
from hocket.learn.devices import DEVICES
from hocket.learn.settings import Settings, declared

if TYPE_CHECKING:
    from hocket.learn.learner import Learner

WIDTH = 79  # columns
INDENT = "    "


class About(NamedTuple):
    """What a user has to know of a setting."""

    name: str
    default: bool | int | float
    unit: str  # empty for a plain number, and for what is true or false
    rule: str  # which values it may have
    meaning: str


def describe_settings(kind: type[Settings]) -> list[About]:
    """List the settings of a learner, as they are declared."""
    found = [(name, getattr(kind, name), own) for name, own in declared(kind).items()]
    return [About(name, value, own.unit, own.rule(type(value)), own.meaning) for name, value, own in found]


@dataclass(frozen=True)
class Learners:
    """List the learners, with a sentence each; of those that are named also every setting."""

    names: Annotated[Positional[tuple[str, ...]], option("LEARNER")] = ()
    """Learners whose settings to list."""
    markdown: Flag = False
    """Write the page of docs that lists all learners and settings."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.learn.catalogue import LEARNERS, find_learner  # loads the compiler

        chosen = [find_learner(name) for name in self.names] or [*LEARNERS.values()]
        if self.json:
            print_json({own.name: _row(own) for own in chosen})
        elif self.markdown:
            print(settings_page(chosen), end="")
        else:
            _print_learners(chosen, with_settings=bool(self.names))
        return 0


def _row(learner: Learner) -> dict[str, object]:
    settings = [own._asdict() for own in describe_settings(learner.settings)]
    default_on = _default_on(learner)
    about = {"default": DEVICES[0] in default_on, "devices": list(learner.devices), "default_on": default_on}
    return {"summary": learner.summary, **about, "settings": settings}


def _default_on(learner: Learner) -> list[str]:
    """List the devices on which a learner trains where nobody names one."""
    from hocket.learn.catalogue import default_learner  # loads the compiler

    return [device for device in DEVICES if default_learner(device) == learner.name]


def _in_a_sentence(learner: Learner) -> str:
    """Say what a learner is, and where it trains beside the processor."""
    here, *elsewhere = DEVICES
    default_on = _default_on(learner)
    remarks = ["the default"] if here in default_on else []
    for device in elsewhere:
        if device in learner.devices:
            remarks.append(f"also on {device}{', and the default there' if device in default_on else ''}")
    return "; ".join([learner.summary, *remarks])


def _print_learners(learners: Sequence[Learner], *, with_settings: bool) -> None:
    console = make_console()
    if not with_settings:
        print_entries(console, {own.name: _in_a_sentence(own) for own in learners})
        console.print("The settings of one: hocket learners NAME", style="dim")
        return
    for learner in learners:
        print_entries(console, {learner.name: _in_a_sentence(learner)})
        for own in describe_settings(learner.settings):
            print(_in_words(own))


def print_settings() -> None:
    """List the settings of all learners below the help of a command that takes them."""
    from hocket.learn.catalogue import LEARNERS  # loads the compiler

    print("\nFor --set NAME=VALUE (all learners, where none is named):")
    for own, names in shared_settings(LEARNERS.values()):
        print(_in_words(own, () if len(names) == len(LEARNERS) else names))


def _in_words(own: About, names: Sequence[str] = ()) -> str:
    """Say all of a setting in a few lines.

    >>> print(_in_words(About("discount", 0.9, "per step", "a number between 0 and 1", "what it is worth"), ["hil"]))
      discount=0.9 (per step; hil)
          what it is worth; a number between 0 and 1
    """
    remarks = "; ".join(filter(None, (own.unit, ", ".join(names))))
    head = f"{own.name}={as_written(own.default)}{f' ({remarks})' if remarks else ''}"
    width = min(WIDTH, get_terminal_size((WIDTH, 24)).columns)
    deep = INDENT + "  "
    lines = (
        fill(head, width, initial_indent="  ", subsequent_indent=deep),
        fill(f"{own.meaning}; {own.rule}", width, initial_indent=deep, subsequent_indent=deep),
    )
    return "\n".join(lines)


def as_written(value: bool | int | float) -> str:
    """Write a value as `--set` takes it.

    >>> as_written(True), as_written(4_000_000_000), as_written(1e-10)
    ('true', '4000000000', '1e-10')
    """
    return str(value).lower() if isinstance(value, bool) else repr(value)


def shared_settings(learners: Iterable[Learner]) -> list[tuple[About, list[str]]]:
    """List every setting once, with the learners that have it; those of most learners come first."""
    found: dict[About, list[str]] = {}
    for learner in learners:
        for own in describe_settings(learner.settings):
            found.setdefault(own, []).append(learner.name)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def settings_page(learners: Sequence[Learner]) -> str:
    """Write the page of docs that lists learners and settings."""
    rows = [
        f"| `{own.name}` | {as_written(own.default)} | {own.unit or '–'} | {own.meaning} | {own.rule} |"
        f" {'all' if len(names) == len(learners) else ', '.join(names)} |"
        for own, names in shared_settings(learners)
    ]
    said = [f"- `{own.name}`: {_in_a_sentence(own)}." for own in learners]
    return "\n".join([*PAGE, *said, "", "## Settings", "", *SETTINGS, "", *COLUMNS, *rows, ""])


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
    "those named has, or a value that makes no sense, is refused; of several learners, those that lack a setting run",
    "without it. Rewards are those of the task's machine: 1 for completing it, unless it says otherwise. A run keeps",
    "at most 10,000,000 tests (of softmax and greedy policies together), and at most 500,000,000 numbers in them, one",
    "for each test and for each agent and event in it; more is refused at once.",
)
COLUMNS = ("| setting | default | unit | meaning | values | learners |", "| --- | --- | --- | --- | --- | --- |")
