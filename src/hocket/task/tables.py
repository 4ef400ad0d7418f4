"""Tasks as arrays of numbers: the only form that kernels see.

N agents, U states of the largest machine, D dynamics (sets of open gates), S cells, A actions, K outcomes of an action,
E events, O options, V states of the team machine. What an agent has fewer of is padded.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.errors import TaskError
from hocket.machine.composition import Composition
from hocket.machine.reward_machine import RewardMachine
from hocket.random import threshold
from hocket.task.gates import closed_cells
from hocket.task.grid import ACTIONS, OUTCOMES
from hocket.task.labelling import check_labelling, label_table
from hocket.task.task import Task

MOST_STATES = 32_000  # of one agent's machine; they are 16-bit numbers
MOST_EVENTS = 32_000  # likewise
MOST_COMPOSED = 20_000  # states of a composition up to which the team machine is tabulated
MOST_TEAM_ENTRIES = 100_000_000  # of the team machine's table; past that the team's own state is not followed

NOBODY = np.zeros(1, np.int32)  # has to know what is no event; stands behind all events, where -1 leads

Shorts = NDArray[np.int16]
Bools = NDArray[np.bool_]


class Tables(NamedTuple):
    """A compiled task."""

    next_cell: Shorts  # [N, D, S, A, K] where an action leads
    dynamics: Shorts  # [N, U] which of the D apply
    event: Shorts  # [N, U, S] the event that the agent proposes, or -1
    next_state: Shorts  # [N, U, S] its machine's state after that event; the same state where there is none
    reward: NDArray[np.float64]  # [N, U, S] what its machine pays for that event
    has_partner: Bools  # [N, E] whether a teammate controls the event, too
    is_shared: Bools  # [N, E] whether a teammate knows the event, too
    fixed_sync: NDArray[np.float64]  # [N, E] the task's own chance of synchronisation, or NaN
    is_final: Bools  # [N, U]
    states: Shorts  # [N] how many states its machine has
    start: Shorts  # [N] cell
    initial: Shorts  # [N] machine state
    knowers: NDArray[np.int32]  # [E] how many agents know the event
    memory_bit: Shorts  # [N, E] the bit of the agent's memory that the event sets, or -1
    memories: NDArray[np.int32]  # [N] how many values its memory has
    option_target: Bools  # [N, O, S] where an option is completed
    option_bit: Shorts  # [N, O] the bit that makes it available; -1: always; -2: there is no such option
    slip: float  # chance that a move goes astray
    team_next: NDArray[np.int32]  # [V, E] the team machine's next state, or -1; V is 0 where it is too large
    team_final: Bools  # [V]
    team_initial: int
    team_class: Shorts  # [N, V] the agent's machine state that contains a team state


def compile_task(task: Task) -> Tables:
    """Compile a task, refusing one whose labelling functions are not well defined."""
    verdict = check_labelling(task)
    if not verdict.ok and verdict.condition != 3:
        raise TaskError(f"{verdict.witness}; an agent must propose at most one event", key="labelling")
    if len(task.events) > MOST_EVENTS:
        raise TaskError(f"a task may have {MOST_EVENTS:,} events, got {len(task.events):,}", key="events")
    machines = list(task.machines.values())
    sizes = [len(machine.states) for machine in machines]
    if max(sizes) > MOST_STATES:
        raise TaskError(f"an agent's machine may have {MOST_STATES:,} states, got {max(sizes):,}", key="machine")
    is_final = np.zeros((len(machines), max(sizes)), np.bool_)
    for index, machine in enumerate(machines):
        is_final[index, : sizes[index]] = machine.is_final
    next_cell, dynamics = _dynamics(task, max(sizes))
    event, next_state, reward = _labels(task, max(sizes))
    has_partner, is_shared, fixed_sync, knowers = _synchronization(task)
    memory_bit, memories = _memory(task)
    option_target, option_bit = _options(task)
    team_next, team_final, team_initial, team_class = _team(task)
    return Tables(
        next_cell=next_cell,
        dynamics=dynamics,
        event=event,
        next_state=next_state,
        reward=reward,
        has_partner=has_partner,
        is_shared=is_shared,
        fixed_sync=fixed_sync,
        is_final=is_final,
        states=np.array(sizes, np.int16),
        start=np.array([agent.start for agent in task.agents.values()], np.int16),
        initial=np.array([machine.start for machine in machines], np.int16),
        knowers=knowers,
        memory_bit=memory_bit,
        memories=memories,
        option_target=option_target,
        option_bit=option_bit,
        slip=float(task.slip),
        team_next=team_next,
        team_final=team_final,
        team_initial=team_initial,
        team_class=team_class,
    )


def _dynamics(task: Task, most: int) -> tuple[Shorts, Shorts]:
    """Tabulate moves once for each set of closed cells that occurs, and say which one each machine state has."""
    kinds: list[dict[frozenset[int], int]] = []
    dynamics = np.zeros((len(task.agents), most), np.int16)
    for index, agent in enumerate(task.agents):
        own: dict[frozenset[int], int] = {}
        for state, closed in enumerate(closed_cells(task, agent)):
            dynamics[index, state] = own.setdefault(closed, len(own))
        kinds.append(own)
    shape = (len(kinds), max(map(len, kinds)), task.grid.cells, len(ACTIONS), OUTCOMES)
    next_cell = np.zeros(shape, np.int16)
    made: dict[frozenset[int], Shorts] = {}
    for index, own in enumerate(kinds):
        for closed, kind in own.items():
            if closed not in made:
                made[closed] = task.grid.outcomes(closed)
            next_cell[index, kind] = made[closed]
    return next_cell, dynamics


def _labels(task: Task, most: int) -> tuple[Shorts, Shorts, NDArray[np.float64]]:
    """Tabulate which event each agent proposes, where its machine then goes, and what that pays."""
    shape = (len(task.agents), most, task.grid.cells)
    event = np.full(shape, -1, np.int16)
    next_state = np.broadcast_to(np.arange(most, dtype=np.int16)[None, :, None], shape).copy()
    reward = np.zeros(shape)
    place = {name: position for position, name in enumerate(task.events)}
    for index, (agent, machine) in enumerate(task.machines.items()):
        labels = label_table(task, agent)
        number = np.array([place[name] for name in machine.events], np.int16)
        graph = machine.graph
        for edge, (source, label, target) in enumerate(zip(*(part.tolist() for part in graph[1:]), strict=True)):
            here = labels[source] == label
            event[index, source, here] = number[label]
            next_state[index, source, here] = target
            reward[index, source, here] = machine.reward[edge]
    return event, next_state, reward


def _synchronization(task: Task) -> tuple[Bools, Bools, NDArray[np.float64], NDArray[np.int32]]:
    """Tabulate who shares which event with whom, and the chances that a task fixes itself."""
    shape = (len(task.agents), len(task.events))
    place = {name: position for position, name in enumerate(task.events)}
    knowers = np.zeros(len(task.events), np.int32)
    for own in task.knows.values():
        knowers[[place[name] for name in own]] += 1
    has_partner, is_shared = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    fixed_sync = np.full(shape, np.nan)
    for index, (agent, row) in enumerate(task.agents.items()):
        for name in row.knows:
            has_partner[index, place[name]] = any(other != agent for other in task.control[name])
            is_shared[index, place[name]] = knowers[place[name]] > 1
        for name, chance in row.sync.items():
            fixed_sync[index, place[name]] = chance
    return has_partner, is_shared, fixed_sync, knowers


def _memory(task: Task) -> tuple[Shorts, NDArray[np.int32]]:
    place = {name: position for position, name in enumerate(task.events)}
    bits = np.full((len(task.agents), len(task.events)), -1, np.int16)
    for index, agent in enumerate(task.agents.values()):
        for bit, name in enumerate(agent.memory):
            bits[index, place[name]] = bit
    return bits, np.array([1 << len(agent.memory) for agent in task.agents.values()], np.int32)


def _options(task: Task) -> tuple[Bools, Shorts]:
    most = max(len(agent.options) for agent in task.agents.values())
    target = np.zeros((len(task.agents), most, task.grid.cells), np.bool_)
    bits = np.full((len(task.agents), most), -2, np.int16)
    for index, agent in enumerate(task.agents.values()):
        for number, option in enumerate(agent.options):
            target[index, number, list(task.grid.places[option.target])] = True
            bits[index, number] = -1 if option.after is None else agent.memory.index(option.after)
    return target, bits


def _team(task: Task) -> tuple[NDArray[np.int32], Bools, int, Shorts]:
    """Tabulate the team machine, where it is given with all its states and not too large."""
    team, agents = task.machine, len(task.agents)
    parts = None
    if isinstance(team, Composition) and team.most_states <= MOST_COMPOSED and _is_into_parts(task, team):
        parts, team = team.part_states(), team.machine()
    if not isinstance(team, RewardMachine) or len(team.states) * len(team.events) > MOST_TEAM_ENTRIES:
        return np.zeros((0, len(task.events)), np.int32), np.zeros(0, np.bool_), 0, np.zeros((agents, 0), np.int16)
    following = np.full((len(team.states), len(team.events)), -1, np.int32)
    following[team.graph.source, team.graph.label] = team.graph.target
    if parts is not None:
        return following, team.is_final.copy(), team.start, parts
    classes = np.zeros((agents, len(team.states)), np.int16)
    if task.is_single_agent:
        classes[0] = np.arange(len(team.states))
        return following, team.is_final.copy(), team.start, classes
    for index, machine in enumerate(task.machines.values()):
        for state, members in machine.members.items():
            for member in members:
                classes[index, team.states.index(member)] = machine.states.index(state)
    return following, team.is_final.copy(), team.start, classes


def _is_into_parts(task: Task, team: Composition) -> bool:
    """Say whether the agents' machines are the parts of the composition, in the same order."""
    return list(task.machines.items()) == list(team.parts.items())


