"""Moments of an episode as text or as pixels: areas in their colours, closed gates hatched, agents as discs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.draw.palette import FLOOR, INK, WALL, WHITE
from hocket.draw.scene import Moment, Scene
from hocket.draw.task_scene import scene_of
from hocket.draw.text import TextMap
from hocket.errors import require_known
from hocket.task.task import Task

MODES = ("ansi", "rgb_array")

Pixels = NDArray[np.uint8]  # [height, width, 3]
Bits = NDArray[np.bool_]  # [height, width]

WIDEST = 1_024  # pixels of a picture, unless its cells would be too small
LARGEST_CELL, SMALLEST_CELL = 32, 12  # pixels
HATCH = 8  # pixels from one line of a closed gate to the next
SHOWN = 4  # agents in a cell; where there are more, a plus stands for the rest
MARGIN = 0.12  # of a cell that is left around a disc
LISTED = 8  # agents whose states are told in a text

# Digits of 3 x 5 pixels: the bits of each row from the top.
DIGITS = {
    "0": (7, 5, 5, 5, 7), "1": (2, 6, 2, 2, 7), "2": (7, 1, 7, 4, 7), "3": (7, 1, 7, 1, 7), "4": (5, 5, 7, 1, 1),
    "5": (7, 4, 7, 1, 7), "6": (7, 4, 7, 5, 7), "7": (7, 1, 1, 1, 1), "8": (7, 5, 7, 5, 7), "9": (7, 5, 7, 1, 7),
    "+": (0, 2, 7, 2, 0),
}  # fmt: skip


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
        scene, image = self.scene, self._ground.copy()
        barred = np.zeros(scene.rows * scene.columns, np.bool_)
        for area in scene.closed(moment):
            barred[list(scene.cells_in(area.shapes))] = True
        image[self._enlarge(barred) & self._hatch] = rgb(INK)
        for cell, names in moment.crowds.items():
            row, column = divmod(cell, scene.columns)
            top, left = row * self.cell, column * self.cell
            crowd = [(scene.numbers[name], scene.colors[name]) for name in names]
            paint_agents(image[top : top + self.cell, left : left + self.cell], crowd)
        return image

    @cached_property
    def _ground(self) -> Pixels:
        """The map without agents and gates."""
        scene = self.scene
        colors = np.tile(rgb(FLOOR), (scene.rows * scene.columns, 1))
        for cell, area in scene.ground.items():
            colors[cell] = rgb(area.color)
        colors[list(scene.walled)] = rgb(WALL)
        image = self._enlarge(colors)
        for edge in (image[self.cell - 1 :: self.cell], image[:, self.cell - 1 :: self.cell]):
            edge -= edge // 8  # cells are set apart by lines that are a little darker
        return image

    @cached_property
    def _hatch(self) -> Bits:
        rows, columns = np.indices(self._ground.shape[:2])
        return np.asarray((rows + columns) % HATCH < 2)

    def _enlarge(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Turn a row of cells into a map of pixels."""
        image = cells.reshape(self.scene.rows, self.scene.columns, *cells.shape[1:])
        return np.repeat(np.repeat(image, self.cell, axis=0), self.cell, axis=1)


def paint_agents(room: Pixels, crowd: Sequence[tuple[int, str]]) -> None:
    """Paint the numbers and colours of the agents in a cell: one as large as there is room, several side by side."""
    shown = [(str(number), color) for number, color in crowd[:SHOWN]]
    if len(crowd) > SHOWN:
        shown[-1] = ("+", INK)
    half = len(room) // (1 if len(shown) == 1 else 2)
    for index, (text, color) in enumerate(shown):
        top, left = (half * part for part in divmod(index, 2))
        paint_disc(room[top : top + half, left : left + half], text, color)


def paint_disc(room: Pixels, text: str, color: str) -> None:
    """Paint a disc with a number, if that is not too long to be read."""
    size = len(room)
    offsets = (np.arange(size) + 0.5) / size - 0.5
    room[np.hypot(*np.meshgrid(offsets, offsets)) < 0.5 - MARGIN / 2] = rgb(color)
    scale = size // (4 * max(2, len(text)))
    if scale >= 1:
        spots = np.repeat(np.repeat(letter_spots(text), scale, axis=0), scale, axis=1)
        top, left = (size - spots.shape[0]) // 2, (size - spots.shape[1]) // 2
        room[top : top + spots.shape[0], left : left + spots.shape[1]][spots] = rgb(WHITE)


def letter_spots(text: str) -> Bits:
    """Set digits side by side, a pixel apart."""
    rows = np.zeros((5, 4 * len(text) - 1), np.bool_)
    for index, digit in enumerate(text):
        rows[:, 4 * index : 4 * index + 3] = [[row >> bit & 1 for bit in (2, 1, 0)] for row in DIGITS[digit]]
    return rows


def rgb(color: str) -> NDArray[np.uint8]:
    """Read a colour like #ff8800."""
    return np.frombuffer(bytes.fromhex(color[1:]), np.uint8)
