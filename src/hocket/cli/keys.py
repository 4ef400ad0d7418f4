"""keys: certificates for a team on several machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import Flag, Number, option
from hocket.cli.terminal import print_written
from hocket.errors import SettingsError


@dataclass(frozen=True)
class Keys:
    """Make a certificate authority, and certificates for the agents of a task and for its world: only they may join."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name or a file."""
    out: Annotated[Path, option("FOLDER")] = Path("keys")
    """Output folder. Keys that are already there are kept."""
    days: Number = 365
    """Number of days for which they are valid."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.runtime.certificates import make_keys
        from hocket.runtime.launch import check_names
        from hocket.runtime.settings import WORLD
        from hocket.task.catalogue import load_task

        if self.days < 1:
            raise SettingsError(f"--days must be at least 1, got {self.days}")
        task = load_task(self.target)
        check_names(task)
        print_written(make_keys(self.out, (*task.agents, WORLD), self.days), json=self.json)
        return 0
