"""Teams that run as processes: the state of a run in the folder of the studio, as recorded in its logs."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from hocket.draw.map_svg import map_svg, number_of
from hocket.draw.palette import choose_styles
from hocket.draw.scene import Moment
from hocket.draw.task_scene import scene_of
from hocket.errors import FormatError, HocketError, printable
from hocket.files import MEGABYTE
from hocket.runtime.protocol import Participant
from hocket.runtime.recording import TeamRecording, read_recording
from hocket.studio.pictures import Data
from hocket.studio.understanding import COLOR_NUMBERS, closed_areas

DEEPEST = 3  # levels of folders in which runs are searched
MOST_LOOKED_AT = 5_000  # files and folders in a search for runs
MOST_RUNS = 50  # that are listed
LARGEST = 10 * MEGABYTE  # bytes of a log that is followed
MOST_EVENTS = 60  # latest events that are shown
NONSENSE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def watch_runs(request: Mapping[str, object]) -> Data:
    """List the runs, and describe the one that the page has chosen, or else the latest."""
    root = Path(str(request["root"]))
    names = list_runs(root)
    name = request.get("run") or next(iter(names), None)
    if name is None:
        return {"runs": []}
    try:
        if name not in names:
            raise FormatError(f"a run must be one of those in the folder of the studio or below, got {name!r:.80}")
        run = _describe(read_recording(root / str(name), LARGEST), request.get("known"))
    except (HocketError, *NONSENSE) as error:
        if not isinstance(error, HocketError):  # a checksum proves a log complete, not its content valid
            rule = "has entries in its logs that make no sense; `hocket verify` says more"
            error = FormatError(rule, path=root / str(name))
        return {"runs": names, "name": name, "refused": printable(str(error).replace(f"{root}{os.sep}", ""), 1_000)}
    return {"runs": names, "name": name, "run": run}


def list_runs(root: Path) -> list[str]:
    """List the folders of runs in a folder and below, the latest first; links are not followed."""
    runs: dict[str, float] = {}
    folders, remaining = deque([(root, 0)]), MOST_LOOKED_AT
    while folders and remaining > 0:
        folder, depth = folders.popleft()
        with suppress(OSError), os.scandir(folder) as entries:  # the folder may not be read, or is gone
            for entry in islice(entries, remaining):
                remaining -= 1
                if entry.name == "run.json" and folder != root and entry.is_file(follow_symlinks=False):
                    runs[folder.relative_to(root).as_posix()] = entry.stat(follow_symlinks=False).st_mtime
                elif depth < DEEPEST and entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
                    folders.append((folder / entry.name, depth + 1))
    return sorted(runs, key=lambda name: (-runs[name], name))[:MOST_RUNS]


def _describe(recording: TeamRecording, known: object) -> Data:
    """Describe the state of a run; add its map, agents and colours of events if the page does not have them yet."""
    task, frames = recording.settings.task, recording.frames
    scene = scene_of(task)
    cells = {name: walk.cell for name, walk in recording.settings.walks().items()}
    steps = Counter(frame.name for frame in frames if frame.kind == "move")
    kills = Counter(frame.name for frame in frames if frame.kind == "kill")
    for frame in frames:
        if frame.cell is not None:
            if type(frame.cell) is not int or not 0 <= frame.cell < task.grid.cells:
                raise ValueError(frame.cell)
            cells[frame.name] = frame.cell
    agents = [_describe_agent(recording, name) | {"steps": steps[name], "kills": kills[name]} for name in task.agents]
    moment = Moment(cells, {str(agent["name"]): str(agent["state"]) for agent in agents})
    decided = [frame for frame in frames if frame.kind == "decide" and frame.event is not None]
    duration = max((frame.time for frame in frames), default=0.0)
    key = f"{recording.settings.run} {task.digest}"
    world: Data | None = None
    if known != key:
        styles, starts = choose_styles((*scene.styles, *task.events)), list(scene.starts.values())
        world = {
            "name": task.name,
            "map": {"rows": task.grid.rows, "columns": task.grid.columns, "svg": map_svg(scene, starts)},
            "agents": [{"name": n, "number": number_of(scene, n), "color": scene.colors[n]} for n in task.agents],
            "events": {event: COLOR_NUMBERS[color] for event, (color, _) in styles.items()},
        }
    return {
        "key": key,
        "seconds": _tenths(duration),
        "quiet": _tenths(max(0.0, time.time() - recording.begun - duration)) if frames else 0.0,
        "complete": all(agent["final"] for agent in agents),
        "alive": any(agent["alive"] for agent in agents),
        "cells": [cells[name] for name in task.agents],
        "closed": closed_areas(scene, moment),
        "agents": agents,
        "happened": len(decided),
        "events": [[_tenths(frame.time), frame.event, frame.name] for frame in decided[-MOST_EVENTS:]],
        "world": world,
    }


def _tenths(seconds: float) -> float:
    return round(seconds * 10) / 10  # raises an error if it is not a number


def _describe_agent(recording: TeamRecording, name: str) -> Data:
    """Describe the state of an agent by its log."""
    plan, log = recording.settings.plan, recording.logs.get(name)
    number, entries = plan.agents.index(name), () if log is None else log.entries
    participant = Participant.recover(plan, number, (entry for entry in entries if entry[0] != "stop"))
    alive = bool(entries) and entries[-1][0] != "stop"
    now = "running" if alive else "stopped" if entries else "not started"
    return {
        "name": name,
        "state": tuple(plan.machines[number].states)[participant.state],
        "now": "finished" if participant.is_final else "waiting" if alive and participant.holding else now,
        "final": participant.is_final,
        "alive": alive,
        "events": sum(entry[0] in ("decide", "hear") for entry in entries),
    }
