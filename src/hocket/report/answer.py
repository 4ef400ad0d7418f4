"""What a study comes to: in sentences (who learnt, steps in the end, the optimum), and averaged over tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hocket.errors import counted
from hocket.report.summary import RunGroup, Section, Summary
from hocket.statistics import Interval, mean_share
from hocket.study.records import KINDS

MOST_NAMED = 4  # learners or tasks in a sentence
GREEDY, SOFTMAX = "greedy", KINDS[0]


def answer(section: Section, kind: str = GREEDY) -> str:
    """Give the result of a task in tests of a kind, if there are any: of its best learner, the optimum, the others."""
    groups = [group for group in section.groups if group.finals]
    if not groups:
        return ""
    kind = kind if all(kind in group.finals for group in groups) else next(iter(groups[0].finals))
    best, *others = sorted(groups, key=lambda group: _rank(group, kind))
    final = best.finals[kind]
    runs, steps = len(best.seeds), final.quartiles[1]
    learnt = f"{final.learnt or 'none'} of {runs} runs learnt"
    if runs == 1:
        learnt = "the run learnt" if final.learnt else "the run did not learn"
    measure = f"return {steps:g}" if section.has_returns else f"{steps:g} steps"
    sentence = f"{learnt}; {measure} {kind}{_optimum(section, kind, steps)}."
    if not others:
        return sentence
    told = []
    for group in others[:MOST_NAMED]:
        final, runs = group.finals[kind], len(group.seeds)
        some = f" ({final.learnt} of {runs} runs learnt)" if final.learnt < runs else ""
        told.append(f"{group.label} {final.quartiles[1]:g}{some}")
    if len(others) > MOST_NAMED:
        told.append(f"and {len(others) - MOST_NAMED} more")
    return f"{best.label}: {sentence} Others: {', '.join(told)}."


def _rank(group: RunGroup, kind: str) -> tuple[float, float, float]:
    final = group.finals[kind]
    cost = -final.quartiles[1] if final.is_return else final.quartiles[1]
    return -final.learnt / len(group.seeds), cost, math.inf if final.learnt_after is None else final.learnt_after


def _optimum(section: Section, kind: str, steps: float) -> str:
    """Say how few steps there could be: no fewer than a bound, or as few as optimal policies take, or their return."""
    level = section.level(kind)
    if section.has_returns:
        return "" if section.reference is None or level is None else f", {section.reference.label} earns {level:g}"
    bound = 0 if section.verdict is None else section.verdict.steps_lower_bound
    if bound and min(steps, steps if level is None else level) <= bound:
        return f", the optimum is {bound}"
    if section.reference is not None and level is not None:
        return f", {section.reference.label} takes {level:g}"
    return f", at least {bound} are needed" if bound else ""


def comparison_with_published(summary: Summary) -> str:
    """Say how far measured levels are from published ones."""
    rows = [comparison for section in summary.sections for comparison in section.published_levels]
    if not rows:
        return ""
    low, high = min(row.difference for row in rows), max(row.difference for row in rows)
    count = f"{len(rows)} published results are" if len(rows) > 1 else "One published result is"
    return f"{count} measured again: final test steps differ by {_percent(low)} to {_percent(high)}."


def _percent(value: float) -> str:
    return f"{value:+.0%}".replace("-", "−").replace("+0%", "0%").replace("−0%", "0%").replace("%", " %")


def runs_in_words(summary: Summary) -> str:
    """Say what was run: how many runs, of whom, on what, with how many seeds, and how long."""
    groups = [group for section in summary.sections for group in section.all_groups]
    counts, steps = [len(group.seeds) for group in groups], [group.steps for group in groups]
    learners = _listed([*dict.fromkeys(group.learner for group in groups)], "learners")
    tasks = _listed([section.title for section in summary.sections], "tasks")
    each = f", {ranged(counts, 'seed')} each" if len(groups) > 1 else ""
    return (
        f"{counted(sum(counts), 'run')} of {learners} on {tasks}{each}; {ranged(steps, 'training step')}"
        f"{' per run' if sum(counts) > 1 else ''}."
    )


def _listed(names: Sequence[str], things: str) -> str:
    if len(names) > MOST_NAMED:
        return f"{len(names)} {things}"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def ranged(values: Sequence[int], thing: str) -> str:
    """Write from how many to how many of a thing there are."""
    low, high = min(values), max(values)
    return counted(high, thing) if low == high else f"{low:,} to {counted(high, thing)}"


class TaskAverage(NamedTuple):
    """Runs of one kind on several tasks, all tasks counting alike."""

    label: str  # of the groups
    policy: str
    tasks: int
    runs: int
    learnt: int | None  # of the runs; None where there was nothing to learn
    success: Interval  # the mean over tasks of the mean over runs


def across_tasks(sections: Sequence[Section]) -> list[TaskAverage]:
    """Sum up what was run on more than one task."""
    rows = []
    for kind in dict.fromkeys(kind for section in sections for kind in section.kinds):
        judged = (group for section in sections if not section.has_returns for group in section.all_groups)
        groups = [group for group in judged if kind in group.finals]
        for label in dict.fromkeys(group.label for group in groups):
            same = [group for group in groups if group.label == label]
            finals = [group.finals[kind] for group in same]
            if len(finals) > 1:
                runs = sum(len(final.shares) for final in finals)
                learnt = None if same[0].is_reference else sum(final.learnt for final in finals)
                success = mean_share(*(final.shares for final in finals))
                rows.append(TaskAverage(label, kind, len(finals), runs, learnt, success))
    return rows
