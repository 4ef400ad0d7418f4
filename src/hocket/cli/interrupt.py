"""Ctrl-C and SIGTERM: the first asks long work to stop and to keep what is finished, the second ends the command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
BY_SIGNAL = 128  # added to the number of the signal that has ended a command, that is its exit code, as shells have it
INTERRUPTED = BY_SIGNAL + signal.SIGINT


class SignalStop(threading.Event):
    """A wish to stop, and the exit code of what it has ended; 0, as long as nobody wishes it."""

    code = 0


@contextmanager
def stopping() -> Iterator[SignalStop]:
    """Turn the first signal into a wish to stop; a second one is an interrupt."""
    stop = SignalStop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.code:  # and not is_set, for a signal may come while another one is being handled
            raise KeyboardInterrupt
        stop.code = BY_SIGNAL + number
        stop.set()

    previous = [signal.signal(number, handle) for number in SIGNALS]
    try:
        yield stop
    finally:
        for number, handler in zip(SIGNALS, previous, strict=True):
            signal.signal(number, handler)