# The team: what happens when agents propose events.


def synchronized(proposed: NDArray[Any], knowers: NDArray[np.int32]) -> Bools:
    """Flag for each agent whether what it proposes happens: all who know the event propose it. [..., N]

    Proposals are events by number, or -1. Whatever stands before the agents' axis are cases that know nothing of each
    other, such as many joint states at once.

    >>> synchronized(np.array([[0, 0, 1], [0, -1, 2]]), np.array([2, 1, 2])).tolist()
    [[True, True, True], [False, False, False]]
    """
    place, cases = proposed + 1, math.prod(proposed.shape[:-1])
    if cases > 1:  # each has its own tally
        place = place + (np.arange(cases) * (len(knowers) + 1)).reshape((*proposed.shape[:-1], 1))
    needed = np.concatenate((knowers, NOBODY))[proposed]
    happens: Bools = np.bincount(place.ravel())[place] == needed
    return happens


# One agent with simulated teammates.


class IndividualTable(NamedTuple):
    """What an agent that trains with simulated teammates needs of a task, U being the states of its own machine.

    A final state leads to itself and pays nothing: no machine has a transition there.
    """

    place: int  # of the agent among all
    next_cell: Shorts  # [D, S, A, K]
    dynamics: Shorts  # [U]
    event: Shorts  # [U, S] the event that the agent proposes, or -1
    next_state: Shorts  # [U, S] its machine's state after that event; the same state where there is none
    reward: NDArray[Any]  # [U, S] what its machine pays for that event; kernels take single precision
    chance: NDArray[np.float64]  # [U, S] that the event takes effect, for teammates are ready; 1 where there is none
    sync_limit: NDArray[np.int64]  # [U, S] the same as a threshold: it takes effect where the draw lies below
    is_final: Bools  # [U]
    start: int  # cell
    initial: int  # machine state
    slip: float  # chance that a move goes astray
    slip_limit: int  # the same as a threshold


