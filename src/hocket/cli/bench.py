"""bench: how fast is it here?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from rich.console import Console

from hocket.cli.options import Flag, option
from hocket.cli.terminal import make_console, print_json, print_table

if TYPE_CHECKING:
    from hocket.learn.benchmark import Measurement

ALGEBRA_AGENTS = 10  # whose machine is decomposed to see how fast that is


@dataclass(frozen=True)
class Bench:
    """Measure training speed on this machine, and its ratio to a plain loop measured in the same run."""

    tasks: Annotated[tuple[str, ...], option("TASK")] = ("rendezvous-2", "buttons")
    """Tasks to train on."""
    device: Annotated[str, option("DEVICE")] = "cpu"
    """cpu, or cuda to compare a GPU with one CPU core."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.errors import require_known
        from hocket.learn.settings import DEVICES

        require_known(self.device, DEVICES, "device")
        return self._on_cpu() if self.device == "cpu" else self._on_device()

    def _on_cpu(self) -> int:
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
        load = f" Load average: {os.getloadavg()[0]:.1f}." if hasattr(os, "getloadavg") else ""
        words = f"CPU time; median of {ROUNDS} rounds, alternating between the compared programs.{load}"
        console.print(words, style="dim")
        return 0

    def _on_device(self) -> int:
        from hocket.learn.cuda.benchmark import measure_device  # loads the compiler, and what few have

        results = [measure_device(name) for name in self.tasks]
        if self.json:
            print_json({name: asdict(result) for name, result in zip(self.tasks, results, strict=True)})
            return 0
        console = make_console()
        _print_speeds(console, [row for result in results for row in result.speeds], f"what, on {results[0].device}")
        same = all(result.same_bits for result in results)
        console.print(f"The learnt values {'equal' if same else 'DIFFER from'} those of the CPU, bit for bit.")
        return 0 if same else 1


def _print_speeds(console: Console, rows: Sequence[Measurement], what: str) -> None:
    cells = [(f"{row.per_second / 1e6:,.1f}", f"{row.ratio:,.2f}", row.what) for row in rows]
    print_table(console, ("M agent-steps/s", "ratio", what), cells)
