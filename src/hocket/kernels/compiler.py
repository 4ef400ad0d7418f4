"""How kernels are compiled: once, to disk, free of the interpreter's lock, and without reference counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

LEAN: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}  # no reference counts, no exceptions


def kernel(function: Function) -> Function:
    """Compile a function that Python calls. It makes no arrays, so that nothing has to count who uses them."""
    return cast(Function, njit(cache=True, nogil=True, **LEAN)(function))


def inlined(function: Function) -> Function:
    """Compile a function that only kernels call; it becomes part of them."""
    return cast(Function, njit(forceinline=True, **LEAN)(function))
