"""train, study, paper, report, evaluate, bench: what a researcher asks of a task.

The work is in `studies` and `workshop`, which load the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg

from hocket.errors import SettingsError
from hocket.learn.settings import DEFAULT_LEARNER, DEFAULT_STEPS

if TYPE_CHECKING:
    from hocket.cli.studies import Destination

Flag = FlagCreatePairsOff[bool]
Words = tuple[tuple[str, ...], ...]  # of an option that may be given several times with several words


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where runs happen, and where they are kept."""

    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FOLDER")] = None
    """Where to write curves, settings and policies. What is there already is not run again."""
    engine: str = "threads"
    """threads of this machine, or a dask cluster (dask)."""
    scheduler: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """The address of dask's scheduler, such as tcp://10.0.0.1:8786."""
    threads: int | None = None
    """How many threads to use; by default one for each core."""
    tensorboard: Flag = False
    """Also write logs for TensorBoard."""
    json: Flag = False
    """Print one JSON object."""

    def destination(self) -> Destination:
        """Say where runs happen, and where they go."""
        from hocket.cli.studies import Destination

        if self.tensorboard and self.out is None:
            raise SettingsError("--tensorboard needs a folder to write to: --out FOLDER")
        return Destination(self.out, self.engine, self.scheduler, self.threads, self.tensorboard)


@dataclass(frozen=True)
class Train(Where):
    """Train each agent alone (or a baseline), and test the team every so often."""

    target: Annotated[Positional[tuple[str, ...]], arg(metavar="TASK")]
    """Built-in names (buttons, rendezvous-3) or files (.toml, .json)."""
    learner: Annotated[str, arg(metavar="NAME,...")] = DEFAULT_LEARNER
    """dqprm, cqrm, iql, hil or optimal; several, separated by commas."""
    seeds: int = 10
    """How many runs."""
    steps: int = DEFAULT_STEPS
    """Training steps of each run."""
    set: Annotated[UseAppendAction[Words], arg(metavar="NAME=VALUE,...")] = ()
    """Settings in place of the paper's, such as sync_probability=1; of several values each has its runs."""

    def run(self) -> int:
        from hocket.cli.studies import train_and_report

        learners = [name.strip() for name in self.learner.split(",")]
        return train_and_report(self.target, learners, self.seeds, self.steps, self.set, self.destination(), self.json)


@dataclass(frozen=True)
class RunStudy(Where):
    """Run a study that is written down: tasks, learners, settings and seeds in all combinations."""

    study: Annotated[Positional[str], arg(metavar="STUDY")]
    """A file (.toml), or a built-in name (paper, paper-quick)."""
    seeds: int | None = None
    """How many runs, in place of what the study says."""

    def run(self) -> int:
        from hocket.cli.studies import study_and_report
        from hocket.study.study import load_study

        return study_and_report(load_study(self.study, self.seeds), self.destination(), self.json)


@dataclass(frozen=True)
class Paper(Where):
    """Repeat all experiments of the paper, and write their report."""

    seeds: int | None = None
    """How many runs of each; 10 as in the paper, if not given."""
    quick: Flag = False
    """Few and short runs, for a first impression in seconds."""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FOLDER")] = None
    """Where to write everything; runs/paper, if not given. What is there already is not run again."""

    def run(self) -> int:
        from hocket.cli.studies import repeat_paper

        return repeat_paper(self.seeds, self.quick, self.destination(), self.json)


@dataclass(frozen=True)
class Report:
    """Write one page with all that a folder of runs has to tell: curves, statistics, machines and replays."""

    runs: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """What `hocket train --out`, `study` or `paper` wrote."""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE")] = None
    """The page; report.html in the folder, if not given."""
    figures: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Also draw figures for print into this folder."""
    format: Annotated[str, arg(metavar="NAME,...")] = "svg"
    """svg, png or pdf; several, separated by commas."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.cli.studies import report

        formats = [name.strip() for name in self.format.split(",")]
        return report(self.runs, self.out, self.figures, formats, self.json)


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
        from hocket.cli.measuring import evaluate_and_report

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
        from hocket.cli.measuring import benchmark_and_report

        return benchmark_and_report(self.tasks, as_json=self.json)
