"""All figures of a study, in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path

from hocket.draw.graphviz import FORMATS
from hocket.errors import FormatError
from hocket.files import make_folder
from hocket.learn.catalogue import learners_with_input
from hocket.learn.learner import PolicyInput
from hocket.report.figures.canvas import Make, write_figure
from hocket.report.figures.curves import curves_figure, groups_with_tests, learning_times_figure
from hocket.report.figures.maps import MOST_AGENTS, PICTURED, can_show_visits, policy_figure, visits_figure
from hocket.report.summary import Section, Summary, summarize
from hocket.study.records import KINDS, slug
from hocket.study.store import Results, as_results

FEW_AGENTS = 4  # with more, only policies of learners with machines are drawn


def draw_figures(
    what: Results | Summary | str | Path, folder: str | Path, *, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Draw curves, bars, visits and policies of all tasks of a study into a folder; return the files.

    The policy of a group is that of its first seed; a summary has no policies.
    """
    for form in formats:
        if f".{form}" not in FORMATS:
            known = ", ".join(suffix[1:] for suffix in FORMATS)
            raise FormatError(f"a figure's format must be one of {known}, got {form!r}")
    folder = make_folder(Path(folder))
    content = what if isinstance(what, Summary) else as_results(what)
    summary = content if isinstance(content, Summary) else summarize(content)
    drawings = [drawing for section in summary.sections for drawing in _of_section(section)]
    if isinstance(content, Results):
        drawings += [drawing for section in summary.sections for drawing in _of_policies(content, section)]
    if sum(bool(groups_with_tests(section)) for section in summary.sections) > 1:
        drawings.append(("learning-times", partial(learning_times_figure, summary)))
    made, taken = list[Path](), set[str]()
    for name, make in drawings:
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        stem = next(stem for stem in names if stem.lower() not in taken)  # some file systems ignore case
        taken.add(stem.lower())
        for form in formats:
            made.append(folder / f"{stem}.{form}")
            write_figure(made[-1], make)
    return made


def _of_section(section: Section) -> Iterator[tuple[str, Make]]:
    title = slug(section.title)
    for kind in KINDS:
        if groups_with_tests(section, kind):
            suffix = "" if kind == KINDS[0] else f"-{kind}"
            yield f"{title}-curves{suffix}", partial(curves_figure, section, policy=kind)
            yield f"{title}-learning-times{suffix}", partial(learning_times_figure, section, policy=kind)
    for group in section.all_groups:
        if can_show_visits(section, group):
            yield f"{title}-visits-{slug(group.label)}", partial(visits_figure, section, group)


def _of_policies(results: Results, section: Section) -> Iterator[tuple[str, Make]]:
    task = results.tasks.get(section.digest)
    if task is None:
        return
    learners = learners_with_input(*(PICTURED if len(task.agents) <= FEW_AGENTS else (PolicyInput.MACHINE,)))
    for group in section.all_groups:
        first = next(record for record in results.records if record.name == group.files[0])
        if group.learner in learners and (policy := results.policy(first)) is not None:
            for agent in list(task.agents)[:MOST_AGENTS]:
                name = f"{slug(section.title)}-policy-{slug(group.label)}-{slug(agent)}"
                yield name, partial(policy_figure, task, policy, agent=agent)
