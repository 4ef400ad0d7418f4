"""Moments of an episode as text or as pixels: areas in their colours, closed gates hatched, agents as discs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from hocket.draw.geometry import Shape, side_by_side
from hocket.draw.palette import FLOOR, INK, WALL, WHITE
from hocket.draw.scene import Area, Moment, Scene
from hocket.draw.task_scene import scene_of
from hocket.draw.text import TextMap
from hocket.errors import require_known
from hocket.task.task import Task

MODES = ("ansi", "rgb_array")

Pixels = NDArray[np.uint8]  # [height, width, 3]
Bits = NDArray[np.bool_]  # [height, width]

WIDEST = 1_024  # pixels of a picture, unless its cells would be too small
LARGEST_CELL, SMALLEST_CELL = 32, 12  # pixels
SMALLEST_LINED = 8  # pixels of a cell from which lines are drawn between cells
HATCH = 8  # pixels from one line of a closed gate to the next
SHOWN = 4  # agents in a cell; where there are more, a plus stands for the rest
DISC = 0.44  # of a cell: the radius of an agent
LISTED = 8  # agents whose states are told in a text


@dataclass(frozen=True)
class Frames:
    """Draws the moments of an episode, in one of the modes or not at all."""

    task: Task
    mode: str | None = None

    def __post_init__(self) -> None:
        if self.mode is not None:
            require_known(self.mode, MODES, "render_mode")

    def draw(
        self, cells: Mapping[str, int], states: Mapping[str, str], time: int, driven: str | None = None
    ) -> str | Pixels | None:
        """Draw where some agents are, given their machines' states; `driven` is the only one, if there is one."""
        moment = Moment(cells, states, driven)
        if self.mode == "ansi":
            return self._write(moment, time)
        return self._paint(moment) if self.mode == "rgb_array" else None

    @cached_property
    def scene(self) -> Scene:
        """What there is to see of the task."""
        return scene_of(self.task)

    @cached_property
    def cell(self) -> int:
        """How many pixels a cell has in each direction."""
        return min(LARGEST_CELL, max(SMALLEST_CELL, WIDEST // max(self.scene.rows, self.scene.columns)))

    def _write(self, moment: Moment, time: int) -> str:
        assert moment.states is not None
        states = [f"{name} in {state}" for name, state in list(moment.states.items())[:LISTED]]
        states += ["…"] if len(moment.states) > LISTED else []
        lines = [line.plain.rstrip() for line in TextMap(self.scene).draw(moment)]
        return "\n".join([*lines, f"step {time:,}: {', '.join(states)}", ""])

    def _paint(self, moment: Moment) -> Pixels:
        scene, image, cell = self.scene, self._ground.copy(), self.cell
        for area in scene.closed(moment):
            image[hatched(area, cell, (image.shape[1], image.shape[0]))] = rgb(INK)
        frame = Image.fromarray(image)
        for place, names in moment.crowds.items():
            row, column = divmod(place, scene.columns)
            few = names[:SHOWN] if len(names) <= SHOWN else names[: SHOWN - 1]
            shown = [(str(scene.numbers[name]), scene.colors[name]) for name in few]
            shown += [("+", INK)] if len(names) > SHOWN else []
            spots = side_by_side([(column + 0.5, row + 0.5)] * len(shown), DISC)
            for spot, (text, color) in zip(spots, shown, strict=True):
                paint_disc(frame, spot, DISC, cell, text, color)
        return np.array(frame)

    @cached_property
    def _ground(self) -> Pixels:
        """The map without agents and gates."""
        size = (self.scene.columns * self.cell, self.scene.rows * self.cell)
        return np.array(paint_ground(self.scene, self.cell, size))


# Painting, of maps with cells or without, at so many pixels for a unit of the map.


def paint_ground(scene: Scene, scale: float, size: tuple[int, int]) -> Image.Image:
    """Paint areas, lines between cells, and walls."""
    image = Image.new("RGB", size, WHITE)
    drawing = ImageDraw.Draw(image)
    _paint_shape(drawing, Shape(0, 0, scene.width, scene.height), scale, FLOOR)
    for area in scene.painted:
        for shape in area.shapes:
            _paint_shape(drawing, shape, scale, area.color)
    pixels = np.array(image)
    if scene.has_cells and scale >= SMALLEST_LINED:
        down, across = (np.round(np.arange(1, n + 1) * scale).astype(int) - 1 for n in (scene.rows, scene.columns))
        for edges in ((down, slice(across[-1] + 1)), (slice(down[-1] + 1), across)):
            pixels[edges] -= pixels[edges] // 8  # lines that are a little darker
    image = Image.fromarray(pixels)
    for wall in scene.walls:  # those between cells are two pixels thick at least
        seen = wall._replace(width=max(wall.width, 2 / scale), height=max(wall.height, 2 / scale))
        _paint_shape(ImageDraw.Draw(image), seen, scale, WALL)
    return image


@lru_cache(64)
def hatched(area: Area, scale: float, size: tuple[int, int]) -> Bits:
    """Find the pixels that are hatched while an area is closed."""
    image = Image.new("L", size, 0)
    for shape in area.shapes:
        _paint_shape(ImageDraw.Draw(image), shape, scale, 255)
    rows, columns = np.indices((size[1], size[0]))
    return np.asarray((np.asarray(image) > 0) & ((rows + columns) % HATCH < 2))


def _paint_shape(drawing: ImageDraw.ImageDraw, shape: Shape, scale: float, color: str | int) -> None:
    left, top = shape.left * scale, shape.top * scale
    box = (left, top, left + shape.width * scale - 1, top + shape.height * scale - 1)  # the last pixel is painted
    (drawing.ellipse if shape.is_disc else drawing.rectangle)(box, fill=color)


def paint_disc(
    frame: Image.Image, spot: tuple[float, float, float], radius: float, scale: float, text: str, color: str
) -> None:
    """Paint an agent: where, and how much smaller than usual."""
    (x, y), size = (part * scale for part in spot[:2]), spot[2] * radius * scale
    drawing = ImageDraw.Draw(frame)
    drawing.ellipse((x - size, y - size, x + size - 1, y + size - 1), fill=color, outline=WHITE)
    drawing.text((x, y), text, fill=WHITE, font=font_of(max(6, round(size))), anchor="mm")


@cache
def font_of(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Load the font that comes with Pillow."""
    return ImageFont.load_default(size)


def rgb(color: str) -> NDArray[np.uint8]:
    """Read a colour like #ff8800."""
    return np.frombuffer(bytes.fromhex(color[1:]), np.uint8)
