"""tasks: what comes with hocket."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.cli.options import Flag
from hocket.cli.terminal import make_console, print_entries, print_json
from hocket.task.catalogue import known_tasks
from hocket.task.task import Task
from hocket.texts import counted


@dataclass(frozen=True)
class ListTasks:
    """List the built-in tasks."""

    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        tasks = known_tasks()
        if self.json:
            print_json({name: _row(task) for name, task in tasks.items()})
            return 0
        console, entries = make_console(), {}
        for name, task in tasks.items():
            size = f"{counted(len(task.agents), 'agent')}, {task.grid.rows} x {task.grid.columns} cells"
            entries[name] = f"{task.description} ({size})"
        print_entries(console, entries)
        advice = "Any team size: rendezvous-5, crew-4. Copy a task to edit it: hocket new FILE --from NAME"
        console.print(advice, style="dim")
        return 0


def _row(task: Task) -> dict[str, object]:
    size = {"rows": task.grid.rows, "columns": task.grid.columns}
    return {"description": task.description, "agents": list(task.agents), **size}
