"""A recording: everything that the logs of a run say, in an order that agrees with all of them.

Without clocks: an agent's entries are in order, an event is decided before it is heard of, and what an agent does where
it stands comes between two of its moves. What that leaves open is ordered by the times in the logs. As an MCAP file for
Foxglove, which needs the extra `mcap`, what agents do is logs, and where they are is poses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from hocket.errors import HocketError, needs_extra
from hocket.files import telling
from hocket.runtime.codec import describe_entry
from hocket.runtime.log import LARGEST_LOG, LogContents, read_log
from hocket.runtime.plan import Plan
from hocket.runtime.settings import WORLD, RunSettings, read_settings

NANO = 1_000_000_000
UPRIGHT = {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0}
INFO, WARNING = 2, 3  # levels of foxglove.Log
TEXT, NUMBER = {"type": "string"}, {"type": "number"}
TIME = {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}
POINT = {"type": "object", "properties": dict.fromkeys("xyz", NUMBER)}
TURN = {"type": "object", "properties": dict.fromkeys("xyzw", NUMBER)}
POSE = {"type": "object", "properties": {"position": POINT, "orientation": TURN}}
SCHEMAS = {
    "foxglove.Log": {"timestamp": TIME, "level": {"type": "integer"}, "message": TEXT, "name": TEXT},
    "foxglove.PoseInFrame": {"timestamp": TIME, "frame_id": TEXT, "pose": POSE},
}

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
    paths = {name: folder / f"{name}.log" for name in (*settings.task.agents, WORLD)}
    logs = {
        name: read_log(path, largest, header=settings.header(name)) for name, path in paths.items() if path.exists()
    }
    order = causal_order(settings.plan, logs)
    number = {place: index for index, place in enumerate(order)}
    first = min((log.times[0] for log in logs.values() if log.times), default=0.0)
    effects = {place: number[cause] for place, cause in causal_pairs(settings.plan, logs)}
    frames = tuple(_frame(settings, logs[place[0]], place, first, effects.get(place)) for place in order)
    return TeamRecording(settings, frames, first, logs)


def _frame(settings: RunSettings, log: LogContents, place: Place, begun: float, cause: int | None) -> Frame:
    name, index = place
    entry, time = log.entries[index], log.times[index] - begun
    kind, plan = str(entry[0]), settings.plan
    if name == WORLD and kind == "move":
        row, column = settings.task.grid.row_column(entry[5])
        return Frame(time, str(entry[1]), kind, None, None, entry[5], f"{entry[1]} moves to ({row}, {column})")
    if name == WORLD:
        return Frame(time, WORLD, kind, None, None, None, f"the world {kind}s")
    event = {"decide": 3, "promise": 3, "hear": 4}.get(kind)
    if kind == "start" and index and log.entries[index - 1] != ("stop",):
        kind = "kill"
    said = f"{name} comes back after a kill" if kind == "kill" else describe_entry(plan, plan.agents.index(name), entry)
    return Frame(time, name, kind, None if event is None else plan.events[entry[event]], cause, None, said)


def causal_pairs(plan: Plan, logs: Mapping[str, LogContents]) -> Iterator[tuple[Place, Place]]:
    """Pair each hearing with the decision that it is of."""
    told: dict[tuple[int, int], list[Place]] = {}
    for agent, name in enumerate(plan.agents):
        for index, entry in enumerate(logs[name].entries if name in logs else ()):
            if entry[0] == "decide":
                for other in plan.knowers[entry[3]]:
                    told.setdefault((agent, other), []).append((name, index))
    for agent, name in enumerate(plan.agents):
        waiting = {pair: iter(places) for pair, places in told.items()}
        for index, entry in enumerate(logs[name].entries if name in logs else ()):
            if entry[0] == "hear" and (cause := next(waiting.get((entry[1], agent), iter(())), None)) is not None:
                yield (name, index), cause


def causal_order(plan: Plan, logs: Mapping[str, LogContents]) -> list[Place]:
    """Sort all entries: what has to come before comes before, and otherwise by time."""
    before: dict[Place, set[Place]] = {(n, i): set() for n, log in logs.items() for i in range(len(log.entries))}
    moves: dict[tuple[str, int], Place] = {}
    promises: dict[tuple[str, tuple[object, ...]], Place] = {}
    for name, index in before:
        entry = logs[name].entries[index]
        if index:
            before[name, index].add((name, index - 1))
        if name == WORLD and entry[0] == "move":
            moves[str(entry[1]), int(entry[2])] = (name, index)
        elif entry[0] == "promise":
            promises[name, entry[1:4]] = (name, index)
    for after, cause in causal_pairs(plan, logs):
        before[after].add(cause)
    for name, index in before:
        entry = logs[name].entries[index]
        if name == WORLD or entry[0] not in ("decide", "promise"):
            continue
        if entry[0] == "decide":
            agreed = (promises.get((plan.agents[other], entry[1:4])) for other in plan.deciders[entry[3]])
            before[name, index] |= {place for place in agreed if place is not None and place[0] != name}
        stamp = int(entry[-1])  # of the move that led to where the agent stands
        if (name, stamp) in moves:
            before[name, index].add(moves[name, stamp])
        if (name, stamp + 1) in moves and plan.agents.index(name) in plan.controllers[entry[3]]:
            before[moves[name, stamp + 1]].add((name, index))
    return _sorted(before, {place: logs[place[0]].times[place[1]] for place in before})


def _sorted(before: Mapping[Place, set[Place]], times: Mapping[Place, float]) -> list[Place]:
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError:
        raise HocketError("the logs of this run contradict each other; `hocket verify` says where") from None
    ready: list[tuple[float, Place]] = []
    order: list[Place] = []
    while sorter.is_active():
        for place in sorter.get_ready():
            heappush(ready, (times[place], place))
        order.append(heappop(ready)[1])
        sorter.done(order[-1])
    return order


def write_mcap(folder: str | Path, path: str | Path) -> Path:
    """Write what the logs of a run say as an MCAP file; a cell of the map is a metre."""
    with needs_extra("an MCAP file", "mcap"):
        from mcap.writer import CompressionType, Writer
    recording = read_recording(folder)
    grid = recording.settings.task.grid
    with telling(Path(path)), Path(path).open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start(profile="", library="hocket")
        schemas = {
            name: writer.register_schema(
                name, "jsonschema", json.dumps({"type": "object", "title": name, "properties": fields}).encode()
            )
            for name, fields in SCHEMAS.items()
        }
        channels: dict[str, int] = {}
        for frame in recording.frames:
            time = int((recording.begun + frame.time) * NANO)
            value: dict[str, object] = {"timestamp": {"sec": time // NANO, "nsec": time % NANO}}
            if frame.cell is None:
                kind, topic = "foxglove.Log", f"/{frame.name}/log"
                level = WARNING if frame.kind in ("kill", "release") else INFO
                value |= {"level": level, "message": frame.said, "name": frame.name}
            else:
                kind, topic = "foxglove.PoseInFrame", f"/{frame.name}/pose"
                row, column = grid.row_column(frame.cell)
                position = {"x": column + 0.5, "y": -(row + 0.5), "z": 0.0}
                value |= {"frame_id": "map", "pose": {"position": position, "orientation": UPRIGHT}}
            if topic not in channels:
                channels[topic] = writer.register_channel(topic, "json", schemas[kind])
            writer.add_message(channels[topic], time, json.dumps(value).encode(), time)
        writer.finish()  # type: ignore[no-untyped-call]
    return Path(path)
