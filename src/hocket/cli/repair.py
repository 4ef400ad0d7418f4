"""repair: the cheapest events to share so that a task is decomposable."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text

from hocket.cli.options import Flag, MaybePath, Words, flat, items, option
from hocket.cli.subject import OnSubject, Subject
from hocket.cli.terminal import make_console, print_json
from hocket.errors import AssignmentError, InfeasibleError
from hocket.machine.assignment import Assignment, Costs, repair
from hocket.machine.formats import save_design
from hocket.machine.formats.schema import Design
from hocket.task.catalogue import save_task
from hocket.task.editing import edit_knows
from hocket.task.repair import repair_task


@dataclass(frozen=True)
class Repair(OnSubject):
    """Find the cheapest events to add to local event sets so that the task is decomposable and passes every check."""

    cost: Annotated[Words, option("AGENT:EVENT=COST")] = ()
    """The cost of adding an event to an agent's local event set; 1 if not given."""
    forbid: Annotated[Words, option("AGENT:EVENT")] = ()
    """Events that must not be added to an agent's local event set."""
    out: Annotated[MaybePath, option("FILE", "-o")] = None
    """Write the repaired task or machine to this file (.toml, .json); your own file's comments and order are kept."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        subject = self.subject()
        if not subject.knows:
            raise AssignmentError("there are no local event sets to repair: --knows AGENT=EVENT,...")
        costs = {_pair(pair, "--cost"): _number(text) for pair, text in items(self.cost, "--cost")}
        forbidden = [_pair(pair, "--forbid") for pair in flat(self.forbid)]
        try:
            fix, stall = self.find(subject, costs, forbidden)
        except InfeasibleError as error:
            if self.json:
                print_json({"add": None, "problems": [str(error)]})
            else:
                make_console().print(f"No repair: {error}.")
            return 1
        known = {agent: (*events, *fix.get(agent, ())) for agent, events in subject.knows.items()}
        if self.out is not None:
            self.write(subject, known, {*fix, *(agent for agent, _ in items(self.knows, "--knows"))}, self.out)
        if self.json:
            stalls = {"problems": [f"The team stalls {stall}."]} if stall else {}
            print_json({**fix.as_json(), "knows": {agent: list(events) for agent, events in known.items()}, **stalls})
            return 1 if stall else 0
        console = make_console()
        if fix or not stall:
            print_repair(console, fix)
        if fix:
            print_knows(console, known)
        if stall:
            console.print(Text(f"No event was found that helps the team, which stalls {stall}.", "bold red"))
        return 1 if stall else 0

    def find(self, subject: Subject, costs: Costs, forbidden: list[tuple[str, str]]) -> tuple[Assignment, str]:
        """Find what to add; to a task, so that it passes every check. Also tells where its team stalls all the same."""
        if subject.task is None:
            team = subject.machine if subject.is_independent else subject.enumerated()
            return repair(team, subject.knows, subject.needs, costs, forbidden), ""
        repaired = repair_task(subject.task, costs, forbidden)
        return repaired.added, repaired.stall

    def write(
        self, subject: Subject, known: Mapping[str, tuple[str, ...]], changed: Collection[str], out: Path
    ) -> None:
        """Write what was repaired: the user's own file with other local event sets where that can be, or a new one."""
        source = Path(self.target)
        is_task = subject.task is not None
        knows = {agent: known[agent] for agent in changed} if is_task else known
        if not self.control and edit_knows(source, out, knows, in_agents=is_task):
            return
        if subject.task is not None:
            save_task(subject.task.with_knows(known), out)
        else:
            save_design(Design(subject.enumerated(), known, subject.control), out)


def _pair(text: str, option: str) -> tuple[str, str]:
    agent, colon, event = text.partition(":")
    if not colon:
        raise AssignmentError(f"{option} takes pairs of the form AGENT:EVENT, got {text!r}")
    return agent, event


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise AssignmentError(f"--cost takes numbers, got {text!r}")
    return number


def print_repair(console: Console, repaired: Assignment) -> None:
    """Say which events to add, and whether their cost is proved minimal."""
    if not repaired:
        console.print(Text("Nothing needs to be added.", "bold green"))
        return
    sure = "proved minimal" if repaired.exact else f"not proved minimal, lower bound {repaired.bound:g}"
    console.print(Text(f"Repair (cost {repaired.cost:g}, {sure}):", "bold"))
    for agent, events in repaired.items():
        console.print(
            Text.assemble("  add ", (", ".join(events), "green"), " to the local event set of ", (agent, "bold"))
        )


def print_knows(console: Console, knows: Mapping[str, Iterable[str]]) -> None:
    """List the local event sets, as options that can be pasted."""
    words = [shlex.quote(f"{agent}={','.join(events)}") for agent, events in knows.items()]
    console.print(Text(" ".join(["--knows", *words])))
