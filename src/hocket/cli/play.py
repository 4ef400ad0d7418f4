"""play: control agents of a task in the terminal while their teammates act, watch all of them, or film them."""

from __future__ import annotations

import io
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import numpy as np
from rich.console import Console
from rich.text import Text
from tyro.conf import Positional

from hocket.arguments import whole
from hocket.cli.options import Number, OutFile, names, option
from hocket.cli.terminal import PIPE_WIDTH, UNLIMITED, aligned, make_console, print_line
from hocket.draw.scene import Moment, Scene, listed, read_scene
from hocket.draw.task_scene import scene_of
from hocket.draw.text import CELL, TextMap, clip
from hocket.errors import FormatError, HocketError, TaskError, counted, known_names, require_known
from hocket.files import exists
from hocket.machine.completion import leavable
from hocket.task.catalogue import load_task
from hocket.task.episode import TeamEpisode, Teammates
from hocket.task.settling import check_labelling
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
IDLE = 0.5  # seconds after which the screen is redrawn, since the window may have changed its size
GAP, NARROWEST_PANEL = 3, 44  # columns: between the map and the panel to its right, and of the panel
LEGEND_LINES, SHOWN_AGENTS, SHOWN_EVENTS = 3, 10, 5
LOW = 20  # a screen with fewer lines has no legend and only the last event
LONGEST_STATE, LONGEST_TEAM_STATE = 24, 60  # characters
NOT_SOUND = "Not sound (see hocket check): local and team machines may disagree."

Outcome = Literal["completed", "disagreed", "stopped", "ran out"]


@dataclass(frozen=True)
class PlayTask:
    """Play agents in the terminal (arrows, wasd or hjkl) with random, optimal or trained teammates, or watch them."""

    target: Annotated[Positional[str], option("TASK")]
    """A built-in name (buttons, rendezvous-3) or a file (.toml, .json); with --out also a folder of runs."""
    agent: Annotated[str, option("AGENT,...")] = ""
    """Agents to control, in turn (default: only watch). Without a terminal, standard input has the keys, as "dd.w"."""
    mates: Annotated[str, option("random|optimal|FOLDER", name="with")] = "random"
    """Policies of the other agents: random, optimal, or the first in a folder that use the agents' machines."""
    seed: Number = 0  # Random seed.
    steps: Number = 1000  # Maximum number of steps.
    delay: Annotated[float, option("SECONDS")] = 0.15  # Seconds between steps while watching.
    out: OutFile = None
    """Write a film of an episode (.gif, .svg, or with ffmpeg .mp4): a new one, or the first in a folder of runs."""

    def run(self) -> int:
        if self.out is not None:
            return self._write_film(self.out)
        task = load_task(self.target)
        drivers = tuple(dict.fromkeys(names(self.agent)))
        for name in drivers:
            require_known(name, task.agents, "agent", partial(TaskError, key="--agent"))
        whole(self.steps, "--steps", 1)
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
    """Return the policy of the agents that the user does not control."""
    if named == "random":
        return TeamEpisode.random_actions
    from hocket.learn.catalogue import references
    from hocket.learn.policies import reference_teammates, trained_teammates
    from hocket.study.policies import load_policies

    if named in references():
        return reference_teammates(task, named)
    if not exists(Path(named)) or not Path(named).is_dir():
        known = ("random", *references())
        rule = f"--with takes {', '.join(known)} or a folder of runs"
        raise HocketError(f"{rule}, got {named!r} ({known_names(named, known)})")
    return trained_teammates(task, load_policies(named, task))


def played_episode(task: Task, act: Teammates, seed: int, steps: int) -> tuple[Scene, Replay]:
    """Play an episode with a maximum number of steps."""
    from hocket.report.film import MOST_STEPS  # loads what terminals do not need
    from hocket.study.records import Replay

    episode = TeamEpisode(task, seed, strict=False)
    cells, states = [tuple(episode.cells.values())], [tuple(episode.states.values())]
    events: list[tuple[int, str]] = []
    while not episode.done and episode.time < min(steps, MOST_STEPS):
        happened = episode.step(act(episode)).events
        events += [(episode.time, event) for event in happened]
        cells.append(tuple(episode.cells.values()))
        states.append(tuple(episode.states.values()))
    rows, columns = np.divmod(np.array(cells), task.grid.columns)
    points = np.stack([columns, rows], axis=2) + 0.5
    return scene_of(task), Replay(episode.done, points, tuple(states), tuple(events))


