"""Prioritised sweeping: each agent learns a model of its moves, with optimism in the face of uncertainty, and plans.

It trains with simulated teammates, as DQPRM does, and knows its local reward machine, in which cells its events happen,
where gates are, how likely simulated teammates are to be ready, and that a step leads no farther than to the next cell.
The outcomes of moves (walls, slips, closed gates) it learns from experience.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput, machine_shapes
from hocket.learn.settings import SettingValue, SimulatedSettings, setting, world_setting


@dataclass(frozen=True)
class SweepSettings(SimulatedSettings):
    """Prioritised sweeping over a learnt model."""

    unused = frozenset({"learning_rate"})
    added: ClassVar[Mapping[str, SettingValue]] = {
        "prior": "distance",
        "share_world": False,
        "world": "none",
        "practice": 0,
        "final_review": False,
    }

    prior: str = setting(
        "distance",
        "in training, the optimistic value of untried actions: by the distance to events on the map without walls, or "
        "flat, the same in all cells",
        choices=("distance", "flat"),
    )
    optimism: float = setting(
        1.0, "in training, optimistic pseudo-counts per state and action", "tries", above=0, most=1e6
    )
    caution: float = setting(
        0.03, "in tests, pessimistic pseudo-counts per state and action", "tries", above=0, most=1e6
    )
    team_review: str = setting(
        "imagined",
        "measure how often teammates are ready, instead of a constant probability: in team episodes simulated in the "
        "agents' models (imagined), or in the environment (world), whose steps are training steps",
        choices=("imagined", "world", "off"),
    )
    practice: int = setting(
        4,
        "if the simulated team relies on untried moves, its agents act together in the environment, in training steps: "
        "at most this many times after a review",
        "times",
        least=0,
        most=1_000,
    )
    final_review: bool = setting(
        True, "simulate the team once more after the last step, and keep its policies if all of 960 episodes succeed"
    )
    backups: int = setting(100, "maximum number of cells that are backed up", "cells per step", least=1, most=10**6)
    priority_threshold: float = setting(
        1e-3, "relative change of a value above which its predecessors are queued", least=0, most=1
    )
    share_world: bool = setting(False, "let the agents of a team share their counts of the outcomes of moves")
    world: str = world_setting()


LEARNER = Learner(
    name="sweep",
    summary="each agent learns a model of its moves and plans with its local reward machine (prioritised sweeping)",
    settings=SweepSettings,
    block=Lazy("hocket.learn.sweep.block", "make_block"),
    player=Lazy("hocket.learn.episodes", "ValuePlayer"),
    shapes=machine_shapes,
    policy_input=PolicyInput.MACHINE,
    needs="it knows where on the map events happen and how far a step leads, which is unknown in other environments",
    begins_with_world=True,
    keeps_world=True,
    extra_bytes=Lazy("hocket.learn.sweep.block", "extra_bytes"),
    steps=25_000,
)
