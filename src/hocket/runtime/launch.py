"""`run_team`: a team as processes on this machine, or one agent of a team whose others are elsewhere."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hocket.errors import FormatError, SettingsError, known_names
from hocket.files import MEGABYTE, exists, make_folder, read_text
from hocket.machine.decomposition import Control
from hocket.runtime.actions import Actions, load_actions, save_actions
from hocket.runtime.log import read_log
from hocket.runtime.settings import WORLD, RunSettings, read_settings
from hocket.runtime.supervisor import Supervisor, Watch
from hocket.runtime.transport import split_address
from hocket.runtime.verification import verify
from hocket.task.catalogue import as_task
from hocket.task.delays import check_delays
from hocket.task.task import Task

PEER_KEYS = ("run", "agents", "world", "keys", "transport")
TRANSPORTS = ("tcp", "zenoh")
FILE_NAME = re.compile(r"[\w][\w .+-]{0,99}")


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    folder: Path
    complete: bool
    restarts: Mapping[str, int]  # name -> how often it was started again


def find_agreed(task: Task, deciders: Control | None = None, *, agree: bool = False) -> dict[str, tuple[str, ...]]:
    """Choose who decides on what, so that everything else may be heard late; refuse where that takes more agreement.

    With `agree`, the fewest agents that have to agree as well do so.
    """
    check = check_delays(task, deciders)
    if not check.tolerant and not agree:
        pairs = ", ".join(f"{agent}: {event}" for agent, event in check.agree)
        rule = "these pairs (agent: event) must agree as well"
        raise SettingsError(f"{task.name} does not tolerate that events are heard late: {rule}: {pairs} (--agree)")
    return {event: tuple(deciders) for event, deciders in check.agreed.items()}


@dataclass(frozen=True)
class Peers:
    """Where the agents of a run are, as a file says it."""

    run: str
    addresses: Mapping[str, str]  # of agents, and of the world
    keys: str | None
    transport: str


def read_peers(path: str | Path, task: Task) -> Peers:
    """Read a file of peers: `run`, `[agents]` with HOST:PORT for each, and perhaps `world` and `keys`."""
    path = Path(path)
    try:
        document: dict[str, Any] = tomllib.loads(read_text(path, MEGABYTE))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(str(error), path=path) from None
    for key in document:
        if key not in PEER_KEYS:
            raise FormatError(f"key {key!r} does not exist ({known_names(key, PEER_KEYS)})", path=path)
    agents, run, keys = document.get("agents"), document.get("run"), document.get("keys")
    if not isinstance(run, str) or not run:
        raise FormatError("must be a name that no other run has", path=path, where="run")
    if not isinstance(agents, dict) or not all(isinstance(address, str) for address in agents.values()):
        raise FormatError("must give each agent its address, HOST:PORT", path=path, where="agents")
    for name in agents:
        if name not in task.agents:
            raise FormatError(
                f"agent {name!r} does not exist ({known_names(name, task.agents)})", path=path, where="agents"
            )
    for name in task.agents:
        if name not in agents:
            raise FormatError(f"has no address of {name}", path=path, where="agents")
    addresses = {**agents, **({WORLD: document["world"]} if "world" in document else {})}
    for name, address in addresses.items():
        split_address(address, f"{path}: {name}")
    if keys is not None and not isinstance(keys, str):
        raise FormatError("must be the folder that hocket keys has made", path=path, where="keys")
    if (transport := document.get("transport", "tcp")) not in TRANSPORTS:
        hint = known_names(str(transport), TRANSPORTS)
        raise FormatError(f"must be tcp or zenoh, got {transport!r} ({hint})", path=path, where="transport")
    return Peers(run, addresses, None if keys is None else str((path.parent / keys).absolute()), transport)


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
    """Run the agents of a grid task as processes until the task is complete; those that die are started again.

    Without `agent` all of them run here, with a world; with it one of them, or the `world`, and `peers` says where the
    others are. `out` gets `run.json` and a log for each process; a run that was stopped goes on where it was.
    """
    task, folder = as_task(task), Path(out)
    check_names(task)
    names = _names(task, agent, peers)
    settings = RunSettings(
        task, "", find_agreed(task, agree=agree), durable=durable, pace=pace, steps=steps, seed=seed, loss=loss
    )
    if peers is not None:
        where = read_peers(peers, task)
        if WORLD not in where.addresses:
            raise FormatError("must say where the world is, as HOST:PORT", path=peers, where=WORLD)
        settings = replace(
            settings, run=where.run, addresses=where.addresses, keys=where.keys, insecure=insecure,
            transport=where.transport,
        )  # fmt: skip
    settings, is_new = _resumed(settings, folder)
    if is_new and any(name != WORLD for name in names):
        actions = policies if isinstance(policies, Mapping) else load_actions(policies, task)
        save_actions(folder, {name: actions[name] for name in names if name != WORLD})
    sockets = None
    if peers is None:
        sockets = Path(tempfile.mkdtemp(prefix="hocket-"))  # which only its owner may enter
        settings = replace(settings, addresses={name: str(sockets / str(i)) for i, name in enumerate(names)})
    settings.save(folder)
    supervisor = Supervisor(settings, folder, names, watch)
    try:
        asyncio.run(supervisor.run(stop))
    finally:
        if sockets is not None:
            shutil.rmtree(sockets, ignore_errors=True)
    return _ended(settings, folder, supervisor)


def check_names(task: Task) -> None:
    """Require names of agents that files can have."""
    for name in task.agents:
        if not FILE_NAME.fullmatch(name) or name in (WORLD, "ca"):
            raise SettingsError(f"the name of an agent must be fit for a file, and not {WORLD!r} or 'ca', got {name!r}")


def _names(task: Task, agent: str | None, peers: str | Path | None) -> list[str]:
    if (agent is None) != (peers is None):
        raise SettingsError("one agent of a team needs to know where the others are: --agent and --peers go together")
    if agent is None:
        return [WORLD, *task.agents]
    if agent != WORLD and agent not in task.agents:
        raise SettingsError(f"agent {agent!r} does not exist ({known_names(agent, [*task.agents, WORLD])})")
    return [agent]


def _resumed(settings: RunSettings, folder: Path) -> tuple[RunSettings, bool]:
    """Make a folder for a new run, or take up the one that is in it; say whether it is new."""
    make_folder(folder)
    if not exists(folder / "run.json"):
        if any(folder.iterdir()):
            raise FormatError("is not empty, and has no run in it", path=folder)
        return replace(settings, run=settings.run or secrets.token_hex(8)), True
    earlier, _ = read_settings(folder)
    if earlier.task.digest != settings.task.digest or dict(earlier.deciders) != dict(settings.deciders):
        raise FormatError("has a run of another task, or with other deciders, in it", path=folder)
    if settings.run and settings.run != earlier.run:
        raise FormatError(f"has the run {earlier.run!r} in it, and the peers are of {settings.run!r}", path=folder)
    return replace(settings, run=earlier.run, seed=earlier.seed, task=earlier.task), False


def _ended(settings: RunSettings, folder: Path, supervisor: Supervisor) -> RunOutcome:
    """Note how the logs ended, so that whatever is changed in them later is found."""
    logs = [name for name in (*settings.task.agents, WORLD) if (folder / f"{name}.log").exists()]
    ended = {name: read_log(folder / f"{name}.log").check for name in logs}
    is_whole = len(supervisor.names) > 1
    settings.save(folder, ended=ended)
    complete = verify(folder).complete if is_whole else supervisor.is_finished
    return RunOutcome(folder, complete, dict(supervisor.restarts))
