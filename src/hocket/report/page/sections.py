"""The static parts of a page on a study and its tasks; scripts add curves and episodes."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

from hocket.draw.geometry import Point
from hocket.draw.graphviz import embedded_machine
from hocket.draw.map_svg import agent_badge, legend, map_svg
from hocket.draw.markup import Html, escape, join, tag
from hocket.draw.scene import Scene
from hocket.draw.task_picture import MOST_STATES, MOST_TRANSITIONS
from hocket.errors import HocketError, counted
from hocket.files import MEGABYTE, exists, read_text
from hocket.learn.catalogue import LEARNERS
from hocket.machine.reward_machine import RewardMachine
from hocket.report.document import block, fragment, note
from hocket.report.page.standings import bounds, comparisons, published_table, settings_and_data, statistics
from hocket.report.performance import LAST_TESTS
from hocket.report.summary import RunGroup, Section, Summary, ranged
from hocket.study.records import KINDS, slug
from hocket.task.verdict import Verdict

MOST_NAMED = 100  # files that were left out
FEW_NAMED = 4  # learners or tasks in a sentence
MOST_BESIDE = 6  # tasks whose curves are shown side by side
MOST_DRAWN = 24  # agents' machines
FEW_DRAWN = 4  # agents' machines that are not folded away
LIMIT = 16 * MEGABYTE  # of the files of an exploration
SIGNS = {True: ("yes", "✓"), False: ("no", "✗"), None: ("neutral", "•")}  # of a verdict
GREEDY, SOFTMAX = "greedy", KINDS[0]
NOTHING = Html("")
NO_SCENE = "The folder has no readable file of this task, so its map and machines cannot be shown."
NO_SCRIPT = tag("noscript", note("The curves and episodes need JavaScript."))
NO_TEAM = "The team machine is too large to draw: it is the parallel composition of the local reward machines."


def opening(summary: Summary) -> Html:
    """Write the results of the study, and what was run."""
    if not summary.sections:
        return tag("p", "There are no runs in this folder yet.", class_="lede")
    kind = GREEDY if summary.published is None else SOFTMAX
    answers = [answer(section, kind) for section in summary.sections]
    listed = [tag("li", link, ": ", text) for link, text in zip(_links(summary), answers, strict=True) if text]
    result = tag("p", *answers, class_="lede") if len(listed) == 1 else tag("ul", *listed, class_="answers")
    learners = dict.fromkeys(group.learner for section in summary.sections for group in section.all_groups)
    items = [tag("li", tag("b", name), f": {LEARNERS[name].summary}" if name in LEARNERS else "") for name in learners]
    returns = ", or larger returns," if any(section.has_returns for section in summary.sections) else ""
    better = f"fewer steps per test{returns} are better"
    about = note(f"{runs_in_words(summary)} The team is tested regularly during training; {better}.")
    parts, curves = [result, about, tag("ul", *items, class_="learners")], _side_by_side(summary)
    published = comparison_with_published(summary)
    return join([tag("p", published, class_="lede"), curves, *parts] if published else [*parts, curves])


def _side_by_side(summary: Summary) -> Html:
    """Make space for the curves of all tasks side by side, which scripts draw."""
    figures = []
    for number, (section, link) in enumerate(zip(summary.sections, _links(summary), strict=True)):
        if any(group.curves for group in section.groups):
            curves = tag("div", NO_SCRIPT, class_="curves small", data_section=number)
            figures.append(tag("figure", tag("figcaption", link), curves))
    return tag("div", *figures, class_="beside") if 1 < len(figures) <= MOST_BESIDE else NOTHING


def warnings(summary: Summary) -> Html:
    """List runs that are missing, and files that could not be read."""
    lines = []
    if summary.missing:
        verb = "is" if summary.missing == 1 else "are"
        lines.append(tag("p", f"{counted(summary.missing, 'run')} of this study {verb} not finished yet."))
    if summary.problems:
        files = [*summary.problems[:MOST_NAMED]]
        if (others := len(summary.problems) - MOST_NAMED) > 0:
            files.append(f"and {others:,} more")
        count = counted(len(summary.problems), "file")
        lines += [tag("p", f"{count} could not be read; skipped:"), tag("ul", *(tag("li", file) for file in files))]
    return tag("div", *lines, class_="warning", role="note") if lines else NOTHING


def navigation(summary: Summary) -> Html:
    """Link to the tasks."""
    return join([*_links(summary), tag("a", "How to read this", href="#reading")])


def _links(summary: Summary) -> list[Html]:
    sections = enumerate(summary.sections, start=1)
    return [tag("a", section.title, href=f"#task-{number}") for number, section in sections]


def exploration_section(folder: Path | None) -> Html:
    """Show the machines that were learnt by exploring, as an image, which cannot run scripts."""
    if folder is None or not exists(folder / "exploration" / "exploration.json"):
        return NOTHING
    try:
        document = json.loads(read_text(folder / "exploration" / "exploration.json", LIMIT))
        drawing = read_text(folder / "exploration" / "machines.svg", LIMIT)
        summary, claim = (str(document[key]) for key in ("summary", "claim"))
    except (HocketError, OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        return tag("section", note(f"What was learnt by exploring cannot be read: {error}"))
    source = Html(base64.b64encode(drawing.encode()).decode())
    return fragment("page", "exploration.html", {"summary": escape(summary), "drawing": source, "claim": escape(claim)})


def task_section(section: Section, summary: Summary, index: int, folder: str | None = None) -> Html:
    """Write all about a task; scripts add curves and episodes."""
    scene, name = section.scene, f"task-{index + 1}"
    parts = [
        tag("h2", tag("a", section.title, href=f"#{name}")),
        note(NO_SCENE) if scene is None else _overview(scene, _starts(scene, section), section.verdict),
        _curves(section, index),
        statistics(section),
        *(note(group.team_verdict) for group in section.all_groups if group.team_verdict),
        published_table(section, summary.published),
        comparisons(section),
        bounds(section),
        settings_and_data(section, folder),
        _episodes(section, index),
    ]
    return tag("section", *_linked(parts, name), class_="task", id=name, data_section=index)


def _linked(parts: Sequence[Html], name: str) -> list[Html]:
    """Make the headings of a task's parts links to themselves, and list them below the first part."""
    links: list[Html] = []

    def link(heading: re.Match[str]) -> str:
        anchor = f"{name}-{slug(heading[1])}"
        links.append(tag("a", Html(heading[1]), href=f"#{anchor}"))
        return tag("h3", links[-1], id=anchor)

    title, *others = (Html(re.sub(r"<h3>(.*?)</h3>", link, part)) for part in parts)
    listed = tag("p", join(links, " · "), class_="parts") if len(links) > 1 else NOTHING
    return [title, listed, *others]


