"""All figures of a study, in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path

from hocket.draw.graphviz import FORMATS
from hocket.errors import FormatError
from hocket.files import make_folder
from hocket.learn.catalogue import learners_with_input
from hocket.learn.learner import PolicyInput
from hocket.report.figures.curves import draw_curves, draw_learning_times, has_tests
from hocket.report.figures.maps import MOST_AGENTS, PICTURED, can_show_visits, draw_policy, draw_visits
from hocket.report.summary import Section, Summary, summarize
from hocket.study.records import KINDS, slug
from hocket.study.store import Results, as_results

FEW_AGENTS = 4  # of more, policies are drawn of learners with machines only

Drawing = Callable[[Path], None]


def draw_figures(
    what: Results | Summary | str | Path, folder: str | Path, *, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Draw curves, bars, visits and policies of all tasks of a study into a folder; return the files.

    A policy is that of a group's first seed. A summary has no policies, so that only results have pictures of them.
    """
    wrong = [form for form in formats if f".{form}" not in FORMATS]
    if wrong:
        known = ", ".join(suffix[1:] for suffix in FORMATS)
        raise FormatError(f"a figure's format must be one of {known}, got {wrong[0]!r}")
    folder = make_folder(Path(folder))
    if not isinstance(what, Summary):
        what = as_results(what)
    summary = what if isinstance(what, Summary) else summarize(what)
    drawings = [drawing for section in summary.sections for drawing in _of_section(section)]
    if isinstance(what, Results):
        drawings += [drawing for section in summary.sections for drawing in _of_policies(what, section)]
    if sum(has_tests(section) for section in summary.sections) > 1:
        drawings.append(("learning-times", partial(draw_learning_times, summary)))
    made: list[Path] = []
    taken: set[str] = set()
    for name, draw in drawings:
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        stem = next(unused for unused in names if unused.lower() not in taken)  # some file systems ignore case
        taken.add(stem.lower())
        for form in formats:
            made.append(folder / f"{stem}.{form}")
            draw(made[-1])
    return made


def _of_section(section: Section) -> Iterator[tuple[str, Drawing]]:
    title = slug(section.title)
    for kind in KINDS:
        if has_tests(section, kind):
            suffix = "" if kind == KINDS[0] else f"-{kind}"
            yield f"{title}-curves{suffix}", partial(draw_curves, section, policy=kind)
            yield f"{title}-learning-times{suffix}", partial(draw_learning_times, section, policy=kind)
    for group in section.all_groups:
        if can_show_visits(section, group):
            yield f"{title}-visits-{slug(group.label)}", partial(draw_visits, section, group=group.label)


def _of_policies(results: Results, section: Section) -> Iterator[tuple[str, Drawing]]:
    task = results.tasks.get(section.digest)
    if task is None:
        return
    looks = PICTURED if len(task.agents) <= FEW_AGENTS else (PolicyInput.MACHINE,)
    learners = learners_with_input(*looks)
    for group in section.all_groups:
        first = next(record for record in results.records if record.name == group.files[0])
        if group.learner in learners and (policy := results.policy(first)) is not None:
            for agent in list(task.agents)[:MOST_AGENTS]:
                name = f"{slug(section.title)}-policy-{slug(group.label)}-{slug(agent)}"
                yield name, partial(draw_policy, task, policy, agent=agent)
