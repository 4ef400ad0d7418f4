"""Gestures on the map: walls, floor, places, gates, the starts of agents, and the size of the map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from string import ascii_letters, digits
from typing import Any, NamedTuple

from hocket.errors import FormatError
from hocket.machine.names import check_name
from hocket.studio.gestures.draft import Draft, NewName, inline, long_text, put
from hocket.task.grid import CORNER, FLOOR, MOST_CELLS, WALL

Cell = tuple[int, int]  # row and column
CORNERS = ("lower right", "upper left", "upper right", "lower left")


class MapText(NamedTuple):
    """The letters of a map, and the file with their legend."""

    draft: Draft
    rows: list[list[str]]
    frame: list[str]  # the lines of a map with thin walls; empty otherwise

    @classmethod
    def of(cls, draft: Draft) -> MapText:
        if "map" not in draft:
            raise FormatError("there is no map in this text")
        lines = str(draft["map"]).strip("\n").split("\n")
        if lines[0].startswith(CORNER):
            return cls(draft, [list(line[1::2]) for line in lines[1::2]], lines)
        return cls(draft, [list(line) for line in lines], [])

    def write(self) -> None:
        """Write the letters into the file; no letter of the legend may have lost its last cell."""
        for letter in self.draft.get("legend", {}):
            if not any(letter in row for row in self.rows):
                raise FormatError(f"this would take the last cell of {' and '.join(self.names(letter))}")
        rows = self.rows
        if self.frame:
            if (2 * len(rows) + 1, 2 * len(rows[0]) + 1) != (len(self.frame), len(self.frame[0])):
                raise FormatError("a map with thin walls is made larger or smaller in its text")
            rows = [[*line] for line in self.frame]
            for line, row in zip(rows[1::2], self.rows, strict=True):
                line[1::2] = row
        text = "".join("".join(row) + "\n" for row in rows)
        if text != str(self.draft["map"]):
            self.draft["map"] = long_text(text, self.draft["map"])

    def names(self, letter: str) -> list[str]:
        """List the places that the legend has for a letter."""
        names = self.draft.get("legend", {}).get(letter, [])
        return [str(names)] if isinstance(names, str) else [str(name) for name in names]

    def new_letter(self, place: str) -> str:
        """Choose a letter that is not in use, if possible one of a place's name."""
        used = {WALL, FLOOR, *self.draft.get("legend", {}), *(letter for row in self.rows for letter in row)}
        letters = "".join(letter for letter in place if letter.isascii() and letter.isalnum())
        for letter in letters + letters.swapcase() + ascii_letters + digits:
            if letter not in used:
                return letter
        raise FormatError("all letters are in use; give the place by coordinates, under [places]")

    def starters(self, letter: str) -> list[str]:
        """List the agents that start at a letter."""
        rows = self.draft.get("agents", {})
        return [name for name, row in rows.items() if row.get("start") == letter]

    def clear(self, cell: Cell, letter: str) -> None:
        """Replace the letter of a cell; agents that start there keep their start."""
        row, column = cell
        before = self.rows[row][column]
        for name in self.starters(before) if before != letter else ():
            if letter == WALL:
                raise FormatError(f"{name} starts there; move its start first")
            self.draft.agent(name)["start"] = [row, column]
        self.rows[row][column] = letter


def _checked(cells: object, board: MapText) -> Iterator[Cell]:
    if not isinstance(cells, list) or len(cells) > MOST_CELLS:
        raise FormatError(f"must be a list of cells, got {cells!r:.60}", where="cells")
    for cell in cells:
        if not (isinstance(cell, list) and len(cell) == 2 and all(type(number) is int for number in cell)):
            raise FormatError(f"must be [row, column], got {cell!r:.60}", where="cells")
        row, column = cell
        if not (0 <= row < len(board.rows) and 0 <= column < len(board.rows[row])):
            raise FormatError(f"must lie on the map, got {cell!r:.60}", where="cells")
        yield row, column


def paint(draft: Draft, brush: str, cells: object, place: str = "") -> None:
    """Paint cells as walls, as floor, or as a place, possibly a new one."""
    board = MapText.of(draft)
    painted = list(_checked(cells, board))
    if brush == "place":
        _paint_place(board, check_name(place, "a place").strip(), painted)
    elif brush in ("wall", "floor"):
        for cell in painted:
            board.clear(cell, WALL if brush == "wall" else FLOOR)
            for coordinates in draft.get("places", {}).values():  # each place keeps its last cell
                if list(cell) in coordinates and len(coordinates) > 1:
                    del coordinates[coordinates.index(list(cell))]
    else:
        raise FormatError(f"a brush paints a wall, floor or a place, got {brush!r:.60}")
    board.write()


