"""The Markov chain of a team: all joint states that can be reached, and their transition probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, dia_array

from hocket.errors import SettingsError
from hocket.evaluation.elimination import Chain, Flags, Floats, Ints, Report
from hocket.learn.episodes import team_state, team_tables
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.draws import GOLDEN
from hocket.learn.kernels.team import DONE, TeamState, TeamTables, enter, reset_team, settle
from hocket.task.grid import STEPS, outcome_probabilities
from hocket.task.tables import Shorts, Tables, Words

EventSets = NDArray[np.uint64]  # a bit for each event that is watched

MOST_STATES = 2_000_000  # joint states
MOST_TRANSITIONS = 60_000_000  # between them; about 100 bytes each while they are solved
NEVER = 1e-300  # a probability per step below which a joint move counts as impossible
GOAL = -1  # the completed task, while states are still being numbered
CHUNK = 20_000  # joint states between two reports
MOST_WATCHED = 63  # events, each of which has a bit
EXPANDED, STATES, TRANSITIONS = range(3)  # joint states whose transitions are listed, joint states, transitions


class JointMoves(NamedTuple):
    """Where each agent goes from each cell in each state of its machine, and with which probability."""

    counts: Shorts  # [N, U, S] of cells that it may go to
    end: Words  # [N, U, S, K]
    probability: Floats  # [N, U, S, K]


def tabulate_moves(tables: Tables, choice: Floats) -> JointMoves:
    """Add up where actions, chosen with the given probabilities [N, S, A, U], lead with all their outcomes.

    An agent whose machine has no more transitions stays in its cell, unless it may be in the way of others: this gives
    the same results with fewer joint states.
    """
    slips = np.array(outcome_probabilities(tables.slip))
    agents, cells, _, states = choice.shape
    rows = np.arange(cells)[:, None]
    shape = (agents, states, cells, len(STEPS))
    moves = JointMoves(np.zeros(shape[:3], np.int16), np.zeros(shape, np.int32), np.zeros(shape))
    for agent in range(agents):
        for state in range(int(tables.states[agent])):
            end = tables.next_cell[tables.world[agent], tables.dynamics[agent, state]].reshape(cells, -1)
            probability = (choice[agent, :, :, state, None] * slips).reshape(cells, -1)
            if (tables.event[agent, state] < 0).all() and not len(tables.body):
                end, probability = rows.astype(np.int32), np.ones((cells, 1))
            order = np.argsort(end, axis=1, kind="stable")
            end, probability = end[rows, order], probability[rows, order]
            number = np.concatenate([np.zeros_like(rows), (np.diff(end) != 0).cumsum(axis=1)], axis=1)
            moves.end[agent, state][rows, number] = end
            np.add.at(moves.probability[agent, state], (rows, number), probability)
            moves.counts[agent, state] = number[:, -1] + 1
    return moves


class JointChain(NamedTuple):
    """A team's chain, and the cells and machine states of its agents in each joint state. If agents may start in
    several cells, state 0 is before the beginning, in no cell (-1), and leads to all starts."""

    chain: Chain
    cell: Words  # [states, N]
    state: Shorts  # [states, N] of their machines
    happened: EventSets  # [transitions] which of the watched events happen; of no transition, where none is watched
    reward: Floats  # [states, N] each agent's expected reward of the next step; [0, N] where only completion pays
    largest_reward: Floats  # [N] absolute, of a step

    @property
    def lead(self) -> int:
        """The number of steps of the chain before the first step of an episode: 1, if several cells are starts."""
        return int(self.chain.states > 0 and self.cell[0, 0] < 0)


class ChainBuffers(NamedTuple):
    """Arrays for joint states and transitions, and how many there are so far."""

    sizes: Ints  # [3] of EXPANDED, STATES and TRANSITIONS
    cell: Words  # [states, N]
    state: Shorts  # [states, N]
    slot: Words  # [a power of 2] joint states by their hash, counted from 1; 0: free
    first: Ints  # [states + 1]
    target: Words  # [transitions]
    probability: Floats  # [transitions]
    happened: EventSets  # [transitions], or [0] where no event is watched
    watched: Ints  # [W] events
    move: Ints  # [N] the index of each agent's move
    reward: Floats  # [states, N] or [0, N]
    largest_reward: Floats  # [N]


def explore(tables: Tables, moves: JointMoves, report: Report, watched: Sequence[int] = ()) -> JointChain:
    """List the joint states that can be reached and their transitions, with which of the events to watch happen; refuse
    what is too large, with its size."""
    world, team = team_tables(tables), team_state(tables)
    start_counts = np.diff(tables.first_start).tolist()
    starts = prod(start_counts)
    if starts > MOST_STATES:
        raise SettingsError(f"the joint chain has {starts:,} starts, up to {MOST_STATES:,} can be solved")
    # Arrays of the largest size that is allowed: pages of memory that nothing is written to take none.
    agents, most, most_transitions = len(tables.start), max(MOST_STATES, starts + 2), max(MOST_TRANSITIONS, starts)
    buffers = ChainBuffers(
        sizes=np.zeros(3, np.int64),
        cell=np.zeros((most, agents), np.int32),
        state=np.zeros((most, agents), np.int16),
        slot=np.zeros(1 << (2 * most).bit_length(), np.int32),
        first=np.zeros(most + 1, np.int64),
        target=np.zeros(most_transitions, np.int32),
        probability=np.zeros(most_transitions),
        happened=np.zeros(most_transitions if watched else 0, np.uint64),
        watched=np.array(watched, np.int64),
        move=np.zeros(agents, np.int64),
        reward=np.zeros((most * tables.has_rewards, agents)),
        largest_reward=np.zeros(agents),
    )
    choices = np.unravel_index(np.arange(starts), start_counts, order="F")
    start_cells = np.stack([tables.starts(agent)[choice] for agent, choice in enumerate(choices)], axis=1)
    begin(buffers, team, world, start_cells.astype(np.int32))
    expanded, states, transitions = buffers.sizes.tolist()
    while expanded < states:
        until = expanded + CHUNK
        expand(world, team, moves, buffers, until)
        expanded, states, transitions = buffers.sizes.tolist()
        report(f"{states:,} joint states, {expanded:,} of them expanded")
        if expanded < min(states, until):
            size = f"more than {states:,} states, {expanded:,} of which have {transitions:,} transitions"
            allowed = f"up to {MOST_STATES:,} states and {MOST_TRANSITIONS:,} transitions can be solved"
            raise SettingsError(f"the joint chain has {size}; {allowed}, so estimate it instead")
    target = np.where(buffers.target[:transitions] == GOAL, states, buffers.target[:transitions])
    chain = Chain(buffers.first[: states + 1], target, buffers.probability[:transitions])
    listed = (buffers.cell[:states], buffers.state[:states], buffers.happened[:transitions], buffers.reward[:states])
    return JointChain(chain, *listed, buffers.largest_reward)


@inlined
def number_of(buffers: ChainBuffers, team: TeamState) -> int:
    """Look up the number of the joint state that a team is in; a new one gets the next number."""
    states, last, key = buffers.sizes[STATES], len(buffers.slot) - 1, np.uint64(0)
    for agent in range(len(team.cell)):
        buffers.cell[states, agent], buffers.state[states, agent] = team.cell[agent], team.state[agent]
        key = (key ^ np.uint64(team.cell[agent] * 65_536 + team.state[agent])) * GOLDEN
        key ^= key >> np.uint64(29)
    slot = np.int64(key & np.uint64(last))
    while buffers.slot[slot] > 0:
        same, other = True, np.int64(buffers.slot[slot]) - 1
        for agent in range(len(team.cell)):
            same = same and buffers.cell[states, agent] == buffers.cell[other, agent]
            same = same and buffers.state[states, agent] == buffers.state[other, agent]
        if same:
            return int(other)
        slot = (slot + 1) & last
    buffers.sizes[STATES] = buffers.slot[slot] = states + 1
    return int(states)


@kernel
def begin(buffers: ChainBuffers, team: TeamState, tables: TeamTables, starts: Words) -> None:
    """Begin with the start, or a state that leads to all starts [starts, N]; with none if the task is done at once."""
    if reset_team(0, team, tables):
        return
    if len(starts) > 1:
        buffers.cell[0] = -1
        for agent in range(len(team.state)):
            buffers.state[0, agent] = team.state[agent]
        buffers.sizes[STATES] = buffers.sizes[EXPANDED] = 1
        buffers.first[1] = buffers.sizes[TRANSITIONS] = len(starts)
    for start in range(len(starts)):
        for agent in range(len(team.cell)):  # of other types, and assigned as a whole they would need an allocation
            team.cell[agent] = starts[start, agent]
        number = number_of(buffers, team)
        if len(starts) > 1:
            buffers.target[start], buffers.probability[start] = number, 1 / len(starts)


@inlined
def step_jointly(
    now: int, buffers: ChainBuffers, moves: JointMoves, team: TeamState, tables: TeamTables
) -> tuple[float, bool]:
    """Let all agents make their next moves from a joint state; return the probability, and whether the task is done."""
    probability, ready = 1.0, 0
    for agent in range(len(team.cell)):
        cell, state, move = buffers.cell[now, agent], buffers.state[now, agent], buffers.move[agent]
        team.cell[agent], team.state[agent] = cell, state
        ready += enter(agent, moves.end[agent, state, cell, move], team, tables)
        probability *= moves.probability[agent, state, cell, move]
        team.earned[agent] = 0.0
    for event in buffers.watched:
        team.event_time[event] = -1
    return probability, settle(ready, 0, team, tables) == DONE


@inlined
def watched_events(buffers: ChainBuffers, team: TeamState) -> np.uint64:
    """Return which of the watched events happened in the last step."""
    events = np.uint64(0)
    for bit in range(len(buffers.watched)):
        if team.event_time[buffers.watched[bit]] >= 0:
            events |= np.uint64(1) << np.uint64(bit)
    return events


@inlined
def next_move(now: int, buffers: ChainBuffers, moves: JointMoves) -> bool:
    """Choose the next joint move from a joint state; say whether there is one."""
    for agent in range(len(buffers.move)):
        buffers.move[agent] += 1
        if buffers.move[agent] < moves.counts[agent, buffers.state[now, agent], buffers.cell[now, agent]]:
            return True
        buffers.move[agent] = 0
    return False


@kernel
def expand(tables: TeamTables, team: TeamState, moves: JointMoves, buffers: ChainBuffers, until: int) -> None:
    """List the transitions of joint states, as long as they fit into the buffers."""
    sizes = buffers.sizes
    while sizes[EXPANDED] < min(sizes[STATES], until):
        now, transitions = sizes[EXPANDED], sizes[TRANSITIONS]
        buffers.first[now] = transitions
        if tables.has_rewards:
            buffers.reward[now, :] = 0.0
        more = True
        while more:
            probability, done = step_jointly(now, buffers, moves, team, tables)
            if probability >= NEVER:
                if sizes[STATES] == len(buffers.cell) or transitions == len(buffers.target):
                    buffers.move[:] = 0
                    return
                buffers.target[transitions] = GOAL if done else number_of(buffers, team)
                buffers.probability[transitions] = probability
                for agent in range(len(team.earned) if tables.has_rewards else 0):
                    buffers.reward[now, agent] += probability * team.earned[agent]
                    buffers.largest_reward[agent] = max(buffers.largest_reward[agent], abs(team.earned[agent]))
                if len(buffers.watched) > 0:
                    buffers.happened[transitions] = watched_events(buffers, team)
                transitions += 1
            more = next_move(now, buffers, moves)
        sizes[EXPANDED], sizes[TRANSITIONS] = now + 1, transitions
        buffers.first[now + 1] = transitions


class TeamChain(NamedTuple):
    """A team's chain in which completed states are states too, without transitions; nothing leads to its goal."""

    chain: Chain
    joint: Ints  # [states] the joint state of each; the number after the last one is the completed task
    happened: EventSets  # [states] which of the watched events happened in the step that led there

    def has_just_seen(self, bit: int) -> Flags:
        """Flag the states to which a step led in which an event happened."""
        return (self.happened >> np.uint64(bit) & np.uint64(1)).astype(np.bool_)


