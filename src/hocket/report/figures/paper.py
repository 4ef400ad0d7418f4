"""Learning curves as the paper draws them: its axes and its percentiles, all tasks beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hocket.report.figures.canvas import FAINT, PAGE, TEXT, counted, literal, shorten, strokes, write_figure
from hocket.report.figures.curves import has_tests
from hocket.report.performance import LAST_TESTS
from hocket.report.summary import Section, Summary
from hocket.statistics import trailing_mean
from hocket.study.records import KINDS

HEIGHT = 2.3  # inches
MOST_TICKS = 4  # on an axis of training steps


def draw_as_in_the_paper(summary: Summary, path: str | Path) -> None:
    """Draw the tests of all tasks with linear axes and the percentiles of the paper's code.

    These are the 25th, 50th and 75th percentile over runs of each test, averaged over the last ten tests; a failure
    counts as the step limit. (Our own figures have the median over runs of each run's median, over the same tests.)
    """
    sections = [section for section in summary.sections if has_tests(section)]
    write_figure(path, lambda: _figure(sections))


def _figure(sections: Sequence[Section]) -> Figure:
    figure = Figure(figsize=(PAGE, HEIGHT), layout="constrained")
    panels = figure.subplots(1, len(sections), squeeze=False)[0]
    lines: dict[str, Line2D] = {}
    for axes, section in zip(panels, sections, strict=True):
        lines |= _draw(axes, section)
        axes.set_title(shorten(literal(section.title), TEXT, 72 * PAGE / len(sections)), size=TEXT)
    panels[0].set_ylabel("testing steps to task completion")
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines))
    return figure


def _draw(axes: Axes, section: Section) -> dict[str, Line2D]:
    """Draw one task, and return the lines by the names of their learners."""
    groups = [group for group in section.groups if KINDS[0] in group.curves]
    lines = {}
    for group, stroke in zip(groups, strokes(groups), strict=True):
        curve = group.curves[KINDS[0]]
        low, median, high = (trailing_mean(percentile, LAST_TESTS) for percentile in curve.each)
        axes.fill_between(curve.step, low, high, color=stroke.color, alpha=0.25, linewidth=0)
        (lines[literal(group.label)],) = axes.plot(curve.step, median, color=stroke.color, linewidth=1.1)
    axes.set_xlim(0, max(group.steps for group in groups))
    axes.set_ylim(0, section.most_steps * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS, integer=True))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(counted))
    axes.set_xlabel("training steps")
    axes.grid(color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    return lines
