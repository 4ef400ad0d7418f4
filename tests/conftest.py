"""What tests of several files share."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")  # =0: tests use the graphics processor that is there
os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads would wait for each other, and for other tests

import set_up

set_up.share_bytecode()
gc.disable()  # until all tests are collected

from hocket.cli import main as cli  # noqa: E402 (compiled where all processes find it)
from searches import examples  # noqa: E402

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell: all programs here would ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("hocket", examples(40, suppress_health_check=[HealthCheck.too_slow]))  # machines are busy
settings.load_profile("hocket")

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip  # of Chromium
PATIENCE = 120_000  # milliseconds, with a page on a busy machine
COMPILING = 3 * PATIENCE  # with a learner that has to be compiled first
TRACED_SECONDS = 1.0  # of each test, in which coverage is measured


def pytest_collection_finish() -> None:
    """Look for garbage rarely, and only among what tests make: modules and tests stay."""
    freeze()
    gc.set_threshold(*cli.GC_THRESHOLDS)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Look for garbage once: pytest will do so ten times."""
    freeze()


def freeze() -> None:
    """Look for garbage, and leave out what is there now from then on."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch):
    """Forget what the surroundings say about colours."""
    for name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def browser():
    """Start Chromium, which `set_up.py` installs where it can."""
    from playwright.sync_api import expect, sync_playwright  # only where there is a page to look at

    path = set_up.find_browser()
    if path is None:
        pytest.skip("there is no Chromium here; on Debian and Ubuntu: apt-get install chromium-headless-shell")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=path, args=[*FLAGS])
        yield started
        started.close()


@pytest.fixture
def hocket(capsys):
    """Run a command inside this process; return its exit code, what it printed, and what it said on stderr."""

    def run(*args: str | Path) -> tuple[int, str, str]:
        try:
            code = cli.run([str(arg) for arg in args])
        except SystemExit as stopped:
            code = stopped.code
        return code, *capsys.readouterr()

    return run


@contextmanager
def traced_at_first() -> Iterator[None]:
    """Measure coverage for a while only: what goes on longer passes the same lines again, at three times the time."""
    tracer = sys.gettrace()
    if tracer is None or not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGVTALRM, lambda *_: sys.settrace(None))
    signal.setitimer(signal.ITIMER_VIRTUAL, TRACED_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.settrace(tracer)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Measure coverage of fixtures at first."""
    with traced_at_first():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Measure coverage of a test at first."""
    with traced_at_first():
        return (yield)
