"""Machines as files: TOML and JSON (one schema), the text format of the paper's public code, DOT, and HOA."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hocket.errors import FormatError, MachineError, known_names, located
from hocket.files import MEGABYTE, read_text, write_whole
from hocket.machine.formats.schema import Design, Files, design_from, design_to
from hocket.machine.reward_machine import RewardMachine


class Format(NamedTuple):
    name: str  # of its module, which is loaded when it is used
    limit: int  # bytes
    title: str = ""  # of a format for a machine alone, without local event sets and control

    def read(self, content: str, files: Files | None = None) -> Design:
        """Read a machine and, if the format has them, local event sets and control."""
        module = import_module(f"{__name__}.{self.name}")
        return Design(module.read(content)) if self.title else design_from(module.parse(content), files)

    def write(self, design: Design) -> str:
        module = import_module(f"{__name__}.{self.name}")
        if not self.title:
            return str(module.unparse(design_to(design)))
        if design.knows or design.control:
            raise FormatError(f"{self.title} has no place for `knows` and `control`; write .toml or .json")
        return str(module.write(design.enumerated()))


FORMATS = MappingProxyType(
    {
        ".toml": Format("toml", 8 * MEGABYTE),
        ".json": Format("json", 128 * MEGABYTE),
        ".txt": Format("text", 128 * MEGABYTE, "the text format"),
        ".dot": Format("dot", 128 * MEGABYTE, "DOT"),
        ".gv": Format("dot", 128 * MEGABYTE, "DOT"),
        ".hoa": Format("hoa", 2 * MEGABYTE, "HOA"),
    }
)


def load_machine(path: str | Path) -> RewardMachine:
    """Read a machine from a file in the format of its suffix."""
    with located(path=path, kind=MachineError):
        return load_design(path).enumerated()


def save_machine(machine: RewardMachine, path: str | Path) -> None:
    """Write a machine to a file in the format of its suffix."""
    save_design(Design(machine), path)


def load_design(path: str | Path, document: object = None, files: Files | None = None) -> Design:
    """Read a machine and, if the file has them, local event sets and control; `document` is the content of a TOML or
    JSON file, if it is already parsed, and `files` are those that it may call."""
    path = Path(path)
    form = _format_of(path)
    content = read_text(path, form.limit) if document is None else ""
    with located(path=path, whole="machine"):
        files = files or files_in(path.parent, path.name)
        return form.read(content, files) if document is None else design_from(document, files)


def files_in(folder: Path | None, *callers: str) -> Files:
    """Let machines call the files of a folder, but not their callers."""

    def load(name: str, where: str, files: Files) -> RewardMachine:
        path = beside(folder, name, where)
        with located(where):
            return load_design(path, files=files).enumerated()

    return Files(load, [*callers])


def beside(folder: Path | None, name: str, where: str) -> Path:
    """Return the path of a file in the folder of the file that names it; other paths and links out of it are errors."""
    with suppress(OSError, ValueError, RuntimeError):  # a name that no file can have, or a cycle of links
        if folder is not None and Path(name).name == name and (folder / name).resolve().parent == folder.resolve():
            return folder / name
    raise FormatError(f"must be a file in the folder of this file, got {name!r}", where=where)


def save_design(design: Design, path: str | Path) -> None:
    """Write a machine with local event sets and control, if the format has them."""
    path = Path(path)
    form = _format_of(path)
    with located(path=path):
        content = form.write(design)
    if len(content.encode()) > form.limit:
        raise FormatError(f"this machine is too large for {path.suffix}; write it as .json", path=path)
    write_whole(path, content)


def _format_of(path: Path) -> Format:
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        hint = known_names(path.suffix, FORMATS)
        raise FormatError(f"the suffix of a machine file says its format, got {path.suffix!r} ({hint})", path=path)
    return form
