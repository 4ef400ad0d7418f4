"""An agent in one's own robot loop: observations in, actions out, while the protocol runs in another thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any

from hocket.errors import SettingsError, known_names, require_known
from hocket.machine.decomposition import Control
from hocket.runtime.host import Host
from hocket.runtime.launch import find_agreed, read_peers
from hocket.runtime.settings import RunSettings
from hocket.task.catalogue import as_task
from hocket.task.task import Task

TIMEOUT = 10.0  # seconds for the protocol's thread to answer

Observation = Any  # of the robot; of a grid task the cell
Action = Any
Policy = Callable[[tuple[Observation, str]], Action]  # from (observation, state of the agent's machine)


class Agent:
    """One agent of a team. `step` takes an observation and returns an action; it never waits for teammates.

    `peers` is a file, as for `hocket run --peers`, or a mapping from agents to addresses: HOST:PORT, or the path of a
    Unix socket. `conditions` returns the agent's events that hold in an observation; it may be left out in a grid task,
    where observations are cells. While the agent is `holding` it has promised an event and must stand still: `step`
    then returns `stay`. An agent whose action is not `stay` moves, and agrees on nothing until its next step.
    """

    def __init__(
        self,
        task: Task | str | Path,
        name: str,
        *,
        peers: str | Path | Mapping[str, str],
        log: str | Path,
        policy: Policy | None = None,
        conditions: Callable[[Observation], Collection[str]] | None = None,
        run: str = "run",
        deciders: Control | None = None,
        agree: bool = False,
        keys: str | Path | None = None,
        insecure: bool = False,
        durable: bool = True,
        stay: Action = "stay",
    ) -> None:
        task = as_task(task)
        require_known(name, task.agents, "agent")
        agreed = find_agreed(task, deciders, agree=agree)
        if not isinstance(peers, Mapping):
            network = read_peers(peers, task)
        elif missing := [agent for agent in task.agents if agent not in peers]:
            raise SettingsError(f"peers must give each agent its address, got none of {missing[0]}")
        else:
            network = {"run": run, "addresses": dict(peers), "keys": None if keys is None else str(keys)}
        settings = RunSettings(task, deciders=agreed, insecure=insecure, durable=durable, **network)
        self.task, self.name, self.policy, self.stay, self._conditions = task, name, policy, stay, conditions
        self._before: int | None = None  # the cell of the step before
        self._stamp = 0  # steps so far
        self._loop = asyncio.new_event_loop()
        self._host = Host(settings, name, Path(log))
        if not (Path(log).parent / "run.json").exists():  # for `hocket verify` and `hocket report`
            settings.save(Path(log).parent)
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"hocket {name}", daemon=True)
        self._thread.start()
        try:
            self._call(self._host.start())
        except BaseException:
            self._host.log.close()
            self._end()
            raise

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def holding(self) -> bool:
        """Whether it has promised an event and must stand still."""
        return self._host.participant.holding

    @property
    def state(self) -> str:
        """The state of its local reward machine."""
        return self.task.machines[self.name].states.listed[self._host.participant.state]

    @property
    def events(self) -> tuple[str, ...]:
        """The events that it has decided or heard of, in this order, also before a crash."""
        return tuple(self._host.events)

    @property
    def done(self) -> bool:
        """Whether its local reward machine is final."""
        return self._host.participant.is_final

    @property
    def finished(self) -> bool:
        """Whether it is done, and teammates have acknowledged all events that it has told them."""
        return self._host.is_finished

    def step(self, observation: Observation) -> Action:
        """Take an observation, begin the events whose conditions hold, and return the next action."""
        return self._call(self._step(observation))

    async def _step(self, observation: Observation) -> Action:
        host = self._host
        self._stamp += 1
        host.perceive(self._willing(observation), self._stamp)
        if self.policy is None or host.participant.holding:
            return self.stay
        action = self.policy((observation, self.state))
        if action != self.stay:
            host.move(self._stamp)
        return action

    def _willing(self, observation: Observation) -> int:
        if self._conditions is None:
            if not isinstance(observation, int) or not 0 <= observation < self.task.grid.cells:
                rule = f"an observation must be a cell from 0 to {self.task.grid.cells - 1}"
                raise SettingsError(f"{rule}, got {observation!r:.60}")
            before, self._before = self._before, observation
            return self._host.conditions(observation, before)
        events, known = [*self._conditions(observation)], self.task.controlled[self.name]
        for event in events:
            if event not in known:
                raise SettingsError(f"{self.name} does not control {event!r} ({known_names(str(event), known)})")
        return self._host.plan.bits(events)

    def wait(self, seconds: float) -> None:
        """Stand still so many seconds, or until the agent is finished, so that teammates hear of its events."""
        end = time.monotonic() + seconds
        while not self.finished and time.monotonic() < end:
            time.sleep(0.01)

    def close(self, linger: float = 0.2) -> None:
        """Stop after `linger` seconds, in which it acknowledges what teammates send.

        Events that teammates have not acknowledged are sent when the agent comes back with the same log.
        """
        if self._thread.is_alive():
            time.sleep(linger)
            self._call(self._host.stop())
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT)
