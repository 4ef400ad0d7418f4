"""Models of maps that agents have learnt: how often each move was tried, with which outcomes.

A *move* is an action in a cell, together with which of its ends are barred: the cell ahead, and those to which it may
slip. It does not depend on the machine or the agent. So counts of all agents, runs and tasks on a map add up, and any
other task on it can be planned with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.errors import FormatError, SettingsError
from hocket.files import listed
from hocket.lazy import show_in_notebook
from hocket.learn.archives import open_archive, pack_arrays, read_about, read_array, write_archive
from hocket.learn.kernels.arrays import Bools, Ints, Words
from hocket.learn.learner import Block
from hocket.task.catalogue import as_task
from hocket.task.grid import ACTIONS, MOST_CELLS, OUTCOMES, Numbers, slipped_actions
from hocket.task.settling import describe_cell
from hocket.task.task import Task

FORMAT = "hocket world 1"
BARRED = 1 << OUTCOMES  # subsets of the ends of a move that may be barred
MOST_TRIES = 2**53  # of an outcome


def distinct(numbers: Ints) -> Ints:
    """List the different numbers, in order. `np.unique` takes a hundred times as long for the millions of pairs of a
    large map.

    >>> distinct(np.array([[3, 1], [1, 2]])).tolist()
    [1, 2, 3]
    """
    ordered = np.sort(numbers, axis=None, kind="stable")  # which is fast where numbers are in order already
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def cells_before(end: Numbers) -> tuple[Words, Words]:
    """List for each cell those from which an action may lead to it, with any gates open: where each cell's list begins,
    [S + 1], and all lists. `end` is where actions lead without slips, [D, S, A]; with a slip, another action's end.

    >>> cells_before(np.array([[[1, 0], [2, 1], [2, 2]]], np.int32))  # three cells in a row: go right, or stay
    (array([0, 1, 3, 5], dtype=int32), array([0, 0, 1, 1, 2], dtype=int32))
    """
    cells = end.shape[1]
    pairs = distinct(end * np.int64(cells) + np.arange(cells)[:, None])
    first = np.searchsorted(pairs, np.arange(cells + 1) * cells)
    return first.astype(np.int32), (pairs % cells).astype(np.int32)


def number_moves(next_cell: Numbers) -> tuple[Words, Words]:
    """Number the moves of actions in cells, [D, S, A], the same in all dynamics unless gates change them; also
    return where each leads: [moves, K]."""
    dynamics, cells, actions, outcomes = next_cell.shape
    move = np.arange(cells * actions, dtype=np.int32).reshape(cells, actions)
    move, end = np.repeat(move[None], dynamics, axis=0), next_cell[0].reshape(-1, outcomes).astype(np.int32)
    changed = np.nonzero((next_cell != next_cell[0]).any(axis=3))  # by gates
    rows = np.column_stack((move[changed], next_cell[changed]))
    others, which = np.unique(rows, axis=0, return_inverse=True)
    move[changed] = len(end) + which.ravel()
    return move, np.concatenate((end, others[:, 1:].astype(np.int32)))


class MoveTable(NamedTuple):
    """The moves of a world, for planning; its agents share them."""

    move: Words  # [D, S, A] which move an action is
    end: Words  # [moves, K] where a move leads
    first_before: Words  # [S + 1] where the cells begin from which a move may lead to a cell ...
    before: Words  # ... in this list


def list_moves(next_cell: Numbers) -> MoveTable:
    """Number the moves, and list the predecessors of cells."""
    return MoveTable(*number_moves(next_cell), *cells_before(next_cell[..., 0]))


@dataclass(frozen=True, eq=False)
class WorldModel:
    """Moves that were tried on a map, and how often each outcome was seen; worlds of the same map add up with `+`."""

    columns: int
    slip: float  # probability that a move slips
    end: Words  # [S, A] where actions lead if they do not slip and no gate is closed: which map it is
    move: Ints  # [moves] (cell x actions + action) x 8, plus a bit for each outcome whose end is barred; ascending
    tries: Ints  # [moves, K] how often each outcome was seen

    @classmethod
    def of(cls, task: Task, move: Ints, tries: Ints) -> WorldModel:
        """Make the model of a task's map; moves are in order, and those that were never tried are left out."""
        was_tried = tries.any(axis=1)
        return cls(task.grid.columns, float(task.slip), _ends(task), move[was_tried], tries[was_tried])

    @cached_property
    def digest(self) -> str:
        """A hash of the whole model."""
        parts = (self.end.tobytes(), self.move.tobytes(), self.tries.tobytes())
        return hashlib.sha256(b"%d %r " % (self.columns, self.slip) + b"".join(parts)).hexdigest()

    @property
    def steps(self) -> int:
        """The number of steps from which it was learnt, of all agents together."""
        return int(self.tries.sum())

    def known(self) -> Ints:
        """Count the tries of each action in each cell, whatever is barred: [S, A]."""
        pairs = np.bincount(self.move // BARRED, self.tries.sum(axis=1), self.end.size)
        return pairs.astype(np.int64).reshape(self.end.shape)

    def visited(self) -> Bools:
        """Flag the cells in which any agent has been: [S]."""
        cell, action = np.divmod(self.move // BARRED, len(ACTIONS))
        visited = np.zeros(len(self.end), np.bool_)
        visited[cell] = True
        for outcome in range(OUTCOMES):
            led = (self.tries[:, outcome] > 0) & (self.move >> outcome & 1 == 0)
            visited[self.end[cell[led], np.array(slipped_actions(outcome))[action[led]]]] = True
        return visited

    def tries_of(self, move: Ints) -> Ints:
        """Look up how often the outcomes of some moves were seen."""
        if not len(self.move):
            return np.zeros((len(move), OUTCOMES), np.int64)
        index = np.minimum(np.searchsorted(self.move, move), len(self.move) - 1)
        return np.where((self.move[index] == move)[:, None], self.tries[index], 0)

    def is_tried(self, table: MoveTable) -> Bools:
        """Flag the moves of a task's world that were tried: [D, S, A]."""
        total: Ints = self.tries_of(number_kept(table)).sum(axis=1)
        return total[table.move] > 0

    def __add__(self, other: WorldModel) -> WorldModel:
        if not isinstance(other, WorldModel):
            return NotImplemented
        self._require(other.columns, other.slip, other.end)
        move = np.union1d(self.move, other.move)
        return WorldModel(self.columns, self.slip, self.end, move, self.tries_of(move) + other.tries_of(move))

    def require_map(self, task: Task) -> None:
        """Refuse a task on another map."""
        self._require(task.grid.columns, float(task.slip), _ends(task), f" than {task.name}")

    def _require(self, columns: int, slip: float, end: Words, than: str = "") -> None:
        if end.shape != self.end.shape or columns != self.columns:
            mine, theirs = (f"{len(e) // wide} x {wide}" for e, wide in ((self.end, self.columns), (end, columns)))
            raise SettingsError(f"this world is of another map{than}: {mine} cells, not {theirs}")
        if differing := np.flatnonzero((end != self.end).any(axis=1)).tolist():
            row, column = divmod(differing[0], columns)
            where = f"moves from {len(differing):,} cells differ, the first at row {row}, column {column}"
            raise SettingsError(f"this world is of another map{than}: {where}")
        if slip != self.slip:
            raise SettingsError(f"this world was learnt where {self.slip:.3g} of moves slip, not {slip:.3g}")

    def missing(self, task: Task | str | Path) -> tuple[str, ...]:
        """List what a task needs and was never seen: open gates, and the cells of events.

        >>> import hocket as hk
        >>> run = hk.train("buttons", seeds=1, steps=100)[0]
        >>> run.world.missing("buttons")[0]
        'red region was never open to A1'
        """
        task, visited = as_task(task), self.visited()
        opened = {*self.end.ravel()[self.move[self.move & 1 == 0] // BARRED].tolist()}  # cells that were not barred
        missing = []
        for agent, gates in task.gates.items():
            closed = [region for region in gates if opened.isdisjoint(task.grid.places[region])]
            missing += [f"{region} was never open to {agent}" for region in closed]
        for event, conditions in task.events.items():
            for agent in conditions:
                cells = np.flatnonzero(task.where(agent, event)).tolist()
                if cells and not visited[cells].any():
                    missing.append(f"no agent was at the place of {event}: {agent} {describe_cell(task, cells[0])}")
        return tuple(missing)

    def save(self, path: str | Path) -> None:
        """Write the world to a file (.npz), without pickle."""
        write_archive(path, "a world", self.packed())

    def packed(self) -> bytes:
        """Return the content of such a file."""
        about = {"format": FORMAT, "columns": self.columns, "slip": self.slip}
        return pack_arrays(about, {"end": self.end, "move": self.move, "tries": self.tries})

    def __repr__(self) -> str:
        return f"<WorldModel of {len(self.end):,} cells: {len(self.move):,} moves tried in {self.steps:,} steps>"

    def _repr_svg_(self) -> str | None:
        return show_in_notebook(self, "svg")


class PlanningBlock(Block, Protocol):
    """A block that can plan with what was learnt of the map before."""

    def begin_with(self, world: WorldModel) -> None:
        """Begin with the tries of a world, and plan with them."""


class WorldBlock(PlanningBlock, Protocol):
    """A block that learns a model of the map, which other tasks can be planned with."""

    def learnt(self, index: int) -> tuple[Ints, Ints]:
        """List the moves of the seed at `index`, as worlds number them, and its tries of each."""

    def finish(self, step: int) -> None:
        """End training after its last step."""


def _ends(task: Task) -> Words:
    return np.ascontiguousarray(task.grid.outcomes()[..., 0], np.int32)


def number_kept(table: MoveTable) -> Ints:
    """Number the moves of a task's world as in files: [moves]."""
    dynamics, cells, actions = table.move.shape
    pair = np.zeros(len(table.end), np.int64)
    pair[table.move.reshape(dynamics, -1)] = np.arange(cells * actions)
    is_barred = table.end == (pair // actions)[:, None]
    return np.asarray(pair * BARRED + is_barred @ (1 << np.arange(OUTCOMES)))


class CommonTries:
    """The common tries of each seed's agents: those that they began with and, if they share, their own."""

    def __init__(self, tables: Sequence[MoveTable], seeds: int) -> None:
        numbers = [number_kept(table) for table in tables]
        self.move = np.unique(np.concatenate(numbers))
        self.index = [np.searchsorted(self.move, each) for each in numbers]  # of the moves of each table
        self.first = np.zeros((len(self.move), OUTCOMES), np.int64)
        self.tries = np.repeat(self.first[None], seeds, axis=0)

    def begin_with(self, world: WorldModel) -> None:
        """Begin with the tries of a world."""
        self.first = world.tries_of(self.move)
        self.tries[:] = self.first

    def pool(self, index: int, agents: Iterable[tuple[Ints, Ints]]) -> Ints:
        """Add up the tries of a seed's agents, each given by the indices of its moves and its tries."""
        known = self.tries[index]
        total: Ints = known.copy()
        for moves, tries in agents:
            total[moves] += tries - known[moves]
        return total


def load_world(path: str | Path) -> WorldModel:
    """Load a model of a map: a file (.npz), or the sum of all worlds in a folder of runs."""
    path = Path(path)
    if not path.is_dir():
        return read_world(path)
    files = listed(path, "worlds/*.npz")
    if not files:
        raise FormatError("has no worlds in it: learners that keep theirs write them beside their policies", path=path)
    try:
        return reduce(add, map(read_world, files))
    except SettingsError as error:
        raise FormatError(f"has worlds of several maps: {error}", path=path) from None


def as_world(world: WorldModel | str | Path) -> WorldModel:
    """Return a world, loaded from a file or a folder of runs if necessary."""
    if isinstance(world, WorldModel):
        return world
    if isinstance(world, str | Path):
        return load_world(world)
    raise FormatError(f"a world, its file or a folder of runs is needed, got {type(world).__name__}")


def read_world(path: Path, content: bytes | None = None) -> WorldModel:
    """Read a world from a file, or from its content."""
    with open_archive(path, "a world", content) as archive:
        about = read_about(archive)
        if about["format"] != FORMAT:
            raise FormatError(f"is of another format than {FORMAT!r}: use a newer hocket", path=path)
        columns, slip = about["columns"], about["slip"]
        if type(columns) is not int or columns < 1 or type(slip) is not float or not 0 <= slip <= 1:
            raise ValueError
        end = read_array(archive, "end", np.dtype(np.int32), 4 * MOST_CELLS * len(ACTIONS))
        move = read_array(archive, "move", np.dtype(np.int64), 8 * end.size * BARRED)
        tries = read_array(archive, "tries", np.dtype(np.int64), 8 * end.size * BARRED * OUTCOMES)
    cells = len(end) if end.shape[1:] == (len(ACTIONS),) else 0
    is_sound = cells and cells % columns == 0 and move.ndim == 1 and tries.shape == (len(move), OUTCOMES)
    if not (is_sound and _in_range(end, cells) and _in_range(move, end.size * BARRED) and _in_range(tries, MOST_TRIES)):
        raise FormatError("is not a world that hocket has written", path=path)
    if (np.diff(move) <= 0).any():
        raise FormatError("is not a world that hocket has written: its moves are not in order", path=path)
    return WorldModel(columns, slip, end, move, tries)


def _in_range(numbers: NDArray[np.signedinteger], stop: int) -> bool:
    return not numbers.size or (numbers.min() >= 0 and int(numbers.max()) < stop)
