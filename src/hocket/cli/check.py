"""check: is it well formed, and decomposable?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from hocket.cli.repair import assignment_as_json, print_knows, print_repair
from hocket.cli.show import print_machine
from hocket.cli.subject import OnSubject, Subject, print_size, print_task
from hocket.cli.terminal import SHOWN_AGENTS, Flag, make_console, print_columns, print_json, print_rest
from hocket.errors import FormatError, HocketError
from hocket.machine.assignment import EFFORT_FOR_A_HINT, Assignment, repair
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition, decompose
from hocket.machine.reward_machine import RewardMachine
from hocket.task.check import Inspection, check_task
from hocket.task.labelling import Verdict
from hocket.task.task import Task

SHOWN_PARTS = 8  # of a sentence
LARGEST_SUGGESTION = 200_000  # transitions up to which `check` looks for a repair by itself


@dataclass(frozen=True)
class Check(OnSubject):
    """Is it well formed and decomposable? If not: a shortest counterexample and a minimum-cost repair."""

    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        subject = self.subject()
        if not subject.knows:
            return self.report_machine(subject)
        inspection = None if subject.task is None else self.inspect(subject.task)
        found = inspection.decomposition if inspection else decompose(subject.machine, subject.knows, subject.control)
        ok = inspection.ok if inspection else found.ok
        labelling = inspection.labelling if inspection else None
        problems = inspection.problems if inspection else found.problems
        fix = None if found.ok else self.suggest(subject)
        if self.json:
            notes = [*found.notes, *(inspection.notes if inspection else ())]
            print_json(_decomposition_as_json(found, fix, problems, notes, labelling))
            return 0 if ok else 1
        console = make_console()
        if subject.task is not None:
            print_task(console, subject.task)
        print_size(console, "team machine" if subject.task else self.name, subject.machine)
        if subject.reading is not None:
            print_reading(console, subject.machine)
        print_decomposition(console, found, [said for said in problems if said not in found.problems])
        if inspection is not None and inspection.ok:
            console.print("Labelling, gates, reachability: OK")
            for note in inspection.notes:
                console.print(note)
        if fix is not None:
            console.print()
            print_repair(console, fix)
            if subject.reading is not None:
                print_knows(console, {agent: (*own, *fix.get(agent, ())) for agent, own in subject.knows.items()})
        return 0 if ok else 1

    def inspect(self, task: Task) -> Inspection:
        """Inspect a task; a machine or gates that cannot be checked are an error, which names the file."""
        try:
            return check_task(task)
        except HocketError as error:
            raise FormatError(str(error), path=self.name) from None

    def suggest(self, subject: Subject) -> Assignment | None:
        """Look for the cheapest repair, where that does not take long."""
        if subject.is_independent:
            return repair(subject.machine, subject.knows, subject.needs)
        if subject.is_large or len(subject.enumerated().graph.target) > LARGEST_SUGGESTION:
            return None
        return repair(subject.enumerated(), subject.knows, subject.needs, effort=EFFORT_FOR_A_HINT)

    def report_machine(self, subject: Subject) -> int:
        """Report on a machine without local event sets."""
        machine = subject.enumerated()
        notes = () if machine.meaning is None else machine.meaning.notes
        problems = [f"No trace reaches {state}." for state in machine.unreachable]
        if self.json:
            print_json({"decomposable": None, "agents": {}, "counterexample": None, "problems": problems})
            return 0
        console = make_console()
        print_size(console, self.name, machine)
        if subject.reading is not None:
            print_reading(console, machine)
        for problem in (*problems, *notes):
            console.print(f"  {problem}")
        console.print("Well formed. To check decomposability, give the local event sets: --knows AGENT=EVENT,...")
        return 0


def print_reading(console: Console, machine: RewardMachine | Composition) -> None:
    """Show the machine of a sentence, or its parts."""
    parts = dict(machine.parts) if isinstance(machine, Composition) else {"": machine}
    for title, part in list(parts.items())[:SHOWN_PARTS]:
        print_machine(console, title, part)
    print_rest(console, len(parts) - SHOWN_PARTS, "part")


def _decomposition_as_json(
    found: Decomposition,
    fix: Assignment | None,
    problems: Sequence[str],
    notes: Sequence[str],
    labelling: Verdict | None,
) -> dict[str, object]:
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
        "problems": list(problems),
        "notes": list(notes),
        "repair": None if fix is None else assignment_as_json(fix),
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
