"""check, repair, show: whether a task is decomposable and a team completes it, the cheapest repair, and drawings."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional

from hocket.cli.options import Flag, Json, MaybeText, OutFile, Words, flat, items, lists, names, option
from hocket.cli.terminal import PIPE_WIDTH, SHOWN_AGENTS, make_console, print_json, print_line, print_rest, print_table
from hocket.documents import Document
from hocket.errors import AssignmentError, InfeasibleError, counted, located
from hocket.machine.composition import Composition
from hocket.machine.decomposition import decompose, enumerate_states
from hocket.machine.formats.schema import LANGUAGES, Design, design_from
from hocket.machine.names import invert
from hocket.machine.reward_machine import RewardMachine
from hocket.task.catalogue import load
from hocket.task.task import Task
from hocket.task.verdict import Verdict, check_machine, check_task, with_delays

if TYPE_CHECKING:  # loaded where it is needed
    from hocket.machine.assignment import Assignment, Costs

Subject = Task | Design
Pairs = Iterable[tuple[str, str]]
LocalEventSets = Mapping[str, tuple[str, ...]]
Machines = Mapping[str, RewardMachine]
Notes = Mapping[tuple[str, str], str]  # (state, event) -> what is printed after the event

LARGEST_COMPOSITION = 50_000  # states of a composition up to which it is enumerated to be shown or repaired
SHOWN_STATES = 40  # rows of a machine's table
SHOWN_ROWS, SHOWN_COLUMNS = 100, 400  # cells of a map, the columns where no terminal is narrower
SHOWN_PARTS = 8  # of a sentence
LARGEST_SUGGESTION = 200_000  # transitions up to which `check` looks for a repair by itself
SIGNS = {"evidence": "  ", "warning": "Warning: "}
STYLES = {"yes": "bold green", "no": "bold red", "problem": "bold red", "warning": "yellow"}


@dataclass(frozen=True)
class OnSubject:
    """The options that say on which task or machine a command works."""

    target: Annotated[Positional[str], option("[TASK|MACHINE]")] = ""
    """A built-in name (buttons, rendezvous-3) or a file (.toml, .json, .txt, .dot, .hoa)."""
    knows: Annotated[Words, option("AGENT=EVENT,...")] = ()  # An agent's local event set, in place of the file's.
    control: Annotated[Words, option("EVENT=AGENT,...")] = ()
    """The agents that control an event, in place of the file's (machines only; in a task, conditions set them)."""
    formula: Annotated[MaybeText, option("TEXT")] = None
    """A formula of LTLf in place of a task or machine: "F key & (!door U key)"."""
    regex: Annotated[MaybeText, option("TEXT")] = None
    """A regular expression over events, likewise: "(load drop)* ; take"."""
    declare: Annotated[Words, option("CONSTRAINT")] = ()
    """DECLARE constraints, likewise: "response(a, b)" "existence(b)"."""
    events: Annotated[str, option("EVENT,...")] = ""  # All events that can happen, if the formula lacks some.

    @property
    def name(self) -> str:
        """The name to print."""
        return self.target or next((key for key in LANGUAGES if getattr(self, key)), "nothing")

    def subject(self) -> Subject:
        """Load the task or machine, or read a formula. Without local event sets, agents know what they control."""
        given = lists(self.knows, "--knows")
        sentences: Document = {"formula": self.formula, "regex": self.regex, "declare": flat(self.declare) or None}
        document: Document = {key: value for key, value in sentences.items() if value is not None}
        if len(document) + bool(self.target) != 1:
            rule = "name a task or a machine, or give one of --formula, --regex and --declare"
            raise AssignmentError(f"{rule}, got {', '.join([*document, *filter(None, [self.target])]) or 'nothing'}")
        if self.events:
            document["events"] = list(names(self.events))
        subject = load(self.target) if self.target else design_from(document)
        if isinstance(subject, Task):
            if self.control:
                raise AssignmentError("--control is for machines only; in a task, the conditions of events decide")
            return subject.with_knows(given) if given else subject
        control = {**subject.control, **lists(self.control, "--control")}
        knows = subject.knows or invert(control, chain.from_iterable(control.values()))
        return subject._replace(knows={**knows, **given}, control=control)


def is_large(machine: RewardMachine | Composition) -> bool:
    """Say whether a machine may have too many states to be enumerated."""
    return isinstance(machine, Composition) and machine.most_states > LARGEST_COMPOSITION


