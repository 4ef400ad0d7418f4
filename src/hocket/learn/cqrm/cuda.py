"""Centralised q-learning of two agents as one on the device: a thread for each run, and for each test episode."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from hocket.learn.cqrm import LEARNER
from hocket.learn.cqrm.block import joint_tables
from hocket.learn.cqrm.kernel import (
    ROOM,
    WIDTH,
    JointTables,
    Learning,
    Room,
    Rule,
    make_room,
    play_jointly,
    train_jointly,
)
from hocket.learn.cuda.block import DeviceBlock, Job
from hocket.learn.cuda.device import cuda, device_kernel, fetched, launch, placed, zeros
from hocket.learn.cuda.rules import Row, Rules, Runs, play_at, schedule_at
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.primitives import Floats, Index, Ints
from hocket.learn.learner import Arrays
from hocket.learn.testing import Episodes, Recording
from hocket.random import TRAINING, stream_key
from hocket.task.tables import Tables


class Rooms(NamedTuple):
    """Room for what threads work out within a step; see `Room`."""

    value: Floats  # [threads, ROOM]
    weight: Floats  # [threads, ROOM]
    best: Floats  # [threads, B, V and a few more]
    finish: Ints  # [threads, 2] when each agent was first done in a test


class Pairs(NamedTuple):
    """Pairs of agents that learn as one; all that is needed to go on. See `Learning`."""

    q: Floats  # [R, S * S, A * A, V]; a few more numbers may be read past its end
    place: Ints  # [R, 4] the agents' cells, the team state, the steps of the current episode
    key: Row  # [R] uint64


@inlined
def train_pair(
    run: Index, pairs: Pairs, tables: JointTables, rules: Rules, runs: Runs, rooms: Rooms, begin: int, steps: int
) -> None:
    """Train a run's pair, if there is one."""
    if run < len(pairs.key):
        chosen = runs.variant[run]
        schedule, limit = schedule_at(rules, chosen), rules.max_episode_steps[chosen]
        rule = Rule(schedule, rules.discount[chosen], limit, rules.switch[chosen])
        room = Room(rooms.value[run], rooms.weight[run], rooms.best[run])
        train_jointly(Learning(pairs.q[run], pairs.place[run], pairs.key[run]), tables, rule, room, begin, steps)


@device_kernel
def train_pairs(
    pairs: Pairs, tables: JointTables, rules: Rules, runs: Runs, rooms: Rooms, begin: int, steps: int
) -> None:
    """Train pairs of agents as one from step `begin` on."""
    train_pair(cuda.grid(1), pairs, tables, rules, runs, rooms, begin, steps)


@inlined
def play_pair(
    thread: Index,
    pairs: Pairs,
    tables: JointTables,
    rules: Rules,
    runs: Runs,
    rooms: Rooms,
    greedy: bool,
    number: int,
    episodes: int,
    begin: int,
    played: Episodes,
) -> None:
    """Play a thread's test episode, if there is one; a run's first has a number."""
    index = begin + thread
    if thread < len(rooms.value) and index < len(played.steps):
        run, finish = index // episodes, rooms.finish[thread]
        room = Room(rooms.value[thread], rooms.weight[thread], rooms.best[thread])
        play = play_at(rules, runs, run, greedy)
        record = Recording(played.finish[:0], tables.own_state[:0], tables.own_state[:0])  # of no steps
        played.steps[index] = play_jointly(pairs.q[run], tables, room, finish, play, number + index % episodes, record)
        for agent in range(2):
            played.finish[index, agent] = finish[agent]


@device_kernel
def play_pairs(
    pairs: Pairs,
    tables: JointTables,
    rules: Rules,
    runs: Runs,
    rooms: Rooms,
    greedy: bool,
    number: int,
    episodes: int,
    begin: int,
    played: Episodes,
) -> None:
    """Play the test episodes from `begin` on, as many as there are rooms."""
    play_pair(cuda.grid(1), pairs, tables, rules, runs, rooms, greedy, number, episodes, begin, played)


class CqrmDeviceBlock(DeviceBlock):
    """Pairs of agents that learn as one."""

    switch, keeps_events = "counterfactual", False

    def __init__(self, tables: Tables, jobs: Sequence[Job]) -> None:
        super().__init__(tables, jobs)
        shape, count = LEARNER.shapes(tables)["q"], len(jobs)
        size = count * prod(shape)
        q = zeros((size + WIDTH,))[:size].reshape(count, *shape)
        host = joint_tables(tables)
        self.world = placed(host)
        start = [*tables.start.tolist(), tables.team_initial, 0]
        place = np.tile(np.array(start, np.int64), (count, 1))
        keys = stream_key(TRAINING, self.seeds.astype(np.uint64), np.zeros(count, np.uint64))
        self.pairs = Pairs(q, placed(place), placed(keys))
        room = make_room(len(host.dynamics), shape[2])
        value, weight, best = (zeros((count, *own.shape)) for own in room)
        self.rooms = Rooms(value, weight, best, zeros((count, 2), np.int64))

    @classmethod
    def size(cls, tables: Tables) -> int:
        shape = LEARNER.shapes(tables)["q"]
        return 4 * prod(shape) + 8 * ROOM + 4 * (shape[2] + WIDTH) * shape[2] + 128

    def train(self, begin: int, steps: int) -> None:
        about = (self.world, self.rules, self.runs, self.rooms, begin, steps)
        launch(train_pairs, len(self.seeds), self.pairs, *about)

    def _play(self, greedy: bool, number: int, episodes: int, begin: int, played: Episodes) -> int:
        how = (self.rules, self.runs, self.rooms, greedy, number, episodes, begin, played)
        launch(play_pairs, len(self.seeds), self.pairs, self.world, *how)
        return len(self.seeds)

    def arrays(self, index: int) -> Arrays:
        return {"q": fetched(self.pairs.q[index])}
