"""Compact encoding of curves and episodes, for the scripts of a page.

Names of states and events are numbers in one list of names per task. An agent's path is its start and, if it only stays
or moves to neighbouring cells, a letter for every two moves, or else the differences between points in hundredths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

from hocket.draw.map_svg import number_of
from hocket.draw.palette import AGENT_COLORS
from hocket.draw.scene import Scene
from hocket.machine.reward_machine import RewardMachine
from hocket.report.performance import Curve
from hocket.report.summary import Section, Summary, needs_log_x
from hocket.study.records import KINDS, Replay, changes_of

MOST_POINTS = 1_000  # of a curve; of more, every second or third... is kept
MOST_CHARACTERS = 2_500_000  # of all episodes of a page together
FINEST = 100  # parts of a unit of length to which points are rounded
MOVES = np.array([[0, 3, 1], [2, 0, 0], [4, 0, 0]])  # numbers of moves at [right, down]; -1 is the last index
FIRST_LETTER = ord("A")  # of two moves; five times the first plus the second is added

Data = dict[str, object]


class Numbering(dict[str, int]):
    """A growing list of names, with the number of each."""

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, len(self))


def curves_data(section: Section) -> Data:
    """Encode the curves of a task; groups that were tested at the same steps share these."""
    steps: dict[tuple[int, ...], int] = {}
    published = {comparison.label: asdict(comparison.published) for comparison in section.published_levels}
    groups: list[Data] = []
    for label, group in ((group.label, group) for group in section.groups):
        about = {"label": label, "color": section.colors[label], "runs": len(group.seeds)}
        curves = {kind: _curve(curve, steps) for kind, curve in group.curves.items()}
        groups.append({**about, "published": published.get(label), "curves": curves})
    levels = {kind: level for kind in KINDS if (level := section.level(kind)) is not None}
    reference = section.reference.label if section.reference is not None else ""
    heading = {"title": section.title, "most_steps": section.most_steps, "log_x": needs_log_x(section)}
    flags = {"is_return": section.has_returns, "is_continuing": section.is_continuing}
    heading |= {name: True for name, is_set in flags.items() if is_set}
    return {**heading, "steps": [*map(list, steps)], "groups": groups, "levels": levels, "reference": reference}


def _curve(curve: Curve, steps: dict[tuple[int, ...], int]) -> Data:
    every = -(-len(curve.step) // MOST_POINTS) or 1
    kept = slice((len(curve.step) - 1) % every, None, every)  # with the last point, which is in the tables
    number = steps.setdefault(tuple(curve.step[kept].tolist()), len(steps))
    quartiles, success = [_short(line[kept]) for line in curve.quartiles], _short(curve.success[kept], 3)
    return {"steps": number, "quartiles": quartiles, "success": success}


def _short(values: NDArray[np.float64], digits: int = 2) -> list[float]:
    return [int(value) if value == int(value) else value for value in np.round(values, digits).tolist()]


def scene_data(scene: Scene, names: Numbering) -> Data:
    """Encode the agents, their machines, and the areas that are closed to them in each state."""
    agents: list[Data] = []
    for name in scene.agents:
        about = {"name": name, "number": number_of(scene, name), "color": scene.colors[name]}
        machine = _machine(scene.machines[name], scene.knows[name], names)
        agents.append({**about, **machine, "closed": _closed(scene, name, names)})
    colors = {names[event]: AGENT_COLORS.index(color) for event, (color, _) in scene.styles.items()}
    team = scene.team
    known = None if team is None else {**_machine(team, team.events, names), "initial": names[team.initial]}
    return {"agents": agents, "team": known, "colors": colors}


def _machine(machine: RewardMachine, knows: Iterable[str], names: Numbering) -> Data:
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
    """The episodes of a task that are on a page."""

    names: Numbering = field(default_factory=Numbering)
    kept: dict[int, dict[str, dict[str, Data]]] = field(default_factory=dict)  # by group, seed and kind of policy
    left_out: int = 0


def choose_episodes(summary: Summary, characters: int = MOST_CHARACTERS) -> list[EpisodeData]:
    """Take episodes of all tasks and learners in turn, by seed, until they have so many characters."""
    chosen = [EpisodeData() for _ in summary.sections]
    of_groups = [
        [
            (episodes, number, seed, kind, replay)
            for (seed, kind), replay in group.replays.items()
            if section.scene is not None and replay.points.shape[1] == len(section.scene.agents)
        ]
        for section, episodes in zip(summary.sections, chosen, strict=True)
        for number, group in enumerate(section.all_groups)
    ]
    for episodes, number, seed, kind, replay in filter(None, chain.from_iterable(zip_longest(*of_groups))):
        if characters > 0:
            data = replay_data(replay, episodes.names)
            episodes.kept.setdefault(number, {}).setdefault(str(seed), {})[kind] = data
            characters -= len(str(data))
        else:
            episodes.left_out += 1
    return chosen


def episodes_data(section: Section, episodes: EpisodeData) -> Data | None:
    """Encode the chosen episodes of a task, with its scene."""
    if section.scene is None:
        return None
    labels = [group.label for group in section.all_groups]
    groups = [{"label": labels[number], "seeds": kept} for number, kept in sorted(episodes.kept.items())]
    about = {"title": section.title, "groups": groups, "left_out": episodes.left_out}
    return {**scene_data(section.scene, episodes.names), **about, "names": [*episodes.names]}


def replay_data(replay: Replay, names: Numbering) -> Data:
    """Encode an episode."""
    points = np.round(replay.points * FINEST).astype(np.int64)  # [T + 1, N, 2]

    def flat(entries: Iterable[tuple[int, str]]) -> list[int]:
        return [number for step, name in entries for number in (step, names[name])]

    return {
        "success": replay.success,
        "length": len(points) - 1,
        "start": points[0].ravel().tolist(),
        "ways": [_path(np.diff(points[:, agent], axis=0)) for agent in range(points.shape[1])],
        "states": [flat(changes_of(column)) for column in zip(*replay.states, strict=True)],
        "events": flat(replay.events),
    }


def _path(moves: NDArray[np.int64]) -> str | list[int]:
    """Encode an agent's moves, [T, 2] in hundredths."""
    if (moves % FINEST).any() or (np.abs(moves).sum(axis=1) > FINEST).any():  # not to a neighbouring cell
        return moves.ravel().tolist()
    across, down = (moves // FINEST).T
    first, second = np.pad(MOVES[across, down], (0, len(moves) % 2)).reshape(-1, 2).T
    return str((FIRST_LETTER + 5 * first + second).astype(np.uint8).tobytes(), "ascii")
