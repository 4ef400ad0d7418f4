"""The world of a grid task as a process: it moves agents when they ask for it, and remembers where they are.

An agent says how many moves it has made and what it wants to do next, so that a move that was made and not answered,
because one of the two was killed, is not made twice. Slips follow from the seed and the number of the move.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hocket.random import TEAM, slip_draw, start_draw, stream_key
from hocket.runtime.log import AgentLog
from hocket.runtime.settings import WORLD, RunSettings
from hocket.runtime.transport import Streams, certified_name, dial, listen, read_greeting
from hocket.task.bodies import hold_apart
from hocket.task.episode import move
from hocket.task.gates import closed_cells
from hocket.task.grid import ACTIONS
from hocket.task.task import Task

LONGEST_LINE = 1_000  # bytes of a question


class Walk:
    """Where an agent is, and how many moves it has made."""

    def __init__(self, task: Task, agent: str, seed: int) -> None:
        self.task, self.agent = task, agent
        self.key, self.moves = stream_key(TEAM, seed, list(task.agents).index(agent), 0), 0
        starts = task.agents[agent].starts
        self.cell = starts[start_draw(self.key, 0, len(starts))]
        self.before: int | None = None  # its cell before the last move
        self.closed = closed_cells(task, agent)

    def go(self, number: int, cell: int) -> None:
        """Take note of a move."""
        self.moves, self.before, self.cell = number, self.cell, cell

    def after(self, action: int, state: int, walks: Mapping[str, Walk]) -> int:
        """Find the cell after the next move, in a state of the agent's machine, on which its gates depend.

        Agents move one at a time here, so that one with a body stays where it is if its way is not free.
        """
        end = move(self.task, self.cell, ACTIONS[action], self.closed[state], slip_draw(self.key, self.moves))
        if not self.task.bodies:
            return end
        cells = {agent: walk.cell for agent, walk in walks.items()}
        return hold_apart(self.task.bodies, self.task.units, cells, {**cells, self.agent: end})[self.agent]


class WorldServer:
    """The world process."""

    def __init__(self, settings: RunSettings, log: Path) -> None:
        self.settings = settings
        self.walks = {agent: Walk(settings.task, agent, settings.seed) for agent in settings.task.agents}
        self.log = AgentLog(log, settings.header(WORLD), durable=settings.durable)
        for entry in self.log.entries:
            if entry[0] == "move":
                self.walks[str(entry[1])].go(int(entry[2]), int(entry[5]))
        self.server: asyncio.Server | None = None
        self.writers: dict[str, asyncio.StreamWriter] = {}

    async def start(self) -> None:
        """Listen."""
        self.settings.security.context(WORLD, server=True)  # or it says what is missing
        self.log.append([("start",)])
        self.server = await listen(self.settings.addresses[WORLD], self._serve, WORLD, self.settings.security)

    async def stop(self) -> None:
        """Note that it ends here, and hang up."""
        if self.server is not None:
            self.server.close()
        for writer in self.writers.values():
            writer.close()
        self.log.append([("stop",)])
        self.log.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one agent; a new connection of it ends the one before."""
        with suppress(OSError, ValueError, KeyError, TypeError, TimeoutError, asyncio.CancelledError):
            greeting = await read_greeting(reader)
            agent, certified = greeting.get("agent", ""), certified_name(writer)
            is_ours = all(greeting.get(key) == value for key, value in self.settings.greeting.items())
            is_certified = self.settings.keys is None or certified == agent
            if agent in self.walks and is_ours and is_certified:
                if agent in self.writers:
                    self.writers[agent].close()
                self.writers[agent] = writer
                await self._answer(agent, reader, writer)
        writer.close()

    async def _answer(self, agent: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        walk = self.walks[agent]
        while line := await reader.readline():
            asked = json.loads(line)
            number, action, state = (int(asked[key]) for key in ("number", "action", "state"))
            if number == walk.moves + 1 and 0 <= action < len(ACTIONS) and 0 <= state < len(walk.closed):
                cell = walk.after(action, state, self.walks)
                self.log.append([("move", agent, number, action, state, cell)])
                walk.go(number, cell)
            place = {"number": walk.moves, "cell": walk.cell, "before": walk.before}
            writer.write(json.dumps(place).encode() + b"\n")
            await writer.drain()


class WorldClient:
    """An agent's connection to the world."""

    def __init__(self, settings: RunSettings, agent: str) -> None:
        self.settings, self.agent = settings, agent
        self.moves, self.cell = -1, settings.task.agents[agent].starts[0]  # -1: not asked yet
        self.before: int | None = None  # the cell before the last move
        self.streams: Streams | None = None

    async def ask(self, action: int = -1, state: int = 0) -> bool:
        """Make a move, or with no action ask where the agent is; say whether the world has answered."""
        try:
            if self.streams is None:
                greeting = {**self.settings.greeting, "agent": self.agent}
                self.streams = await dial(self.settings.addresses[WORLD], greeting, self.settings.security)
            reader, writer = self.streams
            question = {"number": self.moves + 1 if action >= 0 else 0, "action": action, "state": state}
            writer.write(json.dumps(question).encode() + b"\n")
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
