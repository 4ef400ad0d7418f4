"""tasks, new and studio: the built-in tasks, a new task file, and a page in the browser to edit it."""

from __future__ import annotations

import shlex
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import Flag, Json, MaybeNumber, MaybePath, option
from hocket.cli.terminal import make_console, print_entries, print_json
from hocket.errors import FormatError, SettingsError, counted, needs_extra, printable
from hocket.files import exists, write_whole
from hocket.task.catalogue import known_tasks, load_task, save_task, source_of

DEFAULT_PORT = 8377  # always the same, so that an open page works when the studio is restarted
LARGEST_PORT = 65_535


@dataclass(frozen=True)
class ListTasks:
    """List the built-in tasks."""

    json: Json = False

    def run(self) -> int:
        document, entries = {}, {}
        for name, task in known_tasks().items():
            rows, columns, agents = task.grid.rows, task.grid.columns, list(task.agents)
            document[name] = {"description": task.description, "agents": agents, "rows": rows, "columns": columns}
            entries[name] = f"{task.description} ({counted(len(agents), 'agent')}, {rows} x {columns} cells)"
        if self.json:
            return print_json(document)
        console = make_console()
        print_entries(console, entries)
        advice = "Any team size: rendezvous-5, crew-4. Copy a task to edit it: hocket new FILE --from NAME"
        console.print(advice, style="dim")
        return 0


@dataclass(frozen=True)
class New:
    """Write a new task file: a small commented example, or a copy of a built-in task."""

    out: Annotated[Positional[Path], option("FILE")]
    """The file to write (.toml). An existing file is never overwritten."""
    source: Annotated[str, option("TASK", name="from")] = ""
    """A task that `hocket tasks` lists, or one of its sizes (rendezvous-5, crew-4)."""

    def run(self) -> int:
        if self.out.suffix.lower() != ".toml":
            raise FormatError("a task file ends in .toml", path=self.out)
        if exists(self.out):
            raise FormatError("exists already, and is not overwritten", path=self.out)
        content = source_of(self.source)
        if content is None:
            save_task(load_task(self.source), self.out)
        else:
            write_whole(self.out, content)
        written = printable(str(self.out))
        words = shlex.quote(written)
        make_console().print(f"Wrote {written}. Next: hocket check {words}, hocket play {words}")
        return 0


@dataclass(frozen=True)
class OpenStudio:
    """Edit a task in the browser: draw it, see whether it is decomposable while you type, play it, train on it."""

    target: Annotated[Positional[MaybePath], option("[FILE]")] = None
    """A task or machine (.toml; other formats are imported), or a new file. The page opens all files in its folder."""
    port: MaybeNumber = None  # Port on 127.0.0.1 (default: 8377, or any free port if it is taken).
    no_browser: Flag = False  # Do not open a browser.

    def run(self) -> int:
        with needs_extra("the studio", "studio"):
            import webbrowser

            import uvicorn

            from hocket.studio.server import Studio
        with _listen(self.port) as listening:
            studio = Studio.for_file(self.target, listening.getsockname()[1])
            print(studio.address, flush=True)
            make_console(stderr=True).print("Press Ctrl-C to stop the studio and any training in it.", style="dim")
            if not self.no_browser:
                Thread(target=webbrowser.open, args=[studio.address], daemon=True).start()
            config = uvicorn.Config(studio.app(), log_level="error", server_header=False, timeout_graceful_shutdown=1)
            uvicorn.Server(config).run(sockets=[listening])
        return 0


def _listen(port: int | None) -> socket.socket:
    """Listen on this machine: at the given port, or at the default one or any free one."""
    if port is not None and not 0 <= port <= LARGEST_PORT:
        raise SettingsError(f"--port must be from 0 to {LARGEST_PORT:,}, got {port}")
    for number in [DEFAULT_PORT, 0] if port is None else [port]:
        with suppress(OSError):
            listening = socket.create_server(("127.0.0.1", number))  # connections wait until the server is ready
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: answers are not held back
            return listening
    raise SettingsError(f"--port {port or DEFAULT_PORT} is taken by another program")
