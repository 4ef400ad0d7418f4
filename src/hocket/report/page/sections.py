"""What a page says of a study and its tasks without scripts, which add curves and episodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hocket.draw.geometry import Point
from hocket.draw.markup import Html, join, tag
from hocket.draw.scene import Scene
from hocket.learn.catalogue import LEARNERS
from hocket.report.answer import GREEDY, SOFTMAX, answer, comparison_with_published, runs_in_words
from hocket.report.page.overview import overview
from hocket.report.page.settings import settings_and_data
from hocket.report.page.standings import bounds, comparisons, published_table, statistics
from hocket.report.performance import LAST_TESTS
from hocket.report.summary import Section, Summary
from hocket.study.records import slug
from hocket.texts import counted

# The study.


def opening(summary: Summary) -> Html:
    """Say what the study comes to, and then what was run."""
    if not summary.sections:
        return tag("p", "There are no runs in this folder yet.", class_="lede")
    kind = GREEDY if summary.published is None else SOFTMAX
    answers = [(section, answer(section, kind)) for section in summary.sections]
    told = [(section, words) for section, words in answers if words]
    if len(told) == 1:
        lines = [tag("p", told[0][1], class_="lede")]
    else:
        rows = [
            tag("li", tag("a", section.title, href=f"#task-{number}"), ": ", words)
            for number, (section, words) in enumerate(answers, start=1)
            if words
        ]
        lines = [tag("ul", *rows, class_="answers")]
    learners = dict.fromkeys(group.learner for section in summary.sections for group in section.all_groups)
    known = [(name, LEARNERS[name].summary if name in LEARNERS else "") for name in learners]
    items = [tag("li", tag("b", name), f": {meaning}" if meaning else "") for name, meaning in known]
    published = comparison_with_published(summary)
    tests = "The team is tested regularly during training; fewer steps per test are better."
    if any(section.has_returns for section in summary.sections):
        tests = "The team is tested regularly during training; fewer steps per test, or larger returns, are better."
    return join(
        [
            tag("p", published, class_="lede") if published else "",
            side_by_side(summary) if published else "",
            *lines,
            tag("p", f"{runs_in_words(summary)} {tests}", class_="note"),
            tag("ul", *items, class_="learners"),
            "" if published else side_by_side(summary),
        ]
    )


def side_by_side(summary: Summary) -> Html:
    """Show the curves of all tasks beside each other, as the paper does; scripts draw them."""
    numbers = [n for n, section in enumerate(summary.sections) if any(group.curves for group in section.groups)]
    if not 1 < len(numbers) <= MOST_BESIDE:
        return Html("")
    figures = [
        tag(
            "figure",
            tag("figcaption", tag("a", summary.sections[number].title, href=f"#task-{number + 1}")),
            tag("div", NO_SCRIPT, class_="curves small", data_section=number),
        )
        for number in numbers
    ]
    return tag("div", *figures, class_="beside")


def facts(summary: Summary) -> Html:
    """List what the study was run with, and on."""
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in summary.made]
    return tag("dl", *pairs, class_="facts")


def warnings(summary: Summary) -> Html:
    """Say what is missing."""
    lines = []
    if summary.missing:
        verb = "is" if summary.missing == 1 else "are"
        lines.append(tag("p", f"{counted(summary.missing, 'run')} of this study {verb} not finished yet."))
    if summary.problems:
        files = [tag("li", problem) for problem in summary.problems[:MOST_NAMED]]
        if (left := len(summary.problems) - MOST_NAMED) > 0:
            files.append(tag("li", f"and {left:,} more"))
        count = counted(len(summary.problems), "file")
        lines += [tag("p", f"{count} could not be read; skipped:"), tag("ul", *files)]
    return tag("div", *lines, class_="warning", role="note") if lines else Html("")


def navigation(summary: Summary) -> Html:
    """Link to the tasks."""
    sections = enumerate(summary.sections, start=1)
    links = [tag("a", section.title, href=f"#task-{number}") for number, section in sections]
    return join([*links, tag("a", "How to read this", href="#reading")])


# A task.


def task_section(
    section: Section, summary: Summary, number: int, colors: Mapping[str, int], folder: str | None = None
) -> Html:
    """Say everything about a task; scripts add curves and episodes where they find room made for them."""
    scene = section.scene
    parts = [
        tag("h2", tag("a", section.title, href=f"#task-{number}")),
        overview(scene, _starts(scene, section), section.verdict)
        if scene is not None
        else tag("p", NO_SCENE, class_="note"),
        _curves(section, number),
        statistics(section, colors),
        *(tag("p", group.team_verdict, class_="note") for group in section.all_groups if group.team_verdict),
        published_table(section, summary.published, colors),
        comparisons(section),
        bounds(section, colors),
        settings_and_data(section, colors, folder),
        _episodes(section, number),
    ]
    return tag("section", *_linked(parts, number), class_="task", id=f"task-{number}", data_section=number - 1)


def _linked(parts: Sequence[Html], number: int) -> list[Html]:
    """Make the headings of a task's parts links to themselves, and list them below the first."""
    links: list[Html] = []

    def link(heading: re.Match[str]) -> str:
        place = f"task-{number}-{slug(heading[1])}"
        links.append(tag("a", Html(heading[1]), href=f"#{place}"))
        return tag("h3", tag("a", Html(heading[1]), href=f"#{place}"), id=place)

    title, *others = (Html(re.sub(r"<h3>(.*?)</h3>", link, part)) for part in parts)
    listed = tag("p", join(links, " · "), class_="parts") if len(links) > 1 else Html("")
    return [title, listed, *others]


MOST_NAMED = 100  # files that were left out
MOST_BESIDE = 6  # tasks whose curves are shown beside each other
NO_SCENE = "The folder has no readable file of this task, so its map and machines cannot be shown."


def _starts(scene: Scene, section: Section) -> list[Point]:
    """Find where all agents start, if need be from any episode."""
    if scene.starts.keys() == {*scene.agents}:
        return [scene.starts[name] for name in scene.agents]
    replay = next((candidate for group in section.all_groups for candidate in group.replays.values()), None)
    return [] if replay is None else [(across, down) for across, down in replay.points[0].tolist()]


def _curves(section: Section, number: int) -> Html:
    if not any(group.curves for group in section.groups):
        return Html("")
    return tag(
        "div",
        tag("h3", "Learning curves"),
        tag(
            "p",
            f"{'Lines' if section.is_continuing else 'Upper plot'}: median over runs of each run’s median over its "
            f"last {LAST_TESTS} tests; the band is the interquartile range over runs. "
            + ("" if section.is_continuing else "Lower plot: success rate in the same tests, mean over runs. ")
            + (
                "Tests measure the return of an episode, the sum of its rewards."
                if section.has_returns
                else f"A failure counts as {section.most_steps:,} steps."
            ),
            class_="note",
        ),
        tag("div", NO_SCRIPT, class_="curves", data_section=number - 1),
    )


NO_SCRIPT = tag("noscript", tag("p", "The curves and episodes need JavaScript.", class_="note"))


# Episodes.


def _episodes(section: Section, number: int) -> Html:
    if section.scene is None or not any(group.replays for group in section.all_groups):
        return Html("")
    return tag(
        "div",
        tag("h3", "Episode replay"),
        tag(
            "div",
            id=f"replay-{number}",
            class_="replay",
            data_section=number - 1,
            tabindex="0",
            role="group",
            aria_label="Episode replay",
        ),
    )