def kept_episode(folder: Path) -> tuple[Scene, Replay]:
    """Return the first replay in a folder of runs, of a greedy policy if there is one, and its map."""
    from hocket.study.store import load_results

    results = load_results(folder)
    scenes = {digest: scene_of(task) for digest, task in results.tasks.items()}
    scenes |= {scene.digest: scene for scene in map(read_scene, results.scenes)}
    for record in results.records:
        replays = record.test_summary.replays if record.test_summary is not None else {}
        if replays and record.digest in scenes:
            return scenes[record.digest], replays.get("greedy") or next(iter(replays.values()))
    raise FormatError("has no episode that was kept to be watched", path=folder)


@dataclass
class TerminalGame:
    """An episode in progress, and its events so far."""

    task: Task
    drivers: tuple[str, ...]  # the agents that the user controls, in turn
    seed: int
    steps: int  # at most
    teammates: Teammates = TeamEpisode.random_actions  # the policy of the other agents
    event_lines: list[Text] = field(default_factory=list)  # the events that took effect
    chosen: dict[str, str] = field(default_factory=dict)  # the actions that the user has chosen in this step

    def __post_init__(self) -> None:
        self.is_sound = check_labelling(self.task).ok  # if not, the agents' machines may disagree with the team's
        self.episode = TeamEpisode(self.task, self.seed, strict=self.is_sound)

    @property
    def driven(self) -> str | None:
        """The agent whose turn it is; None if the user controls no agent."""
        return self.drivers[len(self.chosen)] if self.drivers else None

    @cached_property
    def board(self) -> TextMap:
        """The map."""
        return TextMap(scene_of(self.task))

    @property
    def moment(self) -> Moment:
        """Where the agents are now."""
        return Moment(self.episode.cells, self.episode.states, self.driven)

    @property
    def team_state(self) -> str:
        """The name of the team machine's state."""
        name = self.episode.team_state_name
        return name if len(name) <= LONGEST_TEAM_STATE else f"{name[:LONGEST_TEAM_STATE]}…"

    @property
    def outcome(self) -> Outcome | None:
        """How the episode has ended, if it has."""
        if self.episode.done:
            return "completed" if self.episode.completed else "disagreed"
        return "ran out" if self.episode.time >= self.steps else None

    def can_leave(self, agent: str) -> bool:
        """Say whether an agent is in a state that it can leave again while the episode goes on."""
        machine = self.task.machines[agent]
        return not self.episode.done and bool(leavable(machine)[machine.states.index(self.episode.states[agent])])

    def choose(self, action: str) -> list[Text]:
        """Choose the action of the agent whose turn it is; after the last of them, make the team's step."""
        if self.driven is not None:
            self.chosen[self.driven] = action
        return self.advance() if len(self.chosen) == len(self.drivers) else []

    def advance(self) -> list[Text]:
        """Make a step of the team; return the events that happened, in words."""
        actions, self.chosen = self.teammates(self.episode) | self.chosen, {}
        step = self.episode.step(actions)
        happened = [self._describe(event) for event in step.events]
        self.event_lines += happened
        return happened

    def _describe(self, event: str) -> Text:
        """Describe an event: the agents that control it, and the others that synchronised on it."""
        controllers = list(self.task.controllers[event])
        others = [name for name, known in self.task.knows.items() if event in known and name not in controllers]
        agents = f" by {listed(controllers)}" + (f" with {listed(others)}" if others else "")
        step = f"step {self.episode.time:,}: "
        return Text.assemble(step, (event, "bold"), f"{agents}; team in {self.team_state}")

    def start_again(self) -> None:
        """Start again with the next seed."""
        self.seed += 1
        self.event_lines, self.chosen = [], {}
        self.episode = TeamEpisode(self.task, self.seed, strict=self.is_sound)


def describe_outcome(game: TerminalGame, outcome: Outcome) -> Text:
    """Describe the end of an episode."""
    steps = counted(game.episode.time, "step")
    if outcome == "completed":
        return Text(f"Completed in {steps}.", "bold green")
    if outcome == "disagreed":
        states = f"All local reward machines are final after {steps}, but the team machine is in {game.team_state}."
        return Text(states, "bold red")
    return Text(f"Stopped after {steps}." if outcome == "stopped" else f"Not completed within {steps}.", "bold")


