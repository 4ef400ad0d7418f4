"""ask: a dialogue in which you are the teacher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rich.console import Console
from rich.text import Text

from hocket.cli.infer import print_answer, write_answer
from hocket.cli.options import Flag, MaybePath, MaybeText, Number, Words, items, names, option
from hocket.cli.terminal import make_console, print_json
from hocket.errors import AssignmentError
from hocket.inference.ask import TRIALS, Answer, Trial, ask
from hocket.inference.infer import Inferred, infer
from hocket.inference.logs import Attempt, Episode, Log
from hocket.runtime.run_logs import read_log
from hocket.task.catalogue import load_task

WORDS: dict[str, Answer] = {"a": "accepted", "r": "refused", "d": "done", "i": "impossible"}


@dataclass(frozen=True)
class Ask:
    """Learn machines by asking you: may this event happen now? Answer a(ccepted), r(efused), d(one) or i(mpossible)."""

    knows: Annotated[Words, option("AGENT=EVENT,...")] = ()
    """An agent's local event set."""
    task: Annotated[MaybeText, option("TASK")] = None
    """Take the local event sets from a task; its machine is not used."""
    log: Annotated[MaybePath, option("LOG")] = None
    """Demonstrations to begin with, as `hocket infer` reads them."""
    trials: Number = TRIALS
    """Number of random attempts in a row that must agree with what was learnt before it ends."""
    out: Annotated[MaybePath, option("FILE", "-o")] = None
    """Write the machine that was learnt, or draw it, as `hocket infer` does."""
    json: Flag = False
    """Print one JSON object at the end; questions go to standard error."""

    def run(self) -> int:
        task = None if self.task is None else load_task(self.task)
        knows = {agent: tuple(events) for agent, events in task.knows.items()} if task is not None else {}
        knows |= {agent: names(text) for agent, text in items(self.knows, "--knows")}
        if not knows:
            raise AssignmentError("say who knows what: --knows AGENT=EVENT,... or --task TASK")
        console = make_console(stderr=self.json)
        answer = converse(console, knows, None if self.log is None else read_log(self.log), self.trials)
        if answer is None:
            console.print("Nothing was answered.")
            return 1
        if self.out is not None:
            write_answer(answer, {}, task, self.out)
        if self.json:
            print_json(answer.as_json())
        else:
            print_answer(console, answer.log, answer)
        return 0


def converse(console: Console, knows: dict[str, tuple[str, ...]], log: Log | None, trials: int) -> Inferred | None:
    """Put questions until nothing is left to ask; whoever stops earlier gets what follows from the answers so far."""
    questions, episodes = ask(knows, log, trials=trials), list[list[Attempt]]()
    trial = next(questions)
    while True:
        answer = put(console, trial)
        if answer is None:
            break
        if trial.begins:
            episodes.append([])
        if answer != "impossible":
            episodes[-1].append(Attempt(trial.event, answer != "refused", answer == "done"))
        try:
            trial = questions.send(answer)
        except StopIteration as stop:
            learnt: Inferred = stop.value
            return learnt
    told = [Episode(f"answers {number}", tuple(rows)) for number, rows in enumerate(episodes, start=1) if rows]
    whole = Log((*(log.episodes if log is not None else ()), *told))
    return infer(whole, knows) if whole.attempts else None


def put(console: Console, trial: Trial) -> Answer | None:
    """Put one question; None where whoever answers has had enough."""
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
        console.print("Answer accepted, refused, done or impossible (their first letters will do).")
