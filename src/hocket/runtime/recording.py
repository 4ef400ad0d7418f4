"""The logs of a run: all entries in a causal order, verification that the task allows them, and MCAP files.

The order needs no clocks: an agent's entries are in order, an event is decided before it is heard of, and what an agent
does in a cell comes between two of its moves. Entries that these rules do not order are sorted by their times.
Verification reads `run.json` and the logs and nothing else. An MCAP file (for Foxglove; needs the extra `mcap`) has
entries as logs, and cells of agents as poses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from hocket.errors import FormatError, HocketError, needs_extra
from hocket.files import file_errors
from hocket.machine.composition import Composition
from hocket.machine.counterexample import listing, name_trace
from hocket.runtime.codec import describe_entry
from hocket.runtime.judge import Judge, Violation
from hocket.runtime.log import LARGEST_LOG, LogContents, read_log
from hocket.runtime.plan import Plan
from hocket.runtime.protocol import EVENT_AT, Entry, find_invalid
from hocket.runtime.settings import WORLD, RunSettings, read_settings
from hocket.task.task import Task
from hocket.task.verdict import check_delays

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

Position = tuple[str, int]  # of an entry: the name of its log, and its index there


class Frame(NamedTuple):
    """An entry of a log, for display."""

    time: float  # seconds since the first
    name: str  # of the agent, also for its moves in the world
    kind: str  # start, kill, stop, promise, release, decide, hear or move
    event: str | None
    cause: int | None  # of a hearing: the frame of the decision
    cell: int | None  # of a move: where it leads
    text: str


@dataclass(frozen=True)
class TeamRecording:
    """The frames of a run, in order."""

    settings: RunSettings
    frames: tuple[Frame, ...]
    begun: float  # seconds since 1970
    logs: Mapping[str, LogContents]  # of the agents and the world, those that exist


def read_recording(folder: str | Path, largest: int = LARGEST_LOG) -> TeamRecording:
    """Read what happened in a run; logs that contradict each other are an error."""
    folder = Path(folder)
    settings, _ = read_settings(folder)
    paths = {name: folder / f"{name}.log" for name in (*settings.task.agents, WORLD)}
    existing = {name: path for name, path in paths.items() if path.exists()}
    logs = {name: read_log(path, largest, header=settings.header(name)) for name, path in existing.items()}
    order = causal_order(settings.plan, logs)
    number = {position: index for index, position in enumerate(order)}
    first = min((log.times[0] for log in logs.values() if log.times), default=0.0)
    causes = {position: number[cause] for position, cause in causal_pairs(settings.plan, logs)}
    frames = tuple(_frame(settings, logs[position[0]], position, first, causes.get(position)) for position in order)
    return TeamRecording(settings, frames, first, logs)


def _frame(settings: RunSettings, log: LogContents, position: Position, begun: float, cause: int | None) -> Frame:
    name, index = position
    entry, time = log.entries[index], log.times[index] - begun
    kind, plan = str(entry[0]), settings.plan
    if name == WORLD and kind == "move":
        row, column = settings.task.grid.row_column(entry[5])
        return Frame(time, str(entry[1]), kind, None, None, entry[5], f"{entry[1]} moves to ({row}, {column})")
    if name == WORLD:
        return Frame(time, WORLD, kind, None, None, None, f"the world {kind}s")
    event = plan.events[entry[EVENT_AT[kind]]] if kind in EVENT_AT else None
    if kind == "start" and index and log.entries[index - 1] != ("stop",):
        kind = "kill"
    text = f"{name} comes back after a kill" if kind == "kill" else describe_entry(plan, plan.agents.index(name), entry)
    return Frame(time, name, kind, event, cause, None, text)


def causal_pairs(plan: Plan, logs: Mapping[str, LogContents]) -> Iterator[tuple[Position, Position]]:
    """Pair each hearing of an event with its decision."""
    entries = [logs[name].entries if name in logs else () for name in plan.agents]
    for (hearer, mine), (sender, theirs) in product(enumerate(entries), repeat=2):
        heard = (n for n, entry in enumerate(mine) if entry[0] == "hear" and entry[1] == sender)
        sent = (n for n, entry in enumerate(theirs) if entry[0] == "decide" and hearer in plan.knowers[entry[3]])
        for hearing, decision in zip(heard, sent, strict=False):
            yield (plan.agents[hearer], hearing), (plan.agents[sender], decision)


def causal_order(plan: Plan, logs: Mapping[str, LogContents]) -> list[Position]:
    """Sort all entries in a causal order; those that it leaves open by time."""
    entries = {(name, index): entry for name, log in logs.items() for index, entry in enumerate(log.entries)}
    sorter = TopologicalSorter({(name, index): [(name, index - 1)] if index else [] for name, index in entries})
    moves = {entry[1:3]: position for position, entry in entries.items() if position[0] == WORLD and entry[0] == "move"}
    promises = {(position[0], entry[1:4]): position for position, entry in entries.items() if entry[0] == "promise"}
    for hearing, decision in causal_pairs(plan, logs):
        sorter.add(hearing, decision)
    for position, entry in entries.items():
        name = position[0]
        if name == WORLD or entry[0] not in ("decide", "promise"):
            continue
        if entry[0] == "decide":
            agreed = (promises.get((plan.agents[other], entry[1:4])) for other in plan.deciders[entry[3]])
            sorter.add(position, *(promise for promise in agreed if promise is not None and promise[0] != name))
        stamp = int(entry[-1])  # the number of the move that led to the agent's cell
        if (name, stamp) in moves:
            sorter.add(position, moves[name, stamp])
        if (name, stamp + 1) in moves and plan.agents.index(name) in plan.controllers[entry[3]]:
            sorter.add(moves[name, stamp + 1], position)
    try:
        sorter.prepare()
    except CycleError:
        raise HocketError("the logs of this run contradict each other; `hocket verify` says where") from None
    ready: list[tuple[float, Position]] = []
    order: list[Position] = []
    while sorter.is_active():
        for name, index in sorter.get_ready():
            heappush(ready, (logs[name].times[index], (name, index)))
        order.append(heappop(ready)[1])
        sorter.done(order[-1])
    return order


# Verification: are the events in the logs a trace of the team machine?


@dataclass(frozen=True)
class Verification:
    """Whether the logs of a run are consistent with its task."""

    task: Task
    contradiction: str | None  # the first one, in words
    trace: tuple[str, ...] = ()  # a linear extension of the events
    complete: bool = False
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # agent -> events that it has not heard of yet
    kills: Mapping[str, int] = field(default_factory=dict)  # name -> times that it came back without having stopped
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the events are a trace of the team machine, and every log its projection."""
        return self.contradiction is None

    def explain(self) -> str:
        """Give the answer in sentences."""
        if self.contradiction is not None:
            return f"Not verified: {self.contradiction}."
        lines = [f"Verified: {name_trace(self.trace)} is a trace of the team machine, and every log is its projection."]
        lines.append(f"The task is {'complete' if self.complete else 'not complete yet'}.")
        lines += [f"{agent} has not heard yet of {listing(events, 'and')}." for agent, events in self.missing.items()]
        kills = ((name, count) for name, count in self.kills.items() if count)
        if killed := [f"{name} {f'{count} times' if count > 1 else 'once'}" for name, count in kills]:
            lines.append(f"Killed and came back: {', '.join(killed)}.")
        return "\n".join((*lines, *self.notes))

    def as_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return {"ok": self.ok, **{name: value for name, value in vars(self).items() if name != "task"}}


