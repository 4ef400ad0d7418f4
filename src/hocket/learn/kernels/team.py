"""A step of the team: moves, synchronisation of events, and memories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hocket.learn.kernels.arrays import Bools, Doubles, Index, Ints, Keys, Shorts, Whole, Words, u64
from hocket.learn.kernels.compiler import inlined
from hocket.learn.kernels.draws import start_cell, stream_key
from hocket.random import TEAM
from hocket.task.bodies import NO_BODIES, NONE_GOES, ONE_IN_REGION

ENDLESS, GOING, DONE = -1, 0, 1  # how a step ends: it never settles, the task is not done yet, or it is
FEW = 4  # agents
SPENT = -(1 << 40)  # tally of an edge event that has happened in this step: no number of proposals offsets it


class TeamTables(NamedTuple):
    """A task's tables that a step of the team needs (see `hocket.task.tables.Tables`)."""

    next_cell: Whole  # [W, D, S, A, K]
    world: Words  # [N]
    dynamics: Shorts  # [N, U]
    kind: Whole  # [N, arrivals]
    offset: Words  # [N, S]
    event: Whole  # [N, U, H, C]
    next_state: Shorts  # [N, U, H, C]
    is_final: Bools  # [N, U]
    knowers: Words  # [E]
    first_knower: Words  # [E + 1]
    knower: Words  # [sum of knowers]
    first_memory: Words  # [E + 1]
    memory_agent: Words  # [all that is remembered]
    memory_bit: Shorts  # [all that is remembered]
    first_start: Words  # [N + 1]
    start_cell: Words  # [all cells in which agents may start]
    initial: Shorts  # [N]
    slip_limit: int
    is_edge: Bools  # [E]
    edges: tuple[int, ...]  # of length 2 if the task has edges, or else 1: kernels are compiled for either
    most_rounds: int
    body_rule: int
    body: Words  # [S], or nothing
    reward: Doubles  # [N, U, H, C]
    has_rewards: bool  # other than 1 for completing the task


class TeamWorkspace(NamedTuple):
    """Buffers within a step of a team."""

    kind: Ints  # [N] of the agents' steps
    following: Ints  # [N] the next states of the agents' machines; -1 between rounds
    tally: Ints  # [E] how many agents propose an event; negative where it is spent; zero between steps
    before: Ints  # [N] the cells of agents with bodies before the step
    claim: Ints  # [S] which agent goes to a cell, if agents have bodies; zero between steps


class TeamState(NamedTuple):
    """The state of a team; owned by the caller and used again for every episode. Many teams are one of these with an
    axis more: the first, if they share the workspace, or else the last."""

    cell: Ints  # [N]
    state: Ints  # [N] of the agents' machines
    memory: Ints  # [N] bits
    key: Keys  # [N] of the streams of random numbers
    finish: Ints  # [N] when the agent's machine was first final, in steps; -1: never
    event_time: Ints  # [E] when the event first happened, in steps; -1: never
    earned: Doubles  # [N] what the agent's machine has paid in the episode, where a task has rewards
    workspace: TeamWorkspace


@inlined
def reset_team(time: Index, team: TeamState, tables: TeamTables) -> bool:
    """Begin an episode, by the random numbers of a step; say whether the task is done already."""
    done = True
    for agent in range(len(team.cell)):
        first = tables.first_start[agent]
        count = tables.first_start[agent + 1] - first
        team.cell[agent] = start_cell(team.key[agent], time, first, count, tables.start_cell)
        team.state[agent] = tables.initial[agent]
        team.memory[agent] = 0
        is_final = tables.is_final[agent, tables.initial[agent]]
        team.finish[agent] = 0 if is_final else -1
        team.earned[agent] = 0.0
        done = done and is_final
    for event in range(len(team.event_time)):
        team.event_time[event] = -1
    return done


@inlined
def act(agent: Index, action: Index, outcome: Index, team: TeamState, tables: TeamTables) -> Index:
    """Let an agent act, with a given slip, and propose events; return how many of these all agents propose now."""
    index, cell = u64(agent), u64(team.cell[agent])
    dynamics = u64(tables.dynamics[index, u64(team.state[index])])
    end = tables.next_cell[u64(tables.world[index]), dynamics, cell, u64(action), u64(outcome)]
    return enter(agent, end, team, tables)


