"""The tables of a task: final performance, pairwise comparisons, the bounds of Theorem 3, and all settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote

from hocket.draw.markup import Html, join, tag
from hocket.evaluation.evaluate import Bounds
from hocket.learn.catalogue import LEARNERS
from hocket.learn.settings import SettingInfo, describe_settings
from hocket.report.document import block, note
from hocket.report.performance import ENOUGH, LAST_TESTS, NEAR
from hocket.report.summary import GroupComparison, RunGroup, Section, ranged
from hocket.statistics import FEWEST_RUNS, Interval, mean_share
from hocket.study.study import Published

FEW_COMPARED = 10  # pairs that are not folded away
FEW_AGENTS = 12  # whose values are all written
MOST_LINKED = 100  # runs of a group

# Titles, with what stands in small print below them.
STATISTICS = {
    "learner": "", "policy": "", "runs": "", "test steps": "median (quartiles)", "mean steps": "with failures [95 %]",
    "success": "share [95 %]", "learnt after": "training steps", "computing": "seconds",
}  # fmt: skip
RETURNS = {"test steps": "return", "mean steps": "mean return"}  # titles for tasks with rewards
AVERAGES = {"learner": "", "policy": "", "tasks": "", "runs": "", "success": "share [95 %]", "learnt": "runs"}
PUBLISHED = (
    ("learner", ""), ("test steps", "published"), ("", "measured"), ("", "difference"), ("reached after", "published"),
    ("", "measured"), ("success", "published"), ("", "measured"),
)  # fmt: skip
Row = tuple[Html, ...]  # of cells
THEOREM = (
    "The success probability of the team, <i>V</i>, is bounded by those of the agents in their own sub-tasks, "
    '<i>V<sub>i</sub></i>: <span class="formula">max(0, Σ <i>V<sub>i</sub></i> − (<i>N</i> − 1)) ≤ <i>V</i> ≤ '
    "min <i>V<sub>i</sub></i></span>. "
)


def table(
    titles: Iterable[tuple[str, str]], rows: Iterable[Row], label: str, *, texts: int = 0, kind: str = "statistics"
) -> Html:
    """Make a table that scrolls; it can be sorted if its first `texts` columns are text and the others numbers."""
    heads = []
    for index, (title, unit) in enumerate(titles):
        order = ("number" if index >= texts else "text") if texts else None
        heads.append(tag("th", title, tag("small", unit) if unit else "", scope="col", data_sort=order))
    content = tag("thead", tag("tr", *heads)), tag("tbody", *(tag("tr", *cells) for cells in rows))
    wide = tag("table", *content, class_=kind, data_sortable=bool(texts))
    return tag("div", wide, class_="scrolling", tabindex="0", role="region", aria_label=label)


def statistics(section: Section) -> Html:
    """Tabulate the last tests of all runs."""
    tested = [(kind, group) for kind in section.kinds for group in section.all_groups if kind in group.finals]
    rows = [_row(section, group, kind) for kind, group in tested]
    if not rows:
        return Html("")
    all_tests = "" if section.reference is None else f" (all tests of {section.reference.label}, which does not learn)"
    renamed, what, counts = {}, "steps", f"a failure counts as {section.most_steps:,} steps"
    learnt = f"at least {ENOUGH:.0%} of tests succeed, in at most {1 + NEAR:g} times the final steps"
    if section.has_returns:
        renamed, what, counts = RETURNS, "return", "a return is the sum of the rewards of an episode"
        learnt = f"returns are within {NEAR:.0%} of the last"
    text = (
        f"All columns use the last {LAST_TESTS} tests of each run, as the curves do{all_tests}; {counts}. "
        f"{section.measure.capitalize()}: median and quartiles over runs of each run’s median. Mean {what}: "
        "interquartile mean over runs of each run’s mean. Success: mean over runs. 95 % limits are over runs, if there "
        f"are at least {FEWEST_RUNS}. Learnt after: the median training step from which {learnt}."
    )
    titles = [(renamed.get(title, title), unit) for title, unit in STATISTICS.items()]
    return block("Final performance", table(titles, rows, f"Statistics of {section.title}", texts=2), note(text))


class TaskAverage(NamedTuple):
    """The average over several tasks, all with the same weight."""

    label: str  # of the groups
    policy: str
    tasks: int
    runs: int
    learnt: int | None  # number of runs; None: the learner does not learn
    success: Interval  # the mean over tasks of the mean over runs


def across_tasks(sections: Sequence[Section]) -> list[TaskAverage]:
    """Average the groups that were run on more than one task."""
    rows = []
    for kind in dict.fromkeys(kind for section in sections for kind in section.kinds):
        with_success = (group for section in sections if not section.has_returns for group in section.all_groups)
        groups: dict[str, list[RunGroup]] = {}
        for group in (group for group in with_success if kind in group.finals):
            groups.setdefault(group.label, []).append(group)
        for label, same in groups.items():
            shares = [group.finals[kind].shares for group in same]
            learnt = None if same[0].is_reference else sum(group.finals[kind].learnt for group in same)
            if len(same) > 1:
                rows.append(TaskAverage(label, kind, len(same), sum(map(len, shares)), learnt, mean_share(*shares)))
    return rows


def over_all_tasks(sections: Sequence[Section], colors: Mapping[str, int]) -> Html:
    """Tabulate the averages over several tasks."""
    averages = across_tasks(sections)
    if not averages:
        return Html("")
    rows = []
    for row in averages:
        learnt = DASH if row.learnt is None else cell(row.learnt / row.runs, f"{row.learnt:,} of {row.runs:,}")
        counts = cell(row.tasks, str(row.tasks)), cell(row.runs, f"{row.runs:,}")
        rows.append((*_names(row.label, row.policy, colors), *counts, _estimate(row.success, share), learnt))
    text = (
        "Every task has the same weight: success is the mean over tasks of the mean over runs, with 95 % limits over "
        "runs. Compare only learners with the same tasks."
    )
    averages_table = table(AVERAGES.items(), rows, "Statistics over all tasks", texts=2)
    return tag("section", tag("h2", "Over all tasks"), averages_table, note(text))


def _row(section: Section, group: RunGroup, kind: str) -> Row:
    final = group.finals[kind]
    low, middle, high = final.quartiles
    when, _, some = final.learnt_in_words.partition(" ")
    return (
        *_names(group.label, kind, section.colors),
        cell(len(group.seeds), f"{len(group.seeds):,}"),
        cell(middle, number(middle), f"({number(low)} to {number(high)})"),
        _estimate(final.mean, number),
        DASH if section.is_continuing else _estimate(final.success, share),
        DASH if group.is_reference else cell(final.learnt_after, when, some),
        cell(group.seconds, f"{group.seconds:,.1f}"),
    )


def _names(label: str, policy: str, colors: Mapping[str, int]) -> tuple[Html, Html]:
    learner = tag("th", learner_key(label, colors), scope="row", data_value=label)
    return learner, tag("td", policy, data_value=policy)


def _estimate(interval: Interval, write: Callable[[float], str]) -> Html:
    return cell(interval.value, write(interval.value), _limits(interval, write))


def cell(value: float | None, text: str, remark: str = "") -> Html:
    """Make a cell of a number in a table that can be sorted."""
    small = [" ", tag("small", remark)] if remark else []
    return tag("td", text, *small, class_="number", data_value="" if value is None else f"{value:.9g}")


DASH = cell(None, "–")  # no value


def learner_key(label: str, colors: Mapping[str, int]) -> Html:
    """Write a learner's label after a mark in its colour."""
    color = colors.get(label)
    kind = "reference" if color is None else f"line-{color % 8}"
    return join([tag("span", class_=f"key {kind}", aria_hidden="true"), label])


