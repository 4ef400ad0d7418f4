"""check: is it well formed and decomposable, and does a team of planned policies complete it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from hocket.cli.options import Flag
from hocket.cli.subject import OnSubject, Subject, print_size, print_task
from hocket.cli.terminal import SHOWN_AGENTS, make_console, print_json, print_rest, print_table
from hocket.errors import FormatError, HocketError, InfeasibleError
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.verdict import Line, Verdict, check_machine, check_task

if TYPE_CHECKING:  # what only some answers need is loaded with them
    from hocket.machine.assignment import Assignment

SHOWN_PARTS = 8  # of a sentence
LARGEST_SUGGESTION = 200_000  # transitions up to which `check` looks for a repair by itself
STYLES = {"yes": "bold green", "no": "bold red", "problem": "bold red", "warning": "yellow"}


@dataclass(frozen=True)
class Check(OnSubject):
    """Is it well formed and decomposable, and does a team complete it? If not: a counterexample or a stall, and a
    repair."""

    no_play: Flag = False
    """Do not play the team of planned policies."""

    delays: Flag = False
    """Also check whether events may be heard late; if not, who has to agree on which."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        subject = self.subject()
        verdict = self.check(subject)
        if self.delays and verdict.decomposition is not None:
            from hocket.task.verdict import with_delays

            verdict = with_delays(verdict)
        added, obstacle = self.suggest(subject) if _is_repairable(verdict) else (None, "")
        if self.json:
            print_json({**verdict.as_json(), "repair": _repair_as_json(added, obstacle)})
            return 0 if verdict.ok else 1
        console = make_console()
        if subject.task is not None:
            print_task(console, subject.task)
        print_size(console, "team machine" if subject.task else self.name, verdict.machine)
        if subject.reading is not None:
            print_reading(console, verdict.machine)
        print_verdict(console, verdict)
        if verdict.decomposition is None:
            console.print("To check decomposability, give the local event sets: --knows AGENT=EVENT,...")
        if obstacle:
            console.print(f"\nNo repair: {obstacle}.")
        if added is not None:
            from hocket.cli.repair import print_knows, print_repair

            console.print()
            print_repair(console, added)
            if subject.reading is not None:
                print_knows(console, {agent: (*known, *added.get(agent, ())) for agent, known in subject.knows.items()})
        return 0 if verdict.ok else 1

    def check(self, subject: Subject) -> Verdict:
        """Check a task or a machine; what cannot be checked is an error that names the file."""
        if subject.task is None:
            return check_machine(
                subject.machine if subject.knows else subject.enumerated(), subject.knows, subject.control
            )
        try:
            return check_task(subject.task, play=not self.no_play)
        except HocketError as error:
            raise FormatError(str(error), path=self.name) from None

    def suggest(self, subject: Subject) -> tuple[Assignment | None, str]:
        """Look for what `hocket repair` would add, where that does not take long, or what stands in its way."""
        from hocket.machine.assignment import EFFORT_FOR_A_HINT, repair
        from hocket.task.repair import repair_task

        team = subject.machine
        if not subject.is_independent:
            if subject.is_large or len(subject.enumerated().graph.target) > LARGEST_SUGGESTION:
                return None, ""
            team = subject.enumerated()
        if subject.task is None:
            return repair(team, subject.knows, subject.needs, effort=EFFORT_FOR_A_HINT), ""
        try:
            repaired = repair_task(subject.task, effort=EFFORT_FOR_A_HINT)
            helps = repaired.added or not repaired.stall
            return (repaired.added, "") if helps else (None, "no event was found that helps the team")
        except InfeasibleError as error:
            return None, str(error)


def _is_repairable(verdict: Verdict) -> bool:
    """Say whether other local event sets may help: it is not decomposable, or the team stalls."""
    stalls = any(part.name == "team" and not part.ok for part in verdict.parts)
    return stalls or (verdict.decomposition is not None and not verdict.decomposition.ok)


def print_reading(console: Console, machine: RewardMachine | Composition) -> None:
    """Show the machine of a sentence, or its parts."""
    from hocket.cli.show import print_machine

    parts = dict(machine.parts) if isinstance(machine, Composition) else {"": machine}
    for title, part in list(parts.items())[:SHOWN_PARTS]:
        print_machine(console, title, part)
    print_rest(console, len(parts) - SHOWN_PARTS, "part")


def _repair_as_json(added: Assignment | None, obstacle: str) -> dict[str, object] | None:
    """Say what to add; null where nothing has to be added or nothing was searched for."""
    if obstacle:
        return {"add": None, "problems": [obstacle]}
    return None if added is None else added.as_json()


def print_verdict(console: Console, verdict: Verdict) -> None:
    """Print a verdict: the answer with its evidence, a table of the agents, and everything else there is to say."""
    lines = verdict.lines()
    evidence = next((place for place, line in enumerate(lines) if line.kind in ("warning", "note")), len(lines))
    for line in lines[:evidence]:
        _print_line(console, line)
    if verdict.decomposition is not None:
        console.print()
        _print_agents(console, verdict.decomposition)
    for line in lines[evidence:]:
        _print_line(console, line)


def _print_line(console: Console, line: Line) -> None:
    sign = {"evidence": "  ", "warning": "Warning: "}.get(line.kind, "")
    console.print(Text(f"{sign}{line.text}", STYLES.get(line.kind, "")))


def _print_agents(console: Console, decomposition: Decomposition) -> None:
    shown, knows = list(decomposition.machines.items())[:SHOWN_AGENTS], decomposition.knows
    rows = [
        (
            Text(agent, "bold"),
            f"{len(machine.states):,}",
            f"{len(machine.graph.target):,}",
            ", ".join(knows[agent]) or "empty",
        )
        for agent, machine in shown
    ]
    print_table(console, ("agent", "states", "transitions", "local event set"), rows)
    print_rest(console, len(decomposition.machines) - SHOWN_AGENTS, "agent")
