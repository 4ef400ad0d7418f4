"""Test episodes as tables with a row for each: curves.csv, and data frames of other libraries."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any

from hocket.errors import HocketError
from hocket.study.records import KINDS, Record, differences, task_titles

COLUMNS = ("task", "learner", "seed", "step", "policy", "test_steps", "success")
RETURN = "return"  # the last column, where a task has rewards other than for its completion

DataFrame = Any  # of pandas or polars, which need not be there
Rows = dict[str, Sequence[Any]]  # of a run's tests with one kind of policy, by column


def list_columns(records: Sequence[Record], like: Sequence[Record]) -> tuple[list[str], Iterator[Rows]]:
    """Name the columns, with one for each setting that sets runs of a learner apart, and list what is in them.

    The columns are those of a table of runs that are `like` these in all but their seeds.
    """
    titles, settings = task_titles(like), differences(like)
    apart = {record.kind: settings[record.key] for record in like}
    swept = list(dict.fromkeys(name for each in settings.values() for name in each))
    has_returns = any(tests.returns is not None for record in like for tests in record.tests.values())

    def rows(record: Record, kind: str) -> Rows:
        tests, values = record.tests[kind], [apart[record.kind].get(name) for name in swept]
        common = (titles[record.digest], record.learner, record.seed, kind, *values)
        names, count = ("task", "learner", "seed", "policy", *swept), len(tests.step)
        return {
            **{name: [value] * count for name, value in zip(names, common, strict=True)},
            **{name: getattr(tests, name).tolist() for name in ("step", "test_steps", "success")},
            RETURN: [float("nan")] * count if tests.returns is None else tests.returns.tolist(),
        }

    tested = (rows(record, kind) for record in records for kind in KINDS if kind in record.tests)
    return [*COLUMNS, *swept, *[RETURN] * has_returns], tested


def curves_csv(records: Sequence[Record], like: Sequence[Record] = ()) -> Iterator[bytes]:
    """Lay test episodes out as a table, run by run; its columns may be those of more runs that are to come."""
    columns, tested = list_columns(records, like or records)
    yield _csv_lines([columns])
    for rows in tested:
        rows["success"] = [*map(int, rows["success"])]
        rows[RETURN] = [f"{earned:.12g}" if earned == earned else "" for earned in rows[RETURN]]
        yield _csv_lines(zip(*(rows[name] for name in columns), strict=True))


def _csv_lines(rows: Any) -> bytes:  # noqa: ANN401 (whatever csv writes)
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()


def to_frame(records: Sequence[Record], library: str, **options: object) -> DataFrame:
    """Make a DataFrame of pandas or polars."""
    try:
        frames = import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise HocketError(f"a data frame of {library} needs {library}: pip install {library}") from None
    columns, tested = list_columns(records, records)
    parts = list(tested)
    values = {name: list(chain.from_iterable(rows[name] for rows in parts)) for name in columns}
    return frames.DataFrame(values, **options)
