"""The supervisor: starts the processes of a run, starts those again that die, and ends them at the end."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hocket.errors import HocketError
from hocket.runtime.settings import WORLD, RunSettings

LONGEST_LINE = 1_000_000  # bytes of what a process tells
TOO_SOON, TOO_OFTEN = 1.0, 20  # a process that dies so soon, so often in a row, is not started again
GRACE = 10.0  # seconds to end in
STANDSTILL = 3.0  # seconds without news after which a team that may not step any more has ended
LINGER = 3.0  # seconds for which an agent on its own goes on answering when it has finished
PAUSE = 0.02  # seconds between looks

Status = dict[str, Any]
Watch = Callable[[str, Status], None]


class Supervisor:
    """The processes of a run that are on this machine."""

    def __init__(self, settings: RunSettings, folder: Path, names: Iterable[str], watch: Watch) -> None:
        self.settings, self.folder, self.watch = settings, folder, watch
        self.names = tuple(names)
        self.agents = [name for name in self.names if name != WORLD]
        self.status: dict[str, Status] = {name: {} for name in self.names}
        self.processes: dict[str, Process] = {}
        self.restarts = dict.fromkeys(self.names, 0)
        self.error: str | None = None
        self.ending = False
        self.heard = time.monotonic()
        self.linger = 0.0 if WORLD in self.names else LINGER
        self.since: float | None = None  # when all were found to be finished

    async def run(self, stop: Callable[[], bool]) -> None:
        """Keep the processes alive until all agents have finished, may not step any more, or `stop` says so."""
        keepers = [asyncio.create_task(self._keep(name)) for name in self.names]
        try:
            while not (stop() or self.error or self._is_over()):
                await asyncio.sleep(PAUSE)
        finally:
            self.ending = True
            for process in self.processes.values():
                with suppress(ProcessLookupError):
                    process.terminate()
            _, late = await asyncio.wait(keepers, timeout=GRACE)
            for process in self.processes.values() if late else ():
                with suppress(ProcessLookupError):
                    process.kill()
            await asyncio.gather(*keepers, return_exceptions=True)
            for name in self.names:
                (self.folder / f"{name}.pid").unlink(missing_ok=True)
        if self.error:
            raise HocketError(self.error)

    @property
    def is_finished(self) -> bool:
        """Whether the machines of all agents here are final, and everything has been told."""
        return bool(self.agents) and all(self.status[name].get("finished") for name in self.agents)

    def _is_over(self) -> bool:
        if not self.agents:
            return False  # a world alone goes on
        if self.is_finished:
            self.since = self.since or time.monotonic()
            return time.monotonic() - self.since >= self.linger
        self.since = None
        steps = self.settings.steps
        at_rest = all(self.status[name].get("steps", 0) >= steps for name in self.agents)
        return at_rest and time.monotonic() - self.heard > STANDSTILL

    async def _keep(self, name: str) -> None:
        """Start a process, and again whenever it dies."""
        soon = 0
        while not self.ending and not self.error:
            begun = time.monotonic()
            command = (sys.executable, "-P", "-m", "hocket.runtime.worker", str(self.folder), name)
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LONGEST_LINE, start_new_session=True
            )
            self.processes[name] = process
            await self._listen(name, process)
            if await process.wait() == 2:
                self.error = str(self.status[name].get("error", f"{name} has ended"))
            if self.ending or self.error:
                return
            self.restarts[name] += 1
            self._tell(name, {**self.status[name], "finished": False, "down": True})
            soon = soon + 1 if time.monotonic() - begun < TOO_SOON else 0
            if soon > TOO_OFTEN:
                self.error = f"{name} dies again and again as soon as it is started"

    async def _listen(self, name: str, process: Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            with suppress(ValueError):
                status = json.loads(line)
                if isinstance(status, dict):
                    self._tell(name, status)

    def _tell(self, name: str, status: Mapping[str, Any]) -> None:
        self.heard = time.monotonic()
        self.status[name] = dict(status)
        self.watch(name, self.status[name])
