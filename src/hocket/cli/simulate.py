"""simulate: the run time's protocol under faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rich.text import Text
from tyro.conf import Positional

from hocket.cli.options import Flag, Number, names, option
from hocket.cli.terminal import make_console, print_json
from hocket.errors import SettingsError
from hocket.texts import counted

FAULTS = "loss,duplication,reordering,delay,partition,kill,freeze"


@dataclass(frozen=True)
class Simulate:
    """Run a team's protocol on a simulated network that loses, delays and duplicates messages, with agents that die."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name (buttons, rendezvous-3) or a file."""
    schedules: Number = 10_000
    """Number of schedules of faults, one for each seed."""
    faults: Annotated[str, option("FAULT,...")] = FAULTS
    """Faults to inject."""
    seed: Number = 0
    """Seed of the first schedule."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.runtime.simulation import simulate
        from hocket.task.catalogue import load_task
        from hocket.task.verdict import check_delays

        if self.schedules < 1:
            raise SettingsError(f"--schedules must be at least 1, got {self.schedules}")
        task = load_task(self.target)
        check = check_delays(task)
        faults = names(self.faults)
        report = simulate(task.decomposition, self.schedules, seed=self.seed, faults=faults, deciders=check.agreed)
        failure = report.failure
        if self.json:
            broken = None
            if failure is not None:
                broken = {"seed": failure.seed, "sentence": failure.sentence, "schedule": list(failure.story)}
            agree = [list(pair) for pair in check.agree]
            counts = {"schedules": report.schedules, "cpu_seconds": report.seconds, "injected": report.counts}
            print_json({"ok": report.ok, "agree": agree, **counts, "failure": broken})
            return 0 if report.ok else 1
        console = make_console()
        if check.agree:
            console.print(check.lines[-1])
        rate = report.schedules / max(report.seconds, 1e-9)
        console.print(f"{counted(report.schedules, 'schedule')}, {rate:,.0f} a second of CPU: {report.said}.")
        if failure is None:
            console.print(Text("No invariant was broken, and every schedule ended as it should.", "bold green"))
            return 0
        console.print(Text(f"Broken with seed {failure.seed}: {failure.sentence}. The shortest schedule:", "bold red"))
        for line in failure.story:
            console.print(f"  {line}")
        return 1
