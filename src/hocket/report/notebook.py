"""Displays of values in notebooks: machines, tasks, decompositions, verdicts, summaries and world models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from hocket.draw.graphviz import machine_svg
from hocket.draw.markup import tag
from hocket.draw.palette import adapt_chart
from hocket.draw.task_picture import task_svg
from hocket.errors import HocketError
from hocket.learn.world import WorldModel
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.report.summary import Section, Summary
from hocket.task.task import Task
from hocket.task.verdict import Verdict

MOST_MACHINES = 13  # of a decomposition, that are drawn
GOOD, BAD = "color: #0b4a31; background: #e3f3ea", "color: #8a0d00; background: #fdeae6"  # readable on any page
LOOKS = {"yes": GOOD, "no": BAD, "problem": BAD}  # of the lines of a verdict
FITTING = '<svg style="max-width: 100%; height: auto" '  # no wider than the notebook


def show(value: object, form: str) -> str | None:
    """Return the display of a value as SVG or HTML; None if it is too large."""
    for kind, draw in FACES[form].items():
        if isinstance(value, kind):
            with suppress(HocketError):  # too large to be drawn
                return draw(value).replace("<svg ", FITTING)
    return None


def _decomposition(decomposition: Decomposition) -> str:
    answer, *evidence = decomposition.explain().splitlines()
    text = _paragraph(answer, "yes" if decomposition.ok else "no") + "".join(map(_paragraph, evidence))
    return text + _machines(decomposition)


def _verdict(verdict: Verdict) -> str:
    text = "".join(_paragraph(line.text, line.kind) for line in verdict.lines())
    return text if verdict.decomposition is None else text + _machines(verdict.decomposition)


def _machines(decomposition: Decomposition) -> str:
    team = {} if isinstance(decomposition.machine, Composition) else {"team": decomposition.machine}
    machines: Mapping[str, RewardMachine] = {**team, **decomposition.machines}
    with suppress(HocketError):  # too large to be drawn
        return "" if len(machines) > MOST_MACHINES else _inline(machine_svg(machines))
    return ""


def _paragraph(text: str, kind: str = "") -> str:
    look = f"{LOOKS.get(kind, '')}; padding: 0.2em 0.6em; border-radius: 4px; width: fit-content"
    return tag("p", tag("b", text), style=look) if kind in LOOKS else tag("p", text)


def _inline(svg: str) -> str:
    """Remove the declarations before an SVG, which only a file may have."""
    return svg[svg.index("<svg") :]


def _figure_svg(value: Section | WorldModel) -> str:
    from hocket.report.figures import canvas, curves, maps  # which load matplotlib

    if isinstance(value, Section):
        return canvas.render(partial(curves.curves_figure, value)).decode()
    return canvas.render(partial(maps.world_figure, value)).decode()


def _section(section: Section) -> str:
    titles = ("learner", "runs", "policy", f"{section.measure}: median (quartiles)", "success")
    rows = [tag("tr", *(tag("th", title) for title in titles))]
    for group in section.all_groups:
        for kind, final in group.finals.items():
            low, middle, high = final.quartiles
            numbers = f"{middle:g} ({low:g} to {high:g})", f"{final.success.value:.3f}"
            cells = group.label, str(len(group.seeds)), kind, *numbers
            rows.append(tag("tr", *(tag("td", cell) for cell in cells)))
    chart = adapt_chart(_inline(_figure_svg(section)))
    return f"{tag('h4', section.title)}{chart}{tag('table', *rows)}"


def _summary(summary: Summary) -> str:
    problems = [f"left out: {problem}" for problem in summary.problems]
    return "".join(map(_section, summary.sections)) + "".join(map(_paragraph, problems))


FACES: dict[str, dict[type, Callable[[Any], str]]] = {
    "svg": {RewardMachine: lambda machine: machine_svg({"": machine}), Task: task_svg}
    | dict.fromkeys((Section, WorldModel), _figure_svg),
    "html": {Decomposition: _decomposition, Verdict: _verdict, Section: _section, Summary: _summary},
}
