"""A task without its runs: the verdict on its decomposition, its map, and its machines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hocket.draw.scene import Scene
from hocket.machine.reward_machine import RewardMachine
from hocket.report.page.maps import (
    Place,
    agent_badge,
    event_order,
    is_drawable,
    legend,
    machine_drawing,
    map_svg,
    marks_of,
)
from hocket.report.page.markup import Html, join, tag

MOST_DRAWN = 24  # agents' machines
FEW_DRAWN = 4  # of many agents' machines, that are seen at once


def overview(scene: Scene, starts: Sequence[Place]) -> Html:
    """Say what a scene says, with the agents on the map where they start, if that is known."""
    picture = tag("figure", map_svg(scene, starts), tag("figcaption", legend(scene)), class_="map-figure")
    return join(
        [
            tag("p", scene.description, class_="description") if scene.description else "",
            _verdict(scene),
            tag("div", picture, _machines(scene), class_="overview"),
        ]
    )


def _verdict(scene: Scene) -> Html:
    kind, mark = {True: ("yes", "✓"), False: ("no", "✗"), None: ("neutral", "•")}[scene.splits]
    notes = [tag("p", note, class_="note") for note in scene.notes]
    symbol = tag("span", mark, class_="symbol", aria_hidden="true")
    return tag("div", symbol, tag("div", tag("p", scene.verdict), *notes), class_=f"verdict {kind}")


def _machines(scene: Scene) -> Html:
    """Draw the team machine and the local reward machines; of many agents, some are folded away or left out."""
    events = event_order(scene)
    marks = dict(zip(scene.agents, marks_of(scene.agents), strict=True))
    own = [
        _machine(
            scene.machines[name],
            events,
            join([agent_badge(marks[name], scene.colors[name]), name]),
            f"The local reward machine of {name}",
            join(["local event set: ", tag("span", ", ".join(scene.knows[name]), class_="events")]),
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
        return tag(
            "p",
            "The team machine is too large to draw: it is the parallel composition of the local reward machines.",
            class_="note",
        )
    return _machine(scene.team, events, Html("<b>team machine</b>"), "The team machine", "all events")


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
