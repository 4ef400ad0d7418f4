"""Optimal local policies: exact value iteration on each agent's product of world and machine."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput, machine_shapes
from hocket.learn.settings import SimulatedSettings, setting


@dataclass(frozen=True)
class OptimalSettings(SimulatedSettings):
    """Optimal local policies by value iteration; nothing is learnt, so training steps have no effect."""

    unused = frozenset({"learning_rate"})

    tolerance: float = setting(1e-10, "largest error of a value", "reward", above=0, most=1)


LEARNER = Learner(
    name="optimal",
    summary="each agent's optimal policy alone, with simulated teammates, computed by value iteration",
    settings=OptimalSettings,
    block=Lazy("hocket.learn.optimal.block", "OptimalBlock"),
    player=Lazy("hocket.learn.episodes", "ValuePlayer"),
    shapes=machine_shapes,
    policy_input=PolicyInput.MACHINE,
    needs="it plans with the map, and learns nothing",
    is_reference=True,
    extra_bytes=Lazy("hocket.learn.optimal.block", "extra_bytes"),
    min_vector_seeds=2,
)
