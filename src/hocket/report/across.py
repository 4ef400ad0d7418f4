"""How good learners are over all tasks of a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hocket.report.summary import Section
from hocket.statistics import Interval
from hocket.study.records import KINDS

RESAMPLES = 2_000
LIMITS = (2.5, 97.5)  # percentiles


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
    for kind in KINDS:
        groups = [group for section in sections for group in section.all_groups if kind in group.finals]
        for label in dict.fromkeys(group.label for group in groups):
            same = [group for group in groups if group.label == label]
            finals = [group.finals[kind] for group in same]
            if len(finals) > 1:
                runs = sum(len(final.shares) for final in finals)
                learnt = None if same[0].is_reference else sum(final.learnt for final in finals)
                success = stratified_mean([final.shares for final in finals])
                rows.append(TaskAverage(label, kind, len(finals), runs, learnt, success))
    return rows


def stratified_mean(strata: Sequence[ArrayLike], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Average the means of strata, with limits of 95 % by the stratified bootstrap: runs are drawn within each of them.

    >>> stratified_mean([[1.0, 1.0, 1.0], [0.0, 0.0]])
    Interval(value=0.5, low=0.5, high=0.5)
    """
    generator = np.random.default_rng(seed)
    rows = [np.asarray(row, np.float64) for row in strata]
    means = [
        generator.multinomial(len(row), np.full(len(row), 1 / len(row)), resamples) @ row / len(row) for row in rows
    ]
    low, high = np.percentile(np.mean(means, axis=0), LIMITS).tolist()
    return Interval(float(np.mean([row.mean() for row in rows])), low, high)
