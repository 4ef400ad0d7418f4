"""`run_team`: a team as processes on this machine, or one agent of a team whose others run on other machines.

Processes that die are restarted. Their policies are tables of the best actions in each state and cell, written once
when a run begins, so that an agent that restarts loads neither a learner nor the compiler.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.documents import Read, as_text, entries, table_of
from hocket.errors import FormatError, HocketError, SettingsError, located, require_known
from hocket.files import MEGABYTE, exists, make_folder, read_text
from hocket.learn.actors import machine_values
from hocket.learn.catalogue import learners_with_input
from hocket.learn.learner import PolicyInput
from hocket.machine.decomposition import Control
from hocket.machine.formats.toml import parse
from hocket.runtime.log import read_log
from hocket.runtime.recording import verify
from hocket.runtime.settings import WORLD, RunSettings, read_settings
from hocket.runtime.transport import split_address
from hocket.study.policies import load_policies
from hocket.task.catalogue import as_task
from hocket.task.task import Task
from hocket.task.verdict import check_delays

PEERS: dict[str, Read] = {**dict.fromkeys(("run", WORLD, "keys", "transport"), as_text), "agents": table_of(as_text)}
TRANSPORTS = ("tcp", "zenoh")
FILE_NAME = re.compile(r"[\w][\w .+-]{0,99}")
LONGEST_LINE = 1_000_000  # bytes of a status
TOO_SOON, TOO_OFTEN = 1.0, 20  # a process that dies within so many seconds, so many times in a row, is not restarted
GRACE = 10.0  # seconds in which processes have to end
STANDSTILL = 3.0  # seconds without a new status after which a team that has reached its step limit has ended
LINGER = 3.0  # seconds in which an agent that runs alone on this machine still answers after it has finished
PAUSE = 0.02  # seconds between checks whether a run is over

Actions = NDArray[np.uint8]  # [machine states, cells] the best actions, as bits
Status = dict[str, Any]
Watch = Callable[[str, Status], None]


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    folder: Path
    complete: bool
    restarts: Mapping[str, int]  # of each process


def find_agreed(task: Task, deciders: Control | None = None, *, agree: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the deciders of each event; if others must not hear of it late, these have to `agree` as well."""
    check = check_delays(task, deciders)
    if not check.tolerant and not agree:
        pairs = ", ".join(f"{agent}: {event}" for agent, event in check.agree)
        rule = "these pairs (agent: event) must agree as well"
        raise SettingsError(f"{task.name} does not tolerate that events are heard late: {rule}: {pairs} (--agree)")
    return {event: tuple(deciders) for event, deciders in check.agreed.items()}


def read_peers(path: str | Path, task: Task) -> dict[str, Any]:
    """Read a file of peers as settings: `run`, `[agents]` with HOST:PORT for each, optionally `world` and `keys`."""
    path = Path(path)
    content = read_text(path, MEGABYTE)
    with located(path=path):
        document = entries(parse(content), PEERS)
        if not document.get("run"):
            raise FormatError("must be a name that no other run has", where="run")
        transport, addresses = document.get("transport", TRANSPORTS[0]), document.get("agents", {})
        require_known(transport, TRANSPORTS, "transport")
        for name in addresses:
            require_known(name, task.agents, "agent")
        if missing := [name for name in task.agents if name not in addresses]:
            raise FormatError(f"has no address of {missing[0]}", where="agents")
        addresses |= {key: address for key, address in document.items() if key == WORLD}
        for name, address in addresses.items():
            split_address(address, name)
        keys = str((path.parent / document["keys"]).absolute()) if "keys" in document else None
    return {"run": document["run"], "addresses": addresses, "keys": keys, "transport": transport}


def load_actions(folder: str | Path, task: Task) -> dict[str, Actions]:
    """Read the greedy policy of a task's first run in a folder, as a table for each agent."""
    learners = learners_with_input(PolicyInput.MACHINE)
    usable = [policy for policy in load_policies(folder, task) if policy.learner in learners]
    if not usable:
        raise FormatError("has no policies that play by the local reward machines", path=folder)
    policy = min(usable, key=lambda policy: policy.seed)
    q = machine_values(task, policy.learner, policy.arrays)
    best = np.packbits(q == q.max(axis=2, keepdims=True), axis=2, bitorder="little")[:, :, 0]
    sizes = {agent: len(machine.states) for agent, machine in task.machines.items()}
    return {agent: np.ascontiguousarray(best[n, :, :size].T) for n, (agent, size) in enumerate(sizes.items())}


