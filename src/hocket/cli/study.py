"""study, paper and report, and the options that train and explore share with them: how runs are executed and saved."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from tyro.conf import Positional

from hocket.cli.options import Flag, Json, MaybeNumber, MaybePath, MaybeText, OutFile, names, option
from hocket.cli.terminal import live_view, make_console, print_json, print_plain, print_skipped, print_written, stopping
from hocket.errors import HocketError, SettingsError, printable

if TYPE_CHECKING:
    from hocket.report.summary import Summary
    from hocket.study.engines import Engine
    from hocket.study.store import Results
    from hocket.study.study import Study

MOST_ON_LEAVING = 1_000_000  # tests that are still summarized after a signal


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How runs are executed, and where they are saved."""

    out: Annotated[MaybePath, option("FOLDER", "-o")] = None
    """Output folder for curves, settings and policies. Runs that are already in it are not repeated."""
    engine: Annotated[str, option("ENGINE")] = "threads"  # Where to run: threads (this machine) or dask (a cluster).
    scheduler: Annotated[MaybeText, option("ADDRESS")] = None  # Address of the dask scheduler (tcp://10.0.0.1:8786).
    threads: MaybeNumber = None  # Number of threads (default: one per core).
    device: Annotated[str, option("DEVICE")] = "cpu"
    """cpu, or cuda: a GPU, which trains thousands of runs at once with the same results."""
    policies: MaybeNumber = None  # With --device cuda, keep the policies of seeds below N (default: 10).
    tensorboard: Flag = False  # Also write TensorBoard logs.
    json: Json = False

    def execute(self, study: Study, note: str = "") -> int:
        """Print a note, run a study, save its runs if there is a folder for them, and print a summary."""
        from tempfile import TemporaryDirectory

        from hocket.cli.results import print_results, results_as_json
        from hocket.study.study import warnings

        if self.trackers and self.out is None:
            raise SettingsError(f"logs for {', '.join(self.trackers)} need a folder to write to: --out FOLDER")
        engine, console = self.choose_engine(study), make_console(stderr=True)
        if note:
            console.print(note, style="dim")
        for line in warnings(study):
            console.print(f"Warning: {line}", style="yellow")
        with nullcontext(self.out) if self.out else TemporaryDirectory() as folder:
            done = self.work(study, Path(folder), engine)
            summary = done.summary()
        if self.json:
            print_json(results_as_json(summary, done.is_stopped))
            return done.exit_code()
        print_results(summary, stopped=done.is_stopped, kept=self.out is not None)
        console = make_console()
        if done.is_brief:
            console.print(f"No summary: {len(done.results.records):,} runs have too many tests to stop fast.")
        next_step = "Nothing was saved. Save runs with --out FOLDER, then write a report: hocket report FOLDER"
        if self.out is not None:
            name = printable(str(self.out))
            next_step = f"Saved in {name}. Write a report: hocket report {shlex.quote(name)}"
        console.print(next_step, style="dim")
        return done.exit_code()

    @property
    def trackers(self) -> list[str]:
        """The tools with which curves are logged."""
        return ["tensorboard"] if self.tensorboard else []

    def choose_engine(self, study: Study) -> Engine:
        """Make the engine for a study; raise an error if it is not available."""
        from hocket.study.engines import DeviceEngine, make_engine  # loads the compiler

        with _without_logs():
            engine = make_engine(self.engine, self.scheduler, self.threads, self.device, self.policies)
        if isinstance(engine, DeviceEngine):
            engine.require([group.learner for group in study.groups()])
        return engine

    def work(self, study: Study, folder: Path, engine: Engine) -> StudyOutcome:
        """Run a study until it is finished, a signal comes or the cluster fails; finished runs are kept."""
        from hocket.cli.results import Progress
        from hocket.study.running import UnfinishedError, run_study
        from hocket.study.trackers import check_available, log_records

        for tracker in self.trackers:
            check_available(tracker)  # before any work
        failure, progress = None, Progress()
        with _without_logs(), stopping() as stop, live_view(make_console(stderr=True), progress.draw):
            try:
                results = run_study(study, folder, engine=engine, watch=progress.show, stop=stop)
            except UnfinishedError as error:
                results, failure = error.results, error
        for tracker in self.trackers if not stop.code else ():
            log_records(results.records, folder, tracker)
        return StudyOutcome(results, stop.code, failure)


@dataclass(frozen=True, kw_only=True)
class TrackedOptions(RunOptions):
    """The same, with the tools with which curves are logged."""

    log: Annotated[str, option("TRACKER,...")] = ""
    """Also log the curves with tensorboard, mlflow (both in the folder) or wandb (sent to its server)."""

    @property
    def trackers(self) -> list[str]:
        return list(dict.fromkeys([*super().trackers, *names(self.log)]))


@contextmanager
def _without_logs() -> Iterator[None]:
    """Silence dask's logs: the command prints errors itself."""
    import logging

    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class StudyOutcome(NamedTuple):
    """The finished runs of a study, and what stopped it early."""

    results: Results
    by_signal: int  # the exit code of the signal that stopped it; 0 without one
    failure: HocketError | None

    @property
    def is_stopped(self) -> bool:
        """Whether runs may be missing."""
        return bool(self.by_signal or self.failure)

    def summary(self, title: str | None = None) -> Summary:
        """Summarize all runs; none after a signal if that would take long."""
        from hocket.report.summary import summarize

        return summarize(replace(self.results, records=()) if self.is_brief else self.results, title)

    @property
    def is_brief(self) -> bool:
        """Whether a signal has stopped it and there are too many tests to summarize quickly."""
        tests = (len(tests.step) for record in self.results.records for tests in record.tests.values())
        return bool(self.by_signal) and sum(tests) > MOST_ON_LEAVING

    def exit_code(self) -> int:
        """Print the failure, if any, and return the command's exit code."""
        if self.failure is not None:
            make_console(stderr=True).print(f"hocket: {self.failure}", style="red")
            return 2
        return self.by_signal