def split_by_events(joint: JointChain) -> TeamChain:
    """Split joint states by the events that happened in the step that led there."""
    chain = joint.chain
    happened = joint.happened if len(joint.happened) else np.zeros(len(chain.target), np.uint64)
    sets, index = np.unique(np.append(happened, np.uint64(0)), return_inverse=True)  # the last one is the first state's
    pair = np.append(chain.target, 0).astype(np.int64) * len(sets) + index
    pairs, number = np.unique(pair, return_inverse=True)  # the first state, before which nothing happened, stays first
    of_joint, of_events = np.divmod(pairs, len(sets))
    begins, lengths = np.append(chain.first[:-1], 0), np.append(np.diff(chain.first), 0)
    first = np.concatenate([[0], np.cumsum(lengths[of_joint])])
    if first[-1] > MOST_TRANSITIONS:
        size = f"whose {len(pairs):,} states tell which events have happened has {first[-1]:,} transitions"
        raise SettingsError(f"the chain {size}; up to {MOST_TRANSITIONS:,} can be solved, so ask for fewer events")
    row = np.repeat(begins[of_joint] - first[:-1], lengths[of_joint]) + np.arange(first[-1])
    split = Chain(first, number[:-1][row], chain.probability[row])
    return TeamChain(split, of_joint, sets[of_events])


def transition_matrix(team: TeamChain) -> csr_array:
    """Add up transitions to the same state; completed states stay."""
    count = team.chain.states
    source = np.repeat(np.arange(count), np.diff(team.chain.first))
    matrix = coo_array((team.chain.probability, (source, team.chain.target)), shape=(count, count)).tocsr()
    stays = (np.diff(team.chain.first) == 0).astype(np.float64)
    total = (matrix + dia_array((stays[None], [0]), shape=(count, count))).tocsr()
    total.sort_indices()
    return total
