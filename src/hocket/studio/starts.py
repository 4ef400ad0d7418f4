"""What a design can start from: a new task, a formula, and the tasks that come with hocket."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import resources

from hocket.errors import FormatError, known_names
from hocket.machine.formats import FORMATS, json, toml
from hocket.studio.pictures import Data
from hocket.studio.understanding import understand
from hocket.task.catalogue import built_in_tasks, rendezvous, source_of

NEW = "new task"
OWN = {"from a formula": "formula.toml", "a machine alone": "machine.toml"}  # files of this room
FAMILIES = ("rendezvous-2", "rendezvous-3")


def start_names() -> list[str]:
    """List all starts."""
    return [NEW, *OWN, *built_in_tasks(), *FAMILIES]


@cache
def start_text(name: str) -> str:
    """Return the text of a start."""
    if name in OWN:
        return (resources.files("hocket.studio.page") / OWN[name]).read_text(encoding="utf-8")
    if name in FAMILIES:
        return toml.unparse(rendezvous(int(name.rpartition("-")[2])).document())
    text = source_of("" if name == NEW else name or "?")
    if text is not None:
        return text
    raise FormatError(f"there is no start {name!r:.60} ({known_names(name, start_names())})")


def imported(content: str, suffix: str) -> str:
    """Write what a file of another format says as TOML, to begin with."""
    if suffix != ".json":
        return FORMATS[".toml"].write(FORMATS[suffix].read(content))
    document = json.parse(content)
    if not isinstance(document, dict):
        raise FormatError("a task or a machine is a table")
    text = toml.unparse(document)
    with suppress(FormatError):
        if toml.parse(text) == document:
            return text
    raise FormatError("this has something that TOML cannot say, such as null")


@cache
def gallery() -> Data:
    """Tell all starts with a description and a map."""
    worlds = {name: understand(start_text(name)) for name in start_names()}
    keys = ("description", "map", "agents")
    return {"starts": [{"name": name} | {key: world.get(key) for key in keys} for name, world in worlds.items()]}
