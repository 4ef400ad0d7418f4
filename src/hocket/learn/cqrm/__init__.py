"""CQRM: centralised q-learning of all agents as one, by the team's reward machine."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput, Shapes
from hocket.learn.settings import DEVICES, ScheduledSettings, setting
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables


@dataclass(frozen=True)
class CqrmSettings(ScheduledSettings):
    """Centralised q-learning with the team's reward machine."""

    counterfactual: bool = setting(True, "update the q-values of all machine states in every step")
    most_memory: int = setting(
        4_000_000_000, "memory limit of the q-function of one seed and its workspace", "bytes", least=0, most=10**15
    )


def list_shapes(tables: Tables) -> Shapes:
    """List the arrays of a policy, with their shapes."""
    agents = len(tables.start)
    return {"q": (tables.cells**agents, len(ACTIONS) ** agents, len(tables.team_final))}


LEARNER = Learner(
    name="cqrm",
    summary="one learner for all agents, with the team's reward machine (centralised Q-learning)",
    settings=CqrmSettings,
    block=Lazy("hocket.learn.cqrm.block", "CqrmBlock"),
    player=Lazy("hocket.learn.cqrm.block", "CqrmPlayer"),
    shapes=list_shapes,
    policy_input=PolicyInput.TEAM,
    plain=Lazy("hocket.learn.reference", "QrmAgent"),
    devices=DEVICES,
    check=Lazy("hocket.learn.cqrm.block", "check_size"),
    train_kernel=Lazy("hocket.learn.cqrm.kernel", "train_jointly"),
    test_kernel=Lazy("hocket.learn.cqrm.kernel", "play_jointly"),
)
