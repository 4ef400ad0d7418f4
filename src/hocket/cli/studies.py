"""The work behind train, study, paper and report."""

from __future__ import annotations

import contextlib
import json
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hocket.cli import terminal
from hocket.errors import SettingsError, known_names
from hocket.learn.catalogue import find_learner
from hocket.report.summary import LAST_TESTS, RunGroup, Section, Summary, summarize
from hocket.study.engines import make_engine
from hocket.study.records import slug
from hocket.study.store import Results, load_results
from hocket.study.study import Study, Update, load_study, run_study
from hocket.task.catalogue import load_task

SHOWN_MEDIANS = 12  # groups on the progress display
BAR = 30  # characters

Value = float | int | bool
Words = tuple[tuple[str, ...], ...]  # of an option that may be given several times with several words


class Destination(NamedTuple):
    """Where a study runs, and where its results go."""

    out: Path | None
    engine: str = "threads"
    scheduler: str | None = None
    threads: int | None = None
    tensorboard: bool = False


# Running.


def train_and_report(
    targets: Sequence[str],
    learners: Sequence[str],
    seeds: int,
    steps: int,
    words: Words,
    destination: Destination,
    as_json: bool,
) -> int:
    """Train learners on tasks, keep the runs if asked, and sum them up."""
    tasks = [load_task(target) for target in targets]
    study = Study(tasks, learners, seeds, steps, parse_sweeps(words, learners))
    return study_and_report(study, destination, as_json)


def study_and_report(study: Study, destination: Destination, as_json: bool) -> int:
    """Run a study and sum it up. An interrupt ends it early and keeps the runs that are finished."""
    with contextlib.ExitStack() as stack:
        folder = destination.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        results, stopped = _run(study, folder, destination)
        summary = summarize(results)
    if as_json:
        print(json.dumps(_as_json(summary, stopped), indent=2))
    else:
        print_summary(summary, stopped=stopped, kept=destination.out is not None)
    return 130 if stopped else 0


def _run(study: Study, folder: Path, destination: Destination) -> tuple[Results, bool]:
    if destination.tensorboard:
        from hocket.study.tensorboard import check_available

        check_available()  # before any work
    engine = make_engine(destination.engine, destination.scheduler, destination.threads)
    with stopping() as stop, _Display() as display:
        results = run_study(study, folder, engine=engine, watch=display.show, stop=stop)
    if destination.tensorboard:
        from hocket.study.tensorboard import log_records

        log_records(results.records, folder / "tensorboard")
    return results, stop.is_set()


@contextlib.contextmanager
def stopping() -> Iterator[threading.Event]:
    """Turn the first interrupt into a wish to stop; a second one is an interrupt."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)


class _Display:
    """Shows how far a study is, on a terminal: jobs, speed, time left, and the medians of the latest tests."""

    def __init__(self) -> None:
        self.update: Update | None = None
        self.begin = time.perf_counter()
        console = terminal.make_console(stderr=True)
        console.soft_wrap = False
        self.live = Live(console=console, transient=True, refresh_per_second=8, get_renderable=self._render)
        self.is_shown = console.is_terminal

    def __enter__(self) -> _Display:
        if self.is_shown:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_shown:
            self.live.stop()

    def show(self, update: Update) -> None:
        """Take note of how far it is; drawing happens several times a second."""
        self.update = update

    def _render(self) -> RenderableType:
        update, seconds = self.update, time.perf_counter() - self.begin
        if update is None:
            return Text("compiling")
        share = update.steps / max(update.all_steps, 1)
        left = f"{seconds * (1 - share) / share:.0f} s left" if share else "compiling"
        line = Table.grid(padding=(0, 2))
        speed = f"{update.steps / seconds / 1e6:.1f} M agent-steps/s"
        bar = ProgressBar(total=max(update.all_steps, 1), completed=update.steps, width=BAR)
        line.add_row(f"{update.jobs:,} of {update.all_jobs:,} runs", bar, speed, left)
        medians = Table.grid(padding=(0, 2))
        for label, value in list(update.medians.items())[-SHOWN_MEDIANS:]:
            medians.add_row(Text(label, "dim"), Text(f"{value:,.0f} test steps", "dim"))
        return Stack(line, medians)


# Settings in words.


def parse_sweeps(words: Words, learners: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Read NAME=VALUE,... words by the types of the learners' settings."""
    kinds: dict[str, type] = {}
    for learner in learners:
        kinds |= {field.name: type(field.default) for field in fields(find_learner(learner).settings)}
    sweeps: dict[str, tuple[Value, ...]] = {}
    for word in (word for group in words for word in group):
        name, equals, text = word.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise SettingsError(f"--set takes words of the form NAME=VALUE or NAME=VALUE,VALUE,..., got {word!r}")
        if name not in kinds:
            raise SettingsError(f"{', '.join(learners)} has no setting {name!r} ({known_names(name, kinds)})")
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
        raise SettingsError(f"{name} must be a {'whole ' if kind is int else ''}number, got {text!r}") from None


