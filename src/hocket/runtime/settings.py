"""The settings of a run (`run.json`): its task, the deciders, the addresses of agents; and where moves lead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from hocket import __version__
from hocket.errors import FormatError, HocketError
from hocket.files import MEGABYTE, read_text, write_whole
from hocket.random import TEAM, slip_draw, start_draw, stream_key
from hocket.runtime.plan import Plan
from hocket.task.bodies import hold_apart
from hocket.task.episode import move
from hocket.task.files import task_from
from hocket.task.grid import ACTIONS
from hocket.task.task import Task

LARGEST_FILE = 50 * MEGABYTE
KEPT = ("run", "keys", "insecure", "transport", "durable", "pace", "steps", "seed", "loss")  # in the file as they are
WORLD = "world"  # the name of the process that moves the agents of a grid task


class Walk:
    """The cell of an agent, and the number of its moves."""

    def __init__(self, task: Task, agent: str, seed: int) -> None:
        self.task, self.agent = task, agent
        self.key, self.moves = stream_key(TEAM, seed, list(task.agents).index(agent), 0), 0  # slips follow from both
        starts = task.agents[agent].starts
        self.cell = starts[start_draw(self.key, 0, len(starts))]
        self.before: int | None = None  # its cell before the last move
        self.closed = task.closed_cells(agent)

    def go(self, number: int, cell: int) -> None:
        """Take note of a move."""
        self.moves, self.before, self.cell = number, self.cell, cell

    def after(self, number: int, action: int, state: int, walks: Mapping[str, Walk]) -> int | None:
        """Return the cell after a move in a state of the agent's machine; None if it is not the next move, or no move.

        Gates depend on the state. Agents move one at a time here, so that bodies in the way keep an agent in its cell.
        """
        if number != self.moves + 1 or not 0 <= action < len(ACTIONS) or not 0 <= state < len(self.closed):
            return None
        end = move(self.task, self.cell, ACTIONS[action], self.closed[state], slip_draw(self.key, self.moves))
        if not self.task.bodies:
            return end
        cells = {agent: walk.cell for agent, walk in walks.items()}
        return hold_apart(self.task.bodies, self.task.units, cells, {**cells, self.agent: end})[self.agent]


@dataclass(frozen=True)
class RunSettings:
    """All that the processes of a run have to agree on, and their addresses."""

    task: Task
    run: str  # a name that no other run has
    deciders: Mapping[str, tuple[str, ...]]
    addresses: Mapping[str, str] = field(default_factory=dict)  # of each agent and the world
    keys: str | None = None  # the folder of certificates
    insecure: bool = False  # whether plain TCP may leave this machine
    transport: str = "tcp"  # or zenoh
    durable: bool = True
    pace: float = 10.0  # steps a second
    steps: int = 1_000  # of each agent, at most
    seed: int = 0  # of slips, and of choices between actions that are equally good
    loss: float = 0.0  # of messages, for tests

    @cached_property
    def plan(self) -> Plan:
        task = self.task
        edges = {agent: [e for e in known if task.events[e][agent].is_edge] for agent, known in task.controlled.items()}
        return Plan.of(task.decomposition, self.deciders, edges)

    def walks(self) -> dict[str, Walk]:
        """Put each agent in its start cell."""
        return {agent: Walk(self.task, agent, self.seed) for agent in self.task.agents}

    @cached_property
    def greeting(self) -> dict[str, str]:
        """The first message of a connection."""
        plan = self.plan
        numbered = json.dumps((plan.agents, plan.events, plan.deciders))  # to which the numbers in messages refer
        return {"run": self.run, "digest": self.task.digest, "deciders": sha256(numbered.encode()).hexdigest()[:16]}

    def header(self, name: str) -> dict[str, object]:
        """The first line of a log."""
        return {**self.greeting, "agent": name, "version": 1}

    def save(self, folder: Path, **more: object) -> None:
        """Write `run.json`."""
        task, addresses = self.task, dict(self.addresses)
        document: dict[str, object] = {"version": __version__, "task": task.name, "digest": task.digest}
        document |= {"agents": list(task.agents), "deciders": dict(self.deciders), "addresses": addresses}
        document |= {key: getattr(self, key) for key in KEPT}
        write_whole(folder / "run.json", json.dumps({**document, "document": task.document(), **more}, indent=1))


def read_settings(folder: Path) -> tuple[RunSettings, dict[str, Any]]:
    """Read `run.json`: the settings, and the whole document."""
    path = folder / "run.json"
    try:
        document = json.loads(read_text(path, LARGEST_FILE))
        task = task_from(document["document"], str(document["task"]), None)
        deciders = {str(event): tuple(agents) for event, agents in document["deciders"].items()}
        kept = {key: document[key] for key in KEPT}
        settings = RunSettings(task, deciders=deciders, addresses=dict(document["addresses"]), **kept)
        if task.digest != document["digest"] or list(task.agents) != document["agents"]:
            raise FormatError("its digest or its agents are not those of its task: it was changed", path=path)
        settings.plan  # noqa: B018 - checks the deciders
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, HocketError):
            raise FormatError(str(error).removeprefix(f"{path}: "), path=path) from None
        raise FormatError("is not a file that hocket run has written", path=path) from None
    return settings, document
