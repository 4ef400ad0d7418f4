"""tasks and new: what comes with hocket, and a task file to start from."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import Json, option
from hocket.cli.terminal import make_console, print_entries, print_json
from hocket.errors import FormatError, counted, printable
from hocket.files import exists, write_whole
from hocket.task.catalogue import known_tasks, load_task, save_task, source_of


@dataclass(frozen=True)
class ListTasks:
    """List the built-in tasks."""

    json: Json = False

    def run(self) -> int:
        document, entries = {}, {}
        for name, task in known_tasks().items():
            rows, columns, agents = task.grid.rows, task.grid.columns, list(task.agents)
            document[name] = {"description": task.description, "agents": agents, "rows": rows, "columns": columns}
            size = f"{counted(len(agents), 'agent')}, {rows} x {columns} cells"
            entries[name] = f"{task.description} ({size})"
        if self.json:
            return print_json(document)
        console = make_console()
        print_entries(console, entries)
        advice = "Any team size: rendezvous-5, crew-4. Copy a task to edit it: hocket new FILE --from NAME"
        console.print(advice, style="dim")
        return 0


@dataclass(frozen=True)
class New:
    """Write a new task file: a small commented example, or a copy of a built-in task."""

    out: Annotated[Positional[Path], option("FILE")]
    """The file to write (.toml). An existing file is never overwritten."""
    source: Annotated[str, option("TASK", name="from")] = ""
    """A task that `hocket tasks` lists, or one of its sizes (rendezvous-5, crew-4)."""

    def run(self) -> int:
        if self.out.suffix.lower() != ".toml":
            raise FormatError("a task file ends in .toml", path=self.out)
        if exists(self.out):
            raise FormatError("exists already, and is not overwritten", path=self.out)
        content = source_of(self.source)
        if content is None:
            save_task(load_task(self.source), self.out)
        else:
            write_whole(self.out, content)
        written = printable(str(self.out))
        words = shlex.quote(written)
        make_console().print(f"Wrote {written}. Next: hocket check {words}, hocket play {words}")
        return 0
