"""What a page says without scripts: the study in words, and of each task its verdict, machines, tables and bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hocket.machine import RewardMachine
from hocket.records import KINDS
from hocket.report.encoding import all_groups
from hocket.report.maps import (
    agent_badge,
    event_order,
    is_drawable,
    legend,
    machine_drawing,
    map_svg,
    marks_of,
)
from hocket.report.markup import Html, join, tag
from hocket.report.summary import LAST_TESTS, Bounds, Final, Group, Section, Summary
from hocket.scene import Scene
from hocket.statistics import Comparison, Interval, Share

MOST_DRAWN = 24  # agents' machines
FEW_DRAWN = 4  # of many agents' machines, that are seen at once
FEW_COMPARED = 10  # pairs that are seen at once
LEARNERS = {
    "dqprm": "each agent learns alone, with its own machine (Q-learning with projected reward machines)",
    "cqrm": "one learner for the whole team, with the team's machine (centralised)",
    "iql": "every agent learns for itself in the team's world (independent Q-learning)",
    "hil": "agents choose among ready-made aims (hierarchical independent learners)",
    "optimal": "what each agent could do best alone, computed and not learnt",
}


# The study.


def opening(summary: Summary) -> Html:
    """Say in words what was run."""
    if not summary.sections:
        return tag("p", "There are no runs in this folder yet.", class_="lede")
    groups = [group for section in summary.sections for group in all_groups(section)]
    learners = list(dict.fromkeys(group.learner for group in groups))
    counts = [len(group.seeds) for group in groups]
    runs, tasks = sum(counts), len(summary.sections)
    words = (
        f"{_count(runs, 'run')} of {_count(len(learners), 'learner')} on {_count(tasks, 'task')}: "
        f"{_range(counts, 'seed')} for each, and {_range([group.steps for group in groups], 'training step')} in a run. "
        "Agents learn, and the team is tested all the while; fewer steps in a test are better."
    )
    known = [(name, LEARNERS.get(name, "")) for name in learners]
    items = [tag("li", tag("b", name), f": {meaning}" if meaning else "") for name, meaning in known]
    return join([tag("p", words, class_="lede"), tag("ul", *items, class_="learners")])


def facts(summary: Summary) -> Html:
    """List what the study was run with, and on."""
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in summary.made]
    return tag("dl", *pairs, class_="facts")


def warnings(summary: Summary) -> Html:
    """Say what is missing."""
    found = []
    if summary.missing:
        found.append(tag("p", f"{_count(summary.missing, 'run')} of this study still to come; what follows is about the others."))
    if summary.problems:
        files = [tag("li", problem) for problem in summary.problems]
        found += [tag("p", f"{_count(len(files), 'file')} could not be read and is left out:"), tag("ul", *files)]
    return tag("div", *found, class_="warning", role="note") if found else Html("")


def navigation(summary: Summary) -> Html:
    """Link to the tasks."""
    links = [
        tag("a", section.title, href=f"#task-{place}") for place, section in enumerate(summary.sections, start=1)
    ]
    return join([*links, tag("a", "How to read this", href="#reading")])


# A task.


def task_section(section: Section, place: int, colors: Mapping[str, int]) -> Html:
    """Say everything about a task; scripts add curves and episodes where they find room made for them."""
    scene = section.scene
    parts = [
        tag("h2", tag("a", section.title, href=f"#task-{place}")),
        _about_scene(scene, section) if scene is not None else tag("p", NO_SCENE, class_="note"),
        _curves(section, place),
        _statistics(section, place, colors),
        _comparisons(section, place),
        _all_bounds(section, place, colors),
        _episodes(section, place),
    ]
    return tag("section", *parts, class_="task", id=f"task-{place}", data_place=place - 1)


NO_SCENE = "The folder has no file of this task that could be read, so there is neither a map nor machines to show."


def _about_scene(scene: Scene, section: Section) -> Html:
    found = next((replay for group in all_groups(section) for replay in group.replays.values()), None)
    starts = [] if found is None else [(across, down) for across, down in found.places[0].tolist()]
    picture = tag(
        "figure",
        map_svg(scene, starts),
        tag("figcaption", legend(scene)),
        class_="map-figure",
    )
    return join(
        [
            tag("p", scene.description, class_="description") if scene.description else "",
            _verdict(scene),
            tag("div", picture, _machines(scene), class_="overview"),
        ]
    )


def _verdict(scene: Scene) -> Html:
    kind, mark = "neutral", "•"
    if scene.verdict.startswith("Decomposable"):
        kind, mark = "yes", "✓"
    elif scene.verdict.startswith("Not decomposable"):
        kind, mark = "no", "✗"
    notes = [tag("p", note, class_="note") for note in scene.notes]
    symbol = tag("span", mark, class_="symbol", aria_hidden="true")
    return tag("div", symbol, tag("div", tag("p", scene.verdict), *notes), class_=f"verdict {kind}")


def _machines(scene: Scene) -> Html:
    """Draw the team's machine and the agents'; of many agents, some are folded away or left out."""
    events = event_order(scene)
    marks = dict(zip(scene.agents, marks_of(scene.agents), strict=True))
    own = [
        _machine(
            scene.machines[name],
            events,
            join([agent_badge(marks[name], scene.colors[name]), name]),
            f"The machine of {name}",
            join(["knows ", tag("span", ", ".join(scene.knows[name]), class_="events")]),
            place,
        )
        for place, name in enumerate(scene.agents[:MOST_DRAWN])
    ]
    shown = own if len(own) <= FEW_DRAWN else own[: FEW_DRAWN - 1]
    parts = [_team(scene, events), tag("div", *shown, class_="machines")]
    if len(shown) < len(own):
        more = tag("div", *own[len(shown) :], class_="machines")
        left_out = len(scene.agents) - len(own)
        words = f"{len(own) - len(shown)} more agents" + (f"; {left_out:,} others are not drawn" if left_out else "")
        parts.append(tag("details", tag("summary", words), more))
    return tag("div", *parts, class_="all-machines")


def _team(scene: Scene, events: Sequence[str]) -> Html:
    if scene.team is None:
        return tag("p", "The team’s machine is too large to draw: it is the agents’ machines side by side.", class_="note")
    return _machine(scene.team, events, Html("<b>the team</b>"), "The machine of the team", "its whole task")


def _machine(
    machine: RewardMachine, events: Sequence[str], name: Html, label: str, remark: str, place: int | None = None
) -> Html:
    if is_drawable(machine):
        drawing = machine_drawing(machine, events, label)
    else:
        size = f"{len(machine.states):,} states and {len(machine.transitions):,} transitions"
        drawing = tag("p", f"{size}, too many to draw", class_="note")
    caption = tag("figcaption", tag("span", name, class_="who"), tag("span", remark, class_="note"))
    return tag(
        "figure",
        caption,
        tag("div", drawing, class_="drawing"),
        class_="machine-figure" + ("" if place is not None else " team"),
        data_agent=place,
        style=f"--wide:{width[1]}px" if (width := re.search(r' width="(\d+)"', drawing)) else None,
    )


def _curves(section: Section, place: int) -> Html:
    if not any(group.curves for group in section.groups):
        return Html("")
    return tag(
        "div",
        tag("h3", "While learning"),
        tag(
            "p",
            "The median over seeds of the steps that the team takes in a test, and the band between the quartiles. "
            f"A failed test counts as {section.most_steps:,} steps.",
            class_="note",
        ),
        tag("div", NO_SCRIPT, class_="curves", data_place=place - 1),
    )


NO_SCRIPT = tag("noscript", tag("p", "The curves and episodes need JavaScript.", class_="note"))


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
    _Column("interquartile mean", "steps [95 %]"),
    _Column("success", "share [95 %]"),
    _Column("learnt after", "training steps"),
    _Column("computing", "seconds"),
)


def _statistics(section: Section, place: int, colors: Mapping[str, int]) -> Html:
    rows = [
        _row(group, kind, group.finals[kind], colors)
        for kind in KINDS
        for group in all_groups(section)
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
    note = (
        f"The last {LAST_TESTS} tests of each run; a failed test counts as {section.most_steps:,} steps. Learnt after: "
        "the median over runs of the training steps after which a run stays within a tenth of its final level."
    )
    return tag(
        "div", tag("h3", "In the end"), _scrolling(table, f"Statistics of {section.title}"), tag("p", note, class_="note")
    )


def _scrolling(table: Html, label: str) -> Html:
    return tag("div", table, class_="scrolling", tabindex="0", role="region", aria_label=label)


def _row(group: Group, kind: str, final: Final, colors: Mapping[str, int]) -> Html:
    low, middle, high = final.quartiles
    reaching = final.reaching
    seconds = f"{group.seconds:,.1f}"
    return tag(
        "tr",
        tag("th", _learner(group.label, colors), scope="row", data_value=group.label),
        tag("td", kind, data_value=kind),
        _cell(len(group.seeds), f"{len(group.seeds):,}"),
        _cell(middle, number(middle), f"({number(low)} to {number(high)})"),
        _cell(final.mean.value, number(final.mean.value), _limits(final.mean, number)),
        _cell(final.success.value, share(final.success.value), _limits(final.success, share)),
        _cell(reaching, "never") if reaching is None else _cell(reaching, f"{reaching:,}"),
        _cell(group.seconds, seconds),
    )


def _cell(value: float | None, text: str, remark: str = "") -> Html:
    small = tag("small", remark) if remark else ""
    return tag("td", text, small and join([" ", small]), class_="number", data_value="" if value is None else f"{value:.9g}")


def _learner(label: str, colors: Mapping[str, int]) -> Html:
    color = colors.get(label)
    kind = "reference" if color is None else f"line-{color % 8}"
    return join([tag("span", class_=f"key {kind}", aria_hidden="true"), label])


def _limits(found: Interval | Share, write: object) -> str:
    text = number if write is number else share
    return f"[{text(found.low)} to {text(found.high)}]"


# Comparisons and bounds.


def _comparisons(section: Section, place: int) -> Html:
    if not section.comparisons:
        return Html("")
    rows = [_comparison(*pair) for pair in section.comparisons]
    table = tag("div", *rows, class_="scales")
    title = "Who is better?"
    note = (
        "The probability that a run of the first learner needs fewer steps in its last tests than one of the second "
        "(softmax), with its 95 % interval; p is that of a two-sided rank test of no difference."
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


def _all_bounds(section: Section, place: int, colors: Mapping[str, int]) -> Html:
    known = [(group.label, group.bounds) for group in all_groups(section) if group.bounds is not None]
    if not known:
        return Html("")
    note = join(
        [
            "How often the team succeeds, ",
            tag("i", "V"),
            ", is held between bounds by how often the agents do their own parts, ",
            Html("<i>V<sub>i</sub></i>: "),
            Html(
                '<span class="formula">max(0, Σ <i>V<sub>i</sub></i> − (<i>N</i> − 1)) ≤ <i>V</i> ≤ '
                "min <i>V<sub>i</sub></i></span>. "
            ),
            f"From {_range([own.episodes for _, own in known], 'episode')} with finished policies (softmax); the band is what "
            "the bounds allow, the dot is V with its 95 % limits, the strokes are the agents’ own.",
        ]
    )
    rows = [_bounds(label, own, colors) for label, own in known]
    return tag("div", tag("h3", "The bounds of theorem 3"), tag("p", note, class_="note"), tag("div", *rows, class_="scales"))


def _bounds(label: str, bounds: Bounds, colors: Mapping[str, int]) -> Html:
    values = {own.value for own in bounds.agents.values()}
    each = [f"{name} {share(own.value)}" for name, own in bounds.agents.items()]
    agents = f"every agent {share(min(values))}" if len(values) == 1 else " · ".join(each)
    line = tag(
        "div",
        _span("band", bounds.lower, bounds.upper),
        *(_point("stroke", value) for value in sorted(values)),
        _span("whisker", bounds.success.low, bounds.success.high),
        _point("dot", bounds.success.value),
        class_="scale",
        role="img",
        aria_label=f"{share(bounds.lower)} ≤ V = {share(bounds.success.value)} ≤ {share(bounds.upper)}",
    )
    text = f"{share(bounds.lower)} ≤ V = {share(bounds.success.value)} ≤ {share(bounds.upper)}"
    numbers = tag("div", text, tag("small", agents), class_="numbers")
    return tag("div", tag("div", _learner(label, colors)), line, numbers, class_="row")


def _span(kind: str, low: float, high: float) -> Html:
    return tag("span", class_=kind, style=f"left:{100 * low:.2f}%;width:{100 * max(high - low, 0):.2f}%")


def _point(kind: str, place: float) -> Html:
    return tag("span", class_=kind, style=f"left:{100 * place:.2f}%")


# Episodes.


def _episodes(section: Section, place: int) -> Html:
    if section.scene is None or not any(group.replays for group in all_groups(section)):
        return Html("")
    return tag(
        "div",
        tag("h3", "Watch the team"),
        tag("div", class_="replay", data_place=place - 1, tabindex="0", role="group", aria_label="Episode to watch"),
    )


# Numbers in words.


def number(value: float) -> str:
    """Write a number of steps.

    >>> number(1000.0), number(30.25), number(121.38)
    ('1,000', '30.2', '121')
    """
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def share(value: float) -> str:
    """Write a share, never rounding one that is not 0 or 1 to it.

    >>> share(1.0), share(0.9996), share(0.0001), share(0.5)
    ('1.000', '>0.999', '<0.001', '0.500')
    """
    return "<0.001" if 0 < value < 0.0005 else ">0.999" if 0.9995 <= value < 1 else f"{value:.3f}"


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _count(value: int, thing: str) -> str:
    return f"{value:,} {thing}{'' if value == 1 else 's'}"


def _range(values: Iterable[int], thing: str) -> str:
    low, high = min(own := [*values]), max(own)
    return _count(high, thing) if low == high else f"{low:,} to {_count(high, thing)}"
