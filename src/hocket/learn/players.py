"""How each learner's policies play in the team world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError, known_names
from hocket.learn.arrays import recording, team_state, team_tables
from hocket.learn.kernels import hierarchical, joint, team
from hocket.learn.kernels.team import BY_MACHINE, BY_MEMORY, Recording
from hocket.random import threshold
from hocket.task.grid import ACTIONS
from hocket.task.tables import Tables

Arrays = Mapping[str, NDArray[np.float32]]


class Player(Protocol):
    """Plays test episodes; each thread needs its own."""

    finish: NDArray[np.int64]  # [N] when each agent was first done in the last episode, in steps; -1: never
    event_time: NDArray[np.int64]  # [E] when each event first happened in it, likewise; empty where nobody keeps it

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        """Play episode `number` of a seed; return its steps, or -1 where the task was not done."""


class ValuePlayer:
    """Plays q-functions over the cell and a machine state, or over the cell and memory."""

    def __init__(self, tables: Tables, temperature: float, episode_steps: int, looks_at: int) -> None:
        self.world, self.room = team_tables(tables), team_state(tables)
        self.beta, self.episode_steps, self.looks_at = np.float32(1 / temperature), episode_steps, looks_at
        self.finish, self.event_time = self.room.finish, self.room.event_time

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        return team.play_episode(
            arrays["q"], self.world, self.room, self.looks_at, self.beta, greedy,
            seed, number, self.episode_steps, record,
        )  # fmt: skip


class OptionPlayer:
    """Plays a meta-policy over options and a q-function for each of them."""

    def __init__(self, tables: Tables, temperature: float, episode_steps: int) -> None:
        self.world, self.room, self.options = team_tables(tables), team_state(tables), option_state(tables)
        self.beta, self.episode_steps = np.float32(1 / temperature), episode_steps
        self.finish, self.event_time = self.room.finish, self.room.event_time

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        return hierarchical.play_hierarchically(
            arrays["meta"], arrays["low"], self.world, self.room, self.options, self.beta, greedy,
            seed, number, self.episode_steps, record,
        )  # fmt: skip


class JointPlayer:
    """Plays a q-function over the cells of two agents and the team machine's state."""

    def __init__(self, tables: Tables, temperature: float, episode_steps: int) -> None:
        self.world = joint_tables(tables)
        self.beta, self.episode_steps = np.float32(1 / temperature), episode_steps
        self.finish, self.event_time = np.zeros(2, np.int64), np.zeros(0, np.int64)

    def play(self, arrays: Arrays, seed: int, number: int, greedy: bool, record: Recording) -> int:
        return joint.play_jointly(
            arrays["q"], self.world, self.beta, greedy, seed, number, self.episode_steps, record, self.finish
        )  # fmt: skip


def option_state(tables: Tables) -> hierarchical.Options:
    """Make room for the agents' current options."""
    agents = len(tables.start)
    if tables.option_bit.shape[1] == 0 or (tables.option_bit[:, 0] == -2).any():
        raise SettingsError("hil needs a task in which every agent has options")
    return hierarchical.Options(
        tables.option_target,
        tables.option_bit,
        np.full(agents, -1, np.int64),
        np.zeros(agents, np.int64),
        np.zeros(agents),
        np.zeros(agents, np.int64),
    )


def joint_tables(tables: Tables) -> joint.JointTables:
    """Pick what two agents as one need."""
    agents = np.arange(len(tables.start))[:, None]
    return joint.JointTables(
        tables.next_cell,
        np.ascontiguousarray(tables.dynamics[agents, tables.team_class]),
        np.ascontiguousarray(tables.event[agents, tables.team_class]),
        tables.knowers,
        tables.team_next,
        tables.team_final,
        np.ascontiguousarray(tables.is_final[agents, tables.team_class]),
        tables.start,
        tables.team_initial,
        threshold(tables.slip),
    )


PLAYERS: dict[str, Callable[[Tables, float, int], Player]] = {
    "dqprm": lambda tables, temperature, steps: ValuePlayer(tables, temperature, steps, BY_MACHINE),
    "optimal": lambda tables, temperature, steps: ValuePlayer(tables, temperature, steps, BY_MACHINE),
    "iql": lambda tables, temperature, steps: ValuePlayer(tables, temperature, steps, BY_MEMORY),
    "hil": OptionPlayer,
    "cqrm": JointPlayer,
}


def check_arrays(learner: str, arrays: Arrays, tables: Tables) -> None:
    """Require arrays of the names and shapes that a learner's policies have on a task."""
    agents, states, cells = tables.event.shape
    memories, options, actions = int(tables.memories.max()), tables.option_bit.shape[1], len(ACTIONS)
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "dqprm": {"q": (agents, cells, actions, states)},
        "optimal": {"q": (agents, cells, actions, states)},
        "iql": {"q": (agents, cells, actions, memories)},
        "hil": {"meta": (agents, memories, options), "low": (agents, cells, actions, options)},
        "cqrm": {"q": (cells**2, actions**2, len(tables.team_final))},
    }
    if learner not in shapes:
        raise SettingsError(f"learner {learner!r} does not exist ({known_names(learner, shapes)})")
    if {name: array.shape for name, array in arrays.items()} != shapes[learner]:
        raise SettingsError(f"this is not what {learner} learns on this task: its arrays have other names or shapes")


def play_many(
    player: Player,
    arrays: Arrays,
    seed: int,
    first: int,
    greedy: bool,
    steps: NDArray[np.int64],
    finish: NDArray[np.int32],
) -> None:
    """Play episodes first, first + 1, ... and fill in their steps and when each agent was done."""
    nothing = recording(0, finish.shape[1])
    if isinstance(player, ValuePlayer):  # without coming back to Python after each one
        team.play_episodes(
            arrays["q"], player.world, player.room, player.looks_at, player.beta, greedy,
            seed, first, player.episode_steps, nothing, steps, finish,
        )  # fmt: skip
        return
    for index in range(len(steps)):
        steps[index] = player.play(arrays, seed, first + index, greedy, nothing)
        finish[index] = player.finish
