"""What the command line prints: coloured on a terminal, plain and unwrapped in a pipe."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from hocket.machine.assignment import Assignment
from hocket.machine.composition import Composition
from hocket.machine.decomposition import Decomposition
from hocket.machine.reward_machine import RewardMachine
from hocket.task.task import Task

SHOWN_STATES = 40  # rows of a machine's table
SHOWN_AGENTS = 40  # rows of a table of agents, and machines shown


class _Console(Console):
    """A console that lets the command line decide what a broken pipe means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console(*, stderr: bool = False) -> Console:
    """Open a console that takes text as it is: names never turn into markup, emoji or links."""
    console = _Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 10_000  # a pipe has no width to wrap at
    return console


def print_task(console: Console, task: Task) -> None:
    """Say what a task is about."""
    where = f"{count(len(task.agents), 'agent')} on a map of {task.grid.rows} x {task.grid.columns} cells"
    console.print(Text.assemble((task.name, "bold"), ": ", where))
    if task.description:
        console.print(Text(task.description, "italic"))


def print_summary(console: Console, name: str, machine: RewardMachine | Composition) -> None:
    """Say how large a machine is."""
    if isinstance(machine, Composition):
        parts = f"{count(len(machine.parts), 'part')}, {count(len(machine.events), 'event')}"
        console.print(Text.assemble((name, "bold"), f": a composition of {parts}"))
        return
    counts = (
        count(len(machine.states), "state"),
        count(len(machine.events), "event"),
        count(len(machine.graph.target), "transition"),
        count(len(machine.final), "final state"),
    )
    console.print(Text.assemble((name, "bold"), ": ", ", ".join(counts)))


def print_decomposition(console: Console, decomposition: Decomposition, more_problems: Sequence[str] = ()) -> None:
    """Give the verdict, the evidence, and a table of the agents."""
    verdict, *evidence = decomposition.explain().splitlines()
    console.print(Text(verdict, "bold green" if decomposition.ok else "bold red"))
    for line in evidence:
        console.print(Text(f"  {line}"))
    for line in more_problems:
        console.print(Text(line, "bold red"))
    console.print()
    rows = [[Text(title, "dim") for title in ("agent", "states", "transitions", "knows")]]
    for agent, machine in list(decomposition.machines.items())[:SHOWN_AGENTS]:
        known = ", ".join(decomposition.knows[agent]) or "nothing"
        cells = (Text(agent, "bold"), f"{len(machine.states):,}", f"{len(machine.graph.target):,}", known)
        rows.append([cell if isinstance(cell, Text) else Text(cell) for cell in cells])
    print_columns(console, rows)
    print_rest(console, len(decomposition.machines) - SHOWN_AGENTS, "agent")


def print_repair(console: Console, repaired: Assignment) -> None:
    """Say which events to add, and how sure it is that nothing cheaper does."""
    if not repaired:
        console.print(Text("Nothing needs to be added.", "bold green"))
        return
    sure = (
        "cheapest" if repaired.exact else f"the best when the search stopped; no fix costs less than {repaired.bound:g}"
    )
    console.print(Text(f"Fix (cost {repaired.cost:g}, {sure}):", "bold"))
    for agent, events in repaired.items():
        console.print(Text.assemble("  let ", (agent, "bold"), " know ", (", ".join(events), "green")))


def print_knows(console: Console, knows: Mapping[str, Iterable[str]]) -> None:
    """List what each agent knows, as options that can be pasted."""
    words = [shlex.quote(f"{agent}={','.join(events)}") for agent, events in knows.items()]
    console.print(Text(" ".join(["--knows", *words])))


def print_machine(console: Console, title: str, machine: RewardMachine) -> None:
    """Show a machine, one state a row: where it starts, what ends it, and where events lead."""
    console.print(Text(title, "bold"))
    rows: dict[str, list[str]] = {state: [] for state in list(machine.states)[:SHOWN_STATES]}
    for (state, event), target in machine.transitions.items():
        if state in rows:
            reward = "" if machine.is_task_completion else f" / {machine.rewards[state, event]:g}"
            rows[state].append(f"{event}{reward} → {target}")
    marks = {
        state: f"{'▶' if state == machine.initial else ' '} {'◎' if state in machine.final else ' '}" for state in rows
    }
    print_columns(
        console,
        [[Text(marks[state]), Text(state, "bold"), Text("   ".join(moves))] for state, moves in rows.items()],
    )
    print_rest(console, len(machine.states) - SHOWN_STATES, "state")
    console.print()


def print_columns(console: Console, rows: Sequence[Sequence[Text]]) -> None:
    """Print rows of cells under each other."""
    for line in aligned(rows):
        console.print(line)


def aligned(rows: Sequence[Sequence[Text]]) -> list[Text]:
    """Set rows of cells under each other, without a frame and without blanks at the ends of lines."""
    lines = []
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (width - cell.cell_len + 2))
        line.rstrip()
        lines.append(line)
    return lines


def print_rest(console: Console, left: int, what: str) -> None:
    """Say what a table leaves out."""
    if left > 0:
        console.print(Text(f"… and {count(left, what)} more", "dim"))


def count(number: int, what: str) -> str:
    """Count things in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
