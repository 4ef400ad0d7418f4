"""What would make a study pointless, said before it starts."""

from __future__ import annotations

from collections.abc import Iterator

from hocket.errors import HocketError
from hocket.learn.catalogue import find_learner
from hocket.study.study import JobGroup, Study
from hocket.task.check import Inspection, check_task


def foresee(study: Study) -> tuple[str, ...]:
    """Say why runs of a study may have nothing to learn or to show, one sentence each."""
    groups = study.groups()
    said: dict[str, None] = {}
    for task in {group.task.digest: group.task for group in groups}.values():
        try:
            inspection = check_task(task)
        except HocketError:
            continue  # whoever compiles the task will say what is wrong
        said |= dict.fromkeys(f"{task.name}: {problem}" for problem in inspection.problems)
        for group in groups:
            if group.task == task:
                said |= dict.fromkeys(_too_short(group, inspection))
    return tuple(said)


def _too_short(group: JobGroup, inspection: Inspection) -> Iterator[str]:
    """Compare steps with how many an episode and a test need."""
    fewest, settings = inspection.fewest_steps, group.settings
    if group.steps < fewest and not find_learner(group.learner).is_reference:
        yield f"{group.label}: {group.steps:,} steps of training complete no episode, as each takes {fewest:,} or more."
    if settings.episode_steps < fewest:
        most = f"an episode ends after {settings.episode_steps:,} steps"
        yield f"{group.label}: {most}, and to complete the task takes {fewest:,} or more."
    if group.steps < settings.test_every:
        first = f"the first test, which comes after {settings.test_every:,}"
        yield f"{group.label}: {group.steps:,} steps of training end before {first}."
