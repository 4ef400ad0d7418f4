"""What a study has found: a table on a terminal, or JSON."""

from __future__ import annotations

from dataclasses import asdict

from rich.text import Text

from hocket.cli.terminal import make_console, print_columns
from hocket.report.performance import ENOUGH, LAST_TESTS, NEAR
from hocket.report.summary import RunGroup, Section, Summary


def results_as_json(summary: Summary, stopped: bool) -> dict[str, object]:
    """Sum up every learner in JSON."""
    names = [section.title for section in summary.sections]
    rows = [_row(section, group) for section in summary.sections for group in section.all_groups]
    return {"task": names[0] if len(names) == 1 else None, "tasks": names, "stopped": stopped, "learners": rows}


def _row(section: Section, group: RunGroup) -> dict[str, object]:
    row: dict[str, object] = {"task": section.title, "learner": group.learner, "seeds": len(group.seeds)}
    row |= {"steps": group.steps, "settings": dict(group.apart)}
    for policy, final in group.finals.items():
        row[policy] = {
            "quartiles": list(final.quartiles),
            "success": final.success.value,
            "success_limits": [final.success.low, final.success.high],
            "learnt_after": None if group.is_reference else final.learnt_after,
            "learnt": None if group.is_reference else final.learnt,
        }
    for own in section.beside:
        if own.label == group.label:
            row |= {"published": asdict(own.published), "measured": asdict(own.measured)}
    if (bounds := group.bounds) is not None:
        about = {"episodes": bounds.episodes, "lower": bounds.lower, "success": bounds.success.value}
        row["bounds"] = {**about, "upper": bounds.upper}
    return row


def print_results(summary: Summary, *, stopped: bool = False, kept: bool = True) -> None:
    """Print the last tests of every learner, and the bounds on its success."""
    console = make_console()
    if stopped:
        console.print(f"Stopped early; {'runs that were finished are kept' if kept else 'some runs are missing'}.")
    if not summary.sections:
        console.print("No runs are summed up.")
        print_problems(summary)
        return
    many = len(summary.sections) > 1
    titles = ("learner", "runs", "steps", "policy", "test steps: median (quartiles)", "success", "learnt after")
    table = [[Text(title, "dim") for title in (("task", *titles) if many else titles)]]
    for section in summary.sections:
        for group in section.all_groups:
            for policy, final in group.finals.items():
                low, middle, high = final.quartiles
                cells = (group.label, str(len(group.seeds)), f"{group.steps:,}", policy)
                learnt = "–" if group.is_reference else final.learnt_in_words
                shown = (*cells, f"{middle:g} ({low:g} to {high:g})", f"{final.success.value:.3f}", learnt)
                table.append([Text(cell) for cell in ((section.title, *shown) if many else shown)])
    print_columns(console, table)
    console.print(MEANING, style="dim")
    for label in dict.fromkeys(own.reference.label for own in summary.sections if own.reference is not None):
        console.print(f"Of {label}, which learns nothing, all tests count.", style="dim")
    _print_published(summary)
    for section in summary.sections:
        for group in section.all_groups:
            if (bounds := group.bounds) is not None:
                where = f"{group.label} on {section.title}" if many else group.label
                within = f"{bounds.lower:.3f} <= V = {bounds.success.value:.3f} <= {bounds.upper:.3f}"
                console.print(f"Theorem 3 for {where}, over {bounds.episodes:,} episodes: {within}")
    print_problems(summary)


MEANING = (
    f"Over runs, the median of each one's median of its last {LAST_TESTS} tests; a failed test counts as its most "
    f"steps.\nLearnt: from then on {ENOUGH:.0%} of a run's tests succeed, at most {NEAR:.0%} slower than in the end; "
    "the median."
)


def _print_published(summary: Summary) -> None:
    """Print what is published beside what is measured, and why they differ."""
    rows = [(section.title, own) for section in summary.sections for own in section.beside]
    if summary.published is None or not rows:
        return
    console = make_console()
    titles = (
        "task",
        "learner",
        "published",
        "measured",
        "",
        "published from",
        "measured from",
        "published",
        "measured",
    )
    table = [[Text(title, "dim") for title in titles]]
    for task, own in rows:
        levels = (own.published, own.measured)
        final = (*(f"{level.final:.1f}" for level in levels), f"{own.difference:+.0%}")
        reached = ["never" if level.reached is None else f"{level.reached:,}" for level in levels]
        success = [f"{level.success:.3f}" for level in levels]
        table.append([Text(cell) for cell in (task, own.label, *final, *reached, *success)])
    console.print()
    print_columns(console, table)
    words = "final test steps, the training steps from which on they are within a tenth, and success"
    console.print(f"Published by {summary.published.source}: {words}.", style="dim")
    for note in summary.published.notes:
        console.print(f"- {note}", style="dim")
    console.print()


def print_problems(summary: Summary) -> None:
    """Say which files of a folder were left out, and why."""
    console = make_console(stderr=True)
    for problem in summary.problems:
        console.print(f"hocket: left out: {problem}", style="yellow")