def has_independent_parts(subject: Subject) -> bool:
    """Say whether the parts of a team machine can be repaired one by one."""
    return isinstance(subject.machine, Composition) and subject.machine.is_independent


def enumerated(subject: Subject) -> RewardMachine:
    """Build the team machine with all its states."""
    return enumerate_states(subject.machine) if isinstance(subject, Task) else subject.enumerated()


@dataclass(frozen=True)
class Check(OnSubject):
    """Check that a task is decomposable and a team completes it; if not: a counterexample or a stall, and a repair."""

    no_play: Flag = False  # Do not plan policies and test them as a team.
    delays: Flag = False  # Also check whether agents may hear of events late; if not, which must agree on which.
    json: Json = False

    def run(self) -> int:
        subject = self.subject()
        is_read = isinstance(subject, Design) and subject.reading is not None  # from a formula
        verdict = self.check(subject)
        if self.delays and verdict.decomposition is not None:
            verdict = with_delays(verdict)
        stalls = any(result.name == "team" and not result.ok for result in verdict.results)
        may_help = stalls or (verdict.decomposition is not None and not verdict.decomposition.ok)
        added, obstacle = self.suggest(subject) if may_help else (None, "")
        if self.json:
            repair = None if added is None else added.as_json()
            repair = {"add": None, "problems": [obstacle]} if obstacle else repair
            return print_json({**verdict.as_json(), "repair": repair}, ok=verdict.ok)
        console = make_console()
        if isinstance(subject, Task):
            print_task(console, subject)
        print_size(console, "team machine" if isinstance(subject, Task) else self.name, verdict.machine)
        if is_read:
            machine = verdict.machine
            parts = dict(machine.parts) if isinstance(machine, Composition) else {"": machine}
            print_machines(console, parts, SHOWN_PARTS, "part")
        print_verdict(console, verdict)
        if verdict.decomposition is None:
            console.print("To check decomposability, give the local event sets: --knows AGENT=EVENT,...")
        if obstacle:
            console.print(f"\nNo repair: {obstacle}.")
        if added is not None:
            console.print()
            print_repair(console, added)
            if is_read:
                print_knows(console, {agent: (*known, *added.get(agent, ())) for agent, known in subject.knows.items()})
        return 0 if verdict.ok else 1

    def check(self, subject: Subject) -> Verdict:
        """Check a task or a machine; what cannot be checked is an error that names the file."""
        if isinstance(subject, Design):
            machine = subject.machine if subject.knows else subject.enumerated()
            return check_machine(machine, subject.knows, subject.control)
        with located(path=self.name):
            return check_task(subject, play=not self.no_play)

    def suggest(self, subject: Subject) -> tuple[Assignment | None, str]:
        """Find what `hocket repair` would add, if that does not take long, or why there is no repair."""
        from hocket.machine.assignment import EFFORT_FOR_A_HINT

        is_listed = not has_independent_parts(subject)
        if is_listed and (is_large(subject.machine) or len(enumerated(subject).graph.target) > LARGEST_SUGGESTION):
            return None, ""
        try:
            added, stall = find_repair(subject, effort=EFFORT_FOR_A_HINT)
        except InfeasibleError as error:
            return None, str(error)
        return (None, "no event was found that helps the team") if stall and not added else (added, "")


def print_task(console: Console, task: Task) -> None:
    """Print a task's name, size and description."""
    size = f"{counted(len(task.agents), 'agent')} on a map of {task.grid.rows} x {task.grid.columns} cells"
    console.print(Text.assemble((task.name, "bold"), ": ", size))
    if task.description:
        console.print(Text(task.description, "italic"))


def print_size(console: Console, name: str, machine: RewardMachine | Composition) -> None:
    """Print the size of a machine."""
    if isinstance(machine, Composition):
        kind, sizes = "a composition of ", {"part": len(machine.parts), "event": len(machine.events)}
    else:
        kind, sizes = "", {"state": len(machine.states), "event": len(machine.events)}
        sizes |= {"transition": len(machine.graph.target), "final state": len(machine.final)}
    size = ", ".join(counted(number, thing) for thing, number in sizes.items())
    console.print(Text.assemble((name, "bold"), f": {kind}{size}"))


