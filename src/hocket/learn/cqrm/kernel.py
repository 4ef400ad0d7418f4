"""Centralised q-learning with the team's reward machine, over joint cells and joint actions.

v is a team state, and `target` what q(s, a, v) moves towards: r + discount * max over a' of q(s', a', v').
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.learn.kernels.actions import NOTHING, SOFTLY, PlayParameters, exponential, largest, load_rows, rates_at
from hocket.learn.kernels.arrays import Bools, Doubles, Floats, Index, Ints, Keys, Shorts, UInts, UWhole, Words, u64
from hocket.learn.kernels.compiler import inlined, kernel
from hocket.learn.kernels.draws import drawn_part, first_number, second_number, slip_outcome, start_cell, stream_key
from hocket.learn.kernels.team import hold_apart
from hocket.learn.kernels.vectors import counted, load, store
from hocket.learn.settings import LearningRule
from hocket.learn.testing import Recording
from hocket.random import TEAM
from hocket.task.bodies import NO_BODIES

ACTIONS = 5
FIVE = u64(ACTIONS)
LANES = 16  # joint actions whose weights are computed at once
WIDTH = 8  # team states whose best values are computed at once
EACH_STATE = (0,) * WIDTH

Team = tuple[int, ...]  # the numbers of the agents: a tuple, so that kernels are compiled for so many


class JointTables(NamedTuple):
    """A task's tables for N agents as one. A final team state leads to itself and pays nothing."""

    next_cell: UWhole  # [N, D, S, A, K]
    dynamics: NDArray[np.uint16]  # [B, N] of each agent, for each combination that occurs
    combination: UInts  # [V] the combination of a team state
    kind: UWhole  # [N, arrivals]
    offset: UInts  # [N, S]
    edges: tuple[int, ...]  # of length 2 if the task has edges, or else 1: kernels are compiled for either
    settled: UInts  # [H ** N, V] the team state after a step, by the kinds of the agents' steps
    reward: Floats  # [H ** N, V] what the step pays
    agent_reward: Doubles  # [N, H ** N, V] the part of it that each agent's machine pays, of `has_rewards`
    has_rewards: bool  # other than 1 for completing the task
    is_final: Bools  # [V]
    local_state: Shorts  # [N, V] the state of an agent's machine that contains a team state
    is_local_final: Bools  # [N, V] whether that is final
    first_start: Words  # [N + 1]
    start_cell: Words  # [all cells in which agents may start]
    initial: int  # team state
    slip_limit: int
    kinds: int  # H
    body_rule: int
    body: Words  # [S], or nothing
    agents: Team


class JointWorkspace(NamedTuple):
    """Buffers within a step."""

    value: Floats  # [A ** N and a few more] of the joint actions
    weight: Floats  # [A ** N and a few more]
    best: Floats  # [B, V and a few more] the best joint action's value where a step ends, for each dynamics
    move: Ints  # [2, N] the action of each agent, and whether and how it slips
    end: Ints  # [2, B] the joint cell where a step ends, and the agents' kinds of steps, for each dynamics
    cell: Ints  # [B, N] where each agent ends, for each dynamics
    held: Ints  # [N] marks of agents with bodies; -1 between steps
    claim: Ints  # [S] and of cells, if agents have bodies; zero between steps
    position: Ints  # [N] the agents' cells in a test
    finish: Ints  # [N] when each agent's machine was first final in the test, in steps; -1: never
    earned: Doubles  # [N] what that machine has paid, if a task has rewards


class CqrmTraining(NamedTuple):
    """The training state of agents as one."""

    q: Floats  # [S ** N, A ** N, V]; up to WIDTH numbers may be read past its end
    position: Ints  # [N + 2] the agents' cells, the team state, the steps of the current episode
    key: Keys  # [N / 2] of the streams of random numbers, one for two agents


