"""Machines as files: TOML and JSON (one schema), the text format of the paper's public code, DOT, and HOA."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

from hocket.errors import FormatError, HocketError, MachineError, known_names
from hocket.files import MEGABYTE, read_text, write_whole
from hocket.machine.formats import dot, hoa, json, text, toml
from hocket.machine.formats.schema import Design, design_from
from hocket.machine.reward_machine import RewardMachine


class Notation(Protocol):
    """A way to write designs: a machine and, where the notation has room for them, local event sets and control."""

    def read(self, content: str) -> Design: ...
    def write(self, design: Design) -> str: ...


class Format(NamedTuple):
    notation: Notation
    limit: int  # bytes


FORMATS = MappingProxyType(
    {
        ".toml": Format(toml, 8 * MEGABYTE),
        ".json": Format(json, 128 * MEGABYTE),
        ".txt": Format(text, 128 * MEGABYTE),
        ".dot": Format(dot, 128 * MEGABYTE),
        ".gv": Format(dot, 128 * MEGABYTE),
        ".hoa": Format(hoa, 2 * MEGABYTE),
    }
)


def load_machine(path: str | Path) -> RewardMachine:
    """Read a machine from a file; the suffix says in which format."""
    try:
        return load_design(path).enumerated()
    except MachineError as error:
        raise FormatError(str(error), path=path) from None


def save_machine(machine: RewardMachine, path: str | Path) -> None:
    """Write a machine to a file; the suffix says in which format."""
    save_design(Design(machine), path)


def load_design(path: str | Path, document: object = None) -> Design:
    """Read a machine and, where the file has them, local event sets and control.

    Whoever has parsed a TOML or JSON file already gives its `document`.
    """
    path = Path(path)
    form = _format_of(path)
    content = read_text(path, form.limit) if document is None else ""
    try:
        return form.notation.read(content) if document is None else design_from(document)
    except HocketError as error:
        raise FormatError(str(error), path=path) from None
    except RecursionError:
        raise FormatError("is nested too deeply to be a machine", path=path) from None


def save_design(design: Design, path: str | Path) -> None:
    """Write a machine with local event sets and control; not every format has room for these."""
    path = Path(path)
    form = _format_of(path)
    try:
        content = form.notation.write(design)
    except HocketError as error:
        raise FormatError(str(error), path=path) from None
    if len(content.encode()) > form.limit:
        raise FormatError(f"this machine is too large for {path.suffix}; write it as .json", path=path)
    write_whole(path, content)


def _format_of(path: Path) -> Format:
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        hint = known_names(path.suffix, FORMATS)
        raise FormatError(f"the suffix of a machine file says its format, got {path.suffix!r} ({hint})", path=path)
    return form