def _paint_place(board: MapText, place: str, cells: list[Cell]) -> None:
    draft = board.draft
    letter = next((letter for letter in draft.get("legend", {}) if board.names(letter) == [place]), None)
    places = draft.get("places", {})
    if letter is None and place in places:
        if places[place] and not isinstance(places[place][0], list):
            places[place] = [[*places[place]]]  # a list of cells instead of one cell
        for row, column in cells:
            if board.rows[row][column] == WALL:
                board.rows[row][column] = FLOOR
            if [row, column] not in places[place]:
                places[place].append([row, column])
        return
    if letter is None:
        letter = board.new_letter(place)
        put(draft.table("legend"), letter, place)
    for cell in cells:
        board.clear(cell, letter)


def start(draft: Draft, agent: str, cells: object) -> None:
    """Move the start of an agent: its letter if it is the only one, to a cell of floor; else give coordinates."""
    board, settings = MapText.of(draft), draft.agent(agent)
    cell = next(_checked(cells, board), None)
    if cell is None:
        raise FormatError(f"{agent} needs a cell to start in")
    row, column = cell
    if board.rows[row][column] == WALL:
        raise FormatError(f"{agent} cannot start in a wall")
    letter: Any = settings.get("start")
    lines = [line for line in board.rows for other in line if other == letter]  # one for each cell with the letter
    is_only = len(lines) == 1 and board.starters(letter) == [agent]
    is_moved = is_only and board.rows[row][column] == FLOOR
    if is_moved or (is_only and not board.names(letter)):
        lines[0][lines[0].index(letter)] = FLOOR
    if is_moved:
        board.rows[row][column] = str(letter)
    else:
        settings["start"] = [row, column]
    board.write()


def gate(draft: Draft, place: NewName, agent: str, open: str = "", close: str = "", cells: object = None) -> None:
    """Set or remove the gate of a place for an agent; `cells`, if there are any, become the place."""
    if cells:
        board = MapText.of(draft)
        _paint_place(board, place, list(_checked(cells, board)))
        board.write()
    gates = draft.table("gates")
    events = {key: event for key, event in (("open", open), ("close", close)) if event}
    if events:
        draft.agent(agent)  # an error says why it cannot be edited
        row = gates.get(place)
        if row is None:
            put(gates, place, inline({agent: _gate(None, events)}))
        else:
            put(row, agent, _gate(row.get(agent), events))
        for event in events.values():
            draft.add_known(agent, event)
    elif place in gates:
        gates[place].pop(agent, None)
        if not gates[place]:
            del gates[place]  # the table stays, with comments after it


def _gate(before: Any, events: Mapping[str, str]) -> Any:  # noqa: ANN401
    """Write a gate; in an existing one, only the events that differ."""
    if isinstance(before, MutableMapping):
        for key in ("open", "close"):
            listed = before.get(key, [])
            if key not in events:
                before.pop(key, None)
            elif events[key] not in (listed if isinstance(listed, list) else [listed]):
                put(before, key, events[key])
        return before
    return events["open"] if {*events} == {"open"} else inline(events)


def resize(draft: Draft, rows: int, columns: int, corner: str = CORNERS[0]) -> None:
    """Change the numbers of rows and columns; the map grows or shrinks at a corner, and all else stays in place."""
    if rows * columns > MOST_CELLS:
        raise FormatError(f"a map has at most {MOST_CELLS:,} cells, got {rows} x {columns}")
    if corner not in CORNERS:
        raise FormatError(f"a map grows at its {' or '.join(CORNERS)}, got {corner!r:.60}")
    board = MapText.of(draft)
    before = board.rows
    above = rows - len(before) if corner.startswith("upper") else 0
    left = columns - len(before[0]) if corner.endswith("left") else 0
    for pair in _coordinates(draft):
        for index, by in enumerate((above, left)):
            if by:
                pair[index] = int(pair[index]) + by

    def letter(row: int, column: int) -> str:
        is_old = 0 <= row - above < len(before) and 0 <= column - left < len(before[0])
        return before[row - above][column - left] if is_old else FLOOR

    MapText(draft, [[letter(row, column) for column in range(columns)] for row in range(rows)], board.frame).write()


def _coordinates(draft: Draft) -> list[list[int]]:
    """List all coordinates in the file."""
    given = (*(row.get("start") for row in draft.get("agents", {}).values()), *draft.get("places", {}).values())
    lists = [cells for cells in given if isinstance(cells, list)]
    return [pair for cells in lists for pair in (cells if cells and isinstance(cells[0], list) else [cells])]
