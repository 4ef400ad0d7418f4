"""What train, study and paper share: where runs happen, and where they are kept."""

from __future__ import annotations

import logging
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from hocket.cli.interrupt import stopping
from hocket.cli.options import Flag, MaybeNumber, MaybePath, MaybeText, names, option
from hocket.cli.terminal import make_console, print_json
from hocket.errors import HocketError, SettingsError, printable

if TYPE_CHECKING:
    from hocket.report.summary import Summary
    from hocket.study.engines import Engine
    from hocket.study.store import Results
    from hocket.study.study import Study

MOST_ON_LEAVING = 1_000_000  # tests that are still summed up when a signal has come


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where runs happen, and where they are kept."""

    out: Annotated[MaybePath, option("FOLDER", "-o")] = None
    """Output folder for curves, settings and policies. Runs that are already there are not repeated."""
    engine: Annotated[str, option("ENGINE")] = "threads"
    """Where to run: threads (this machine) or dask (a cluster)."""
    scheduler: Annotated[MaybeText, option("ADDRESS")] = None
    """Address of the dask scheduler, such as tcp://10.0.0.1:8786."""
    threads: MaybeNumber = None
    """Number of threads (default: one per core)."""
    device: Annotated[str, option("DEVICE")] = "cpu"
    """cpu, or cuda: a GPU, which trains thousands of runs at once with the same results."""
    policies: MaybeNumber = None
    """With --device cuda, keep the policies of seeds below N (default: 10)."""
    tensorboard: Flag = False
    """Also write TensorBoard logs."""
    json: Flag = False
    """Print one JSON object."""

    def execute(self, study: Study, note: str = "") -> int:
        """Run a study, keep its runs if there is a folder for them, and print a summary; a note is printed first."""
        from hocket.cli.results import print_results, results_as_json
        from hocket.study.preflight import warnings

        if self.trackers and self.out is None:
            raise SettingsError(f"logs for {', '.join(self.trackers)} need a folder to write to: --out FOLDER")
        engine, console = self.choose_engine(study), make_console(stderr=True)
        if note:
            console.print(note, style="dim")
        for line in warnings(study):
            console.print(f"Warning: {line}", style="yellow")
        with ExitStack() as stack:
            folder = self.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            done = self.work(study, folder, engine)
            summary = done.summary()
        if self.json:
            print_json(results_as_json(summary, done.is_stopped))
        else:
            print_results(summary, stopped=done.is_stopped, kept=self.out is not None)
            if done.is_brief:
                make_console().print(
                    f"No summary: {len(done.results.records):,} runs have too many tests to stop fast."
                )
            make_console().print(_what_next(self.out), style="dim")
        return done.exit_code()

    @property
    def trackers(self) -> list[str]:
        """The tools that curves are logged with."""
        return ["tensorboard"] if self.tensorboard else []

    def choose_engine(self, study: Study) -> Engine:
        """Make the engine for a study; refuse one that is not available."""
        from hocket.study.engines import DeviceEngine, make_engine  # loads the compiler

        with _without_logs():
            engine = make_engine(self.engine, self.scheduler, self.threads, self.device, self.policies)
        if isinstance(engine, DeviceEngine):
            engine.require([group.learner for group in study.groups()])
        return engine

    def work(self, study: Study, folder: Path, engine: Engine) -> StudyOutcome:
        """Run a study until it is finished, a signal comes or the cluster fails; finished runs are kept."""
        from hocket.cli.progress import Progress
        from hocket.study.running import UnfinishedError, run_study
        from hocket.study.trackers import check_available, log_records

        for tracker in self.trackers:
            check_available(tracker)  # before any work
        failure = None
        with _without_logs(), stopping() as stop, Progress() as progress:
            try:
                results = run_study(study, folder, engine=engine, watch=progress.show, stop=stop)
            except UnfinishedError as error:
                results, failure = error.results, error
        for tracker in self.trackers if not stop.code else ():
            log_records(results.records, folder, tracker)
        return StudyOutcome(results, stop.code, failure)


@dataclass(frozen=True, kw_only=True)
class TrackedOptions(RunOptions):
    """The same, with the tools that curves are logged with."""

    log: Annotated[str, option("TRACKER,...")] = ""
    """Also log the curves with tensorboard, mlflow (both in the folder) or wandb (sent to its server)."""

    @property
    def trackers(self) -> list[str]:
        return list(dict.fromkeys([*super().trackers, *names(self.log)]))


@contextmanager
def _without_logs() -> Iterator[None]:
    """Silence dask's logs: the command prints errors itself."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class StudyOutcome(NamedTuple):
    """The runs of a study that are finished, and what has stopped it early."""

    results: Results
    by_signal: int  # the exit code of a signal; 0 without one
    failure: HocketError | None

    @property
    def is_stopped(self) -> bool:
        """Say whether runs may be missing."""
        return bool(self.by_signal or self.failure)

    def summary(self, title: str | None = None) -> Summary:
        """Sum all runs up; none after a signal if that would take long."""
        from hocket.report.summary import summarize

        return summarize(replace(self.results, records=()) if self.is_brief else self.results, title)

    @property
    def is_brief(self) -> bool:
        """Say whether a signal has come and there are too many tests to sum up quickly."""
        tests = (len(tests.step) for record in self.results.records for tests in record.tests.values())
        return bool(self.by_signal) and sum(tests) > MOST_ON_LEAVING

    def exit_code(self) -> int:
        """Print what has failed, and return the command's exit code."""
        if self.failure is not None:
            make_console(stderr=True).print(f"hocket: {self.failure}", style="red")
            return 2
        return self.by_signal


def _what_next(folder: Path | None) -> str:
    """Say where the runs are, and how to make a report."""
    if folder is None:
        return "Nothing was saved. Save runs with --out FOLDER, then write a report: hocket report FOLDER"
    named = printable(str(folder))
    return f"Saved in {named}. Write a report: hocket report {shlex.quote(named)}"