@inlined
def enter(agent: Index, cell: Index, team: TeamState, tables: TeamTables) -> Index:
    """Let an agent go to a cell and propose events; agents with bodies propose when the cells of all are known."""
    before = team.cell[agent]
    team.cell[agent] = cell
    if tables.body_rule != NO_BODIES:
        team.workspace.before[agent] = before
        return np.int64(0)
    note_kind(agent, before, team, tables)
    return propose(agent, team, tables)


@inlined
def note_kind(agent: Index, before: Index, team: TeamState, tables: TeamTables) -> None:
    """Record the kind of an agent's step."""
    index = u64(agent)
    offset = u64(tables.offset[index, u64(before)]) if len(tables.edges) > 1 else u64(0)
    team.workspace.kind[index] = tables.kind[index, offset + u64(team.cell[index])]


@inlined
def is_clash(rule: int, unit: Words, before: Ints, cell: Ints, claim: Ints) -> bool:
    """Say whether two agents with bodies would be in one cell or region, or swap; `claim` is as in `hold_apart`."""
    clash, agents = False, u64(len(cell))
    if agents <= u64(FEW) and rule != ONE_IN_REGION:  # then comparing all pairs is faster
        for agent in range(u64(1), agents):
            for other in range(agent):
                swap = cell[agent] == before[other] and cell[other] == before[agent]
                clash = clash or cell[agent] == cell[other] or swap
        return clash
    for agent in range(agents):
        target = unit[u64(cell[agent])]
        if target >= 0:
            clash = clash or claim[u64(target)] != 0
            claim[u64(target)] = agent + u64(1)
    for agent in range(agents):
        if rule != ONE_IN_REGION:
            other = u64(claim[u64(before[agent])]) - u64(1)  # the agent that goes to this one's former cell
            clash = clash or (other < agents and other != agent and cell[agent] == before[other])
        target = unit[u64(cell[agent])]
        if target >= 0:
            claim[u64(target)] = 0
    return clash


@inlined
def hold_apart(rule: int, unit: Words, before: Ints, cell: Ints, held: Ints, claim: Ints) -> None:
    """Leave agents with bodies in their former cells where `hocket.task.bodies` says so. `held` and `claim` are buffers
    for marks of agents, -1 between steps, and of cells, zero between steps."""
    clash, agents = is_clash(rule, unit, before, cell, claim), u64(len(cell))
    while clash:
        for agent in range(agents):
            target, source = unit[u64(cell[agent])], unit[u64(before[agent])]
            if target >= 0 and source == target:
                claim[u64(target)] = agent + u64(1)
            elif source >= 0 and rule == ONE_IN_REGION:
                claim[u64(source)] = np.int64(-1) - np.int64(agent)  # the first agent after this one may enter
        clash = False
        for turn in range(agents + agents if rule == ONE_IN_REGION else agents):
            agent = turn if turn < agents else turn - agents
            target = unit[u64(cell[agent])]
            if target >= 0 and unit[u64(before[agent])] != target:
                first = claim[u64(target)]
                if first <= 0 and np.int64(turn) >= -first:
                    claim[u64(target)] = agent + u64(1)
                elif first > 0 and first != np.int64(agent) + np.int64(1):
                    clash, held[agent], other = True, 0, u64(first) - u64(1)
                    if rule == NONE_GOES and unit[u64(before[other])] != target:
                        held[other] = 0
        if not clash and rule != ONE_IN_REGION:
            for agent in range(agents):
                other = u64(claim[u64(before[agent])]) - u64(1)  # the agent that goes to this one's former cell
                if other < agents and other != agent and cell[agent] == before[other]:
                    held[agent] = 0
        for agent in range(agents):
            target, source = unit[u64(cell[agent])], unit[u64(before[agent])]
            if target >= 0:
                claim[u64(target)] = 0
            if source >= 0:
                claim[u64(source)] = 0
            if held[agent] == 0:
                cell[agent], held[agent] = before[agent], np.int64(-1)


@inlined
def propose(agent: int, team: TeamState, tables: TeamTables) -> Index:
    """Add an agent to the tallies of the events it proposes; return how many of them all knowers propose now."""
    kind = u64(team.workspace.kind[agent])
    ready = np.int64(0)
    for slot in range(u64(tables.event.shape[3])):
        proposed = tables.event[u64(agent), u64(team.state[agent]), kind, slot]
        if proposed < 0:
            break
        event = u64(proposed)
        team.workspace.tally[event] += 1
        ready += int(team.workspace.tally[event] == tables.knowers[event])
    return ready


