"""Maps with agents as pixels: the SVG of the pages, rasterised by resvg."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from resvg_py import svg_to_bytes

from hocket.draw.geometry import side_by_side
from hocket.draw.map_svg import XMLNS, agent_radius, agent_svg, map_svg, page_look, unit_of
from hocket.draw.markup import Html, tag
from hocket.draw.scene import Area, Moment, Scene
from hocket.draw.task_scene import scene_of
from hocket.draw.text import TextMap
from hocket.errors import require_known
from hocket.task.task import Task

MODES = ("ansi", "rgb_array")

Pixels = NDArray[np.uint8]  # [height, width, 3]

WIDEST = 1_024  # pixels of a picture, unless its cells would be too small
LARGEST_CELL, SMALLEST_CELL = 32, 12  # pixels
LISTED = 8  # agents whose states are listed in a text
FRACTIONS = 4  # of a pixel, to which the position of an agent is rounded
FONT = "DejaVu Sans"


@dataclass(frozen=True)
class Frames:
    """Draws the moments of an episode as text, as pixels, or not at all."""

    task: Task
    mode: str | None = None

    def __post_init__(self) -> None:
        if self.mode is not None:
            require_known(self.mode, MODES, "render_mode")

    def draw(
        self, cells: Mapping[str, int], states: Mapping[str, str], time: int, driven: str | None = None
    ) -> str | Pixels | None:
        """Draw agents in some cells, with the states of their machines; `driven` is the only agent, if there is one."""
        scene, moment = self.scene, Moment(cells, states, driven)
        if self.mode == "ansi":
            listed = [f"{name} in {state}" for name, state in list(states.items())[:LISTED]]
            listed += ["…"] if len(states) > LISTED else []
            lines = [line.plain.rstrip() for line in TextMap(scene).draw(moment)]
            return "\n".join([*lines, f"step {time:,}: {', '.join(listed)}", ""])
        if self.mode is None:
            return None
        points = [(cell % scene.columns + 0.5, cell // scene.columns + 0.5) for cell in cells.values()]
        placed = side_by_side(points, agent_radius(scene) / unit_of(scene))
        return np.array(self.painter.paint(dict(zip(cells, placed, strict=True)), frozenset(scene.closed(moment))))

    @cached_property
    def scene(self) -> Scene:
        """The scene of the task."""
        return scene_of(self.task)

    @cached_property
    def cell(self) -> int:
        """The side of a cell in pixels."""
        return min(LARGEST_CELL, max(SMALLEST_CELL, WIDEST // max(self.scene.rows, self.scene.columns)))

    @cached_property
    def painter(self) -> MapPainter:
        """The painter of the task's map."""
        return MapPainter(self.scene, self.cell / unit_of(self.scene))


class MapPainter:
    """Paints a map with agents; the map with closed areas and a caption, and each agent, are rasterised once."""

    def __init__(self, scene: Scene, scale: float, margin: float = 0, foot: float = 0) -> None:
        """Make a painter: `scale` is pixels per unit of the map's SVG; margin and foot, below the map, are in units."""
        self.scene, self.scale, self.margin, self.foot = scene, scale, margin, foot
        unit = unit_of(scene)
        width, height = scene.width * unit + 2 * margin, scene.height * unit + 2 * margin + foot
        self.size = round(width * scale), round(height * scale)
        self._ground, self._agent = lru_cache(16)(self._paint_ground), lru_cache(1024)(self._paint_agent)

    def paint(self, agents: Mapping[str, Sequence[float]], closed: frozenset[Area], caption: str = "") -> Image.Image:
        """Paint agents (right, down, and a size up to 1) on a map with closed areas."""
        image = self._ground(closed, caption).copy()
        unit = unit_of(self.scene)
        for name, (across, down, size) in agents.items():
            x, y = (round(FRACTIONS * self.scale * (side * unit + self.margin)) for side in (across, down))
            (left, right), (top, below) = divmod(x, FRACTIONS), divmod(y, FRACTIONS)
            sprite = self._agent(name, size, right / FRACTIONS, below / FRACTIONS)
            image.paste(sprite, (left - sprite.width // 2, top - sprite.height // 2), sprite)
        return image

    def _paint_ground(self, closed: frozenset[Area], caption: str) -> Image.Image:
        line = self.scene.height * unit_of(self.scene) + self.foot / 2
        below = [tag("text", caption, class_="caption", x=4, y=line)] if caption else []
        width, height = self.size
        view = -self.margin, -self.margin, width / self.scale, height / self.scale
        look = {"width": f"{width}", "height": f"{height}", "preserveAspectRatio": "none", "xmlns": XMLNS}
        drawing = map_svg(self.scene, (), page_look(), *below, closed=closed, view=view, **look)
        return rasterise(drawing, "#ffffff").convert("RGB")

    def _paint_agent(self, name: str, size: float, right: float, below: float) -> Image.Image:
        radius, scale = agent_radius(self.scene), size * self.scale
        half = math.ceil((radius + 1) * scale) + 1  # with the line around it
        agent = agent_svg(self.scene, name, radius, transform=f"translate({right} {below}) scale({scale})")
        view = f"{-half} {-half} {2 * half} {2 * half}"
        look = {"class_": "map", "viewBox": view, "width": f"{2 * half}", "height": f"{2 * half}", "xmlns": XMLNS}
        return rasterise(tag("svg", page_look(), agent, **look))


def rasterise(drawing: Html, background: str | None = None) -> Image.Image:
    """Paint an SVG with the fonts that come with matplotlib, so that it looks the same on all machines."""
    png = svg_to_bytes(
        drawing, background=background, sans_serif_family=FONT, font_files=_fonts(), skip_system_fonts=True
    )
    return Image.open(io.BytesIO(png))


@cache
def _fonts() -> list[str]:
    library = find_spec("matplotlib")  # not imported, which would take longer than painting
    assert library is not None and library.origin is not None
    folder = Path(library.origin).parent / "mpl-data" / "fonts" / "ttf"
    return [str(folder / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")]
