"""bench: how fast is it here?"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Annotated

from rich.text import Text

from hocket.cli.terminal import Flag, make_console, option, print_columns, print_json

ALGEBRA_AGENTS = 10  # whose machine is decomposed to see how fast that is


@dataclass(frozen=True)
class Bench:
    """How fast is it here? Speeds on this machine, as ratios to a straightforward loop in the same run."""

    tasks: Annotated[tuple[str, ...], option("TASK")] = ("rendezvous-2", "buttons")
    """What to train on."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.learn.benchmark import ROUNDS, measure_algebra, measure_learning  # loads the compiler

        rows = [row for name in self.tasks for row in measure_learning(name)]
        seconds = measure_algebra(ALGEBRA_AGENTS)
        if self.json:
            speeds = [asdict(row) for row in rows]
            print_json({"learning": speeds, f"decompose rendezvous-{ALGEBRA_AGENTS} (s)": seconds})
            return 0
        console = make_console()
        table = [[Text(title, "dim") for title in ("M agent-steps/s", "ratio", "what, on one core")]]
        for row in rows:
            table.append([Text(cell) for cell in (f"{row.per_second / 1e6:.1f}", f"{row.ratio:.2f}", row.what)])
        print_columns(console, table)
        console.print(f"Decomposing rendezvous-{ALGEBRA_AGENTS} with all its states takes {seconds * 1000:.1f} ms.")
        load = f" The machine's load is {os.getloadavg()[0]:.1f}." if hasattr(os, "getloadavg") else ""
        words = f"Seconds of processor time; medians of {ROUNDS} rounds in which rivals take turns.{load}"
        console.print(words, style="dim")
        return 0
