"""The map of a scene as SVG, for the pages of reports and of the studio.

Colours of the floor, walls and lines come from web/shared.css. No element of a map has a `style` attribute: the
studio's content security policy forbids them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.resources import files

from hocket.draw.geometry import Point, Shape, rectangles, side_by_side
from hocket.draw.markup import Html, tag, truncate
from hocket.draw.scene import Area, Moment, Scene

LONGEST_SIDE = 400.0  # of a map, in units of the SVG
MOST_LINES = 60  # cells in a row up to which the lines between them are drawn
LONGEST_NUMBER, LONGEST_TAG = 3, 4  # characters written on an agent and on an area
MARGIN = 2.0  # around a map, for its border
XMLNS = "http://www.w3.org/2000/svg"  # of drawings in separate files
STYLE = (
    ".map{background:var(--paper);font-family:system-ui,sans-serif}"
    ".map .caption{fill:var(--ink);font-size:14px;text-anchor:start}"
)
HATCHING = Html(  # as on the pages
    '<pattern id="hatching" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V7"/></pattern>'
)


def number_of(scene: Scene, agent: str) -> str:
    """Return the text on an agent's disc."""
    return str(scene.numbers[agent])[-LONGEST_NUMBER:]


def unit_of(scene: Scene) -> float:
    """Compute the length of a unit of the scene on its map."""
    return LONGEST_SIDE / max(scene.width, scene.height)


def map_svg(
    scene: Scene,
    starts: Sequence[Point],
    *above: Html,
    closed: Collection[Area] | None = None,
    view: tuple[float, float, float, float] | None = None,
    **look: str,
) -> Html:
    """Draw the map of a scene, with the agents at their starts, if these are known, and elements above all others.

    By default, areas are closed as before the first step; `view` is left, top, width and height of the visible part.
    The group of an area with gates has its number as `data-area`, and unless it is closed the class `open`.
    """
    unit, disc = unit_of(scene), agent_radius(scene)
    width, height = scene.width * unit, scene.height * unit
    numbers = {area: number for number, area in enumerate(scene.areas)}
    closed = scene.closed(Moment({})) if closed is None else closed
    view = view or (-MARGIN, -MARGIN, width + 2 * MARGIN, height + 2 * MARGIN)
    agents = [
        agent_svg(scene, name, size * disc, transform=f"translate({across * unit:g} {down * unit:g})")
        for (across, down, size), name in zip(side_by_side(starts, disc / unit), scene.agents, strict=False)
    ]
    rings = [
        tag("circle", cx=(x + 0.5) * unit, cy=(y + 0.5) * unit, r=disc, fill="none", stroke=scene.colors[name])
        for name, cells in scene.regions.items()
        for y, x in (divmod(cell, scene.columns) for cell in cells)
    ]
    elements = [
        tag("rect", class_="floor", width=width, height=height),
        *(_area(area, unit, numbers[area], area in closed) for area in scene.painted),
        _lines(scene, unit),
        *(_shape(wall, unit, class_="wall") for wall in scene.walls),
        *(tag("text", text, class_="tag", x=x, y=y, font_size=size) for text, x, y, size in area_tags(scene)),
        *rings,
        tag("rect", class_="border", width=width, height=height),
        tag("g", *agents, class_="starts"),
    ]
    view_box, label = " ".join(f"{side:g}" for side in view), f"The map of {scene.task}"
    about = {"class_": "map", "viewBox": view_box, "role": "img", "aria_label": label}
    return tag("svg", *elements, *above, **about, data_unit=unit, data_disc=disc, **look)


@cache
def page_look() -> Html:
    """Return the styles of maps and agents on light pages, for a drawing in a separate file."""
    shared = (files("hocket.draw") / "web" / "shared.css").read_text(encoding="utf-8")
    colors = dict(re.findall(r"(--[\w-]+): light-dark\((#\w+)", shared))
    rules = [*re.findall(r"^\.(?:map|agent|definitions) [.a-z].*", shared, re.MULTILINE), STYLE]
    style = re.sub(r"var\((--[\w-]+)\)", lambda match: colors.get(match[1], match[0]), "".join(rules))
    return Html(tag("style", Html(style)) + tag("defs", HATCHING, class_="definitions"))


