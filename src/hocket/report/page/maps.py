"""The map of a scene and its machines, as SVG that takes its colours from the page's style."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from hocket.draw.graphviz import machine_svg
from hocket.draw.scene import Area, Scene
from hocket.draw.task_picture import MOST_STATES, MOST_TRANSITIONS
from hocket.machine.reward_machine import RewardMachine
from hocket.report.page.markup import Html, tag

LONGEST_SIDE = 400.0  # of a map, in units of the SVG
MOST_LINES = 60  # cells in a row up to which the lines between them are drawn
LONGEST_MARK, LONGEST_TAG = 3, 4  # characters written on an agent and on a place

Place = tuple[float, float]


def marks_of(agents: Sequence[str]) -> list[str]:
    """Choose what is written on agents: the numbers that their names end in, or else their places in the list.

    >>> marks_of(["A1", "A2"]), marks_of(["Ann", "Bo"])
    (['1', '2'], ['1', '2'])
    """
    ends = [re.search(r"\d{1,3}$", name) for name in agents]
    found = [end[0] for end in ends if end]
    return found if len({*found}) == len(agents) else [str(place + 1)[-LONGEST_MARK:] for place in range(len(agents))]


def unit_of(scene: Scene) -> float:
    """Find how long a unit of the scene is on its map."""
    return LONGEST_SIDE / max(scene.width, scene.height)


def map_svg(scene: Scene, starts: Sequence[Place]) -> Html:
    """Draw the map of a scene, with the agents where they start, if that is known."""
    unit = unit_of(scene)
    width, height = scene.width * unit, scene.height * unit
    disc = agent_radius(scene)
    spots = _side_by_side(starts, disc / unit)
    agents = [
        _agent((across * unit, down * unit), size * disc, mark, scene.colors[name])
        for (across, down, size), mark, name in zip(spots, marks_of(scene.agents), scene.agents, strict=False)
    ]
    return tag(
        "svg",
        tag("rect", class_="floor", width=width, height=height),
        *(_area(area, unit) for area in scene.areas),
        _lines(scene, unit),
        *(_area(wall, unit, "wall") for wall in scene.walls),
        *(_area_tag(area, unit) for area in scene.areas if area.tag),
        tag("rect", class_="border", width=width, height=height),
        tag("g", *agents, class_="starts"),
        class_="map",
        viewBox=f"-2 -2 {width + 4:g} {height + 4:g}",
        role="img",
        aria_label=f"The map of {scene.task}",
        data_unit=unit,
        data_disc=disc,
    )


def _side_by_side(starts: Sequence[Place], radius: float) -> Iterator[tuple[float, float, float]]:
    """Let agents that start in one place stand around its middle; the third number is how much smaller they are."""
    for number, (across, down) in enumerate(starts):
        together = [place for place, own in enumerate(starts) if own == (across, down)]
        if len(together) == 1:
            yield across, down, 1
            continue
        angle = 2 * math.pi * together.index(number) / len(together) - math.pi
        reach, size = radius * 0.65, max(min(0.6, math.sin(math.pi / len(together)) * 0.65), 0.2)
        yield across + reach * math.cos(angle), down + reach * math.sin(angle), size


def agent_radius(scene: Scene) -> float:
    """Choose the radius of an agent's disc on the map."""
    return 0.34 * unit_of(scene) if scene.has_cells else LONGEST_SIDE / 32


def _area(area: Area, unit: float, kind: str = "area") -> Html:
    note = ": ".join(filter(None, (area.name, area.note)))
    title = [tag("title", note)] if note else []
    shapes = [_shape(area, unit, class_=kind, style=f"--own:{area.color}")]
    if area.note:
        shapes.append(_shape(area, unit, class_="closed"))
    return tag("g", *title, *shapes)


def _shape(area: Area, unit: float, **look: str) -> Html:
    left, top, width, height = (length * unit for length in area[:4])
    if area.is_disc:
        return tag("ellipse", cx=left + width / 2, cy=top + height / 2, rx=width / 2, ry=height / 2, **look)
    return tag("rect", x=left, y=top, width=width, height=height, **look)


