"""DQPRM, the paper's Algorithm 1: each agent trains with simulated teammates, by its own projected reward machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hocket.lazy import Lazy
from hocket.learn.learner import Learner, PolicyInput, machine_shapes
from hocket.learn.settings import DEVICES, ScheduledSettings, SettingValue, SimulatedSettings, setting

VECTOR_LANES = 3  # lanes from which on vectors pay


@dataclass(frozen=True)
class DqprmSettings(SimulatedSettings, ScheduledSettings):
    """Decentralised q-learning with projected reward machines."""

    added: ClassVar[Mapping[str, SettingValue]] = {"team_review": "off"}

    counterfactual: bool = setting(True, "update the q-values of all machine states in every step")
    wait_for_team: bool = setting(
        False, "start an episode only when all agents have finished theirs, as the paper's code does"
    )
    team_review: str = setting(
        "off",
        "measure how often teammates are ready, instead of a constant probability: in team episodes in the "
        "environment, whose steps are training steps",
        choices=("off", "world"),
    )


LEARNER = Learner(
    name="dqprm",
    summary="each agent learns alone with its local reward machine (decentralised Q-learning, projected machines)",
    settings=DqprmSettings,
    block=Lazy("hocket.learn.dqprm.block", "make_block"),
    player=Lazy("hocket.learn.episodes", "StackPlayer"),
    shapes=machine_shapes,
    policy_input=PolicyInput.MACHINE,
    plain=Lazy("hocket.learn.dqprm.reference", "DqprmTeam"),
    devices=DEVICES,
    min_vector_seeds=VECTOR_LANES,
)
