"""simulate, run, verify, keys: a team as processes on a network, and its protocol under faults."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console, RenderableType
from rich.text import Text
from tyro.conf import Positional

from hocket.arguments import whole
from hocket.cli.options import Flag, Json, MaybeText, NamedTask, Number, names, option
from hocket.cli.terminal import live_view, make_console, print_json, print_written, stopping
from hocket.errors import SettingsError, counted
from hocket.task.catalogue import load_task
from hocket.task.verdict import check_delays

FAULTS = "loss,duplication,reordering,delay,partition,kill,freeze"
INJECTED = (
    "{lost:,} messages lost and {doubled:,} doubled, {killed:,} kills ({torn:,} in the middle of an entry of a log), "
    "{frozen:,} freezes and thaws, {split:,} splits of the network."
)


@dataclass(frozen=True)
class Simulate:
    """Run a team's protocol on a simulated network that loses, delays and duplicates messages, with agents that die."""

    target: NamedTask
    schedules: Number = 10_000  # Number of schedules of faults, one for each seed.
    faults: Annotated[str, option("FAULT,...")] = FAULTS  # Faults to inject.
    seed: Number = 0  # Seed of the first schedule.
    json: Json = False

    def run(self) -> int:
        from hocket.runtime.simulation import simulate

        whole(self.schedules, "--schedules", 1)
        task = load_task(self.target)
        check, faults = check_delays(task), names(self.faults)
        report = simulate(task.decomposition, self.schedules, seed=self.seed, faults=faults, deciders=check.agreed)
        failure = report.failure
        if self.json:
            broken = failure and {"seed": failure.seed, "sentence": failure.sentence, "schedule": failure.transcript}
            counts = {"schedules": report.schedules, "cpu_seconds": report.seconds, "injected": report.counts}
            return print_json({"ok": report.ok, "agree": check.agree, **counts, "failure": broken}, ok=report.ok)
        console = make_console()
        if check.agree:
            console.print(check.lines[-1])
        speed = f"{report.schedules / max(report.seconds, 1e-9):,.0f} a second of CPU"
        console.print(f"{counted(report.schedules, 'schedule')}, {speed}: {INJECTED.format_map(report.counts)}")
        if failure is None:
            console.print(Text("No invariant was broken, and every schedule ended as it should.", "bold green"))
            return 0
        console.print(Text(f"Broken with seed {failure.seed}: {failure.sentence}. The shortest schedule:", "bold red"))
        for line in failure.transcript:
            console.print(f"  {line}")
        return 1


@dataclass(frozen=True)
class RunTeam:
    """Run a trained team as processes, one per agent and one for the environment; those that die are restarted."""

    target: NamedTask
    policies: Annotated[str, option("FOLDER")] = ""  # Folder of runs; the greedy policy of the first one is played.
    out: Annotated[str, option("FOLDER")] = ""
    """Folder of the logs (default: a new one under runs/). A run that was stopped there is continued."""
    agent: Annotated[MaybeText, option("NAME")] = None  # Run one agent ("world": the environment); needs --peers.
    peers: Annotated[MaybeText, option("FILE")] = None
    """File of addresses: run = "name", world = "HOST:PORT", keys = "FOLDER", [agents] A1 = "HOST:PORT"."""
    agree: Flag = False  # Let the agents also agree on the events that `hocket check --delays` names.
    pace: Annotated[float, option("N")] = 10.0  # Steps per second.
    steps: Number = 1_000  # Step limit: the steps of each agent after which the run ends.
    durability: Annotated[Literal["full", "none"], option()] = "full"
    """full: log entries are on the disk before messages about them are sent; none: no such wait, for demos."""
    insecure: Flag = False  # Allow unencrypted connections to other machines.
    loss: Annotated[float, option("P")] = 0.0  # Probability that a message is dropped on purpose, for tests.
    seed: Number = 0  # Random seed of the slips of moves.
    json: Json = False

    def run(self) -> int:
        from hocket.runtime.launch import run_team

        if not (0 < self.pace <= 10_000 and 0 <= self.loss < 1 and self.steps > 0):
            raise SettingsError("--pace must be above 0 (to 10,000), --loss from 0 to below 1, and --steps above 0")
        folder = Path(self.out or f"runs/{Path(self.target).stem}-{time.strftime('%Y%m%d-%H%M%S')}")
        if not self.policies and not (folder / "run.json").exists() and self.agent != "world":
            raise SettingsError("name the folder of the runs whose policy is played: --policies runs/x")
        view, passed_on = View(make_console(quiet=self.json)), "agent peers agree insecure pace steps seed loss"
        options = {name: getattr(self, name) for name in passed_on.split()}
        with stopping() as stop, live_view(view.console, view.table):
            options |= {"durable": self.durability == "full", "watch": view.update, "stop": stop.is_set}
            outcome = run_team(self.target, self.policies, folder, **options)
        restarts = {name: count for name, count in outcome.restarts.items() if count}
        code = 0 if outcome.complete else stop.code or 1
        if self.json:
            print_json({"complete": outcome.complete, "folder": str(folder), "restarts": restarts})
            return code
        verb, style = ("is", "bold green") if outcome.complete else ("is not", "bold red")
        logs = f"the logs are in {folder}, for `hocket verify` and `hocket report`."
        view.console.print(Text(f"The task {verb} complete; {logs}", style))
        return code


