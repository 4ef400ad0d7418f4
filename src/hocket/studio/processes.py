"""Processes that work for the server: workers, which are stopped when a job takes too long, and trainings."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hocket.errors import SettingsError
from hocket.studio.pictures import Data

LONGEST_LINE = 64_000_000  # bytes of an answer
REPORT = "report.html"
PATIENCE = 10  # ratio of wall-clock time to processor time that is allowed, for a busy machine


class CutOffError(Exception):
    """A job that was cancelled or took too long, or whose process has crashed."""


async def start(module: str) -> Process:
    """Start a module of the studio as a process; modules in the current folder are not imported."""
    command = (sys.executable, "-P", "-m", f"hocket.studio.{module}")
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LONGEST_LINE)


async def send(process: Process, value: object) -> None:
    """Write a value as a line of JSON to a process."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(value).encode() + b"\n")
    await process.stdin.drain()


async def end(process: Process) -> None:
    """End a process."""
    with suppress(ProcessLookupError):
        process.kill()
    with suppress(BrokenPipeError, ConnectionResetError):
        await process.communicate()  # closes its pipes, too


@dataclass
class Worker:
    """A process that does one job after another; it is started with the first job."""

    limit: float  # seconds of processor time for a job
    starting: asyncio.Task[Process] | None = None
    is_ready: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, job: Mapping[str, object]) -> Data:
        """Do a job; one that takes too long ends the process, and the next job starts a new one."""
        async with self.turn:
            process, line, is_late = None, b"", False
            try:
                process = await self._ready()
                line = await asyncio.wait_for(_line_of(process, {**job, "seconds": self.limit}), PATIENCE * self.limit)
            except (BrokenPipeError, ConnectionResetError, TimeoutError) as error:
                is_late = isinstance(error, TimeoutError)
            finally:
                if not line:
                    await self.close()  # else its late answer would be taken for that to the next job
        if is_late or (not line and process is not None and process.returncode == -getattr(signal, "SIGPROF", 0)):
            raise CutOffError(f"was stopped after {self.limit:g} seconds; the task may be too large for the studio")
        if not line:
            raise CutOffError("has crashed; it may have needed too much memory")
        return dict(json.loads(line))

    async def _ready(self) -> Process:
        """Return the process once it has loaded its modules, which counts as no job's time."""
        if self.starting is None:
            self.starting, self.is_ready = asyncio.create_task(start("worker")), False
        process = await asyncio.shield(self.starting)  # else cancelling would lose a process that is just starting
        if not self.is_ready:
            await _line_of(process)
            self.is_ready = True
        return process

    async def close(self) -> None:
        """End the process."""
        starting, self.starting = self.starting, None
        if starting is not None:
            await end(await starting)


async def _line_of(process: Process, job: Mapping[str, object] | None = None) -> bytes:
    """Send a process a job, if there is one, and read the next line of its output."""
    if job is not None:
        await send(process, job)
    assert process.stdout is not None
    return await process.stdout.readline()


@dataclass
class TrainingProcess:
    """A process that trains, with all its messages."""

    process: Process
    folder: Path
    messages: list[bytes] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    is_over: bool = False

    async def listen(self) -> None:
        """Keep the messages of the process until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self.news:
                self.messages.append(line)
                self.news.notify_all()
        last = json.loads(self.messages[-1]) if self.messages else {}
        async with self.news:
            if last.get("now") != "done" and "refused" not in last:
                self.messages.append(b'{"now": "ended"}\n')
            self.is_over = True
            self.news.notify_all()

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield all messages so far, then new ones."""
        sent = 0
        while True:
            async with self.news:
                while sent == len(self.messages) and not self.is_over:
                    await self.news.wait()
            if not (new := self.messages[sent:]):
                return
            sent += len(new)  # before other tasks add more
            yield b"".join(new)

    @property
    def policies(self) -> Path | None:
        """The folder of the latest policies."""
        folders = [path for path in self.folder.iterdir() if (path / REPORT).is_file()]
        return max(folders, key=lambda path: int(path.name), default=None)


@dataclass
class Trainings:
    """All trainings of a studio; at most the last one is running or stopped, the others have ended."""

    all: dict[str, TrainingProcess] = field(default_factory=dict)
    folder: tempfile.TemporaryDirectory[str] | None = None  # of all runs; made for the first
    listening: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self, job: Mapping[str, object]) -> str:
        """Start a training in place of the last one, and return its name, which cannot be guessed."""
        await self.close()
        name = secrets.token_urlsafe(18)
        self.folder = self.folder or tempfile.TemporaryDirectory(prefix="hocket-studio-")
        folder = Path(self.folder.name) / name
        folder.mkdir()
        training = TrainingProcess(await start("trainer"), folder)
        self.all[name] = training
        await send(training.process, {**job, "out": str(folder)})
        self.listening.append(asyncio.create_task(training.listen()))
        return name

    def find(self, name: object) -> TrainingProcess:
        """Find a training by its name."""
        training = self.all.get(name) if isinstance(name, str) else None
        if training is None:
            raise SettingsError("this training no longer exists; the studio may have been restarted")
        return training

    async def send_command(self, name: object, command: object) -> None:
        """Stop or continue a training."""
        training = self.find(name)
        if command not in ("stop", "continue") or training.is_over:
            raise SettingsError(f"a running training takes the commands stop and continue, got {command!r:.40}")
        await send(training.process, command)

    def report(self, name: str, number: str) -> Path | None:
        """Find a report that a training has written."""
        if name not in self.all or not (number.isascii() and number.isdecimal()):
            return None
        path = self.all[name].folder / number / REPORT
        return path if path.is_file() else None

    async def close(self) -> None:
        """End running trainings, and keep their runs."""
        for training in self.all.values():
            with suppress(ProcessLookupError):
                training.process.kill()
        await asyncio.gather(*self.listening, return_exceptions=True)
        for training in self.all.values():
            await end(training.process)

    async def forget(self) -> None:
        """End running trainings, and delete all runs."""
        await self.close()
        if self.folder is not None:
            self.folder.cleanup()
