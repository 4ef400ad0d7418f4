"""Test episodes for the report: success of the team and of each agent, visited cells, and episodes to watch."""

from __future__ import annotations

import numpy as np

from hocket.learn.catalogue import find_learner
from hocket.learn.learner import Player
from hocket.learn.policies import Policy
from hocket.learn.testing import recording
from hocket.random import TEAM, stream_key
from hocket.study.records import Replay, TestSummary
from hocket.task.tables import Tables, compile_task, draw_starts, settle
from hocket.task.task import Task
from hocket.task.teamwork.check import Stall, describe_stall

EPISODES = 100  # of a run, in which success and visits are counted ...
MOST_TEST_WORK = 10**8  # ... but at most as many as have so many agent-steps, and at least one
MOST_VISITS = 200_000  # agents times cells up to which visits are kept
MOST_RECORDED = 10**7  # agent-steps of an episode up to which its visits are counted
MOST_WATCHED = 20_000  # agent-steps of an episode up to which it is kept to be watched
FINAL_SEED = 2**62  # makes these episodes differ from those that were played during training


def play_tests(task: Task, tables: Tables, policy: Policy, most_episodes: int = EPISODES) -> TestSummary:
    """Play greedy episodes with a policy, and one of each kind of policy to be watched."""
    learner = find_learner(policy.learner)
    settings = learner.check_policy(policy.arrays, policy.settings, tables)
    most_steps = settings.max_episode_steps
    player = learner.player(tables, settings.temperature, most_steps)
    agents, cells = tables.offset.shape
    episodes = max(1, min(most_episodes, MOST_TEST_WORK // (agents * most_steps)))
    has_visits = agents * cells <= MOST_VISITS and agents * most_steps <= MOST_RECORDED
    visits = np.zeros((agents, cells if has_visits else 0), np.int64)
    policy_and_seeds = (policy.arrays, _seed(policy), range(episodes))
    if has_visits:
        played = player.count_visits(*policy_and_seeds, most_steps, visits)
    else:
        played = player.play_many(*policy_and_seeds, greedy=True)
    successes, agent_successes = int((played.steps >= 0).sum()), tuple((played.finish >= 0).sum(axis=0).tolist())
    kinds = {"softmax": False, "greedy": True}
    watched = {kind: watch(task, tables, player, policy, greedy, most_steps) for kind, greedy in kinds.items()}
    replays = {kind: replay for kind, replay in watched.items() if replay is not None}
    returns = sum(played.returns, np.zeros_like(player.returns)) / episodes
    return TestSummary(episodes, successes, agent_successes, visits, replays, "greedy", tuple(returns.tolist()))


def _seed(policy: Policy) -> int:
    return policy.seed ^ FINAL_SEED


def watch(task: Task, tables: Tables, player: Player, policy: Policy, greedy: bool, most_steps: int) -> Replay | None:
    """Play an episode and record it; None if it is too long to be watched."""
    agents = len(tables.start)
    record = recording(min(most_steps, MOST_WATCHED // agents), agents)
    taken = player.play(policy.arrays, _seed(policy), 0, greedy, record)
    length = taken if taken >= 0 else most_steps
    if length * agents > MOST_WATCHED:
        return None
    seeds, numbers = np.full(agents, _seed(policy), np.uint64), np.arange(agents, dtype=np.uint64)
    start = draw_starts(tables, stream_key(TEAM, seeds, numbers))
    cells = np.concatenate([start[None], record.cell[:length]]).astype(np.int64)  # [T + 1, N]
    states = np.concatenate([tables.initial[None], record.state[:length]])
    machines, events = [list(machine.states) for machine in task.machines.values()], list(task.events)
    settled = settle(tables, tables.kinds(cells[:-1], cells[1:]), states[:-1])
    rows, columns = np.divmod(cells, task.grid.columns)
    return Replay(
        taken >= 0,
        np.stack([columns, rows], axis=2) + 0.5,
        tuple(tuple(names[state] for names, state in zip(machines, row, strict=True)) for row in states.tolist()),
        tuple((step, events[event]) for step, happened in enumerate(settled.events(), start=1) for event in happened),
    )


def find_stall(task: Task, policy: Policy) -> Stall | None:
    """Play a greedy episode of a policy, and find where the team stalls; None if it completes the task."""
    tables, learner = compile_task(task), find_learner(policy.learner)
    settings = learner.check_policy(policy.arrays, policy.settings, tables)
    player = learner.player(tables, settings.temperature, settings.max_episode_steps)
    replay = watch(task, tables, player, policy, True, settings.max_episode_steps)
    return None if replay is None else stall_of(task, replay)


def stall_of(task: Task, replay: Replay) -> Stall | None:
    """Find where the team stalls in an episode; None if it completes the task, or is not an episode of this task."""
    columns, rows = np.floor(replay.points).astype(int).transpose(2, 0, 1)
    cells, machines = rows * task.grid.columns + columns, [machine.states for machine in task.machines.values()]
    fits = cells.shape[1] == len(machines) and (cells >= 0).all() and (cells < task.grid.cells).all()
    if replay.success or not fits:
        return None
    if any(state not in names for row in replay.states for names, state in zip(machines, row, strict=True)):
        return None
    states = list(zip(cells.tolist(), replay.states, strict=True))
    return describe_stall(task, [event for _, event in replay.events], states)
