"""run: the team as processes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.live import Live
from rich.table import Table
from rich.text import Text
from tyro.conf import Positional

from hocket.cli.interrupt import stopping
from hocket.cli.options import Flag, MaybeText, Number, option
from hocket.cli.terminal import make_console, print_json
from hocket.errors import SettingsError


@dataclass(frozen=True)
class RunTeam:
    """Run a trained team as processes, one for each agent and one for the world; those that die are started again."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name (buttons, rendezvous-3) or a file."""
    policies: Annotated[str, option("FOLDER")] = ""
    """A folder of runs, of which the first one's greedy policy is played."""
    out: Annotated[str, option("FOLDER")] = ""
    """Folder of the logs (default: a new one under runs/). A run that was stopped there is continued."""
    agent: Annotated[MaybeText, option("NAME")] = None
    """Run only this agent (or the world); the others run on other machines."""
    peers: Annotated[MaybeText, option("FILE")] = None
    """File of addresses: run = "name", world = "HOST:PORT", keys = "FOLDER", [agents] A1 = "HOST:PORT"."""
    agree: Flag = False
    """If events must not be heard late, let the agents agree on them that `hocket check --delays` names."""
    pace: Annotated[float, option("N")] = 10.0
    """Steps a second."""
    steps: Number = 1_000
    """Step limit: the steps of each agent after which the run ends."""
    durability: Annotated[Literal["full", "none"], option()] = "full"
    """full: a log entry is on disk before other agents are told of it; none: not, for demonstrations."""
    insecure: Flag = False
    """Allow unencrypted connections to other machines."""
    loss: Annotated[float, option("P")] = 0.0
    """Share of messages that are dropped on purpose, for tests."""
    seed: Number = 0
    """Random seed of slips."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.runtime.launch import run_team

        if not (0 < self.pace <= 10_000 and 0 <= self.loss < 1 and self.steps > 0):
            raise SettingsError("--pace lies above 0, --loss from 0 to below 1, and --steps above 0")
        folder = Path(self.out or f"runs/{Path(self.target).stem}-{time.strftime('%Y%m%d-%H%M%S')}")
        if not self.policies and not (folder / "run.json").exists() and self.agent != "world":
            raise SettingsError("name the folder of the runs whose policy is to be played: --policies runs/x")
        view = View(live=not self.json)
        with stopping() as stop, view:
            outcome = run_team(
                self.target,
                self.policies,
                folder,
                agent=self.agent,
                peers=self.peers,
                agree=self.agree,
                durable=self.durability == "full",
                insecure=self.insecure,
                pace=self.pace,
                steps=self.steps,
                seed=self.seed,
                loss=self.loss,
                watch=view.tell,
                stop=stop.is_set,
            )
        restarts = {name: count for name, count in outcome.restarts.items() if count}
        if self.json:
            print_json({"complete": outcome.complete, "folder": str(folder), "restarts": restarts})
        else:
            said = "The task is complete" if outcome.complete else "The task is not complete"
            style = "bold green" if outcome.complete else "bold red"
            view.console.print(
                Text(f"{said}; the logs are in {folder}, for `hocket verify` and `hocket report`.", style)
            )
        return 0 if outcome.complete else stop.code or 1


class View:
    """How the processes are: a table on a terminal, and in a pipe a line for each event."""

    def __init__(self, *, live: bool) -> None:
        self.console = make_console()
        self.begun = time.monotonic()
        self.status: dict[str, dict[str, Any]] = {}
        self.counts: dict[str, int] = {}
        self.is_quiet = not live
        self.live = (
            Live(console=self.console, refresh_per_second=8, transient=True)
            if live and self.console.is_terminal
            else None
        )

    def __enter__(self) -> View:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def tell(self, name: str, status: dict[str, Any]) -> None:
        """Show how a process is."""
        events, seconds = int(status.get("events", 0)), time.monotonic() - self.begun
        is_down, was_down = bool(status.get("down")), bool(self.status.get(name, {}).get("down"))
        self.status[name] = status
        if self.live is not None:
            self.live.update(self.table())
        elif not self.is_quiet:
            if events > self.counts.get(name, 0):
                self.console.print(f"{seconds:7.2f} s  {name}: {', '.join(status.get('last', []))}")
            if is_down and not was_down:
                self.console.print(f"{seconds:7.2f} s  {name} has died and is started again")
        self.counts[name] = max(events, self.counts.get(name, 0))

    def table(self) -> Table:
        """Lay out how all are."""
        table = Table("agent", "steps", "state", "last event", "", box=None)
        for name, status in self.status.items():
            if "state" in status:
                what = "is started again" if status.get("down") else "holds still" if status["holding"] else ""
                what = "finished" if status["finished"] else what
                refused = "; ".join(f"{agent}: {why}" for agent, why in status.get("refused", {}).items())
                last = ", ".join(status["last"])
                table.add_row(name, str(status["steps"]), Text(status["state"]), Text(last), Text(refused or what))
        return table
