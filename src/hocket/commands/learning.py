"""train, evaluate: what a researcher asks of a task. The work is in `workshop`, which loads the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg

Flag = FlagCreatePairsOff[bool]
Words = tuple[tuple[str, ...], ...]  # of an option that may be given several times with several words


@dataclass(frozen=True)
class Train:
    """Train each agent alone (or a baseline), and test the team every so often."""

    target: Annotated[Positional[str], arg(metavar="TASK")]
    """A built-in name (buttons, rendezvous-3) or a file (.toml, .json)."""
    learner: Annotated[str, arg(metavar="NAME,...")] = "dqprm"
    """dqprm, cqrm, iql, hil or optimal; several, separated by commas."""
    seeds: int = 10
    """How many runs."""
    steps: int = 250_000
    """Training steps of each run."""
    set: Annotated[UseAppendAction[Words], arg(metavar="NAME=VALUE")] = ()
    """Settings in place of the paper's, such as sync_probability=1."""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FOLDER")] = None
    """Where to write curves, settings and policies."""
    threads: int | None = None
    """How many threads to use; by default one for each core."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.commands.workshop import train_and_report

        learners = [name.strip() for name in self.learner.split(",")]
        return train_and_report(
            self.target, learners, self.seeds, self.steps, self.set, self.out, self.threads, self.json
        )


@dataclass(frozen=True)
class Evaluate:
    """Play many test episodes with what was learnt: success, the bounds of Theorem 3, and how long it takes."""

    target: Annotated[Positional[str], arg(metavar="TASK")]
    """A built-in name or a file."""
    runs: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """The folder that `hocket train --out` wrote."""
    episodes: int = 10_000
    """Test episodes for each policy."""
    greedy: Flag = False
    """Take the best action instead of drawing by softmax."""
    exact: Flag = False
    """Also solve the team's Markov chain, where it is small enough."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.commands.workshop import evaluate_and_report

        return evaluate_and_report(
            self.target, self.runs, self.episodes, greedy=self.greedy, solve=self.exact, as_json=self.json
        )


@dataclass(frozen=True)
class Bench:
    """How fast is it here? Speeds on this machine, as ratios to a straightforward loop in the same run."""

    tasks: Annotated[tuple[str, ...], arg(metavar="TASK")] = ("rendezvous-2", "buttons")
    """What to train on."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.commands.workshop import benchmark_and_report

        return benchmark_and_report(self.tasks, as_json=self.json)
