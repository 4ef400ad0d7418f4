"""A task's map as text, two characters a cell: coloured on a terminal, and readable without colours in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rich.text import Text

from hocket.draw.palette import (
    AGENT_COLORS,
    DOT,
    FLOOR,
    INK,
    UNLETTERED,
    WALL,
    WHITE,
    choose_colors,
    choose_letters,
)
from hocket.task.gates import closed_cells
from hocket.task.grid import Grid
from hocket.task.task import Task

CELL = 2  # characters, which makes a cell about square
CLOSED, SUBSCRIPTS, START = "×", "₀₁₂₃₄₅₆₇₈₉", "°"  # a start is marked by its agent's number, if that has one digit
LISTED = 6  # names in a list before "…"
MOST_ENTRIES, LONGEST_ENTRY = 60, 60  # places in a legend, and characters that an entry has


class Window(NamedTuple):
    """The part of a map that is drawn."""

    top: int
    left: int
    rows: int
    columns: int

    def is_whole(self, grid: Grid) -> bool:
        """Say whether nothing of the map is left out."""
        return (self.rows, self.columns) == (grid.rows, grid.columns)

    def __str__(self) -> str:
        rows, columns = f"{self.top}–{self.top + self.rows - 1}", f"{self.left}–{self.left + self.columns - 1}"
        return f"rows {rows}, columns {columns} of the map"


class View(NamedTuple):
    """What has become of a team: where the agents are, in which states, and whom the onlooker is."""

    cells: Mapping[str, int]
    states: Mapping[str, str] | None = None  # None: nothing has happened yet, so all gates are closed
    driven: str | None = None  # None: someone who watches all of them


def start_view(task: Task) -> View:
    """View a team before its first step."""
    return View({name: agent.start for name, agent in task.agents.items()})


def clip(grid: Grid, center: int, rows: int, columns: int) -> Window:
    """Choose the part of a map around a cell that has at most so many rows and columns."""
    row, column = grid.row_column(center)
    rows, columns = max(1, min(rows, grid.rows)), max(1, min(columns, grid.columns))
    top = min(max(row - rows // 2, 0), grid.rows - rows)
    left = min(max(column - columns // 2, 0), grid.columns - columns)
    return Window(top, left, rows, columns)


@dataclass(frozen=True)
class TaskMap:
    """Draws a task's map: places by letters and colours, agents by numbers, gates that are closed by a cross.

    >>> from hocket.task.catalogue import load_task
    >>> task = load_task("buttons")
    >>> print("\\n".join(line.plain for line in TaskMap(task).draw(start_view(task))[:4]))
    1 · Y ##· 2 · ##3 ·
    · · · ##· · · ##· ·
    · · · ##y×y×y×##g×g×
    · · · ##y×y×y×##g×g×
    """

    task: Task

    def draw(self, view: View, window: Window | None = None) -> list[Text]:
        """Draw the map or a part of it, a line for each row."""
        grid = self.task.grid
        window = window or Window(0, 0, grid.rows, grid.columns)
        here: dict[int, list[str]] = {}
        for agent, cell in view.cells.items():
            here.setdefault(cell, []).append(agent)
        barred = frozenset().union(*(grid.places[region] for region in self.closed(view)))
        lines = []
        for row in range(window.top, window.top + window.rows):
            line = Text(no_wrap=True)
            for cell in range(grid.cell(row, window.left), grid.cell(row, window.left) + window.columns):
                line.append(*self._cell(cell, here.get(cell), cell in barred, view.driven))
            lines.append(line)
        return lines

    def legend(self, view: View, width: int, *, agents: bool = True) -> list[Text]:
        """Say what the letters and numbers stand for, in lines of at most `width` characters."""
        return pack([*(self._agent_entries(view) if agents else ()), *self._place_entries(view)], width)

    def closed(self, view: View) -> dict[str, list[str]]:
        """Find the regions that are closed, to the driven agent or else to anyone, and to whom."""
        watched = list(self.task.agents) if view.driven is None else [view.driven]
        found: dict[str, list[str]] = {}
        for agent in watched:
            for region in self.task.agents[agent].gates:
                if view.states is None or self._is_closed(agent, view.states[agent], region):
                    found.setdefault(region, []).append(agent)
        return found

    def tag(self, agent: str, driven: str | None = None, crowd: int = 1) -> tuple[str, str]:
        """Make the two characters and the style that stand for an agent, with others in its cell or without."""
        number = self.numbers[agent]
        mark = "@" if agent == driven else f"{number}" if number < 100 else f"{number % 100:02}"
        if crowd > 1:
            mark = f"{mark if len(mark) == 1 else '+'}+"
        elif agent == driven:
            mark += str(number) if number < 10 else "@"
        return f"{mark:<2}", f"bold {WHITE} on {AGENT_COLORS[(number - 1) % len(AGENT_COLORS)]}"

    @cached_property
    def letters(self) -> Mapping[str, str]:
        """A letter for each place."""
        return choose_letters(self.task.grid)

    @cached_property
    def colors(self) -> Mapping[str, str]:
        """A background for each place."""
        return choose_colors(self.task.grid)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """A number for each agent, from 1."""
        return {name: number for number, name in enumerate(self.task.agents, start=1)}

    @cached_property
    def ground(self) -> Mapping[int, str]:
        """The place that is drawn in a cell: of several the smallest."""
        by_size = sorted(self.task.grid.places.items(), key=lambda item: -len(item[1]))
        return {cell: name for name, cells in by_size for cell in cells}

    @cached_property
    def _starts(self) -> Mapping[int, str]:
        """The mark of the first agent that starts in a cell."""
        first: dict[int, int] = {}
        for name, number in self.numbers.items():
            first.setdefault(self.task.agents[name].start, number)
        return {cell: SUBSCRIPTS[number] if number < 10 else START for cell, number in first.items()}

    @cached_property
    def _closed_cells(self) -> Mapping[str, Sequence[frozenset[int]]]:
        return {name: closed_cells(self.task, name) for name, agent in self.task.agents.items() if agent.gates}

    def _is_closed(self, agent: str, state: str, region: str) -> bool:
        own = self.task.machines[agent].states.index(state)
        return self.task.grid.places[region] <= self._closed_cells[agent][own]

    def _cell(self, cell: int, here: list[str] | None, is_barred: bool, driven: str | None) -> tuple[str, str]:
        """Choose the characters of a cell and their style."""
        if here:
            return self.tag(driven if driven in here else here[0], driven, len(here))
        if cell in self.task.grid.walls:
            return "##", f"{WALL} on {WALL}"
        mark = CLOSED if is_barred else self._starts.get(cell, " ")
        if cell in self.ground:
            place = self.ground[cell]
            return self.letters[place] + mark, f"bold {INK} on {self.colors[place]}"
        return f"·{mark}", f"{DOT if mark == ' ' else INK} on {FLOOR}"

    def _agent_entries(self, view: View) -> Iterator[Text]:
        for agent in list(self.task.agents)[:LISTED]:
            yield Text.assemble(self.tag(agent, view.driven), f" {agent}")
        if len(self.task.agents) > LISTED:
            yield Text(f"… {len(self.task.agents):,} agents", "dim")

    def _place_entries(self, view: View) -> Iterator[Text]:
        closed = self.closed(view)
        named = [name for name, letter in self.letters.items() if letter != UNLETTERED][:MOST_ENTRIES]
        for name in named:
            entry = Text.assemble((f"{self.letters[name]} ", f"bold {INK} on {self.colors[name]}"), f" {name}")
            if name in closed:
                entry.append(f" {CLOSED} {listed(closed[name])}", "dim")
            yield entry
        if len(named) < len(self.letters):
            yield Text(f"… {len(self.letters):,} places", "dim")
        if closed:
            yield Text(f"{CLOSED}  closed to", "dim")
        if not self._starts.keys() <= set(view.cells.values()):
            yield Text(f"{SUBSCRIPTS[1]}  start of 1", "dim")


def pack(entries: Iterable[Text], width: int, gap: int = 3) -> list[Text]:
    """Set entries side by side in as few lines as it takes."""
    lines: list[Text] = []
    for entry in entries:
        entry.truncate(max(1, min(width, LONGEST_ENTRY)), overflow="ellipsis")
        if lines and lines[-1].cell_len + gap + entry.cell_len <= width:
            lines[-1].append(" " * gap).append_text(entry)
        else:
            lines.append(Text(no_wrap=True).append_text(entry))
    return lines


def listed(names: Sequence[str]) -> str:
    """List a few names."""
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more:,} more" if more > 0 else "")
