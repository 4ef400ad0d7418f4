"""The graphics processor: whether there is one, how kernels are compiled for it, and what goes there and back."""

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
    """Refuse to go on without a graphics processor."""
    if not (SIMULATED or cuda.is_available()):
        raise SettingsError("the device cuda needs an NVIDIA GPU and its driver, and none was found")


def free_memory() -> int:
    """Say how many bytes there is room for."""
    return SIMULATED_MEMORY if SIMULATED else int(cuda.current_context().get_memory_info().free * SPARE)


def device_name() -> str:
    """Name the graphics processor."""
    return "numba's simulator" if SIMULATED else str(cuda.get_current_device().name)


def device_kernel(function: Function) -> Kernel:
    """Compile a function that threads run when it is launched, or load it from disk."""
    if SIMULATED:
        return cuda.jit(function)
    try:
        compiled = cuda.jit(function, cache=True, lto=False)  # or a linker would fuse, too
    except RuntimeError:  # there is no folder to keep it in
        compiled = cuda.jit(function, lto=False)
    stored = cache_file(compiled)
    if stored is not None:
        stored._source_stamp = (stored._source_stamp, STAMP, CUDA_STAMP)
    return compiled


@contextmanager
def _as_on_the_processor() -> Iterator[None]:
    """Keep the compiler from fusing multiplications and additions, which would round otherwise than a processor does.
    numba has no option for this, so what hands options to the compiler is wrapped for the time of a launch, which is
    when kernels are compiled."""
    if SIMULATED:
        yield
        return
    compile_ir = nvvm.compile_ir

    def unfused(code: object, **options: object) -> object:
        return compile_ir(code, **{**options, "fma": False})

    nvvm.compile_ir = unfused
    try:
        yield
    finally:
        nvvm.compile_ir = compile_ir


def launch(kernel: Kernel, threads: int, *arguments: object) -> None:
    """Run a kernel with at least so many threads, and wait until they have done what they were asked to."""
    with _as_on_the_processor(), warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.NumbaPerformanceWarning)  # that few runs leave much of the device idle
        kernel[-(-threads // BLOCK), BLOCK](*arguments)
    cuda.synchronize()


def placed(tree: Tree) -> Tree:
    """Copy an array, or all arrays of a struct, to the device."""
    if isinstance(tree, np.ndarray):
        shape = [max(1, length) for length in tree.shape]
        some = tree if tree.size else np.zeros(shape, tree.dtype)  # the device has no place for nothing
        return cast(Tree, some.copy() if SIMULATED else cuda.to_device(np.ascontiguousarray(some)))
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
