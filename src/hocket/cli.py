"""The command line: parse, call one function, print. Exit code 0: all is well; 1: the answer is no; 2: bad input."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg

from hocket import __version__, terminal
from hocket.assignment import Assignment, repair
from hocket.catalogue import find_design
from hocket.decomposition import Decomposition, decompose
from hocket.errors import AssignmentError, HocketError, InfeasibleError
from hocket.notation import save_design
from hocket.notation.design import Design

LARGEST_SUGGESTION = 200_000  # transitions up to which `check` looks for a fix by itself

Words = tuple[tuple[str, ...], ...]  # of an option that may be given several times with several words
Flag = FlagCreatePairsOff[bool]


@dataclass(frozen=True)
class OnDesign:
    """What the commands that work on a design have in common."""

    target: Annotated[Positional[str], arg(metavar="TASK|MACHINE")]
    """A built-in name (buttons, rendezvous-3) or a file (.toml, .json, .txt, .dot)."""
    knows: Annotated[UseAppendAction[Words], arg(metavar="AGENT=EVENT,...")] = ()
    """What an agent knows, in place of what the file says."""
    control: Annotated[UseAppendAction[Words], arg(metavar="EVENT=AGENT,...")] = ()
    """Who makes an event happen, in place of what the file says."""

    def design(self) -> Design:
        """Read the design; of agents whose knowledge nobody gave, assume that they know what they control."""
        found = find_design(self.target)
        knows = {**found.knows, **{agent: _names(text) for agent, text in _items(self.knows, "--knows")}}
        control = {**found.control, **{event: _names(text) for event, text in _items(self.control, "--control")}}
        if not knows:
            for event, agents in control.items():
                for agent in agents:
                    knows[agent] = (*knows.get(agent, ()), event)
        return Design(found.machine, knows, control)


@dataclass(frozen=True)
class Check(OnDesign):
    """Is it well formed, and does it split among its agents? If not, how does the team go wrong, and what mends it?"""

    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        design = self.design()
        if not design.knows:
            return self.report_machine(design)
        found = decompose(design.machine, design.knows, design.control)
        is_small = len(design.machine.graph.target) <= LARGEST_SUGGESTION
        fix = None if found.ok or not is_small else repair(design.machine, design.knows, design.control)
        if self.json:
            _print_json(_decomposition_as_json(found, fix))
        else:
            console = terminal.make_console()
            terminal.print_summary(console, self.target, design.machine)
            terminal.print_decomposition(console, found)
            if fix is not None:
                console.print()
                terminal.print_repair(console, fix)
        return 0 if found.ok else 1

    def report_machine(self, design: Design) -> int:
        """Report on a machine of which nobody has said who knows what."""
        problems = [f"No trace leads to {state}." for state in design.machine.unreachable]
        if self.json:
            _print_json({"decomposable": None, "agents": {}, "counterexample": None, "problems": problems})
            return 0
        console = terminal.make_console()
        terminal.print_summary(console, self.target, design.machine)
        for problem in problems:
            console.print(f"  {problem}")
        console.print("Well formed. To check whether it splits, say who knows what: --knows AGENT=EVENT,...")
        return 0


@dataclass(frozen=True)
class Repair(OnDesign):
    """Find the cheapest events to share so that the task splits among its agents."""

    cost: Annotated[UseAppendAction[Words], arg(metavar="AGENT:EVENT=COST")] = ()
    """What it costs that an agent learns of an event; 1 if not given."""
    forbid: Annotated[UseAppendAction[Words], arg(metavar="AGENT:EVENT")] = ()
    """Events that an agent must not learn of."""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """Write the repaired design to this file (.toml, .json)."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        design = self.design()
        if not design.knows:
            raise AssignmentError("there is nothing to repair until agents know something: --knows AGENT=EVENT,...")
        costs = {_pair(pair, "--cost"): _number(text) for pair, text in _items(self.cost, "--cost")}
        forbidden = [_pair(pair, "--forbid") for words in self.forbid for pair in words]
        try:
            fix = repair(design.machine, design.knows, design.control, costs, forbidden)
        except InfeasibleError as error:
            if self.json:
                _print_json({"add": None, "problems": [str(error)]})
            else:
                terminal.make_console().print(f"No repair: {error}.")
            return 1
        known = {agent: (*own, *fix.get(agent, ())) for agent, own in design.knows.items()}
        if self.out is not None:
            save_design(design._replace(knows=known), self.out)
        if self.json:
            _print_json({**_assignment_as_json(fix), "knows": {agent: list(own) for agent, own in known.items()}})
            return 0
        console = terminal.make_console()
        terminal.print_repair(console, fix)
        if fix:
            terminal.print_knows(console, known)
        return 0


@dataclass(frozen=True)
class Show(OnDesign):
    """Draw the team machine beside its agents' machines, to a file or in the terminal."""

    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """Draw to this file (.svg, .png, .pdf)."""

    def run(self) -> int:
        design = self.design()
        machines = {"team": design.machine}
        if design.knows:
            machines |= decompose(design.machine, design.knows, design.control).machines
        if self.out is not None:
            from hocket.drawing import draw_machines  # loads Graphviz

            draw_machines(machines, self.out)
            return 0
        console = terminal.make_console()
        for title, machine in list(machines.items())[: terminal.SHOWN_AGENTS]:
            terminal.print_machine(console, title, machine)
        terminal.print_rest(console, len(machines) - terminal.SHOWN_AGENTS, "machine")
        return 0


Command = (
    Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Repair, tyro.conf.subcommand("repair")]
    | Annotated[Show, tyro.conf.subcommand("show")]
)


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if args is None else args))


def run(args: list[str]) -> int:
    """Run a command; return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a name must never fail to be printed
    if args in (["--version"], ["-V"]):
        print(f"hocket {__version__}")
        return 0
    description = "Split a team's task among its agents, and prove that the parts make the whole."
    command = tyro.cli(Command, prog="hocket", description=description, args=args or ["--help"])
    try:
        code: int = command.run()
        sys.stdout.flush()
    except HocketError as error:
        terminal.make_console(stderr=True).print(f"hocket: {error}", style="red")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _items(given: Words, option: str) -> Iterator[tuple[str, str]]:
    """Split words of the form KEY=VALUE."""
    for words in given:
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or not key:
                raise AssignmentError(f"{option} takes words of the form KEY=VALUE, got {word!r}")
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
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _decomposition_as_json(found: Decomposition, fix: Assignment | None) -> dict[str, object]:
    example = found.counterexample
    return {
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
        "problems": list(found.problems),
        "notes": list(found.notes),
        "repair": None if fix is None else _assignment_as_json(fix),
    }


def _assignment_as_json(fix: Assignment) -> dict[str, object]:
    added = {agent: list(events) for agent, events in fix.items()}
    return {"add": added, "cost": fix.cost, "exact": fix.exact, "bound": fix.bound}
