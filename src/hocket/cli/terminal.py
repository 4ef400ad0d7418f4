"""Printing, in colour on a terminal and plain in a pipe; and stopping by Ctrl-C and SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from types import FrameType
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from hocket.errors import counted, printable

SHOWN_AGENTS = 40  # rows of a table of agents, and machines shown
GAP, NARROWEST_COLUMN = 2, 8  # characters: between columns, and of one that wraps
UNLIMITED = 1_000_000
PIPE_WIDTH = 120  # columns for which lines are laid out where there is no terminal
SIGNALS = (signal.SIGINT, signal.SIGTERM)
BY_SIGNAL = 128  # the exit code of a command that a signal has ended is this plus the signal's number, as in shells
INTERRUPTED = BY_SIGNAL + signal.SIGINT


class _Console(Console):
    """A console that escapes control characters, and goes on when the reader has closed the pipe."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))

    def on_broken_pipe(self) -> None:
        drop(sys.stderr if self.stderr else sys.stdout)


def drop(stream: TextIO) -> None:
    """Discard what a stream still has to write, so that neither the command nor the interpreter's exit fails."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def harmless(text: str) -> str:
    """Escape characters that a terminal would execute; lines and blanks stay as they are."""
    return "\n".join(printable(line, len(line)) for line in text.split("\n"))


def print_plain(text: str) -> None:
    """Print text without wrapping or colours; a reader that closes the pipe does not change the exit code."""
    try:
        print(harmless(text), flush=True)
    except BrokenPipeError:
        drop(sys.stdout)


def make_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Open a console that prints text as it is, without markup, emoji or links; words wrap on terminals only."""
    console = _Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)
    if not console.is_terminal or not console.file.isatty():
        console.width, console.soft_wrap = 10_000, True  # a pipe has no width to wrap at, even one with colours
    return console


@contextmanager
def live_view(console: Console, draw: Callable[[], RenderableType]) -> Iterator[None]:
    """Show a drawing on a terminal that is updated several times a second."""
    if not console.is_terminal:
        yield
        return
    from rich.live import Live  # only where there is a terminal

    console.soft_wrap = False
    with Live(console=console, transient=True, refresh_per_second=8, get_renderable=draw):
        yield


def print_line(console: Console, line: Text) -> None:
    """Print a line; in a pipe, where blanks have no colour, without those at its end."""
    if not console.is_terminal:
        line.rstrip()
    console.print(line)


def print_json(value: object, *, ok: bool = True) -> int:
    """Print a value as JSON, with null for numbers that are not finite; return the exit code of the answer."""
    finite = json.loads(json.dumps(value, default=dict), parse_constant=lambda _: None)
    print_plain(json.dumps(finite, indent=2))
    return 0 if ok else 1


def print_written(paths: Iterable[Path], *, json: bool, **about: object) -> int:
    """Print the files that were written, one per line, or as JSON with more about them."""
    names = [str(path) for path in paths]
    if json:
        return print_json({"written": names, **about})
    print_plain("\n".join(names))
    return 0


def print_table(console: Console, titles: Sequence[str], rows: Iterable[Iterable[str | Text]]) -> None:
    """Print rows of cells, below titles if there are any; if it is too wide for the terminal, wide columns wrap."""
    heading = [[Text(title, "dim") for title in titles]] if titles else []
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    for line in aligned([*heading, *cells], console.width):
        console.print(line)


def aligned(rows: Sequence[Sequence[Text]], width: int = UNLIMITED) -> list[Text]:
    """Lay out rows of cells in columns, without a frame and without blanks at the ends of lines."""
    rows = [[_escaped(cell) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    while sum(widths) + GAP * (len(widths) - 1) > width and max(widths) > NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    console, lines = _Console(), []
    for row in rows:
        wrapped = [cell.wrap(console, column) for cell, column in zip(row, widths, strict=True)]
        for parts in zip_longest(*wrapped, fillvalue=Text()):
            line = Text()
            for part, column in zip(parts, widths, strict=True):
                line.append_text(part).append(" " * (column - part.cell_len + GAP))
            line.rstrip()
            lines.append(line)
    return lines


def _escaped(cell: Text) -> Text:
    """Return a cell as the console prints it, so that its width is known."""
    plain = printable(cell.plain, len(cell.plain))
    return cell if plain == cell.plain else Text(plain, cell.style)


def print_entries(console: Console, entries: Mapping[str, str]) -> None:
    """Print names with a sentence each."""
    print_table(console, (), [(Text(name, "bold"), sentence) for name, sentence in entries.items()])


def print_rest(console: Console, remaining: int, noun: str) -> None:
    """Print how many rows are not shown."""
    if remaining > 0:
        console.print(Text(f"… and {counted(remaining, f'more {noun}')}", "dim"))


def print_skipped(problems: Iterable[str]) -> None:
    """Print which files of a folder were skipped, and why."""
    for problem in problems:
        make_console(stderr=True).print(f"hocket: left out: {problem}", style="yellow")


class SignalStop(threading.Event):
    """A request to stop, with the exit code of the signal; 0 before there is one."""

    code = 0


@contextmanager
def stopping() -> Iterator[SignalStop]:
    """Turn the first signal into a request to stop, so that finished work is kept; a second one is an interrupt."""
    stop = SignalStop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.code:  # not is_set(), since a signal may come while another one is handled
            raise KeyboardInterrupt
        stop.code = BY_SIGNAL + number
        stop.set()

    with ExitStack() as stack:
        for number in SIGNALS:
            stack.callback(signal.signal, number, signal.signal(number, handle))
        yield stop
