"""play: drive agents of a task in the terminal while their teammates act, watch all of them, or film them."""

from __future__ import annotations

import io
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import numpy as np
from rich.console import Console
from rich.text import Text
from tyro.conf import Positional

from hocket.cli.game import NOT_SOUND, Outcome, TerminalGame, describe_outcome, draw_frame
from hocket.cli.options import MaybePath, Number, names, option
from hocket.cli.terminal import PIPE_WIDTH, make_console, print_line
from hocket.draw.scene import Scene
from hocket.draw.task_scene import scene_of
from hocket.draw.text import CELL
from hocket.errors import FormatError, HocketError, TaskError, known_names, require_known
from hocket.files import exists
from hocket.task.catalogue import load_task
from hocket.task.episode import TeamEpisode, Teammates
from hocket.task.task import Task

if TYPE_CHECKING:
    from hocket.study.records import Replay

ACTION_KEYS = {
    "w": "up", "k": "up", "\x1b[A": "up", "\x1bOA": "up",
    "d": "right", "l": "right", "\x1b[C": "right", "\x1bOC": "right",
    "s": "down", "j": "down", "\x1b[B": "down", "\x1bOB": "down",
    "a": "left", "h": "left", "\x1b[D": "left", "\x1bOD": "left",
    " ": "stay", ".": "stay",
}  # fmt: skip
QUIT, AGAIN = "q", "r"
DRIVING = "arrows, wasd or hjkl: move   space: stay   r: again, next seed   q: quit"
WATCHING = "r: again, next seed   q: quit"

KEY = re.compile(r"\x1b(?:\[[0-9;]*[@-~]|O[@-~])?|.", re.DOTALL)
UNFINISHED = re.compile(r"\x1b(?:\[[0-9;]*|O)?")  # the beginning of a key that sends several characters
ESCAPE_DELAY = 0.05  # seconds in which the rest of such a key arrives
LONGEST_DELAY = 3600  # seconds
IDLE = 0.5  # seconds after which the screen is drawn again, for the window may have changed its size


@dataclass(frozen=True)
class PlayTask:
    """Play agents in the terminal (arrows, wasd or hjkl) with random, optimal or trained teammates, or watch them."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name (buttons, rendezvous-3) or a file (.toml, .json); with --out also a folder of runs."""
    agent: Annotated[str, option("AGENT,...")] = ""
    """Agents to control, in turn (default: none, only watch). Without a terminal, keys are read from standard input:
    "dd.w" is four steps."""
    mates: Annotated[str, option("random|optimal|FOLDER", name="with")] = "random"
    """Policies of the other agents: random, optimal, or in a folder the first that go by agents' machines."""
    seed: Number = 0
    """Random seed."""
    steps: Number = 1000
    """Maximum number of steps."""
    delay: Annotated[float, option("SECONDS")] = 0.15
    """Seconds between steps while watching."""
    out: Annotated[MaybePath, option("FILE", "-o")] = None
    """Write an episode as a film instead: .gif, .svg, or .mp4 (with ffmpeg). Of a folder of runs it is the first
    episode that was kept there, also of wrapped environments."""

    def run(self) -> int:
        if self.out is not None:
            return self._write_film(self.out)
        task = load_task(self.target)
        drivers = tuple(dict.fromkeys(names(self.agent)))
        for name in drivers:
            require_known(name, task.agents, "agent", partial(TaskError, key="--agent"))
        if self.steps < 1:
            raise HocketError(f"--steps must be at least 1, got {self.steps}")
        if not 0 <= self.delay <= LONGEST_DELAY:
            raise HocketError(f"--delay must be between 0 and {LONGEST_DELAY} seconds, got {self.delay}")
        game = TerminalGame(task, drivers, self.seed, self.steps, _teammates(task, self.mates))
        console = make_console()
        has_screen = sys.stdout.isatty() and not console.is_dumb_terminal
        if has_screen and (not drivers or _is_terminal(sys.stdin)):
            outcome = _play_on_screen(game, console, self.delay)
        else:
            outcome = _drive_lines(game, console) if drivers else _watch_lines(game, console)
        console.print(describe_outcome(game, outcome))
        return 0 if outcome in ("completed", "stopped") else 1

    def _write_film(self, out: Path) -> int:
        from hocket.report.film import draw_episode

        if Path(self.target).is_dir():
            scene, replay = kept_episode(Path(self.target))
        else:
            task = load_task(self.target)
            scene, replay = played_episode(task, _teammates(task, self.mates), self.seed, self.steps)
        draw_episode(scene, replay, out)
        ended = "Completed" if replay.success else "Not completed"
        make_console().print(f"{ended} in {len(replay.points) - 1:,} steps: {out}")
        return 0 if replay.success else 1


def _teammates(task: Task, named: str) -> Teammates:
    """Find how those act whom nobody drives."""
    if named == "random":
        return TeamEpisode.random_actions
    from hocket.learn.catalogue import references
    from hocket.learn.policies import reference_teammates, trained_teammates
    from hocket.study.policies import load_policies

    if named in references():
        return reference_teammates(task, named)
    if not exists(Path(named)) or not Path(named).is_dir():
        known = ("random", *references())
        raise HocketError(
            f"--with takes {', '.join(known)} or a folder of runs, got {named!r} ({known_names(named, known)})"
        )
    return trained_teammates(task, load_policies(named, task))