def _limits(interval: Interval, write: Callable[[float], str]) -> str:
    """Write confidence limits; a few runs have none."""
    return "[{} to {}]".format(*map(write, interval.limits)) if interval.limits else ""


def published_table(section: Section, published: Published | None) -> Html:
    """Tabulate published and measured values, with notes on differences."""
    if published is None or not section.published_levels:
        return Html("")
    rows: list[Row] = []
    for comparison in section.published_levels:
        levels = comparison.published, comparison.measured
        learner = tag("th", learner_key(comparison.label, section.colors), scope="row")
        difference = cell(comparison.difference, f"{comparison.difference:+.0%}".replace("-", "−"))
        reached = (cell(level.reached, "never" if level.reached is None else f"{level.reached:,}") for level in levels)
        finals = (cell(level.final, number(level.final)) for level in levels)
        success = (cell(level.success, share(level.success)) for level in levels)
        rows.append((learner, *finals, difference, *reached, *success))
    text = (
        f"Published values from {published.source}. Test steps: median over runs, averaged over the last ten tests. "
        "Reached after: the first training step at which that median, smoothed over ten tests, is within 10 % of its "
        "final value. Success: the success rate of the last fifty tests. Softmax tests."
    )
    levels_table = table(PUBLISHED, rows, f"Published and measured levels of {section.title}")
    notes = tag("ul", *(tag("li", remark) for remark in published.notes), class_="note") if published.notes else ""
    return block("Published results", levels_table, note(text), notes)


