"""Tasks in the plane: the events and the machine of a grid task in a continuous environment (`plane.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hocket.draw.palette import FLOOR
from hocket.draw.scene import Area, Scene
from hocket.draw.task_scene import scene_of
from hocket.errors import SettingsError, TaskError, known_names
from hocket.gym import IndividualStep, IndividualView, RawStep, WrappedTeam, wrap
from hocket.task.conditions import Condition
from hocket.task.episode import SYNC_PROBABILITY
from hocket.task.task import Task
from plane import Disc, Plane, Point

RADIUS = 0.8  # of a place, in cells


def plane_from_task(task: Task, radius: float = RADIUS, **settings: Any) -> Plane:
    """Convert a task's map to a plane, with a disc of some radius for each cell that is a place.

    A cell is a square of length 1. The map must be square and without walls and gates, and a place a single cell.
    `settings` are `speed`, `noise`, `directions` and `most_steps`.
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
        places[name] = Disc(*_center(task, cell), radius)
    starts = {name: _center(task, agent.start) for name, agent in task.agents.items()}
    return Plane(starts, places, **(_known(settings) | {"side": float(grid.rows)}))


def buttons_plane(**settings: Any) -> Plane:  # speed, noise, directions, most_steps
    """Convert the task `buttons` to a plane; a region that is closed until an event surrounds each target.

    >>> buttons_plane().places["red button"], buttons_plane().places["green region"]
    (Disc(x=8.0, y=4.5, radius=0.8), Disc(x=8.0, y=4.5, radius=1.8))
    """
    middle, right, corner = (4.5, 5.5), (8.0, 4.5), (8.0, 8.0)
    return Plane(
        starts={"A1": (1.0, 1.0), "A2": (4.5, 1.0), "A3": (9.0, 1.0)},
        places={
            "yellow button": Disc(2.0, 4.0, 0.8),
            "yellow region": Disc(*middle, 1.8),
            "green button": Disc(*middle, 0.8),
            "green region": Disc(*right, 1.8),
            "red button": Disc(*right, 0.8),
            "red region": Disc(*corner, 1.8),
            "goal": Disc(*corner, 0.8),
        },
        **_known(settings),
    )


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """Require settings of a plane that are about moving."""
    known = ("speed", "noise", "directions", "most_steps")
    for name in settings:
        if name not in known:
            raise SettingsError(f"setting {name!r} does not exist ({known_names(name, known)})")
    return settings


def _center(task: Task, cell: int) -> tuple[float, float]:
    row, column = task.grid.row_column(cell)
    return column + 0.5, row + 0.5


def team_in_plane(
    task: Task, plane: Plane, *, observation: str = "onehot", render_mode: str | None = None
) -> WrappedTeam:
    """Put a task's team into a plane: the same events and machines, with discs for places.

    >>> import hocket as hk
    >>> task = hk.rendezvous(2)
    >>> team = team_in_plane(task, plane_from_task(task))
    >>> observations, infos = team.reset(seed=0)
    >>> observations["A1"].tolist()  # where it is, and the state of its machine
    [-0.8999999761581421, -0.8999999761581421, 1.0, 0.0, 0.0, 0.0]
    """
    conditions = {agent: _conditions(task, plane, agent) for agent in task.agents}
    gates = {agent: _closed(task, plane, agent) for agent in task.agents}
    world = plane.team(render_mode)

    def label(step: RawStep) -> dict[str, list[str]]:
        return {agent: _proposed(plane, conditions[agent], point) for agent, point in step.observations.items()}

    team = wrap(
        world,
        machine=task.machine,
        knows=task.knows,
        control=task.control,
        label=label,
        waits=[event for event, controllers in task.control.items() if len(controllers) > 1],
        observation=observation,
    )
    world.closed = lambda agent: gates[agent][team.states[agent]]
    return team


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
    """Put one agent of a task into a plane, with simulated teammates.

    With `anywhere`, episodes start at points drawn evenly from all of the plane.
    """
    if agent not in task.agents:
        raise TaskError(f"agent {agent!r} does not exist ({known_names(agent, task.agents)})", key="agents")
    conditions, closed = _conditions(task, plane, agent), _closed(task, plane, agent)
    world = plane.individual(agent, anywhere=anywhere, render_mode=render_mode)

    def label(step: IndividualStep) -> list[str]:
        return _proposed(plane, conditions, step.observation)

    def valid(step: IndividualStep, state: str) -> bool:
        """Say whether gates would have had the same effect on the step in another state."""
        stopped, otherwise = (plane.is_in_any(step.info["aimed"], closed[each]) for each in (step.state, state))
        return stopped == otherwise

    view = team_in_plane(task, plane, observation=observation).individual(
        agent, world, label, sync_probability=sync_probability, valid=valid
    )
    view.chances.update(task.agents[agent].sync)
    world.closed = lambda: closed[view.state]
    return view


def _closed(task: Task, plane: Plane, agent: str) -> dict[str, list[str]]:
    """List the places that gates close to an agent in each state of its machine."""
    for place in task.agents[agent].gates:
        plane.disc(place)
    return dict(zip(task.machines[agent].states, task.closed_regions(agent), strict=True))


def _conditions(task: Task, plane: Plane, agent: str) -> dict[str, Condition]:
    """List the events that an agent controls, and where it must be for them."""
    needed = {event: conditions[agent] for event, conditions in task.events.items() if agent in conditions}
    for condition in needed.values():
        for place in condition.places:
            plane.disc(place)
    return needed


def _proposed(plane: Plane, conditions: Mapping[str, Condition], point: Point) -> list[str]:
    return [event for event, condition in conditions.items() if plane.meets(point, condition)]


# What reports show.


def scene_in_plane(task: Task, plane: Plane) -> Scene:
    """Make the scene of a task in a plane: discs, agents and their machines."""
    scene = scene_of(task)
    known = {name: area for area in scene.areas for name in area.names}
    areas = []
    for name, disc in plane.places.items():
        area = known.get(name, Area((), FLOOR))
        areas.append(Area.disc((disc.x, disc.y), disc.radius, area.color, name, area.tag, area.gates))
    return replace(
        scene,
        task=f"{task.name}-plane",
        width=plane.side,
        height=plane.side,
        areas=tuple(areas),
        walls=(),
        starts=dict(plane.starts),
        corners={},
        has_cells=False,
    )
