"""check, repair, show: what a designer asks of a task or a machine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg

from hocket.cli import terminal
from hocket.cli.map import print_map
from hocket.errors import AssignmentError, FormatError, InfeasibleError, TaskError
from hocket.machine.assignment import EFFORT_FOR_A_HINT, Assignment, repair
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition, decompose, enumerate_states
from hocket.machine.formats import save_design
from hocket.machine.formats.schema import Design
from hocket.machine.reward_machine import RewardMachine
from hocket.task.catalogue import load
from hocket.task.check import Inspection, check_task
from hocket.task.files import save_task
from hocket.task.labelling import Verdict
from hocket.task.task import Task

LARGEST_SUGGESTION = 200_000  # transitions up to which `check` looks for a fix by itself
LARGEST_COMPOSITION = 50_000  # states of a composition up to which it is enumerated to be shown or mended

Words = tuple[tuple[str, ...], ...]  # of an option that may be given several times with several words
Flag = FlagCreatePairsOff[bool]


class Subject(NamedTuple):
    """What a command is about."""

    name: str
    machine: RewardMachine | Composition
    knows: Mapping[str, tuple[str, ...]]
    control: Mapping[str, tuple[str, ...]]
    needs: Mapping[str, tuple[str, ...]]  # event -> who must know it: control, and in a task also gates
    task: Task | None  # None: a machine without a world

    def enumerated(self) -> RewardMachine:
        """The team machine with all its states."""
        return enumerate_states(self.machine) if isinstance(self.machine, Composition) else self.machine


@dataclass(frozen=True)
class OnSubject:
    """What the commands that work on a task or a machine have in common."""

    target: Annotated[Positional[str], arg(metavar="TASK|MACHINE")]
    """A built-in name (buttons, rendezvous-3) or a file (.toml, .json, .txt, .dot, .hoa)."""
    knows: Annotated[UseAppendAction[Words], arg(metavar="AGENT=EVENT,...")] = ()
    """What an agent knows, in place of what the file says."""
    control: Annotated[UseAppendAction[Words], arg(metavar="EVENT=AGENT,...")] = ()
    """Who makes an event happen, in place of what the file says (for a machine; a task's conditions say it)."""

    def subject(self) -> Subject:
        """Load it; of agents whose knowledge nobody gave, assume that they know what they control."""
        given = {agent: _names(text) for agent, text in _items(self.knows, "--knows")}
        found = load(self.target)
        if isinstance(found, Task):
            if self.control:
                raise AssignmentError("--control is for machines; in a task the conditions of an event say it")
            task = found.with_knows(given) if given else found
            knows = {agent: tuple(own) for agent, own in task.knows.items()}
            control, needs = ({e: tuple(own) for e, own in who.items()} for who in (task.control, task.needs))
            return Subject(self.target, task.machine, knows, control, needs, task)
        knows = {**found.knows, **given}
        control = {**found.control, **{event: _names(text) for event, text in _items(self.control, "--control")}}
        if not knows:
            for event, agents in control.items():
                for agent in agents:
                    knows[agent] = (*knows.get(agent, ()), event)
        return Subject(self.target, found.machine, knows, control, control, None)


@dataclass(frozen=True)
class Check(OnSubject):
    """Is it well formed, and does it split among its agents? If not, how does the team go wrong, and what mends it?"""

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
            _print_json(_decomposition_as_json(found, fix, problems, labelling))
            return 0 if ok else 1
        console = terminal.make_console()
        if subject.task is not None:
            terminal.print_task(console, subject.task)
        terminal.print_summary(console, "team machine" if subject.task else self.target, subject.machine)
        terminal.print_decomposition(console, found, [said for said in problems if said not in found.problems])
        if inspection is not None and inspection.ok:
            console.print("Labels, gates and ways: every agent can tell its events apart and can do its part.")
        if fix is not None:
            console.print()
            terminal.print_repair(console, fix)
        return 0 if ok else 1

    def inspect(self, task: Task) -> Inspection:
        """Inspect a task; what is wrong with its gates is an error, and names the file."""
        try:
            return check_task(task)
        except TaskError as error:
            raise FormatError(str(error), path=self.target) from None

    def suggest(self, subject: Subject) -> Assignment | None:
        """Look for the cheapest fix, where that does not take long."""
        is_large = isinstance(subject.machine, Composition) and subject.machine.most_states > LARGEST_COMPOSITION
        if is_large or len(subject.enumerated().graph.target) > LARGEST_SUGGESTION:
            return None
        return repair(subject.enumerated(), subject.knows, subject.needs, effort=EFFORT_FOR_A_HINT)

    def report_machine(self, subject: Subject) -> int:
        """Report on a machine of which nobody has said who knows what."""
        machine = subject.enumerated()
        problems = [f"No trace leads to {state}." for state in machine.unreachable]
        if self.json:
            _print_json({"decomposable": None, "agents": {}, "counterexample": None, "problems": problems})
            return 0
        console = terminal.make_console()
        terminal.print_summary(console, self.target, machine)
        for problem in problems:
            console.print(f"  {problem}")
        console.print("Well formed. To check whether it splits, say who knows what: --knows AGENT=EVENT,...")
        return 0


@dataclass(frozen=True)
class Repair(OnSubject):
    """Find the cheapest events to share so that the task splits among its agents."""

    cost: Annotated[UseAppendAction[Words], arg(metavar="AGENT:EVENT=COST")] = ()
    """What it costs that an agent learns of an event; 1 if not given."""
    forbid: Annotated[UseAppendAction[Words], arg(metavar="AGENT:EVENT")] = ()
    """Events that an agent must not learn of."""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """Write the repaired task or machine to this file (.toml, .json)."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        subject = self.subject()
        if not subject.knows:
            raise AssignmentError("there is nothing to repair until agents know something: --knows AGENT=EVENT,...")
        costs = {_pair(pair, "--cost"): _number(text) for pair, text in _items(self.cost, "--cost")}
        forbidden = [_pair(pair, "--forbid") for words in self.forbid for pair in words]
        try:
            fix = repair(subject.enumerated(), subject.knows, subject.needs, costs, forbidden)
        except InfeasibleError as error:
            if self.json:
                _print_json({"add": None, "problems": [str(error)]})
            else:
                terminal.make_console().print(f"No repair: {error}.")
            return 1
        known = {agent: (*own, *fix.get(agent, ())) for agent, own in subject.knows.items()}
        if self.out is not None and subject.task is not None:
            save_task(subject.task.with_knows(known), self.out)
        elif self.out is not None:
            save_design(Design(subject.enumerated(), known, subject.control), self.out)
        if self.json:
            _print_json({**_assignment_as_json(fix), "knows": {agent: list(own) for agent, own in known.items()}})
            return 0
        console = terminal.make_console()
        terminal.print_repair(console, fix)
        if fix:
            terminal.print_knows(console, known)
        return 0


@dataclass(frozen=True)
class Show(OnSubject):
    """Draw the map and the team machine beside its agents' machines, to a file or in the terminal."""

    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """Draw to this file (.svg, .png, .pdf)."""

    def run(self) -> int:
        subject = self.subject()
        machines = {}
        if isinstance(subject.machine, RewardMachine) or subject.machine.most_states <= LARGEST_COMPOSITION:
            machines["team"] = subject.enumerated()
        if subject.task is not None:
            machines |= subject.task.machines
        elif subject.knows:
            machines |= decompose(subject.machine, subject.knows, subject.control).machines
        if self.out is not None:
            self.draw(machines, subject.task, self.out)
            return 0
        console = terminal.make_console()
        if subject.task is not None:
            terminal.print_task(console, subject.task)
            print_map(console, subject.task)
        for title, machine in list(machines.items())[: terminal.SHOWN_AGENTS]:
            terminal.print_machine(console, title, machine)
        terminal.print_rest(console, len(machines) - terminal.SHOWN_AGENTS, "machine")
        return 0

    def draw(self, machines: Mapping[str, RewardMachine], task: Task | None, path: Path) -> None:
        """Draw machines to a file, beside the map where there is one."""
        from hocket.draw.graphviz import draw_machines  # loads Graphviz
        from hocket.draw.task_picture import draw_task

        if task is None:
            draw_machines(machines, path)
        else:
            draw_task(task, path, machines)


def _items(given: Words, option: str) -> Iterator[tuple[str, str]]:
    """Split words of the form KEY=VALUE."""
    seen: set[str] = set()
    for words in given:
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or not key:
                raise AssignmentError(f"{option} takes words of the form KEY=VALUE, got {word!r}")
            if key in seen:
                raise AssignmentError(f"{option} has {key!r} twice; give all of it in one word")
            seen.add(key)
            yield key, value


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


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


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def _decomposition_as_json(
    found: Decomposition, fix: Assignment | None, problems: tuple[str, ...], labelling: Verdict | None
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
            "confusions": [
                {
                    "agent": confusion.agent,
                    "state": confusion.state,
                    "mistaken_for": confusion.mistaken_for,
                    "unnoticed": list(confusion.unnoticed),
                }
                for confusion in example.confusions
            ],
        },
        "problems": list(problems),
        "notes": list(found.notes),
        "repair": None if fix is None else _assignment_as_json(fix),
    }
    if labelling is not None:
        described["labelling"] = {
            "ok": labelling.ok,
            "condition": labelling.condition,
            "witness": labelling.witness,
        }
    return described


def _assignment_as_json(fix: Assignment) -> dict[str, object]:
    added = {agent: list(events) for agent, events in fix.items()}
    return {"add": added, "cost": fix.cost, "exact": fix.exact, "bound": fix.bound}
