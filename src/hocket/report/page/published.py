"""What others have published, beside what is measured."""

from __future__ import annotations

from collections.abc import Mapping

from hocket.report.page.markup import Html, tag
from hocket.report.page.standings import cell, learner_key, number, scrolling, share
from hocket.report.summary import Beside, Section
from hocket.study.published import Level, Published

TITLES = ("learner", "test steps", "", "", "reached after", "", "success", "")
UNITS = ("", "published", "measured", "difference", "published", "measured", "published", "measured")


def beside(section: Section, published: Published | None, colors: Mapping[str, int]) -> Html:
    """Tabulate published and measured levels, and say why they differ."""
    if published is None or not section.beside:
        return Html("")
    heads = [
        tag("th", title, tag("small", unit) if unit else "", scope="col")
        for title, unit in zip(TITLES, UNITS, strict=True)
    ]
    rows = [_row(own, colors) for own in section.beside]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="statistics")
    note = (
        f"Published by {published.source}. Test steps: the median over runs, a mean over the last ten tests. Reached: "
        "the training steps after which that median, smoothed over ten tests, is first within a tenth of it. Success: "
        "the share of the last fifty tests. All of softmax tests."
    )
    return tag(
        "div",
        tag("h3", "As published"),
        scrolling(table, f"Published and measured levels of {section.title}"),
        tag("p", note, class_="note"),
        tag("ul", *(tag("li", own) for own in published.notes), class_="note") if published.notes else "",
    )


def _row(own: Beside, colors: Mapping[str, int]) -> Html:
    levels = (own.published, own.measured)
    return tag(
        "tr",
        tag("th", learner_key(own.label, colors), scope="row"),
        *(cell(level.final, number(level.final)) for level in levels),
        cell(own.difference, f"{own.difference:+.0%}".replace("-", "−")),
        *(_reached(level) for level in levels),
        *(cell(level.success, share(level.success)) for level in levels),
    )


def _reached(level: Level) -> Html:
    return cell(level.reached, "never" if level.reached is None else f"{level.reached:,}")
