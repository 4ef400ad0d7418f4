"""Joint policies with the fewest expected steps or, if a task has rewards, the largest return, and their player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from hocket.errors import SettingsError, TaskError
from hocket.graphs import can_reach, make_graph
from hocket.learn.kernels.arrays import Doubles, Floats, Ints
from hocket.learn.learner import Arrays, Player, Shapes
from hocket.learn.optimal_team import OptimalTeamSettings, kernel
from hocket.learn.testing import Recording, TestResults, recording
from hocket.learn.world import WorldModel, list_moves
from hocket.random import TEAM
from hocket.task.grid import ACTIONS, STAY, outcome_probabilities
from hocket.task.tables import SettledCases, Tables
from hocket.task.teamwork.joint import JointSpace, joint_space, reachable_states
from hocket.task.teamwork.play import TeamMoves, play_team

MOST_JOINT_STATES = 20_000_000
MOST_JOINT_ACTIONS = 5**6
MOST_SWEEPS = 10_000
MOST_LISTED = 50_000_000  # joint actions in all joint states whose successors are listed


def find_space(tables: Tables, _: OptimalTeamSettings | None = None) -> JointSpace:
    """Number the joint states; refuse a team with too many of them, or too many joint actions."""
    try:
        space = joint_space(tables, MOST_JOINT_STATES)
    except TaskError as error:
        raise SettingsError(f"optimal-team: {str(error).partition(': ')[2]}") from None
    if len(ACTIONS) ** len(space.cells) > MOST_JOINT_ACTIONS:
        raise SettingsError(f"optimal-team plans for at most 6 agents, got {len(space.cells):,}")
    return space


def list_shapes(tables: Tables) -> Shapes:
    """List the arrays of a policy: the joint action of each joint state."""
    return {"action": (find_space(tables).states,)}


def extra_bytes(tables: Tables) -> int:
    """Estimate the bytes of expected steps and of the successors of joint actions."""
    space = find_space(tables)
    actions: int = len(ACTIONS) ** len(space.cells)
    return space.states * 24 + 8 * min(space.states * actions, MOST_LISTED)


class OptimalTeamBlock:
    """The optimal joint policy, the same for all seeds."""

    def __init__(self, tables: Tables, settings: OptimalTeamSettings, seeds: Sequence[int], threads: int = 1) -> None:
        self.space, self.settings = find_space(tables), settings

    def begin_with(self, world: WorldModel) -> None:
        """Plan with what was learnt of the map: untried moves lead nowhere."""
        self.space = replace(self.space, end=_known_ends(self.space, world))

    def train(self, begin: int, steps: int) -> None:
        self.arrays(0)  # which are planned once, as nothing is learnt

    @cached_property
    def action(self) -> Floats:
        """The best joint action of each joint state."""
        settings = self.settings
        return solve_jointly(self.space, settings.tolerance, settings.max_episode_steps, settings.discount)[1]

    def arrays(self, index: int) -> Arrays:
        return {"action": self.action}


def _known_ends(space: JointSpace, world: WorldModel) -> list[Ints]:
    """List where actions lead, if agents stay when a move was never tried: [agent][team state, cell, action]."""
    tables, known = space.tables, [world.is_tried(list_moves(next_cell)) for next_cell in space.tables.next_cell]
    ends = []
    for agent, end in enumerate(space.end):
        dynamics = tables.dynamics[agent, tables.team_class[agent]]
        is_known = known[tables.world[agent]][dynamics][:, space.cells[agent]]
        ends.append(np.where(is_known, end, end[..., STAY, None]))
    return ends


def solve_jointly(space: JointSpace, tolerance: float, most: int, discount: float = 1.0) -> tuple[Doubles, Floats]:
    """Compute the fewest expected steps of each joint state, a failure counting as the most, and the best action. Where
    a task has rewards: the largest discounted return. Joint states are looked at in the reverse order of how soon they
    can be reached, which is about that of how far they are from the end."""
    tables = space.tables
    scale = (float(np.abs(space.outcomes[1]).max(initial=0.0)) or 1.0) if tables.has_rewards else 1.0
    model, buffers = _joint_model(space, scale, discount), _joint_buffers(space)
    is_done = np.repeat(tables.team_final, space.stride(-1))
    value = np.where(is_done | tables.has_rewards, 0.0, float(most))
    action = np.zeros(space.states, np.float32)
    if model.aside or tables.has_rewards or not _count_steps(space, model, buffers, value, action):
        order = reachable_states(space)[::-1]
        order = np.ascontiguousarray(order[~is_done[order]])
        for _ in range(MOST_SWEEPS):
            if kernel.improve(order, model, value, action, float(most), buffers) <= tolerance:
                break
    return -scale * value if tables.has_rewards else value, action


def _joint_model(space: JointSpace, scale: float, discount: float) -> kernel.JointModel:
    """Make the kernels' arrays; agents with fewer cells are padded."""
    tables, agents, (settled, paid) = space.tables, range(len(space.cells)), space.outcomes
    end = np.zeros((len(agents), space.sizes[0], max(space.sizes[1:]), len(ACTIONS)), np.int64)
    kind, landing, cell = np.zeros((3, *end.shape[::2]), np.int64)
    kinds, strides = [int(kinds.max()) + 1 for kinds in space.kinds], [space.stride(agent) for agent in agents]
    for agent, (size, cells) in enumerate(zip(space.sizes[1:], space.cells, strict=True)):
        at = np.arange(size) % len(cells)
        end[agent, :, : space.end[agent].shape[1]] = space.end[agent]
        kind[agent, :size] = space.kinds[agent] * prod(kinds[agent + 1 :])
        landing[agent, :size], cell[agent, :size] = at * strides[agent], cells[at]
    joint = (np.array(space.sizes[1:]), np.array(strides), space.stride(-1), end, kind, prod(kinds), landing)
    cost = -paid / scale if tables.has_rewards else np.zeros(0)
    costs, bodies = (cost, discount, *outcome_probabilities(tables.slip)[:2]), (tables.body_rule, tables.body)
    return kernel.JointModel(*joint, settled.astype(np.int64), *costs, *bodies, cell)