# Comparisons and bounds.


def comparisons(section: Section) -> Html:
    """Compare learners pairwise: the probability that one is better, with its interval and p-value."""
    if not section.comparisons:
        return Html("")
    better = "earns more" if section.has_returns else "takes fewer steps"
    text = (
        f"The probability that a run of the first learner {better} in its last tests than a run of the second, "
        "with its 95 % interval; p is from a two-sided permutation test."
    )
    parts = []
    for kind in dict.fromkeys(pair.policy for pair in section.comparisons):
        rows = [_comparison(pair) for pair in section.comparisons if pair.policy == kind]
        scales = tag("div", *rows, class_="scales")
        if len(rows) > FEW_COMPARED:
            parts.append(tag("details", tag("summary", f"All {len(rows):,} pairs ({kind})"), scales))
        else:
            parts.append(tag("div", note(f"{kind.capitalize()} policies:"), scales))
    return block("Pairwise comparison", note(text), *parts)


def _comparison(pair: GroupComparison) -> Html:
    estimate, p = pair.comparison
    probability, (low, high) = estimate.value, estimate.limits or (0.0, 1.0)
    verdict = "even" if low <= 0.5 <= high else "first" if probability > 0.5 else "second"
    limits = _limits(estimate, share)
    text = f"{share(probability)}{limits and f' {limits}'}, p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
    whisker = _mark("whisker", low, high) if limits else ""
    line = _scale(text, whisker, _mark("middle", 0.5), _mark("dot", probability))
    names = tag("div", tag("b", pair.first), " against ", tag("b", pair.second))
    return tag("div", names, line, tag("div", text, class_="numbers"), class_=f"row {verdict}")


def bounds(section: Section) -> Html:
    """Draw the bounds on the team's success from the success of each agent alone."""
    known = [(group.label, group.bounds) for group in section.all_groups if group.bounds is not None]
    if not known:
        return Html("")
    kinds = ", ".join(dict.fromkeys(bound.policy for _, bound in known))
    text = (
        f"Measured in {ranged([bound.episodes for _, bound in known], 'episode')} with the final policies "
        f"({kinds}). Band: the bounds. Dot: V with its 95 % limits over runs. Strokes: the agents’ values."
    )
    rows = [_bound(label, bound, section.colors) for label, bound in known]
    return block("Bounds of Theorem 3", note(Html(THEOREM), text), tag("div", *rows, class_="scales"))


def _bound(label: str, bound: Bounds, colors: Mapping[str, int]) -> Html:
    values = sorted({agent_share.value for agent_share in bound.agents.values()})
    text = f"{share(bound.lower)} ≤ V = {share(bound.success.value)} ≤ {share(bound.upper)}"
    strokes = (_mark("stroke", value) for value in values)
    whisker = _mark("whisker", *bound.success.limits) if bound.success.limits else ""
    band, dot = _mark("band", bound.lower, bound.upper), _mark("dot", bound.success.value)
    line = _scale(text, band, *strokes, whisker, dot)
    agents = " · ".join(f"{name} {share(agent_share.value)}" for name, agent_share in bound.agents.items())
    if values[0] == values[-1]:
        agents = f"every agent {share(values[0])}"
    elif len(bound.agents) > FEW_AGENTS:
        agents = f"{len(bound.agents):,} agents, {share(values[0])} to {share(values[-1])}"
    numbers = tag("div", text, tag("small", agents), class_="numbers")
    return tag("div", tag("div", learner_key(label, colors)), line, numbers, class_="row")