@dataclass(frozen=True)
class RunStudy(TrackedOptions):
    """Run a study file: all combinations of tasks, learners, settings and seeds."""

    study: Annotated[Positional[str], option("STUDY")]  # A file (.toml), or a name (paper, paper-quick, generality).
    seeds: MaybeNumber = None  # Number of seeds, instead of the study's.

    def run(self) -> int:
        from hocket.study.study import load_study  # loads what --help does not need

        return self.execute(load_study(self.study, self.seeds))


@dataclass(frozen=True)
class Paper(TrackedOptions):
    """Reproduce all experiments of the paper, and write a report."""

    seeds: MaybeNumber = None  # Number of seeds for each experiment (default: 10, as in the paper).
    quick: Flag = False  # Fewer and shorter runs, in seconds.
    out: Annotated[MaybePath, option("FOLDER", "-o")] = None
    """Output folder (default: runs/paper). Runs that are already in it are not repeated."""
    figures: Annotated[Literal["hocket", "paper"], option("STYLE")] = "hocket"
    """Style of the figures: hocket, or paper, which adds one with the paper's axes and percentiles."""

    def run(self) -> int:
        from hocket.cli.results import print_results, results_as_json
        from hocket.study.study import load_study  # loads what --help does not need

        begin, name = time.perf_counter(), "paper-quick" if self.quick else "paper"
        folder = self.out or Path("runs", name)
        study = load_study(name, self.seeds)
        done = self.work(study, folder, self.choose_engine(study))
        summary = done.summary("The paper's experiments" + (" (quick)" if self.quick else ""))
        # After a signal, end at once.
        written = [] if done.by_signal else write_pages(summary, folder, as_in_the_paper=self.figures == "paper")
        seconds = time.perf_counter() - begin
        if self.json:
            about = {"written": [str(path) for path in written], "seconds": round(seconds, 2)}
            print_json(results_as_json(summary, done.is_stopped) | about)
        else:
            print_results(summary, stopped=done.is_stopped)
            report, page = (" and the report", f": open {folder / 'report.html'}") if written else ("", "")
            print_plain(f"{len(done.results.records)} runs{report} in {seconds:.0f} s{page}")
        return done.exit_code()


def write_pages(summary: Summary, folder: Path, *, as_in_the_paper: bool = False) -> list[Path]:
    """Write the report, a figure of learning curves for each task, and maybe one in the style of the paper."""
    from hocket.files import make_folder
    from hocket.report.figures.canvas import write_figure  # loads matplotlib
    from hocket.report.figures.curves import curves_figure, figure_as_in_the_paper, groups_with_tests
    from hocket.report.page import write_report
    from hocket.study.records import slug

    written = [write_report(summary, folder / "report.html")]
    figures = make_folder(folder / "figures")
    for section in summary.sections:
        written.append(figures / f"{slug(section.title)}.svg")
        write_figure(written[-1], partial(curves_figure, section))
    if as_in_the_paper and any(map(groups_with_tests, summary.sections)):
        written.append(figures / "as-in-the-paper.svg")
        write_figure(written[-1], partial(figure_as_in_the_paper, summary))
    return written


@dataclass(frozen=True)
class Report:
    """Write an HTML report on a folder of runs: learning curves, statistics, machines and episode replays."""

    runs: Annotated[Positional[Path], option("FOLDER")]
    """The folder that `hocket train --out`, `study`, `paper` or `run` wrote."""
    out: OutFile = None  # The HTML file to write (default: report.html in the folder).
    figures: Annotated[MaybePath, option("FOLDER")] = None  # Also write figures for print into this folder.
    format: Annotated[str, option("FORMAT,...")] = "svg"  # Formats of the figures: svg, png, pdf, separated by commas.
    mcap: Annotated[MaybePath, option("FILE")] = None  # Also write an MCAP file of a `hocket run`, for Foxglove.
    json: Json = False

    def run(self) -> int:
        if (self.runs / "run.json").exists():
            return self.report_run()
        from hocket.report.page import write_report
        from hocket.report.summary import summarize
        from hocket.study.store import load_results

        results = load_results(self.runs)
        summary = summarize(results)
        print_skipped(summary.problems)
        if not results.records:
            raise SettingsError(f"{self.runs} has no runs in it{' that can be read' if results.problems else ''}")
        written = [write_report(summary, self.out or self.runs / "report.html")]
        if self.figures is not None:
            from hocket.report.figures import draw_figures  # loads matplotlib

            written += draw_figures(results, self.figures, formats=names(self.format))
        return print_written(written, json=self.json, missing=summary.missing)

    def report_run(self) -> int:
        """Write the report on a folder of `hocket run`."""
        from hocket.report.recording import write_recording

        written = [write_recording(self.runs, self.out)]
        if self.mcap is not None:
            from hocket.runtime.recording import write_mcap

            written.append(write_mcap(self.runs, self.mcap))
        return print_written(written, json=self.json, missing=0)
