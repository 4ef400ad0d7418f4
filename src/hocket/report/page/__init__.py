"""Write a report as one HTML page that needs nothing else: no network, no other file, no clock."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from hocket.draw.markup import Html, data_block, escape, join
from hocket.files import write_whole
from hocket.report.document import LINE, fill
from hocket.report.page.encoding import EpisodeData, choose_episodes, curves_data, scene_data
from hocket.report.page.explored import exploration_section
from hocket.report.page.sections import facts, navigation, opening, task_section, warnings
from hocket.report.page.standings import over_all_tasks
from hocket.report.summary import Section, Summary, line_numbers, summarize
from hocket.study.store import Results

STYLES = ("shared.css", "page.css")
SCRIPTS = (
    "elements.js",
    "page.js",
    "table.js",
    "download.js",
    "curves.js",
    "episode.js",
    "stage.js",
    "animation.js",
    "replay.js",
)  # in order: they share a scope


def write_report(what: Summary | Results | str | Path, path: str | Path, *, title: str | None = None) -> Path:
    """Write the report on a folder of runs, or on what it comes to, and say where it is."""
    summary = what if isinstance(what, Summary) else summarize(what, title)
    write_whole(Path(path), report_html(summary, _way(summary.folder, Path(path))))
    return Path(path)


def _way(folder: Path | None, page: Path) -> str | None:
    """Find how a page links to files in a folder of runs."""
    if folder is None:
        return None
    try:
        steps = Path(os.path.relpath(folder.resolve(), page.resolve().parent))
    except ValueError:  # on another drive
        return f"{folder.resolve().as_uri()}/"
    return "".join(f"{quote(part)}/" for part in steps.parts if part != ".")


def report_html(summary: Summary, folder: str | None = None) -> str:
    """Lay out a report as a page; the same summary always gives the same text. `folder` leads to the runs' files."""
    sections = [
        task_section(section, summary, number, line_colors(section), folder)
        for number, section in enumerate(summary.sections, start=1)
    ]
    parts = {
        "title": escape(summary.title),
        "navigation": navigation(summary),
        "opening": opening(summary),
        "facts": facts(summary),
        "warnings": warnings(summary),
        "across": over_all_tasks(summary.sections, _common_colors(summary)),
        "sections": join([exploration_section(summary.folder), *sections], LINE),
        "data": _data(summary),
    }
    return fill("page", "page.html", STYLES, SCRIPTS, parts)


def line_colors(section: Section) -> dict[str, int]:
    """Number the colours of a task's groups by label; the reference has none."""
    return dict(zip((group.label for group in section.groups), line_numbers(section.groups), strict=True))


def _common_colors(summary: Summary) -> dict[str, int]:
    """Number the colours of groups that have the same one on all tasks."""
    numbers: dict[str, set[int]] = {}
    for section in summary.sections:
        for label, number in line_colors(section).items():
            numbers.setdefault(label, set()).add(number)
    return {label: min(lines) for label, lines in numbers.items() if len(lines) == 1}


def _data(summary: Summary) -> Html:
    """Embed what scripts draw: the curves of all tasks, and the episodes of each."""
    chosen = choose_episodes(summary)
    curves = data_block("curves", [curves_data(section, line_colors(section)) for section in summary.sections])
    episodes = [
        data_block(f"episodes-{number}", _episodes(section, episodes))
        for number, (section, episodes) in enumerate(zip(summary.sections, chosen, strict=True))
    ]
    return join([curves, *episodes], LINE)


def _episodes(section: Section, episodes: EpisodeData) -> object:
    scene = section.scene
    if scene is None:
        return None
    labels = [group.label for group in section.all_groups]
    groups = [{"label": labels[number], "seeds": kept} for number, kept in sorted(episodes.kept.items())]
    return {
        **scene_data(scene, episodes.names),
        "title": section.title,
        "groups": groups,
        "left_out": episodes.left_out,
        "names": [*episodes.names.number],
    }