def draw_frame(game: TerminalGame, width: int, height: int = UNLIMITED, keys: str = "") -> list[Text]:
    """Draw map, panel, legend and keys, in at most `height` lines of at most `width` characters."""
    scene, center = game.board.scene, game.episode.cells[game.driven or next(iter(game.episode.cells))]
    foot = [] if height < LOW else game.board.legend(game.moment, width, agents=False)
    if height < UNLIMITED and len(foot) > LEGEND_LINES:
        foot = [*foot[: LEGEND_LINES - 1], foot[LEGEND_LINES - 1].append("   …")]
    foot += [Text(keys, "dim")] if keys else []
    foot = [Text(), *foot] if foot else []
    panel, lines_left = _panel(game, SHOWN_EVENTS if height >= LOW else 1), max(1, height - len(foot))
    left = clip(scene, center, lines_left, (width - GAP - min(NARROWEST_PANEL, width // 2)) // CELL)
    above = clip(scene, center, lines_left - len(panel) - 1, width // CELL)
    window = max(left, above, key=lambda part: part.rows * part.columns)
    if not window.is_whole(scene):
        panel[1].append(str(window), "dim")
    drawn = game.board.draw(game.moment, window)
    if window is left:
        pairs, margin = zip_longest(drawn, panel, fillvalue=Text()), drawn[0].cell_len + GAP
        lines = [Text.assemble(row, " " * (margin - row.cell_len) if other else "", other) for row, other in pairs]
    else:
        lines = [*drawn, Text(), *panel]
    while height == UNLIMITED and not lines[-1]:
        lines.pop()  # on a screen, the lines below stay in their places when events are added
    lines = [*lines[:lines_left], *foot][:height]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return lines


def _panel(game: TerminalGame, events: int) -> list[Text]:
    """Write the panel: time, the machines' states, and the last events, in a fixed number of lines."""
    time = f"  step {game.episode.time:,} of {game.steps:,}, seed {game.seed}"
    lines = [Text.assemble((game.task.name, "bold"), (time, "dim")), Text()]
    if not game.is_sound:
        lines.append(Text(NOT_SOUND, "bold red"))
    lines.append(Text.assemble(("team", "bold"), f" in {game.team_state}"))
    agents = list(game.task.agents)[:SHOWN_AGENTS]
    if game.driven is not None and game.driven not in agents:
        agents[-1] = game.driven
    lines += aligned([_agent_row(game, name) for name in agents])
    if len(game.task.agents) > len(agents):
        lines.append(Text(f"… and {len(game.task.agents) - len(agents):,} more agents", "dim"))
    events_seen = [event.copy() for event in game.event_lines[-events:]]
    return [*lines, Text(), *events_seen, *(Text() for _ in range(events - len(events_seen)))]


def _agent_row(game: TerminalGame, name: str) -> list[Text]:
    """Write an agent's sign, name and state, for whom it waits, and where it is."""
    cell, grid = game.episode.cells[name], game.task.grid
    state = Text(game.episode.states[name])
    state.truncate(LONGEST_STATE, overflow="ellipsis")
    regions = [region for region, cells in grid.places.items() if cell in cells]
    status = Text(f"at {listed(regions)}" if regions else "at ({}, {})".format(*grid.row_column(cell)))
    if game.episode.finished[name]:
        status = Text("final for now", "yellow") if game.can_leave(name) else Text("done", "green")
    elif (waits := game.episode.waiting.get(name)) is not None:
        event, missing = waits
        status = Text.assemble((event, "bold"), f" waits for {listed(missing)}, ", status)
    return [Text.assemble(game.board.agent(name, game.driven)), Text(name, "bold"), state, status]


def _play_on_screen(game: TerminalGame, console: Console, delay: float) -> Outcome:
    """Play on a screen of its own, and print the last picture at the end."""
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


@dataclass
class Keyboard:
    """Reads single keys from a terminal; without one there are no keys."""

    descriptor: int | None
    typed: str = ""

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
        """Wait for input; if the terminal was closed, add the key that quits."""
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
    """Read keys as they are typed, without showing them; restore the terminal at the end."""
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
