"""Work in threads that nobody has to wait for."""

import threading
from itertools import count

import pytest

from hocket import background
from hocket.background import gather, in_pieces, unless_stopped

PATIENCE = 60  # seconds


def test_all_that_sources_have_is_gathered():
    found = list(gather([range(10), "abc", ()], threading.Event()))
    assert sorted(map(str, found)) == sorted(map(str, [*range(10), *"abc"]))
    assert [item for item in found if isinstance(item, int)] == [*range(10)]


def test_sources_go_side_by_side():
    both = threading.Barrier(2)

    def source():
        yield both.wait(PATIENCE)

    assert sorted(gather([source(), source()], threading.Event())) == [0, 1]


def test_an_error_in_a_source_is_raised_and_ends_the_others():
    stop, ended = threading.Event(), threading.Event()

    def waiting():
        stop.wait(PATIENCE)
        ended.set()
        yield from ()

    def failing():
        yield 1
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        list(gather([waiting(), failing()], stop))
    assert stop.is_set() and ended.wait(PATIENCE)


def test_whoever_has_enough_ends_the_sources():
    stop, ended = threading.Event(), threading.Event()

    def endless():
        try:
            yield from count()
        finally:
            ended.set()

    found = gather([endless()], stop)
    assert next(found) == 0
    found.close()
    assert stop.is_set() and ended.wait(PATIENCE)


def test_what_a_source_still_has_when_it_should_stop_is_given():
    stop = threading.Event()

    def finishing():
        stop.wait(PATIENCE)
        yield "last"

    stop.set()
    assert list(gather([finishing()], stop)) == ["last"]


def test_a_thread_that_does_not_stop_is_abandoned(monkeypatch):
    monkeypatch.setattr(background, "GRACE", 0)
    stop, never = threading.Event(), threading.Event()

    def deaf():
        yield "first"
        never.wait()
        yield "too late"

    found = gather([deaf()], stop)
    assert next(found) == "first"
    stop.set()
    assert list(found) == []
    never.set()


def test_work_is_done_unless_somebody_wishes_to_stop():
    stop, never = threading.Event(), threading.Event()
    assert unless_stopped(lambda: 42, stop) == 42 and not stop.is_set()
    stop.set()
    assert unless_stopped(never.wait, stop) is None
    never.set()


def test_work_that_fails_fails_for_whoever_waits_for_it():
    with pytest.raises(ZeroDivisionError):
        unless_stopped(lambda: 1 / 0, threading.Event())


def test_a_wish_to_stop_is_heard_after_every_piece():
    stop, taken = threading.Event(), count()
    found = []
    for piece in in_pieces(taken, 3, stop):  # which never ends by itself
        found.append(piece)
        if len(found) == 2:
            stop.set()
    assert found == [[0, 1, 2], [3, 4, 5]] and next(taken) == 6
    assert list(in_pieces("ab", 3, stop)) == [["a", "b"]]  # what is one piece anyway is not cut short