def _starts(scene: Scene, section: Section) -> list[Point]:
    """Find the starts of all agents, from the scene or else from any episode."""
    if scene.starts.keys() == {*scene.agents}:
        return [scene.starts[name] for name in scene.agents]
    replays = (replay for group in section.all_groups for replay in group.replays.values())
    return next(([(x, y) for x, y in replay.points[0].tolist()] for replay in replays), [])


def _curves(section: Section, index: int) -> Html:
    if not any(group.curves for group in section.groups):
        return NOTHING
    lines, below = "Upper plot", "Lower plot: success rate in the same tests, mean over runs. "
    if section.is_continuing:
        lines, below = "Lines", ""
    measured = f"A failure counts as {section.most_steps:,} steps."
    if section.has_returns:
        measured = "Tests measure the return of an episode, the sum of its rewards."
    text = (
        f"{lines}: median over runs of each run’s median over its last {LAST_TESTS} tests; the band is the "
        f"interquartile range over runs. {below}{measured}"
    )
    return block("Learning curves", note(text), tag("div", NO_SCRIPT, class_="curves", data_section=index))


def _episodes(section: Section, index: int) -> Html:
    if section.scene is None or not any(group.replays for group in section.all_groups):
        return NOTHING
    title, name = "Episode replay", f"replay-{index + 1}"
    look = {"tabindex": "0", "role": "group", "aria_label": title}
    return block(title, tag("div", id=name, class_="replay", data_section=index, **look))


def _overview(scene: Scene, starts: Sequence[Point], verdict: Verdict | None) -> Html:
    description = tag("p", scene.description, class_="description") if scene.description else NOTHING
    picture = tag("figure", map_svg(scene, starts), tag("figcaption", legend(scene)), class_="map-figure")
    overview = tag("div", picture, _machines(scene), class_="overview")
    return join([description, _verdict(scene, verdict), overview])


def _verdict(scene: Scene, verdict: Verdict | None) -> Html:
    """Write the verdict on a task; of a third-party environment, that of its scene's file."""
    is_checked = verdict is not None and scene.decomposable is not None
    lines = [line.text for line in verdict.lines()] if verdict and is_checked else [scene.verdict, *scene.notes]
    kind, sign = SIGNS[scene.decomposable]
    symbol = tag("span", sign, class_="symbol", aria_hidden="true")
    return tag("div", symbol, tag("div", tag("p", lines[0]), *map(note, lines[1:])), class_=f"verdict {kind}")


def _machines(scene: Scene) -> Html:
    """Draw the team machine and the local reward machines; those of many agents are folded away or left out."""
    team = note(NO_TEAM)
    if scene.team is not None:
        team = _machine(scene, scene.team, Html("<b>team machine</b>"), "The team machine", "all events")
    drawings = []
    for number, name in enumerate(scene.agents[:MOST_DRAWN]):
        who, label = join([agent_badge(scene, name), name]), f"The local reward machine of {name}"
        known = join(["local event set: ", tag("span", ", ".join(scene.knows[name]), class_="events")])
        drawings.append(_machine(scene, scene.machines[name], who, label, known, number))
    shown = drawings if len(drawings) <= FEW_DRAWN else drawings[: FEW_DRAWN - 1]
    parts = [team, tag("div", *shown, class_="machines")]
    if len(shown) < len(drawings):
        more = tag("div", *drawings[len(shown) :], class_="machines")
        missing = len(scene.agents) - len(drawings)
        others = f"; {missing:,} others are not drawn" if missing else ""
        parts.append(tag("details", tag("summary", f"{len(drawings) - len(shown)} more agents{others}"), more))
    return tag("div", *parts, class_="all-machines")


