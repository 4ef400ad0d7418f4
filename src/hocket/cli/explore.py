"""explore: learn the machine of a task by experiments on its map, then train with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from rich.text import Text
from tyro.conf import Positional

from hocket.cli.infer import print_answer
from hocket.cli.options import Flag, MaybeNumber, MaybePath, Number, option
from hocket.cli.runs import RunOptions
from hocket.cli.terminal import make_console, print_json
from hocket.errors import SettingsError
from hocket.exploration.explore import STEPS, Explored, explore
from hocket.files import make_folder, write_whole
from hocket.inference.ask import TRIALS
from hocket.learn.settings import DEFAULT_LEARNER
from hocket.runtime.run_logs import read_log
from hocket.task.catalogue import load_task, save_task
from hocket.texts import counted

LEARNT = "{} (explored)"  # what a task is called whose machine was learnt


@dataclass(frozen=True)
class Explore(RunOptions):
    """Learn the machine of a task, which is hidden, by experiments on its map; then train with what was learnt."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name (buttons, rendezvous-3) or a file. Its machine is hidden and only answers experiments."""
    log: Annotated[MaybePath, option("LOG")] = None
    """Demonstrations to begin with, as `hocket infer` reads them."""
    trials: Number = TRIALS
    """Number of random attempts in a row that must agree with what was learnt before exploring ends."""
    most_steps: Number = STEPS
    """Step limit of exploring, in steps of the team."""
    seed: Number = 0
    """Random seed of slips and attempts."""
    only: Flag = False
    """Do not train."""
    learner: Annotated[str, option("LEARNER")] = DEFAULT_LEARNER
    """The learner that trains, with the machine that was learnt and, for comparison, with the true one."""
    seeds: Number = 10
    """Number of training runs, each with its own seed."""
    steps: MaybeNumber = None
    """Training steps per run (default: the learner's)."""
    save: Annotated[MaybePath, option("FILE")] = None
    """Write the task with the machine that was learnt (.toml, .json)."""

    def run(self) -> int:
        from hocket.study.study import Study

        if self.json and not self.only:
            raise SettingsError("--json prints what was learnt, as one object, and is for --only")
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
            print_json({**as_json(explored), **explored.answer.as_json()})
        else:
            self.print(explored)
        code = 0 if explored.is_complete else 1
        if self.only:
            return code
        learnt = replace(explored.task, name=LEARNT.format(world.name))
        return self.execute(Study([learnt, world], [self.learner], self.seeds, self.steps)) or code

    def print(self, explored: Explored) -> None:
        """Say what exploring took, and what it has learnt."""
        console = make_console()
        console.print(Text(summary(explored), "bold"))
        print_answer(console, explored.answer.log, explored.answer)


def summary(explored: Explored) -> str:
    """Say in a sentence what exploring took."""
    took = f"{counted(explored.steps, 'step')} of the team in {counted(explored.episodes, 'episode')}"
    last, states = explored.history[-1]
    end = "nothing was left to try" if explored.is_complete else "the limit of steps was reached"
    return f"Explored {explored.world.name}: {took}, until {end}; {states} states since step {last:,}."


def as_json(explored: Explored) -> dict[str, object]:
    """Say what exploring took as a JSON document."""
    return {
        "task": explored.world.name,
        "steps": explored.steps,
        "episodes": explored.episodes,
        "complete": explored.is_complete,
        "history": [list(row) for row in explored.history],
        "summary": summary(explored),
    }


def keep_exploration(explored: Explored, folder: Path) -> None:
    """Write down for the report what exploring took and has learnt, with a drawing."""
    from hocket.draw.learnt import learnt_svg  # loads Graphviz

    place = make_folder(folder / "exploration")
    document = {**as_json(explored), **explored.answer.as_json()}
    write_whole(place / "exploration.json", json.dumps(document, indent=1))
    write_whole(place / "machines.svg", learnt_svg(explored.answer))
    write_whole(place / "log.csv", explored.answer.log.as_csv())
