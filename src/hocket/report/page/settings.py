"""All settings of every run, and where its data are."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from urllib.parse import quote

from hocket.draw.markup import Html, join, tag
from hocket.learn.catalogue import LEARNERS
from hocket.learn.settings import SettingInfo, describe_settings
from hocket.report.page.standings import learner_key, scrolling
from hocket.report.summary import RunGroup, Section

MOST_LINKED = 100  # runs of a group


def settings_and_data(section: Section, colors: Mapping[str, int], folder: str | None) -> Html:
    """Tabulate the settings of all groups, and link to the files of their runs, where `folder` leads to them."""
    groups = section.all_groups
    heads = [tag("th", learner_key(group.label, colors), scope="col") for group in groups]
    head = tag("thead", tag("tr", tag("th", "setting", scope="col"), tag("th", "unit", scope="col"), *heads))
    rows = [_row("training steps", "", [f"{group.steps:,}" for group in groups], "")]
    rows += [_setting(name, groups) for name in dict.fromkeys(name for group in groups for name in group.settings)]
    if folder is not None:
        rows.append(_row("runs, by seed", "", [_links(group, folder) for group in groups], "record and policy of each"))
    table = tag("table", head, tag("tbody", *rows), class_="statistics settings")
    label = f"Settings of {section.title}"
    note = "Bold: not the default."
    if folder is not None:
        data = tag("a", "curves.csv", href=f"{folder}curves.csv")
        about = tag("a", "study.json", href=f"{folder}study.json")
        note = join(
            [
                note,
                " π: the policies of a run. All tests of all runs are in ",
                data,
                ", versions and times in ",
                about,
                ".",
            ]
        )
    return tag(
        "details",
        tag("summary", "All settings" if folder is None else "All settings, and links to the data"),
        scrolling(table, label),
        tag("p", note, class_="note"),
    )


def _setting(name: str, groups: tuple[RunGroup, ...]) -> Html:
    known = [setting for group in groups if (setting := _known_settings(group.learner).get(name)) is not None]
    cells = [_value(group, name) for group in groups]
    return _row(name, known[0].unit if known else "", cells, known[0].meaning if known else "")


def _row(name: str, unit: str, cells: list[str], meaning: str) -> Html:
    title = tag("th", name, scope="row", title=meaning or None)
    return tag("tr", title, tag("td", tag("small", unit)), *(tag("td", content) for content in cells))


def _known_settings(learner: str) -> dict[str, SettingInfo]:
    """List the settings of a learner by name; those of a third-party learner are not known."""
    if learner not in LEARNERS:
        return {}
    return {setting.name: setting for setting in describe_settings(LEARNERS[learner].settings)}


def _value(group: RunGroup, name: str) -> str:
    known = _known_settings(group.learner)
    if name not in group.settings or (known and name not in known):
        return "–"
    value = group.settings[name]
    text = value if isinstance(value, str) else f"{value:,}" if value >= 1 else f"{value:g}"
    text = ("yes" if value else "no") if isinstance(value, bool) else text
    return tag("b", text) if name in known and known[name].default != value else text


def _links(group: RunGroup, folder: str) -> Html:
    """Link to the record and the policy of each run; of thousands, to those of the first ones and to all others."""
    links = []
    for seed, name in islice(zip(group.seeds, group.files, strict=True), MOST_LINKED):
        links.append(tag("a", str(seed), href=f"{folder}runs/{quote(name)}.json", title=f"The record of seed {seed}"))
        if name in group.policies:
            href = f"{folder}policies/{quote(name)}.npz"
            links.append(tag("a", "π", href=href, title=f"The policies of seed {seed}"))
    if (left := len(group.seeds) - MOST_LINKED) > 0:
        links.append(tag("a", f"and {left:,} more", href=f"{folder}runs/", title="The records of all runs"))
    return join(links, " ")