def played_episode(task: Task, act: Teammates, seed: int, steps: int) -> tuple[Scene, Replay]:
    """Play an episode of so many steps at most."""
    from hocket.report.film import MOST_STEPS  # loads what terminals do without
    from hocket.study.records import Replay

    episode = TeamEpisode(task, seed, strict=False)
    cells, states = [tuple(episode.cells.values())], [tuple(episode.states.values())]
    events: list[tuple[int, str]] = []
    while not episode.done and episode.time < min(steps, MOST_STEPS):
        happened = episode.step(act(episode)).events
        cells.append(tuple(episode.cells.values()))
        states.append(tuple(episode.states.values()))
        events += [(episode.time, event) for event in happened]
    rows, columns = np.divmod(np.array(cells), task.grid.columns)
    points = np.stack([columns, rows], axis=2) + 0.5
    return scene_of(task), Replay(episode.done, points, tuple(states), tuple(events))


def kept_episode(folder: Path) -> tuple[Scene, Replay]:
    """Find the first episode that was kept in a folder of runs, of a greedy policy if there is one, and its map."""
    from hocket.draw.scene_files import read_scene
    from hocket.study.store import load_results

    results = load_results(folder)
    scenes = {digest: scene_of(task) for digest, task in results.tasks.items()}
    scenes |= {scene.digest: scene for scene in map(read_scene, results.scenes)}
    for record in results.records:
        replays = record.test_summary.replays if record.test_summary is not None else {}
        if replays and record.digest in scenes:
            return scenes[record.digest], replays.get("greedy") or next(iter(replays.values()))
    raise FormatError("has no episode that was kept to be watched", path=folder)


def _play_on_screen(game: TerminalGame, console: Console, delay: float) -> Outcome:
    """Play on a screen of its own, and leave the last picture behind."""
    from rich.live import Live  # only where there is a terminal

    keys = WATCHING if game.driven is None else DRIVING
    outcome: Outcome | None = None
    with _keyboard() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        while (outcome := outcome or game.outcome) is None:
            lines = draw_frame(game, console.width, console.height, keys)
            live.update(Text("\n", no_wrap=True).join(lines), refresh=True)
            key = keyboard.read(delay if game.driven is None else IDLE)
            if key == QUIT:
                outcome = "stopped"
            elif key == AGAIN:
                game.start_again()
            elif game.driven is None and key is None:
                game.advance()
            elif game.driven is not None and key in ACTION_KEYS:
                game.choose(ACTION_KEYS[key])
    for line in draw_frame(game, console.width, console.height - 2):
        print_line(console, line)
    return outcome


def _watch_lines(game: TerminalGame, console: Console) -> Outcome:
    """Print the events of a random team."""
    if not game.is_sound:
        console.print(Text(NOT_SOUND, "bold red"))
    while game.outcome is None:
        for line in game.advance():
            console.print(line)
    return game.outcome


def _drive_lines(game: TerminalGame, console: Console) -> Outcome:
    """Read a line of keys at a time; print events as they happen, and a picture after every line."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    while game.outcome is None and (line := sys.stdin.readline() if sys.stdin else ""):
        for key in line.rstrip("\r\n"):
            if key == QUIT:
                return "stopped"
            if key == AGAIN:
                game.start_again()
            elif key not in ACTION_KEYS:
                raise HocketError(f"key {key!r} does nothing; wasd and hjkl move, '.' stays, r starts again, q quits")
            elif game.outcome is None:
                for event in game.choose(ACTION_KEYS[key]):
                    console.print(event)
        width = console.width if console.is_terminal else max(PIPE_WIDTH, game.task.grid.columns * CELL)
        for row in draw_frame(game, width):
            print_line(console, row)
    return game.outcome or "stopped"


class Keyboard:
    """Reads single keys from a terminal; without one, nobody ever types."""

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = descriptor
        self.typed = ""

    def read(self, timeout: float) -> str | None:
        """Wait for a key: a letter in lower case, or the sequence that an arrow sends."""
        if not self.typed:
            self._fill(timeout)
        while UNFINISHED.fullmatch(self.typed) and self._fill(ESCAPE_DELAY):
            pass
        if (match := KEY.match(self.typed)) is None:
            return None
        self.typed = self.typed[match.end() :]
        return match[0] if len(match[0]) > 1 else match[0].lower()

    def _fill(self, timeout: float) -> bool:
        """Wait for something typed; a terminal that has gone away quits."""
        if self.descriptor is None:
            time.sleep(timeout)
            return False
        if not select.select([self.descriptor], [], [], timeout)[0]:
            return False
        try:
            self.typed += os.read(self.descriptor, 1024).decode(errors="ignore") or QUIT
        except OSError:
            self.typed += QUIT
        return True


@contextmanager
def _keyboard() -> Iterator[Keyboard]:
    """Take keys as they are typed, without showing them; on the way out, leave the terminal as it was."""
    if not _is_terminal(sys.stdin):
        yield Keyboard(None)
        return
    import termios  # not on every system
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)  # Ctrl-C still interrupts
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