def verify(folder: str | Path) -> Verification:
    """Verify a run by its logs alone: the first contradiction in words, or the trace that happened."""
    folder = Path(folder)
    settings, document = read_settings(folder)
    task, plan = settings.task, settings.plan
    try:
        names = (*task.agents, WORLD) if (folder / f"{WORLD}.log").exists() else task.agents
        logs, ended = dict[str, LogContents](), document.get("ended")
        for name in names:
            log = logs[name] = read_log(folder / f"{name}.log", header=settings.header(name))
            if isinstance(ended, dict) and name in ended and (ended[name] != log.check or log.is_torn):
                raise Violation(f"{name}.log does not end as it did when the run ended: it was changed or cut")
        if not check_delays(task, settings.deciders).tolerant:
            raise Violation("its deciders do not make the task tolerant to delays")
        judge = _judge(settings, logs)
    except (FormatError, Violation) as error:
        return Verification(task, str(error))
    machine, state = task.machine, judge.team_state
    trace = tuple(plan.events[event] for event in judge.trace)
    is_final = machine.is_final(state) if isinstance(machine, Composition) else state in machine.final
    missing = {}
    for agent, concerns, known in zip(plan.agents, judge.concerns, judge.known, strict=True):
        if unheard := concerns & ~known:
            missing[agent] = tuple(event for index, event in enumerate(trace) if unheard >> index & 1)
    kinds = {name: [entry[0] for entry in log.entries] for name, log in logs.items()}
    ends = {name: kind.count("stop") + (kind[-1:] != ["stop"]) for name, kind in kinds.items()}  # or it still runs
    kills = {name: max(0, kind.count("start") - ends[name]) for name, kind in kinds.items()}
    notes = tuple(f"The last entry of {name}.log was cut." for name, log in logs.items() if log.is_torn)
    return Verification(task, None, trace, is_final, missing, kills, notes)


