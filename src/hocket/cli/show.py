"""show: draw a task and its machines, to a file or in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from hocket.cli.options import Flag, MaybePath, option
from hocket.cli.subject import OnSubject, print_task
from hocket.cli.terminal import PIPE_WIDTH, SHOWN_AGENTS, make_console, print_columns, print_line, print_rest
from hocket.draw.boxes import close_all
from hocket.draw.task_scene import scene_of
from hocket.draw.text import CELL, TextMap, clip
from hocket.machine.decomposition import decompose
from hocket.machine.reward_machine import RewardMachine
from hocket.task.task import Task

SHOWN_STATES = 40  # rows of a machine's table
SHOWN_ROWS, SHOWN_COLUMNS = 100, 400  # cells of a map, the columns where no terminal is narrower


@dataclass(frozen=True)
class Show(OnSubject):
    """Draw the map, the team machine and the local reward machines, to a file or in the terminal."""

    out: Annotated[MaybePath, option("FILE", "-o")] = None
    """Draw to this file (.svg, .png, .pdf)."""

    closed: Flag = False
    """Show each machine that another one calls as one state, not as a box with its states."""

    def run(self) -> int:
        subject = self.subject()
        machines = {}
        if not subject.is_large:
            machines["team"] = subject.enumerated()
        if subject.task is not None:
            machines |= subject.task.machines
        elif subject.knows:
            machines |= decompose(subject.machine, subject.knows, subject.control).machines
        if self.closed:
            machines = close_all(machines)
        if self.out is not None:
            self.draw(machines, subject.task, self.out)
            return 0
        console = make_console()
        if subject.task is not None:
            print_task(console, subject.task)
            print_map(console, subject.task)
        for title, machine in list(machines.items())[:SHOWN_AGENTS]:
            print_machine(console, title, machine)
        print_rest(console, len(machines) - SHOWN_AGENTS, "machine")
        return 0

    def draw(self, machines: Mapping[str, RewardMachine], task: Task | None, path: Path) -> None:
        """Draw machines to a file, beside the map where there is one."""
        from hocket.draw.graphviz import draw_machines  # loads Graphviz
        from hocket.draw.task_picture import draw_task

        if task is None:
            draw_machines(machines, path)
        else:
            draw_task(task, path, machines)


def print_map(console: Console, task: Task) -> None:
    """Print a task's map before anything has happened, and its legend.

    Of a map that is large or wider than the console, the part around the first agent is printed, under a line that says
    which part it is.
    """
    scene = scene_of(task)
    board, moment = TextMap(scene), scene.opening
    columns = min(console.width // CELL, SHOWN_COLUMNS)
    window = clip(scene, next(iter(moment.cells.values())), SHOWN_ROWS, columns)
    lines = [*board.draw(moment, window), Text(), *board.legend(moment, min(console.width, PIPE_WIDTH)), Text()]
    if not window.is_whole(scene):
        lines.insert(0, Text(f"{window} ({scene.rows:,} × {scene.columns:,})", "dim"))
    for line in lines:
        print_line(console, line)


def print_machine(
    console: Console, title: str, machine: RewardMachine, notes: Mapping[tuple[str, str], str] | None = None
) -> None:
    """Show a machine, one state a row: where it starts, what ends it, and where events lead; with notes on these."""
    console.print(Text(title, "bold"))
    rows: dict[str, list[str]] = {state: [] for state in list(machine.states)[:SHOWN_STATES]}
    for (state, event), target in machine.transitions.items():
        if state in rows:
            reward = "" if machine.is_task_completion else f" / {machine.rewards[state, event]:g}"
            note = reward if notes is None else notes.get((state, event), "")
            rows[state].append(f"{event}{note} → {target}")
    marks = {
        state: f"{'▶' if state == machine.initial else ' '} {'◎' if state in machine.final else ' '}" for state in rows
    }
    print_columns(
        console,
        [[Text(marks[state]), Text(state, "bold"), Text("   ".join(moves))] for state, moves in rows.items()],
    )
    print_rest(console, len(machine.states) - SHOWN_STATES, "state")
    console.print()