@dataclass
class View:
    """The status of the processes: a table on a terminal, and in a pipe a line for each event."""

    console: Console
    begun: float = field(default_factory=time.monotonic)
    status: dict[str, dict[str, Any]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def update(self, name: str, status: dict[str, Any]) -> None:
        """Take a new status of a process; in a pipe, print its events."""
        events, shown = int(status.get("events", 0)), self.counts.get(name, 0)
        was_down = self.status.get(name, {}).get("down")
        self.status[name], self.counts[name] = status, max(events, shown)
        if self.console.is_terminal:
            return
        seconds = f"{time.monotonic() - self.begun:7.2f} s"
        if events > shown:
            self.console.print(f"{seconds}  {name}: {', '.join(status.get('last', []))}")
        if status.get("down") and not was_down:
            self.console.print(f"{seconds}  {name} has died and is restarted")

    def table(self) -> RenderableType:
        """Draw the table."""
        from rich.table import Table  # only where there is a terminal

        table = Table("agent", "steps", "state", "last event", "", box=None)
        for name, status in list(self.status.items()):  # while others add to it
            if "state" in status:
                note = "is restarted" if status.get("down") else "holds still" if status["holding"] else ""
                note = "finished" if status["finished"] else note
                note = "; ".join(f"{agent}: {why}" for agent, why in status.get("refused", {}).items()) or note
                last = ", ".join(status["last"])
                table.add_row(name, str(status["steps"]), Text(status["state"]), Text(last), Text(note))
        return table


@dataclass(frozen=True)
class Verify:
    """Check whether the events of a run are a trace of the team machine, by `run.json` and the logs alone."""

    folder: Annotated[Positional[Path], option("FOLDER")]  # What `hocket run` has written.
    json: Json = False

    def run(self) -> int:
        from hocket.runtime.recording import verify

        verification = verify(self.folder)
        if self.json:
            return print_json(verification.as_json(), ok=verification.ok)
        console = make_console()
        answer, *rest = verification.explain().splitlines()
        console.print(Text(answer, "bold green" if verification.ok else "bold red"))
        for line in rest:
            console.print(line)
        return 0 if verification.ok else 1


@dataclass(frozen=True)
class Keys:
    """Make a certificate authority, and certificates for the agents of a task and for its world: only they may join."""

    target: NamedTask
    out: Annotated[Path, option("FOLDER")] = Path("keys")  # Output folder. Keys that are already there are kept.
    days: Number = 365  # Number of days for which they are valid.
    json: Json = False

    def run(self) -> int:
        from hocket.runtime.launch import check_names
        from hocket.runtime.settings import WORLD
        from hocket.runtime.transport import make_keys

        whole(self.days, "--days", 1)
        task = load_task(self.target)
        check_names(task)
        return print_written(make_keys(self.out, (*task.agents, WORLD), self.days), json=self.json)
