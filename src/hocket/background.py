"""Background threads: results are consumed as they come, and work ends soon after a request to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, takewhile
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, TypeVar

GLANCE = 0.1  # seconds between checks whether to stop
GRACE = 1.0  # seconds for work to end by itself when it should

Item = TypeVar("Item")
Result = TypeVar("Result")


def gather(sources: Sequence[Iterable[Result]], stop: Event) -> Iterator[Result]:
    """Iterate over several sources at once, each in its own thread, and yield their items as they come.

    An error in one ends all, by setting `stop`. Then sources have `GRACE` seconds to end; threads that do not are left
    running and end with the process. So the consumer never waits for them.
    """
    results: SimpleQueue[Result | _End] = SimpleQueue()
    is_over = Event()  # no more items are consumed
    for source in sources:
        Thread(target=_drain, args=(source, results, is_over), daemon=True).start()
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
        is_over.set()


def take_turns(work: Callable[[Item], Result], items: Iterable[Item], threads: int, stop: Event) -> Iterator[Result]:
    """Map a function over items in threads, each of which takes the next item, until `stop` is set."""
    remaining = iter(list(items))
    return gather([map(work, takewhile(lambda _: not stop.is_set(), remaining)) for _ in range(threads)], stop)


def in_pieces(items: Iterable[Result], size: int, stop: Event) -> Iterator[list[Result]]:
    """Cut items into pieces, until `stop` is set; the first one is yielded in any case.

    >>> list(in_pieces("abcde", 2, Event()))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    remaining = iter(items)
    while piece := list(islice(remaining, size)):
        yield piece
        if stop.is_set():
            return


def unless_stopped(work: Callable[[], Result], stop: Event) -> Result | None:
    """Call a function in a thread; return its result, or None if `stop` is set first."""
    results = list(gather([(call() for call in [work])], stop))
    return results[0] if results else None


def in_threads(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> list[Result]:
    """Map a function over items in so many threads; with one thread, in this one. After an error no more calls begin,
    and those that had begun have ended."""
    if threads == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


class _End(NamedTuple):
    """The end of a source."""

    error: BaseException | None = None


def _drain(source: Iterable[Result], results: SimpleQueue[Result | _End], is_over: Event) -> None:
    end = _End()
    try:
        for item in source:
            results.put(item)
            if is_over.is_set():
                break
    except BaseException as error:  # which `gather` raises
        end = _End(error)
    results.put(end)
