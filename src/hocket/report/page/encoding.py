"""Curves and episodes in few characters, for the scripts of a page.

Names of states and events are numbers in one list of names per task. An agent's way is where it starts and, where it
only ever stays or goes to a neighbouring cell, a letter for every two moves; else the differences from point to point
in hundredths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

from hocket.draw.map_svg import number_of
from hocket.draw.palette import LINE_COLORS
from hocket.draw.scene import Scene
from hocket.machine.reward_machine import RewardMachine
from hocket.report.performance import Curve
from hocket.report.summary import Section, Summary, needs_log_x
from hocket.study.records import KINDS, Replay, changes_of

MOST_POINTS = 1_000  # of a curve; of more, every second or third... is taken
MOST_CHARACTERS = 2_500_000  # of all episodes of a page together
FINEST = 100  # parts of a unit of length in which points are told
MOVES = np.array([[0, 3, 1], [2, 0, 0], [4, 0, 0]])  # numbers of moves at [across, down], -1 being the last
FIRST_LETTER = ord("A")  # for two moves: the letter that is five times the first, plus the second, after this one

Data = dict[str, object]


class Numbering(dict[str, int]):
    """A list of names that grows; each has its number."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


# Curves.


def curves_data(section: Section) -> Data:
    """Tell the curves of a task; groups that were tested at the same steps share them."""
    steps: dict[tuple[int, ...], int] = {}
    published = {comparison.label: asdict(comparison.published) for comparison in section.published_levels}
    groups: list[Data] = [
        {
            "label": group.label,
            "color": section.colors[group.label],
            "runs": len(group.seeds),
            "published": published.get(group.label),
            "curves": {kind: _curve(curve, steps) for kind, curve in group.curves.items()},
        }
        for group in section.groups
    ]
    levels = {kind: level for kind in KINDS if (level := section.level(kind)) is not None}
    reference = section.reference.label if section.reference is not None else ""
    heading = {"title": section.title, "most_steps": section.most_steps, "log_x": needs_log_x(section)}
    flags = {"is_return": section.has_returns, "is_continuing": section.is_continuing}
    heading |= {name: True for name, is_set in flags.items() if is_set}
    return {**heading, "steps": [*map(list, steps)], "groups": groups, "levels": levels, "reference": reference}


def _curve(curve: Curve, steps: dict[tuple[int, ...], int]) -> Data:
    every = -(-len(curve.step) // MOST_POINTS) or 1
    kept = slice((len(curve.step) - 1) % every, None, every)  # the last point among them, which tables tell
    return {
        "steps": steps.setdefault(tuple(curve.step[kept].tolist()), len(steps)),
        "quartiles": [_short(line[kept]) for line in curve.quartiles],
        "success": _short(curve.success[kept], 3),
    }


def _short(values: NDArray[np.float64], digits: int = 2) -> list[float]:
    return [int(value) if value == int(value) else value for value in np.round(values, digits).tolist()]


# Scenes and episodes.


def scene_data(scene: Scene, names: Numbering) -> Data:
    """Tell who the agents are, how their machines step, and what is closed to them in which state."""
    agents = [
        {
            "name": name,
            "number": number_of(scene, name),
            "color": scene.colors[name],
            **_machine(scene.machines[name], scene.knows[name], names),
            "closed": _closed(scene, name, names),
        }
        for name in scene.agents
    ]
    index = {color: number for number, color in enumerate(LINE_COLORS.values())}  # as the page's style numbers them
    colors = {names[event]: index[color] for event, (color, _) in scene.styles.items()}
    team = scene.team
    known = None if team is None else {**_machine(team, team.events, names), "initial": names[team.initial]}
    return {"agents": agents, "team": known, "colors": colors}


def _machine(machine: RewardMachine, knows: Iterable[str], names: Numbering) -> Data:
    """Tell how a machine steps."""
    states = [names[state] for state in machine.states]
    steps = [[names[state], names[event], names[target]] for (state, event), target in machine.transitions.items()]
    return {"states": states, "steps": steps, "knows": [names[event] for event in knows]}


def _closed(scene: Scene, agent: str, names: Numbering) -> dict[int, list[int]]:
    """List by state the numbers of the areas that are closed to an agent."""
    gated = [(number, area) for number, area in enumerate(scene.areas) if any(name == agent for name, _ in area.gates)]
    closed = {
        names[state]: [number for number, area in gated if scene.bars(area, agent, state)]
        for state in scene.machines[agent].states
    }
    return {state: areas for state, areas in closed.items() if areas}


@dataclass
class EpisodeData:
    """Those episodes of a task that a page has room for."""

    names: Numbering = field(default_factory=Numbering)
    kept: dict[int, dict[str, dict[str, Data]]] = field(default_factory=dict)  # by group, seed and kind of policy
    left_out: int = 0


def choose_episodes(summary: Summary, room: int = MOST_CHARACTERS) -> list[EpisodeData]:
    """Take episodes until there is no room, so that every task and learner has its first seeds before others more."""
    chosen = [EpisodeData() for _ in summary.sections]
    waiting = [
        [
            (episodes, number, seed, kind, replay)
            for (seed, kind), replay in group.replays.items()
            if section.scene is not None and replay.points.shape[1] == len(section.scene.agents)
        ]
        for section, episodes in zip(summary.sections, chosen, strict=True)
        for number, group in enumerate(section.all_groups)
    ]
    for episodes, number, seed, kind, replay in filter(None, chain.from_iterable(zip_longest(*waiting))):
        if room > 0:
            data = replay_data(replay, episodes.names)
            episodes.kept.setdefault(number, {}).setdefault(str(seed), {})[kind] = data
            room -= len(str(data))
        else:
            episodes.left_out += 1
    return chosen


def episodes_data(section: Section, episodes: EpisodeData) -> Data | None:
    """Tell the episodes that are kept of a task, and all that it takes to replay them."""
    if section.scene is None:
        return None
    labels = [group.label for group in section.all_groups]
    groups = [{"label": labels[number], "seeds": kept} for number, kept in sorted(episodes.kept.items())]
    about = {"title": section.title, "groups": groups, "left_out": episodes.left_out}
    return {**scene_data(section.scene, episodes.names), **about, "names": [*episodes.names]}


def replay_data(replay: Replay, names: Numbering) -> Data:
    """Tell an episode."""
    points = np.round(replay.points * FINEST).astype(np.int64)  # [T + 1, N, 2]
    columns = zip(*replay.states, strict=True)
    return {
        "success": replay.success,
        "length": len(points) - 1,
        "start": points[0].ravel().tolist(),
        "ways": [_way(np.diff(points[:, agent], axis=0)) for agent in range(points.shape[1])],
        "states": [
            [number for step, state in changes_of(column) for number in (step, names[state])] for column in columns
        ],
        "events": [number for step, event in replay.events for number in (step, names[event])],
    }


def _way(moves: NDArray[np.int64]) -> str | list[int]:
    """Tell an agent's moves, [T, 2] in hundredths."""
    if (moves % FINEST).any() or (np.abs(moves).sum(axis=1) > FINEST).any():  # not from a cell to one beside it
        return moves.ravel().tolist()
    across, down = (moves // FINEST).T
    first, second = np.pad(MOVES[across, down], (0, len(moves) % 2)).reshape(-1, 2).T
    return str((FIRST_LETTER + 5 * first + second).astype(np.uint8).tobytes(), "ascii")
