"""A continuous environment: agents move in a square of the plane, and places are discs in it.

A `Plane` is a description; its method `team` makes a PettingZoo environment for all agents, `individual` a Gymnasium
environment for one agent. In both an agent observes only its position, and its action is a velocity. There are no
rewards; `plane_tasks.py` wraps the environments with the machines of a task (`hocket.gym.wrap`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv
from PIL import ImageColor

from hocket.draw.palette import FLOOR, agent_colors, choose_colors
from hocket.errors import SettingsError, TaskError, known_names
from hocket.machine.names import check_name
from hocket.task.conditions import Condition

Point = NDArray[np.float32]  # [2] of x, to the right, and y, down; the middle is (0, 0), and both lie in -1 to 1
Experience = tuple[Any, Any, Any, Any, Any]  # observation, reward, terminated, truncated, info: for one or for each
METADATA = {"name": "plane_v0", "render_modes": ["rgb_array"], "render_fps": 15, "is_parallelizable": True}
PIXELS = 320  # width and height of a picture
AGENT_PIXELS = 6  # radius of an agent in a picture


class Disc(NamedTuple):
    """A round place, in units of the plane."""

    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Plane:
    """A square of the plane with agents and named discs, from (0, 0) at the top left to (side, side).

    >>> home = Plane(starts={"A1": (1, 1)}, places={"home": Disc(4, 5, radius=1)})
    >>> home.individual("A1").action_space.shape
    (2,)
    """

    starts: Mapping[str, tuple[float, float]]  # agent -> x, y
    places: Mapping[str, Disc]
    side: float = 10.0
    speed: float = 0.4  # the longest distance in a step
    noise: float = 0.05  # standard deviation of the end of a step, in either direction
    directions: int | None = None  # so many, at full speed, or to stay; None: any velocity
    most_steps: int = 150  # of an episode

    def __post_init__(self) -> None:
        if not self.starts:
            raise TaskError("a plane needs at least one agent", key="starts")
        for key in ("side", "speed", "most_steps", "directions"):
            value = getattr(self, key)
            if value is not None and not 0 < value < np.inf:
                raise TaskError(f"must be above 0 and finite, got {value!r}", key=key)
        if not 0 <= self.noise < np.inf:
            raise TaskError(f"must not be negative, and finite, got {self.noise!r}", key="noise")
        for agent, start in self.starts.items():
            self._check_inside(check_name(agent, "an agent"), *start, key=f"starts.{agent}")
        for place, disc in self.places.items():
            self._check_inside(check_name(place, "a place"), disc.x, disc.y, key=f"places.{place}")
            if not disc.radius > 0:
                raise TaskError(f"the radius must be above 0, got {disc.radius!r}", key=f"places.{place}")
        object.__setattr__(self, "starts", MappingProxyType(dict(self.starts)))
        object.__setattr__(self, "places", MappingProxyType({n: Disc(*disc) for n, disc in self.places.items()}))

    def __reduce__(self) -> tuple[object, ...]:
        rules = (self.side, self.speed, self.noise, self.directions, self.most_steps)
        return Plane, (dict(self.starts), dict(self.places), *rules)

    def _check_inside(self, name: str, x: float, y: float, key: str) -> None:
        if not (0 <= x <= self.side and 0 <= y <= self.side):
            rule = f"must lie between 0 and {self.side:g} in both directions"
            raise TaskError(f"{name!r} {rule}, got {x!r}, {y!r}", key=key)

    @cached_property
    def observation_space(self) -> spaces.Box:
        """Positions as agents observe them: the sides of the square are at -1 and 1."""
        return spaces.Box(-1.0, 1.0, (2,), np.float32)

    @cached_property
    def action_space(self) -> spaces.Space[Any]:
        """Velocities in units of the highest speed, longer ones being cut down to it; or numbers of directions.

        Direction 0 is to the right, others follow clockwise, and the last number is to stay.
        """
        if self.directions is not None:
            return spaces.Discrete(self.directions + 1)
        return spaces.Box(-1.0, 1.0, (2,), np.float32)

    def team(self, render_mode: str | None = None) -> PlaneTeam:
        """Make an environment for all agents."""
        return PlaneTeam(self, render_mode)

    def individual(self, agent: str, *, anywhere: bool = False, render_mode: str | None = None) -> IndividualPlane:
        """Make an environment for an individual agent; it may start anywhere, which is good for training."""
        return IndividualPlane(self, agent, anywhere, render_mode)

    def start(self, agent: str) -> Point:
        """Return the start of an agent, as it observes it."""
        if agent not in self.starts:
            raise TaskError(f"agent {agent!r} does not exist ({known_names(agent, self.starts)})", key="starts")
        return self.seen(*self.starts[agent])

    def velocity(self, action: Any) -> NDArray[np.float64]:  # of the action space
        """Convert an action to the displacement of a step without noise."""
        if self.directions is None:
            way = np.asarray(action, np.float64)
            if way.shape != (2,) or not np.isfinite(way).all():
                raise TaskError(f"a velocity must be two finite numbers, got {action!r:.60}", key="action")
            return way * self.speed / max(1.0, float(np.hypot(*way)))
        number = int(action)
        if not 0 <= number <= self.directions:
            raise TaskError(f"a direction must lie between 0 and {self.directions}, got {number}", key="action")
        if number == self.directions:
            return np.zeros(2)
        angle = 2 * np.pi * number / self.directions
        return self.speed * np.array([np.cos(angle), np.sin(angle)])

    def aim(self, point: Point, action: Any, random: np.random.Generator) -> Point:
        """Compute the target of a step if no place were closed; it is limited to the square."""
        way = self.velocity(action) + self.noise * random.standard_normal(2)
        return np.clip(point + 2 * way / self.side, -1, 1).astype(np.float32)

    def is_in_any(self, point: Point, places: Iterable[str]) -> bool:
        """Say whether a point lies in one of some places."""
        return any(self.is_at(point, place) for place in places)

    def disc(self, place: str) -> Disc:
        """Look a place up."""
        if place not in self.places:
            raise TaskError(f"place {place!r} does not exist ({known_names(place, self.places)})", key="places")
        return self.places[place]

    def is_at(self, point: Point, place: str) -> bool:
        """Say whether an observed point lies in a place."""
        disc = self.disc(place)
        return bool(np.hypot(*(point - self.seen(disc.x, disc.y))) <= 2 * disc.radius / self.side)

    def meets(self, point: Point, condition: Condition) -> bool:
        """Say whether an agent at a point satisfies a condition of an event."""
        return any(way.place is None or self.is_at(point, way.place) == way.inside for way in condition.ways)

    def picture(self, points: Mapping[str, Point]) -> NDArray[np.uint8]:
        """Draw the places and the agents, [height, width, colour]."""
        grid = (np.indices((PIXELS, PIXELS))[::-1] + 0.5) * 2 / PIXELS - 1  # [x or y, height, width]
        image = np.full((PIXELS, PIXELS, 3), ImageColor.getrgb(FLOOR), np.uint8)
        for name, disc in sorted(self.places.items(), key=lambda place: -place[1].radius):
            image[_within(grid, self.seen(disc.x, disc.y), 2 * disc.radius / self.side)] = ImageColor.getrgb(
                self._colors[name]
            )
        for agent, color in agent_colors(self.starts).items():
            if agent in points:
                image[_within(grid, points[agent], 2 * AGENT_PIXELS / PIXELS)] = ImageColor.getrgb(color)
        return image

    @cached_property
    def _colors(self) -> dict[str, str]:
        """Colours of the places, those that their names tell where they do."""
        return choose_colors(self.places)

    def seen(self, x: float, y: float) -> Point:
        """Convert x, y to an observation."""
        return np.array([2 * x / self.side - 1, 2 * y / self.side - 1], np.float32)

    def at(self, point: Point) -> tuple[float, float]:
        """Convert an observation to x, y."""
        x, y = ((float(part) + 1) * self.side / 2 for part in point)
        return x, y


class PlaneTeam(ParallelEnv[str, Point, Any]):
    """All agents of a plane in one environment, without collisions.

    `closed(agent)` returns the places that are closed to an agent now: a step that would end in one does not move it.
    The code that adds a task sets it.
    """

    metadata = METADATA

    def __init__(self, plane: Plane, render_mode: str | None = None) -> None:
        _check_render_mode(render_mode)
        self.plane, self.render_mode = plane, render_mode
        self.possible_agents = list(plane.starts)
        self.agents: list[str] = []
        self.closed: Callable[[str], Iterable[str]] = lambda agent: ()
        self.points: dict[str, Point] = {}  # the observed positions of all agents
        self.time = 0
        self._random = np.random.default_rng()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.plane.observation_space

    @cached_property
    def _action_spaces(self) -> dict[str, spaces.Space[Any]]:
        """Spaces of their own, as each has random numbers of its own."""
        return {agent: deepcopy(self.plane.action_space) for agent in self.possible_agents}

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Point], dict[str, dict[str, Any]]]:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.agents, self.time = list(self.possible_agents), 0
        self.points = {agent: self.plane.start(agent) for agent in self.agents}
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: Mapping[str, Any]) -> Experience:
        everyone, self.time = self.agents, self.time + 1
        if not everyone:
            return {}, {}, {}, {}, {}
        for agent in everyone:
            if agent not in actions:
                raise TaskError("all agents act in every step, and this one has no action", key=f"actions.{agent}")
        aims = {agent: self.plane.aim(self.points[agent], actions[agent], self._random) for agent in everyone}
        stopped = {agent for agent, aim in aims.items() if self.plane.is_in_any(aim, self.closed(agent))}
        self.points = {agent: (self.points if agent in stopped else aims)[agent] for agent in everyone}
        over = self.time >= self.plane.most_steps
        self.agents = [] if over else everyone
        return (
            self._seen(),
            dict.fromkeys(everyone, 0.0),
            dict.fromkeys(everyone, False),
            dict.fromkeys(everyone, over),
            {agent: {} for agent in everyone},
        )

    @property
    def where(self) -> dict[str, tuple[float, float]]:
        """The positions of all agents in the square."""
        return {agent: self.plane.at(point) for agent, point in self.points.items()}

    def _seen(self) -> dict[str, Point]:
        return {agent: point.copy() for agent, point in self.points.items()}

    def render(self) -> NDArray[np.uint8] | None:
        return self.plane.picture(self.points) if self.render_mode == "rgb_array" else None


class IndividualPlane(gymnasium.Env[Any, Any]):
    """An agent of a plane without the others, with the same dynamics as in the team.

    `closed()` returns the places that are closed to it now; infos have the target of its step as `aimed`.
    """

    metadata = METADATA

    def __init__(self, plane: Plane, agent: str, anywhere: bool = False, render_mode: str | None = None) -> None:
        _check_render_mode(render_mode)
        self.plane, self.agent, self.anywhere, self.render_mode = plane, agent, anywhere, render_mode
        self.closed: Callable[[], Iterable[str]] = lambda: ()
        self.point, self.time = plane.start(agent), 0
        self.observation_space, self.action_space = plane.observation_space, deepcopy(plane.action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Point, dict[str, Any]]:
        super().reset(seed=seed)
        self.point, self.time = self.plane.start(self.agent), 0
        if self.anywhere:
            self.point = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.point.copy(), {}

    def step(self, action: Any) -> tuple[Point, float, bool, bool, dict[str, Any]]:
        aim, self.time = self.plane.aim(self.point, action, self.np_random), self.time + 1
        if not self.plane.is_in_any(aim, self.closed()):
            self.point = aim
        return self.point.copy(), 0.0, False, self.time >= self.plane.most_steps, {"aimed": aim}

    def render(self) -> Any:  # as gymnasium has it
        return self.plane.picture({self.agent: self.point}) if self.render_mode == "rgb_array" else None


def _check_render_mode(mode: str | None) -> None:
    if mode not in (None, "rgb_array"):
        raise SettingsError(f"render_mode must be None or 'rgb_array', got {mode!r}")


def _within(grid: NDArray[np.float64], middle: Point, radius: float) -> NDArray[np.bool_]:
    """Flag the pixels of a disc."""
    flags: NDArray[np.bool_] = np.hypot(*(grid - middle[:, None, None])) <= radius
    return flags
