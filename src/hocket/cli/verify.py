"""verify: was what happened a trace of the team machine?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.text import Text
from tyro.conf import Positional

from hocket.cli.options import Flag, option
from hocket.cli.terminal import make_console, print_json


@dataclass(frozen=True)
class Verify:
    """Was what happened in a run a trace of the team machine? Reads nothing but `run.json` and the logs."""

    folder: Annotated[Positional[Path], option("FOLDER")]
    """What `hocket run` has written."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.runtime.verification import verify

        verification = verify(self.folder)
        if self.json:
            print_json(verification.as_json())
            return 0 if verification.ok else 1
        console = make_console()
        answer, *rest = verification.explain().splitlines()
        console.print(Text(answer, "bold green" if verification.ok else "bold red"))
        for line in rest:
            console.print(line)
        return 0 if verification.ok else 1
