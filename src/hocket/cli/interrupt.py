"""Ctrl-C: the first one asks long work to stop and to keep what is finished, the second one ends the command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # exit code of what Ctrl-C has ended, as shells have it


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Turn the first interrupt into a wish to stop; a second one is an interrupt."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
