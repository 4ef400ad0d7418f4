"""What the command line prints with: coloured on a terminal, plain and unwrapped in a pipe."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text
from tyro.conf import FlagCreatePairsOff

SHOWN_AGENTS = 40  # rows of a table of agents, and machines shown
PIPE_WIDTH = 120  # columns for which lines are laid out where there is no terminal

Flag = FlagCreatePairsOff[bool]  # an option that is there or not
Words = tuple[tuple[str, ...], ...]  # of an option that may be given several times with several words


class _Console(Console):
    """A console that lets the command line decide what a broken pipe means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console(*, stderr: bool = False) -> Console:
    """Open a console that takes text as it is: names never turn into markup, emoji or links."""
    console = _Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 10_000  # a pipe has no width to wrap at
    return console


def print_line(console: Console, line: Text) -> None:
    """Print a line; in a pipe without blanks at its end, which on a terminal may have a colour."""
    if not console.is_terminal:
        line.rstrip()
    console.print(line)


def print_json(value: object) -> None:
    """Print a value for programs; what JSON has no number for is null."""
    print(json.dumps(_without_infinities(value), indent=2, allow_nan=False))


def _without_infinities(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_infinities(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_columns(console: Console, rows: Sequence[Sequence[Text]]) -> None:
    """Print rows of cells under each other."""
    for line in aligned(rows):
        console.print(line)


def aligned(rows: Sequence[Sequence[Text]]) -> list[Text]:
    """Set rows of cells under each other, without a frame and without blanks at the ends of lines."""
    lines = []
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (width - cell.cell_len + 2))
        line.rstrip()
        lines.append(line)
    return lines


def print_rest(console: Console, left: int, what: str) -> None:
    """Say what a table leaves out."""
    if left > 0:
        console.print(Text(f"… and {count(left, what)} more", "dim"))


def count(number: int, what: str) -> str:
    """Count things in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
