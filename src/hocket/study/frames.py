"""Test episodes as data frames of other libraries: tidy, a row for each episode, with the columns of curves.csv."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import HocketError
from hocket.study.curves import RETURN, layout_of
from hocket.study.records import KINDS, Record

DataFrame = Any  # of pandas or polars, which need not be there
Library = Any


class Episodes(NamedTuple):
    """Test episodes: what those of a run have in common once, and which of it belongs to each row."""

    common: dict[str, list[object]]  # by column: a value for each run and kind of policy
    row: NDArray[np.intp]  # of each episode, in `common`
    single: dict[
        str, NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.float64]
    ]  # by column: a value for each episode
    columns: list[str]  # in their order


def gather_episodes(records: Sequence[Record]) -> Episodes:
    """List the test episodes of runs in the order of curves.csv."""
    layout = layout_of(records)
    tested = [(record, kind) for record in records for kind in KINDS if kind in record.tests]
    tests = [record.tests[kind] for record, kind in tested]
    common: dict[str, list[object]] = {
        "task": [layout.titles[record.digest] for record, _ in tested],
        "learner": [record.learner for record, _ in tested],
        "seed": [record.seed for record, _ in tested],
        "policy": [kind for _, kind in tested],
        **{name: [layout.apart[record.kind].get(name) for record, _ in tested] for name in layout.swept},
    }
    nothing = np.zeros(0, np.int64)
    single: dict[str, NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.float64]] = {
        "step": np.concatenate([nothing, *(part.step for part in tests)]),
        "test_steps": np.concatenate([nothing, *(part.test_steps for part in tests)]),
        "success": np.concatenate([nothing.astype(np.bool_), *(part.success for part in tests)]),
    }
    if layout.has_returns:
        earned = (np.full(len(part.step), np.nan) if part.returns is None else part.returns for part in tests)
        single[RETURN] = np.concatenate([np.zeros(0), *earned])
    row = np.repeat(np.arange(len(tests)), [len(part.step) for part in tests])
    return Episodes(common, row, single, layout.columns)


def to_pandas(records: Sequence[Record]) -> DataFrame:
    """Make a DataFrame of pandas."""
    pandas = _library("pandas")
    episodes = gather_episodes(records)
    frame = pandas.DataFrame(episodes.common).iloc[episodes.row].reset_index(drop=True)
    return frame.assign(**episodes.single)[episodes.columns]


def to_polars(records: Sequence[Record]) -> DataFrame:
    """Make a DataFrame of polars."""
    polars = _library("polars")
    episodes = gather_episodes(records)
    frame = polars.DataFrame(episodes.common, strict=False)[episodes.row]
    single = [polars.Series(name, values) for name, values in episodes.single.items()]
    return frame.with_columns(single)[episodes.columns]


def _library(name: str) -> Library:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise HocketError(f"a data frame of {name} needs {name}: pip install {name}") from None