class Supervisor:
    """The processes of a run that are on this machine."""

    def __init__(self, settings: RunSettings, folder: Path, names: Collection[str], watch: Watch) -> None:
        self.settings, self.folder, self.watch = settings, folder, watch
        self.status: dict[str, Status] = {name: {} for name in names}
        self.agents = [name for name in names if name != WORLD]
        self.processes: dict[str, Process] = {}
        self.restarts = dict.fromkeys(names, 0)
        self.error: str | None = None
        self.ending = False
        self.last_status = time.monotonic()
        self.linger = 0.0 if WORLD in names else LINGER
        self.finished_at: float | None = None  # when all agents here had finished

    async def run(self, stop: Callable[[], bool]) -> None:
        """Keep the processes alive until all agents have finished or reached their step limit, or `stop` says so."""
        keepers = [asyncio.create_task(self._keep(name)) for name in self.status]
        try:
            while not (stop() or self.error or self._is_over()):
                await asyncio.sleep(PAUSE)
        finally:
            self.ending = True
            for end in (Process.terminate, Process.kill):
                for process in self.processes.values():
                    with suppress(ProcessLookupError):
                        end(process)
                if not (await asyncio.wait(keepers, timeout=GRACE))[1]:
                    break
            await asyncio.gather(*keepers, return_exceptions=True)
            for name in self.status:
                (self.folder / f"{name}.pid").unlink(missing_ok=True)
        if self.error:
            raise HocketError(self.error)

    @property
    def is_finished(self) -> bool:
        """Whether the machines of all agents here are final, and all that they have told is acknowledged."""
        return bool(self.agents) and all(self.status[name].get("finished") for name in self.agents)

    def _is_over(self) -> bool:
        if not self.agents:
            return False  # the world alone does not end by itself
        if self.is_finished:
            self.finished_at = self.finished_at or time.monotonic()
            return time.monotonic() - self.finished_at >= self.linger
        self.finished_at = None
        is_at_limit = all(self.status[name].get("steps", 0) >= self.settings.steps for name in self.agents)
        return is_at_limit and time.monotonic() - self.last_status > STANDSTILL

    async def _keep(self, name: str) -> None:
        """Start a process, and restart it whenever it dies."""
        early_deaths = 0
        while not self.ending and not self.error:
            begun = time.monotonic()
            command = (sys.executable, "-P", "-m", "hocket.runtime.worker", str(self.folder), name)
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LONGEST_LINE, start_new_session=True
            )
            self.processes[name] = process
            assert process.stdout is not None
            while line := await process.stdout.readline():
                with suppress(ValueError):
                    if isinstance(status := json.loads(line), dict):
                        self._update(name, status)
            if await process.wait() == 2:
                self.error = str(self.status[name].get("error", f"{name} has ended"))
            if self.ending or self.error:
                return
            self.restarts[name] += 1
            self._update(name, {**self.status[name], "finished": False, "down": True})
            early_deaths = early_deaths + 1 if time.monotonic() - begun < TOO_SOON else 0
            if early_deaths > TOO_OFTEN:
                self.error = f"{name} dies again and again as soon as it is started"

    def _update(self, name: str, status: Status) -> None:
        self.last_status = time.monotonic()
        self.status[name] = status
        self.watch(name, status)


def run_team(
    task: Task | str | Path,
    policies: str | Path | Mapping[str, Actions],
    out: str | Path,
    *,
    agent: str | None = None,
    peers: str | Path | None = None,
    agree: bool = False,
    durable: bool = True,
    insecure: bool = False,
    pace: float = 10.0,
    steps: int = 1_000,
    seed: int = 0,
    loss: float = 0.0,
    watch: Watch = lambda name, status: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunOutcome:
    """Run the agents of a grid task as processes until the task is complete; those that die are restarted.

    Without `agent` all of them run here, with a world; with it one of them, or the `world`, and `peers` is the file of
    addresses. `out` gets `run.json` and a log for each process; a run in it that was stopped is continued.
    """
    task, folder = as_task(task), Path(out)
    check_names(task)
    if (agent is None) != (peers is None):
        raise SettingsError("an agent alone needs the addresses of the others: --agent and --peers go together")
    names = [WORLD, *task.agents]
    if agent is not None:
        require_known(agent, names, "agent")
        names = [agent]
    agreed = find_agreed(task, agree=agree)
    settings = RunSettings(task, "", agreed, durable=durable, pace=pace, steps=steps, seed=seed, loss=loss)
    if peers is not None:
        settings = replace(settings, insecure=insecure, **read_peers(peers, task))
        if WORLD not in settings.addresses:
            raise FormatError("must be the address of the world, HOST:PORT", path=peers, where=WORLD)
    settings, is_new = _resumed(settings, folder)
    if is_new and names != [WORLD]:
        actions = policies if isinstance(policies, Mapping) else load_actions(policies, task)
        for name in names:
            if name != WORLD:
                np.save(folder / f"{name}.actions.npy", np.asarray(actions[name], np.uint8), allow_pickle=False)
    with TemporaryDirectory(prefix="hocket-", ignore_cleanup_errors=True) as sockets:  # private to this user
        if peers is None:
            settings = replace(settings, addresses={name: f"{sockets}/{i}" for i, name in enumerate(names)})
        settings.save(folder)
        supervisor = Supervisor(settings, folder, names, watch)
        asyncio.run(supervisor.run(stop))
    logs = [name for name in (*task.agents, WORLD) if (folder / f"{name}.log").exists()]
    settings.save(folder, ended={name: read_log(folder / f"{name}.log").check for name in logs})  # to detect changes
    complete = verify(folder).complete if len(names) > 1 else supervisor.is_finished
    return RunOutcome(folder, complete, dict(supervisor.restarts))


def check_names(task: Task) -> None:
    """Require names of agents that can be names of files."""
    for name in task.agents:
        if not FILE_NAME.fullmatch(name) or name in (WORLD, "ca"):
            raise SettingsError(f"an agent's name must be a file name other than {WORLD!r} and 'ca', got {name!r}")


def _resumed(settings: RunSettings, folder: Path) -> tuple[RunSettings, bool]:
    """Make the folder of a new run, or continue the run in it; say whether it is new."""
    make_folder(folder)
    if not exists(folder / "run.json"):
        if any(folder.iterdir()):
            raise FormatError("is not empty, and has no run in it", path=folder)
        return replace(settings, run=settings.run or secrets.token_hex(8)), True
    earlier, _ = read_settings(folder)
    if earlier.task.digest != settings.task.digest or dict(earlier.deciders) != dict(settings.deciders):
        raise FormatError("has a run of another task or with other deciders in it", path=folder)
    if settings.run and settings.run != earlier.run:
        raise FormatError(f"has the run {earlier.run!r} in it, and the peers are of {settings.run!r}", path=folder)
    return replace(settings, run=earlier.run, seed=earlier.seed, task=earlier.task), False
