"""Work in threads that nobody has to wait for: results as they come, and an end soon after somebody asks for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, takewhile
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, TypeVar

GLANCE = 0.1  # seconds between looks at whether to stop
GRACE = 1.0  # seconds for work to end by itself when it should

Item = TypeVar("Item")
Result = TypeVar("Result")


def gather(sources: Sequence[Iterable[Result]], stop: Event) -> Iterator[Result]:
    """Go through several sources at once, each in a thread of its own, and give what they have as it comes.

    An error in one ends all, by setting `stop`. Once it is set, sources have a moment to end; what does not is left
    behind in its thread, which ends with the process at the latest. So whoever gathers is never held up.
    """
    results: SimpleQueue[Result | _End] = SimpleQueue()
    gone = Event()  # nobody takes anything any more
    for source in sources:
        Thread(target=_drain, args=(source, results, gone), daemon=True).start()
    open_sources, deadline = len(sources), float("inf")
    try:
        while open_sources:
            try:
                item = results.get(timeout=GLANCE)  # not stop.wait, whose lock a handler of signals may need
            except Empty:
                deadline = min(deadline, time.monotonic() + GRACE) if stop.is_set() else deadline
                if time.monotonic() >= deadline:
                    return
                continue
            if not isinstance(item, _End):
                yield item
            elif item.error is not None:
                raise item.error
            else:
                open_sources -= 1
    except BaseException:
        stop.set()
        raise
    finally:
        gone.set()


def take_turns(work: Callable[[Item], Result], items: Iterable[Item], threads: int, stop: Event) -> Iterator[Result]:
    """Do something with each item, in threads that take the next one that nobody has begun, until `stop` is set."""
    waiting = iter(list(items))
    turns = [map(work, takewhile(lambda _: not stop.is_set(), waiting)) for _ in range(threads)]
    return gather(turns, stop)


def in_pieces(items: Iterable[Result], size: int, stop: Event) -> Iterator[list[Result]]:
    """Cut items into pieces, and give no more of them once `stop` is set; the first one comes in any case.

    >>> list(in_pieces("abcde", 2, Event()))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    waiting = iter(items)
    while piece := list(islice(waiting, size)):
        yield piece
        if stop.is_set():
            return


def unless_stopped(work: Callable[[], Result], stop: Event) -> Result | None:
    """Do something in a thread; None, if it should stop before that is done."""
    results = list(gather([(act() for act in [work])], stop))
    return results[0] if results else None


def in_threads(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> list[Result]:
    """Do something with each item, in so many threads, and list what comes of it; with one thread, here.

    After an error nothing more is begun, and what was begun has ended.
    """
    if threads == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


class _End(NamedTuple):
    """A source has nothing more to give."""

    error: BaseException | None = None


def _drain(source: Iterable[Result], results: SimpleQueue[Result | _End], gone: Event) -> None:
    end = _End()
    try:
        for item in source:
            results.put(item)
            if gone.is_set():
                break
    except BaseException as error:  # whoever gathers raises it
        end = _End(error)
    results.put(end)
