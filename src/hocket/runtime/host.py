"""A host: a participant of the protocol with its log, its connections and its clock, in an asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from hocket.errors import FormatError
from hocket.runtime.log import AgentLog
from hocket.runtime.protocol import EVENT_AT, Entry, Output, Participant, nonsense
from hocket.runtime.settings import RunSettings
from hocket.runtime.transport import Transport, ZenohTransport

TICK = 0.05  # seconds between two times that messages are sent again
MOST_AT_ONCE = 1_000  # events that an agent decides on by itself, one after the other, without moving


class Host:
    """An agent's side of a run. Everything is called in the thread of the loop in which it was started."""

    def __init__(self, settings: RunSettings, agent: str, log: Path) -> None:
        self.settings, self.plan, self.agent = settings, settings.plan, agent
        self.number = self.plan.agents.index(agent)
        self.log = AgentLog(log, settings.header(agent), durable=settings.durable)
        if (entry := nonsense(self.plan, self.log.entries)) is not None:
            self.log.close()
            raise FormatError(f"has an entry that makes no sense: {str(entry)[:60]}", path=log)
        self.participant = Participant.recover(self.plan, self.number, self.log.entries)
        self.events = self._events(self.log.entries)
        kind = ZenohTransport if settings.transport == "zenoh" else Transport
        self.transport = kind(settings, agent, lambda *letter: self._emit(self.participant.receive(*letter)))
        self.conditions = cache(self._conditions)  # that hold in a cell of a grid task, as bits
        self.changed: Callable[[], None] = lambda: None  # called when an event has happened
        self.error: FormatError | None = None  # of the log: from then on nothing is done and nothing said

    async def start(self) -> None:
        """Begin to listen, and a new incarnation."""
        await self.transport.start()
        self._emit(self.participant.start())

        async def tick() -> None:
            while True:
                await asyncio.sleep(TICK)
                self._emit(self.participant.tick())

        self.ticking = asyncio.get_running_loop().create_task(tick())

    async def stop(self) -> None:
        """Note that it ends here, and hang up."""
        self.ticking.cancel()
        with suppress(asyncio.CancelledError):
            await self.ticking
        await self.transport.close()
        if self.error is None:
            self.log.append([("stop",)])
            self.error = FormatError("this agent has stopped")
        self.log.close()

    def _conditions(self, cell: int, before: int | None) -> int:
        task = self.settings.task
        return self.plan.bits([e for e in task.controlled[self.agent] if task.holds(self.agent, e, cell, before)])

    @property
    def is_finished(self) -> bool:
        """Whether the agent's machine is final, and everybody has acknowledged what it had to tell."""
        participant = self.participant
        return participant.is_final and participant.promise is None and not any(participant.outbox.values())

    def perceive(self, willing: int, stamp: int) -> None:
        """Take note of the events whose conditions hold while the agent stands still; of none while it moves."""
        self._emit(self.participant.perceive(willing | self.plan.always[self.number], stamp))
        if self.error is not None:
            raise self.error

    def move(self, stamp: int) -> None:
        """Take note that the agent moves: until it perceives again it agrees on nothing."""
        self._emit(self.participant.perceive(0, stamp))

    def _emit(self, output: Output) -> None:
        """Write the log, then send; and again, as long as the agent decides on something by itself."""
        for _ in range(MOST_AT_ONCE):
            try:
                if self.error is None:
                    self.log.append(output.entries)
            except FormatError as error:
                self.error = error
            if self.error is not None:
                return  # what is not in the log has not happened
            for receiver, message in output.messages:
                self.transport.send(receiver, message)
            if not (events := self._events(output.entries)):
                return
            self.events += events
            self.changed()
            output = self.participant.perceive(self.participant.willing, self.participant.stamp)

    def _events(self, entries: Iterable[Entry]) -> list[str]:
        """Name the events that entries say to have happened."""
        return [self.plan.events[entry[EVENT_AT[entry[0]]]] for entry in entries if entry[0] in ("decide", "hear")]
