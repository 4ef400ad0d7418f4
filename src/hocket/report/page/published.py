"""Published values next to measured ones."""

from __future__ import annotations

from collections.abc import Mapping

from hocket.draw.markup import Html, tag
from hocket.report.page.standings import cell, learner_key, number, share, table
from hocket.report.summary import LevelComparison, Section
from hocket.study.published import Published

TITLES = ("learner", "test steps", "", "", "reached after", "", "success", "")
UNITS = ("", "published", "measured", "difference", "published", "measured", "published", "measured")


def published_table(section: Section, published: Published | None, colors: Mapping[str, int]) -> Html:
    """Tabulate published and measured values, and say why they differ."""
    if published is None or not section.published_levels:
        return Html("")
    rows = [_row(comparison, colors) for comparison in section.published_levels]
    note = (
        f"Published values from {published.source}. Test steps: median over runs, averaged over the last ten tests. "
        "Reached after: the first training step at which that median, smoothed over ten tests, is within 10 % of its "
        "final value. Success: the success rate of the last fifty tests. Softmax tests."
    )
    return tag(
        "div",
        tag("h3", "Published results"),
        table(TITLES, UNITS, rows, f"Published and measured levels of {section.title}"),
        tag("p", note, class_="note"),
        tag("ul", *(tag("li", note) for note in published.notes), class_="note") if published.notes else "",
    )


def _row(comparison: LevelComparison, colors: Mapping[str, int]) -> Html:
    levels = (comparison.published, comparison.measured)
    return tag(
        "tr",
        tag("th", learner_key(comparison.label, colors), scope="row"),
        *(cell(level.final, number(level.final)) for level in levels),
        cell(comparison.difference, f"{comparison.difference:+.0%}".replace("-", "−")),
        *(cell(level.reached, "never" if level.reached is None else f"{level.reached:,}") for level in levels),
        *(cell(level.success, share(level.success)) for level in levels),
    )
