"""Final performance of learners: a table, pairwise comparisons, and the bounds of Theorem 3."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hocket.evaluation.bounds import Bounds
from hocket.report.across import across_tasks
from hocket.report.page.markup import Html, join, tag
from hocket.report.performance import ENOUGH, LAST_TESTS, NEAR, Final
from hocket.report.summary import RunGroup, Section
from hocket.statistics import Comparison, Interval, Share
from hocket.study.records import KINDS

FEW_COMPARED = 10  # pairs that are seen at once
FEW_AGENTS = 12  # up to which each has its number

# Statistics.


class _Column(NamedTuple):
    """A column of the table of statistics."""

    title: str
    unit: str = ""
    is_number: bool = True


COLUMNS = (
    _Column("learner", is_number=False),
    _Column("policy", is_number=False),
    _Column("runs"),
    _Column("test steps", "median (quartiles)"),
    _Column("mean steps", "with failures [95 %]"),
    _Column("success", "share [95 %]"),
    _Column("learnt after", "training steps"),
    _Column("computing", "seconds"),
)


def statistics(section: Section, colors: Mapping[str, int]) -> Html:
    """Tabulate the last tests of all runs."""
    rows = [
        _row(group, kind, group.finals[kind], colors)
        for kind in KINDS
        for group in section.all_groups
        if kind in group.finals
    ]
    if not rows:
        return Html("")
    heads = [
        tag(
            "th",
            column.title,
            tag("small", column.unit) if column.unit else "",
            scope="col",
            data_sort="number" if column.is_number else "text",
        )
        for column in COLUMNS
    ]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="statistics", data_sortable=True)
    everything = "" if section.reference is None else f" (of {section.reference.label}, which learns nothing, all)"
    note = (
        f"Of each run its last {LAST_TESTS} tests, as in the curves{everything}; a failed one counts as "
        f"{section.most_steps:,} steps. Test steps are the median and quartiles over runs of each run’s median, mean "
        "steps the interquartile mean over runs of each run’s mean, and success is the mean over runs; limits come "
        f"from resampling runs. Learnt after: from then on {ENOUGH:.0%} of a run’s tests succeed, and take at most "
        f"{NEAR:.0%} more steps than in the end; the median over all runs."
    )
    return tag(
        "div",
        tag("h3", "Final performance"),
        scrolling(table, f"Statistics of {section.title}"),
        tag("p", note, class_="note"),
    )


def over_all_tasks(sections: Sequence[Section], colors: Mapping[str, int]) -> Html:
    """Tabulate what was run on several tasks."""
    found = across_tasks(sections)
    if not found:
        return Html("")
    titles = ("learner", "policy", "tasks", "runs", "success", "learnt")
    units = ("", "", "", "", "share [95 %]", "runs")
    heads = [
        tag("th", title, tag("small", unit) if unit else "", scope="col", data_sort="number" if rank > 1 else "text")
        for rank, (title, unit) in enumerate(zip(titles, units, strict=True))
    ]
    rows = [
        tag(
            "tr",
            tag("th", learner_key(own.label, colors), scope="row", data_value=own.label),
            tag("td", own.policy, data_value=own.policy),
            cell(own.tasks, str(own.tasks)),
            cell(own.runs, f"{own.runs:,}"),
            cell(own.success.value, share(own.success.value), _limits(own.success, share, own.runs)),
            cell(None, "–") if own.learnt is None else cell(own.learnt / own.runs, f"{own.learnt:,} of {own.runs:,}"),
        )
        for own in found
    ]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="statistics", data_sortable=True)
    note = (
        "All tasks count alike: success is the mean over tasks of the mean over runs, and its limits come from "
        "resampling the runs of each task (the stratified bootstrap). Compare only learners with the same tasks."
    )
    return tag(
        "section",
        tag("h3", "Over all tasks"),
        scrolling(table, "Statistics over all tasks"),
        tag("p", note, class_="note"),
    )


def scrolling(table: Html, label: str) -> Html:
    """Let a wide table scroll by itself."""
    return tag("div", table, class_="scrolling", tabindex="0", role="region", aria_label=label)


def _row(group: RunGroup, kind: str, final: Final, colors: Mapping[str, int]) -> Html:
    low, middle, high = final.quartiles
    when, _, some = final.learnt_in_words.partition(" ")
    learnt = cell(None, "–") if group.is_reference else cell(final.learnt_after, when, some)  # it had nothing to learn
    seconds = f"{group.seconds:,.1f}"
    return tag(
        "tr",
        tag("th", learner_key(group.label, colors), scope="row", data_value=group.label),
        tag("td", kind, data_value=kind),
        cell(len(group.seeds), f"{len(group.seeds):,}"),
        cell(middle, number(middle), f"({number(low)} to {number(high)})"),
        cell(final.mean.value, number(final.mean.value), _limits(final.mean, number, len(group.seeds))),
        cell(final.success.value, share(final.success.value), _limits(final.success, share, len(group.seeds))),
        learnt,
        cell(group.seconds, seconds),
    )


def cell(value: float | None, text: str, remark: str = "") -> Html:
    """Lay out a number as a cell of a table that can be sorted."""
    small = [" ", tag("small", remark)] if remark else []
    return tag("td", text, *small, class_="number", data_value="" if value is None else f"{value:.9g}")


def learner_key(label: str, colors: Mapping[str, int]) -> Html:
    """Name a learner beside a mark in its colour."""
    color = colors.get(label)
    kind = "reference" if color is None else f"line-{color % 8}"
    return join([tag("span", class_=f"key {kind}", aria_hidden="true"), label])


def _limits(found: Interval, write: Callable[[float], str], runs: int) -> str:
    """Write limits; those of a single run would say nothing."""
    return f"[{write(found.low)} to {write(found.high)}]" if runs > 1 else ""


# Comparisons and bounds.


def comparisons(section: Section) -> Html:
    """Compare learners pairwise: the probability that one is better, with its interval and p-value."""
    if not section.comparisons:
        return Html("")
    rows = [_comparison(*pair) for pair in section.comparisons]
    table = tag("div", *rows, class_="scales")
    title = "Pairwise comparison"
    note = (
        "The probability that a run of the first learner needs fewer steps in its last tests than one of the second "
        "(softmax), with its 95 % interval; p is that of a two-sided permutation test."
    )
    if len(rows) > FEW_COMPARED:
        table = tag("details", tag("summary", f"All {len(rows):,} pairs"), table)
    return tag("div", tag("h3", title), tag("p", note, class_="note"), table)


def _comparison(first: str, second: str, found: Comparison) -> Html:
    verdict = "even" if found.low <= 0.5 <= found.high else ("first" if found.probability > 0.5 else "second")
    line = tag(
        "div",
        _span("whisker", found.low, found.high),
        _point("middle", 0.5),
        _point("dot", found.probability),
        class_="scale",
        role="img",
        aria_label=f"{share(found.probability)} between {share(found.low)} and {share(found.high)}",
    )
    words = join([tag("b", first), " against ", tag("b", second)])
    text = f"{share(found.probability)} [{share(found.low)} to {share(found.high)}], p {_p_value(found.p_value)}"
    return tag("div", tag("div", words), line, tag("div", text, class_="numbers"), class_=f"row {verdict}")


def bounds(section: Section, colors: Mapping[str, int]) -> Html:
    """Draw what the agents' own successes say of the team's."""
    known = [(group.label, group.bounds) for group in section.all_groups if group.bounds is not None]
    if not known:
        return Html("")
    kinds = ", ".join(dict.fromkeys(own.policy for _, own in known))
    note = join(
        [
            "How often the team succeeds, ",
            tag("i", "V"),
            ", is bounded by how often the agents complete their own sub-tasks, ",
            Html("<i>V<sub>i</sub></i>: "),
            Html(
                '<span class="formula">max(0, Σ <i>V<sub>i</sub></i> − (<i>N</i> − 1)) ≤ <i>V</i> ≤ '
                "min <i>V<sub>i</sub></i></span>. "
            ),
            f"From {ranged([own.episodes for _, own in known], 'episode')} with finished policies ({kinds}); the band "
            "is what the bounds allow, the dot is V with its 95 % limits over runs, the strokes are the agents’ own.",
        ]
    )
    rows = [_bound(label, own, colors) for label, own in known]
    return tag(
        "div", tag("h3", "Bounds of Theorem 3"), tag("p", note, class_="note"), tag("div", *rows, class_="scales")
    )


def _bound(label: str, found: Bounds, colors: Mapping[str, int]) -> Html:
    values = sorted({own.value for own in found.agents.values()})
    text = f"{share(found.lower)} ≤ V = {share(found.success.value)} ≤ {share(found.upper)}"
    line = tag(
        "div",
        _span("band", found.lower, found.upper),
        *(_point("stroke", value) for value in values),
        _span("whisker", found.success.low, found.success.high),
        _point("dot", found.success.value),
        class_="scale",
        role="img",
        aria_label=text,
    )
    numbers = tag("div", text, tag("small", _own_shares(found.agents)), class_="numbers")
    return tag("div", tag("div", learner_key(label, colors)), line, numbers, class_="row")


def _own_shares(agents: Mapping[str, Share]) -> str:
    """Say how often each agent completes its sub-task, or from how often to how often many of them do."""
    values = sorted(own.value for own in agents.values())
    if values[0] == values[-1]:
        return f"every agent {share(values[0])}"
    if len(agents) > FEW_AGENTS:
        return f"{len(agents):,} agents, {share(values[0])} to {share(values[-1])}"
    return " · ".join(f"{name} {share(own.value)}" for name, own in agents.items())


def _span(kind: str, low: float, high: float) -> Html:
    return tag("span", class_=kind, style=f"left:{100 * low:.2f}%;width:{100 * max(high - low, 0):.2f}%")


def _point(kind: str, share: float) -> Html:
    return tag("span", class_=kind, style=f"left:{100 * share:.2f}%")


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


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def counted(value: int, thing: str) -> str:
    """Write how many of a thing there are."""
    return f"{value:,} {thing}{'' if value == 1 else 's'}"


def ranged(values: Iterable[int], thing: str) -> str:
    """Write from how many to how many of a thing there are."""
    low, high = min(own := [*values]), max(own)
    return counted(high, thing) if low == high else f"{low:,} to {counted(high, thing)}"
