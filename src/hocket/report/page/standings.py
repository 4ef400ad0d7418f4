"""Final performance of learners: a table, pairwise comparisons, and the bounds of Theorem 3."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from hocket.draw.markup import Html, join, tag
from hocket.evaluation.bounds import Bounds
from hocket.report.answer import across_tasks, ranged
from hocket.report.performance import ENOUGH, LAST_TESTS, NEAR, FinalPerformance
from hocket.report.summary import GroupComparison, LevelComparison, RunGroup, Section
from hocket.statistics import FEWEST_RUNS, Comparison, Interval
from hocket.study.published import Published
from hocket.study.records import KINDS

FEW_COMPARED = 10  # pairs that are seen at once
FEW_AGENTS = 12  # up to which each has its number

# Statistics.


STATISTICS = ("learner", "policy", "runs", "test steps", "mean steps", "success", "learnt after", "computing")
STATISTICS_UNITS = (
    "", "", "", "median (quartiles)", "with failures [95 %]", "share [95 %]", "training steps", "seconds",
)  # fmt: skip
AVERAGES = ("learner", "policy", "tasks", "runs", "success", "learnt")
AVERAGES_UNITS = ("", "", "", "", "share [95 %]", "runs")
PUBLISHED = ("learner", "test steps", "", "", "reached after", "", "success", "")
PUBLISHED_UNITS = ("", "published", "measured", "difference", "published", "measured", "published", "measured")


def table(titles: Sequence[str], units: Sequence[str], rows: Sequence[Html], label: str, *, texts: int = 0) -> Html:
    """Lay out a table that scrolls; it can be sorted if the first `texts` columns are text and the others numbers."""
    heads = [
        tag(
            "th",
            title,
            tag("small", unit) if unit else "",
            scope="col",
            data_sort=("number" if index >= texts else "text") if texts else None,
        )
        for index, (title, unit) in enumerate(zip(titles, units, strict=True))
    ]
    head, body = tag("thead", tag("tr", *heads)), tag("tbody", *rows)
    return scrolling(tag("table", head, body, class_="statistics", data_sortable=bool(texts)), label)


def statistics(section: Section, colors: Mapping[str, int]) -> Html:
    """Tabulate the last tests of all runs."""
    rows = [
        _row(group, kind, group.finals[kind], colors, has_ends=not section.is_continuing)
        for kind in KINDS
        for group in section.all_groups
        if kind in group.finals
    ]
    if not rows:
        return Html("")
    everything = "" if section.reference is None else f" (all tests of {section.reference.label}, which does not learn)"
    titles, what = STATISTICS, "steps"
    counts, learnt = f"a failure counts as {section.most_steps:,} steps", f"at least {ENOUGH:.0%} of tests succeed, "
    learnt += f"within {NEAR:.0%} of the final length"
    if section.has_returns:
        titles, what = (*STATISTICS[:3], "return", "mean return", *STATISTICS[5:]), "return"
        counts, learnt = (
            "a return is the sum of the rewards of an episode",
            f"returns are within {NEAR:.0%} of the last",
        )
    note = (
        f"All columns use the last {LAST_TESTS} tests of each run, as the curves do{everything}; {counts}. "
        f"{section.measure.capitalize()}: median and quartiles over runs of each run’s median. Mean {what}: "
        "interquartile mean over runs of each run’s mean. Success: mean over runs. 95 % limits are over runs, if there "
        f"are at least {FEWEST_RUNS}. Learnt after: the median training step from which {learnt}."
    )
    return tag(
        "div",
        tag("h3", "Final performance"),
        table(titles, STATISTICS_UNITS, rows, f"Statistics of {section.title}", texts=2),
        tag("p", note, class_="note"),
    )


def over_all_tasks(sections: Sequence[Section], colors: Mapping[str, int]) -> Html:
    """Tabulate what was run on several tasks."""
    averages = across_tasks(sections)
    if not averages:
        return Html("")
    rows = [
        tag(
            "tr",
            tag("th", learner_key(row.label, colors), scope="row", data_value=row.label),
            tag("td", row.policy, data_value=row.policy),
            cell(row.tasks, str(row.tasks)),
            cell(row.runs, f"{row.runs:,}"),
            cell(row.success.value, share(row.success.value), _limits(row.success, share)),
            cell(None, "–") if row.learnt is None else cell(row.learnt / row.runs, f"{row.learnt:,} of {row.runs:,}"),
        )
        for row in averages
    ]
    note = (
        "Every task has the same weight: success is the mean over tasks of the mean over runs, with 95 % limits over "
        "runs. Compare only learners with the same tasks."
    )
    return tag(
        "section",
        tag("h2", "Over all tasks"),
        table(AVERAGES, AVERAGES_UNITS, rows, "Statistics over all tasks", texts=2),
        tag("p", note, class_="note"),
    )


def scrolling(table: Html, label: str) -> Html:
    """Let a wide table scroll by itself."""
    return tag("div", table, class_="scrolling", tabindex="0", role="region", aria_label=label)


def _row(group: RunGroup, kind: str, final: FinalPerformance, colors: Mapping[str, int], *, has_ends: bool) -> Html:
    low, middle, high = final.quartiles
    success = cell(final.success.value, share(final.success.value), _limits(final.success, share))
    when, _, some = final.learnt_in_words.partition(" ")
    learnt = cell(None, "–") if group.is_reference else cell(final.learnt_after, when, some)  # it had nothing to learn
    return tag(
        "tr",
        tag("th", learner_key(group.label, colors), scope="row", data_value=group.label),
        tag("td", kind, data_value=kind),
        cell(len(group.seeds), f"{len(group.seeds):,}"),
        cell(middle, number(middle), f"({number(low)} to {number(high)})"),
        cell(final.mean.value, number(final.mean.value), _limits(final.mean, number)),
        success if has_ends else cell(None, "–"),
        learnt,
        cell(group.seconds, f"{group.seconds:,.1f}"),
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


def _limits(interval: Interval, write: Callable[[float], str]) -> str:
    """Format confidence limits; a few runs have none."""
    return "[{} to {}]".format(*map(write, interval.limits)) if interval.limits else ""


def published_table(section: Section, published: Published | None, colors: Mapping[str, int]) -> Html:
    """Tabulate published and measured values, and say why they differ."""
    if published is None or not section.published_levels:
        return Html("")
    rows = [_level_row(comparison, colors) for comparison in section.published_levels]
    note = (
        f"Published values from {published.source}. Test steps: median over runs, averaged over the last ten tests. "
        "Reached after: the first training step at which that median, smoothed over ten tests, is within 10 % of its "
        "final value. Success: the success rate of the last fifty tests. Softmax tests."
    )
    return tag(
        "div",
        tag("h3", "Published results"),
        table(PUBLISHED, PUBLISHED_UNITS, rows, f"Published and measured levels of {section.title}"),
        tag("p", note, class_="note"),
        tag("ul", *(tag("li", note) for note in published.notes), class_="note") if published.notes else "",
    )


def _level_row(comparison: LevelComparison, colors: Mapping[str, int]) -> Html:
    levels = (comparison.published, comparison.measured)
    return tag(
        "tr",
        tag("th", learner_key(comparison.label, colors), scope="row"),
        *(cell(level.final, number(level.final)) for level in levels),
        cell(comparison.difference, f"{comparison.difference:+.0%}".replace("-", "−")),
        *(cell(level.reached, "never" if level.reached is None else f"{level.reached:,}") for level in levels),
        *(cell(level.success, share(level.success)) for level in levels),
    )


# Comparisons and bounds.


def comparisons(section: Section) -> Html:
    """Compare learners pairwise: the probability that one is better, with its interval and p-value."""
    if not section.comparisons:
        return Html("")
    better = "earns more" if section.has_returns else "takes fewer steps"
    note = (
        f"The probability that a run of the first learner {better} in its last tests than a run of the second, "
        "with its 95 % interval; p is from a two-sided permutation test."
    )
    kinds = dict.fromkeys(pair.policy for pair in section.comparisons)
    parts = [_compared([pair for pair in section.comparisons if pair.policy == kind], kind) for kind in kinds]
    return tag("div", tag("h3", "Pairwise comparison"), tag("p", note, class_="note"), *parts)


def _compared(pairs: Sequence[GroupComparison], kind: str) -> Html:
    """Show the comparisons under one kind of policy; many of them when somebody asks."""
    rows = tag("div", *(_comparison(pair.first, pair.second, pair.comparison) for pair in pairs), class_="scales")
    if len(pairs) > FEW_COMPARED:
        return tag("details", tag("summary", f"All {len(pairs):,} pairs ({kind})"), rows)
    return tag("div", tag("p", f"{kind.capitalize()} policies:", class_="note"), rows)


def _comparison(first: str, second: str, comparison: Comparison) -> Html:
    probability, (low, high) = comparison.probability.value, comparison.probability.limits or (0.0, 1.0)
    verdict = "even" if low <= 0.5 <= high else "first" if probability > 0.5 else "second"
    p_value = "< 0.001" if comparison.p_value < 0.001 else f"= {comparison.p_value:.3f}"
    limits = _limits(comparison.probability, share)
    text = f"{share(probability)}{limits and f' {limits}'}, p {p_value}"
    line = tag(
        "div",
        _span("whisker", low, high) if limits else "",
        _point("middle", 0.5),
        _point("dot", probability),
        class_="scale",
        role="img",
        aria_label=text,
    )
    words = join([tag("b", first), " against ", tag("b", second)])
    return tag("div", tag("div", words), line, tag("div", text, class_="numbers"), class_=f"row {verdict}")


def bounds(section: Section, colors: Mapping[str, int]) -> Html:
    """Draw the bounds on the team's success from the success of each agent alone."""
    known = [(group.label, group.bounds) for group in section.all_groups if group.bounds is not None]
    if not known:
        return Html("")
    kinds = ", ".join(dict.fromkeys(bound.policy for _, bound in known))
    note = join(
        [
            "The success probability of the team, ",
            tag("i", "V"),
            ", is bounded by those of the agents in their own sub-tasks, ",
            Html("<i>V<sub>i</sub></i>: "),
            Html(
                '<span class="formula">max(0, Σ <i>V<sub>i</sub></i> − (<i>N</i> − 1)) ≤ <i>V</i> ≤ '
                "min <i>V<sub>i</sub></i></span>. "
            ),
            f"Measured in {ranged([bound.episodes for _, bound in known], 'episode')} with the final policies "
            f"({kinds}). Band: the bounds. Dot: V with its 95 % limits over runs. Strokes: the agents’ values.",
        ]
    )
    rows = [_bound(label, bound, colors) for label, bound in known]
    return tag(
        "div", tag("h3", "Bounds of Theorem 3"), tag("p", note, class_="note"), tag("div", *rows, class_="scales")
    )


def _bound(label: str, bound: Bounds, colors: Mapping[str, int]) -> Html:
    values = sorted({agent_share.value for agent_share in bound.agents.values()})
    text = f"{share(bound.lower)} ≤ V = {share(bound.success.value)} ≤ {share(bound.upper)}"
    line = tag(
        "div",
        _span("band", bound.lower, bound.upper),
        *(_point("stroke", value) for value in values),
        _span("whisker", *bound.success.limits) if bound.success.limits else "",
        _point("dot", bound.success.value),
        class_="scale",
        role="img",
        aria_label=text,
    )
    numbers = tag("div", text, tag("small", _agent_shares(bound.agents)), class_="numbers")
    return tag("div", tag("div", learner_key(label, colors)), line, numbers, class_="row")


def _agent_shares(agents: Mapping[str, Interval]) -> str:
    """Format each agent's success in its sub-task; of many agents, the range."""
    values = sorted(agent_share.value for agent_share in agents.values())
    if values[0] == values[-1]:
        return f"every agent {share(values[0])}"
    if len(agents) > FEW_AGENTS:
        return f"{len(agents):,} agents, {share(values[0])} to {share(values[-1])}"
    return " · ".join(f"{name} {share(agent_share.value)}" for name, agent_share in agents.items())


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