def print_verdict(console: Console, verdict: Verdict) -> None:
    """Print a verdict: the answer with its evidence, a table of the agents, and warnings and notes."""
    lines = verdict.lines()
    texts = [Text(f"{SIGNS.get(line.kind, '')}{line.text}", STYLES.get(line.kind, "")) for line in lines]
    evidence = sum(1 for _ in takewhile(lambda line: line.kind not in ("warning", "note"), lines))
    for text in texts[:evidence]:
        console.print(text)
    if verdict.decomposition is not None:
        console.print()
        machines, rows = verdict.decomposition.machines, []
        for agent, machine in list(machines.items())[:SHOWN_AGENTS]:
            counts = f"{len(machine.states):,}", f"{len(machine.graph.target):,}"
            rows.append((Text(agent, "bold"), *counts, ", ".join(verdict.decomposition.knows[agent]) or "empty"))
        print_table(console, ("agent", "states", "transitions", "local event set"), rows)
        print_rest(console, len(machines) - SHOWN_AGENTS, "agent")
    for text in texts[evidence:]:
        console.print(text)


@dataclass(frozen=True)
class Repair(OnSubject):
    """Find the cheapest events to add to local event sets so that the task is decomposable and passes every check."""

    cost: Annotated[Words, option("AGENT:EVENT=COST")] = ()  # Cost of adding an event to an agent (default: 1).
    forbid: Annotated[Words, option("AGENT:EVENT")] = ()  # Events that must not be added to an agent's local event set.
    out: OutFile = None
    """Write the repaired task or machine to this file (.toml, .json); your own file's comments and order are kept."""
    json: Json = False

    def run(self) -> int:
        subject = self.subject()
        if not subject.knows:
            raise AssignmentError("there are no local event sets to repair: --knows AGENT=EVENT,...")
        costs = {_pair(pair, "--cost"): _number(text) for pair, text in items(self.cost, "--cost").items()}
        forbidden = [_pair(pair, "--forbid") for pair in flat(self.forbid)]
        try:
            fix, stall = find_repair(subject, costs, forbidden)
        except InfeasibleError as error:
            if self.json:
                return print_json({"add": None, "problems": [str(error)]}, ok=False)
            make_console().print(f"No repair: {error}.")
            return 1
        known = {agent: (*events, *fix.get(agent, ())) for agent, events in subject.knows.items()}
        if self.out is not None:
            self.write(subject, known, {*fix, *items(self.knows, "--knows")}, self.out)
        if self.json:
            stalls = {"problems": [f"The team stalls {stall}."]} if stall else {}
            return print_json({**fix.as_json(), "knows": known, **stalls}, ok=not stall)
        console = make_console()
        if fix or not stall:
            print_repair(console, fix)
        if fix:
            print_knows(console, known)
        if stall:
            console.print(Text(f"No event was found that helps the team, which stalls {stall}.", "bold red"))
        return 1 if stall else 0

    def write(self, subject: Subject, known: LocalEventSets, changed: Collection[str], out: Path) -> None:
        """Write the repaired task or machine: an edited copy of the user's file if that is possible, or a new file."""
        from hocket.machine.formats import save_design
        from hocket.task.catalogue import save_task
        from hocket.task.editing import edit_knows

        is_task = isinstance(subject, Task)
        knows = {agent: known[agent] for agent in changed} if is_task else known
        if not self.control and edit_knows(Path(self.target), out, knows, in_agents=is_task):
            return
        if isinstance(subject, Task):
            save_task(subject.with_knows(known), out)
        else:
            save_design(Design(subject.enumerated(), known, subject.control), out)


def find_repair(
    subject: Subject, costs: Costs | None = None, forbidden: Pairs = (), effort: int | None = None
) -> tuple[Assignment, str]:
    """Find the events to add; also return where the team of a task stalls in spite of them."""
    from hocket.machine.assignment import EFFORT, repair
    from hocket.task.repair import repair_task

    effort = EFFORT if effort is None else effort
    if isinstance(subject, Task):
        repaired = repair_task(subject, costs, forbidden, effort)
        return repaired.added, repaired.stall
    team = subject.machine if has_independent_parts(subject) else subject.enumerated()
    return repair(team, subject.knows, subject.control, costs, forbidden, effort), ""


def _pair(text: str, option: str) -> tuple[str, str]:
    agent, colon, event = text.partition(":")
    if not colon:
        raise AssignmentError(f"{option} takes pairs of the form AGENT:EVENT, got {text!r}")
    return agent, event


