"""tasks: what comes with hocket."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.cli.terminal import Flag, count, make_console, print_entries, print_json
from hocket.task.catalogue import known_tasks
from hocket.task.task import Task


@dataclass(frozen=True)
class Tasks:
    """List the tasks that come with hocket."""

    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        tasks = known_tasks()
        if self.json:
            print_json({name: _row(task) for name, task in tasks.items()})
            return 0
        console = make_console()
        print_entries(console, {name: f"{task.description} {_size(task)}" for name, task in tasks.items()})
        console.print(
            "Any size of a team: rendezvous-5, crew-4. Have a copy to change: hocket new FILE --from NAME", style="dim"
        )
        return 0


def _row(task: Task) -> dict[str, object]:
    return {
        "description": task.description,
        "agents": list(task.agents),
        "rows": task.grid.rows,
        "columns": task.grid.columns,
    }


def _size(task: Task) -> str:
    return f"({count(len(task.agents), 'agent')}, {task.grid.rows} x {task.grid.columns} cells)"
