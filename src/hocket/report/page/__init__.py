"""Write a report as one self-contained HTML page: no network, no other file, no clock."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from hocket.draw.markup import data_block, escape, join, tag
from hocket.files import write_whole
from hocket.report.document import LINE, fill
from hocket.report.page.encoding import choose_episodes, curves_data, episodes_data
from hocket.report.page.sections import exploration_section, navigation, opening, task_section, warnings
from hocket.report.page.standings import over_all_tasks
from hocket.report.summary import Summary, summarize
from hocket.study.store import Results

STYLES = ("shared.css", "page.css")
NAMES = ("elements", "page", "table", "download", "curves", "episode", "stage", "animation", "replay")
SCRIPTS = [f"{name}.js" for name in NAMES]  # in order: they share a scope


def write_report(what: Summary | Results | str | Path, path: str | Path, *, title: str | None = None) -> Path:
    """Write the report on results, on a folder of runs, or on a summary; return its path."""
    summary = what if isinstance(what, Summary) else summarize(what, title)
    write_whole(Path(path), report_html(summary, _link_to(summary.folder, Path(path))))
    return Path(path)


def _link_to(folder: Path | None, page: Path) -> str | None:
    """Make the prefix of links from a page to files in a folder of runs."""
    if folder is None:
        return None
    try:
        relative = Path(os.path.relpath(folder.resolve(), page.resolve().parent))
    except ValueError:  # on another drive
        return f"{folder.resolve().as_uri()}/"
    return "".join(f"{quote(part)}/" for part in relative.parts if part != ".")


def report_html(summary: Summary, folder: str | None = None) -> str:
    """Write a report as a page; the same summary always gives the same text. `folder` is a prefix of links to files."""
    sections = [task_section(section, summary, index, folder) for index, section in enumerate(summary.sections)]
    pairs = {pair for section in summary.sections for pair in section.colors.items()}
    counts = Counter(label for label, _ in pairs)
    common = {label: number for label, number in pairs if counts[label] == 1}  # the same colour on all tasks
    blocks = [data_block("curves", [curves_data(section) for section in summary.sections])]
    for number, (section, episodes) in enumerate(zip(summary.sections, choose_episodes(summary), strict=True)):
        blocks.append(data_block(f"episodes-{number}", episodes_data(section, episodes)))
    facts = [tag("div", tag("dt", name), tag("dd", value)) for name, value in summary.made]
    parts = {
        "title": escape(summary.title),
        "navigation": navigation(summary),
        "opening": opening(summary),
        "facts": tag("dl", *facts, class_="facts"),
        "warnings": warnings(summary),
        "across": over_all_tasks(summary.sections, common),
        "sections": join([exploration_section(summary.folder), *sections], LINE),
        "data": join(blocks, LINE),
    }
    return fill("page", "page.html", STYLES, SCRIPTS, parts)
