"""How kernels are compiled: once, to disk, free of the interpreter's lock, and without reference counting."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

LEAN: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}  # no reference counts, no exceptions

# numba compiles anew when the file of a kernel has changed; what kernels are made of stands in other files, too.
_FOLDER = Path(__file__).parent
_SOURCES = [*sorted(_FOLDER.glob("*.py")), _FOLDER.parents[1] / "random.py"]
STAMP = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES if path.exists())).hexdigest()


def kernel(function: Function) -> Function:
    """Compile a function that Python calls. It makes no arrays, so that nothing has to count who uses them."""
    compiled = njit(cache=True, nogil=True, **LEAN)(function)
    stored = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if stored is not None and hasattr(stored, "_source_stamp"):
        stored._source_stamp = (stored._source_stamp, STAMP)
    return cast(Function, compiled)


def inlined(function: Function) -> Function:
    """Compile a function that only kernels call; it becomes part of them."""
    return cast(Function, njit(forceinline=True, **LEAN)(function))
