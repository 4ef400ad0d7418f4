"""paper: all experiments of the paper, and their report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from hocket.cli.options import Flag, MaybeNumber, MaybePath, option
from hocket.cli.runs import TrackedOptions
from hocket.cli.terminal import print_json, print_plain
from hocket.files import make_folder

if TYPE_CHECKING:
    from hocket.report.summary import Summary


@dataclass(frozen=True)
class Paper(TrackedOptions):
    """Reproduce all experiments of the paper, and write a report."""

    seeds: MaybeNumber = None
    """Number of seeds for each experiment (default: 10, as in the paper)."""
    quick: Flag = False
    """Few and short runs: a first impression in seconds."""
    out: Annotated[MaybePath, option("FOLDER", "-o")] = None
    """Output folder (default: runs/paper). Runs that are already there are not repeated."""
    figures: Annotated[Literal["hocket", "paper"], option("STYLE")] = "hocket"
    """Style of the figures: hocket, or paper for another one with the paper's axes and percentiles."""

    def run(self) -> int:
        from hocket.cli.results import print_results, results_as_json
        from hocket.study.study import load_study  # loads the compiler

        begin = time.perf_counter()
        folder = self.out or Path("runs/paper-quick" if self.quick else "runs/paper")
        study = load_study("paper-quick" if self.quick else "paper", self.seeds)
        done = self.work(study, folder, self.choose_engine(study))
        summary = done.summary("The paper's experiments" + (" (quick)" if self.quick else ""))
        written = (
            write_pages(summary, folder, as_in_the_paper=self.figures == "paper") if not done.by_signal else []
        )  # after a signal, end at once
        seconds = time.perf_counter() - begin
        if self.json:
            about = {"written": [str(path) for path in written], "seconds": round(seconds, 2)}
            print_json(results_as_json(summary, done.is_stopped) | about)
        else:
            print_results(summary, stopped=done.is_stopped)
            page = f" and the report in {seconds:.0f} s: open {folder / 'report.html'}" if written else ""
            print_plain(f"{len(done.results.records)} runs{page or f' in {seconds:.0f} s'}")
        return done.exit_code()


def write_pages(summary: Summary, folder: Path, *, as_in_the_paper: bool = False) -> list[Path]:
    """Write the report, a figure of learning curves for each task, and maybe one in the style of the paper."""
    from hocket.report.figures.curves import draw_curves, has_tests  # loads matplotlib
    from hocket.report.figures.paper import draw_as_in_the_paper
    from hocket.report.page import write_report
    from hocket.study.records import slug

    written = [write_report(summary, folder / "report.html")]
    figures = make_folder(folder / "figures")
    for section in summary.sections:
        written.append(figures / f"{slug(section.title)}.svg")
        draw_curves(section, written[-1])
    if as_in_the_paper and any(map(has_tests, summary.sections)):
        written.append(figures / "as-in-the-paper.svg")
        draw_as_in_the_paper(summary, written[-1])
    return written
