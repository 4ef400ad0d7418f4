"""Trainings that the page has started: what they have told, and where what they have learnt is."""

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

WISHES = ("stop", "continue")
REPORT = "report.html"


@dataclass
class Training:
    """A process that trains, and all that it has told."""

    process: Process
    folder: Path
    told: list[bytes] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    is_over: bool = False

    async def listen(self) -> None:
        """Keep what the process tells, until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            await self._add(line)
        self.is_over = True
        last = json.loads(self.told[-1]) if self.told else {}
        if last.get("now") != "done" and "refused" not in last:
            await self._add(json.dumps({"now": "ended"}).encode() + b"\n")
        async with self.news:
            self.news.notify_all()

    async def _add(self, line: bytes) -> None:
        async with self.news:
            self.told.append(line)
            self.news.notify_all()

    async def follow(self) -> AsyncIterator[bytes]:
        """Tell everything from the beginning, and then what is new."""
        at = 0
        while True:
            async with self.news:
                while at == len(self.told) and not self.is_over:
                    await self.news.wait()
            new = self.told[at:]
            if not new:
                return
            at += len(new)  # before others have their turn, who may add more
            yield b"".join(new)

    @property
    def policies(self) -> Path | None:
        """The folder of what was learnt last."""
        written = [path for path in self.folder.iterdir() if (path / REPORT).is_file()]
        return max(written, key=lambda path: int(path.name), default=None)


class Trainings:
    """All trainings of a studio; only the last one still runs, or could go on."""

    def __init__(self) -> None:
        self.all: dict[str, Training] = {}
        self.room: tempfile.TemporaryDirectory[str] | None = None  # of what is learnt; made when it is needed
        self.tasks: set[asyncio.Task[None]] = set()

    async def start(self, job: Mapping[str, object]) -> str:
        """Start a training in place of the last one, and give it a name that nobody can guess."""
        await self.close()
        name = secrets.token_urlsafe(18)
        self.room = self.room or tempfile.TemporaryDirectory(prefix="hocket-studio-")
        folder = Path(self.room.name) / name
        folder.mkdir()
        training = Training(await start("trainer"), folder)
        self.all[name] = training
        await send(training.process, {**job, "out": str(folder)})
        listening = asyncio.create_task(training.listen())
        self.tasks.add(listening)
        listening.add_done_callback(self.tasks.discard)
        return name

    def find(self, name: object) -> Training:
        """Find a training by its name."""
        training = self.all.get(name) if isinstance(name, str) else None
        if training is None:
            raise SettingsError("there is no such training any more; the studio may have been started again")
        return training

    async def steer(self, name: object, wish: object) -> None:
        """Let a training stop, or go on."""
        training = self.find(name)
        if wish not in WISHES or training.is_over:
            raise SettingsError(f"a training that runs can stop and continue, got {wish!r:.40}")
        await send(training.process, wish)

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
        """End what still runs; what was learnt is kept."""
        for training in self.all.values():
            if not training.is_over:
                with suppress(ProcessLookupError):
                    training.process.kill()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for training in self.all.values():
            if training.process.returncode is None:
                await end(training.process)

    async def forget(self) -> None:
        """End everything, and drop what was learnt."""
        await self.close()
        if self.room is not None:
            self.room.cleanup()
