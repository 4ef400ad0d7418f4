"""Tasks in the plane: the events and the machine of a task on a grid, in a world without cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hocket.adapters.noticing import LoneStep, RawStep
from hocket.adapters.plane import Disc, Plane, PlaneTeam, Point
from hocket.adapters.playing import Actor, Model, play_episode
from hocket.adapters.practice import IndividualView
from hocket.adapters.wrapping import WrappedTeam, wrap
from hocket.episode import SYNC_PROBABILITY
from hocket.errors import TaskError
from hocket.palette import choose_colors, choose_letters
from hocket.records import Replay
from hocket.scene import Area, Scene, scene_of
from hocket.task import Condition, Task

RADIUS = 0.8  # of a place, in cells


def plane_of(task: Task, radius: float = RADIUS, **settings: Any) -> Plane:  # noqa: ANN401 - those of `Plane`
    """Lay a task's map out in the plane, with a disc of some radius in place of each cell that is a place.

    A cell is a square of length 1. The map must be square and without walls and gates, and a place a single cell.
    """
    grid = task.grid
    if grid.rows != grid.columns:
        raise TaskError(f"must be square to be laid out in the plane, got {grid.rows} x {grid.columns}", key="map")
    if grid.walls or any(agent.gates for agent in task.agents.values()):
        raise TaskError("must have neither walls nor gates to be laid out in the plane", key="map")
    places = {}
    for name, cells in grid.places.items():
        if len(cells) > 1:
            raise TaskError(f"must be a single cell to become a disc, got {len(cells)}", key=f"places.{name}")
        (cell,) = cells
        places[name] = Disc(*_centre(task, cell), radius)
    starts = {name: _centre(task, agent.start) for name, agent in task.agents.items()}
    return Plane(starts, places, side=float(grid.rows), **settings)


def _centre(task: Task, cell: int) -> tuple[float, float]:
    row, column = task.grid.row_column(cell)
    return column + 0.5, row + 0.5


def team_in_plane(
    task: Task, plane: Plane, *, observation: str = "onehot", render_mode: str | None = None
) -> WrappedTeam:
    """Put a task's team into a plane: the same events and machines, with discs for places.

    >>> from hocket.catalogue import rendezvous
    >>> task = rendezvous(2)
    >>> team = team_in_plane(task, plane_of(task))
    >>> observations, infos = team.reset(seed=0)
    >>> observations["A1"].tolist()  # where it is, and the state of its machine
    [-0.8999999761581421, -0.8999999761581421, 1.0, 0.0, 0.0, 0.0]
    """
    own = {agent: _conditions(task, agent) for agent in task.agents}

    def label(step: RawStep) -> dict[str, list[str]]:
        return {agent: _noticed(plane, own[agent], point) for agent, point in step.observations.items()}

    return wrap(
        plane.team(render_mode),
        machine=task.machine,
        knows=task.knows,
        control=task.control,
        label=label,
        waits=[event for event, controllers in task.control.items() if len(controllers) > 1],
        observation=observation,
    )


def individual_in_plane(
    task: Task,
    plane: Plane,
    agent: str,
    *,
    anywhere: bool = False,
    sync_probability: float = SYNC_PROBABILITY,
    observation: str = "onehot",
    render_mode: str | None = None,
) -> IndividualView:
    """Put one of a task's agents into a plane by itself, with teammates that are only simulated.

    With `anywhere`, episodes start at points drawn evenly from all of the plane.
    """
    own = _conditions(task, agent) if agent in task.agents else {}  # of others `individual` says what is wrong

    def label(step: LoneStep) -> list[str]:
        return _noticed(plane, own, step.observation)

    view = team_in_plane(task, plane, observation=observation).individual(
        agent,
        plane.alone(agent, anywhere=anywhere, render_mode=render_mode),
        label,
        sync_probability=sync_probability,
    )
    view.chances.update(task.agents[agent].sync)
    return view


def _conditions(task: Task, agent: str) -> dict[str, Condition]:
    """List the events that an agent has a part in, and where it must be for them."""
    return {event: conditions[agent] for event, conditions in task.events.items() if agent in conditions}


def _noticed(plane: Plane, conditions: Mapping[str, Condition], point: Point) -> list[str]:
    return [event for event, condition in conditions.items() if plane.meets(point, condition)]


# What reports show.


def scene_in_plane(task: Task, plane: Plane) -> Scene:
    """Say what there is to see of a task in a plane: discs, agents and their machines."""
    letters, colors = choose_letters(task.grid), choose_colors(task.grid)
    areas = tuple(
        Area(disc.x - disc.radius, disc.y - disc.radius, 2 * disc.radius, 2 * disc.radius, colors[name], name,
             letters[name], is_disc=True)
        for name, disc in plane.places.items()
    )  # fmt: skip
    return replace(
        scene_of(task), task=f"{task.name}-plane", width=plane.side, height=plane.side, areas=areas, has_cells=False
    )


def watch_in_plane(
    team: WrappedTeam, policies: Mapping[str, Actor | Model], seed: int | None = None, *, greedy: bool = True
) -> Replay:
    """Play an episode of a team in a plane, and keep where everyone was and what happened."""
    world = team.env
    if not isinstance(world, PlaneTeam):
        raise TaskError(f"the team must be in a plane, got {world}", key="team")
    episode = play_episode(team, policies, seed, greedy=greedy)
    places = [[world.plane.at(row[agent]) for agent in episode.agents] for row in world.path]
    events = [(step, event) for step, own in enumerate(episode.events, start=1) for event in own]
    return Replay(episode.success, np.array(places), episode.states, tuple(events))
