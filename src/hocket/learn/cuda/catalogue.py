"""All learners that train on the device, by name."""

from __future__ import annotations

from hocket.errors import SettingsError, known_names
from hocket.learn import cqrm, dqprm, iql
from hocket.learn.cqrm.cuda import CqrmDeviceBlock
from hocket.learn.cuda.block import DeviceBlock
from hocket.learn.dqprm.cuda import DqprmDeviceBlock
from hocket.learn.iql.cuda import IqlDeviceBlock
from hocket.learn.settings import Settings

BLOCKS: dict[str, type[DeviceBlock]] = {
    dqprm.LEARNER.name: DqprmDeviceBlock,
    iql.LEARNER.name: IqlDeviceBlock,
    cqrm.LEARNER.name: CqrmDeviceBlock,
}


def find_block(learner: str) -> type[DeviceBlock]:
    """Find what trains a learner on the device."""
    if learner not in BLOCKS:
        raise SettingsError(f"{learner} cannot train on the device cuda ({known_names(learner, BLOCKS)})")
    return BLOCKS[learner]


def alike(learner: str, settings: Settings) -> tuple[object, ...]:
    """Name what runs that train side by side have in common."""
    return tuple(getattr(settings, name) for name in find_block(learner).alike)
