"""An agent alone, as arrays: one step of any number of copies at once, in any of its machine's states.

The same dynamics as `hocket.task.episode.IndividualEpisode`: its own cell, its own machine, and simulated teammates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError, TaskError, known_names
from hocket.machine.reward_machine import RewardMachine
from hocket.random import threshold
from hocket.task.tables import Bools, Shorts, compile_task, sync_chances
from hocket.task.task import Task

Ints = NDArray[np.int64]
Numbers = NDArray[Any] | int
SETTLED = 1e-12  # change of a value below which value iteration ends


class Alone(NamedTuple):
    """What an agent alone needs of a task (see `hocket.task.tables.Tables`), U being the states of its own machine."""

    place: int  # of the agent among all
    next_cell: Shorts  # [D, S, A, K]
    dynamics: Shorts  # [U]
    event: Shorts  # [U, S]
    next_state: Shorts  # [U, S]
    reward: NDArray[np.float64]  # [U, S]
    sync_limit: Ints  # [U, S] an event takes effect where the draw lies below
    is_final: Bools  # [U]
    start: int  # cell
    initial: int  # machine state
    slip_limit: int
    potential: NDArray[np.float64]  # [U] for shaping; 0 where nothing is shaped
    discount: float  # of the potentials
    going: Ints  # the states that are not final
    rank: Ints  # [U] the place of a state among those; behind all of them where it is final


class Moved(NamedTuple):
    """What a step has led to, for each copy."""

    cell: Ints
    label: Ints  # the event that it took for possible, or -1
    event: Ints  # the event that took effect, or -1
    state: Ints
    reward: NDArray[np.float64]
    done: Bools


def isolate(task: Task, agent: str, sync_probability: float, sync_literal: bool, shaping: float | None) -> Alone:
    """Pick what an agent alone needs of a task."""
    if agent not in task.agents:
        raise TaskError(f"agent {agent!r} does not exist ({known_names(agent, task.agents)})", key="agents")
    if not 0 < sync_probability <= 1:
        raise SettingsError(f"sync_probability must lie above 0 and be at most 1, got {sync_probability!r}")
    if shaping is not None and not 0 < shaping < 1:
        raise SettingsError(f"shaping takes the learner's discount, between 0 and 1, got {shaping!r}")
    tables, place = compile_task(task), list(task.agents).index(agent)
    machine, states = task.machines[agent], int(tables.states[place])
    chances = sync_chances(tables, sync_probability, literal=sync_literal)[place, :states]
    return Alone(
        place=place,
        next_cell=tables.next_cell[place],
        dynamics=tables.dynamics[place, :states],
        event=tables.event[place, :states],
        next_state=tables.next_state[place, :states],
        reward=tables.reward[place, :states],
        sync_limit=np.round(chances * threshold(1.0)).astype(np.int64),
        is_final=tables.is_final[place, :states],
        start=int(tables.start[place]),
        initial=int(tables.initial[place]),
        slip_limit=threshold(tables.slip),
        potential=np.zeros(states) if shaping is None else potentials(machine, shaping),
        discount=1.0 if shaping is None else shaping,
        going=np.flatnonzero(~machine.is_final),
        rank=np.where(machine.is_final, len(machine.states), np.cumsum(~machine.is_final) - 1),
    )


def advance(world: Alone, cell: Numbers, state: NDArray[Any], action: Numbers, slip: Numbers, sync: Numbers) -> Moved:
    """Let copies act, given what each of them draws; the shape is that of the states, to which all others fit."""
    outcome = np.add(slip < world.slip_limit, slip < world.slip_limit // 2, dtype=np.int64)
    end = world.next_cell[world.dynamics[state], cell, action, outcome].astype(np.int64)
    label = world.event[state, end].astype(np.int64)
    happens = (label >= 0) & (sync < world.sync_limit[state, end])
    after = np.where(happens, world.next_state[state, end], state).astype(np.int64)
    shaped = world.discount * world.potential[after] - world.potential[state]
    reward = np.where(happens, world.reward[state, end], 0.0) + shaped
    return Moved(end, label, np.where(happens, label, -1), after, reward, world.is_final[after])


def other_states(world: Alone, state: Ints) -> Ints:
    """For each state list the others that are not final, as many for all from which a step can begin: [..., M].

    An agent that is done from the beginning takes its only step from a final state; any other agent takes none there.
    """
    places = np.arange(len(world.going) - (not world.is_final[world.initial]))
    return world.going[places + (places >= world.rank[state][..., None])]


def potentials(machine: RewardMachine, discount: float) -> NDArray[np.float64]:
    """Compute the worth of each state to one that can choose the next event; final states are worth nothing more.

    Value iteration over the machine alone (Camacho et al. 2019, Toro Icarte et al. 2022): in a machine that rewards
    completion it is the discount to the power of the events that are still to come after the next one.

    >>> steps = RewardMachine(initial="0", transitions={("0", "a"): "1", ("1", "b"): "2"}, final={"2"})
    >>> potentials(steps, 0.9).tolist()
    [0.9, 1.0, 0.0]
    """
    graph, worth = machine.graph, np.zeros(len(machine.states))
    while True:
        better = np.zeros(len(worth))  # nobody is made to choose an event
        np.maximum.at(better, graph.source, machine.reward + discount * worth[graph.target])
        better[machine.is_final] = 0.0
        if np.abs(better - worth).max() < SETTLED:
            return better
        worth = better
