"""Compile a learner's kernels before they are needed, one process at a time.

Processes that compile at once would write the same files of numba's cache, and may then read half of each other's.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from hocket.files import locked
from hocket.learn.catalogue import find_learner
from hocket.learn.settings import Settings
from hocket.learn.training import train
from hocket.task.catalogue import rendezvous
from hocket.task.task import Task

_compiled: set[tuple[str, str, int]] = set()
_one_at_a_time = threading.Lock()


def compile_kernels(learner: str, seeds: int = 1, task: Task | None = None, settings: Settings | None = None) -> None:
    """Compile what a learner needs for some seeds side by side on a task, or load it from disk: a step of each."""
    chosen = rendezvous(agents=2, rows=2, columns=2) if task is None else task
    count = max(1, min(seeds, find_learner(learner).side_by_side))
    mark = (learner, chosen.digest, count)
    with _one_at_a_time:
        if mark in _compiled:
            return
        short = replace(settings or find_learner(learner).settings(), test_every=1, episode_steps=1)
        user = os.getuid() if hasattr(os, "getuid") else 0
        with locked(Path(tempfile.gettempdir()) / f"hocket-{user}-compiling.lock"):
            train(chosen, learner, count, 1, short, threads=1)
        _compiled.add(mark)
