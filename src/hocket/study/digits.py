"""Whole numbers as text, thousands at a time; millions of tests are written so."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL = 10_000  # numbers below this are looked up

Texts = NDArray[np.bytes_]


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


def listed(texts: Texts) -> str:
    """List texts as JSON does without blanks.

    >>> listed(digits(np.array([3, 12])))
    '[3,12]'
    """
    return f"[{b','.join(texts.tolist()).decode()}]"