def _joint_buffers(space: JointSpace) -> kernel.JointBuffers:
    agents = len(space.cells)
    landing, kind, goal = np.zeros((3, agents, len(ACTIONS)), np.int64)
    reached, situation = np.zeros((2, len(ACTIONS) ** agents), np.int64)
    before, after = np.zeros((2, agents), np.int64)
    held, claim = np.full(agents, -1, np.int64), np.zeros(len(space.tables.body), np.int64)
    block = np.zeros(len(reached))
    return kernel.JointBuffers(landing, kind, goal, reached, situation, block, before, after, held, claim)


def _count_steps(
    space: JointSpace, model: kernel.JointModel, buffers: kernel.JointBuffers, value: Doubles, action: Floats
) -> bool:
    """Write the fewest steps without slips; return False if there are too many joint actions to list."""
    size = min(space.states + kernel.ENDS, MOST_LISTED // len(buffers.block))
    order, node = np.empty(size, np.int64), np.full(space.states, -1, np.int32)
    following = np.empty((size, len(buffers.block)), np.int32)
    source, label = (part.astype(np.int32) for part in np.nonzero(space.tables.team_next >= 0))
    graph, _ = make_graph(space.sizes[0], source, label, space.tables.team_next[source, label])
    may_end = can_reach(graph, space.tables.team_final)
    end = np.where(space.tables.team_final, 0, np.where(may_end, -1, 1)).astype(np.int32)
    starts = np.unique(space.starts)
    starts = starts[end[space.team_state(starts)] < 0]
    count = kernel.ENDS + len(starts)
    if count > size:
        return False
    order[: kernel.ENDS], order[kernel.ENDS : count], node[starts] = 0, starts, np.arange(kernel.ENDS, count)
    count = kernel.explore(order, count, node, following, end, model, buffers)
    if count == kernel.FULL:
        return False
    first, leading = np.zeros(count + 2, np.int64), np.empty(count * len(buffers.block), np.int32)
    queue, steps = np.empty((2, count), np.int32)
    most = float(value.max(initial=0.0))
    kernel.count_back(order[:count], following[:count], first, leading, queue, steps, value, action, most, buffers)
    return True


class JointPlayer(Player):
    """Plays a joint policy; softmax is the same as greedy."""

    def __init__(self, tables: Tables, temperature: float, max_episode_steps: int) -> None:
        self.tables, self.space, self.most_steps = tables, find_space(tables), max_episode_steps
        self.moves = TeamMoves.true(tables)
        self.finish, self.event_time = np.zeros(len(tables.start), np.int64), np.zeros(len(tables.knowers), np.int64)
        self.returns = np.zeros(len(tables.start) * tables.has_rewards)
        self.keys = self._key(tables.team_class.T)  # of the team states
        self.team_state = np.argsort(self.keys, kind="stable")

    def _key(self, states: NDArray[np.integer]) -> Ints:
        """Number combinations of the states of agents' machines."""
        key: Ints = np.ravel_multi_index(tuple(states.T), tuple(self.tables.states.tolist()))
        return key

    def choose(self, cell: Ints, state: Ints, drawn: NDArray[np.floating]) -> NDArray[np.int8]:
        """Look up all agents' actions by their cells and machine states: [cases, N]; `drawn` is not used."""
        joint = self.team_state[np.searchsorted(self.keys, self._key(state), sorter=self.team_state)]
        for agent, (size, cells) in enumerate(zip(self.space.sizes[1:], self.space.cells, strict=True)):
            joint = joint * size + np.searchsorted(cells, cell[:, agent])
        number = np.nan_to_num(self.action[joint]).clip(0, len(ACTIONS) ** cell.shape[1] - 1).astype(np.int64)
        actions = np.unravel_index(number, (len(ACTIONS),) * cell.shape[1])
        return np.stack(actions, axis=1).astype(np.int8)

    def play_many(
        self, arrays: Arrays, seed: int, numbers: range, greedy: bool, record: Recording | None = None
    ) -> TestResults:
        tables, agents, self.action = self.tables, np.arange(len(self.finish)), arrays["action"]
        results, record = self.make_results(len(numbers)), record or recording(0, len(self.finish))
        results.finish[:] = np.where(tables.is_final[agents, tables.initial], 0, -1)
        results.event_time[:] = -1
        step = 0

        def watch(going: Ints, cell: Ints, action: NDArray[np.int8], settled: SettledCases) -> None:
            nonlocal step
            if going[0] == 0 and step < len(record.cell):
                record.cell[step], record.state[step], record.action[step] = cell[0], settled.state[0], action[0]
            step += 1
            finish = results.finish[going]
            is_fresh = (finish < 0) & tables.is_final[agents, settled.state]
            results.finish[going] = np.where(is_fresh, step, finish)
            results.returns[going] += settled.reward[:, : len(self.returns)]
            for cases, events in settled.rounds:
                rows = going[cases]
                unseen = results.event_time[rows, events] < 0
                results.event_time[rows[unseen], events[unseen]] = step

        play = partial(play_team, tables, self.choose, self.moves, seed=seed, purpose=TEAM, watch=watch)
        results.steps[:] = play(episodes=numbers, max_steps=self.most_steps, patience=self.most_steps + 1).steps
        return results