def agent_radius(scene: Scene) -> float:
    """Compute the radius of an agent's disc on the map."""
    return max(0.34 * unit_of(scene), LONGEST_SIDE / 80) if scene.has_cells else LONGEST_SIDE / 32


def _area(area: Area, unit: float, number: int, is_closed: bool) -> Html:
    """Draw an area and, above it, the hatching of a closed one, which scripts hide when it opens."""
    text = ": ".join(filter(None, (area.name, "; ".join(area.notes))))
    title = [tag("title", text)] if text else []
    shapes = [_shape(shape, unit, class_="area", fill=area.color) for shape in area.shapes]
    if not area.gates:
        return tag("g", *title, *shapes)
    shapes += [_shape(shape, unit, class_="closed", data_closed="") for shape in area.shapes]
    return tag("g", *title, *shapes, class_=None if is_closed else "open", data_area=number)


def _shape(shape: Shape, unit: float, **look: str) -> Html:
    width, height = shape.width * unit, shape.height * unit
    if shape.is_disc:
        x, y = shape.middle
        return tag("ellipse", cx=x * unit, cy=y * unit, rx=width / 2, ry=height / 2, **look)
    return tag("rect", x=shape.left * unit, y=shape.top * unit, width=width, height=height, **look)


def area_tags(scene: Scene) -> Iterator[tuple[str, float, float, float]]:
    """List text, middle and font size of tags; in cells, each in the largest rectangle, if possible without agents."""
    unit = unit_of(scene)
    for area in scene.painted:
        shapes = area.shapes[:1]
        if scene.has_cells:
            cells = scene.visible[area]
            free = cells.difference(scene.opening.cells.values())
            shapes = tuple(rectangles(free or cells, scene.columns))
        if area.tag and shapes:
            shape = max(shapes, key=lambda shape: shape.width * shape.height)
            (x, y), side = shape.middle, min(shape.width, shape.height) * unit
            size = max(min(side, unit if unit > 8 else LONGEST_SIDE / 16) * 0.4, 5)
            yield truncate(area.tag, LONGEST_TAG), x * unit, y * unit, size


def _lines(scene: Scene, unit: float) -> Html:
    if not scene.has_cells or max(scene.width, scene.height) > MOST_LINES:
        return Html("")
    width, height = scene.width * unit, scene.height * unit
    down = [f"M{column * unit:g} 0V{height:g}" for column in range(1, int(scene.width))]
    across = [f"M0 {row * unit:g}H{width:g}" for row in range(1, int(scene.height))]
    return tag("path", class_="lines", d="".join([*down, *across]))


def agent_svg(scene: Scene, name: str, radius: float, *moves: Html, transform: str | None = None) -> Html:
    """Draw an agent's disc, with elements that animate it."""
    number = number_of(scene, name)
    disc = tag("circle", r=radius, fill=scene.colors[name])
    text = tag("text", number, font_size=radius * (1.15 if len(number) < LONGEST_NUMBER else 0.8))
    return tag("g", tag("title", name), disc, text, *moves, class_="agent", transform=transform)


def agent_badge(scene: Scene, agent: str) -> Html:
    """Draw an agent's disc in a text."""
    color = f"--color:{scene.colors[agent]}"
    return tag("span", number_of(scene, agent), class_="disc", style=color, aria_hidden="true")


def legend(scene: Scene) -> Html:
    """List the areas of a map."""
    items = []
    for area in (area for area in scene.areas if area.names):
        kind = "swatch disc-shaped" if any(shape.is_disc for shape in area.shapes) else "swatch"
        swatch = tag("span", truncate(area.tag, LONGEST_TAG), class_=kind, style=f"--color:{area.color}")
        note = tag("small", "; ".join(area.notes)) if area.gates else ""
        items.append(tag("li", swatch, tag("span", area.name, note)))
    return tag("ul", *items, class_="legend") if items else Html("")
