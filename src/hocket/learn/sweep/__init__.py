"""Prioritised sweeping: each agent learns how its moves turn out, hopes for the best where it does not know, and plans.

It trains with simulated teammates, as DQPRM does, and knows its local reward machine, where on the map its events
happen, where gates are, how likely simulated teammates are to be ready, and that a step leads no farther than to the
next cell. How moves turn out (walls, slips, what a gate closes) it learns from tries.
"""

from __future__ import annotations

from dataclasses import dataclass

from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput, machine_shapes
from hocket.learn.settings import SimulatedSettings, setting


@dataclass(frozen=True)
class SweepSettings(SimulatedSettings):
    """Prioritised sweeping over a learnt model."""

    unused = frozenset({"learning_rate"})

    optimism: float = setting(
        1.0, "in training, each move also has so many imagined tries that turned out best", "tries", above=0, most=1e6
    )
    caution: float = setting(
        0.03, "in tests, each move also has so many imagined tries that turned out worst", "tries", above=0, most=1e6
    )
    backups: int = setting(100, "how many cells are planned anew, at most", "cells per step", least=1, most=10**6)
    least_change: float = setting(
        1e-3, "the change of a value, as a part of it, from which on it is passed on to other cells", least=0, most=1
    )


LEARNER = Learner(
    name="sweep",
    summary="each agent learns alone how its moves turn out, and plans with its local reward machine (model-based)",
    settings=SweepSettings,
    block=Lazy("hocket.learn.sweep.block", "SweepBlock"),
    player=Lazy("hocket.learn.episodes", "ValuePlayer"),
    shapes=machine_shapes,
    policy_input=PolicyInput.MACHINE,
    extra_bytes=Lazy("hocket.learn.sweep.block", "extra_bytes"),
    steps=25_000,
)