def _area_tag(area: Area, unit: float) -> Html:
    """Write a place's letter in its middle, or in the corner of its first cell, where agents leave it readable."""
    left, top, width, height = (length * unit for length in area[:4])
    size = max(min(width, height, unit if unit > 8 else LONGEST_SIDE / 16) * 0.36, 5)
    middle = (left + width / 2, top + height / 2)
    return tag("text", _short(area.tag), class_="tag", x=middle[0], y=middle[1], font_size=size)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TAG else f"{text[: LONGEST_TAG - 1]}…"


def _lines(scene: Scene, unit: float) -> Html:
    """Draw the lines between cells."""
    if not scene.has_cells or max(scene.width, scene.height) > MOST_LINES:
        return Html("")
    width, height = scene.width * unit, scene.height * unit
    down = [f"M{place * unit:g} 0V{height:g}" for place in range(1, int(scene.width))]
    across = [f"M0 {place * unit:g}H{width:g}" for place in range(1, int(scene.height))]
    return tag("path", class_="lines", d="".join([*down, *across]))


def _agent(place: Place, radius: float, mark: str, color: str) -> Html:
    return tag(
        "g",
        tag("circle", r=radius),
        tag("text", mark, font_size=radius * (1.15 if len(mark) < LONGEST_MARK else 0.8)),
        class_="agent",
        style=f"--own:{color}",
        transform=f"translate({place[0]:g} {place[1]:g})",
    )


def agent_badge(mark: str, color: str) -> Html:
    """Draw an agent's disc beside a text."""
    return tag("span", mark, class_="disc", style=f"--own:{color}", aria_hidden="true")


# Machines.


def event_order(scene: Scene) -> list[str]:
    """List the events in the order in which they take their colours."""
    team = [scene.team] if scene.team is not None else []
    return list(dict.fromkeys(event for machine in (*team, *scene.machines.values()) for event in machine.events))


def is_drawable(machine: RewardMachine) -> bool:
    """Tell whether a machine is small enough to be read on a page."""
    return len(machine.states) <= MOST_STATES and len(machine.transitions) <= MOST_TRANSITIONS


def machine_drawing(machine: RewardMachine, events: Iterable[str], label: str) -> Html:
    """Draw a machine; states and edges are marked with numbers that scripts find, as ids could not be used twice."""
    svg = machine_svg({"": machine}, events=events)
    svg = svg[svg.index("<svg") :]
    width, height = re.findall(r'(?:width|height)="([\d.]+)pt"', svg)[:2]
    body = svg[svg.index(">") + 1 : svg.rindex("</svg>")]
    body = re.sub(r"<!--.*?-->\n|<polygon fill=\"white\" stroke=\"none\"[^>]*>\n|(?<=>)\n", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="frame0".*?</g>', "", body, flags=re.DOTALL)
    body = re.sub(r' id="m0s(\d+)tom0s(\d+)"', r' data-edge="\1-\2"', body)
    body = re.sub(r' id="m0s(\d+)"', r' data-state="\1"', body)
    body = re.sub(r' (?:id="[^"]*"|xml:space="preserve"|font-family="[^"]*")', "", body)
    box = re.search(r'viewBox="([^"]*)"', svg)
    return tag(
        "svg",
        Html(body),
        class_="machine",
        viewBox=box[1] if box else f"0 0 {width} {height}",
        width=float(width),
        height=float(height),
        role="img",
        aria_label=label,
    )


def legend(scene: Scene) -> Html:
    """List the places of a map."""
    named: dict[str, Area] = {}
    for area in scene.areas:  # of a place's rectangles, the first has its tag
        if area.name:
            named.setdefault(area.name, area)
    items = [
        tag(
            "li",
            tag(
                "span",
                _short(area.tag),
                class_="swatch" + (" disc-shaped" if area.is_disc else ""),
                style=f"--own:{area.color}",
            ),
            tag("span", area.name, tag("small", area.note) if area.note else ""),
        )
        for area in named.values()
    ]
    return tag("ul", *items, class_="legend") if items else Html("")
