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
from hocket.cli.terminal import Flag, MaybeNumber, make_console, option, print_json
from hocket.errors import HocketError, SettingsError, printable

if TYPE_CHECKING:
    from hocket.report.summary import Summary
    from hocket.study.jobs import Engine
    from hocket.study.store import Results
    from hocket.study.study import Study

MOST_ON_LEAVING = 1_000_000  # tests that are still summed up when a signal has come


@dataclass(frozen=True, kw_only=True)
class OnRuns:
    """Where runs happen, and where they are kept."""

    out: Annotated[Path | None, option("FOLDER", "-o")] = None
    """Where to write curves, settings and policies. What is there already is not run again."""
    engine: Annotated[str, option("ENGINE")] = "threads"
    """threads of this machine, or a dask cluster (dask)."""
    scheduler: Annotated[str | None, option("ADDRESS")] = None
    """The address of dask's scheduler, such as tcp://10.0.0.1:8786."""
    threads: MaybeNumber = None
    """How many threads to use; by default one for each core."""
    device: Annotated[str, option("DEVICE")] = "cpu"
    """cpu, or cuda: a graphics processor, which trains thousands of runs at once with the same results."""
    policies: MaybeNumber = None
    """With --device cuda, keep what runs of seeds below N have learnt; 10, if not given."""
    tensorboard: Flag = False
    """Also write logs for TensorBoard."""
    json: Flag = False
    """Print one JSON object."""

    def report(self, study: Study, note: str = "") -> int:
        """Run a study, keep its runs if asked, and sum them up; a note is said before it begins."""
        from hocket.cli.results import print_results, results_as_json
        from hocket.study.prospects import foresee

        if self.tensorboard and self.out is None:
            raise SettingsError("--tensorboard needs a folder to write to: --out FOLDER")
        engine, console = self.choose_engine(study), make_console(stderr=True)
        if note:
            console.print(note, style="dim")
        for line in foresee(study):
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
                    f"{len(done.results.records):,} runs have too many tests for a summary on leaving."
                )
            make_console().print(_what_next(self.out), style="dim")
        return done.exit_code()

    def choose_engine(self, study: Study) -> Engine:
        """Choose where a study runs, refusing what there is not."""
        from hocket.study.engines import DeviceEngine, make_engine  # loads the compiler

        with _without_logs():
            engine = make_engine(self.engine, self.scheduler, self.threads, self.device, self.policies)
        if isinstance(engine, DeviceEngine):
            engine.require([group.learner for group in study.groups()])
        return engine

    def work(self, study: Study, folder: Path, engine: Engine) -> Done:
        """Run a study, or as much of it as signals and clusters let it; what is finished is kept."""
        from hocket.cli.progress import Progress
        from hocket.study.study import UnfinishedError, run_study
        from hocket.study.tensorboard import check_available, log_records

        if self.tensorboard:
            check_available()  # before any work
        failure = None
        with _without_logs(), stopping() as stop, Progress() as progress:
            try:
                results = run_study(study, folder, engine=engine, watch=progress.show, stop=stop)
            except UnfinishedError as error:
                results, failure = error.results, error
        if self.tensorboard and not stop.code:
            log_records(results.records, folder / "tensorboard")
        return Done(results, stop.code, failure)


@contextmanager
def _without_logs() -> Iterator[None]:
    """Keep dask from telling what the command says in a sentence."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class Done(NamedTuple):
    """What there is of a study, and what has ended it before its time."""

    results: Results
    by_signal: int  # the exit code of a signal; 0 without one
    failure: HocketError | None

    @property
    def is_stopped(self) -> bool:
        """Say whether runs may be missing."""
        return bool(self.by_signal or self.failure)

    def summary(self, title: str | None = None) -> Summary:
        """Sum all runs up, or none, where that would keep waiting who wants an end."""
        from hocket.report.summary import summarize

        return summarize(replace(self.results, records=()) if self.is_brief else self.results, title)

    @property
    def is_brief(self) -> bool:
        """Say whether somebody wants an end, and there are so many tests that it would be long in coming."""
        tests = (len(own.step) for record in self.results.records for own in record.tests.values())
        return bool(self.by_signal) and sum(tests) > MOST_ON_LEAVING

    def exit_code(self) -> int:
        """Say on stderr what has failed, and return the command's exit code."""
        if self.failure is not None:
            make_console(stderr=True).print(f"hocket: {self.failure}", style="red")
            return 2
        return self.by_signal


def _what_next(folder: Path | None) -> str:
    """Say where it was written and what to do with it."""
    if folder is None:
        return "Nothing was kept; with --out FOLDER it is, and `hocket report FOLDER` makes a page of it."
    named = printable(str(folder))
    return f"Kept in {named}. Make a page of it: hocket report {shlex.quote(named)}"
