"""Numbers that are checked when they come in: finite ones in arrays of some axes, and integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hocket.errors import SettingsError, shown

Numbers = NDArray[np.float64]
Axes = int | tuple[int, ...]


def numbers(values: ArrayLike, what: str, axes: int | None = None, *, least: int = 1) -> Numbers:
    """Require finite numbers, at least one, with `axes` axes or at least so many."""
    try:
        array = np.asarray(values).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{what} must be an array of numbers, got {values!r:.60}") from error
    if array.size == 0 or (array.ndim < least if axes is None else array.ndim != axes):
        count = axes or least
        rule = f"{'' if axes else 'at least '}{'one axis' if count == 1 else f'{count} axes'}"
        raise SettingsError(f"{what} must have {rule} and not be empty, got the shape {array.shape}")
    if not np.isfinite(array).all():
        raise SettingsError(f"{what} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def last_axes(array: Numbers, axis: Axes) -> Numbers:  # [..] -> [.., N]
    """Bring one or more axes to the end, as one."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    try:
        moved = np.moveaxis(array, axes, range(-len(axes), 0))
    except (TypeError, ValueError) as error:
        raise SettingsError(f"axis must be one of an array of the shape {array.shape}, got {axis!r}") from error
    return moved.reshape(*moved.shape[: array.ndim - len(axes)], -1)


def whole(number: int, what: str, least: int) -> int:
    """Require an integer."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise SettingsError(f"{what} must be an integer of at least {least}, got {shown(number)}")
    return int(number)
