"""The progress of a study on a terminal, and its results: a table, or JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hocket.cli.terminal import make_console, print_skipped, print_table
from hocket.errors import printable
from hocket.report.performance import ENOUGH, LAST_TESTS, NEAR
from hocket.report.summary import RunGroup, Section, Summary

if TYPE_CHECKING:
    from hocket.study.running import Update  # loads the compiler

SHOWN_MEDIANS = 12  # groups on the progress display
BAR = 30  # characters
HOT = 0.2  # difference of success between greedy and softmax tests from which softmax is called too hot
SLOW = 2  # ratio of steps in softmax and greedy tests above which it is called so, too

MEANING = (
    f"Test steps: median over runs of each run's median over its last {LAST_TESTS} tests; a failure counts as the step "
    f"limit.\nLearnt after: the median training step from which at least {ENOUGH:.0%} of tests succeed, in at "
    f"most {1 + NEAR:g} times the final steps."
)
RETURNS = (
    "Return: the sum of rewards of an episode; median over runs of each run's median over its last "
    f"{LAST_TESTS} tests.\nLearnt after: the median training step from which returns are within {NEAR:.0%} of the last."
)


@dataclass
class Progress:
    """The progress of a study: runs, speed, remaining time, and the medians of the latest tests."""

    update: Update | None = None
    begin: float = field(default_factory=time.perf_counter)

    def show(self, update: Update) -> None:
        """Keep the latest progress, which is drawn several times a second."""
        self.update = update

    def draw(self) -> RenderableType:
        """Draw the bar, and the medians below it."""
        update, seconds = self.update, time.perf_counter() - self.begin
        if update is None:
            return Text("compiling")
        share = update.steps / max(update.all_steps, 1)
        remaining = f"{seconds * (1 - share) / share:.0f} s left" if share else "compiling"
        line, medians = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
        speed = f"{update.steps / seconds / 1e6:.1f} M agent-steps/s"
        bar = ProgressBar(total=max(update.all_steps, 1), completed=update.steps, width=BAR)
        line.add_row(f"{update.jobs:,} of {update.all_jobs:,} runs", bar, speed, remaining)
        for label, value in list(update.medians.items())[-SHOWN_MEDIANS:]:
            medians.add_row(Text(printable(label), "dim"), Text(f"{value:,.0f} test steps", "dim"))
        return Stack(line, medians)


def results_as_json(summary: Summary, stopped: bool) -> dict[str, object]:
    """Return the results of every learner as JSON."""
    names = [section.title for section in summary.sections]
    rows = [_row(section, group) for section in summary.sections for group in section.all_groups]
    return {"task": names[0] if len(names) == 1 else None, "tasks": names, "stopped": stopped, "learners": rows}


def _row(section: Section, group: RunGroup) -> dict[str, object]:
    row: dict[str, object] = {"task": section.title, "learner": group.learner, "seeds": len(group.seeds)}
    row |= {"steps": group.steps, "settings": dict(group.varied)}
    for policy, final in group.finals.items():
        row[policy] = {
            "returns" if final.is_return else "quartiles": list(final.quartiles),
            "success": final.success.value,
            "success_limits": [final.success.low, final.success.high],
            "learnt_after": None if group.is_reference else final.learnt_after,
            "learnt": None if group.is_reference else final.learnt,
        }
    for comparison in section.published_levels:
        if comparison.label == group.label:
            row |= {"published": asdict(comparison.published), "measured": asdict(comparison.measured)}
    if "greedy" in group.finals:
        stall = None if group.stall is None else group.stall.as_json()
        row["team"] = {"success": group.finals["greedy"].success.value, "stall": stall}
    if (bounds := group.bounds) is not None:
        values = {"lower": bounds.lower, "success": bounds.success.value, "upper": bounds.upper}
        row["bounds"] = {"episodes": bounds.episodes, **values}
    return row


def print_results(summary: Summary, *, stopped: bool = False, kept: bool = True) -> None:
    """Print the final performance of every learner, and the bounds on its success."""
    console = make_console()
    if stopped:
        console.print(f"Stopped early; {'finished runs are saved' if kept else 'some runs are missing'}.")
    if not summary.sections:
        console.print("There are no runs to summarize.")
        print_skipped(summary.problems)
        return
    groups = [(section, group) for section in summary.sections for group in section.all_groups]
    has_several = len(summary.sections) > 1
    _print_table(console, summary, groups)
    for text in dict.fromkeys(RETURNS if section.has_returns else MEANING for section in summary.sections):
        console.print(text, style="dim")
    for label in dict.fromkeys(section.reference.label for section in summary.sections if section.reference):
        console.print(f"All tests of {label} count, as it does not learn.", style="dim")
    _print_published(console, summary)
    for section, group in groups:
        if (bounds := group.bounds) is not None:
            label = f"{group.label} on {section.title}" if has_several else group.label
            inequality = f"{bounds.lower:.3f} <= V = {bounds.success.value:.3f} <= {bounds.upper:.3f}"
            console.print(f"Theorem 3 for {label}, over {bounds.episodes:,} episodes: {inequality}")
    for section, group in groups:
        prefix = f"On {section.title}, " if has_several else ""
        if group.team_verdict:
            console.print(Text(f"{prefix}{group.team_verdict}", "bold red"))
        elif note := _softmax_note(group):
            console.print(f"{prefix}{note}", style="dim")
    print_skipped(summary.problems)


def _print_table(console: Console, summary: Summary, groups: Sequence[tuple[Section, RunGroup]]) -> None:
    """Print the final performance, a row for each kind of policy."""
    measures = " or ".join(dict.fromkeys(section.measure for section in summary.sections))
    titles = ("learner", "runs", "steps", "policy", f"{measures}: median (quartiles)", "success", "learnt after")
    rows = []
    for section, group in groups:
        for policy, final in group.finals.items():
            low, middle, high = final.quartiles
            cells = (group.label, str(len(group.seeds)), f"{group.steps:,}", policy)
            success = "–" if section.is_continuing else f"{final.success.value:.3f}"
            learnt = "–" if group.is_reference else final.learnt_in_words
            rows.append((section.title, *cells, f"{middle:g} ({low:g} to {high:g})", success, learnt))
    first = 0 if len(summary.sections) > 1 else 1  # column
    print_table(console, ("task", *titles)[first:], [row[first:] for row in rows])


def _softmax_note(group: RunGroup) -> str:
    """Say that softmax is hotter than differences of values, if only its tests fail or are slow."""
    greedy, softmax = (group.finals.get(kind) for kind in ("greedy", "softmax"))
    if greedy is None or softmax is None or greedy.is_return:
        return ""
    is_slow = softmax.quartiles[1] > SLOW * greedy.quartiles[1]
    if greedy.success.value - softmax.success.value < HOT and not is_slow:
        return ""
    softmax_text = f"softmax at temperature {group.settings.get('temperature', 0):g}"
    return f"{group.label}: {softmax_text} is hotter than many differences of values; see greedy."


def _print_published(console: Console, summary: Summary) -> None:
    """Print published and measured values, and why they differ."""
    comparisons = [(section.title, row) for section in summary.sections for row in section.published_levels]
    if summary.published is None or not comparisons:
        return
    table = []
    for title, row in comparisons:
        levels = row.published, row.measured
        finals = (f"{level.final:.1f}" for level in levels)
        reached = ("never" if level.reached is None else f"{level.reached:,}" for level in levels)
        successes = (f"{level.success:.3f}" for level in levels)
        table.append([title, row.label, *finals, f"{row.difference:+.0%}", *reached, *successes])
    pair = ("published", "measured")
    console.print()
    print_table(console, ["task", "learner", *pair, "", "published from", "measured from", *pair], table)
    columns = "final test steps, the training steps after which they are within 10% of it, and success"
    console.print(f"Published values from {summary.published.source}: {columns}.", style="dim")
    for note in summary.published.notes:
        console.print(f"- {note}", style="dim")
    console.print()
