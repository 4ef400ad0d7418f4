"""What check, repair and show are about: a task, or a machine and who knows what of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional

from hocket.cli.options import MaybeText, Words, flat, lists, names, option
from hocket.documents import Document
from hocket.errors import AssignmentError, counted
from hocket.machine.composition import Composition
from hocket.machine.decomposition import enumerate_states
from hocket.machine.formats.schema import LANGUAGES, Design, design_from
from hocket.machine.reward_machine import RewardMachine
from hocket.task.catalogue import load
from hocket.task.task import Task

LARGEST_COMPOSITION = 50_000  # states of a composition up to which it is enumerated to be shown or repaired


@dataclass(frozen=True)
class OnSubject:
    """What the commands that work on a task or a machine have in common."""

    target: Annotated[Positional[str], option("[TASK|MACHINE]")] = ""
    """A built-in name (buttons, rendezvous-3) or a file (.toml, .json, .txt, .dot, .hoa)."""
    knows: Annotated[Words, option("AGENT=EVENT,...")] = ()
    """An agent's local event set, in place of the file's."""
    control: Annotated[Words, option("EVENT=AGENT,...")] = ()
    """The agents that control an event, in place of the file's (machines only; in a task, conditions decide)."""
    formula: Annotated[MaybeText, option("TEXT")] = None
    """A formula of LTLf in place of a task or machine: "F key & (!door U key)"."""
    regex: Annotated[MaybeText, option("TEXT")] = None
    """A regular expression over events, likewise: "(load drop)* ; take"."""
    declare: Annotated[Words, option("CONSTRAINT")] = ()
    """DECLARE constraints, likewise: "response(a, b)" "existence(b)"."""
    events: Annotated[str, option("EVENT,...")] = ""
    """All events that can happen, if the sentence does not name them all."""

    @property
    def name(self) -> str:
        """What to call it."""
        return self.target or next((key for key in LANGUAGES if getattr(self, key)), "nothing")

    def load(self) -> Task | Design:
        """Load a task or a machine by its name, or read the sentence that was given instead."""
        sentences: Document = {"formula": self.formula, "regex": self.regex, "declare": flat(self.declare) or None}
        given: Document = {key: value for key, value in sentences.items() if value is not None}
        if len(given) + bool(self.target) != 1:
            rule = "name a task or a machine, or give one of --formula, --regex and --declare"
            raise AssignmentError(f"{rule}, got {', '.join([*given, *filter(None, [self.target])]) or 'nothing'}")
        if self.target:
            return load(self.target)
        return design_from(given | ({"events": list(names(self.events))} if self.events else {}))

    def subject(self) -> Task | Design:
        """Load it; without local event sets, assume that agents know what they control."""
        given = lists(self.knows, "--knows")
        subject = self.load()
        if isinstance(subject, Task):
            if self.control:
                raise AssignmentError("--control is for machines only; in a task, the conditions of events decide")
            return subject.with_knows(given) if given else subject
        control = {**subject.control, **lists(self.control, "--control")}
        knows = dict(subject.knows)
        if not knows:
            for event, agents in control.items():
                for agent in agents:
                    knows[agent] = (*knows.get(agent, ()), event)
        return subject._replace(knows={**knows, **given}, control=control)


def is_large(machine: RewardMachine | Composition) -> bool:
    """Say whether a machine may have more states than anyone would list."""
    return isinstance(machine, Composition) and machine.most_states > LARGEST_COMPOSITION


def enumerated(subject: Task | Design) -> RewardMachine:
    """Build the team machine with all its states."""
    return enumerate_states(subject.machine) if isinstance(subject, Task) else subject.enumerated()


def print_task(console: Console, task: Task) -> None:
    """Say what a task is about."""
    where = f"{counted(len(task.agents), 'agent')} on a map of {task.grid.rows} x {task.grid.columns} cells"
    console.print(Text.assemble((task.name, "bold"), ": ", where))
    if task.description:
        console.print(Text(task.description, "italic"))


def print_size(console: Console, name: str, machine: RewardMachine | Composition) -> None:
    """Say how large a machine is."""
    if isinstance(machine, Composition):
        parts = f"{counted(len(machine.parts), 'part')}, {counted(len(machine.events), 'event')}"
        console.print(Text.assemble((name, "bold"), f": a composition of {parts}"))
        return
    counts = (
        counted(len(machine.states), "state"),
        counted(len(machine.events), "event"),
        counted(len(machine.graph.target), "transition"),
        counted(len(machine.final), "final state"),
    )
    console.print(Text.assemble((name, "bold"), ": ", ", ".join(counts)))
