"""A task without its runs: the verdict on its decomposition, its map, and its machines."""

from __future__ import annotations

from collections.abc import Sequence

from hocket.draw.geometry import Point
from hocket.draw.map_svg import agent_badge, is_drawable, legend, machine_svg, map_svg
from hocket.draw.markup import Html, join, tag
from hocket.draw.scene import Scene
from hocket.machine.reward_machine import RewardMachine
from hocket.task.verdict import Verdict

MOST_DRAWN = 24  # agents' machines
FEW_DRAWN = 4  # of many agents' machines, that are seen at once


def overview(scene: Scene, starts: Sequence[Point], verdict: Verdict | None = None) -> Html:
    """Describe a task: the verdict, the map with the agents at their starts (if known), and the machines."""
    picture = tag("figure", map_svg(scene, starts), tag("figcaption", legend(scene)), class_="map-figure")
    return join(
        [
            tag("p", scene.description, class_="description") if scene.description else "",
            _verdict(scene, verdict),
            tag("div", picture, _machines(scene), class_="overview"),
        ]
    )


def _verdict(scene: Scene, verdict: Verdict | None) -> Html:
    """Say whether a task is decomposable, and all else that its check says; of other worlds, what their file says."""
    is_checked = verdict is not None and scene.decomposable is not None
    lines = [line.text for line in verdict.lines()] if verdict and is_checked else [scene.verdict, *scene.notes]
    answer, *notes = lines
    kind, sign = {True: ("yes", "✓"), False: ("no", "✗"), None: ("neutral", "•")}[scene.decomposable]
    symbol = tag("span", sign, class_="symbol", aria_hidden="true")
    told = [tag("p", note, class_="note") for note in notes]
    return tag("div", symbol, tag("div", tag("p", answer), *told), class_=f"verdict {kind}")


def _machines(scene: Scene) -> Html:
    """Draw the team machine and the local reward machines; of many agents, some are folded away or left out."""
    drawings = [
        _machine(
            scene,
            scene.machines[name],
            join([agent_badge(scene, name), name]),
            f"The local reward machine of {name}",
            join(["local event set: ", tag("span", ", ".join(scene.knows[name]), class_="events")]),
            number,
        )
        for number, name in enumerate(scene.agents[:MOST_DRAWN])
    ]
    shown = drawings if len(drawings) <= FEW_DRAWN else drawings[: FEW_DRAWN - 1]
    parts = [_team(scene), tag("div", *shown, class_="machines")]
    if len(shown) < len(drawings):
        more = tag("div", *drawings[len(shown) :], class_="machines")
        left_out = len(scene.agents) - len(drawings)
        others = f"; {left_out:,} others are not drawn" if left_out else ""
        parts.append(tag("details", tag("summary", f"{len(drawings) - len(shown)} more agents{others}"), more))
    return tag("div", *parts, class_="all-machines")


def _team(scene: Scene) -> Html:
    if scene.team is None:
        return tag(
            "p",
            "The team machine is too large to draw: it is the parallel composition of the local reward machines.",
            class_="note",
        )
    return _machine(scene, scene.team, Html("<b>team machine</b>"), "The team machine", "all events")


def _machine(
    scene: Scene, machine: RewardMachine, name: Html, label: str, remark: str, agent: int | None = None
) -> Html:
    """Draw a machine under its name; of an agent, its number says to scripts whose it is."""
    width = None
    if is_drawable(machine):
        drawing, width = machine_svg(machine, scene.styles, label)
    else:
        size = f"{len(machine.states):,} states and {len(machine.transitions):,} transitions"
        drawing = tag("p", f"{size}, too many to draw", class_="note")
    caption = tag("figcaption", tag("span", name, class_="who"), tag("span", remark, class_="note"))
    return tag(
        "figure",
        caption,
        tag("div", drawing, class_="drawing"),
        class_="machine-figure" + ("" if agent is not None else " team"),
        data_agent=agent,
        style=None if width is None else f"--wide:{width:.0f}px",
    )
