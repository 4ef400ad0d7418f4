"""Compile learners' kernels before they are needed, each in one process at a time.

Processes that compile the same kernel at once would write the same files of numba's cache, and may then read half of
each other's. Different kernels have different files, so a second process may compile other learners meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import numpy as np

from hocket.errors import FormatError
from hocket.files import HAS_LOCKS, locked, user_folder
from hocket.learn.batches import Batch
from hocket.learn.catalogue import LEARNERS, find_learner
from hocket.learn.kernels.compiler import is_compiled
from hocket.learn.settings import Settings
from hocket.learn.training import train_batch
from hocket.task.catalogue import rendezvous
from hocket.task.tables import Tables, compile_task
from hocket.task.task import Task

SHARED = "team"  # the lock of kernels that several learners use, most of them of the team world
PATIENCE = 120  # seconds to wait for another process that compiles the same
LARGE = 1_000_000  # agents x cells from which on even a step takes long

_compiled: set[tuple[str, str, int]] = set()
_one_at_a_time = threading.Lock()


def compile_kernels(learner: str, seeds: int = 1, task: Task | None = None, settings: Settings | None = None) -> None:
    """Compile a learner's kernels for some seeds on a task, or load them from disk, by training one step."""
    chosen, about = _small() if task is None else task, find_learner(learner)
    count = max(1, min(seeds, about.min_vector_seeds))
    mark = (learner, chosen.digest, count)
    with _one_at_a_time:
        if mark in _compiled:
            return
        short = replace(settings or about.settings(), test_every=1, max_episode_steps=1)
        with ExitStack() as held:
            for name in sorted({learner if kernel else SHARED for kernel in (about.train_kernel, about.test_kernel)}):
                held.enter_context(_locked(name))
            stand_in, tables = _stand_in(chosen)
            train_batch(Batch(stand_in, learner, short, range(count), 1), tables)
        _compiled.add(mark)


def compile_apart(learners: Sequence[str]) -> None:
    """Compile the kernels that each of these learners has alone: for training, and for some learners for tests."""
    for learner in map(find_learner, learners):
        if learner.test_kernel:
            compile_kernels(learner.name)
        else:
            block = learner.block(compile_task(_small()), learner.settings(), [0], 1)
            with _locked(learner.name):
                block.train(0, 1)


def _small() -> Task:
    return rendezvous(agents=2, rows=2, columns=2)


def _stand_in(task: Task) -> tuple[Task, Tables]:
    """Return a task on which a step is fast: the task or, if it is large, a small one with arrays of its types."""
    large = compile_task(task)
    if len(task.agents) * task.grid.cells <= LARGE:
        return task, large
    small = _small()
    parts = zip(compile_task(small), large, strict=True)
    arrays = (np.asarray(part, like.dtype) if isinstance(like, np.ndarray) else part for part, like in parts)
    return small, Tables._make(arrays)


def lock_name(what: str) -> str:
    """Return the file name of a lock; other installations have other caches and need not wait."""
    return f"compiling-{what}-{zlib.crc32(__file__.encode(errors='replace')):08x}.lock"


@contextmanager
def _locked(what: str) -> Iterator[None]:
    """Hold the lock for compiling something; if there is no folder for it, or it is not free in time, go on without."""
    with ExitStack() as held:
        with suppress(OSError, RuntimeError, FormatError):  # there may be no home
            folder = user_folder("XDG_CACHE_HOME", ".cache")
            held.enter_context(locked(folder / lock_name(what), wait=PATIENCE, ours_only=True))
        yield


@contextmanager
def compiling_ahead(learners: Sequence[str]) -> Iterator[list[str]]:
    """Compile missing kernels of all learners but the first in another process, and yield the names of these learners.
    If that fails, or is not done in time, this process compiles them itself."""
    kernels = {name: each.train_kernel for name, each in LEARNERS.items() if name in learners and name != learners[0]}
    later = [name for name, kernel in kernels.items() if kernel is not None and not is_compiled(kernel.load())]
    other = _start_compiling(later)
    try:
        yield [] if other is None else later
    finally:
        if other is not None:
            other.terminate()
            other.wait()


def _start_compiling(learners: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """Start a process that compiles, or return None if there is nothing to do, no file locks or no interpreter.
    It is a new interpreter with the same import path, not a fork, as this process has threads."""
    if not (learners and HAS_LOCKS and sys.executable) or hasattr(sys, "frozen"):
        return None
    code = f"import sys; sys.path[:] = {sys.path!r}\n"
    code += f"from hocket.learn.warmup import compile_apart; compile_apart({list(learners)!r})"
    quiet = subprocess.DEVNULL
    with suppress(OSError):
        return subprocess.Popen([sys.executable, "-c", code], stdin=quiet, stdout=quiet, stderr=quiet)
    return None
