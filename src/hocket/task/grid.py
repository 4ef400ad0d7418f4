"""Grid worlds: cells, numbered row by row from the top left, walls, named places, and where a move leads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError, require_known
from hocket.lazy import explain_kinds
from hocket.machine.names import check_name
from hocket.random import Bits

Numbers = NDArray[np.signedinteger[Any]]  # of 16 or 32 bits, as short as they can be

ACTIONS = ("up", "right", "down", "left", "stay")
STAY = 4
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))  # (rows, columns) of each action
OUTCOMES = 3  # of an action: as intended, slipped a quarter turn to the right, slipped a quarter turn to the left

WALL, FLOOR, CORNER = "#", ".", "+"  # on a map; a corner of cells is drawn where there are thin walls
MOST_CELLS = 1_000_000


class Picklable:
    """A dataclass that is pickled by its fields, with dictionaries instead of their views, which cannot be pickled."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __reduce__(self) -> tuple[object, ...]:
        def to_dict(value: object) -> object:
            return {key: to_dict(entry) for key, entry in value.items()} if isinstance(value, Mapping) else value

        return type(self), tuple(to_dict(getattr(self, field.name)) for field in fields(self))


@explain_kinds
@dataclass(frozen=True)
class Grid(Picklable):
    """A rectangular world: walls, and places that are named sets of cells (a region is a place of several)."""

    rows: int
    columns: int
    walls: frozenset[int] = frozenset()
    places: Mapping[str, frozenset[int]] = field(default_factory=dict)
    letters: Mapping[str, str] = field(default_factory=dict, compare=False)  # place -> its letter on the map of a file
    thin: frozenset[tuple[int, int]] = frozenset()  # pairs of cells with a thin wall between them, the lower one first
    torus: bool = False  # whether the map wraps around at its edges

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1 or self.cells > MOST_CELLS:
            size = f"{self.rows} x {self.columns}"
            raise TaskError(f"a map must have between 1 and {MOST_CELLS:,} cells, got {size}", key="map")
        object.__setattr__(self, "walls", frozenset(self.walls))
        places = {name: frozenset(cells) for name, cells in self.places.items()}
        object.__setattr__(self, "places", MappingProxyType(places))
        object.__setattr__(self, "letters", MappingProxyType(dict(self.letters)))
        for name, letter in self.letters.items():
            if name not in self.places or len(letter) != 1 or letter in (WALL, FLOOR, "\n"):
                raise TaskError("a place has a single letter other than '#' and '.'", key=f"letters.{name}")
        object.__setattr__(self, "thin", frozenset((min(pair), max(pair)) for pair in self.thin))
        for pair in self.thin:
            if pair[1] not in {self.beside(pair[0], action) for action in range(STAY)} - {pair[0]}:
                raise TaskError(f"a thin wall stands between two cells side by side, got {pair}", key="map")
        if any(not 0 <= wall < self.cells for wall in self.walls):
            raise TaskError(f"walls must lie on the map of {self.rows} rows and {self.columns} columns", key="map")
        for name, cells in self.places.items():
            check_name(name, "a place")
            if not cells:
                raise TaskError("a place must have at least one cell", key=f"places.{name}")
            for cell in cells:
                self.check_cell(cell, f"places.{name}")

    @property
    def cells(self) -> int:
        return self.rows * self.columns

    @cached_property
    def floor(self) -> NDArray[np.bool_]:
        """Which cells are not walls."""
        flags = np.ones(self.cells, np.bool_)
        flags[list(self.walls)] = False
        return flags

    @cached_property
    def floor_cells(self) -> NDArray[np.intp]:
        """The cells that are not walls, in order."""
        return np.flatnonzero(self.floor)

    def cell(self, row: int, column: int) -> int:
        """Number a cell."""
        return row * self.columns + column

    def row_column(self, cell: int) -> tuple[int, int]:
        """Find a cell's row and column."""
        return divmod(cell, self.columns)

    def check_cell(self, cell: int, key: str) -> None:
        """Require a cell that lies on the map and is not a wall."""
        if not 0 <= cell < self.cells:
            raise TaskError(f"must lie on the map of {self.rows} rows and {self.columns} columns", key=key)
        if cell in self.walls:
            raise TaskError(f"must not be a wall, got {self.row_column(cell)}", key=key)

    def place(self, name: str, key: str) -> frozenset[int]:
        """Find the cells of a place."""
        require_known(name, self.places, "place", partial(TaskError, key=key))
        return self.places[name]

    def neighbor(self, cell: int, action: int, closed: Collection[int] = ()) -> int:
        """Find where an action leads if it succeeds: a move off the map, into a wall or a closed cell goes nowhere."""
        target = self.beside(cell, action)
        blocked = target in self.walls or target in closed or (min(cell, target), max(cell, target)) in self.thin
        return cell if blocked else target

    def beside(self, cell: int, action: int) -> int:
        """Find the cell in a direction, or the same cell at an edge of the map."""
        return int(self._targets[cell, action])

    @cached_property
    def _targets(self) -> NDArray[np.int32]:
        """The cell in the direction of each action, or the same cell at an edge of the map: [cells, actions]."""
        here = np.arange(self.cells, dtype=np.int32)[:, None]
        down, right = np.array(STEPS, np.int32).T
        row, column = here // self.columns + down, here % self.columns + right
        inside = (row >= 0) & (row < self.rows) & (column >= 0) & (column < self.columns)
        return np.where(inside | self.torus, row % self.rows * self.columns + column % self.columns, here)

    def outcomes(self, closed: Iterable[int] = ()) -> Numbers:
        """Tabulate where each action leads from each cell, for each of its outcomes: [cells, actions, outcomes]."""
        here, target = np.arange(self.cells)[:, None], self._targets
        barred = ~self.floor
        barred[list(closed)] = True
        blocked = barred[target]
        if self.thin:
            thin = np.array([low * self.cells + high for low, high in self.thin], np.int64)
            blocked |= np.isin(np.minimum(here, target) * self.cells + np.maximum(here, target), thin)
        blocked[:, STAY] = True  # also in a cell whose gate has closed
        moved = np.where(blocked, here, target).astype(shortest(self.cells))
        return np.stack([moved[:, slipped_actions(outcome)] for outcome in range(OUTCOMES)], axis=2)


