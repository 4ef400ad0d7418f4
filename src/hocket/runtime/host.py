"""A host: a participant of the protocol with its log, its connections and its clock, in an asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from hocket.errors import FormatError
from hocket.runtime.log import AgentLog
from hocket.runtime.protocol import EVENT_AT, Entry, Output, Participant, find_invalid
from hocket.runtime.settings import RunSettings
from hocket.runtime.transport import Transport, ZenohTransport

TICK = 0.05  # seconds after which messages are sent again
MOST_AT_ONCE = 1_000  # events that an agent decides on alone, one after the other, without moving


class Host:
    """One agent of a run. Its methods must be called in the thread of the loop in which it was started."""

    def __init__(self, settings: RunSettings, agent: str, log: Path) -> None:
        self.settings, self.plan, self.agent = settings, settings.plan, agent
        self.number = self.plan.agents.index(agent)
        self.log = AgentLog(log, settings.header(agent), durable=settings.durable)
        if (entry := find_invalid(self.plan, self.log.entries)) is not None:
            self.log.close()
            raise FormatError(f"has an entry that makes no sense: {str(entry)[:60]}", path=log)
        self.participant = Participant.recover(self.plan, self.number, self.log.entries)
        self.events = self._events(self.log.entries)
        transport = ZenohTransport if settings.transport == "zenoh" else Transport
        self.transport = transport(settings, agent, lambda *packet: self._emit(self.participant.receive(*packet)))
        self.conditions = cache(self._conditions)  # the events whose conditions hold in a cell of a grid task, as bits
        self.on_event: Callable[[], None] = lambda: None
        self.error: FormatError | None = None  # of the log: after it nothing is done and nothing is sent

    async def start(self) -> None:
        """Listen, and begin a new incarnation."""
        await self.transport.start()
        self._emit(self.participant.start())

        async def tick() -> None:
            while True:
                await asyncio.sleep(TICK)
                self._emit(self.participant.tick())

        self.ticking = asyncio.get_running_loop().create_task(tick())

    async def stop(self) -> None:
        """Log the end, and close all connections."""
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
        """Whether the agent's machine is final, and all that it has told is acknowledged."""
        participant = self.participant
        return participant.is_final and participant.promise is None and not any(participant.outbox.values())

    def perceive(self, willing: int, stamp: int) -> None:
        """Take note of the events whose conditions hold while the agent stands still, after a number of moves."""
        self._emit(self.participant.perceive(willing | self.plan.unconditional[self.number], stamp))
        if self.error is not None:
            raise self.error

    def move(self, stamp: int) -> None:
        """Take note that the agent moves: it agrees on nothing until it perceives again."""
        self._emit(self.participant.perceive(0, stamp))

    def _emit(self, output: Output) -> None:
        """Write the log, then send; again, as long as the agent decides on events alone."""
        for _ in range(MOST_AT_ONCE):
            try:
                if self.error is None:
                    self.log.append(output.entries)
            except FormatError as error:
                self.error = error
            if self.error is not None:
                return  # an event that is not in the log has not happened
            for receiver, message in output.messages:
                self.transport.send(receiver, message)
            if not (events := self._events(output.entries)):
                return
            self.events += events
            self.on_event()
            output = self.participant.perceive(self.participant.willing, self.participant.stamp)

    def _events(self, entries: Iterable[Entry]) -> list[str]:
        """List the names of the events that have happened, by log entries."""
        return [self.plan.events[entry[EVENT_AT[entry[0]]]] for entry in entries if entry[0] in ("decide", "hear")]
