"""Figures of learning: curves of test steps, in our style and as in the paper, and bars of learning times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from hocket.errors import HocketError, printable, require_known
from hocket.report.figures import canvas
from hocket.report.figures.canvas import COLUMN, FAINT, INK, NOTE, PAGE, POINTS, SMALL, TEXT, TITLE, Stroke
from hocket.report.performance import ENOUGH, LAST_TESTS, NEAR, Curve
from hocket.report.summary import RunGroup, Section, Summary, needs_log_x, spans
from hocket.statistics import trailing_mean
from hocket.study.records import KINDS
from hocket.study.study import Level

LONG_BARS = 30  # times: learning times that differ by more have a logarithmic axis
MARKS = 6  # on a curve
HEIGHT = 3.1  # inches of a figure with one line of legend
LINE = 1.45  # height of a line of text, relative to its size
EDGE = 5.0  # points between text and edges
WIDTH = COLUMN * POINTS - 2 * EDGE
HANDLE, MARGIN = 21.0, 9.0  # points of a legend before a name, and between columns
PAPER_HEIGHT, PAPER_TICKS = 2.3, 4  # inches of a figure as in the paper; ticks on its axis of training steps
BAR, BETWEEN, AROUND = 13.0, 17.0, 40.0  # points: from a bar to the next, over each panel, and for title and axis
WIDEST = COLUMN * POINTS * 0.45  # points of a name beside a bar
AFTER_BAR = 0.3  # of the longest bar, for its number


def curves_figure(section: Section, *, policy: str = KINDS[0]) -> Figure:
    """Draw the median test steps over training with the quartiles as bands, and below the success rate of tests.

    A reference is a horizontal line; a published level is a dotted line, with a diamond where it was reached.
    """
    groups = groups_with_tests(section, policy)
    if not groups:
        raise _nothing(section.title, policy)
    strokes = canvas.strokes(groups)
    log_x = needs_log_x(section, policy)
    level = section.level(policy)
    names = [canvas.wrap(canvas.literal(group.label), TEXT, WIDTH - HANDLE) for group in groups]
    if section.reference is not None and level is not None:
        names.append([f"{canvas.literal(section.reference.learner)} ({level:g})"])
    columns, rows = _legend_shape(names)
    spread = "" if all(len(group.seeds) == 1 for group in groups) else ": median and quartiles over runs,"
    runs = f"{policy} policies, {canvas.count_runs(groups)}"
    heading = f"{runs}{spread} of the median of each run’s last {LAST_TESTS} tests"
    levels = section.published_levels if policy == KINDS[0] else ()
    published = {comparison.label: comparison.published for comparison in levels}
    if published:
        heading += "; diamonds and dotted lines are published"
    figure = _titled(section.title, heading, HEIGHT * POINTS + (rows - 1) * LINE * TEXT)
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.4, 1))
    for number, (group, stroke) in enumerate(zip(groups, strokes, strict=True)):
        _draw_curve(axes, below, group.curves[policy], stroke, log_x, number / len(groups))
        if group.label in published:
            _draw_published(axes, below, published[group.label], stroke, max(group.curves[policy].step))
    handles = [Line2D([], [], **_line(stroke), **_marker(stroke)) for stroke in strokes]
    if level is not None:
        handles.append(axes.axhline(level, color=INK, linewidth=0.9, linestyle=(0, (5, 2)), zorder=2.5))
    _scale(axes, section, groups, policy, log_x)
    below.set(ylim=(-0.04, 1.04), xlabel="training steps", ylabel="success")
    below.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    _rule(below)
    if section.is_continuing:  # without success
        below.remove()
        axes.set_subplotspec(figure.add_gridspec(1, 1)[0, 0])
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("training steps")
    legend = figure.legend(
        handles, [" "] * len(names), loc="outside lower center", ncols=columns, handlelength=2.2, columnspacing=1.2,
        labelspacing=0.3, borderpad=0.1,
    )  # fmt: skip
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text("\n".join(name))  # set later, since legends leave out labels that begin with an underscore
    return figure


def _titled(title: str, heading: str, height: float) -> Figure:
    """Make an empty figure of so many points, and more if title and heading need more than two lines."""
    names, lines = canvas.wrap(canvas.literal(title), TITLE, WIDTH), canvas.wrap(heading, SMALL, WIDTH)
    below = len(names) * LINE * TITLE
    above = below + len(lines) * LINE * SMALL
    height += above - LINE * (TITLE + SMALL)
    left, top = EDGE / COLUMN / POINTS, 1 - EDGE / height
    layout = ConstrainedLayoutEngine(rect=(0, 0, 1 - left, 1 - (above + EDGE) / height))
    figure = Figure(figsize=(COLUMN, height / POINTS), layout=layout)
    figure.text(left, top, "\n".join(names), size=TITLE, va="top")
    figure.text(left, top - below / height, "\n".join(lines), size=SMALL, va="top", color=NOTE)
    return figure


def groups_with_tests(section: Section, policy: str = KINDS[0]) -> list[RunGroup]:
    """List the groups with tests of a kind of policy."""
    require_known(policy, KINDS, "policy")
    return [group for group in section.groups if policy in group.curves and len(group.curves[policy].step)]


def _nothing(title: str, policy: str) -> HocketError:
    return HocketError(f"{printable(title)}: there must be tests of {policy} policies to draw, got none")


def _legend_shape(names: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Choose the fewest rows in which all names of a legend fit; return its columns, and lines of text."""
    widths = [max(canvas.measure(line, TEXT) for line in name) + HANDLE + MARGIN for name in names]
    for rows in range(1, len(names) + 1):
        parts = [slice(first, first + rows) for first in range(0, len(names), rows)]
        if sum(max(widths[part]) for part in parts) - MARGIN <= WIDTH or len(parts) == 1:
            break
    return len(parts), max(sum(len(name) for name in names[part]) for part in parts)


