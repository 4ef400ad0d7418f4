"""The page of a run of processes: a swim-lane for each agent, the map, and all log entries in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hocket.draw.map_svg import map_svg, unit_of
from hocket.draw.markup import Html, data_block, escape, join, tag
from hocket.draw.task_scene import scene_of
from hocket.files import write_whole
from hocket.report.document import fill
from hocket.runtime.recording import Frame, TeamRecording, Verification, read_recording, verify
from hocket.runtime.settings import WORLD

COLUMN, LANE, LEFT, TOP = 34.0, 56.0, 90.0, 30.0  # of the drawing, in units of the SVG
MARKS = {  # paths of the marks, by the kind of entry
    "start": "M-5 -6 L7 0 L-5 6 Z",
    "kill": "M1 -9 L-6 1 L-1 1 L-2 9 L6 -2 L1 -2 Z",
    "stop": "M-5 -5 H5 V5 H-5 Z",
    "promise": "M0 -7 L7 0 L0 7 L-7 0 Z",
    "release": "M-6 -6 L6 6 M6 -6 L-6 6",
    "decide": "M-7 0 A7 7 0 1 0 7 0 A7 7 0 1 0 -7 0 Z",
    "hear": "M-7 0 A7 7 0 1 0 7 0 A7 7 0 1 0 -7 0 Z",
}


def write_recording(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write the page of a run of processes, and return its path; contradictions between logs are shown."""
    page = Path(path) if path is not None else Path(folder) / "report.html"
    verification = verify(folder)
    write_whole(page, recording_html(read_recording(folder), verification))
    return page


def recording_html(recording: TeamRecording, verification: Verification) -> str:
    """Make the self-contained page of a run."""
    task, frames = recording.settings.task, recording.frames
    scene = scene_of(task)
    unit = unit_of(scene)
    starts = [[x * unit, y * unit] for x, y in scene.starts.values()]
    encoded = [_encoded(recording, frame, unit) for frame in frames]
    data = {"agents": list(task.agents), "starts": starts, "frames": encoded}
    answer, *evidence = verification.explain().splitlines()
    verdict = tag("p", answer, class_="verdict yes" if verification.ok else "verdict no")
    parts = {
        "title": escape(f"A run of {task.name}"),
        "verdict": join([verdict, *(tag("p", line) for line in evidence)]),
        "lanes": lanes_svg(recording),
        "map": map_svg(scene, list(scene.starts.values())),
        "entries": join(tag("li", f"{frame.time:.2f} s  {frame.text}", data_frame=n) for n, frame in enumerate(frames)),
        "last": Html(str(max(0, len(frames) - 1))),
        "data": data_block("recording", data),
    }
    return fill("recording", "recording.html", ("shared.css", "recording.css"), ("elements.js", "recording.js"), parts)


def _encoded(recording: TeamRecording, frame: Frame, unit: float) -> list[object]:
    """Encode an entry for scripts: the agent, the kind of entry, and the agent's position, if it has moved."""
    task = recording.settings.task
    agent = list(task.agents).index(frame.name) if frame.name != WORLD else -1
    if frame.cell is None:
        return [agent, frame.kind]
    row, column = task.grid.row_column(frame.cell)
    return [agent, frame.kind, (column + 0.5) * unit, (row + 0.5) * unit]


def lanes_svg(recording: TeamRecording) -> Html:
    """Draw a lane for each agent: what it promised, decided and heard, in an order that agrees with all logs."""
    agents = list(recording.settings.task.agents)
    shown = [n for n, frame in enumerate(recording.frames) if frame.kind != "move" and frame.name in agents]
    across = {number: LEFT + COLUMN * (column + 1) for column, number in enumerate(shown)}
    down = {agent: TOP + LANE * row for row, agent in enumerate(agents)}
    width, height = LEFT + COLUMN * (len(shown) + 2), TOP + LANE * len(agents)
    lines = [tag("path", class_="lane", d=f"M{LEFT:g} {y:g} H{width - COLUMN:g}") for y in down.values()]
    names = [tag("text", agent, class_="name", x=LEFT - 12, y=y) for agent, y in down.items()]
    marks = (_mark(recording.frames[number], number, across[number], down) for number in shown)
    drawn = [*lines, *names, *_holds(recording, across, down), *_arrows(recording, across, down), *marks]
    view, label = f"0 0 {width:g} {height:g}", "What every agent promised, decided and heard"
    look = {"class_": "lanes", "viewBox": view, "role": "img", "aria_label": label}
    return tag("svg", *drawn, width=width, height=height, **look)


def _mark(frame: Frame, number: int, across: float, down: dict[str, float]) -> Html:
    label = tag("text", frame.event, y=-13) if frame.event and frame.kind in ("decide", "promise") else Html("")
    title = tag("title", f"{frame.text} ({frame.time:.2f} s)")
    shape = tag("path", d=MARKS.get(frame.kind, MARKS["stop"]))
    position = f"translate({across:g} {down[frame.name]:g})"
    return tag("g", title, shape, label, class_=f"mark {frame.kind}", transform=position, data_frame=number)


def _holds(recording: TeamRecording, across: dict[int, float], down: dict[str, float]) -> Iterator[Html]:
    """Draw bars while agents hold still: from a promise to the event, or to its release."""
    since: dict[str, int] = {}
    for number, frame in enumerate(recording.frames):
        if frame.kind == "promise":
            since[frame.name] = number
        elif frame.kind in ("hear", "release", "decide") and frame.name in since:
            begin = across[since.pop(frame.name)]
            yield tag("path", class_="hold", d=f"M{begin:g} {down[frame.name]:g} H{across[number]:g}")


def _arrows(recording: TeamRecording, across: dict[int, float], down: dict[str, float]) -> Iterator[Html]:
    """Draw lines from decisions to the agents that heard of them."""
    for number, frame in enumerate(recording.frames):
        if frame.cause is not None and number in across and frame.cause in across:
            begin, source = across[frame.cause], down[recording.frames[frame.cause].name]
            end, target = across[number], down[frame.name]
            bend = (begin + end) / 2
            path = f"M{begin:g} {source:g} C{bend:g} {source:g} {bend:g} {target:g} {end:g} {target:g}"
            yield tag("path", class_="heard", d=path)
