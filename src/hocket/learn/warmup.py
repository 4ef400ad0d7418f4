"""Compile a learner's kernels before they are needed, one process at a time.

Processes that compile at once would write the same files of numba's cache, and may then read half of each other's.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

from hocket.files import locked
from hocket.learn.catalogue import find_learner
from hocket.learn.training import train
from hocket.task.catalogue import rendezvous

_compiled: set[tuple[str, bool]] = set()
_one_at_a_time = threading.Lock()


def compile_kernels(learner: str, seeds: int = 1) -> None:
    """Compile what a learner needs for some seeds side by side, or load it from disk."""
    enough = find_learner(learner).side_by_side
    many = 0 < enough <= seeds
    with _one_at_a_time:
        if (learner, many) in _compiled:
            return
        user = os.getuid() if hasattr(os, "getuid") else 0
        with locked(Path(tempfile.gettempdir()) / f"hocket-{user}-compiling.lock"):
            task = rendezvous(agents=2, rows=2, columns=2)
            train(task, learner, enough if many else 1, steps=2, threads=1, changes={"test_every": 1})
        _compiled.add((learner, many))
