"""Processes that work for the server, and that are ended when they take too long."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress

from hocket.studio.pictures import Data

LONGEST_LINE = 64_000_000  # bytes of an answer
PATIENCE = 10  # times its processor time that a job may take on a busy machine


class CutOffError(Exception):
    """A job that took too long, or whose process has crashed."""


async def start(module: str) -> Process:
    """Start a module of the studio as a process; files in the current folder cannot pass for modules of it."""
    command = (sys.executable, "-P", "-m", f"hocket.studio.{module}")
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LONGEST_LINE)


async def send(process: Process, value: object) -> None:
    """Send a process a value."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(value).encode() + b"\n")
    await process.stdin.drain()


async def end(process: Process) -> None:
    """End a process."""
    with suppress(ProcessLookupError):
        process.kill()
    with suppress(BrokenPipeError, ConnectionResetError):
        await process.communicate()  # so that its pipes are closed, too


class Worker:
    """A process that does one job after another; it is started when it is needed."""

    def __init__(self, limit: float) -> None:
        self.limit = limit  # seconds of processor time that a job may take
        self.starting: asyncio.Task[Process] | None = None
        self.is_ready = False
        self.turn = asyncio.Lock()

    async def ask(self, job: Mapping[str, object]) -> Data:
        """Have a job done; one that takes too long ends the process, and the next job has a new one."""
        async with self.turn:
            process = None
            try:
                process = await self._ready()
                timed = {**job, "seconds": self.limit}
                line = await asyncio.wait_for(_answer(process, timed), PATIENCE * self.limit)
            except TimeoutError:
                await self.close()
                raise self._late() from None
            except (BrokenPipeError, ConnectionResetError):
                line = b""
            except BaseException:
                await self.close()  # or its answer would be taken for that to the next job
                raise
            if not line:
                await self.close()
                if process is not None and process.returncode == -getattr(signal, "SIGPROF", 0):
                    raise self._late()
                raise CutOffError("has crashed; it may have needed too much memory")
        answer: Data = json.loads(line)
        return answer

    def _late(self) -> CutOffError:
        return CutOffError(f"was stopped after {self.limit:g} seconds; the task may be too large to be checked here")

    async def _ready(self) -> Process:
        """Have a process that has loaded all it needs, which on a busy machine takes long and is no job's fault."""
        if self.starting is None:
            self.starting, self.is_ready = asyncio.create_task(start("worker")), False
        process = await asyncio.shield(self.starting)  # or one that is just starting would be lost
        if not self.is_ready:
            await _line_of(process)
            self.is_ready = True
        return process

    async def close(self) -> None:
        """End the process."""
        starting, self.starting = self.starting, None
        if starting is not None:
            await end(await starting)


async def _answer(process: Process, job: Mapping[str, object]) -> bytes:
    await send(process, job)
    return await _line_of(process)


async def _line_of(process: Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()
