"""What a run is (`run.json`): its task, who decides on what, where the agents are; and where moves lead them."""

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
    """Where an agent is, and how many moves it has made."""

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

    def after(self, action: int, state: int, walks: Mapping[str, Walk]) -> int:
        """Find the cell after the next move, in a state of the agent's machine, on which its gates depend; agents move
        one at a time here, so that one with a body stays where it is if its way is not free."""
        end = move(self.task, self.cell, ACTIONS[action], self.closed[state], slip_draw(self.key, self.moves))
        if not self.task.bodies:
            return end
        cells = {agent: walk.cell for agent, walk in walks.items()}
        return hold_apart(self.task.bodies, self.task.units, cells, {**cells, self.agent: end})[self.agent]


@dataclass(frozen=True)
class RunSettings:
    """All that the processes of a run have to agree on, and where they are."""

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
        """Put each agent where it starts."""
        return {agent: Walk(self.task, agent, self.seed) for agent in self.task.agents}

    @cached_property
    def greeting(self) -> dict[str, str]:
        """What agents tell each other before anything else."""
        order = [list(self.plan.agents), list(self.plan.events), self.plan.deciders]  # numbers stand for these
        deciders = json.dumps(order)
        return {"run": self.run, "digest": self.task.digest, "deciders": sha256(deciders.encode()).hexdigest()[:16]}

    def header(self, name: str) -> dict[str, object]:
        """The first line of a log."""
        return {**self.greeting, "agent": name, "version": 1}

    def save(self, folder: Path, **more: object) -> None:
        """Write `run.json`."""
        task, kept = self.task, {key: getattr(self, key) for key in KEPT}
        head = {"version": __version__, "task": task.name, "digest": task.digest, "agents": list(task.agents)}
        team = {"deciders": dict(self.deciders), "addresses": dict(self.addresses)}
        document = {**head, **team, **kept, "document": task.document(), **more}
        write_whole(folder / "run.json", json.dumps(document, indent=1))


def read_settings(folder: Path) -> tuple[RunSettings, dict[str, Any]]:
    """Read `run.json`: the settings, and everything that it says."""
    path = folder / "run.json"
    try:
        document = json.loads(read_text(path, LARGEST_FILE))
        task = task_from(document["document"], str(document["task"]), None)
        deciders = {str(event): tuple(agents) for event, agents in document["deciders"].items()}
        kept = {key: document[key] for key in KEPT}
        settings = RunSettings(task, deciders=deciders, addresses=dict(document["addresses"]), **kept)
        if task.digest != document["digest"] or list(task.agents) != document["agents"]:
            raise FormatError("its digest or its agents are not those of its task: it was changed", path=path)
        settings.plan  # noqa: B018 - deciders that make no sense are found here
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, HocketError):
            raise FormatError(str(error).removeprefix(f"{path}: "), path=path) from None
        raise FormatError("is not a file that hocket run has written", path=path) from None
    return settings, document
