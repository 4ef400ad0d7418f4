"""The Markov chain of a team: all joint states that can be reached, and the chances of their steps."""

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
NEVER = 1e-300  # a chance per step below which a joint move counts as impossible
GOAL = -1  # the completed task, while states are still being numbered
CHUNK = 20_000  # joint states between two looks at the clock
MOST_WATCHED = 63  # events, each of which has a bit
EXPANDED, STATES, TRANSITIONS = range(3)  # joint states whose transitions are listed, joint states, transitions


class JointMoves(NamedTuple):
    """Where each agent goes from each cell in each state of its machine, and how likely."""

    ends: Shorts  # [N, U, S] how many cells it may go to
    end: Words  # [N, U, S, K]
    chance: Floats  # [N, U, S, K]


def tabulate_moves(tables: Tables, choice: Floats) -> JointMoves:
    """Add up where actions, chosen with the given chances [N, S, A, U], lead with all their outcomes.

    An agent in whose machine nothing can happen any more stays where it is, unless it may be in the way of others:
    nobody can tell the difference, and there are fewer joint states.
    """
    slips = np.array(outcome_probabilities(tables.slip))
    agents, cells, _, states = choice.shape
    rows = np.arange(cells)[:, None]
    most = len(STEPS)
    ends, chances = np.zeros((agents, states, cells, most), np.int32), np.zeros((agents, states, cells, most))
    count = np.zeros((agents, states, cells), np.int16)
    for agent in range(agents):
        for state in range(int(tables.states[agent])):
            end = tables.next_cell[tables.world[agent], tables.dynamics[agent, state]].reshape(cells, -1)
            chance = (choice[agent, :, :, state, None] * slips).reshape(cells, -1)
            if (tables.event[agent, state] < 0).all() and not len(tables.body):
                end, chance = rows.astype(np.int32), np.ones((cells, 1))
            order = np.argsort(end, axis=1, kind="stable")
            end, chance = end[rows, order], chance[rows, order]
            number = np.concatenate([np.zeros_like(rows), (np.diff(end) != 0).cumsum(axis=1)], axis=1)
            ends[agent, state][rows, number] = end
            np.add.at(chances[agent, state], (rows, number), chance)
            count[agent, state] = number[:, -1] + 1
    return JointMoves(count, ends, chances)


class JointChain(NamedTuple):
    """A team's chain, and where its agents are in each joint state.

    If agents may start in several cells, state 0 is before the beginning, in no cell (-1), and leads to all starts.
    """

    chain: Chain
    cell: Words  # [states, N]
    state: Shorts  # [states, N] of their machines
    happened: EventSets  # [transitions] which of the watched events happen; of no transition, where none is watched
    paid: Floats  # [states, N] what each agent expects to be paid in the next step; [0, N] where only completion pays
    most_paid: Floats  # [N] the most that a step may pay it or cost it

    @property
    def lead(self) -> int:
        """How many steps of the chain come before the first step of an episode: 1, if several cells are starts."""
        return int(self.chain.states > 0 and self.cell[0, 0] < 0)


class ChainBuffers(NamedTuple):
    """Room for joint states and transitions, and how many there are so far."""

    sizes: Ints  # [3] of EXPANDED, STATES and TRANSITIONS
    cell: Words  # [states, N]
    state: Shorts  # [states, N]
    slot: Words  # [a power of 2] joint states by a hash of what they are, counted from 1; 0: free
    first: Ints  # [states + 1]
    target: Words  # [transitions]
    chance: Floats  # [transitions]
    happened: EventSets  # [transitions], or [0] where no event is watched
    watched: Ints  # [W] events
    pick: Ints  # [N] which of its moves each agent makes
    paid: Floats  # [states, N] or [0, N]
    most_paid: Floats  # [N]


