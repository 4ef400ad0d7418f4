"""A recording: everything that the logs of a run say, in an order that agrees with all of them.

Without clocks: an agent's entries are in order, an event is decided before it is heard of, and what an agent does where
it stands comes between two of its moves. What that leaves open is ordered by the times in the logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import NamedTuple

from hocket.errors import FormatError, HocketError
from hocket.runtime.log import LARGEST_LOG, LogContents, read_log
from hocket.runtime.protocol import Entry
from hocket.runtime.settings import WORLD, RunSettings, read_settings
from hocket.runtime.words import describe_entry

Place = tuple[str, int]  # whose log, and which entry of it


class Frame(NamedTuple):
    """One entry of a log."""

    time: float  # seconds since the first
    name: str  # of the agent, also for its moves in the world
    kind: str  # start, kill, stop, promise, release, decide, hear or move
    event: str | None
    cause: int | None  # of a hearing: the frame of the decision
    cell: int | None  # of a move: where it leads
    said: str  # in words


@dataclass(frozen=True)
class TeamRecording:
    """The frames of a run, in order."""

    settings: RunSettings
    frames: tuple[Frame, ...]
    begun: float  # seconds since 1970
    logs: Mapping[str, LogContents]  # of the agents and the world, as far as there are any


def read_recording(folder: str | Path, largest: int = LARGEST_LOG) -> TeamRecording:
    """Read what happened in a run; logs that cannot be put in order are an error."""
    folder = Path(folder)
    settings, _ = read_settings(folder)
    names = [*settings.task.agents, WORLD]
    logs = {name: read_log(folder / f"{name}.log", largest) for name in names if (folder / f"{name}.log").exists()}
    for name, log in logs.items():
        if log.header not in ({}, settings.header(name)):
            raise FormatError("belongs to another run, agent or task", path=folder / f"{name}.log")
    order = _ordered(settings, logs)
    number = {place: index for index, place in enumerate(order)}
    first = min((log.times[0] for log in logs.values() if log.times), default=0.0)
    causes = dict(_causes(settings, logs))
    frames = []
    for name, index in order:
        log = logs[name]
        cause = causes.get((name, index))
        frames.append(
            _frame(settings, log, name, index, log.times[index] - first, number.get(cause) if cause else None)
        )
    return TeamRecording(settings, tuple(frames), first, logs)


def _frame(settings: RunSettings, log: LogContents, name: str, index: int, time: float, cause: int | None) -> Frame:
    entry = log.entries[index]
    kind, plan = str(entry[0]), settings.plan
    if name == WORLD:
        if kind == "move":
            row, column = settings.task.grid.row_column(entry[5])
            return Frame(time, str(entry[1]), kind, None, None, entry[5], f"{entry[1]} moves to ({row}, {column})")
        return Frame(time, WORLD, kind, None, None, None, f"the world {kind}s")
    agent = plan.agents.index(name)
    event = {"decide": 3, "promise": 3, "hear": 4}.get(kind)
    if kind == "start" and index and log.entries[index - 1] != ("stop",):
        kind = "kill"
    said = f"{name} comes back after a kill" if kind == "kill" else describe_entry(plan, agent, entry)
    return Frame(time, name, kind, None if event is None else plan.events[entry[event]], cause, None, said)


def _causes(settings: RunSettings, logs: Mapping[str, LogContents]) -> Iterator[tuple[Place, Place]]:
    """Pair each hearing with the decision that it is of."""
    plan = settings.plan
    told: dict[tuple[int, int], list[Place]] = {}
    for agent, name in enumerate(plan.agents):
        for index, entry in enumerate(logs[name].entries if name in logs else ()):
            if entry[0] == "decide":
                for other in plan.knowers[entry[3]]:
                    told.setdefault((agent, other), []).append((name, index))
    for agent, name in enumerate(plan.agents):
        heard: dict[int, int] = {}
        for index, entry in enumerate(logs[name].entries if name in logs else ()):
            if entry[0] == "hear":
                sender = int(entry[1])
                place = heard.get(sender, 0)
                heard[sender] = place + 1
                if place < len(told.get((sender, agent), ())):
                    yield (name, index), told[sender, agent][place]


def _ordered(settings: RunSettings, logs: Mapping[str, LogContents]) -> list[Place]:
    """Sort all entries: what has to come before comes before, and otherwise by time."""
    before: dict[Place, set[Place]] = {(n, i): set() for n, log in logs.items() for i in range(len(log.entries))}
    moves: dict[tuple[str, int], Place] = {}
    for name, log in logs.items():
        for index, entry in enumerate(log.entries):
            if index:
                before[name, index].add((name, index - 1))
            if name == WORLD and entry[0] == "move":
                moves[str(entry[1]), int(entry[2])] = (name, index)
    for after, cause in _causes(settings, logs):
        before[after].add(cause)
    for name, log in logs.items():
        for index, entry in enumerate(log.entries):
            if name != WORLD and entry[0] in ("decide", "promise"):
                _between(before, moves, (name, index), entry)
    return _sorted(before, logs)


def _between(
    before: dict[Place, set[Place]], moves: Mapping[tuple[str, int], Place], place: Place, entry: Entry
) -> None:
    """Put what an agent agrees on where it stands after the move that led there, and before the next."""
    name, stamp = place[0], int(entry[-1])
    if (name, stamp) in moves:
        before[place].add(moves[name, stamp])
    if (name, stamp + 1) in moves:
        before[moves[name, stamp + 1]].add(place)


def _sorted(before: Mapping[Place, set[Place]], logs: Mapping[str, LogContents]) -> list[Place]:
    after: dict[Place, list[Place]] = {place: [] for place in before}
    left = {place: len(earlier_places) for place, earlier_places in before.items()}
    for place, earlier_places in before.items():
        for earlier in earlier_places:
            after[earlier].append(place)
    ready = [(logs[name].times[index], name, index) for (name, index), count in left.items() if not count]
    heapify(ready)
    order = []
    while ready:
        _, name, index = heappop(ready)
        order.append((name, index))
        for place in after[name, index]:
            left[place] -= 1
            if not left[place]:
                heappush(ready, (logs[place[0]].times[place[1]], *place))
    if len(order) < len(before):
        raise HocketError("the logs of this run contradict each other; `hocket verify` says where")
    return order
