"""A process of a run: an agent of a grid task, or its world. `hocket run` starts one of each, and again if it dies.

It reads `run.json` in its folder, tells on its standard output how it is, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from hocket.errors import HocketError
from hocket.files import write_whole
from hocket.runtime.host import Host
from hocket.runtime.settings import WORLD, RunSettings, read_settings
from hocket.runtime.world import WorldClient, WorldServer
from hocket.task.grid import ACTIONS
from hocket.task.task import Task

RETRY = 0.05  # seconds until the world is asked again
STAY = ACTIONS.index("stay")


def conditions(task: Task, agent: str) -> Callable[[int, int | None], int]:
    """Make a function of a cell, and of the one before the last move: which of an agent's conditions hold, as bits."""
    number = {event: place for place, event in enumerate(task.machine.events)}

    @cache
    def willing(cell: int, before: int | None) -> int:
        events = (event for event in task.controlled[agent] if task.holds(agent, event, cell, before))
        return sum(1 << number[event] for event in events)

    return willing


class Walker:
    """An agent that follows a table of actions through the world, and agrees on events on its way."""

    def __init__(self, settings: RunSettings, agent: str, folder: Path) -> None:
        self.settings, self.agent = settings, agent
        self.host = Host(settings, agent, folder / f"{agent}.log")
        self.host.changed = self.tell
        self.world = WorldClient(settings, agent)
        self.willing = conditions(settings.task, agent)
        self.actions = np.load(folder / f"{agent}.actions.npy", allow_pickle=False)  # [states, cells] as bits
        self.random = Random(f"{settings.seed} {agent}")
        self.states = tuple(settings.plan.machines[self.host.number].states)
        self.told = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Walk until it is told to stop."""
        await self.host.start()
        while not stop.is_set():
            if not await self.world.ask():
                await _pause(stop, RETRY)
                continue
            await self.walk(stop)
        await self.host.stop()
        self.tell()

    async def walk(self, stop: asyncio.Event) -> None:
        """Stand for a while, then move, as long as the world answers."""
        host, world = self.host, self.world
        while not stop.is_set():
            host.perceive(self.willing(world.cell, world.before), world.moves)
            self.tell()
            await _pause(stop, 1 / self.settings.pace if self.settings.pace else 0)
            if host.participant.holding or stop.is_set():
                continue
            if world.moves >= self.settings.steps or host.is_finished:
                continue
            host.move(world.moves)
            if not await world.ask(self.choose(), host.participant.state):
                return

    def choose(self) -> int:
        """Choose one of the best actions."""
        best = int(self.actions[self.host.participant.state, self.world.cell])
        return self.random.choice([action for action in range(len(ACTIONS)) if best >> action & 1] or [STAY])

    def tell(self) -> None:
        """Tell how it is, where that has changed."""
        host = self.host
        line = json.dumps(
            {
                "state": self.states[host.participant.state],
                "cell": self.world.cell,
                "steps": max(0, self.world.moves),
                "events": len(host.events),
                "last": host.events[-1:],
                "holding": host.participant.holding,
                "final": host.participant.is_final,
                "finished": host.is_finished,
                "refused": host.transport.refused,
            }
        )
        if line != self.told:
            self.told = line
            print(line, flush=True)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait, but not once it is told to stop."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


async def _run(folder: Path, name: str) -> None:
    settings, _ = read_settings(folder)
    write_whole(folder / f"{name}.pid", f"{os.getpid()}\n")
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(sys.stdin.fileno(), 1) else stop.set())
    if name == WORLD:
        world = WorldServer(settings, folder / f"{WORLD}.log")
        await world.start()
        print(json.dumps({"finished": True}), flush=True)
        await stop.wait()
        await world.stop()
    else:
        await Walker(settings, name, folder).run(stop)


def main() -> int:
    """Run the process that the command line names."""
    folder, name = sys.argv[1:]
    try:
        asyncio.run(_run(Path(folder), name))
    except HocketError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 2
    except BrokenPipeError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
