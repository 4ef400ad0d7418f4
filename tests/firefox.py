"""Firefox, driven by its own protocol (Marionette), so that no driver has to be installed beside it."""

import json
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

NAMES = ("firefox-esr", "firefox")
LOOK_AGAIN = 0.05  # seconds
PREFERENCES = {"marionette.port": 0, "browser.shell.checkDefaultBrowser": False, "datareporting.policy.firstRunURL": ""}


def find_firefox() -> str | None:
    """Find the program, where it is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Firefox:
    """A window of Firefox, without a screen."""

    def __init__(self, program: str, profile: Path, patience: float) -> None:
        self.patience, self.sent = patience, 0
        lines = (f'user_pref("{name}", {json.dumps(value)});\n' for name, value in PREFERENCES.items())
        (profile / "user.js").write_text("".join(lines), encoding="utf-8")
        self.process = subprocess.Popen(
            [program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port = self._until((profile / "MarionetteActivePort").exists) and self._until(
            lambda: (profile / "MarionetteActivePort").read_text(encoding="utf-8").strip()
        )
        self.connection = socket.create_connection(("127.0.0.1", int(port)), timeout=patience)
        self.answers = self.connection.makefile("rb")
        self._read()  # which protocol it speaks
        self.command("WebDriver:NewSession", capabilities={"alwaysMatch": {"pageLoadStrategy": "normal"}})

    def _until(self, condition):
        end = time.monotonic() + self.patience
        while not (answer := condition()):
            assert time.monotonic() < end, "Firefox does not get there"
            threading.Event().wait(LOOK_AGAIN)
        return answer

    def _read(self):
        size = b""
        while (digit := self.answers.read(1)) != b":":
            assert digit, "Firefox has ended"
            size += digit
        return json.loads(self.answers.read(int(size)))

    def command(self, name, **arguments):
        """Let it do something; return its answer."""
        self.sent += 1
        message = json.dumps([0, self.sent, name, arguments])
        self.connection.sendall(f"{len(message.encode())}:{message}".encode())
        _, number, error, answer = self._read()
        assert number == self.sent and error is None, error
        return answer

    def open(self, address: str) -> None:
        """Open a page."""
        self.command("WebDriver:Navigate", url=address)

    def ask(self, script: str):
        """Evaluate an expression on the page."""
        return self.command("WebDriver:ExecuteScript", script=f"return {script};", args=[])["value"]

    def wait(self, script: str):
        """Wait until an expression is true on the page, and return it."""
        return self._until(lambda: self.ask(script))

    def click(self, selector: str) -> None:
        """Click on the first element of a selector, when it is there."""
        self.wait(f"(each => each && (each.click(), true))(document.querySelector({json.dumps(selector)}))")

    def close(self) -> None:
        """End it."""
        self.answers.close()
        self.connection.close()
        self.process.kill()
        self.process.wait()
