"""A task's map on a console."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from hocket.draw.task_scene import scene_of
from hocket.draw.text import CELL, TextMap, clip
from hocket.task.task import Task

PIPE_WIDTH = 120  # columns for which lines are laid out where there is no terminal


def print_map(console: Console, task: Task) -> None:
    """Print a task's map before anything has happened, as much of it as the console is wide, and its legend."""
    scene = scene_of(task)
    board, moment = TextMap(scene), scene.opening
    window = clip(scene, next(iter(moment.cells.values())), scene.rows, console.width // CELL)
    lines = [*board.draw(moment, window), Text(), *board.legend(moment, min(console.width, PIPE_WIDTH)), Text()]
    if not window.is_whole(scene):
        lines.insert(0, Text(str(window), "dim"))
    for line in lines:
        print_line(console, line)


def print_line(console: Console, line: Text) -> None:
    """Print a line; in a pipe without blanks at its end, which on a terminal may have a colour."""
    if not console.is_terminal:
        line.rstrip()
    console.print(line)
