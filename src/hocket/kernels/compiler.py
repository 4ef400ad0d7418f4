"""How kernels are compiled: once, to disk, and free of the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function that Python calls."""
    return cast(Function, njit(cache=True, nogil=True)(function))


def inlined(function: Function) -> Function:
    """Compile a function that only kernels call; it becomes part of them."""
    return cast(Function, njit(inline="always")(function))
