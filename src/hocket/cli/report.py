"""report: one page of a folder of runs, and figures for print."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import Flag, MaybePath, names, option
from hocket.cli.terminal import print_written
from hocket.errors import SettingsError


@dataclass(frozen=True)
class Report:
    """Write an HTML report on a folder of runs: learning curves, statistics, machines and episode replays."""

    runs: Annotated[Positional[Path], option("FOLDER")]
    """The folder that `hocket train --out`, `study`, `paper` or `run` wrote."""
    out: Annotated[MaybePath, option("FILE", "-o")] = None
    """The HTML file to write (default: report.html in the folder)."""
    figures: Annotated[MaybePath, option("FOLDER")] = None
    """Also write figures for print into this folder."""
    format: Annotated[str, option("FORMAT,...")] = "svg"
    """Formats of the figures: svg, png, pdf, separated by commas."""
    mcap: Annotated[MaybePath, option("FILE")] = None
    """Of a folder that `hocket run` wrote: also write an MCAP file, for Foxglove."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        if (self.runs / "run.json").exists():
            return self.report_run()
        from hocket.cli.results import print_problems
        from hocket.report.page import write_report
        from hocket.report.summary import summarize
        from hocket.study.store import load_results

        results = load_results(self.runs)
        summary = summarize(results)
        print_problems(summary)
        if not results.records:
            raise SettingsError(f"{self.runs} has no runs in it{' that can be read' if results.problems else ''}")
        written = [write_report(summary, self.out or self.runs / "report.html")]
        if self.figures is not None:
            from hocket.report.figures import draw_figures  # loads matplotlib

            formats = names(self.format)
            written += draw_figures(results, self.figures, formats=formats)
        print_written(written, json=self.json, missing=summary.missing)
        return 0

    def report_run(self) -> int:
        """Report on a run of processes."""
        from hocket.report.recording import write_recording

        written = [write_recording(self.runs, self.out)]
        if self.mcap is not None:
            from hocket.runtime.mcap import write_mcap

            written.append(write_mcap(self.runs, self.mcap))
        print_written(written, json=self.json, missing=0)
        return 0
