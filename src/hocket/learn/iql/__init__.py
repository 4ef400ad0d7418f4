"""Independent q-learning: all agents learn in the team world, each by its cell and memory."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput, Shapes
from hocket.learn.settings import DEVICES, ScheduledSettings, bootstrap_setting
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables


@dataclass(frozen=True)
class IqlSettings(ScheduledSettings):
    """Independent q-learning."""

    bootstrap_past_end: bool = bootstrap_setting()


def list_shapes(tables: Tables) -> Shapes:
    """List the arrays of a policy, with their shapes."""
    agents, cells = tables.offset.shape
    return {"q": (agents, cells, len(ACTIONS), int(tables.memories.max()))}


LEARNER = Learner(
    name="iql",
    summary="all agents learn together from the team's reward (independent Q-learning)",
    settings=IqlSettings,
    block=Lazy("hocket.learn.iql.block", "IqlBlock"),
    player=Lazy("hocket.learn.episodes", "MemoryPlayer"),
    shapes=list_shapes,
    policy_input=PolicyInput.MEMORY,
    plain=Lazy("hocket.learn.iql.reference", "IqlTeam"),
    devices=DEVICES,
    train_kernel=Lazy("hocket.learn.iql.kernel", "train_independently"),
    min_vector_seeds=2,
)
