"""Test episodes as tables: curves.csv, written as runs finish, and data frames of other libraries.

There may be millions of rows, so rows are made for a whole run at a time.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.background import in_pieces
from hocket.errors import HocketError
from hocket.files import GrowingFile
from hocket.learn.settings import SettingValue
from hocket.study.records import KINDS, Record, task_titles, varied_settings

COLUMNS = ("task", "learner", "seed", "step", "policy", "test_steps", "success")
RETURN = "return"  # the last column, where a task has rewards other than for its completion
PIECE = 250  # runs that are written between two looks at whether to stop

DataFrame = Any  # of pandas or polars, which need not be there
Texts = NDArray[np.bytes_]


class Layout(NamedTuple):
    """What the rows of a table have in common: the titles of tasks, and the settings that vary between runs."""

    titles: Mapping[str, str]  # of tasks, by their digests
    names: Sequence[str]  # settings that have a column each
    varied: Mapping[str, Mapping[str, SettingValue]]  # the values in those columns, by the kind of a run
    has_returns: bool  # whether a task has rewards, so that there is a column for returns

    @classmethod
    def of(cls, records: Sequence[Record]) -> Layout:
        """Lay out a table of some runs; one run may stand for all that differ from it only in their seeds."""
        varied = {record.kind: settings for record, settings in zip(records, varied_settings(records), strict=True)}
        names = list(dict.fromkeys(name for settings in varied.values() for name in settings))
        has_returns = any(tests.returns is not None for record in records for tests in record.tests.values())
        return cls(task_titles(records), names, varied, has_returns)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [*COLUMNS, *self.names, *[RETURN] * self.has_returns]

    def rows(self, record: Record) -> Iterator[bytes]:
        """Write the rows of a run's test episodes."""
        start = _csv_line(self.titles[record.digest], record.learner, record.seed)[:-1] + b","
        values = [self.varied[record.kind].get(name, "") for name in self.names]
        success = np.array([_csv_line("", flag, *values)[:-1] for flag in (0, 1)])
        for kind, tests in ((kind, record.tests[kind]) for kind in KINDS if kind in record.tests):
            end: Texts | bytes = b",\n" if self.has_returns else b"\n"
            if tests.returns is not None:
                end = np.array([f",{number:.12g}\n".encode() for number in tests.returns.tolist()], np.bytes_)
            middle = digits(tests.step), f",{kind},".encode(), digits(tests.test_steps)
            yield in_rows(start, *middle, success[tests.success.astype(np.intp)], end)


def _csv_line(*values: object) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue().encode()


def digits(numbers: NDArray[np.int64]) -> Texts:
    """Write numbers in digits, each number that occurs once.

    >>> digits(np.array([7, 250, 0])).tolist()
    [b'7', b'250', b'0']
    """
    distinct, index = np.unique(numbers, return_inverse=True)
    return np.array([b"%d" % number for number in distinct.tolist()], np.bytes_)[index]


def in_rows(*columns: Texts | bytes) -> bytes:
    """Join columns to rows, and rows to one text; a single text is the same in every row.

    No text may contain NUL, with which numpy pads texts.

    >>> in_rows(b"n", digits(np.array([9, 10])), b";")
    b'n9;n10;'
    """
    arrays: list[NDArray[Any]] = [np.asarray(column) for column in columns]
    shape = np.broadcast_shapes(*(column.shape for column in arrays))
    rows = np.empty(shape, [("", column.dtype) for column in arrays])
    for name, column in zip(rows.dtype.names or (), arrays, strict=True):
        rows[name] = column
    return rows.tobytes().translate(None, b"\0")


def curves_csv(records: Sequence[Record]) -> Iterator[bytes]:
    """Write test episodes as a table, run by run."""
    layout = Layout.of(records)
    yield _csv_line(*layout.columns)
    for record in records:
        yield from layout.rows(record)


class CurveTable:
    """The table of a folder, which grows while runs finish; it replaces the old one when it is kept."""

    def __init__(self, file: GrowingFile, layout: Layout) -> None:
        self.file, self.layout = file, layout
        self.keys: list[str] = []  # of the runs in the table
        self.file.add(_csv_line(*layout.columns))

    def add(self, records: Iterable[Record]) -> None:
        """Add rows of some runs."""
        for record in records:
            for rows in self.layout.rows(record):
                self.file.add(rows)
            self.keys.append(record.key)

    def keep(self, records: Sequence[Record], stop: Event) -> None:
        """Keep the table with runs in this order, or in the order of `add` if `stop` is set before that is done."""
        if self.keys == [record.key for record in records]:
            self.file.keep()
        else:
            with growing_table(self.file.path, self.layout, records, stop) as ordered:
                (self if ordered is None else ordered).file.keep()


@contextmanager
def growing_table(path: Path, layout: Layout, records: Sequence[Record], stop: Event) -> Iterator[CurveTable | None]:
    """Begin a table with some runs; None if `stop` is set before they are written."""
    with GrowingFile(path) as file:
        table = CurveTable(file, layout)
        for piece in in_pieces(records, PIECE, stop):
            table.add(piece)
        yield table if len(table.keys) == len(records) else None


def to_frame(records: Sequence[Record], library: str) -> DataFrame:
    """Make a DataFrame of pandas or polars with the rows and columns of curves.csv."""
    try:
        frames = import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise HocketError(f"a data frame of {library} needs {library}: pip install {library}") from None
    layout = Layout.of(records)
    tested = [(record, kind) for record in records for kind in KINDS if kind in record.tests]
    tests = [record.tests[kind] for record, kind in tested]
    common: dict[str, list[object]] = {  # by column: a value for each run and kind of policy
        "task": [layout.titles[record.digest] for record, _ in tested],
        "learner": [record.learner for record, _ in tested],
        "seed": [record.seed for record, _ in tested],
        "policy": [kind for _, kind in tested],
        **{name: [layout.varied[record.kind].get(name) for record, _ in tested] for name in layout.names},
    }
    returns = [np.full(len(part.step), np.nan) if part.returns is None else part.returns for part in tests]
    values: dict[str, NDArray[Any]] = {RETURN: np.concatenate([np.zeros(0), *returns])}  # of each episode, by column
    for name, kind in (("step", np.int64), ("test_steps", np.int64), ("success", np.bool_)):
        values[name] = np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in tests)])
    row = np.repeat(np.arange(len(tests)), [len(part.step) for part in tests])  # of each episode, in `common`
    if library == "polars":
        frame = frames.DataFrame(common, strict=False)[row]
        return frame.with_columns([frames.Series(name, column) for name, column in values.items()])[layout.columns]
    return frames.DataFrame(common).iloc[row].reset_index(drop=True).assign(**values)[layout.columns]
