"""Trainings that the page has started: their messages, and the folders of their runs."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hocket.errors import SettingsError
from hocket.studio.processes import end, send, start

COMMANDS = ("stop", "continue")
REPORT = "report.html"


@dataclass
class TrainingProcess:
    """A process that trains, and all its messages."""

    process: Process
    folder: Path
    messages: list[bytes] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    is_over: bool = False

    async def listen(self) -> None:
        """Keep the messages of the process until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            await self._add(line)
        self.is_over = True
        last = json.loads(self.messages[-1]) if self.messages else {}
        if last.get("now") != "done" and "refused" not in last:
            await self._add(json.dumps({"now": "ended"}).encode() + b"\n")
        async with self.news:
            self.news.notify_all()

    async def _add(self, line: bytes) -> None:
        async with self.news:
            self.messages.append(line)
            self.news.notify_all()

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield all messages so far, then new ones."""
        at = 0
        while True:
            async with self.news:
                while at == len(self.messages) and not self.is_over:
                    await self.news.wait()
            new = self.messages[at:]
            if not new:
                return
            at += len(new)  # before others have their turn, who may add more
            yield b"".join(new)

    @property
    def policies(self) -> Path | None:
        """The folder of the latest policies."""
        folders = [path for path in self.folder.iterdir() if (path / REPORT).is_file()]
        return max(folders, key=lambda path: int(path.name), default=None)


class Trainings:
    """All trainings of a studio; only the last one still runs, or could go on."""

    def __init__(self) -> None:
        self.all: dict[str, TrainingProcess] = {}
        self.folder: tempfile.TemporaryDirectory[str] | None = None  # of all runs; made when it is needed
        self.tasks: set[asyncio.Task[None]] = set()

    async def start(self, job: Mapping[str, object]) -> str:
        """Start a training in place of the last one, and give it a name that nobody can guess."""
        await self.close()
        name = secrets.token_urlsafe(18)
        self.folder = self.folder or tempfile.TemporaryDirectory(prefix="hocket-studio-")
        folder = Path(self.folder.name) / name
        folder.mkdir()
        training = TrainingProcess(await start("trainer"), folder)
        self.all[name] = training
        await send(training.process, {**job, "out": str(folder)})
        listening = asyncio.create_task(training.listen())
        self.tasks.add(listening)
        listening.add_done_callback(self.tasks.discard)
        return name

    def find(self, name: object) -> TrainingProcess:
        """Find a training by its name."""
        training = self.all.get(name) if isinstance(name, str) else None
        if training is None:
            raise SettingsError("this training no longer exists; the studio may have been restarted")
        return training

    async def steer(self, name: object, command: object) -> None:
        """Stop or continue a training."""
        training = self.find(name)
        if command not in COMMANDS or training.is_over:
            raise SettingsError(f"a running training takes the commands stop and continue, got {command!r:.40}")
        await send(training.process, command)

    def report(self, name: str, number: str) -> Path | None:
        """Find a report that a training has written."""
        training = self.all.get(name)
        path = (
            training.folder / number / REPORT
            if training is not None and number.isascii() and number.isdecimal()
            else None
        )
        return path if path is not None and path.is_file() else None

    async def close(self) -> None:
        """End running trainings; their runs are kept."""
        for training in self.all.values():
            if not training.is_over:
                with suppress(ProcessLookupError):
                    training.process.kill()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for training in self.all.values():
            if training.process.returncode is None:
                await end(training.process)

    async def forget(self) -> None:
        """End running trainings, and delete all runs."""
        await self.close()
        if self.folder is not None:
            self.folder.cleanup()