@inlined
def withdraw(agent: int, team: TeamState, tables: TeamTables) -> None:
    """Remove an agent from the tallies of the events it proposes."""
    kind = u64(team.workspace.kind[agent])
    for slot in range(u64(tables.event.shape[3])):
        proposed = tables.event[u64(agent), u64(team.state[agent]), kind, slot]
        if proposed < 0:
            break
        event = u64(proposed)
        team.workspace.tally[event] = min(team.workspace.tally[event], np.int64(0))


@inlined
def settle(ready: Index, time: int, team: TeamState, tables: TeamTables) -> int:
    """Let events happen in rounds until none is `ready`, that is proposed by all; return DONE, GOING or ENDLESS."""
    if tables.body_rule != NO_BODIES:
        held, claim = team.workspace.following, team.workspace.claim
        hold_apart(tables.body_rule, tables.body, team.workspace.before, team.cell, held, claim)
        for agent in range(len(team.cell)):
            note_kind(agent, team.workspace.before[agent], team, tables)
            ready += propose(agent, team, tables)
    rounds = 0
    while ready > 0 and rounds < tables.most_rounds:
        for event in range(len(team.workspace.tally)):
            if team.workspace.tally[event] == tables.knowers[event] and tables.knowers[event] > 0:
                _happen(event, time, team, tables)
        for agent in range(len(team.cell)):
            withdraw(agent, team, tables)
        ready = np.int64(0)
        for agent in range(len(team.cell)):
            if team.workspace.following[agent] >= 0:
                team.state[agent], team.workspace.following[agent] = team.workspace.following[agent], np.int64(-1)
            ready += propose(agent, team, tables)
        rounds += 1
    done = True
    for agent in range(len(team.cell)):
        withdraw(agent, team, tables)
        is_final = tables.is_final[u64(agent), u64(team.state[agent])]
        done = done and is_final
        if is_final and team.finish[agent] < 0:
            team.finish[agent] = time
    if len(tables.edges) > 1 and rounds > 0:
        for event in range(len(team.workspace.tally)):
            team.workspace.tally[event] = 0
    return ENDLESS if ready > 0 else int(done)


@inlined
def _happen(event: int, time: int, team: TeamState, tables: TeamTables) -> None:
    """Let an event happen, unless an agent that knows it has taken part in another event of this round."""
    begin, end = tables.first_knower[event], tables.first_knower[event + 1]
    for index in range(begin, end):
        if team.workspace.following[u64(tables.knower[index])] >= 0:
            return
    for index in range(begin, end):
        agent = u64(tables.knower[index])
        state, kind = u64(team.state[agent]), u64(team.workspace.kind[agent])
        for slot in range(u64(tables.event.shape[3])):
            if tables.event[agent, state, kind, slot] == event:
                team.workspace.following[agent] = tables.next_state[agent, state, kind, slot]
                if tables.has_rewards:
                    team.earned[agent] += tables.reward[agent, state, kind, slot]
    if len(tables.edges) > 1 and tables.is_edge[event]:
        team.workspace.tally[event] = SPENT
    if team.event_time[event] < 0:
        team.event_time[event] = time
    for index in range(tables.first_memory[event], tables.first_memory[event + 1]):
        team.memory[u64(tables.memory_agent[index])] |= np.int64(1) << np.int64(tables.memory_bit[index])


@inlined
def team_return(team: TeamState, done: bool, tables: TeamTables) -> float:
    """Compute the return so far: the sum of all agents' rewards, or 1 if the task is done and only that pays."""
    if not tables.has_rewards:
        return 1.0 if done else 0.0
    paid = 0.0
    for agent in range(len(team.earned)):
        paid += team.earned[agent]
    return paid


@inlined
def begin_team(seed: Index, number: Index, team: TeamState, tables: TeamTables) -> bool:
    """Begin a test episode of a seed; say whether the task is done already."""
    for agent in range(len(team.key)):
        team.key[agent] = stream_key(TEAM, seed, agent, number)
    return reset_team(0, team, tables)