def explore(tables: Tables, moves: JointMoves, report: Report, watched: Sequence[int] = ()) -> JointChain:
    """List the joint states that can be reached and their transitions; refuse what is too large, with its size.

    Of the events that are watched, by their numbers, transitions tell whether they happen.
    """
    world, team = team_tables(tables), team_state(tables)
    starts = prod(np.diff(tables.first_start).tolist())
    if starts > MOST_STATES:
        raise SettingsError(f"the joint chain has {starts:,} starts, up to {MOST_STATES:,} can be solved")
    # Room for the most that is allowed: pages of memory that nothing is written to take none.
    agents, most, most_transitions = len(tables.start), max(MOST_STATES, starts + 2), max(MOST_TRANSITIONS, starts)
    buffers = ChainBuffers(
        sizes=np.zeros(3, np.int64),
        cell=np.zeros((most, agents), np.int32),
        state=np.zeros((most, agents), np.int16),
        slot=np.zeros(1 << (2 * most).bit_length(), np.int32),
        first=np.zeros(most + 1, np.int64),
        target=np.zeros(most_transitions, np.int32),
        chance=np.zeros(most_transitions),
        happened=np.zeros(most_transitions if watched else 0, np.uint64),
        watched=np.array(watched, np.int64),
        pick=np.zeros(agents, np.int64),
        paid=np.zeros((most * tables.has_rewards, agents)),
        most_paid=np.zeros(agents),
    )
    rest, anywhere = np.arange(starts), np.zeros((starts, agents), np.int32)
    for agent in range(agents):
        rest, place = np.divmod(rest, len(tables.starts(agent)))
        anywhere[:, agent] = tables.starts(agent)[place]
    begin(buffers, team, world, anywhere)
    expanded, states, transitions = buffers.sizes.tolist()
    while expanded < states:
        until = expanded + CHUNK
        expand(world, team, moves, buffers, until)
        expanded, states, transitions = buffers.sizes.tolist()
        report(f"{states:,} joint states found, {expanded:,} of them done")
        if expanded < min(states, until):
            size = f"more than {states:,} states, {expanded:,} of which have {transitions:,} transitions"
            allowed = f"up to {MOST_STATES:,} states and {MOST_TRANSITIONS:,} transitions can be solved"
            raise SettingsError(f"the joint chain has {size}; {allowed}, so estimate it instead")
    target = np.where(buffers.target[:transitions] == GOAL, states, buffers.target[:transitions])
    chain = Chain(buffers.first[: states + 1], target, buffers.chance[:transitions])
    listed = (buffers.cell[:states], buffers.state[:states], buffers.happened[:transitions], buffers.paid[:states])
    return JointChain(chain, *listed, buffers.most_paid)


@inlined
def number_of(buffers: ChainBuffers, team: TeamState) -> int:
    """Find the number of the joint state that a team is in; a new one gets the next number."""
    states, last, mark = buffers.sizes[STATES], len(buffers.slot) - 1, np.uint64(0)
    for agent in range(len(team.cell)):
        buffers.cell[states, agent], buffers.state[states, agent] = team.cell[agent], team.state[agent]
        mark = (mark ^ np.uint64(team.cell[agent] * 65_536 + team.state[agent])) * GOLDEN
        mark ^= mark >> np.uint64(29)
    slot = np.int64(mark & np.uint64(last))
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
            buffers.target[start], buffers.chance[start] = number, 1 / len(starts)


@inlined
def step_jointly(
    now: int, buffers: ChainBuffers, moves: JointMoves, team: TeamState, tables: TeamTables
) -> tuple[float, bool]:
    """Move everyone from a joint state as picked; return how likely that is, and whether the task is then done."""
    chance, ready = 1.0, 0
    for agent in range(len(team.cell)):
        cell, state, pick = buffers.cell[now, agent], buffers.state[now, agent], buffers.pick[agent]
        team.cell[agent], team.state[agent] = cell, state
        ready += enter(agent, moves.end[agent, state, cell, pick], team, tables)
        chance *= moves.chance[agent, state, cell, pick]
        team.earned[agent] = 0.0
    for event in buffers.watched:
        team.event_time[event] = -1
    return chance, settle(ready, 0, team, tables) == DONE