def _line(stroke: Stroke) -> dict[str, Any]:
    return {"color": stroke.color, "linestyle": stroke.line, "linewidth": 1.1}


def _marker(stroke: Stroke) -> dict[str, Any]:
    return {"marker": stroke.marker, "markersize": 3.8, "markeredgecolor": "white", "markeredgewidth": 0.4}


def _draw_curve(axes: Axes, below: Axes, curve: Curve, stroke: Stroke, log_x: bool, shift: float) -> None:
    """Draw a line with its band and one of success, with a few markers that are beside those of other curves."""
    low, median, high = curve.quartiles
    axes.fill_between(curve.step, low, high, color=stroke.color, alpha=0.18, linewidth=0)
    chosen = _marks(curve.step, log_x, shift)
    look: dict[str, Any] = {"color": stroke.color, "linestyle": "none", "zorder": 3, **_marker(stroke)}
    for panel, values in ((axes, median), (below, curve.success)):
        panel.plot(curve.step, values, **_line(stroke))
        panel.plot(curve.step[chosen], values[chosen], **look)


def _draw_published(axes: Axes, below: Axes, level: Level, stroke: Stroke, last: int) -> None:
    """Draw a line at a published level, from the step of reaching it, with diamonds there and at the final success."""
    mark: dict[str, Any] = {
        "marker": "D", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": stroke.color,
        "linestyle": "none", "clip_on": False, "zorder": 4,
    }  # fmt: skip
    from_step = 0 if level.reached is None else min(level.reached, last)
    axes.plot([from_step, last], [level.final] * 2, color=stroke.color, linestyle=(0, (1, 2)), linewidth=1)
    if level.reached is not None:
        axes.plot([from_step], [level.final], **mark)
    below.plot([last], [level.success], **mark)


def _marks(step: NDArray[np.int64], log_x: bool, shift: float) -> NDArray[np.int64]:
    """Choose tests at even distances on the axis."""
    along = np.log(np.maximum(step, 1)) if log_x else step.astype(np.float64)
    targets = along[0] + (along[-1] - along[0]) * (np.arange(MARKS) + 0.25 + 0.5 * shift) / MARKS
    return np.unique(np.abs(along[:, None] - targets).argmin(axis=0))


def _scale(axes: Axes, section: Section, groups: Sequence[RunGroup], policy: str, log_x: bool) -> None:
    steps = np.concatenate([group.curves[policy].step for group in groups])
    most = section.most_steps
    if log_x:
        first = int(steps[steps > 0].min(initial=steps.max()))
        _logarithmic(axes, "x", max(first, 1), max(int(steps.max()), first + 1))
    else:
        _linear(axes, int(steps.max()) or 1, 5)
    if section.has_returns:
        bands = [group.curves[policy].quartiles for group in groups]
        level = section.level(policy) or 0.0
        least, highest = (pick(*(pick(*band.low, *band.high) for band in bands), level, 0.0) for pick in (min, max))
        axes.set_ylim(least * 1.04, highest * 1.04 or 1.0)
    else:
        shown = [float(group.curves[policy].quartiles.low.min()) for group in groups]
        shown += [comparison.published.final for comparison in section.published_levels if policy == KINDS[0]]
        least = min([*shown, section.level(policy) or math.inf, most / 2])
        _logarithmic(axes, "y", max(least, 1) / 1.15, most * 1.08)  # as on the page
    axes.set_ylabel("return" if section.has_returns else f"test steps\n(a failure counts as {most:,})")
    _rule(axes)


def _rule(axes: Axes, which: Literal["both", "y"] = "y") -> None:
    axes.grid(axis=which, color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)


def _linear(axes: Axes, most: float, ticks: int) -> None:
    axes.set_xlim(0, most)
    axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True))
    axes.xaxis.set_major_formatter(canvas.counted)


def _logarithmic(axes: Axes, name: str, least: float, most: float) -> None:
    """Scale an axis; over few decades, it also has numbers between them."""
    axes.set(**{f"{name}scale": "log", f"{name}lim": (least, most)})
    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if most < 100 * least else (1.0,), numticks=9))
    axis.set_major_formatter(canvas.counted)
    axis.set_minor_formatter(NullFormatter())