def _machine(
    scene: Scene, machine: RewardMachine, name: Html, label: str, remark: str, agent: int | None = None
) -> Html:
    """Draw a machine under its name; scripts find it by the number of its agent."""
    states, transitions = len(machine.states), len(machine.transitions)
    if states <= MOST_STATES and transitions <= MOST_TRANSITIONS:
        drawing, width = embedded_machine(machine, scene.styles, label)
        style: str | None = f"--wide:{width:.0f}px"
    else:
        drawing, style = note(f"{states:,} states and {transitions:,} transitions, too many to draw"), None
    caption = tag("figcaption", tag("span", name, class_="who"), tag("span", remark, class_="note"))
    kind = "machine-figure team" if agent is None else "machine-figure"
    return tag("figure", caption, tag("div", drawing, class_="drawing"), class_=kind, data_agent=agent, style=style)


# Results in sentences.


def answer(section: Section, kind: str = GREEDY) -> str:
    """Write the result of a task in tests of a kind, if there are any: best learner, optimum, and others."""
    groups = [group for group in section.groups if group.finals]
    if not groups:
        return ""
    kind = kind if all(kind in group.finals for group in groups) else next(iter(groups[0].finals))
    best, *others = sorted(groups, key=lambda group: _rank(group, kind))
    final = best.finals[kind]
    runs, steps = len(best.seeds), final.quartiles[1]
    learnt = f"{final.learnt or 'none'} of {runs} runs learnt"
    if runs == 1:
        learnt = "the run learnt" if final.learnt else "the run did not learn"
    measure = f"return {steps:g}" if section.has_returns else f"{steps:g} steps"
    sentence = f"{learnt}; {measure} {kind}{_optimum(section, kind, steps)}."
    if not others:
        return sentence
    texts = []
    for group in others[:FEW_NAMED]:
        final, runs = group.finals[kind], len(group.seeds)
        some = f" ({final.learnt} of {runs} runs learnt)" if final.learnt < runs else ""
        texts.append(f"{group.label} {final.quartiles[1]:g}{some}")
    if len(others) > FEW_NAMED:
        texts.append(f"and {len(others) - FEW_NAMED} more")
    return f"{best.label}: {sentence} Others: {', '.join(texts)}."


def _rank(group: RunGroup, kind: str) -> tuple[float, float, float]:
    final = group.finals[kind]
    cost = -final.quartiles[1] if final.is_return else final.quartiles[1]
    return -final.learnt / len(group.seeds), cost, math.inf if final.learnt_after is None else final.learnt_after


def _optimum(section: Section, kind: str, steps: float) -> str:
    """Write the optimum: the lower bound if it is reached, or else the steps or the return of the reference."""
    level = section.level(kind)
    if section.has_returns:
        return "" if section.reference is None or level is None else f", {section.reference.label} earns {level:g}"
    bound = 0 if section.verdict is None else section.verdict.steps_lower_bound
    if bound and min(steps, steps if level is None else level) <= bound:
        return f", the optimum is {bound}"
    if section.reference is not None and level is not None:
        return f", {section.reference.label} takes {level:g}"
    return f", at least {bound} are needed" if bound else ""


def comparison_with_published(summary: Summary) -> str:
    """Write how much measured levels differ from published ones."""
    rows = [comparison for section in summary.sections for comparison in section.published_levels]
    if not rows:
        return ""
    low, high = (_percent(pick(row.difference for row in rows)) for pick in (min, max))
    count = f"{len(rows)} published results are" if len(rows) > 1 else "One published result is"
    return f"{count} measured again: final test steps differ by {low} to {high}."


def _percent(value: float) -> str:
    text = f"{value:+.0%}".replace("-", "−")
    return "0 %" if text[1:] == "0%" else text.replace("%", " %")


def runs_in_words(summary: Summary) -> str:
    """Write what was run: number of runs, learners, tasks, seeds and steps."""
    groups = [group for section in summary.sections for group in section.all_groups]
    counts, steps = [len(group.seeds) for group in groups], [group.steps for group in groups]
    learners = _listed([*dict.fromkeys(group.learner for group in groups)], "learners")
    tasks = _listed([section.title for section in summary.sections], "tasks")
    each = f", {ranged(counts, 'seed')} each" if len(groups) > 1 else ""
    length = ranged(steps, "training step") + (" per run" if sum(counts) > 1 else "")
    return f"{counted(sum(counts), 'run')} of {learners} on {tasks}{each}; {length}."


def _listed(names: Sequence[str], things: str) -> str:
    if len(names) > FEW_NAMED:
        return f"{len(names)} {things}"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