def shortest(numbers: int) -> type[np.signedinteger[Any]]:
    """Choose the shorter of two integer types for numbers below a limit, and -1; in most tasks 16 bits suffice."""
    return np.int16 if numbers <= np.iinfo(np.int16).max else np.int32


def slipped_actions(outcome: int) -> list[int]:
    """List which action each action turns into under an outcome; staying never slips."""
    return [(action + (0, 1, 3)[outcome]) % 4 if action != STAY else STAY for action in range(len(ACTIONS))]


def slip_outcome(drawn: Bits, limit: int) -> Bits:
    """Choose the outcome of an action by a random number, or of many, and the threshold below which an agent slips.

    >>> [slip_outcome(drawn, limit=4) for drawn in (0, 1, 2, 3, 4)]
    [2, 2, 1, 1, 0]
    """
    return 0 + (drawn < limit) + (drawn < limit // 2)


def outcome_probabilities(slip: float) -> tuple[float, float, float]:
    """Return the probability of each outcome of a move, given the probability that it slips."""
    return 1 - slip, slip / 2, slip / 2


def read_map(
    text: str, legend: Mapping[str, Sequence[str]], starts: Collection[str] = (), *, torus: bool = False
) -> tuple[Grid, dict[str, list[int]]]:
    """Read an ASCII map, and list the cells of each letter: `#` is a wall, `.` floor, others are explained by a legend.

    A letter may have several names; letters in `starts` need none. A map that begins with `+` has thin walls.
    """
    lines = text.strip("\n").split("\n")
    thin: frozenset[tuple[int, int]] = frozenset()
    if lines[0].startswith(CORNER):
        lines, thin = _read_thin(lines, torus)
    columns, cells_of = len(lines[0]), dict[str, list[int]]()
    for number, line in enumerate(lines, start=1):
        if len(line) != columns:
            short = f"line {number} has {len(line)} letters, the first has {columns}"
            raise TaskError(f"all lines must have the same length: {short}", key="map")
    for cell, letter in enumerate("".join(lines)):
        if letter != FLOOR:
            cells_of.setdefault(letter, []).append(cell)
    walls = frozenset(cells_of.pop(WALL, ()))
    for letter, cells in cells_of.items():
        if letter not in legend and letter not in starts:
            row, column = divmod(cells[0], columns)
            hint = "the legend must name it, or an agent start there"
            hint = "write '.' for floor, and nothing between letters" if letter.isspace() else hint
            raise TaskError(f"letter {letter!r} (row {row}, column {column}) has no meaning: {hint}", key="map")
    places, letters = dict[str, frozenset[int]](), dict[str, str]()
    for letter, names in legend.items():
        if len(letter) != 1 or letter in (WALL, FLOOR):
            raise TaskError("a legend explains single letters other than '#' and '.'", key=f"legend.{letter}")
        if letter not in cells_of:
            raise TaskError(f"letter {letter!r} is not on the map", key=f"legend.{letter}")
        for name in names:
            places[name] = places.get(name, frozenset()).union(cells_of[letter])
            letters[name] = min(letters.get(name, letter), letter, key=lambda letter: len(legend[letter]))
    return Grid(len(lines), columns, walls, places, letters, thin, torus), cells_of


def _read_thin(lines: Sequence[str], torus: bool = False) -> tuple[list[str], frozenset[tuple[int, int]]]:
    """Split a map with thin walls into its cells, line by line, and the pairs of cells with a wall between them.

    Every other line and column lies between cells: `|` or `-` is a thin wall there, a blank is none.

    >>> _read_thin(["+-+-+", "|.|.|", "+ +-+", "|. .|", "+-+-+"])[1] == {(0, 1), (1, 3)}
    True
    """
    if len(lines) % 2 == 0 or any(len(line) != len(lines[0]) or len(line) % 2 == 0 for line in lines):
        raise TaskError("a map with thin walls has an odd number of lines, all of the same odd length", key="map")
    rows, columns = len(lines) // 2, len(lines[0]) // 2
    for row, line in enumerate(lines[::2]):
        for column, mark in enumerate(line[::2]):
            if mark != CORNER:
                where = f"line {2 * row + 1}, column {2 * column + 1} of the map"
                raise TaskError(f"at corners of cells stands {CORNER!r}, got {mark!r} in {where}", key="map")
    empty = Grid(rows, columns, torus=torus)
    drawn: dict[str, set[tuple[int, int]]] = {" ": set(), "-": set(), "|": set()}
    for cell in range(rows * columns):
        row, column = divmod(cell, columns)
        for action, (down, right) in enumerate(STEPS[:STAY]):
            mark, wall = lines[2 * row + 1 + down][2 * column + 1 + right], "-" if down else "|"
            if mark not in (wall, " "):
                where = f"row {row}, column {column}"
                raise TaskError(f"between cells stands {wall!r} or a blank, got {mark!r} beside {where}", key="map")
            if (other := empty.beside(cell, action)) != cell:
                drawn[mark].add((min(cell, other), max(cell, other)))
    thin = frozenset(drawn["-"] | drawn["|"])
    if 2 in (rows, columns) and thin & drawn[" "]:
        raise TaskError("on a torus two cells high or wide, walls stand on both sides of a cell or on none", key="map")
    return [line[1::2] for line in lines[1::2]], thin


def write_thin(grid: Grid, lines: Sequence[str]) -> list[str]:
    """Draw a map with its thin walls, given the letters of its cells line by line."""
    drawn = [[" "] * (2 * grid.columns + 1) for _ in range(2 * grid.rows + 1)]
    for cell in range(grid.cells):
        row, column = grid.row_column(cell)
        down, right = 2 * row + 1, 2 * column + 1
        drawn[down][right] = lines[row][column]
        for action, (rows, columns) in enumerate(STEPS[:STAY]):
            other = grid.beside(cell, action)
            if (other == cell and not grid.torus) or (min(cell, other), max(cell, other)) in grid.thin:
                drawn[down + rows][right + columns] = "-" if rows else "|"
    for line in drawn[::2]:
        line[::2] = CORNER * (grid.columns + 1)
    return ["".join(line) for line in drawn]
