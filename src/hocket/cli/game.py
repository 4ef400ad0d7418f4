"""An episode that is played or watched in the terminal: the map, and next to it the states and the last events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Literal

from rich.text import Text

from hocket.cli.terminal import aligned
from hocket.draw.scene import Moment, listed
from hocket.draw.task_scene import scene_of
from hocket.draw.text import CELL, TextMap, clip
from hocket.errors import counted
from hocket.machine.completion import leavable
from hocket.task.episode import TeamEpisode, Teammates
from hocket.task.settling import check_labelling
from hocket.task.task import Task

GAP, NARROWEST_PANEL = 3, 44  # columns: between the map and the panel beside it, and of the panel
LEGEND_LINES, SHOWN_AGENTS, SHOWN_EVENTS = 3, 10, 5
LOW = 20  # a screen with fewer lines has no legend and only the last event
UNLIMITED = 1_000_000  # lines
LONGEST_STATE, LONGEST_TEAM_STATE = 24, 60  # characters
NOT_SOUND = "Not sound (see hocket check): local and team machines may disagree."

Outcome = Literal["completed", "disagreed", "stopped", "ran out"]


@dataclass
class TerminalGame:
    """An episode in progress, and what has happened in it."""

    task: Task
    drivers: tuple[str, ...]  # the agents that the user plays, in turn
    seed: int
    steps: int  # at most
    teammates: Teammates = TeamEpisode.random_actions  # how everyone else acts
    event_lines: list[Text] = field(default_factory=list)  # the events that took effect
    chosen: dict[str, str] = field(default_factory=dict)  # actions of those who had their turn in this step

    def __post_init__(self) -> None:
        self.is_sound = check_labelling(self.task).ok  # if not, the agents' machines may disagree with the team's
        self.episode = TeamEpisode(self.task, self.seed, strict=self.is_sound)

    @property
    def driven(self) -> str | None:
        """The agent whose turn it is; None if the user plays no agent."""
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
        """Say whether an agent is in a final state that it can leave again while the episode goes on."""
        machine = self.task.machines[agent]
        return not self.episode.done and bool(leavable(machine)[machine.states.index(self.episode.states[agent])])

    def choose(self, action: str) -> list[Text]:
        """Choose an action for the agent whose turn it is; after the last of them, the whole team makes its step."""
        if self.driven is not None:
            self.chosen[self.driven] = action
        return self.advance() if len(self.chosen) == len(self.drivers) else []

    def advance(self) -> list[Text]:
        """Let everyone act; return what happened."""
        actions, self.chosen = self.teammates(self.episode) | self.chosen, {}
        step = self.episode.step(actions)
        new = [self._describe(event) for event in step.events]
        self.event_lines += new
        return new

    def _describe(self, event: str) -> Text:
        """Say which event took effect, who made it happen, and who else synchronised on it."""
        makers = list(self.task.control[event])
        others = [name for name, known in self.task.knows.items() if event in known and name not in makers]
        said = f" by {listed(makers)}" + (f" with {listed(others)}" if others else "")
        step = f"step {self.episode.time:,}: "
        return Text.assemble(step, (event, "bold"), f"{said}; team in {self.team_state}")

    def start_again(self) -> None:
        """Start again with the next seed."""
        self.seed += 1
        self.event_lines, self.chosen = [], {}
        self.episode = TeamEpisode(self.task, self.seed, strict=self.is_sound)


def describe_outcome(game: TerminalGame, outcome: Outcome) -> Text:
    """Say how an episode has ended."""
    steps = counted(game.episode.time, "step")
    if outcome == "completed":
        return Text(f"Completed in {steps}.", "bold green")
    if outcome == "disagreed":
        said = f"All local reward machines are final after {steps}, but the team machine is in {game.team_state}"
        return Text(f"{said}.", "bold red")
    return Text(f"Stopped after {steps}." if outcome == "stopped" else f"Not completed within {steps}.", "bold")


def draw_frame(game: TerminalGame, width: int, height: int = UNLIMITED, keys: str = "") -> list[Text]:
    """Draw map, panel, legend and keys, in at most `height` lines of at most `width` characters."""
    scene, center = game.board.scene, game.episode.cells[game.driven or next(iter(game.episode.cells))]
    foot = [] if height < LOW else game.board.legend(game.moment, width, agents=False)
    if height < UNLIMITED and len(foot) > LEGEND_LINES:
        foot = [*foot[: LEGEND_LINES - 1], foot[LEGEND_LINES - 1].append("   …")]
    foot += [Text(keys, "dim")] if keys else []
    foot = [Text(), *foot] if foot else []
    panel, room = _panel(game, SHOWN_EVENTS if height >= LOW else 1), max(1, height - len(foot))
    beside = clip(scene, center, room, (width - GAP - min(NARROWEST_PANEL, width // 2)) // CELL)
    above = clip(scene, center, room - len(panel) - 1, width // CELL)
    window = max(beside, above, key=lambda part: part.rows * part.columns)
    if not window.is_whole(scene):
        panel[1].append(str(window), "dim")
    drawn = game.board.draw(game.moment, window)
    body = _set_beside(drawn, panel) if window is beside else [*drawn, Text(), *panel]
    while height == UNLIMITED and not body[-1]:
        body.pop()  # on a screen, the lines below stay where they are while events come in
    lines = [*body[:room], *foot][:height]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return lines


def _set_beside(left: Sequence[Text], right: Sequence[Text]) -> list[Text]:
    """Set two columns of lines side by side."""
    width = left[0].cell_len + GAP
    pairs = zip_longest(left, right, fillvalue=Text())
    return [Text.assemble(row, " " * (width - row.cell_len) if other else "", other) for row, other in pairs]


def _panel(game: TerminalGame, events: int) -> list[Text]:
    """Write the panel beside the map: time, the machines' states, and the last events, in a fixed number of lines."""
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
    """Say who an agent is, in which state, for whom it waits, and where."""
    cell, grid = game.episode.cells[name], game.task.grid
    state = Text(game.episode.states[name])
    state.truncate(LONGEST_STATE, overflow="ellipsis")
    here = [place for place, cells in grid.places.items() if cell in cells]
    status = Text(f"at {listed(here)}" if here else "at ({}, {})".format(*grid.row_column(cell)))
    if game.episode.finished[name]:
        status = Text("final for now", "yellow") if game.can_leave(name) else Text("done", "green")
    elif (waits := game.episode.waiting.get(name)) is not None:
        event, missing = waits
        status = Text.assemble((event, "bold"), f" waits for {listed(missing)}, ", status)
    return [Text.assemble(game.board.agent(name, game.driven)), Text(name, "bold"), state, status]
