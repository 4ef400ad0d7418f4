"""bench: how fast is it here?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.text import Text

from hocket.cli.terminal import Flag, make_console, option, print_columns, print_json

if TYPE_CHECKING:
    from hocket.learn.benchmark import Measurement

ALGEBRA_AGENTS = 10  # whose machine is decomposed to see how fast that is


@dataclass(frozen=True)
class Bench:
    """How fast is it here? Speeds on this machine, as ratios to a straightforward loop in the same run."""

    tasks: Annotated[tuple[str, ...], option("TASK")] = ("rendezvous-2", "buttons")
    """What to train on."""
    device: Annotated[str, option("DEVICE")] = "cpu"
    """cpu, or cuda: a graphics processor, beside one core."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.learn.devices import check_device

        check_device(self.device)
        return self._on_processor() if self.device == "cpu" else self._on_device()

    def _on_processor(self) -> int:
        from hocket.learn.benchmark import ROUNDS, measure_algebra, measure_learning  # loads the compiler

        rows = [row for name in self.tasks for row in measure_learning(name)]
        seconds = measure_algebra(ALGEBRA_AGENTS)
        if self.json:
            speeds = [asdict(row) for row in rows]
            print_json({"learning": speeds, f"decompose rendezvous-{ALGEBRA_AGENTS} (s)": seconds})
            return 0
        console = make_console()
        _print_speeds(console, rows, "what, on one core")
        console.print(f"Decomposing rendezvous-{ALGEBRA_AGENTS} with all its states takes {seconds * 1000:.1f} ms.")
        load = f" The machine's load is {os.getloadavg()[0]:.1f}." if hasattr(os, "getloadavg") else ""
        words = f"Seconds of processor time; medians of {ROUNDS} rounds in which rivals take turns.{load}"
        console.print(words, style="dim")
        return 0

    def _on_device(self) -> int:
        from hocket.learn.cuda.benchmark import measure_device  # loads the compiler, and what few have

        found = [measure_device(name) for name in self.tasks]
        if self.json:
            print_json({name: asdict(own) for name, own in zip(self.tasks, found, strict=True)})
            return 0
        console = make_console()
        _print_speeds(console, [row for own in found for row in own.speeds], f"what, on {found[0].device}")
        same = all(own.same_bits for own in found)
        console.print(f"What is learnt is {'what' if same else 'NOT what'} the processor learns, bit for bit.")
        return 0 if same else 1


def _print_speeds(console: Console, rows: Sequence[Measurement], what: str) -> None:
    table = [[Text(title, "dim") for title in ("M agent-steps/s", "ratio", what)]]
    for row in rows:
        table.append([Text(cell) for cell in (f"{row.per_second / 1e6:,.1f}", f"{row.ratio:,.2f}", row.what)])
    print_columns(console, table)
