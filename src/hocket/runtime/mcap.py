"""Runs as MCAP files, for Foxglove: what agents do as logs, and where they are as poses. Needs the extra `mcap`."""

from __future__ import annotations

import json
from pathlib import Path

from hocket.errors import FormatError, needs_extra
from hocket.runtime.recording import read_recording

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


def write_mcap(folder: str | Path, path: str | Path) -> Path:
    """Write what the logs of a run say as an MCAP file; a cell of the map is a metre."""
    with needs_extra("an MCAP file", "mcap"):
        from mcap.writer import CompressionType, Writer
    recording = read_recording(folder)
    grid = recording.settings.task.grid
    try:
        with Path(path).open("wb") as file:
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
    except OSError as error:
        raise FormatError(f"cannot be written: {error.strerror or error}", path=path) from None
    return Path(path)
