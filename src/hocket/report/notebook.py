"""What notebooks show of values: machines, tasks, decompositions, and what was learnt."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hocket.draw.graphviz import machine_svg
from hocket.draw.task_picture import task_svg
from hocket.errors import HocketError
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.report.summary import Section, Summary
from hocket.task.task import Task

MOST_MACHINES = 13  # of a decomposition, that are drawn
FITTING = '<svg style="max-width: 100%; height: auto" '  # no wider than the notebook


def show(value: object, form: str) -> str | None:
    """Show a value; None where there is too much of it to be drawn."""
    for kind, draw in FACES[form].items():
        if isinstance(value, kind):
            try:
                return draw(value).replace("<svg ", FITTING)
            except HocketError:  # too large to be drawn
                return None
    return None


def _machine(machine: RewardMachine) -> str:
    return machine_svg({"": machine})


def _decomposition(found: Decomposition) -> str:
    """Say the verdict, and draw the machines of the team and the agents."""
    first, *others = found.explain().splitlines()
    color = "#0f5a3c" if found.ok else "#a50f00"
    words = f'<p style="color: {color}"><b>{html.escape(first)}</b></p>' + "".join(map(_paragraph, others))
    team = {} if isinstance(found.machine, Composition) else {"team": found.machine}
    machines: Mapping[str, RewardMachine] = {**team, **found.machines}
    if len(machines) > MOST_MACHINES:
        return words
    try:
        return words + _inline(machine_svg(machines))
    except HocketError:  # too large to be drawn
        return words


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _inline(svg: str) -> str:
    """Leave out what may stand only at the beginning of a file."""
    return svg[svg.index("<svg") :]


def _section_svg(section: Section) -> str:
    from hocket.report.figures.canvas import render  # loads matplotlib
    from hocket.report.figures.curves import curves_figure

    return render(lambda: curves_figure(section)).decode()


def _section(section: Section) -> str:
    return f"<h4>{html.escape(section.title)}</h4>{_inline(_section_svg(section))}{_table(section)}"


def _summary(summary: Summary) -> str:
    problems = [f"left out: {problem}" for problem in summary.problems]
    return "".join(map(_section, summary.sections)) + "".join(map(_paragraph, problems))


def _table(section: Section) -> str:
    """Tabulate the final performance of every learner."""
    titles = ("learner", "runs", "policy", "test steps: median (quartiles)", "success")
    lines = [_line("th", titles)]
    for group in section.all_groups:
        for kind, final in group.finals.items():
            low, middle, high = final.quartiles
            steps = f"{middle:g} ({low:g} to {high:g})"
            lines.append(_line("td", (group.label, str(len(group.seeds)), kind, steps, f"{final.success.value:.3f}")))
    return f"<table>{''.join(lines)}</table>"


def _line(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


FACES: dict[str, dict[type, Callable[[Any], str]]] = {
    "svg": {RewardMachine: _machine, Task: task_svg, Section: _section_svg},
    "html": {Decomposition: _decomposition, Section: _section, Summary: _summary},
}