def _scale(text: str, *marks: str) -> Html:
    """Draw marks between 0 and 1; the text describes them."""
    return tag("div", *marks, class_="scale", role="img", aria_label=text)


def _mark(kind: str, low: float, high: float | None = None) -> Html:
    width = "" if high is None else f";width:{100 * max(high - low, 0):.2f}%"
    return tag("span", class_=kind, style=f"left:{100 * low:.2f}%{width}")


# Numbers in words.


def number(value: float) -> str:
    """Write a number of steps, halves rounded up as scripts do.

    >>> number(1000.0), number(30.25), number(120.5)
    ('1,000', '30.3', '121')
    """
    if value >= 100 or value == int(value):
        return f"{math.floor(value + 0.5):,}"
    return f"{math.floor(10 * value + 0.5) / 10:.1f}"


def share(value: float) -> str:
    """Write a share, never rounding one that is not 0 or 1 to it.

    >>> share(1.0), share(0.9996), share(0.0001), share(0.5)
    ('1.000', '>0.999', '<0.001', '0.500')
    """
    return "<0.001" if 0 < value < 0.0005 else ">0.999" if 0.9995 <= value < 1 else f"{value:.3f}"


# Settings, and where the data are.


def settings_and_data(section: Section, folder: str | None) -> Html:
    """Tabulate the settings of all groups; with `folder`, the prefix of links, link to the files of their runs."""
    groups = section.all_groups
    titles = ["setting", "unit", *(learner_key(group.label, section.colors) for group in groups)]
    rows = [_setting_row("training steps", "", [f"{group.steps:,}" for group in groups], "")]
    learners = [LEARNERS.get(group.learner) for group in groups]
    described = [() if learner is None else describe_settings(learner.settings) for learner in learners]
    known = [{setting.name: setting for setting in settings} for settings in described]
    for name in dict.fromkeys(name for group in groups for name in group.settings):
        about = [settings[name] for settings in known if name in settings]
        unit, meaning = (about[0].unit, about[0].meaning) if about else ("", "")
        values = [_value(group, name, settings) for group, settings in zip(groups, known, strict=True)]
        rows.append(_setting_row(name, unit, values, meaning))
    title, text = "All settings", ["Bold: not the default."]
    if folder is not None:
        title = "All settings, and links to the data"
        links = [_links(group, folder) for group in groups]
        rows.append(_setting_row("runs, by seed", "", links, "record and policy of each"))
        curves, study = (tag("a", name, href=f"{folder}{name}") for name in ("curves.csv", "study.json"))
        text += [" π: the policies of a run. All tests of all runs are in ", curves]
        text += [", versions and times in ", study, "."]
    heads = ((title, "") for title in titles)
    settings = table(heads, rows, f"Settings of {section.title}", kind="statistics settings")
    return tag("details", tag("summary", title), settings, note(*text))


def _setting_row(name: str, unit: str, cells: Sequence[str], meaning: str) -> Row:
    title = tag("th", name, scope="row", title=meaning or None)
    return title, tag("td", tag("small", unit)), *(tag("td", content) for content in cells)


def _value(group: RunGroup, name: str, known: Mapping[str, SettingInfo]) -> str:
    if name not in group.settings or (known and name not in known):
        return "–"
    value = group.settings[name]
    text = value if isinstance(value, str) else f"{value:,}" if value >= 1 else f"{value:g}"
    text = ("yes" if value else "no") if isinstance(value, bool) else text
    return tag("b", text) if name in known and known[name].default != value else text


def _links(group: RunGroup, folder: str) -> Html:
    """Link to the record and the policy of each run; of many, to the first ones and to the folder."""
    links = []
    for seed, name in islice(zip(group.seeds, group.files, strict=True), MOST_LINKED):
        links.append(tag("a", str(seed), href=f"{folder}runs/{quote(name)}.json", title=f"The record of seed {seed}"))
        if name in group.policies:
            href = f"{folder}policies/{quote(name)}.npz"
            links.append(tag("a", "π", href=href, title=f"The policies of seed {seed}"))
    if (others := len(group.seeds) - MOST_LINKED) > 0:
        links.append(tag("a", f"and {others:,} more", href=f"{folder}runs/", title="The records of all runs"))
    return join(links, " ")
