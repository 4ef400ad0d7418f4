"""A map of cells as text, two characters a cell: coloured on a terminal, and readable without colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rich.text import Text

from hocket.draw.palette import DOT, FLOOR, INK, WALL, WHITE
from hocket.draw.scene import Moment, Scene, listed

CELL = 2  # characters, which makes a cell about square
CLOSED, SUBSCRIPTS, START = "×", "₀₁₂₃₄₅₆₇₈₉", "°"  # a start has its agent's number, if that has one digit
FENCE = "│"  # a thin wall at the right of a cell
UNTAGGED = "•"  # an area without a name
SHOWN_AGENTS = 6  # in a legend
MOST_ENTRIES, LONGEST_ENTRY = 60, 60  # areas in a legend, and characters that an entry has


class Window(NamedTuple):
    """The part of a map that is drawn."""

    top: int
    left: int
    rows: int
    columns: int

    def is_whole(self, scene: Scene) -> bool:
        """Tell whether all of the map is drawn."""
        return (self.rows, self.columns) == (scene.rows, scene.columns)

    def __str__(self) -> str:
        rows, columns = f"{self.top}–{self.top + self.rows - 1}", f"{self.left}–{self.left + self.columns - 1}"
        return f"rows {rows}, columns {columns} of the map"


def clip(scene: Scene, center: int, rows: int, columns: int) -> Window:
    """Choose the part of a map around a cell with at most so many rows and columns."""
    row, column = divmod(center, scene.columns)
    rows, columns = max(1, min(rows, scene.rows)), max(1, min(columns, scene.columns))
    top = min(max(row - rows // 2, 0), scene.rows - rows)
    left = min(max(column - columns // 2, 0), scene.columns - columns)
    return Window(top, left, rows, columns)


@dataclass(frozen=True)
class TextMap:
    """Draws moments on the map of a scene: areas by tags and colours, agents by numbers, closed cells by crosses.

    >>> from hocket.draw.task_scene import scene_of
    >>> from hocket.task.catalogue import load_task
    >>> scene = scene_of(load_task("buttons"))
    >>> print("\\n".join(line.plain for line in TextMap(scene).draw(scene.opening)[:4]))
    1 · Y ##· 2 · ##3 ·
    · · · ##· · · ##· ·
    · · · ##y×y×y×##n×n×
    · · · ##y×y×y×##n×n×
    """

    scene: Scene

    def draw(self, moment: Moment, window: Window | None = None) -> list[Text]:
        """Draw the map or a part of it, a line for each row."""
        scene, crowds = self.scene, moment.crowds
        window = window or Window(0, 0, scene.rows, scene.columns)
        barred = frozenset().union(*(scene.cells_in(area.shapes) for area in scene.closed(moment)))
        lines = []
        for row in range(window.top, window.top + window.rows):
            line = Text(no_wrap=True)
            first = row * scene.columns + window.left
            for cell in range(first, first + window.columns):
                if here := crowds.get(cell):
                    shown = moment.driven if moment.driven in here else here[0]
                    line.append(*self.agent(shown, moment.driven, len(here)))
                else:
                    line.append(*self._cell(cell, cell in barred))
            lines.append(line)
            below = [cell in self._thin[1] for cell in range(first, first + window.columns)]
            if any(below) and row + 1 < window.top + window.rows:
                lines.append(Text("".join("──" if wall else "  " for wall in below), WALL, no_wrap=True))
        return lines

    def legend(self, moment: Moment, width: int, *, agents: bool = True) -> list[Text]:
        """Explain tags and numbers, in lines of at most `width` characters."""
        scene, closed, entries = self.scene, self.scene.closed(moment), list[Text]()
        if agents:
            names = scene.agents[:SHOWN_AGENTS]
            entries += [Text.assemble(self.agent(name, moment.driven), f" {name}") for name in names]
        if agents and len(scene.agents) > SHOWN_AGENTS:
            entries.append(Text(f"… {len(scene.agents):,} agents", "dim"))
        named = [area for area in scene.areas if area.tag][:MOST_ENTRIES]
        for area in named:
            entries.append(Text.assemble((f"{area.tag:<2}", f"bold {INK} on {area.color}"), f" {area.name}"))
            if area in closed:
                entries[-1].append(f" {CLOSED} {listed(closed[area])}", "dim")
        if len(named) < len(scene.areas):
            entries.append(Text(f"… {len(scene.areas):,} places", "dim"))
        if closed:
            entries.append(Text(f"{CLOSED}  closed to", "dim"))
        if not self._starts.keys() <= set(moment.cells.values()):
            entries.append(Text(f"{SUBSCRIPTS[1]}  start of 1", "dim"))
        return pack(entries, width)

    def agent(self, name: str, driven: str | None = None, crowd: int = 1) -> tuple[str, str]:
        """Return the two characters and the style of an agent in a cell with `crowd` agents."""
        number = self.scene.numbers[name]
        text = "@" if name == driven else f"{number}" if number < 100 else f"{number % 100:02}"
        if crowd > 1:
            text = f"{text if len(text) == 1 else '+'}+"
        elif name == driven:
            text += str(number) if number < 10 else "@"
        return f"{text:<2}", f"bold {WHITE} on {self.scene.colors[name]}"

    @cached_property
    def _starts(self) -> Mapping[int, str]:
        """The character of the first agent that starts in a cell."""
        first: dict[int, int] = {}
        for name, cell in self.scene.opening.cells.items():
            for start in (cell, *self.scene.regions.get(name, ())):
                first.setdefault(start, self.scene.numbers[name])
        return {cell: SUBSCRIPTS[number] if number < 10 else START for cell, number in first.items()}

    @cached_property
    def _thin(self) -> tuple[frozenset[int], frozenset[int]]:
        """The cells with a thin wall at their right, and those with one below them."""
        scene, upright, level = self.scene, set(), set()
        for wall in scene.walls:
            if wall.width < 0.5 < wall.height and wall.left > 0:
                upright.add(round(wall.top) * scene.columns + round(wall.left) - 1)
            if wall.height < 0.5 < wall.width and wall.top > 0:
                level.add((round(wall.top) - 1) * scene.columns + round(wall.left))
        return frozenset(upright), frozenset(level)

    def _cell(self, cell: int, is_barred: bool) -> tuple[str, str]:
        if cell in self.scene.walled:
            return "##", f"{WALL} on {WALL}"
        second = CLOSED if is_barred else self._starts.get(cell, FENCE if cell in self._thin[0] else " ")
        if (area := self.scene.ground.get(cell)) is None:
            return f"·{second}", f"{DOT if second == ' ' else INK} on {FLOOR}"
        tag = area.tag or UNTAGGED  # shortened to its first letter if a second character is needed
        text = tag[0] + second if second == CLOSED or len(tag) == 1 else tag if len(tag) == CELL else f"{tag[0]}…"
        return text, f"bold {INK} on {area.color}"


def pack(entries: Iterable[Text], width: int, gap: int = 3) -> list[Text]:
    """Put entries side by side in as few lines as possible."""
    lines: list[Text] = []
    for entry in entries:
        entry.truncate(max(1, min(width, LONGEST_ENTRY)), overflow="ellipsis")
        if lines and lines[-1].cell_len + gap + entry.cell_len <= width:
            lines[-1].append(" " * gap).append_text(entry)
        else:
            lines.append(Text(no_wrap=True).append_text(entry))
    return lines
