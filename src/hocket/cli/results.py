"""The results of a study: a table on a terminal, or JSON."""

from __future__ import annotations

from dataclasses import asdict

from rich.text import Text

from hocket.cli.terminal import make_console, print_table
from hocket.report.performance import ENOUGH, LAST_TESTS, NEAR, FinalPerformance
from hocket.report.summary import RunGroup, Section, Summary

HOT = 0.2  # difference of success between greedy and softmax tests from which on softmax is said to be too hot
SLOW = 2  # times as many steps in softmax as in greedy tests, above which it is said, too


def results_as_json(summary: Summary, stopped: bool) -> dict[str, object]:
    """Sum up every learner in JSON."""
    names = [section.title for section in summary.sections]
    rows = [_row(section, group) for section in summary.sections for group in section.all_groups]
    return {"task": names[0] if len(names) == 1 else None, "tasks": names, "stopped": stopped, "learners": rows}


def _row(section: Section, group: RunGroup) -> dict[str, object]:
    row: dict[str, object] = {"task": section.title, "learner": group.learner, "seeds": len(group.seeds)}
    row |= {"steps": group.steps, "settings": dict(group.varied)}
    for policy, final in group.finals.items():
        row[policy] = {
            **({"returns": list(final.quartiles)} if final.is_return else {"quartiles": list(final.quartiles)}),
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
        about = {"episodes": bounds.episodes, "lower": bounds.lower, "success": bounds.success.value}
        row["bounds"] = {**about, "upper": bounds.upper}
    return row


def print_results(summary: Summary, *, stopped: bool = False, kept: bool = True) -> None:
    """Print the last tests of every learner, and the bounds on its success."""
    console = make_console()
    if stopped:
        console.print(f"Stopped early; {'finished runs are saved' if kept else 'some runs are missing'}.")
    if not summary.sections:
        console.print("There are no runs to summarize.")
        print_problems(summary)
        return
    many = len(summary.sections) > 1
    measures = " or ".join(dict.fromkeys(section.measure for section in summary.sections))
    titles = ("learner", "runs", "steps", "policy", f"{measures}: median (quartiles)", "success", "learnt after")
    rows: list[tuple[str, ...]] = []
    for section in summary.sections:
        for group in section.all_groups:
            for policy, final in _in_order(group, summary):
                low, middle, high = final.quartiles
                cells = (group.label, str(len(group.seeds)), f"{group.steps:,}", policy)
                learnt = "–" if group.is_reference else final.learnt_in_words
                success = "–" if section.is_continuing else f"{final.success.value:.3f}"
                shown = (*cells, f"{middle:g} ({low:g} to {high:g})", success, learnt)
                rows.append((section.title, *shown) if many else shown)
    print_table(console, ("task", *titles) if many else titles, rows)
    for text in dict.fromkeys(RETURNS if section.has_returns else MEANING for section in summary.sections):
        console.print(text, style="dim")
    references = [section.reference for section in summary.sections if section.reference is not None]
    for label in dict.fromkeys(reference.label for reference in references):
        console.print(f"All tests of {label} count, as it does not learn.", style="dim")
    _print_published(summary)
    for section in summary.sections:
        for group in section.all_groups:
            if (bounds := group.bounds) is not None:
                where = f"{group.label} on {section.title}" if many else group.label
                within = f"{bounds.lower:.3f} <= V = {bounds.success.value:.3f} <= {bounds.upper:.3f}"
                console.print(f"Theorem 3 for {where}, over {bounds.episodes:,} episodes: {within}")
    for section in summary.sections:
        for group in section.all_groups:
            where = f"On {section.title}, " if many else ""
            if group.team_verdict:
                console.print(Text(f"{where}{group.team_verdict}", "bold red"))
            elif note := _softmax_note(group):
                console.print(f"{where}{note}", style="dim")
    print_problems(summary)


def _in_order(group: RunGroup, summary: Summary) -> list[tuple[str, FinalPerformance]]:
    """List the final performance by kind of policy, greedy first; beside published results, softmax."""
    return sorted(group.finals.items(), reverse=summary.published is not None)


def _softmax_note(group: RunGroup) -> str:
    """Say that softmax is hotter than differences of values, where its tests fail or are slow and greedy ones not."""
    greedy, softmax = (group.finals.get(kind) for kind in ("greedy", "softmax"))
    if greedy is None or softmax is None or greedy.is_return:
        return ""
    is_slow = softmax.quartiles[1] > SLOW * greedy.quartiles[1]
    if greedy.success.value - softmax.success.value < HOT and not is_slow:
        return ""
    temperature = group.settings.get("temperature", 0)
    return (
        f"{group.label}: softmax at temperature {temperature:g} is hotter than many differences of values; see greedy."
    )


MEANING = (
    f"Test steps: median over runs of each run's median over its last {LAST_TESTS} tests; a failure counts as the step "
    f"limit.\nLearnt after: the median training step from which at least {ENOUGH:.0%} of tests succeed, within "
    f"{NEAR:.0%} of the final length."
)


RETURNS = (
    "Return: the sum of rewards of an episode; median over runs of each run's median over its last "
    f"{LAST_TESTS} tests.\nLearnt after: the median training step from which returns are within {NEAR:.0%} of the last."
)


def _print_published(summary: Summary) -> None:
    """Print published and measured values, and why they differ."""
    rows = [(section.title, comparison) for section in summary.sections for comparison in section.published_levels]
    if summary.published is None or not rows:
        return
    console = make_console()
    pair = ("published", "measured")
    titles = ["task", "learner", *pair, "", "published from", "measured from", *pair]
    table = []
    for task, comparison in rows:
        levels = (comparison.published, comparison.measured)
        final = (*(f"{level.final:.1f}" for level in levels), f"{comparison.difference:+.0%}")
        reached = ["never" if level.reached is None else f"{level.reached:,}" for level in levels]
        success = [f"{level.success:.3f}" for level in levels]
        table.append((task, comparison.label, *final, *reached, *success))
    console.print()
    print_table(console, titles, table)
    words = "final test steps, the training steps after which they are within 10% of it, and success"
    console.print(f"Published values from {summary.published.source}: {words}.", style="dim")
    for note in summary.published.notes:
        console.print(f"- {note}", style="dim")
    console.print()


def print_problems(summary: Summary) -> None:
    """Print which files of a folder were skipped, and why."""
    console = make_console(stderr=True)
    for problem in summary.problems:
        console.print(f"hocket: left out: {problem}", style="yellow")
