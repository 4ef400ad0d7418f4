"""Hierarchical independent learning: agents choose among options by memory, and learn a policy for each option."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput, Shapes
from hocket.learn.settings import Settings, bootstrap_setting
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables


@dataclass(frozen=True)
class HilSettings(Settings):
    """Hierarchical independent learning."""

    bootstrap_past_end: bool = bootstrap_setting()


def list_shapes(tables: Tables) -> Shapes:
    """List the arrays of a policy, with their shapes."""
    agents, cells = tables.offset.shape
    options = tables.option_bit.shape[1]
    return {"meta": (agents, int(tables.memories.max()), options), "low": (agents, cells, len(ACTIONS), options)}


LEARNER = Learner(
    name="hil",
    summary="all agents learn together, choosing among options (hierarchical independent learners)",
    settings=HilSettings,
    block=Lazy("hocket.learn.hil.block", "HilBlock"),
    player=Lazy("hocket.learn.hil.block", "HilPlayer"),
    shapes=list_shapes,
    policy_input=PolicyInput.OPTION,
    plain=Lazy("hocket.learn.hil.reference", "HilTeam"),
    check=Lazy("hocket.learn.hil.block", "check_options"),
    train_kernel=Lazy("hocket.learn.hil.kernel", "train_hierarchically"),
    test_kernel=Lazy("hocket.learn.hil.kernel", "play_hierarchically"),
    min_vector_seeds=2,
)