# Summing up.


def _as_json(summary: Summary, stopped: bool) -> dict[str, object]:
    names = [section.title for section in summary.sections]
    rows = [_row(section, group) for section in summary.sections for group in section.all_groups]
    return {"task": names[0] if len(names) == 1 else None, "tasks": names, "stopped": stopped, "learners": rows}


def _row(section: Section, group: RunGroup) -> dict[str, object]:
    row: dict[str, object] = {"task": section.title, "learner": group.learner, "seeds": len(group.seeds)}
    row |= {"steps": group.steps, "settings": dict(group.apart)}
    for policy, final in group.finals.items():
        row[policy] = {"quartiles": list(final.quartiles), "success": final.success.value, "reaching": final.reaching}
    if (bounds := group.bounds) is not None:
        about = {"episodes": bounds.episodes, "lower": bounds.lower, "success": bounds.success.value}
        row["bounds"] = {**about, "upper": bounds.upper}
    return row


def print_summary(summary: Summary, *, stopped: bool = False, kept: bool = True) -> None:
    """Print the last tests of every learner, and the bounds on its success."""
    console = terminal.make_console()
    if stopped:
        console.print(f"Stopped early; {'runs that were finished are kept' if kept else 'some runs are missing'}.")
    many = len(summary.sections) > 1
    titles = ("learner", "seeds", "steps", "policy", "test steps: median (quartiles)", "success")
    table = [[Text(title, "dim") for title in (("task", *titles) if many else titles)]]
    for section in summary.sections:
        for group in section.all_groups:
            for policy, final in group.finals.items():
                low, middle, high = final.quartiles
                cells = (group.label, str(len(group.seeds)), f"{group.steps:,}", policy)
                shown = (*cells, f"{middle:g} ({low:g} to {high:g})", f"{final.success.value:.3f}")
                table.append([Text(cell) for cell in ((section.title, *shown) if many else shown)])
    terminal.print_columns(console, table)
    console.print(f"The last {LAST_TESTS} tests of each run; a failed test counts as its most steps.", style="dim")
    for section in summary.sections:
        for group in section.all_groups:
            if (bounds := group.bounds) is not None:
                where = f"{group.label} on {section.title}" if many else group.label
                within = f"{bounds.lower:.3f} <= V = {bounds.success.value:.3f} <= {bounds.upper:.3f}"
                console.print(f"Theorem 3 for {where}, over {bounds.episodes:,} episodes: {within}")
    _print_problems(summary)


def _print_problems(summary: Summary) -> None:
    console = terminal.make_console(stderr=True)
    for problem in summary.problems:
        console.print(f"hocket: left out: {problem}", style="yellow")


# Reports.


def report(folder: Path, out: Path | None, figures: Path | None, formats: Sequence[str], as_json: bool) -> int:
    """Write the page and, if asked, the figures of a folder of runs."""
    from hocket.report.page import write_report

    results = load_results(folder)
    summary = summarize(results)
    _print_problems(summary)
    if not results.records:
        raise SettingsError(f"{folder} has no runs in it{' that can be read' if results.problems else ''}")
    written = [write_report(summary, out or folder / "report.html")]
    if figures is not None:
        from hocket.report.figures import draw_figures

        written += draw_figures(results, figures, formats=formats)
    if as_json:
        print(json.dumps({"written": [str(path) for path in written], "missing": summary.missing}, indent=2))
    else:
        for path in written:
            print(path)
    return 0


def repeat_paper(seeds: int | None, quick: bool, destination: Destination, as_json: bool) -> int:
    """Run all of the paper's experiments, and write their report and its three figures."""
    from hocket.report.figures.curves import draw_curves
    from hocket.report.page import write_report

    begin = time.perf_counter()
    study = load_study("paper-quick" if quick else "paper", seeds)
    folder = destination.out or Path("runs/paper-quick" if quick else "runs/paper")
    results, stopped = _run(study, folder, destination)
    summary = summarize(results, "The paper's experiments" + (", in short" if quick else ""))
    written = [write_report(summary, folder / "report.html")]
    (folder / "figures").mkdir(exist_ok=True)
    for section in summary.sections if results.records else ():
        written.append(folder / "figures" / f"{slug(section.title)}.svg")
        draw_curves(section, written[-1])
    if as_json:
        about = {"written": [str(path) for path in written], "seconds": round(time.perf_counter() - begin, 2)}
        print(json.dumps(_as_json(summary, stopped) | about, indent=2))
    else:
        print_summary(summary, stopped=stopped)
        seconds = time.perf_counter() - begin
        print(f"{len(results.records)} runs and the report in {seconds:.0f} s: open {folder / 'report.html'}")
    return 130 if stopped else 0
