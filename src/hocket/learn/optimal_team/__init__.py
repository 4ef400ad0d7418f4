"""The team's optimum: the joint policy with the fewest expected steps or, if the task has rewards, the largest return.

It acts by all agents' cells and the state of the team machine, which no agent alone can see: a reference line that no
learner can beat. With a world that was learnt before, it plans with what is known of the map.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput
from hocket.learn.settings import Settings, SettingValue, setting, world_setting


@dataclass(frozen=True)
class OptimalTeamSettings(Settings):
    """The fewest expected steps or the largest return, by value iteration over joint states; nothing is learnt."""

    unused = frozenset({"learning_rate"})

    added: ClassVar[Mapping[str, SettingValue]] = {"world": "none"}

    tolerance: float = setting(1e-6, "relative change of expected values at which iteration ends", above=0, most=1)
    world: str = world_setting()


LEARNER = Learner(
    name="optimal-team",
    summary="the optimal joint policy of a small team, computed by value iteration over joint states",
    settings=OptimalTeamSettings,
    block=Lazy("hocket.learn.optimal_team.block", "OptimalTeamBlock"),
    player=Lazy("hocket.learn.optimal_team.block", "JointPlayer"),
    shapes=Lazy("hocket.learn.optimal_team.block", "list_shapes"),
    policy_input=PolicyInput.TEAM,
    needs="it plans with the map, and learns nothing",
    check=Lazy("hocket.learn.optimal_team.block", "find_space"),
    is_reference=True,
    begins_with_world=True,
    extra_bytes=Lazy("hocket.learn.optimal_team.block", "extra_bytes"),
    min_vector_seeds=2,
)
