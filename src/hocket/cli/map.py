"""A task's map on a console."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from hocket.draw.text import CELL, TaskMap, clip, start_view
from hocket.task.task import Task

PIPE_WIDTH = 120  # columns for which lines are laid out where there is no terminal


def print_map(console: Console, task: Task) -> None:
    """Print a task's map before anything has happened, as much of it as the console is wide, and its legend."""
    board, view = TaskMap(task), start_view(task)
    window = clip(task.grid, next(iter(view.cells.values())), task.grid.rows, console.width // CELL)
    lines = [*board.draw(view, window), Text(), *board.legend(view, min(console.width, PIPE_WIDTH)), Text()]
    if not window.is_whole(task.grid):
        lines.insert(0, Text(str(window), "dim"))
    for line in lines:
        print_line(console, line)


def print_line(console: Console, line: Text) -> None:
    """Print a line; in a pipe without blanks at its end, which on a terminal may have a colour."""
    if not console.is_terminal:
        line.rstrip()
    console.print(line)