@inlined
def watched_events(buffers: ChainBuffers, team: TeamState) -> np.uint64:
    """Say which of the watched events have happened in the last step."""
    events = np.uint64(0)
    for bit in range(len(buffers.watched)):
        if team.event_time[buffers.watched[bit]] >= 0:
            events |= np.uint64(1) << np.uint64(bit)
    return events


@inlined
def expect_rewards(now: int, chance: float, buffers: ChainBuffers, team: TeamState) -> None:
    """Add what a step from a joint state has paid, with its chance, to what agents expect there."""
    for agent in range(len(team.earned)):
        buffers.paid[now, agent] += chance * team.earned[agent]
        buffers.most_paid[agent] = max(buffers.most_paid[agent], abs(team.earned[agent]))


@inlined
def pick_next(now: int, buffers: ChainBuffers, moves: JointMoves) -> bool:
    """Pick the next joint move from a joint state; say whether there is one."""
    for agent in range(len(buffers.pick)):
        buffers.pick[agent] += 1
        if buffers.pick[agent] < moves.ends[agent, buffers.state[now, agent], buffers.cell[now, agent]]:
            return True
        buffers.pick[agent] = 0
    return False


@kernel
def expand(tables: TeamTables, team: TeamState, moves: JointMoves, buffers: ChainBuffers, until: int) -> None:
    """List the transitions of joint states, as far as there is room."""
    sizes = buffers.sizes
    while sizes[EXPANDED] < min(sizes[STATES], until):
        expanded, transitions = sizes[EXPANDED], sizes[TRANSITIONS]
        buffers.first[expanded] = transitions
        if tables.has_rewards:
            buffers.paid[expanded, :] = 0.0
        more = True
        while more:
            chance, done = step_jointly(expanded, buffers, moves, team, tables)
            if chance >= NEVER:
                if sizes[STATES] == len(buffers.cell) or transitions == len(buffers.target):
                    buffers.pick[:] = 0
                    return
                buffers.target[transitions] = GOAL if done else number_of(buffers, team)
                buffers.chance[transitions] = chance
                if tables.has_rewards:
                    expect_rewards(expanded, chance, buffers, team)
                if len(buffers.watched) > 0:
                    buffers.happened[transitions] = watched_events(buffers, team)
                transitions += 1
            more = pick_next(expanded, buffers, moves)
        sizes[EXPANDED], sizes[TRANSITIONS] = expanded + 1, transitions
        buffers.first[expanded + 1] = transitions


class TeamChain(NamedTuple):
    """A team's chain in which completed states are states too, without transitions; nothing leads to its goal."""

    chain: Chain
    joint: Ints  # [states] the joint state of each; the number after the last one is the completed task
    happened: EventSets  # [states] which of the watched events happened in the step that led there

    def has_just_seen(self, bit: int) -> Flags:
        """Say of each state whether an event has happened in the step that led there."""
        return (self.happened >> np.uint64(bit) & np.uint64(1)).astype(np.bool_)


def tell_events(joint: JointChain) -> TeamChain:
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
    split = Chain(first, number[:-1][row], chain.chance[row])
    return TeamChain(split, of_joint, sets[of_events])


def transition_matrix(team: TeamChain) -> csr_array:
    """Add up transitions to the same state; completed states stay."""
    count = team.chain.states
    source = np.repeat(np.arange(count), np.diff(team.chain.first))
    matrix = coo_array((team.chain.chance, (source, team.chain.target)), shape=(count, count)).tocsr()
    stays = (np.diff(team.chain.first) == 0).astype(np.float64)
    total = (matrix + dia_array((stays[None], [0]), shape=(count, count))).tocsr()
    total.sort_indices()
    return total
