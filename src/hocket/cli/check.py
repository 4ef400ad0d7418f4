"""check: is it well formed, and decomposable?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from hocket.cli.repair import assignment_as_json, print_knows, print_repair
from hocket.cli.show import print_machine
from hocket.cli.subject import OnSubject, Subject, print_size, print_task
from hocket.cli.terminal import SHOWN_AGENTS, Flag, make_console, print_columns, print_json, print_rest
from hocket.errors import FormatError, HocketError, InfeasibleError
from hocket.machine.assignment import EFFORT_FOR_A_HINT, Assignment, repair
from hocket.machine.completion import find_completion, leaving_warnings
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.reward_machine import RewardMachine
from hocket.task.check import Inspection, check_task
from hocket.task.labelling import Verdict
from hocket.task.mending import repair_task
from hocket.task.task import Task

SHOWN_PARTS = 8  # of a sentence
LARGEST_SUGGESTION = 200_000  # transitions up to which `check` looks for a repair by itself


class Findings(NamedTuple):
    """What is there to report on a task, or on a machine with local event sets."""

    decomposition: Decomposition
    ok: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()  # of a task, beside those of its decomposition
    labelling: Verdict | None = None  # of a task


@dataclass(frozen=True)
class Check(OnSubject):
    """Is it well formed and decomposable? If not: a shortest counterexample and a minimum-cost repair."""

    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        subject = self.subject()
        if not subject.knows:
            return self.report_machine(subject)
        findings = self.examine(subject)
        found = findings.decomposition
        fix, obstacle = (None, "") if found.ok else self.suggest(subject)
        if self.json:
            print_json({**_findings_as_json(findings), "repair": _repair_as_json(fix, obstacle)})
            return 0 if findings.ok else 1
        console = make_console()
        if subject.task is not None:
            print_task(console, subject.task)
        print_size(console, "team machine" if subject.task else self.name, subject.machine)
        if subject.reading is not None:
            print_reading(console, subject.machine)
        print_decomposition(console, found, [said for said in findings.problems if said not in found.problems])
        _print_warnings(console, findings.warnings)
        if findings.labelling is not None and findings.ok:
            console.print("Labelling, gates, reachability: OK")
            for note in findings.notes:
                console.print(note)
        if obstacle:
            console.print(f"\nNo repair: {obstacle}.")
        if fix is not None:
            console.print()
            print_repair(console, fix)
            if subject.reading is not None:
                print_knows(console, {agent: (*own, *fix.get(agent, ())) for agent, own in subject.knows.items()})
        return 0 if findings.ok else 1

    def examine(self, subject: Subject) -> Findings:
        """Check a task, or a machine with local event sets."""
        if subject.task is not None:
            seen = self.inspect(subject.task)
            return Findings(seen.decomposition, seen.ok, seen.problems, seen.warnings, seen.notes, seen.labelling)
        found, completion = decompose(subject.machine, subject.knows, subject.control), find_completion(subject.machine)
        problems = (*found.problems, *completion.problems)
        warnings = (*completion.warnings, *leaving_warnings(found.machines))
        return Findings(found, found.ok and not completion.problems, problems, warnings)

    def inspect(self, task: Task) -> Inspection:
        """Inspect a task; a machine or gates that cannot be checked are an error, which names the file."""
        try:
            return check_task(task)
        except HocketError as error:
            raise FormatError(str(error), path=self.name) from None

    def suggest(self, subject: Subject) -> tuple[Assignment | None, str]:
        """Look for what `hocket repair` would add, where that does not take long, or what stands in its way."""
        team = subject.machine
        if not subject.is_independent:
            if subject.is_large or len(subject.enumerated().graph.target) > LARGEST_SUGGESTION:
                return None, ""
            team = subject.enumerated()
        if subject.task is None:
            return repair(team, subject.knows, subject.needs, effort=EFFORT_FOR_A_HINT), ""
        try:
            return repair_task(subject.task, effort=EFFORT_FOR_A_HINT).added, ""
        except InfeasibleError as error:
            return None, str(error)

    def report_machine(self, subject: Subject) -> int:
        """Report on a machine without local event sets."""
        machine = subject.enumerated()
        completion = find_completion(machine)
        notes = () if machine.meaning is None else machine.meaning.notes
        problems = [*(f"No trace reaches {state}." for state in machine.unreachable), *completion.problems]
        if self.json:
            described: dict[str, object] = {
                "decomposable": None,
                "agents": {},
                "counterexample": None,
                "problems": problems,
            }
            print_json({**described, "warnings": list(completion.warnings)})
            return 1 if completion.problems else 0
        console = make_console()
        print_size(console, self.name, machine)
        if subject.reading is not None:
            print_reading(console, machine)
        for problem in (*problems, *notes):
            console.print(f"  {problem}")
        _print_warnings(console, completion.warnings)
        console.print("Well formed. To check decomposability, give the local event sets: --knows AGENT=EVENT,...")
        return 1 if completion.problems else 0


def _print_warnings(console: Console, warnings: Sequence[str]) -> None:
    for line in warnings:
        console.print(Text(f"Warning: {line}", "yellow"))


def print_reading(console: Console, machine: RewardMachine | Composition) -> None:
    """Show the machine of a sentence, or its parts."""
    parts = dict(machine.parts) if isinstance(machine, Composition) else {"": machine}
    for title, part in list(parts.items())[:SHOWN_PARTS]:
        print_machine(console, title, part)
    print_rest(console, len(parts) - SHOWN_PARTS, "part")


def _repair_as_json(fix: Assignment | None, obstacle: str) -> dict[str, object] | None:
    """Say what to add; null where nothing has to be added or nobody has looked."""
    if obstacle:
        return {"add": None, "problems": [obstacle]}
    return None if fix is None else assignment_as_json(fix)


def _findings_as_json(findings: Findings) -> dict[str, object]:
    found, labelling = findings.decomposition, findings.labelling
    example = found.counterexample
    described: dict[str, object] = {
        "decomposable": found.ok,
        "agents": {
            agent: {
                "events": list(found.knows[agent]),
                "states": len(machine.states),
                "transitions": len(machine.graph.target),
                "finishes_early": list(found.early[agent]) if agent in found.early else None,
            }
            for agent, machine in found.machines.items()
        },
        "counterexample": None
        if example is None
        else {
            "trace": list(example.trace),
            "kind": example.kind,
            "event": example.event,
            "state": example.state,
            "remark": example.remark,
            "confusions": [
                {
                    "agent": confusion.agent,
                    "state": confusion.state,
                    "merged_with": confusion.merged_with,
                    "missing": list(confusion.missing),
                }
                for confusion in example.confusions
            ],
        },
        "problems": list(findings.problems),
        "warnings": list(findings.warnings),
        "notes": [*found.notes, *findings.notes],
    }
    if labelling is not None:
        described["labelling"] = {
            "ok": labelling.ok,
            "condition": labelling.condition,
            "witness": labelling.witness,
        }
    return described


def print_decomposition(console: Console, decomposition: Decomposition, more_problems: Sequence[str] = ()) -> None:
    """Give the verdict, the evidence, and a table of the agents."""
    verdict, *evidence = decomposition.explain().splitlines()
    console.print(Text(verdict, "bold green" if decomposition.ok else "bold red"))
    for line in evidence:
        console.print(Text(f"  {line}"))
    for line in more_problems:
        console.print(Text(line, "bold red"))
    console.print()
    rows = [[Text(title, "dim") for title in ("agent", "states", "transitions", "local event set")]]
    for agent, machine in list(decomposition.machines.items())[:SHOWN_AGENTS]:
        known = ", ".join(decomposition.knows[agent]) or "empty"
        cells = (Text(agent, "bold"), f"{len(machine.states):,}", f"{len(machine.graph.target):,}", known)
        rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])
    print_columns(console, rows)
    print_rest(console, len(decomposition.machines) - SHOWN_AGENTS, "agent")
