"""What the command line prints with, coloured on a terminal, plain in a pipe; and what Ctrl-C and SIGTERM do."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
BY_SIGNAL = 128  # added to the number of the signal that has ended a command, that is its exit code, as shells have it
INTERRUPTED = BY_SIGNAL + signal.SIGINT


class _Console(Console):
    """A console that shows what comes from outside and never obeys it, and goes on when nobody reads any more."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))

    def on_broken_pipe(self) -> None:
        drop(sys.stderr if self.stderr else sys.stdout)


def drop(stream: TextIO) -> None:
    """Send what is still to be written to nowhere, so that neither a command nor the interpreter's end fails on it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def harmless(text: str) -> str:
    """Show characters that a terminal would obey instead of printing them; lines and blanks stay as they are."""
    return "\n".join(printable(line, len(line)) for line in text.split("\n"))


def print_plain(text: str) -> None:
    """Print text as it is, never wrapped or coloured; a reader who has had enough does not change the exit code."""
    try:
        print(harmless(text), flush=True)
    except BrokenPipeError:
        drop(sys.stdout)


def make_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Open a console that takes text as it is: names never turn into markup, emoji or links; a terminal wraps words."""
    console = _Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)
    if not console.is_terminal or not console.file.isatty():
        console.width, console.soft_wrap = 10_000, True  # a pipe has no width to wrap at, even one with colours
    return console


@contextmanager
def live_display(console: Console, draw: Callable[[], RenderableType]) -> Iterator[None]:
    """Show on a terminal, while work goes on, what is drawn several times a second."""
    if not console.is_terminal:
        yield
        return
    from rich.live import Live  # only where there is a terminal

    console.soft_wrap = False
    with Live(console=console, transient=True, refresh_per_second=8, get_renderable=draw):
        yield


def print_line(console: Console, line: Text) -> None:
    """Print a line; in a pipe without blanks at its end, which on a terminal may have a colour."""
    if not console.is_terminal:
        line.rstrip()
    console.print(line)


def print_json(value: object, *, ok: bool = True) -> int:
    """Print a value for programs, and return the exit code of a yes or a no; what JSON has no number for is null."""
    finite = json.loads(json.dumps(value, default=dict), parse_constant=lambda _: None)
    print_plain(json.dumps(finite, indent=2))
    return 0 if ok else 1


def print_written(paths: Iterable[Path], *, json: bool, **about: object) -> int:
    """Print which files were written, a line each; as JSON, with what else there is to say."""
    names = [str(path) for path in paths]
    if json:
        return print_json({"written": names, **about})
    print_plain("\n".join(names))
    return 0


def print_table(console: Console, titles: Sequence[str], rows: Iterable[Iterable[str | Text]]) -> None:
    """Print rows of cells, under titles if there are any; if too wide for the terminal, the widest columns wrap."""
    heading = [[Text(title, "dim") for title in titles]] if titles else []
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    for line in aligned([*heading, *cells], console.width):
        console.print(line)


def aligned(rows: Sequence[Sequence[Text]], width: int = UNLIMITED) -> list[Text]:
    """Set rows of cells under each other, without a frame and without blanks at the ends of lines."""
    rows = [[_seen(cell) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    while sum(widths) + GAP * (len(widths) - 1) > width and max(widths) > NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    console, lines = _Console(), []
    for row in rows:
        wrapped = [cell.wrap(console, room) for cell, room in zip(row, widths, strict=True)]
        for parts in zip_longest(*wrapped, fillvalue=Text()):
            line = Text()
            for part, room in zip(parts, widths, strict=True):
                line.append_text(part).append(" " * (room - part.cell_len + GAP))
            line.rstrip()
            lines.append(line)
    return lines


def _seen(cell: Text) -> Text:
    """Return a cell as the console will print it, so that its width is known."""
    plain = printable(cell.plain, len(cell.plain))
    return cell if plain == cell.plain else Text(plain, cell.style)


def print_entries(console: Console, entries: Mapping[str, str]) -> None:
    """Print names with a sentence each; on a terminal the sentences wrap beside the names."""
    print_table(console, (), [(Text(name, "bold"), sentence) for name, sentence in entries.items()])


def print_rest(console: Console, left: int, what: str) -> None:
    """Say what a table leaves out."""
    if left > 0:
        console.print(Text(f"… and {counted(left, f'more {what}')}", "dim"))


class SignalStop(threading.Event):
    """A wish to stop, and the exit code of what it has ended; 0, as long as nobody wishes it."""

    code = 0


@contextmanager
def stopping() -> Iterator[SignalStop]:
    """Turn the first signal into a wish to stop, so that what is finished is kept; a second one is an interrupt."""
    stop = SignalStop()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.code:  # and not is_set, for a signal may come while another one is being handled
            raise KeyboardInterrupt
        stop.code = BY_SIGNAL + number
        stop.set()

    previous = [signal.signal(number, handle) for number in SIGNALS]
    try:
        yield stop
    finally:
        for number, handler in zip(SIGNALS, previous, strict=True):
            signal.signal(number, handler)
