"""How kernels are compiled: once, to disk, free of the interpreter's lock, and without reference counting."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import caching
from numba.core.registry import CPUDispatcher

Function = TypeVar("Function", bound=Callable[..., Any])

# Three things have no public name in numba: to leave out reference counts, to tell whether a file of its cache exists
# and is up to date (`cache_file`, `is_compiled`), and to do without a cache that cannot be read or written. So
# pyproject.toml has an upper bound for numba, and a test says whether a newer one has them.
# No reference counts, no exceptions, no wrapper for C.
LEAN: dict[str, Any] = {"_nrt": False, "error_model": "numpy", "no_cfunc_wrapper": True}
FUNCTION_CACHE: Any = caching.FunctionCache  # numba has no annotations
INNER = {**LEAN, "forceinline": True, "no_cpython_wrapper": True}

# numba compiles a kernel again when its file has changed; functions and structs that it uses are also in other files.
_ROOT = Path(__file__).parents[2]
_SOURCES = [
    *(_ROOT / "learn").glob("kernels/*.py"),
    *(_ROOT / "learn").glob("*/kernel.py"),
    *(_ROOT / f"{name}.py" for name in ("random", "task/bodies", "task/grid", "task/tables")),
    *(_ROOT / "learn" / f"{name}.py" for name in ("settings", "testing")),
]


def stamp_of(sources: Iterable[Path]) -> str:
    """Hash the content of some files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources) if path.exists())).hexdigest()


STAMP = stamp_of(_SOURCES)


def kernel(function: Function) -> Function:
    """Compile a function that Python calls. It makes no arrays, so that references need not be counted."""
    compiled: Any = njit(nogil=True, **LEAN)(function)
    if hasattr(compiled, "enable_caching"):  # and is no plain function, as with NUMBA_DISABLE_JIT
        with suppress(RuntimeError):  # the package is read-only and there is no home: no folder to keep it in
            compiled._cache = _Cache(function)
    stored = cache_file(compiled)
    if stored is not None:
        stored._source_stamp = (stored._source_stamp, STAMP)
    return cast(Function, compiled)


class _Cache(FUNCTION_CACHE):  # type: ignore[misc]
    """A kernel's cache on disk. If it is damaged, or the disk is full, the kernel is compiled without it."""

    def load_overload(self, sig: object, target_context: object) -> object:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling a truncated file may raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: object, data: object) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)


class _Inner(CPUDispatcher):
    """A function without a wrapper for Python: wrappers of all functions would take a quarter of the compile time. If
    Python calls it all the same, as numba's simulator of a GPU does, it is compiled with a wrapper."""

    def __call__(self, *arguments: object) -> object:
        return self._with_wrapper(*arguments)

    @cached_property
    def _with_wrapper(self) -> Callable[..., object]:
        return cast(Callable[..., object], njit(**LEAN)(self.py_func))


def inlined(function: Function) -> Function:
    """Compile a function that only kernels call; it becomes part of them."""
    compiled = njit(**INNER)(function)
    compiled.__class__ = _Inner
    return cast(Function, compiled)


def cache_file(compiled: object) -> Any:  # noqa: ANN401 (numba has no annotations)
    """Return numba's record of the sources of a compiled function; None if there is none."""
    stored = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    return stored if hasattr(stored, "_source_stamp") else None


def is_compiled(compiled: object) -> bool:
    """Say whether a kernel is in the cache on disk, compiled from the present sources; if that is unknown, say so."""
    stored = cache_file(compiled)
    try:
        return not hasattr(stored, "_load_index") or bool(stored._load_index())
    except OSError:  # no permission to read the cache
        return True
    except Exception:  # unpickling a damaged cache may raise anything
        return False