def individual_table(
    tables: Tables, agent: int, sync_probability: float, *, sync_literal: bool = False
) -> IndividualTable:
    """Pick what an agent needs that trains with simulated teammates."""
    states = int(tables.states[agent])
    chance = _sync_chances(tables, agent, sync_probability, sync_literal)[:states]
    return IndividualTable(
        place=agent,
        next_cell=tables.next_cell[agent],
        dynamics=tables.dynamics[agent, :states],
        event=tables.event[agent, :states],
        next_state=tables.next_state[agent, :states],
        reward=tables.reward[agent, :states],
        chance=chance,
        sync_limit=np.round(chance * float(threshold(1.0))).astype(np.int64),
        is_final=tables.is_final[agent, :states],
        start=int(tables.start[agent]),
        initial=int(tables.initial[agent]),
        slip=tables.slip,
        slip_limit=threshold(tables.slip),
    )


def _sync_chances(tables: Tables, agent: int, probability: float, literal: bool) -> NDArray[np.float64]:
    """Tabulate the chance per step that an event takes effect: [U, S].

    Synchronisation is simulated: a shared event takes effect with `probability` where a teammate controls it, too,
    and at once where the agent is its only controller. Read literally, the paper has all shared events wait.
    """
    event, fixed = tables.event[agent], tables.fixed_sync[agent]
    waits = tables.is_shared[agent] if literal else tables.is_shared[agent] & tables.has_partner[agent]
    by_event = np.where(np.isnan(fixed), np.where(waits, probability, 1.0), fixed)
    chance: NDArray[np.float64] = np.append(by_event, 1.0)[event]  # the last one is for no event
    return chance