def make_workspace(agents: int, bodies: int, combinations: int, states: int = 0) -> JointWorkspace:
    """Make buffers for so many combinations of dynamics and team states; without states, to choose actions only."""
    value, weight = np.zeros((2, -(-(ACTIONS**agents) // LANES) * LANES), np.float32)
    best = np.zeros((combinations, states + WIDTH), np.float32)
    move, end = np.zeros((2, agents), np.int64), np.zeros((2, combinations), np.int64)
    cell, held = np.zeros((combinations, agents), np.int64), np.full(agents, -1, np.int64)
    claim, (position, finish) = np.zeros(bodies, np.int64), np.zeros((2, agents), np.int64)
    return JointWorkspace(value, weight, best, move, end, cell, held, claim, position, finish, np.zeros(agents))


@inlined
def count_actions(agents: Team) -> Index:
    """Count the joint actions, which is a constant in compiled code."""
    actions = u64(1)
    for _ in range(len(agents)):
        actions *= u64(ACTIONS)
    return actions


@inlined
def joint_action(
    q: Floats, agents: Team, state: Index, beta: np.float32, greedy: bool, drawn: Index, workspace: JointWorkspace
) -> None:
    """Choose a joint action by q in a joint cell, [A ** N, V], and write each agent's action to `workspace.move`."""
    value, weight = workspace.value, workspace.weight
    actions = count_actions(agents)
    for action in range(actions):
        value[action] = q[action, state]
    best = value[0]
    for first in range(u64(0), actions, FIVE):
        one, two, three, four = first + u64(1), first + u64(2), first + u64(3), first + u64(4)
        best = max(best, largest((value[first], value[one], value[two], value[three], value[four])))
    if greedy:
        for action in range(actions):
            weight[action] = np.float32(value[action] == best)
    else:
        for first in range(u64(0), actions, u64(LANES)):
            store(weight, first, exponential(beta * (load(value, first, LANES) - best)))
    total = NOTHING
    for action in range(actions):
        total += weight[action]
        value[action] = total
    mark = drawn_part(drawn) * total
    chosen = u64(0)
    for action in range(actions - u64(1)):
        chosen += u64(counted(mark >= value[action]))
    for agent in range(len(agents)):
        workspace.move[0, len(agents) - 1 - agent] = chosen % u64(ACTIONS)
        chosen //= u64(ACTIONS)


@inlined
def joint_cell(position: Ints, tables: JointTables) -> Index:
    """Number the agents' cells together."""
    cells = u64(0)
    for agent in range(len(tables.agents)):
        cells = cells * u64(tables.next_cell.shape[2]) + u64(position[agent])
    return cells


@inlined
def step(position: Ints, combination: Index, workspace: JointWorkspace, tables: JointTables) -> tuple[Index, Index]:
    """Find where the agents' actions end under some dynamics; return the joint cell, and the kinds of their steps."""
    ends = workspace.cell[combination]
    for agent in range(len(tables.agents)):
        dynamics, cell = u64(tables.dynamics[combination, agent]), u64(position[agent])
        action, outcome = u64(workspace.move[0, agent]), u64(workspace.move[1, agent])
        ends[agent] = tables.next_cell[agent, dynamics, cell, action, outcome]
    if tables.body_rule != NO_BODIES:
        hold_apart(tables.body_rule, tables.body, position, ends, workspace.held, workspace.claim)
    cells, kinds = u64(0), u64(0)
    for agent in range(len(tables.agents)):
        end = u64(ends[agent])
        offset = u64(tables.offset[agent, u64(position[agent])]) if len(tables.edges) > 1 else u64(0)
        cells = cells * u64(tables.next_cell.shape[2]) + end
        kinds = kinds * u64(tables.kinds) + u64(tables.kind[agent, offset + end])
    return cells, kinds


@inlined
def find_best(q: Floats, agents: Team, cells: Index, workspace: JointWorkspace, combination: Index) -> None:
    """Find the value of the best joint action in every team state, in a joint cell."""
    actions, states = count_actions(agents), u64(q.shape[2])
    width = u64(workspace.best.shape[1])
    for first in range(u64(0), states, u64(WIDTH)):
        at = cells * actions * states + first
        highest = largest(load_rows(q, at, states, EACH_STATE, load))
        for action in range(FIVE, actions, FIVE):
            highest = max(highest, largest(load_rows(q, at + action * states, states, EACH_STATE, load)))
        store(workspace.best, combination * width + first, highest)


@kernel
def train_jointly(
    training: CqrmTraining, tables: JointTables, rule: LearningRule, workspace: JointWorkspace, begin: int, steps: int
) -> None:
    """Train from step `begin` on; the halves of a random number decide which of two agents slip."""
    q, position, key = training
    agents = len(tables.agents)
    state, clock = u64(position[agents]), position[agents + 1]
    for time in range(begin, begin + steps):
        alpha, beta = rates_at(rule, time)
        cells = joint_cell(position, tables)
        joint_action(q[cells], tables.agents, state, beta, SOFTLY, first_number(key[0], time), workspace)
        action = u64(0)
        for agent in range(agents):
            slips = second_number(key[agent // 2], time)
            slips = slips << np.uint64(32) if agent % 2 else slips
            workspace.move[1, agent] = slip_outcome(slips, tables.slip_limit)
            action = action * u64(ACTIONS) + u64(workspace.move[0, agent])
        for combination in range(u64(len(tables.dynamics))):  # before any update: a step may end where it began
            end, kinds = step(position, combination, workspace, tables)
            workspace.end[0, combination], workspace.end[1, combination] = end, kinds
            if combination == 0 or end != u64(workspace.end[0, 0]):
                find_best(q, tables.agents, end, workspace, combination)
        for team_state in range(u64(len(tables.is_final))):
            if rule.counterfactual or team_state == state:
                combination = u64(tables.combination[team_state])
                end, kinds = workspace.end[0, combination], u64(workspace.end[1, combination])
                next_state, reward = u64(tables.settled[kinds, team_state]), tables.reward[kinds, team_state]
                old = q[cells, action, team_state]
                best_in = u64(0) if end == workspace.end[0, 0] else combination
                target = reward + rule.discount * workspace.best[best_in, next_state]
                q[cells, action, team_state] = old + alpha * (target - old)
        moved = u64(tables.combination[state])
        for agent in range(agents):
            position[agent] = workspace.cell[moved, agent]
        state = u64(tables.settled[u64(workspace.end[1, moved]), state])
        clock += 1
        if tables.is_final[state] or clock >= rule.max_episode_steps:
            for agent in range(agents):
                first = tables.first_start[agent]
                count = tables.first_start[agent + 1] - first
                number = key[agent // 2] + u64(agent % 2)  # the second of two agents has another stream
                position[agent] = start_cell(number, time + 1, first, count, tables.start_cell)
            state, clock = u64(tables.initial), np.int64(0)
    position[agents], position[agents + 1] = state, clock


@kernel
def play_jointly(
    q: Floats, tables: JointTables, workspace: JointWorkspace, play: PlayParameters, number: int, recording: Recording
) -> int:
    """Play a test episode; return its steps, or -1 if the task was not done in time. The actions are drawn from the
    first agent's stream, the slips from each agent's own."""
    agents, state = len(tables.agents), u64(tables.initial)
    position, finish, earned = workspace.position, workspace.finish, workspace.earned
    actions = stream_key(TEAM, play.seed, np.int64(0), number)
    for agent in range(agents):
        first, key = tables.first_start[agent], stream_key(TEAM, play.seed, np.int64(agent), number)
        earned[agent] = 0.0
        position[agent] = start_cell(key, 0, first, tables.first_start[agent + 1] - first, tables.start_cell)
        finish[agent] = 0 if tables.is_local_final[agent, state] else -1
    for time in range(play.most_steps):
        if tables.is_final[state]:
            return time
        cells = joint_cell(position, tables)
        joint_action(q[cells], tables.agents, state, play.beta, play.greedy, first_number(actions, time), workspace)
        for agent in range(agents):
            key = stream_key(TEAM, play.seed, np.int64(agent), number)
            workspace.move[1, agent] = slip_outcome(second_number(key, time), tables.slip_limit)
        combination = u64(tables.combination[state])
        _, kinds = step(position, combination, workspace, tables)
        for agent in range(agents):
            position[agent] = workspace.cell[combination, agent]
            if tables.has_rewards:
                earned[agent] += tables.agent_reward[agent, kinds, state]
        state = u64(tables.settled[kinds, state])
        for agent in range(agents):
            if finish[agent] < 0 and tables.is_local_final[agent, state]:
                finish[agent] = time + 1
            if time < len(recording.cell):
                recording.cell[time, agent], recording.action[time, agent] = position[agent], workspace.move[0, agent]
                recording.state[time, agent] = tables.local_state[agent, state]
    return play.most_steps if tables.is_final[state] else -1
