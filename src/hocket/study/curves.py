"""Test episodes as tables with a row for each: curves.csv, laid out as runs finish, and data frames of other libraries.

There may be millions of rows: texts and columns are made of whole runs at a time.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
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
from hocket.study.records import KINDS, Record, differences, task_titles

COLUMNS = ("task", "learner", "seed", "step", "policy", "test_steps", "success")
RETURN = "return"  # the last column, where a task has rewards other than for its completion
PIECE = 250  # runs that are laid out before anybody looks at whether to stop
SMALL = 10_000  # numbers below this are looked up

DataFrame = Any  # of pandas or polars, which need not be there
Texts = NDArray[np.bytes_]


class Layout(NamedTuple):
    """What a table's rows have in common: how tasks are called, and settings that set runs of a learner apart."""

    titles: Mapping[str, str]  # of tasks, by their digests
    swept: Sequence[str]  # settings that have a column each
    apart: Mapping[str, Mapping[str, SettingValue]]  # what is in those, by the kind of a run
    has_returns: bool  # whether a task has rewards, so that there is a column for what a team earned

    @classmethod
    def of(cls, records: Sequence[Record]) -> Layout:
        """Find what the rows of some runs have in common; runs that differ in their seeds alone may come as one."""
        apart = differences(records)
        swept = list(dict.fromkeys(name for settings in apart.values() for name in settings))
        has_returns = any(tests.returns is not None for record in records for tests in record.tests.values())
        return cls(task_titles(records), swept, {record.kind: apart[record.key] for record in records}, has_returns)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [*COLUMNS, *self.swept, *[RETURN] * self.has_returns]

    def rows(self, record: Record) -> Iterator[bytes]:
        """Lay out the test episodes of a run."""
        run = _csv_line(self.titles[record.digest], record.learner, record.seed)[:-1] + b","
        values = [self.apart[record.kind].get(name, "") for name in self.swept]
        ends = np.array([_csv_line("", success, *values)[:-1] for success in (0, 1)])
        for kind, tests in ((kind, record.tests[kind]) for kind in KINDS if kind in record.tests):
            what, success = f",{kind},".encode(), tests.success.astype(np.intp)
            last: Texts | bytes = b",\n" if self.has_returns else b"\n"
            if tests.returns is not None:
                last = np.array([f",{earned:.12g}\n".encode() for earned in tests.returns.tolist()], np.bytes_)
            yield in_rows(run, digits(tests.step), what, digits(tests.test_steps), ends[success], last)


def _csv_line(*values: object) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue().encode()


def digits(numbers: NDArray[np.int64]) -> Texts:
    """Write numbers in digits.

    >>> digits(np.array([7, 250, 0])).tolist()
    [b'7', b'250', b'0']
    """
    is_small = numbers.size and numbers.min() >= 0 and numbers.max() < SMALL
    return _small()[numbers] if is_small else _large(numbers.astype(np.int64).tobytes())


@cache
def _small() -> Texts:
    return np.array([str(number).encode() for number in range(SMALL)])


@lru_cache(2)  # runs of a study are tested after the same steps
def _large(numbers: bytes) -> Texts:
    return np.frombuffer(numbers, np.int64).astype(np.bytes_)


def in_rows(*columns: Texts | bytes) -> bytes:
    """Set columns side by side and rows one after the other; a single text is the same in every row.

    No text has a NUL, with which numpy pads them.

    >>> in_rows(b"n", digits(np.array([9, 10])), b";")
    b'n9;n10;'
    """
    arrays: list[NDArray[Any]] = [np.asarray(column) for column in columns]
    rows = np.empty(
        np.broadcast_shapes(*(column.shape for column in arrays)), [("", column.dtype) for column in arrays]
    )
    for name, column in zip(rows.dtype.names or (), arrays, strict=True):
        rows[name] = column
    return rows.tobytes().translate(None, b"\0")


def curves_csv(records: Sequence[Record]) -> Iterator[bytes]:
    """Lay test episodes out as a table, run by run."""
    layout = Layout.of(records)
    yield _csv_line(*layout.columns)
    for record in records:
        yield from layout.rows(record)


class CurveTable:
    """The table of a folder, which grows while runs finish; it takes the place of the old one when it is kept."""

    def __init__(self, file: GrowingFile, layout: Layout) -> None:
        self.file, self.layout = file, layout
        self.keys: list[str] = []  # of the runs that are in it
        self.file.add(_csv_line(*layout.columns))

    def add(self, records: Iterable[Record]) -> None:
        """Add rows of some runs."""
        for record in records:
            for rows in self.layout.rows(record):
                self.file.add(rows)
            self.keys.append(record.key)

    def keep(self, records: Sequence[Record], stop: Event) -> None:
        """Keep it with runs in this order; if somebody wishes to stop before that is done, in which they were added."""
        if self.keys == [record.key for record in records]:
            self.file.keep()
            return
        with growing_table(self.file.path, self.layout, records, stop) as ordered:
            (self if ordered is None else ordered).file.keep()


@contextmanager
def growing_table(path: Path, layout: Layout, records: Sequence[Record], stop: Event) -> Iterator[CurveTable | None]:
    """Begin a table with some runs; None, if somebody wishes to stop before they are in it."""
    with GrowingFile(path) as file:
        table = CurveTable(file, layout)
        for piece in in_pieces(records, PIECE, stop):
            table.add(piece)
        yield table if len(table.keys) == len(records) else None


def to_frame(records: Sequence[Record], library: str) -> DataFrame:
    """Make a DataFrame of pandas or polars, in the order and with the columns of curves.csv."""
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
        **{name: [layout.apart[record.kind].get(name) for record, _ in tested] for name in layout.swept},
    }
    single: dict[str, list[NDArray[Any]]] = {  # by column: a value for each episode
        **{name: [getattr(part, name) for part in tests] for name in ("step", "test_steps", "success")},
        RETURN: [np.full(len(part.step), np.nan) if part.returns is None else part.returns for part in tests],
    }
    start = {"success": np.zeros(0, np.bool_), RETURN: np.zeros(0)}
    values = {name: np.concatenate([start.get(name, np.zeros(0, np.int64)), *parts]) for name, parts in single.items()}
    row = np.repeat(np.arange(len(tests)), [len(part.step) for part in tests])  # of each episode, in `common`
    if library == "polars":
        frame = frames.DataFrame(common, strict=False)[row]
        return frame.with_columns([frames.Series(name, column) for name, column in values.items()])[layout.columns]
    return frames.DataFrame(common).iloc[row].reset_index(drop=True).assign(**values)[layout.columns]
