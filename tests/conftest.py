"""What tests of several files share."""

from pathlib import Path

import pytest

from hocket.cli import main as cli


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch):
    """Forget what the surroundings say about colours."""
    for name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


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
