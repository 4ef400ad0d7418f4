"""studio: design a task in the browser, with the proof redrawn at every keystroke."""

from __future__ import annotations

import socket
import webbrowser
from dataclasses import dataclass
from threading import Thread
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import Flag, MaybeNumber, MaybePath, option
from hocket.cli.terminal import make_console
from hocket.errors import SettingsError, needs_extra

USUAL_PORT = 8377  # of a page that is open when the studio is started again
LARGEST_PORT = 65_535


@dataclass(frozen=True)
class OpenStudio:
    """Edit a task in the browser: draw it, see whether it is decomposable as you type, play it, train on it."""

    target: Annotated[Positional[MaybePath], option("[FILE]")] = None
    """A task or machine (.toml; machines in other formats are imported). It may be a new file. The page can open other
    files in the same folder and below."""
    port: MaybeNumber = None
    """Port on 127.0.0.1 (default: 8377, or any free port if it is taken)."""
    no_browser: Flag = False
    """Do not open a browser."""

    def run(self) -> int:
        with needs_extra("the studio", "studio"):
            import uvicorn

            from hocket.studio.server import Studio
        with _listen(self.port) as listening:
            studio = Studio.of(self.target, listening.getsockname()[1])
            print(studio.address, flush=True)
            make_console(stderr=True).print("Press Ctrl-C to stop the studio and any training in it.", style="dim")
            if not self.no_browser:
                Thread(target=webbrowser.open, args=[studio.address], daemon=True).start()
            config = uvicorn.Config(studio.app(), log_level="error", server_header=False, timeout_graceful_shutdown=1)
            uvicorn.Server(config).run(sockets=[listening])
        return 0


def _listen(port: int | None) -> socket.socket:
    """Listen on this machine: at a port that was asked for, or else at the usual one, or at any."""
    if port is not None and not 0 <= port <= LARGEST_PORT:
        raise SettingsError(f"--port must be from 0 to {LARGEST_PORT:,}, got {port}")
    wanted = [USUAL_PORT, 0] if port is None else [port]
    for number in wanted:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", number))
            listening.listen()  # whoever comes before the server is ready waits, and is not refused
        except OSError:
            listening.close()
            continue
        return listening
    raise SettingsError(f"--port {wanted[0]} is taken by another program")
