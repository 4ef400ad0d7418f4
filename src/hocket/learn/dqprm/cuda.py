"""DQPRM on the device: a lane for each agent of each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError
from hocket.learn.cuda.block import DeviceBlock, DeviceJob, TeamBlock
from hocket.learn.cuda.device import fetched, launch, placed, zeros
from hocket.learn.dqprm import DqprmSettings, cuda_kernel
from hocket.learn.dqprm.block import lane_tables, simulated_outcomes
from hocket.learn.dqprm.kernel import DqprmLanes, LaneTables, padded
from hocket.learn.learner import Arrays, machine_shapes
from hocket.random import TRAINING, stream_key
from hocket.task.tables import Tables, draw_starts


class DqprmDeviceBlock(TeamBlock):
    """Lanes that train by themselves where machines have few states, and teams otherwise."""

    switch, by_memory = "counterfactual", False
    common_settings = (*DeviceBlock.common_settings, "wait_for_team")

    def __init__(self, tables: Tables, jobs: Sequence[DeviceJob]) -> None:
        super().__init__(tables, jobs)
        if any(settings.team_review != "off" for settings in self.variants):
            raise SettingsError("team_review must be off on a graphics processor: teams are reviewed on the processor")
        agents, cells, actions, self.states = machine_shapes(tables)["q"]
        host, row = _lane_tables(tables, self.variants)
        self.team_size = agents if self.variants[0].wait_for_team else 1
        column = np.tile(np.arange(self.states), (agents, 1))
        if self.team_size == 1 and cuda_kernel.is_small(host):
            host, columns = cuda_kernel.without_final(host)
            column = columns[:agents, : self.states]
        self.column, self.places = placed(column), column
        states = host.dynamics.shape[1]
        self.q = zeros((len(jobs), agents, cells, actions, states))
        index = np.tile(np.arange(agents, dtype=np.uint32), len(jobs))
        agent = np.repeat(row[self.variant], agents) * np.uint32(agents) + index
        keys = stream_key(TRAINING, np.repeat(self.seeds.astype(np.uint64), agents), index.astype(np.uint64))
        q = self.q.reshape(len(agent), cells, actions, states)
        clock = np.zeros(len(agent) // self.team_size, np.int64)
        place = (placed(draw_starts(tables, keys, index).astype(np.uint32)), placed(host.initial[agent]))
        self.lanes = DqprmLanes(q, placed(agent), *place, placed(keys), placed(clock))
        is_fast = self.team_size == 1 and cuda_kernel.is_small(host)
        self.kernel = cuda_kernel.lanes_kernels.get(states) if is_fast else None
        self.device_tables = placed(host if self.kernel is None else cuda_kernel.lane_worlds(host))
        self.fresh = cuda_kernel.Fresh(zeros((len(clock) if self.kernel is None else 1, states)))

    @classmethod
    def size(cls, tables: Tables) -> int:
        agents, cells, actions, states = machine_shapes(tables)["q"]
        per_lane = 4 * cells * actions * padded(states) + 64
        return agents * per_lane

    def train(self, begin: int, steps: int) -> None:
        about = (self.lanes, self.device_tables, self.parameters, self.runs)
        if self.kernel is not None:
            launch(self.kernel, len(self.lanes.agent), *about, begin, steps)
        else:
            launch(cuda_kernel.train_teams, len(self.fresh.q), *about, self.fresh, self.team_size, begin, steps)

    def arrays(self, index: int) -> Arrays:
        learnt = fetched(self.q[index])
        zero = np.zeros((*learnt.shape[:3], 1), np.float32)  # in final states, which have no column
        values = np.concatenate([learnt, zero], axis=3)
        places = np.minimum(self.places, learnt.shape[3])[:, None, None]
        return {"q": np.take_along_axis(values, places, axis=3)}


def _lane_tables(tables: Tables, variants: Sequence[DqprmSettings]) -> tuple[LaneTables, NDArray[np.uint32]]:
    """Stack the tables of all agents under all settings; also say where those of each setting begin."""
    kinds = [(settings.sync_probability, settings.sync_literal) for settings in variants]
    place = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    made = {
        kind: lane_tables(tables, simulated_outcomes(tables, settings))
        for kind, settings in zip(kinds, variants, strict=True)
    }
    parts = [made[kind] for kind in place]
    cases = max(part.next_state.shape[2] for part in parts)

    def stack(name: str) -> NDArray[Any]:
        arrays = [getattr(part, name) for part in parts]
        if name in ("limit", "next_state", "reward"):  # cases that are missing never come about
            most = cases - (name == "limit")
            gaps = [((0, 0), (0, 0), (0, most - array.shape[2]), (0, 0)) for array in arrays]
            filled = np.iinfo(np.uint32).max if name == "limit" else 0
            arrays = [np.pad(array, gap, constant_values=filled) for array, gap in zip(arrays, gaps, strict=True)]
        return np.concatenate(arrays)

    common = ("next_cell", "edges", "slip_limit", "start_cell")
    arrays: dict[str, Any] = {name: stack(name) for name in LaneTables._fields if name not in common}
    return parts[0]._replace(**arrays), np.array([place[kind] for kind in kinds], np.uint32)
