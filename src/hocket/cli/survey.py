"""survey: explore a map without any machine, so that any task on it can be planned."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional

from hocket.cli.options import Flag, MaybePath, Number, option
from hocket.cli.terminal import make_console, print_json
from hocket.errors import printable
from hocket.task.catalogue import load_task


@dataclass(frozen=True)
class SurveyMap:
    """Explore the map of a task without its machine, until every move was tried; then any task on it can be planned."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name (buttons, rendezvous-3) or a file. Only its map, gates and starts are used."""
    out: Annotated[MaybePath, option("FOLDER", "-o")] = None
    """Keep what was learnt of the map in this folder, for `hocket train --world`."""
    draw: Annotated[MaybePath, option("FILE")] = None
    """Draw what is known of the map (.svg, .png, .pdf)."""
    tries: Number = 4
    """How often each move has to be tried; 1 is enough if moves never slip."""
    seed: Number = 0
    """Random seed of slips."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> int:
        from hocket.learn.survey import survey
        from hocket.study.store import keep_world

        task = load_task(self.target)
        done = survey(task, self.tries, seed=self.seed)
        if self.out is not None:
            keep_world(self.out, task, done.world, f"survey-{self.seed}")
        if self.draw is not None:
            from hocket.report.figures.maps import draw_world  # loads matplotlib

            draw_world(done.world, self.draw)
        if self.json:
            counts = {"moves": len(done.world.move), "steps": done.steps, "fewest_steps": done.fewest_steps}
            print_json({"task": task.name, **counts, "complete": done.is_complete})
            return 0 if done.is_complete else 1
        console = make_console()
        console.print(f"Surveyed the map of {printable(task.name)}: {len(done.world.move):,} moves in {done}.")
        folder = "Nothing was saved. Save the world with --out FOLDER."
        if self.out is not None:
            named = shlex.quote(printable(str(self.out)))
            folder = f"Plan any task on this map without a step: hocket train TASK --world {named} --steps 0"
        console.print(folder, style="dim")
        return 0 if done.is_complete else 1