def _judge(settings: RunSettings, logs: Mapping[str, LogContents]) -> Judge:
    """Show the judge all entries in a causal order; conditions hold or not by the cells in which agents stood."""
    task, plan = settings.task, settings.plan
    for name in task.agents:
        if (entry := find_invalid(plan, logs[name].entries)) is not None:
            raise Violation(f"{name} has an entry in its log that makes no sense: {str(entry)[:60]}")
        starts = [entry[1] for entry in logs[name].entries if entry[0] == "start"]
        if starts != [*range(1, len(starts) + 1)]:
            raise Violation(f"{name} starts as another incarnation than the next")
    cells = _cells(settings, logs[WORLD].entries) if WORLD in logs else None
    logs = {name: logs[name] for name in task.agents}
    everything = (1 << len(plan.events)) - 1
    conditions, decided = [everything] * len(plan.agents), set[tuple[str, int, int]]()
    machine: Any = task.machine
    judge = Judge(plan, machine.initial, lambda state, event: machine.step(state, plan.events[event]), conditions)
    for (hearer, hearing), (name, decision) in causal_pairs(plan, logs):
        if logs[hearer].entries[hearing][2:] != logs[name].entries[decision][1:5]:
            raise Violation(f"{hearer} hears from {name} of an event, which {name} has not decided")
    try:
        order = causal_order(plan, logs)
    except HocketError:
        raise Violation("the logs put events into orders that contradict each other") from None
    for name, index in order:
        agent, entry = plan.agents.index(name), logs[name].entries[index]
        if cells is not None and entry[0] in ("decide", "promise"):
            number, stamp = entry[3], entry[-1]
            event = plan.events[number]
            if name in task.events[event]:
                is_met = 0 <= stamp < len(cells[name]) and task.holds(name, event, *cells[name][stamp])
                conditions[agent] = everything if is_met else everything & ~(1 << number)
            if entry[0] == "decide" and plan.edges[agent] >> number & 1:
                if (name, number, stamp) in decided:
                    raise Violation(f"{name} decides on {event} twice after one move")
                decided.add((name, number, stamp))
        judge.record(agent, entry)
    return judge


def _cells(settings: RunSettings, entries: tuple[Entry, ...]) -> dict[str, list[tuple[int, int | None]]]:
    """Require that every move was possible; list the cell of each agent after each of its moves, and the one before."""
    walks = settings.walks()
    cells = {agent: [(walk.cell, walk.before)] for agent, walk in walks.items()}
    for entry in entries:
        match entry:
            case ("start",) | ("stop",):
                continue
            case ("move", str(agent), int(number), int(action), int(state), int(cell)) if agent in walks:
                walk = walks[agent]
                if (end := walk.after(number, action, state, walks)) is None:
                    raise Violation(f"the world has a move of {agent} that is not the next")
                if end != cell:
                    raise Violation(f"the world moves {agent} to where move {number} does not lead")
                walk.go(number, cell)
                cells[agent].append((cell, walk.before))
            case _:
                raise Violation(f"the world's log has an entry that makes no sense: {str(entry)[:60]}")
    return cells


# MCAP files.


def write_mcap(folder: str | Path, path: str | Path) -> Path:
    """Write the logs of a run as an MCAP file; a cell of the map is a metre."""
    with needs_extra("an MCAP file", "mcap"):
        from mcap.writer import CompressionType, Writer
    recording = read_recording(folder)
    grid = recording.settings.task.grid
    with file_errors(Path(path)), Path(path).open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start(profile="", library="hocket")
        schemas, channels = dict[str, int](), dict[str, int]()
        for name, fields in SCHEMAS.items():
            schema = json.dumps({"type": "object", "title": name, "properties": fields})
            schemas[name] = writer.register_schema(name, "jsonschema", schema.encode())
        for frame in recording.frames:
            time = int((recording.begun + frame.time) * NANO)
            value: dict[str, object] = {"timestamp": {"sec": time // NANO, "nsec": time % NANO}}
            if frame.cell is None:
                kind, topic = "foxglove.Log", f"/{frame.name}/log"
                level = WARNING if frame.kind in ("kill", "release") else INFO
                value |= {"level": level, "message": frame.text, "name": frame.name}
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