def _number(text: str) -> float:
    with suppress(ValueError):
        if not math.isnan(number := float(text)):
            return number
    raise AssignmentError(f"--cost takes numbers, got {text!r}")


def print_repair(console: Console, repaired: Assignment) -> None:
    """Print the events to add, and whether their cost is proved minimal."""
    if not repaired:
        console.print(Text("Nothing needs to be added.", "bold green"))
        return
    proof = "proved minimal" if repaired.exact else f"not proved minimal, lower bound {repaired.bound:g}"
    console.print(Text(f"Repair (cost {repaired.cost:g}, {proof}):", "bold"))
    for agent, events in repaired.items():
        added = (", ".join(events), "green")
        console.print(Text.assemble("  add ", added, " to the local event set of ", (agent, "bold")))


def print_knows(console: Console, knows: Mapping[str, Iterable[str]]) -> None:
    """Print local event sets as options that can be pasted."""
    words = [shlex.quote(f"{agent}={','.join(events)}") for agent, events in knows.items()]
    console.print(Text(" ".join(["--knows", *words])))


@dataclass(frozen=True)
class Show(OnSubject):
    """Draw the map, the team machine and the local reward machines, to a file or in the terminal."""

    out: OutFile = None  # Draw to this file (.svg, .png, .pdf).
    closed: Flag = False  # Draw each machine that another one calls as one state, not as a box with its states.

    def run(self) -> int:
        subject = self.subject()
        machines = {} if is_large(subject.machine) else {"team": enumerated(subject)}
        if isinstance(subject, Task):
            machines |= subject.machines
        elif subject.knows:
            machines |= decompose(subject.machine, subject.knows, subject.control).machines
        if self.closed:
            from hocket.draw.boxes import close_all

            machines = close_all(machines)
        if self.out is not None:
            from hocket.draw.graphviz import draw_machines  # loads Graphviz
            from hocket.draw.task_picture import draw_task

            if isinstance(subject, Task):
                draw_task(subject, self.out, machines)
            else:
                draw_machines(machines, self.out)
            return 0
        console = make_console()
        if isinstance(subject, Task):
            print_task(console, subject)
            print_map(console, subject)
        print_machines(console, machines)
        return 0


def print_map(console: Console, task: Task) -> None:
    """Print a task's map and its legend; of a map that is too large, the part around the first agent."""
    from hocket.draw.task_scene import scene_of
    from hocket.draw.text import CELL, TextMap, clip

    scene = scene_of(task)
    board, moment = TextMap(scene), scene.opening
    columns = min(console.width // CELL, SHOWN_COLUMNS)
    window = clip(scene, next(iter(moment.cells.values())), SHOWN_ROWS, columns)
    lines = [*board.draw(moment, window), Text(), *board.legend(moment, min(console.width, PIPE_WIDTH)), Text()]
    if not window.is_whole(scene):
        lines.insert(0, Text(f"{window} ({scene.rows:,} × {scene.columns:,})", "dim"))
    for line in lines:
        print_line(console, line)


def print_machines(console: Console, machines: Machines, most: int = SHOWN_AGENTS, noun: str = "machine") -> None:
    """Print machines, if there are many the first of them."""
    for title, machine in list(machines.items())[:most]:
        print_machine(console, title, machine)
    print_rest(console, len(machines) - most, noun)


def print_machine(console: Console, title: str, machine: RewardMachine, notes: Notes | None = None) -> None:
    """Print a machine, one state per row: initial, final, and its transitions, with rewards or notes on them."""
    console.print(Text(title, "bold"))
    rows: dict[str, list[str]] = {state: [] for state in list(machine.states)[:SHOWN_STATES]}
    for (state, event), target in machine.transitions.items():
        if state in rows:
            reward = "" if machine.is_task_completion else f" / {machine.rewards[state, event]:g}"
            note = reward if notes is None else notes.get((state, event), "")
            rows[state].append(f"{event}{note} → {target}")
    cells = []
    for state, transitions in rows.items():
        mark = f"{'▶' if state == machine.initial else ' '} {'◎' if state in machine.final else ' '}"
        cells.append((mark, Text(state, "bold"), "   ".join(transitions)))
    print_table(console, (), cells)
    print_rest(console, len(machine.states) - SHOWN_STATES, "state")
    console.print()