def learning_times_figure(what: Section | Summary, *, policy: str = KINDS[0]) -> Figure:
    """Draw the training steps after which the runs of each group have learnt, for one section or all of a summary."""
    sections = what.sections if isinstance(what, Summary) else (what,)
    parts = [(section, groups) for section in sections if (groups := groups_with_tests(section, policy))]
    if not parts:
        raise _nothing(what.title, policy)
    names = [[canvas.wrap(canvas.literal(group.label), TEXT, WIDEST) for group in groups] for _, groups in parts]
    heights = [sum(max(BAR, len(name) * LINE * TEXT) for name in labels) for labels in names]
    all_groups = [group for _, groups in parts for group in groups]
    heading = (
        f"{policy} policies, median of {canvas.count_runs(all_groups)}: the training step from which at least "
        f"{ENOUGH:.0%} of tests succeed, in at most {1 + NEAR:g} times the final steps"
    )
    figure = _titled(what.title, heading, sum(heights) + BETWEEN * len(parts) + AROUND)
    panels = figure.subplots(len(parts), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    space = WIDTH - max(canvas.measure(line, TEXT) for labels in names for name in labels for line in name) - BAR
    for axes, (section, groups), labels in zip(panels, parts, names, strict=True):
        _draw_bars(axes, groups, labels, policy)
        if isinstance(what, Summary):
            axes.set_title(canvas.shorten(canvas.literal(section.title), TEXT, space), loc="left", size=TEXT, pad=3)
    times = [group.finals[policy].learnt_after for group in all_groups if policy in group.finals]
    learnt = [step for step in times if step is not None]
    most = max(learnt, default=max(group.steps for group in all_groups))
    if spans(learnt, LONG_BARS):
        least = 10.0 ** np.floor(np.log10(min(step for step in learnt if step > 0)) - 0.3)
        _logarithmic(panels[-1], "x", least, most * (most / least) ** AFTER_BAR)
    else:
        _linear(panels[-1], most * (1 + AFTER_BAR), 4)
    panels[-1].set_xlabel("training steps")
    return figure


def _draw_bars(axes: Axes, groups: Sequence[RunGroup], names: Sequence[Sequence[str]], policy: str) -> None:
    """Draw a bar for each group, the first on top, with the number after it, or a text if there is none."""
    rows = np.array([max(1.0, len(name) * LINE * TEXT / BAR) for name in names])
    middles = np.cumsum(rows) - rows / 2
    left = axes.get_yaxis_transform()  # texts start at the left, whatever the scale of the other axis
    for middle, group, stroke in zip(middles.tolist(), groups, canvas.strokes(groups), strict=True):
        final = group.finals[policy]
        step, some = final.learnt_after, final.learnt_in_words.partition(" ")[2]
        look: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "va": "center_baseline", "size": SMALL}
        if step is None:
            look |= {"xycoords": left, "color": NOTE, "style": "italic"}
            axes.annotate(f"never in {group.steps:,} steps {some}", (0, middle), **look)
        else:
            axes.barh(middle, step, height=0.62, color=stroke.color)
            axes.annotate(f"{canvas.counted(step)} {some}".rstrip(), (step, middle), **look)
    axes.set_ylim(float(rows.sum()), 0)
    axes.set_yticks(middles, ["\n".join(name) for name in names])
    axes.tick_params(axis="y", length=0)


def figure_as_in_the_paper(summary: Summary) -> Figure:
    """Draw the tests of all tasks with linear axes and the percentiles of the paper's code.

    These are the 25th, 50th and 75th percentile over runs of each test, averaged over the last ten tests; a failure
    counts as the step limit. (Our own figures have the median over runs of each run's median, over the same tests.)
    """
    sections = [section for section in summary.sections if groups_with_tests(section)]
    figure = Figure(figsize=(PAGE, PAPER_HEIGHT), layout="constrained")
    panels = figure.subplots(1, len(sections), squeeze=False)[0]
    lines: dict[str, Line2D] = {}
    for axes, section in zip(panels, sections, strict=True):
        groups = [group for group in section.groups if KINDS[0] in group.curves]
        for group, stroke in zip(groups, canvas.strokes(groups), strict=True):
            curve = group.curves[KINDS[0]]
            low, median, high = (trailing_mean(percentile, LAST_TESTS) for percentile in curve.each)
            axes.fill_between(curve.step, low, high, color=stroke.color, alpha=0.25, linewidth=0)
            (lines[canvas.literal(group.label)],) = axes.plot(curve.step, median, color=stroke.color, linewidth=1.1)
        _linear(axes, max(group.steps for group in groups), PAPER_TICKS)
        axes.set(ylim=(0, section.most_steps * 1.02), xlabel="training steps")
        axes.yaxis.set_major_formatter(canvas.counted)
        _rule(axes, "both")
        axes.set_title(canvas.shorten(canvas.literal(section.title), TEXT, POINTS * PAGE / len(sections)), size=TEXT)
    panels[0].set_ylabel("testing steps to task completion")
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines))
    return figure
