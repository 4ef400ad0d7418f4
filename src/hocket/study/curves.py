"""curves.csv, a table with a row for each test episode: laid out run by run, as runs finish."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import NamedTuple

import numpy as np

from hocket.background import in_pieces
from hocket.files import GrowingFile
from hocket.learn.settings import SettingValue
from hocket.study.digits import Texts, digits, in_rows
from hocket.study.records import KINDS, Record, differences, task_titles

COLUMNS = ("task", "learner", "seed", "step", "policy", "test_steps", "success")
RETURN = "return"  # the last column, where a task has rewards other than for its completion
PIECE = 250  # runs that are laid out before anybody looks at whether to stop


class Layout(NamedTuple):
    """What a table's rows have in common: how tasks are called, and settings that set runs of a learner apart."""

    titles: Mapping[str, str]  # of tasks, by their digests
    swept: Sequence[str]  # settings that have a column each
    apart: Mapping[str, Mapping[str, SettingValue]]  # what is in those, by the kind of a run
    has_returns: bool  # whether a task has rewards, so that there is a column for what a team earned

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


def layout_of(records: Sequence[Record]) -> Layout:
    """Find what the rows of some runs have in common; runs that differ in their seeds alone may come as one."""
    apart = differences(records)
    swept = list(dict.fromkeys(name for settings in apart.values() for name in settings))
    has_returns = any(tests.returns is not None for record in records for tests in record.tests.values())
    return Layout(task_titles(records), swept, {record.kind: apart[record.key] for record in records}, has_returns)


def _csv_line(*values: object) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue().encode()


def curves_csv(records: Sequence[Record]) -> Iterator[bytes]:
    """Lay test episodes out as a table, run by run."""
    layout = layout_of(records)
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
