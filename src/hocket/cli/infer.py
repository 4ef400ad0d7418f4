"""infer, ask, explore: learn machines from a log, from your answers, and from experiments on a map."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional

from hocket.cli.check import LARGEST_COMPOSITION, print_machine
from hocket.cli.options import Flag, Json, MaybeNumber, MaybePath, MaybeText, Number, OutFile, Words, lists, option
from hocket.cli.study import RunOptions
from hocket.cli.terminal import SHOWN_AGENTS, make_console, print_json, print_rest
from hocket.errors import AssignmentError, HocketError, SettingsError, counted
from hocket.exploration.explore import STEPS, Explored, explore, with_learnt_machine
from hocket.files import make_folder, write_whole
from hocket.inference.ask import TRIALS, Answer, Trial, ask
from hocket.inference.infer import Inferred, UnexplainedError, infer
from hocket.inference.logs import Attempt, Episode, Log, Observed
from hocket.learn.settings import DEFAULT_LEARNER
from hocket.machine.formats import save_design
from hocket.machine.formats.schema import Design
from hocket.runtime.run_logs import read_log
from hocket.task.catalogue import load_task, save_task
from hocket.task.task import Task

SHOWN_UNTRIED = 10  # combinations of agent, state and event
OBSERVED_WORDS = {"all": "refusals are seen", "reward": "rewards only", "effective": "accepted events only"}
WORDS: dict[str, Answer] = {"a": "accepted", "r": "refused", "d": "done", "i": "impossible"}
LEARNT = "{} (explored)"  # the name of a task whose machine was learnt

NEEDED = "give the local event sets: --knows AGENT=EVENT,..."

LocalEventSets = Annotated[Words, option("AGENT=EVENT,...", help="An agent's local event set.")]
Trials = Annotated[Number, option("N", help="Stop after so many random attempts in a row that agree with the machine.")]
Demonstrations = Annotated[MaybePath, option("LOG", help="Demonstrations to begin with, as `hocket infer` reads them.")]


@dataclass(frozen=True)
class Infer:
    """Find the smallest local machines whose composition explains a log, with evidence and what to try next."""

    log: Annotated[Positional[Path], option("LOG")]
    """A log (.csv, .jsonl, .xes): episode, event, accepted (0 or 1), done (1 where the task is complete)."""
    knows: LocalEventSets = ()
    control: Annotated[Words, option("EVENT=AGENT,...")] = ()
    """The agents that control an event. Without --knows, the cheapest local event sets are found first."""
    task: Annotated[MaybeText, option("TASK")] = None  # Take local event sets and control from a task.
    observed: Annotated[Observed | None, option("SHOWN")] = None
    """What the log shows: all attempts, reward only, or effective events only; needed without the column "accepted"."""
    outcome: Annotated[MaybeText, option("NAME[=VALUE]")] = None
    """The attribute of a trace or event of an XES log that is true (or VALUE) where the task is complete."""
    noise: Annotated[float, option("P")] = 0.0  # Probability that an entry of the log is wrong.
    seconds: Annotated[float, option("S")] = 60.0  # Time limit of the solver.
    out: OutFile = None
    """Write the machine (.toml, .json; with --task the task with this machine), or draw it (.svg, .png, .pdf)."""
    json: Json = False

    def run(self) -> int:
        task = None if self.task is None else load_task(self.task)
        log = read_log(self.log, self.observed, self.outcome)
        knows = {**({} if task is None else task.knows), **lists(self.knows, "--knows")}
        control = {**({} if task is None else task.controllers), **lists(self.control, "--control")}
        if not knows and not control:
            raise AssignmentError(f"{NEEDED}, --control EVENT=AGENT,... or --task TASK")
        agents = knows or tuple(dict.fromkeys(agent for controllers in control.values() for agent in controllers))
        try:
            answer = infer(log, agents, control, noise=self.noise, seconds=self.seconds)
        except UnexplainedError as error:
            problem = str(error)
            if self.json:
                document = {"explained": False, "counterexample": error.unexplained.as_json(), "problems": [problem]}
                return print_json(document, ok=False)
            make_console().print(Text(problem[:1].upper() + problem[1:], "bold red"))
            return 1
        if self.out is not None:
            write_answer(answer, control, task, self.out)
        if self.json:
            return print_json({"explained": True, **answer.as_json()})
        print_answer(make_console(), answer)
        return 0


def print_answer(console: Console, answer: Inferred) -> None:
    """Print machines with the number of episodes that show each transition, what to try next, and the claim."""
    log = answer.log
    sizes = (counted(len(log.episodes), "episode"), counted(log.attempts, "attempt"), counted(len(log.events), "event"))
    console.print(f"{', '.join(sizes)} ({OBSERVED_WORDS[log.observed]})\n")
    notes = {key: f" ×{len(evidence.accepted)}" for key, evidence in answer.evidence.items()}
    for agent, machine in list(answer.machines.items())[:SHOWN_AGENTS]:
        shown = {key: notes[agent, *key] for key in machine.transitions if (agent, *key) in notes}
        print_machine(console, f"{agent} knows {', '.join(answer.knows[agent])}", machine, shown)
    print_rest(console, len(answer.machines) - SHOWN_AGENTS, "machine")
    for episode, position in answer.smallest.disbelieved:
        console.print(Text(f"Disbelieved: attempt {position + 1} of episode {episode}", "yellow"))
    for question in answer.questions:
        console.print(Text.assemble(("Try next: ", "bold"), question.explain()))
    for agent, state, event in answer.never_tried[:SHOWN_UNTRIED]:
        console.print(Text(f"Never tried: {event} while {agent} is in {state}", "dim"))
    print_rest(console, len(answer.never_tried) - SHOWN_UNTRIED, "untried combination")
    console.print(Text(answer.claim, "italic"))


def write_answer(answer: Inferred, control: Mapping[str, Iterable[str]], task: Task | None, out: Path) -> None:
    """Write a drawing with the evidence, the task with the machine that was learnt, or the machine."""
    from hocket.draw.graphviz import FORMATS

    if out.suffix.lower() in FORMATS:
        from hocket.draw.learnt import learnt_drawing  # loads Graphviz

        learnt_drawing(answer).write(out)
    elif task is not None:
        save_task(with_learnt_machine(task, answer), out)
    elif answer.team.most_states > LARGEST_COMPOSITION:
        raise HocketError(f"the team machine may have {answer.team.most_states_shown} states, too many to be written")
    else:
        known = {event: tuple(agents) for event, agents in control.items() if event in answer.team.events}
        save_design(Design(answer.team.machine(), answer.knows, known), out)


@dataclass(frozen=True)
class Ask:
    """Learn machines by asking you: may this event happen now? Answer a(ccepted), r(efused), d(one) or i(mpossible)."""

    knows: LocalEventSets = ()
    task: Annotated[MaybeText, option("TASK")] = None  # Take the local event sets from a task; its machine is not used.
    log: Demonstrations = None
    trials: Trials = TRIALS
    out: OutFile = None  # Write the machine that was learnt, or draw it, as `hocket infer` does.
    json: Flag = False  # Print one JSON object at the end; questions go to standard error.

    def run(self) -> int:
        task = None if self.task is None else load_task(self.task)
        knows = {**({} if task is None else task.knows), **lists(self.knows, "--knows")}
        if not knows:
            raise AssignmentError(f"{NEEDED} or --task TASK")
        console = make_console(stderr=self.json)
        answer = converse(console, knows, None if self.log is None else read_log(self.log), self.trials)
        if answer is None:
            console.print("Nothing was answered.")
            return 1
        if self.out is not None:
            write_answer(answer, {}, task, self.out)
        if self.json:
            return print_json(answer.as_json())
        print_answer(console, answer)
        return 0


def converse(console: Console, knows: Mapping[str, Iterable[str]], log: Log | None, trials: int) -> Inferred | None:
    """Ask questions until none is left; if the user stops earlier, return what follows from the answers so far."""
    questions, episodes = ask(knows, log, trials=trials), list[list[Attempt]]()
    trial = next(questions)
    while (answer := ask_user(console, trial)) is not None:
        if trial.begins:
            episodes.append([])
        if answer != "impossible":
            episodes[-1].append(Attempt(trial.event, answer != "refused", answer == "done"))
        try:
            trial = questions.send(answer)
        except StopIteration as stop:
            learnt: Inferred = stop.value
            return learnt
    answered = [Episode(f"answers {number}", tuple(rows)) for number, rows in enumerate(episodes, start=1) if rows]
    whole = Log((*(log.episodes if log is not None else ()), *answered))
    return infer(whole, knows) if whole.attempts else None


def ask_user(console: Console, trial: Trial) -> Answer | None:
    """Ask one question; return None if the user quits."""
    if trial.begins:
        console.print(Text("From the start:", "dim"))
    after = f" after {', '.join(trial.trace)}" if trial.trace else ""
    while True:
        console.print(Text.assemble((trial.event, "bold"), f"{after}? [a/r/d/i, q to stop] "), end="")
        try:
            word = input().strip().lower()
        except EOFError:
            console.print()
            return None
        if word in ("q", "quit"):
            return None
        if word[:1] in WORDS and WORDS[word[:1]].startswith(word):
            return WORDS[word[:1]]
        console.print("Answer accepted, refused, done or impossible, or their first letters.")


@dataclass(frozen=True)
class Explore(RunOptions):
    """Learn the machine of a task, which is hidden, by experiments on its map; then train with what was learnt."""

    target: Annotated[Positional[str], option("TASK")]  # A name or a file; its machine only answers experiments.
    log: Demonstrations = None
    trials: Trials = TRIALS
    most_steps: Number = STEPS  # Step limit of the experiments, in steps of the team.
    seed: Number = 0  # Random seed of slips and attempts.
    only: Flag = False  # Do not train.
    learner: Annotated[str, option("LEARNER")] = DEFAULT_LEARNER  # It trains with the learnt machine and the true one.
    seeds: Number = 10  # Number of training runs, each with its own seed.
    steps: MaybeNumber = None  # Training steps per run (default: the learner's).
    save: Annotated[MaybePath, option("FILE")] = None  # Write the task with the machine that was learnt (.toml, .json).

    def run(self) -> int:
        from hocket.study.study import Study

        if self.json and not self.only:
            raise SettingsError("--json prints the machines that were learnt, so it needs --only")
        world = load_task(self.target)
        demonstrations = None if self.log is None else read_log(self.log)
        explored = explore(
            world, demonstrations=demonstrations, trials=self.trials, steps=self.most_steps, seed=self.seed
        )
        if self.save is not None:
            save_task(explored.task, self.save)
        if self.out is not None:
            keep_exploration(explored, self.out)
        if self.json:
            print_json(as_json(explored))
        else:
            console = make_console()
            console.print(Text(summary(explored), "bold"))
            print_answer(console, explored.answer)
        code = 0 if explored.is_complete else 1
        if self.only:
            return code
        learnt = replace(explored.task, name=LEARNT.format(world.name))
        return self.execute(Study([learnt, world], [self.learner], self.seeds, self.steps)) or code


def summary(explored: Explored) -> str:
    """Describe in a sentence how long exploring took."""
    took = f"{counted(explored.steps, 'step')} of the team in {counted(explored.episodes, 'episode')}"
    last, states = explored.history[-1]
    end = "nothing was left to try" if explored.is_complete else "the limit of steps was reached"
    return f"Explored {explored.world.name}: {took}, until {end}; {states} states since step {last:,}."


def as_json(explored: Explored) -> dict[str, object]:
    """Return the effort and the result of exploring as plain data."""
    steps = {"task": explored.world.name, "steps": explored.steps, "episodes": explored.episodes}
    history = {"complete": explored.is_complete, "history": [list(row) for row in explored.history]}
    return {**steps, **history, "summary": summary(explored), **explored.answer.as_json()}


def keep_exploration(explored: Explored, folder: Path) -> None:
    """Write the effort and the result of exploring, with a drawing, for the report."""
    from hocket.draw.learnt import learnt_drawing  # loads Graphviz

    folder = make_folder(folder / "exploration")
    write_whole(folder / "exploration.json", json.dumps(as_json(explored), indent=1))
    write_whole(folder / "machines.svg", learnt_drawing(explored.answer).svg())
    write_whole(folder / "log.csv", explored.answer.log.as_csv())
