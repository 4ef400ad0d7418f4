"""A process of a run: an agent of a grid task, or its world. `hocket run` starts them, and restarts those that die.

It reads `run.json` in its folder, writes its status to standard output, and ends when its standard input does. The
world moves agents on request; requests are numbered, so that a move is not made twice if one of the two was killed
before the answer arrived.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from hocket.errors import HocketError
from hocket.files import write_whole
from hocket.runtime.host import Host
from hocket.runtime.log import AgentLog
from hocket.runtime.settings import WORLD, RunSettings, Walk, read_settings
from hocket.runtime.transport import Streams, dial, listen, receive_greeting
from hocket.task.grid import ACTIONS

RETRY = 0.05  # seconds until the world is asked again
STAY = ACTIONS.index("stay")


class Walker:
    """An agent that moves by a table of actions, and agrees on events where it stands."""

    def __init__(self, settings: RunSettings, agent: str, folder: Path) -> None:
        self.settings, self.agent = settings, agent
        self.host = Host(settings, agent, folder / f"{agent}.log")
        self.host.on_event = self.print_status
        self.moves, self.cell = -1, settings.task.agents[agent].starts[0]  # -1: the world has not been asked yet
        self.before: int | None = None  # the cell before the last move
        self.streams: Streams | None = None  # to the world
        self.actions = np.load(folder / f"{agent}.actions.npy", allow_pickle=False)  # [states, cells] as bits
        self.random = Random(f"{settings.seed} {agent}")
        self.states = tuple(settings.plan.machines[self.host.number].states)
        self.printed = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Stand still and move in turn, as long as the world answers, until `stop` is set."""
        host, pause = self.host, 1 / self.settings.pace if self.settings.pace else 0
        await host.start()
        while not stop.is_set():
            if self.streams is None and not await self.ask():
                await _pause(stop, RETRY)
                continue
            host.perceive(host.conditions(self.cell, self.before), self.moves)
            self.print_status()
            await _pause(stop, pause)
            if host.participant.holding or stop.is_set() or self.moves >= self.settings.steps or host.is_finished:
                continue
            host.move(self.moves)
            best = int(self.actions[host.participant.state, self.cell])
            actions = [action for action in range(len(ACTIONS)) if best >> action & 1] or [STAY]
            await self.ask(self.random.choice(actions), host.participant.state)
        await host.stop()
        self.print_status()

    async def ask(self, action: int = -1, state: int = 0) -> bool:
        """Make a move, or without an action ask for the agent's cell; close the connection if there is no answer."""
        try:
            if self.streams is None:
                self.streams = await dial(self.settings, self.agent, WORLD)
            reader, writer = self.streams
            request = {"number": self.moves + 1 if action >= 0 else 0, "action": action, "state": state}
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            answer = json.loads(await reader.readline())
            before = answer["before"]
            self.moves, self.cell = int(answer["number"]), int(answer["cell"])
            self.before = None if before is None else int(before)
        except (OSError, ValueError, KeyError, TypeError):
            if self.streams is not None:
                self.streams[1].close()
            self.streams = None
            return False
        return True

    def print_status(self) -> None:
        """Print the status, if it has changed."""
        host, participant = self.host, self.host.participant
        status: dict[str, object] = {"state": self.states[participant.state], "cell": self.cell}
        status |= {"steps": max(0, self.moves), "events": len(host.events), "last": host.events[-1:]}
        status |= {"holding": participant.holding, "final": participant.is_final, "finished": host.is_finished}
        status["refused"] = host.transport.refused
        if (line := json.dumps(status)) != self.printed:
            self.printed = line
            print(line, flush=True)


class WorldServer:
    """The world process."""

    def __init__(self, settings: RunSettings, folder: Path) -> None:
        self.settings = settings
        self.walks = settings.walks()
        self.log = AgentLog(folder / f"{WORLD}.log", settings.header(WORLD), durable=settings.durable)
        for entry in self.log.entries:
            if entry[0] == "move":
                self.walks[str(entry[1])].go(int(entry[2]), int(entry[5]))
        self.writers: dict[str, asyncio.StreamWriter] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Listen until `stop` is set; then log the end, and close all connections."""
        server = await listen(self.settings, WORLD, self._serve)
        self.log.append([("start",)])
        print(json.dumps({"finished": True}), flush=True)
        await stop.wait()
        server.close()
        for writer in self.writers.values():
            writer.close()
        self.log.append([("stop",)])
        self.log.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one agent; its new connection closes an earlier one."""
        with suppress(OSError, ValueError, KeyError, TypeError, TimeoutError, asyncio.CancelledError):
            agent, refusal = await receive_greeting(self.settings, WORLD, (reader, writer))
            if not refusal:
                if agent in self.writers:
                    self.writers[agent].close()
                self.writers[agent] = writer
                while line := await reader.readline():
                    writer.write(self._answer(self.walks[agent], json.loads(line)))
                    await writer.drain()
        writer.close()

    def _answer(self, walk: Walk, request: Mapping[str, Any]) -> bytes:
        """Make a move, if it is the next one; return the agent's cell."""
        number, action, state = (int(request[key]) for key in ("number", "action", "state"))
        if (cell := walk.after(number, action, state, self.walks)) is not None:
            self.log.append([("move", walk.agent, number, action, state, cell)])
            walk.go(number, cell)
        return json.dumps({"number": walk.moves, "cell": walk.cell, "before": walk.before}).encode() + b"\n"


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait so many seconds, or until `stop` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


async def _run(folder: Path, name: str) -> None:
    settings, _ = read_settings(folder)
    write_whole(folder / f"{name}.pid", f"{os.getpid()}\n")
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(sys.stdin.fileno(), 1) else stop.set())
    process: WorldServer | Walker = WorldServer(settings, folder) if name == WORLD else Walker(settings, name, folder)
    await process.run(stop)


def main() -> int:
    """Run the process that the command line names."""
    folder, name = sys.argv[1:]
    try:
        with suppress(BrokenPipeError):
            asyncio.run(_run(Path(folder), name))
    except HocketError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
