"""infer: machines from a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional

from hocket.cli.options import Flag, MaybePath, MaybeText, Words, items, names, option
from hocket.cli.show import print_machine
from hocket.cli.subject import LARGEST_COMPOSITION
from hocket.cli.terminal import SHOWN_AGENTS, make_console, print_json, print_rest
from hocket.draw.graphviz import FORMATS as DRAWINGS
from hocket.errors import AssignmentError, HocketError
from hocket.exploration.explore import with_learnt_machine
from hocket.inference.infer import Inferred, UnexplainedError, infer
from hocket.inference.logs import Log, Observed
from hocket.machine.formats import save_design
from hocket.machine.formats.schema import Design
from hocket.runtime.run_logs import read_log
from hocket.task.catalogue import load_task, save_task
from hocket.task.task import Task
from hocket.texts import counted

SHOWN_UNTRIED = 10  # combinations of agent, state and event
OBSERVED_WORDS = {"all": "refusals are seen", "reward": "rewards only", "effective": "accepted events only"}


@dataclass(frozen=True)
class Infer:
    """Find the smallest local machines whose composition explains a log, with evidence and the next question."""

    log: Annotated[Positional[Path], option("LOG")]
    """A log (.csv, .jsonl, .xes): episode, event, accepted (0 or 1), done (1 where the task is complete)."""
    knows: Annotated[Words, option("AGENT=EVENT,...")] = ()
    """An agent's local event set."""
    control: Annotated[Words, option("EVENT=AGENT,...")] = ()
    """The agents that control an event; with this alone, the cheapest local event sets are found first."""
    task: Annotated[MaybeText, option("TASK")] = None
    """Take local event sets and control from a task; its machine is not used."""
    observed: Annotated[Observed | None, option("SHOWN")] = None
    """What the log shows: all attempts, reward only, or effective events only; needed without a column accepted."""
    outcome: Annotated[MaybeText, option("NAME[=VALUE]")] = None
    """Of an XES log: the attribute of a trace or event that tells that the task is complete."""
    noise: Annotated[float, option("P")] = 0.0
    """The probability that an entry of the log is wrong."""
    seconds: Annotated[float, option("S")] = 60.0
    """Time limit of the solver."""
    out: Annotated[MaybePath, option("FILE", "-o")] = None
    """Write the machine (.toml, .json; with --task the task with this machine), or draw it (.svg, .png, .pdf)."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        task = None if self.task is None else load_task(self.task)
        log = read_log(self.log, self.observed, self.outcome)
        knows, control = self.assignment(task)
        agents = knows or tuple(dict.fromkeys(agent for controllers in control.values() for agent in controllers))
        try:
            answer = infer(log, agents, control, noise=self.noise, seconds=self.seconds)
        except UnexplainedError as error:
            if self.json:
                print_json(
                    {"explained": False, "counterexample": error.unexplained.as_json(), "problems": [str(error)]}
                )
            else:
                make_console().print(Text(_capital(str(error)), "bold red"))
            return 1
        if self.out is not None:
            write_answer(answer, control, task, self.out)
        if self.json:
            print_json({"explained": True, **answer.as_json()})
        else:
            print_answer(make_console(), log, answer)
        return 0

    def assignment(self, task: Task | None) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[str, ...]]]:
        """Put together local event sets and control, of the task and of options."""
        knows = {agent: names(text) for agent, text in items(self.knows, "--knows")}
        control = {event: names(text) for event, text in items(self.control, "--control")}
        if task is not None:
            knows = {**{agent: tuple(events) for agent, events in task.knows.items()}, **knows}
            control = {**{event: tuple(agents) for event, agents in task.controllers.items()}, **control}
        if not knows and not control:
            raise AssignmentError(
                "say who knows what: --knows AGENT=EVENT,..., --control EVENT=AGENT,... or --task TASK"
            )
        return knows, control


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def print_answer(console: Console, log: Log, answer: Inferred) -> None:
    """Print machines with how many episodes show each transition, what to try next, and the claim."""
    sizes = (counted(len(log.episodes), "episode"), counted(log.attempts, "attempt"), counted(len(log.events), "event"))
    console.print(f"{', '.join(sizes)} ({OBSERVED_WORDS[log.observed]})\n")
    evidence = answer.evidence
    for agent, machine in list(answer.machines.items())[:SHOWN_AGENTS]:
        notes = {
            key: f" ×{len(evidence[agent, *key].accepted)}" for key in machine.transitions if (agent, *key) in evidence
        }
        print_machine(console, f"{agent} knows {', '.join(answer.knows[agent])}", machine, notes)
    print_rest(console, len(answer.machines) - SHOWN_AGENTS, "machine")
    for episode, position in answer.smallest.disbelieved:
        console.print(Text(f"Disbelieved: attempt {position + 1} of episode {episode}", "yellow"))
    for question in answer.questions:
        console.print(Text.assemble(("Try next: ", "bold"), question.explain()))
    for agent, state, event in answer.never_tried[:SHOWN_UNTRIED]:
        console.print(Text(f"Never tried: {event} while {agent} is in {state}", "dim"))
    print_rest(console, len(answer.never_tried) - SHOWN_UNTRIED, "that were never tried")
    console.print(Text(answer.claim, "italic"))


def write_answer(answer: Inferred, control: Mapping[str, tuple[str, ...]], task: Task | None, out: Path) -> None:
    """Write what was learnt: a drawing with its evidence, the task with its new machine, or the machine."""
    if out.suffix.lower() in DRAWINGS:
        from hocket.draw.learnt import draw_learnt  # loads Graphviz

        draw_learnt(answer, out)
        return
    if task is not None:
        save_task(with_learnt_machine(task, answer), out)
        return
    if answer.team.most_states > LARGEST_COMPOSITION:
        raise HocketError(f"the team machine may have {answer.team.most_states_shown} states, too many to be written")
    known = {event: agents for event, agents in control.items() if event in answer.team.events}
    save_design(Design(answer.team.machine(), answer.knows, known), out)
