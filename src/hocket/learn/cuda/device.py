"""The GPU: whether there is one, kernels for it, and copies to and from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError, needs_extra
from hocket.learn.kernels.compiler import STAMP, cache_file, stamp_of

with needs_extra("the device cuda", "cuda"):
    cuda: Any = import_module("numba.cuda")
    errors: Any = import_module("numba.cuda.core.errors")
    nvvm: Any = import_module("numba.cuda.cudadrv.nvvm")

Function = TypeVar("Function", bound=Callable[..., Any])
Tree = TypeVar("Tree")
Kernel = Any  # what numba makes of a function

CUDA_STAMP = stamp_of([*Path(__file__).parent.glob("*.py"), *Path(__file__).parents[1].glob("*/cuda*.py")])
SIMULATED = bool(cuda.config.ENABLE_CUDASIM)  # numba's simulator runs kernels as Python, which calls compiled functions
BLOCK = 4 if SIMULATED else 128  # threads that start together
SPARE = 0.8  # of the free memory is used
SIMULATED_MEMORY = 1 << 24  # bytes


def require_device() -> None:
    """Require a GPU."""
    if not (SIMULATED or cuda.is_available()):
        raise SettingsError("the device cuda needs an NVIDIA GPU and its driver, and none was found")


def free_memory() -> int:
    """Return the bytes of the device that may be used."""
    return SIMULATED_MEMORY if SIMULATED else int(cuda.current_context().get_memory_info().free * SPARE)


def device_name() -> str:
    """Return the name of the GPU."""
    return "numba's simulator" if SIMULATED else str(cuda.get_current_device().name)


def device_kernel(function: Function) -> Kernel:
    """Compile a function that can be launched, or load it from disk."""
    if SIMULATED:
        return cuda.jit(function)
    try:
        compiled = cuda.jit(function, cache=True, lto=False)  # or a linker would fuse, too
    except RuntimeError:  # there is no folder for the cache
        compiled = cuda.jit(function, lto=False)
    stored = cache_file(compiled)
    if stored is not None:
        stored._source_stamp = (stored._source_stamp, STAMP, CUDA_STAMP)
    return compiled


@contextmanager
def _without_fusing() -> Iterator[None]:
    """Keep the compiler from fusing multiplications and additions, which would be rounded differently than on a CPU.
    numba has no option for this, so the function that passes options to the compiler is replaced during a launch."""
    if SIMULATED:
        yield
        return
    compile_ir = nvvm.compile_ir
    nvvm.compile_ir = lambda code, **options: compile_ir(code, **{**options, "fma": False})
    try:
        yield
    finally:
        nvvm.compile_ir = compile_ir


def launch(kernel: Kernel, threads: int, *arguments: object) -> None:
    """Run a kernel with at least so many threads, and wait until they are done."""
    with _without_fusing(), warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.NumbaPerformanceWarning)  # that few runs do not use the whole device
        kernel[-(-threads // BLOCK), BLOCK](*arguments)
    cuda.synchronize()


def placed(tree: Tree) -> Tree:
    """Copy an array, or all arrays of a struct, to the device."""
    if isinstance(tree, np.ndarray):
        shape = [max(1, length) for length in tree.shape]
        array = tree if tree.size else np.zeros(shape, tree.dtype)  # the device has no empty arrays
        return cast(Tree, array.copy() if SIMULATED else cuda.to_device(np.ascontiguousarray(array)))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return cast(Tree, type(tree)(*(placed(part) for part in tree)))
    return tree


def zeros(shape: tuple[int, ...], kind: type = np.float32) -> NDArray[Any]:
    """Make an array of zeros on the device."""
    if SIMULATED:
        return np.zeros(shape, kind)
    try:
        array = cuda.device_array(shape, kind)
    except cuda.driver.CudaAPIError as error:
        raise SettingsError(f"the device has no room for an array of shape {shape}: {error}") from None
    cuda.driver.device_memset(array, 0, array.nbytes)
    return cast(NDArray[Any], array)


def fetched(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array from the device."""
    return array.copy() if SIMULATED else cast(NDArray[Any], array.copy_to_host())  # type: ignore[attr-defined]
